//! `scontrol create reservation` and `update ReservationName=...`. Source: scontrol(1),
//! "RESERVATIONS - SPECIFICATIONS", captures of 22.05.

use super::job::UpdateError;
use super::pairs::Pair;
use crate::submit::gres;
use crate::submit::times::{PastTime, limit, point};
use cosy_model::job::ResourceRequest;
use cosy_model::reservation::{
    NamesChange, Repeat, ReservationSpec, Sharing, SharingChange, StartChoice,
};
use cosy_model::{CountedResources, Span, Time};
use jiff::{ToSpan, Zoned};

/// The parameters that are read.
const NAMES: &[&str] = &[
    "ReservationName",
    "Accounts",
    "CoreCnt",
    "Duration",
    "EndTime",
    "Features",
    "Flags",
    "Groups",
    "Licenses",
    "NodeCnt",
    "Nodes",
    "PartitionName",
    "StartTime",
    "Users",
];

/// All flags. Those that are taken, but for those of repetition, say what is so here anyway, or
/// what is refused by the controller when it cannot be (`IGNORE_JOBS`: jobs in the way;
/// `OVERLAP`: another reservation).
const FLAGS: &[&str] = &[
    "ANY_NODES",
    "DAILY",
    "FIRST_CORES",
    "FLEX",
    "HOURLY",
    "IGNORE_JOBS",
    "LICENSE_ONLY",
    "MAGNETIC",
    "MAINT",
    "NO_HOLD_JOBS_AFTER",
    "NO_HOLD_JOBS_AFTER_END",
    "OVERLAP",
    "PART_NODES",
    "REPLACE",
    "REPLACE_DOWN",
    "SPEC_NODES",
    "STATIC_ALLOC",
    "TIME_FLOAT",
    "USER_DELETE",
    "WEEKDAY",
    "WEEKEND",
    "WEEKLY",
];
/// Flags that would make another reservation of it, and what there is instead.
const REFUSED: &[(&str, &str)] = &[
    ("FLEX", "jobs run inside its time and on its nodes only"),
    ("HOURLY", "it can repeat by days and weeks (DAILY, WEEKLY, WEEKDAY, WEEKEND)"),
    (
        "LICENSE_ONLY",
        "jobs run on the nodes of their reservation: give those that they need (Nodes, NodeCnt or CoreCnt) with Licenses",
    ),
    ("MAGNETIC", "jobs have to name the reservation"),
    ("REPLACE", "only nodes that are lost are replaced (REPLACE_DOWN)"),
    ("TIME_FLOAT", "it has one start"),
];
/// How many days ahead a repeating reservation is booked.
const DAYS: i64 = 28;

/// What is asked for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ReservationChange {
    /// Name; made of owner and number without.
    pub name: String,
    /// `StartTime`; not given with an update that leaves it alone.
    pub start: Option<Time>,
    /// `EndTime`, instead of a length.
    pub end: Option<Time>,
    /// `Duration`, instead of an end.
    pub length: Option<Span>,
    /// Who may use it.
    pub sharing: Sharing,
    /// The same for one that is there.
    pub sharing_change: SharingChange,
    /// Nodes by name; all of the partition for `ALL`.
    pub nodes: Vec<String>,
    /// All nodes of the partition.
    pub all_nodes: bool,
    /// Number of nodes.
    pub node_count: Option<u32>,
    /// Number of cores.
    pub cores: Option<u32>,
    /// `PartitionName`: where nodes are taken from that are not named.
    pub partition: Option<String>,
    /// Features that nodes must have.
    pub features: Vec<String>,
    /// Licences that it keeps; not given with an update that leaves them alone.
    pub licenses: Option<CountedResources>,
    /// Flags, in capital letters.
    pub flags: Vec<String>,
    /// Words that change something beside the end, the licences and who may use it.
    pub others: Vec<String>,
}

fn error(text: &str) -> UpdateError {
    UpdateError(vec![format!("scontrol: error: {text}")])
}

fn list(text: &str) -> Vec<String> {
    let words = text.split(',').filter(|w| !w.is_empty());
    words.map(str::to_owned).collect()
}

/// Reads the words, `reservation` left out.
///
/// # Errors
/// The first word that makes no sense.
pub fn read(words: &[String], now: &Zoned) -> Result<ReservationChange, UpdateError> {
    let mut wanted = ReservationChange::default();
    for word in words {
        let (pair, sign) = signed(Pair::of(word));
        let key = pair.key(NAMES);
        let key = key.or_else(|| pair.key(&["Name"]).map(|_| "ReservationName"));
        let key = key.ok_or_else(|| {
            error(&format!(
                "Unknown parameter {}.  No reservation created.",
                crate::show::clean(word)
            ))
        })?;
        match key {
            "ReservationName" | "Duration" | "EndTime" => {}
            "Licenses" if sign.is_none() => {}
            "Users" => change(&mut wanted.sharing_change.users, pair.text(), sign),
            "Groups" => change(&mut wanted.sharing_change.groups, pair.text(), sign),
            "Accounts" => change(&mut wanted.sharing_change.accounts, pair.text(), sign),
            _ => wanted.others.push(word.clone()),
        }
        set(&mut wanted, key, &pair, now)?;
    }
    Ok(wanted)
}

