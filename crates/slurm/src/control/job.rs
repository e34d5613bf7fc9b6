//! `scontrol update JobId=...`: what becomes of jobs.
//!
//! Only says what is asked for; whether it may be is the controller's business. Source:
//! scontrol(1), "JOBS - SPECIFICATIONS FOR UPDATE COMMAND", captures of 22.05.

use super::pairs::{Pair, pairs};
use crate::submit::times::{PastTime, limit, point};
use crate::submit::{constraint, count, depend, gres, mail};
use cosy_model::api::JobChange;
use cosy_model::job::{MailRequest, MemoryRequest, SwitchRequest};
use cosy_model::{CountedResources, MiB, Span};
use jiff::Zoned;

/// The parameters that are read.
const NAMES: &[&str] = &[
    "JobId",
    "JobName",
    "Name",
    "Account",
    "AdminComment",
    "ArrayTaskThrottle",
    "Comment",
    "Contiguous",
    "CPUsPerTask",
    "Deadline",
    "Dependency",
    "EligibleTime",
    "ExcNodeList",
    "Features",
    "Gres",
    "Licenses",
    "MailType",
    "MailUser",
    "MinMemoryCPU",
    "MinMemoryNode",
    "MinTmpDiskNode",
    "Nice",
    "NodeList",
    "NumCPUs",
    "NumNodes",
    "NumTasks",
    "OverSubscribe",
    "Partition",
    "Priority",
    "QOS",
    "ReqNodeList",
    "ReqNodes",
    "ReqProcs",
    "Requeue",
    "ReservationName",
    "Shared",
    "SiteFactor",
    "StartTime",
    "StdErr",
    "StdIn",
    "StdOut",
    "Switches",
    "TasksPerNode",
    "TimeLimit",
    "TimeMin",
    "UserID",
    "WCKey",
    "WorkDir",
];

/// A change of the time limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limit {
    /// A new one.
    To(Span),
    /// So much more.
    More(Span),
    /// So much less.
    Less(Span),
}

/// What is asked for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Update {
    /// Ids as given; empty: those named so.
    pub ids: String,
    /// Name of the jobs, where no ids are given.
    pub named: Option<String>,
    /// User of the jobs.
    pub user: Option<String>,
    /// What becomes of them.
    pub change: JobChange,
    /// Of their time limit.
    pub limit: Option<Limit>,
    /// Reservation by name.
    pub reservation: Option<String>,
    /// Only administrators may ask for that in Slurm.
    pub needs_admin: bool,
}

/// Lines for standard error.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UpdateError(pub Vec<String>);

impl UpdateError {
    /// `scontrol: error: Invalid TimeLimit value`.
    pub(super) fn value(name: &str) -> Self {
        Self(vec![format!("scontrol: error: Invalid {name} value")])
    }

    /// A parameter that is not there, or not here.
    pub fn unsupported(word: &str) -> Self {
        let word: String = word.chars().take(200).collect();
        Self(vec![
            format!("Update of this parameter is not supported: {word}"),
            "Request aborted".to_owned(),
        ])
    }
}

/// Reads the words of an update of jobs.
///
/// # Errors
/// The first word that makes no sense.
pub fn read(words: &[String], now: &Zoned) -> Result<Update, UpdateError> {
    let mut update = Update::default();
    let pairs = pairs(words, &["Nice"]);
    let has_ids = pairs.iter().any(|p| p.key(NAMES) == Some("JobId"));
    for pair in &pairs {
        let key = pair.key(NAMES);
        let key = key.ok_or_else(|| UpdateError::unsupported(pair.word))?;
        match key {
            "JobId" => update.ids = pair.text().to_owned(),
            "JobName" | "Name" if !has_ids => update.named = Some(pair.text().to_owned()),
            "UserID" => update.user = Some(pair.text().to_owned()),
            "ReservationName" => update.reservation = Some(pair.text().to_owned()),
            "TimeLimit" => update.limit = Some(limit_of(pair.text())?),
            "Contiguous" => {
                update.needs_admin = true;
                update.change.contiguous = Some(yes(key, pair.text())?);
            }
            _ => set(&mut update, key, pair, now)?,
        }
    }
    Ok(update)
}

pub(super) fn limit_of(text: &str) -> Result<Limit, UpdateError> {
    let (text, kind): (&str, fn(Span) -> Limit) = match text.as_bytes() {
        [b'+', ..] => (&text[1..], Limit::More),
        [b'-', rest @ ..] if rest != b"1" => (&text[1..], Limit::Less),
        _ => (text, Limit::To),
    };
    let length = limit(text).ok_or_else(|| UpdateError::value("TimeLimit"))?;
    Ok(kind(length))
}

