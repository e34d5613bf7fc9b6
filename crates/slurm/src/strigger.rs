//! `strigger`: its command line, and the list of triggers.
//!
//! What is read stands in [`OPTIONS`]; [`asked`] makes a request of it. Events of parts that
//! do not exist here (a database, a second controller, burst buffers) are known by name and
//! refused: a trigger that never fires helps nobody. Source: strigger(1), captures.

use crate::getopt::{Argument, GivenOption, Opt, Parsed};
use crate::table::Row;
use cosy_model::{
    JobId, OsText, Span, TriggerEvent, TriggerId, TriggerInfo, TriggerSpec, TriggerTarget, fold,
    limits,
};
use std::collections::BTreeSet;
use std::os::unix::ffi::OsStringExt;

/// What the original complains about when its mode is not clear.
const MODE: &str = "You must use exactly one of the following options: --set, --get or --clear";
/// The same without an event.
const NO_EVENT: &str = "You must specify a trigger (--down, --up, --drained, --fail, --idle, \
     --reconfig, --time or --fini)";

/// All options of `strigger`, as `--help` lists them.
pub const OPTIONS: &[Row] = &[
    Row::long_flag("set", "create a trigger"),
    Row::long_flag("get", "list triggers"),
    Row::long_flag("clear", "remove triggers"),
    never(b'a', "primary_slurmctld_failure"),
    never(b'A', "primary_slurmctld_resumed_operation"),
    never(b'b', "primary_slurmctld_resumed_control"),
    never(b'B', "backup_slurmctld_failure"),
    never(b'c', "backup_slurmctld_resumed_operation"),
    never(b'C', "backup_slurmctld_assumed_control"),
    never(b'e', "primary_slurmctld_acct_buffer_full"),
    never(b'g', "primary_slurmdbd_failure"),
    never(b'G', "primary_slurmdbd_resumed_operation"),
    never(b'h', "primary_database_failure"),
    never(b'H', "primary_database_resumed_operation"),
    Row::hidden(Opt::long("burst_buffer", Argument::Nothing)),
    Row::hidden(Opt::long("front_end", Argument::Nothing)),
    Row::flag(b'd', "down", "when a node goes down"),
    Row::flag(b'D', "drained", "when a node is drained"),
    Row::flag(b'F', "fail", "when a node's health check complains"),
    Row::flag(b'f', "fini", "when the job has ended"),
    Row::long_value("flags", "FLAGS", "perm: the trigger stays after the event"),
    Row::value(b'i', "id", "ID", "the trigger with this number"),
    Row::flag(b'I', "idle", "when a node stays idle for the time of --offset"),
    Row::value(b'j', "jobid", "ID", "of this job"),
    Row::value(b'M', "cluster", "NAME", "cluster: only this one here"),
    Row::hidden(Opt::long("clusters", Argument::Value).known_as("cluster")),
    Row::value(b'n', "node", "host", "of these nodes; of all without a value").perhaps(),
    Row::flag(b'N', "noheader", "without the line of titles"),
    Row::value(b'o', "offset", "SECONDS", "run the program so long after the event"),
    Row::value(b'p', "program", "PATH", "what to run, with arguments if there are any"),
    Row::flag(b'Q', "quiet", "say nothing of triggers that are not there"),
    Row::flag(b'r', "reconfig", "when the configuration changes"),
    Row::flag(b't', "time", "when the job's time limit is reached"),
    Row::flag(b'u', "up", "when a node is back that was down"),
    Row::long_value("user", "NAME", "those of this user"),
    Row::flag(b'v', "verbose", "say what was done"),
    Row::flag(b'V', "version", "say the version, and exit"),
    Row::long_flag("help", "say what options there are, and exit"),
    Row::long_flag("usage", "say how it is called, and exit"),
];

/// An event that cannot happen here.
const fn never(short: u8, long: &'static str) -> Row {
    Row::hidden(Opt::both(short, long, Argument::Nothing))
}

/// Names of events, as options and in lists.
const EVENTS: [(&str, TriggerEvent); 8] = [
    ("down", TriggerEvent::Down),
    ("up", TriggerEvent::Up),
    ("drained", TriggerEvent::Drained),
    ("fail", TriggerEvent::Fail),
    ("idle", TriggerEvent::Idle),
    ("reconfig", TriggerEvent::Reconfigured),
    ("time", TriggerEvent::TimeLimit),
    ("fini", TriggerEvent::Ended),
];