/// `Users+=bob` and `Users-=bob`: the sign is no part of the name.
fn signed(pair: Pair<'_>) -> (Pair<'_>, Option<char>) {
    let sign = pair.name.chars().last().filter(|c| matches!(c, '+' | '-'));
    let name = pair.name.strip_suffix(['+', '-']).unwrap_or(pair.name);
    (Pair { name, ..pair }, sign)
}

/// A list anew, or with a sign, before the `=` or before names, one that is added to or taken
/// from.
fn change(names: &mut NamesChange, text: &str, sign: Option<char>) {
    let words = list(text);
    names.anew |= sign.is_none() && !words.iter().any(|w| w.starts_with(['+', '-']));
    for word in words {
        let own = word.chars().next().filter(|c| matches!(c, '+' | '-'));
        let name = word.trim_start_matches(['+', '-']).to_owned();
        match own.or(sign) {
            Some('-') => names.remove.push(name),
            Some(_) | None => names.add.push(name),
        }
    }
}

fn set(
    wanted: &mut ReservationChange,
    key: &str,
    pair: &Pair<'_>,
    now: &Zoned,
) -> Result<(), UpdateError> {
    let text = pair.text();
    let bad =
        |what: &str| error(&format!("Invalid {what} {}.  No reservation created.", pair.word));
    let number = |what| text.parse::<u32>().map_err(|_| bad(what));
    match key {
        "ReservationName" => text.clone_into(&mut wanted.name),
        "StartTime" => wanted.start = Some(time(text, now, &bad("start time"))?),
        "EndTime" => wanted.end = Some(time(text, now, &bad("end time"))?),
        "Duration" => wanted.length = Some(limit(text).ok_or_else(|| bad("duration"))?),
        "Users" => wanted.sharing.users = list(text),
        "Groups" => wanted.sharing.groups = list(text),
        "Accounts" => wanted.sharing.accounts = list(text),
        "Nodes" if text.eq_ignore_ascii_case("all") => wanted.all_nodes = true,
        "Nodes" => wanted.nodes = cosy_model::expand(text).map_err(|_| bad("node list"))?,
        "NodeCnt" => wanted.node_count = Some(number("node count")?),
        "CoreCnt" => wanted.cores = Some(number("core count")?),
        "Licenses" => {
            // An empty list is none.
            wanted.licenses = Some(match text.is_empty() {
                true => CountedResources::default(),
                false => gres::licenses(text).map_err(|_| bad("licenses"))?,
            });
        }
        "PartitionName" => wanted.partition = Some(text.to_owned()),
        "Features" => {
            let words = text.split(['&', ',']).filter(|w| !w.is_empty());
            wanted.features = words.map(str::to_owned).collect();
        }
        _ => {
            for flag in list(text) {
                let flag = flag.to_ascii_uppercase();
                let mut begin = FLAGS.iter().filter(|f| f.starts_with(&flag));
                let exact = FLAGS.iter().find(|f| **f == flag);
                let known = exact.or_else(|| begin.next().filter(|_| flag.len() >= 3));
                let known = known.ok_or_else(|| {
                    error(&format!("Error parsing flags {}.  No reservation created.", pair.word))
                })?;
                if let Some((flag, why)) = REFUSED.iter().find(|(flag, _)| flag == known) {
                    let text = format!("The flag {flag} is not supported here: {why}.");
                    return Err(error(&format!("{text}  No reservation created.")));
                }
                wanted.flags.push((*known).to_owned());
            }
        }
    }
    Ok(())
}

fn time(text: &str, now: &Zoned, bad: &UpdateError) -> Result<Time, UpdateError> {
    point(text, now, PastTime::Next).map_err(|e| {
        let mut lines = vec![e.to_string()];
        lines.extend(bad.0.clone());
        UpdateError(lines)
    })
}