fn set(update: &mut Update, key: &str, pair: &Pair<'_>, now: &Zoned) -> Result<(), UpdateError> {
    let text = pair.text();
    let owned = || Some(text.to_owned());
    let path = || Some(text.into());
    let change = &mut update.change;
    match key {
        "JobName" | "Name" => change.name = owned(),
        "Account" => change.account = owned(),
        "Comment" => change.comment = owned(),
        "AdminComment" => change.admin_comment = owned(),
        "Partition" => change.queue = owned(),
        "QOS" => change.qos = owned(),
        "WCKey" => change.wckey = owned(),
        "StdOut" => change.stdout = path(),
        "StdErr" => change.stderr = path(),
        "StdIn" => change.stdin = path(),
        "WorkDir" => change.workdir = path(),
        "Requeue" => change.requeue = Some(yes(key, text)?),
        "OverSubscribe" | "Shared" => change.exclusive = Some(!yes(key, text)?),
        "EligibleTime" | "StartTime" => change.begin = Some(time(key, text, now)?),
        "Deadline" => {
            change.deadline = Some(time(key, text, now)?);
            update.needs_admin = true;
        }
        "TimeMin" => change.time_min = Some(limit(text).ok_or_else(|| UpdateError::value(key))?),
        "MailType" | "MailUser" => mails(change, key, text)?,
        "Dependency" | "Features" | "Gres" | "Licenses" | "NodeList" | "ReqNodeList"
        | "ExcNodeList" => {
            lists(change, key, text)?;
        }
        "MinTmpDiskNode" => {
            change.disk_per_node = Some(size(key, text)?);
            update.needs_admin = true;
        }
        _ => numbers(change, key, pair)?,
    }
    Ok(())
}

fn numbers(change: &mut JobChange, key: &str, pair: &Pair<'_>) -> Result<(), UpdateError> {
    let text = pair.text();
    let bad = || UpdateError::value(key);
    let number = || text.parse::<u32>().map_err(|_| bad());
    match key {
        "ArrayTaskThrottle" => change.at_once = Some(number()?),
        "CPUsPerTask" => change.cores_per_task = Some(number()?),
        "TasksPerNode" => change.tasks_per_node = Some(number()?),
        "NumTasks" | "ReqProcs" => change.tasks = Some(number()?),
        "NumCPUs" => {
            let least = text.split('-').next().unwrap_or_default();
            change.tasks = Some(least.parse().map_err(|_| bad())?);
        }
        "NumNodes" | "ReqNodes" => {
            let nodes = count::nodes(text).map_err(|_| bad())?;
            change.nodes = Some(nodes.least);
            change.max_nodes = text.contains('-').then_some(nodes.most);
        }
        "Switches" => {
            change.switches = Some(SwitchRequest::of_change(text).map_err(|_| bad())?);
        }
        "Priority" => change.priority = Some(number()?),
        "Nice" if pair.value.is_none() => change.nice = Some(100),
        "Nice" => change.nice = Some(text.parse::<i32>().map_err(|_| bad())?.into()),
        "SiteFactor" => change.site_factor = Some(text.parse::<i32>().map_err(|_| bad())?.into()),
        "MinMemoryCPU" => change.memory = Some(MemoryRequest::PerCore(size(key, text)?)),
        "MinMemoryNode" => change.memory = Some(MemoryRequest::PerNode(size(key, text)?)),
        _ => return Err(UpdateError::unsupported(pair.word)),
    }
    Ok(())
}

/// Lists that an empty value clears.
fn lists(change: &mut JobChange, key: &str, text: &str) -> Result<(), UpdateError> {
    let bad = || UpdateError::value(key);
    let hosts = || match text {
        "" => Ok(Vec::new()),
        _ => cosy_model::expand(text).map_err(|_| bad()),
    };
    match key {
        "NodeList" => change.keep_nodes = Some(hosts()?),
        "ReqNodeList" => change.require = Some(hosts()?),
        "ExcNodeList" => change.avoid = Some(hosts()?),
        "Licenses" => {
            change.licenses = Some(match text {
                "" => CountedResources::default(),
                _ => gres::licenses(text).map_err(|_| bad())?,
            });
        }
        "Gres" => {
            let amounts = gres::Amounts::read(if text.is_empty() { "none" } else { text });
            let amounts = amounts.map_err(|_| bad())?;
            change.gpus_per_node = Some(amounts.gpus);
            change.other_per_node = Some(amounts.other);
        }
        "Dependency" => {
            let wanted = match text {
                "" => depend::Depend::default(),
                _ => depend::read(text).map_err(|_| bad())?,
            };
            change.any_dependency = Some(wanted.any);
            change.dependencies = Some(wanted.all);
        }
        _ => {
            let wanted = match text {
                "" => constraint::Features::default(),
                _ => constraint::read(text).map_err(|_| bad())?,
            };
            change.features = Some(wanted.all);
            change.any_features = Some(wanted.any);
            change.same_features = Some(wanted.same);
            change.counted_features = Some(wanted.counted);
        }
    }
    Ok(())
}