/// What a command line wants.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Invocation {
    /// What is to be done.
    pub action: Action,
    /// To tell what was done.
    pub verbose: bool,
    /// To be silent about what is not there.
    pub quiet: bool,
}

/// What is to be done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// A trigger is to be set.
    Set(TriggerSpec),
    /// Triggers are to be listed.
    Get {
        /// The triggers that are meant.
        filter: Filter,
        /// With a line of titles.
        header: bool,
    },
    /// Triggers are to be removed.
    Clear(Filter),
}

/// Which triggers are shown or removed; empty fields ask for nothing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Filter {
    /// With this number.
    pub id: Option<TriggerId>,
    /// Of this job.
    pub job: Option<JobId>,
    /// Of this user, by name or number.
    pub user: Option<String>,
    /// Of nodes: of these, of all when empty.
    pub nodes: Option<Vec<String>>,
    /// That wait for one of these.
    pub events: BTreeSet<TriggerEvent>,
}

impl Filter {
    /// Whether it is one of these; `uid` is that of the user.
    pub fn takes(&self, info: &TriggerInfo, uid: Option<u32>) -> bool {
        let on_nodes = |wanted: &Vec<String>| match &info.spec.on {
            TriggerTarget::Job(_) => false,
            TriggerTarget::Nodes(names) => {
                wanted.is_empty() || names.is_empty() || wanted.iter().any(|n| names.contains(n))
            }
        };
        self.id.is_none_or(|id| id == info.id)
            && self
                .job
                .is_none_or(|job| info.spec.on == TriggerTarget::Job(job))
            && uid.is_none_or(|uid| uid == info.uid.0)
            && self.nodes.as_ref().is_none_or(on_nodes)
            && (self.events.is_empty() || !self.events.is_disjoint(&info.spec.events))
    }
}

/// What the options want.
///
/// # Errors
/// What is wrong, in one line.
pub fn asked(parsed: &Parsed) -> Result<Invocation, String> {
    let line = CommandLine(parsed);
    let action = match [line.has("set"), line.has("get"), line.has("clear")] {
        [true, false, false] => Action::Set(line.spec()?),
        [false, true, false] => Action::Get {
            filter: line.filter()?,
            header: !line.has("noheader"),
        },
        [false, false, true] => {
            let filter = line.filter()?;
            if filter.id.is_none() && filter.job.is_none() && filter.user.is_none() {
                return Err("You must specify a --id, --jobid, or --user to clear".to_owned());
            }
            Action::Clear(filter)
        }
        _ => return Err(MODE.to_owned()),
    };
    Ok(Invocation {
        action,
        verbose: line.has("verbose"),
        quiet: line.has("quiet"),
    })
}

struct CommandLine<'a>(&'a Parsed);