impl ReservationChange {
    /// The request to the controller. `all` are the nodes that `ALL` stands for.
    ///
    /// # Errors
    /// What is missing.
    pub fn ask(&self, now: &Zoned, all: &[String]) -> Result<ReservationSpec, UpdateError> {
        let missing = |what: &str| error(&format!("{what}.  No reservation created."));
        let start = self
            .start
            .ok_or_else(|| missing("A start time must be given"))?;
        let length = match (self.length, self.end) {
            (Some(length), _) => length,
            (None, Some(end)) => end.since(start),
            (None, None) => return Err(missing("An end time or duration must be given")),
        };
        let for_nobody = self.sharing == Sharing::default();
        if for_nobody {
            return Err(missing("Either Users/Groups and/or Accounts/QOS must be specified"));
        }
        let require = if self.all_nodes { all } else { &self.nodes };
        let whole = self.cores.is_none();
        let nodes = match (require.len(), self.node_count) {
            (0, None) if whole => {
                return Err(missing(
                    "Either Nodes, NodeCnt, CoreCnt or Partition must be specified",
                ));
            }
            (0, count) => count,
            (named, _) => Some(u32::try_from(named).unwrap_or(u32::MAX)),
        };
        let request = ResourceRequest {
            nodes,
            tasks: self.cores,
            exclusive: whole,
            require: require.to_vec(),
            features: self.features.clone(),
            ..ResourceRequest::default()
        };
        let present = Time(now.timestamp().as_millisecond());
        let at_once = start <= present;
        let repeat = self.repeat(start, now).filter(|_| !at_once);
        let pick = match at_once {
            true => StartChoice::Soonest,
            false => StartChoice::At(start),
        };
        Ok(ReservationSpec {
            name: self.name.clone(),
            queue: self.partition.clone(),
            latest_end: at_once.then(|| present + length + SLACK),
            repeat,
            licenses: self.licenses.clone().unwrap_or_default(),
            sharing: self.sharing.clone(),
            flags: self.kept_flags(),
            ..ReservationSpec::plain(request, length, pick)
        })
    }

    /// Those that are shown again: what says how nodes were named is known otherwise.
    fn kept_flags(&self) -> Vec<String> {
        let told = |flag: &&String| !matches!(flag.as_str(), "SPEC_NODES" | "PART_NODES");
        self.flags.iter().filter(told).cloned().collect()
    }

    /// The starts of a repeating reservation, by the clock on the wall.
    fn repeat(&self, start: Time, now: &Zoned) -> Option<Repeat> {
        let has = |flag: &str| self.flags.iter().any(|f| f == flag);
        let (rule, step) = if has("DAILY") || has("WEEKDAY") || has("WEEKEND") {
            ("FREQ=DAILY", 1)
        } else if has("WEEKLY") {
            ("FREQ=WEEKLY", 7)
        } else {
            return None;
        };
        let first = jiff::Timestamp::from_millisecond(start.0).ok()?;
        let first = first.to_zoned(now.time_zone().clone());
        let weekend = |z: &Zoned| z.weekday().to_monday_zero_offset() >= 5;
        let fits = |z: &Zoned| (!has("WEEKDAY") || !weekend(z)) && (!has("WEEKEND") || weekend(z));
        let days = (0..DAYS)
            .step_by(step)
            .map(|n| first.checked_add(n.days()).ok());
        let days = days.flatten().filter(fits);
        Some(Repeat {
            rule: rule.to_owned(),
            starts: days.map(|z| Time(z.timestamp().as_millisecond())).collect(),
            as_many_as_fit: true,
        })
    }
}