fn mails(change: &mut JobChange, key: &str, text: &str) -> Result<(), UpdateError> {
    let present = change.mail.take().unwrap_or_default();
    let new = if key == "MailUser" {
        MailRequest {
            to: text.to_owned(),
            ..present
        }
    } else {
        MailRequest {
            to: present.to,
            ..mail::read(text).map_err(|_| UpdateError::value(key))?
        }
    };
    change.mail = Some(new);
    Ok(())
}

fn yes(key: &str, text: &str) -> Result<bool, UpdateError> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "yes" | "y" | "true" => Ok(true),
        "0" | "no" | "n" | "false" => Ok(false),
        _ => Err(UpdateError::value(key)),
    }
}

fn size(key: &str, text: &str) -> Result<MiB, UpdateError> {
    text.parse().map_err(|_| UpdateError::value(key))
}

fn time(key: &str, text: &str, now: &Zoned) -> Result<cosy_model::Time, UpdateError> {
    point(text, now, PastTime::Next).map_err(|e| {
        let mut mistake = UpdateError::value(key);
        mistake.0.insert(0, e.to_string());
        mistake
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::Time;
    use proptest::prelude::*;

    fn now() -> Zoned {
        jiff::Timestamp::from_second(1_795_262_400)
            .unwrap()
            .to_zoned(jiff::tz::TimeZone::UTC)
    }

    fn one(line: &str) -> Result<Update, String> {
        let words: Vec<String> = format!("JobId=7 {line}")
            .split_whitespace()
            .map(str::to_owned)
            .collect();
        read(&words, &now()).map_err(|m| m.0.join("|"))
    }

    #[test]
    fn changes() {
        let check = |line: &str, want: JobChange| {
            let update = one(line).unwrap();
            assert_eq!((update.ids.as_str(), update.change), ("7", want), "{line}");
        };
        let none = JobChange::default;
        check("", none());
        check(
            "NumNodes=2 nice",
            JobChange {
                nodes: Some(2),
                nice: Some(100),
                ..none()
            },
        );
        check(
            "numnodes=2-4 Requeue=0",
            JobChange {
                nodes: Some(2),
                max_nodes: Some(4),
                requeue: Some(false),
                ..none()
            },
        );
        check(
            "Partition=short JobName=new Comment=a=b",
            JobChange {
                queue: Some("short".into()),
                name: Some("new".into()),
                comment: Some("a=b".into()),
                ..none()
            },
        );
        check(
            "StartTime=now+1hour",
            JobChange {
                begin: Some(Time::from_secs(1_795_262_400 + 3600)),
                ..none()
            },
        );
        check(
            "Dependency= ReqNodeList=n[1-2] ExcNodeList=",
            JobChange {
                dependencies: Some(vec![]),
                any_dependency: Some(false),
                require: Some(vec!["n1".into(), "n2".into()]),
                avoid: Some(vec![]),
                ..none()
            },
        );
        check(
            "MinMemoryNode=10 OverSubscribe=no",
            JobChange {
                memory: Some(MemoryRequest::PerNode(MiB(10))),
                exclusive: Some(true),
                ..none()
            },
        );
    }

    #[test]
    fn limits_and_the_rest() {
        let limit = |line: &str| one(line).unwrap().limit;
        assert_eq!(limit("TimeLimit=20"), Some(Limit::To(Span::from_minutes(20))));
        assert_eq!(limit("TimeLimit=+20"), Some(Limit::More(Span::from_minutes(20))));
        assert_eq!(limit("TimeLimit=-5"), Some(Limit::Less(Span::from_minutes(5))));
        assert_eq!(limit("TimeLimit=-1"), Some(Limit::To(Span::UNLIMITED)));
        assert!(one("Deadline=now+1day").unwrap().needs_admin);
        assert_eq!(one("ReservationName=r").unwrap().reservation.as_deref(), Some("r"));
        let named = read(&["JobName=x".into(), "Nice=5".into()], &now()).unwrap();
        assert_eq!((named.named.as_deref(), named.change.nice), (Some("x"), Some(5)));
    }

    #[test]
    fn mistakes() {
        let check = |line: &str, want: &str| assert_eq!(one(line), Err(want.to_owned()));
        check("TimeLimit=foo", "scontrol: error: Invalid TimeLimit value");
        check("Foo=1", "Update of this parameter is not supported: Foo=1|Request aborted");
        check("NumNodes=x", "scontrol: error: Invalid NumNodes value");
        check(
            "StartTime=foo",
            "Invalid time specification (pos=0): foo|scontrol: error: Invalid StartTime value",
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn any_word(key in 0..NAMES.len(), value in "\\PC{0,12}") {
            let _ = read(&[format!("{}={value}", NAMES[key])], &now());
        }
    }
}