impl CommandLine<'_> {
    /// The last of that name counts.
    fn found(&self, name: &str) -> Option<&GivenOption> {
        self.0.found.iter().rev().find(|found| found.name == name)
    }

    fn has(&self, name: &str) -> bool {
        self.found(name).is_some()
    }

    fn text(&self, name: &str) -> Option<String> {
        self.found(name).map(GivenOption::text)
    }

    fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, String> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        let short: String = text.chars().take(40).collect();
        let number = text.trim().parse().map(Some);
        number.map_err(|_| format!("Invalid {name} {short}"))
    }

    fn events(&self) -> Result<BTreeSet<TriggerEvent>, String> {
        let rare = OPTIONS.iter().map(|row| row.opt);
        let mut rare = rare.filter(|opt| is_never(opt.long) && self.has(opt.long));
        if let Some(opt) = rare.next() {
            return Err(format!(
                "--{}: there is no such part here, so this would never happen",
                opt.long
            ));
        }
        let wanted = EVENTS.iter().filter(|(name, _)| self.has(name));
        Ok(wanted.map(|(_, event)| *event).collect())
    }

    fn nodes(&self) -> Result<Option<Vec<String>>, String> {
        match self.text("node") {
            None => Ok(None),
            Some(text) if text.is_empty() => Ok(Some(Vec::new())),
            Some(text) => {
                let names = cosy_model::expand(&text);
                names.map(Some).map_err(|e| format!("Invalid node {e}"))
            }
        }
    }

    fn filter(&self) -> Result<Filter, String> {
        Ok(Filter {
            id: self.number("id")?.map(TriggerId),
            job: self.number("jobid")?.map(JobId),
            user: self.text("user"),
            nodes: self.nodes()?,
            events: self.events()?,
        })
    }

    fn spec(&self) -> Result<TriggerSpec, String> {
        let job = self.number("jobid")?.map(JobId);
        let offset: i64 = self.number("offset")?.unwrap_or(0);
        let furthest = limits::TRIGGER_OFFSET.secs();
        if offset.abs() > furthest {
            return Err(format!("The --offset parameter must be between +/-{furthest}"));
        }
        let permanent = self.permanent()?;
        let events = self.events()?;
        if events.is_empty() {
            return Err(NO_EVENT.to_owned());
        }
        let Some(program) = self.found("program").and_then(|found| found.value.clone()) else {
            return Err("You must specify a --program value".to_owned());
        };
        let program = OsText(program.into_vec());
        if program.0.first() != Some(&b'/') {
            return Err("The --program value must start with \"/\"".to_owned());
        }
        let only_jobs = |event: &TriggerEvent| !event.is_of_nodes();
        let on = match (job, self.nodes()?) {
            (None, _) if events.iter().any(only_jobs) => {
                return Err("You must specify a --jobid value".to_owned());
            }
            (None, nodes) => TriggerTarget::Nodes(nodes.unwrap_or_default()),
            (Some(_), Some(nodes)) if !nodes.is_empty() => {
                return Err("--node cannot be used together with --jobid".to_owned());
            }
            (Some(job), _) => TriggerTarget::Job(job),
        };
        Ok(TriggerSpec {
            on,
            events,
            offset: Span::from_secs(offset),
            program,
            permanent,
            environment: OsText::default(),
        })
    }

    fn permanent(&self) -> Result<bool, String> {
        let flags = self.text("flags").unwrap_or_default();
        let mut permanent = false;
        for flag in flags.split(',').filter(|flag| !flag.is_empty()) {
            if !flag.eq_ignore_ascii_case("perm") {
                let short: String = flag.chars().take(40).collect();
                return Err(format!("Invalid flags {short}"));
            }
            permanent = true;
        }
        Ok(permanent)
    }
}

fn is_never(name: &str) -> bool {
    let begins = |start: &str| name.starts_with(start);
    begins("primary_") || begins("backup_") || name == "burst_buffer" || name == "front_end"
}

/// The list, a line for each trigger; nothing without any.
pub fn list(triggers: &[TriggerInfo], header: bool) -> String {
    let mut text = String::new();
    if header && !triggers.is_empty() {
        text.push_str(&cells([
            "TRIG_ID", "RES_TYPE", "RES_ID", "TYPE", "OFFSET", "USER", "FLAGS", "PROGRAM",
        ]));
    }
    for trigger in triggers {
        let TriggerInfo {
            id,
            // The name stands for it here.
            uid: _,
            user,
            spec,
        } = trigger;
        let TriggerSpec {
            on,
            events,
            offset,
            program,
            permanent,
            // Only its program sees it.
            environment: _,
        } = spec;
        let (kind, of) = match on {
            TriggerTarget::Job(job) => ("job", job.to_string()),
            TriggerTarget::Nodes(names) if names.is_empty() => ("node", "*".to_owned()),
            TriggerTarget::Nodes(names) => ("node", fold(names)),
        };
        let named = EVENTS.iter().filter(|(_, event)| events.contains(event));
        let events: Vec<&str> = named.map(|(name, _)| *name).collect();
        let program = program.lossy().replace(char::is_control, "?");
        text.push_str(&cells([
            &id.to_string(),
            kind,
            &of,
            &events.join(","),
            &offset.secs().to_string(),
            user,
            if *permanent { "PERM" } else { "" },
            &program,
        ]));
    }
    text
}