/// How late one that is to begin at once may begin.
const SLACK: Span = Span::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOON: i64 = 1_795_262_400;

    fn now() -> Zoned {
        jiff::Timestamp::from_second(NOON)
            .unwrap()
            .to_zoned(jiff::tz::TimeZone::UTC)
    }

    fn ask(line: &str) -> Result<ReservationSpec, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let wanted = read(&words, &now());
        let asked = wanted.and_then(|w| w.ask(&now(), &["n1".into(), "n2".into()]));
        asked.map_err(|m| m.0.join("|"))
    }

    #[test]
    fn changes_of_who_may_use_it() {
        let check = |words: &str, want: (bool, &[&str], &[&str])| {
            let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
            let wanted = read(&words, &now()).unwrap();
            let users = &wanted.sharing_change.users;
            let got = (users.anew, users.add.clone(), users.remove.clone());
            let owned = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect();
            assert_eq!(got, (want.0, owned(want.1), owned(want.2)), "{words:?}");
            assert!(wanted.others.is_empty(), "{words:?}");
        };
        check("res=r1 users=a,b", (true, &["a", "b"], &[]));
        check("res=r1 Users+=a", (false, &["a"], &[]));
        check("res=r1 users-=a,b", (false, &[], &["a", "b"]));
        check("res=r1 users=+a,-b", (false, &["a"], &["b"]));
        check("res=r1 endtime=now+1hour", (false, &[], &[]));
        assert!(read(&["+=x".to_owned()], &now()).is_err());
    }

    #[test]
    fn changes_of_licences() {
        let check = |word: &str, want: Option<&str>, others: usize| {
            let wanted = read(&["res=r1".to_owned(), word.to_owned()], &now()).unwrap();
            let licenses = wanted.licenses.map(|all| {
                let all: Vec<String> = all.iter().map(|(l, n)| format!("{l}:{n}")).collect();
                all.join(",")
            });
            assert_eq!((licenses.as_deref(), wanted.others.len()), (want, others), "{word}");
        };
        check("licenses=matlab:2,ansys", Some("ansys:1,matlab:2"), 0);
        check("Licenses=", Some(""), 0);
        check("endtime=now+1hour", None, 0);
        // There is no such sign in Slurm, and it is not taken for the whole list.
        check("licenses+=matlab:2", Some("matlab:2"), 1);
        let kept = ask("starttime=now duration=5 users=a nodecnt=1 licenses=matlab:2").unwrap();
        assert_eq!(kept.licenses.get("matlab"), 2);
        let odd = read(&["licenses=matlab:x".to_owned()], &now()).unwrap_err();
        assert!(odd.0[0].contains("Invalid licenses licenses=matlab:x"), "{odd:?}");
    }

    #[test]
    fn requests() {
        let one =
            ask("reservationname=r1 starttime=now+1hour duration=60 users=root nodes=n1").unwrap();
        assert_eq!(one.pick, StartChoice::At(Time::from_secs(NOON + 3600)));
        assert_eq!(one.length, Span::from_minutes(60));
        assert_eq!((one.name.as_str(), one.request.require.len()), ("r1", 1));
        assert!(one.request.exclusive);
        let two = ask("starttime=now duration=0:30 users=a,b nodecnt=2 flags=ignore_jobs").unwrap();
        assert_eq!((two.pick, two.length), (StartChoice::Soonest, Span::from_minutes(1)));
        assert_eq!((two.request.nodes, two.sharing.users.len()), (Some(2), 2));
        let all = ask("start=now+1hour end=now+3hours accounts=x nodes=ALL").unwrap();
        assert_eq!((all.request.nodes, all.length), (Some(2), Span::from_minutes(120)));
        let cores = ask("start=now+1hour duration=5 users=a corecnt=6").unwrap();
        assert_eq!((cores.request.tasks, cores.request.exclusive), (Some(6), false));
        let day = ask("start=now+1day duration=10 users=a nodes=n1 flags=daily,maint").unwrap();
        assert_eq!(day.repeat.map(|r| (r.rule, r.starts.len())), Some(("FREQ=DAILY".into(), 28)));
        let work = ask("start=now+1day duration=10 users=a nodes=n1 flags=weekday").unwrap();
        assert_eq!(work.repeat.map(|r| r.starts.len()), Some(20));
    }

    #[test]
    fn mistakes() {
        let check = |line: &str, want: &str| assert_eq!(ask(line), Err(want.to_owned()), "{line}");
        check(
            "duration=60",
            "scontrol: error: A start time must be given.  No reservation created.",
        );
        check(
            "starttime=foo duration=60",
            "Invalid time specification (pos=0): foo|\
             scontrol: error: Invalid start time starttime=foo.  No reservation created.",
        );
        check(
            "starttime=now users=a nodecnt=1",
            "scontrol: error: An end time or duration must be given.  No reservation created.",
        );
        check(
            "starttime=now duration=5 users=a nodecnt=1 flags=odd",
            "scontrol: error: Error parsing flags flags=odd.  No reservation created.",
        );
        check(
            "starttime=now duration=5 users=a nodecnt=1 flags=maint,flex",
            "scontrol: error: The flag FLEX is not supported here: jobs run inside its time and \
             on its nodes only.  No reservation created.",
        );
        assert!(ask("starttime=now duration=5 users=a nodecnt=1 flags=replace_down").is_ok());
        check(
            "starttime=now duration=5 users=a licenses=matlab:3 flags=LICENSE_ONLY",
            "scontrol: error: The flag LICENSE_ONLY is not supported here: jobs run on the nodes of \
             their reservation: give those that they need (Nodes, NodeCnt or CoreCnt) with Licenses.  \
             No reservation created.",
        );
        for flag in ["HOURLY", "magnetic", "time_float", "replace"] {
            let line = format!("starttime=now duration=5 users=a nodecnt=1 flags={flag}");
            assert!(ask(&line).is_err(), "{flag}");
        }
        check(
            "starttime=now duration=5 users=a",
            "scontrol: error: Either Nodes, NodeCnt, CoreCnt or Partition must be specified.  \
             No reservation created.",
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn any_word(key in 0..NAMES.len(), value in "\\PC{0,12}") {
            let _ = ask(&format!("{}={value}", NAMES[key]));
        }
    }
}