fn cells([id, kind, of, event, offset, user, flags, program]: [&str; 8]) -> String {
    format!("{id:>7} {kind:<9} {of:>7} {event:<35} {offset:>6} {user:<8} {flags:<5} {program}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::getopt::{Order, parse};
    use crate::table::opts;
    use cosy_model::Uid;
    use std::ffi::OsString;

    fn read(line: &str) -> Result<Invocation, String> {
        let words: Vec<OsString> = line.split('|').map(OsString::from).collect();
        asked(&parse(&opts(OPTIONS), Order::Permute, &words))
    }

    fn shown(line: &str) -> String {
        match read(line) {
            Err(why) => why,
            Ok(Invocation {
                action: Action::Set(spec),
                ..
            }) => {
                let info = TriggerInfo {
                    id: TriggerId(7),
                    uid: Uid(5),
                    user: "ann".to_owned(),
                    spec,
                };
                list(&[info], false)
            }
            Ok(other) => format!("{other:?}"),
        }
    }

    #[test]
    fn what_is_wrong_is_told_in_the_order_of_the_original() {
        let check = |line: &str, want: &str| assert_eq!(shown(line), want, "{line}");
        for line in ["-v", "--set|--get", "--set|--get|--clear"] {
            check(line, MODE);
        }
        check("--set", NO_EVENT);
        check("--set|--program=/p", NO_EVENT);
        check("--set|--jobid=3|--program=/p", NO_EVENT);
        check("--set|--down", "You must specify a --program value");
        let whole = "The --program value must start with \"/\"";
        check("--set|--down|-p|p", whole);
        check("--set|-f|-p/p", "You must specify a --jobid value");
        check("--set|-d|-t|-p/p", "You must specify a --jobid value");
        check("--set|-f|-jx|-p/p", "Invalid jobid x");
        check("--set|-d|-p/p|--flags=foo", "Invalid flags foo");
        let far = "The --offset parameter must be between +/-32000";
        check("--set|-d|-p/p|--offset=32001", far);
        check("--set|-d|-p/p|-o-32001", far);
        check("--set|-d|-p/p|-o9223372036854775808", "Invalid offset 9223372036854775808");
        let both = "--node cannot be used together with --jobid";
        check("--set|-d|-nn1|-j1|-p/p", both);
        let never = "--burst_buffer: there is no such part here, so this would never happen";
        check("--set|--burst_buffer|-p/p", never);
        check("--clear|-v", "You must specify a --id, --jobid, or --user to clear");
    }

    #[test]
    fn triggers_are_listed_as_they_were_set() {
        let check = |line: &str, want: &str| assert_eq!(shown(line), format!("{want}\n"), "{line}");
        check(
            "--set|-d|-p/p",
            "      7 node            * down                                     0 ann            /p",
        );
        check(
            "--set|--node=n[3,1-2]|-I|-o3000|--flags=PERM|--program=/p a b",
            "      7 node       n[1-3] idle                                  3000 ann      PERM  /p a b",
        );
        check(
            "--set|-n|-j1|--time|--offset=-280|-p/p",
            "      7 job             1 time                                  -280 ann            /p",
        );
        check(
            "--set|-ur|-p/p",
            "      7 node            * up,reconfig                              0 ann            /p",
        );
        assert_eq!(list(&[], true), "");
    }

    #[test]
    fn filters() {
        let info = |on: TriggerTarget, event| TriggerInfo {
            id: TriggerId(3),
            uid: Uid(5),
            user: "ann".to_owned(),
            spec: TriggerSpec {
                on,
                events: [event].into(),
                offset: Span::ZERO,
                program: OsText::from("/p"),
                permanent: false,
                environment: OsText::default(),
            },
        };
        let of_job = info(TriggerTarget::Job(JobId(9)), TriggerEvent::Ended);
        let of_node = info(TriggerTarget::Nodes(vec!["n1".into()]), TriggerEvent::Down);
        let check = |line: &str, want: [bool; 2]| {
            let Ok(Invocation {
                action: Action::Get { filter, .. },
                ..
            }) = read(&format!("--get|{line}"))
            else {
                panic!("{line}");
            };
            let uid = filter.user.as_ref().and_then(|user| user.parse().ok());
            let takes = [&of_job, &of_node].map(|info| filter.takes(info, uid));
            assert_eq!(takes, want, "{line}");
        };
        check("-v", [true, true]);
        check("-i3", [true, true]);
        check("-i4", [false, false]);
        check("-j9", [true, false]);
        check("-j8", [false, false]);
        check("--node", [false, true]);
        check("--node=n1", [false, true]);
        check("--node=n2", [false, false]);
        check("--user=5", [true, true]);
        check("--user=6", [false, false]);
        check("--fini|--up", [true, false]);
        check("--down|-i3", [false, true]);
    }
}
