//! The options of `cresv quote`, `hold` and `book`, made an [`ReservationSpec`] and, where there is a
//! script, a job that starts with the reservation.
//!
//! Options for resources and lines of scripts are read by the code of `csub`.

use crate::job_options::JobOptions;
use crate::native::arg::{flag, json, value, values};
use crate::native::resv::{repeat, window};
use crate::native::submit::{self, Target};
use crate::{exit, times};
use clap::{Arg, ArgMatches, Command};
use cosy_model::api::Submission;
use cosy_model::limits::SHARING;
use cosy_model::reservation::{ReservationSpec, Sharing, StartChoice};
use cosy_model::{Program, Su};
use jiff::Zoned;
use std::ffi::OsString;

/// A reservation as the command line and its script describe it.
pub struct ReservationRequest {
    /// The reservation, ready to be sent.
    pub spec: ReservationSpec,
    /// The job that starts with it.
    pub job: Option<Box<Submission>>,
    /// Notes for the user about times that do not exist or exist twice.
    pub notes: Vec<String>,
    /// The present in the zone that counts.
    pub now: Zoned,
}

/// Options of `csub` that a reservation, which starts by itself and once, does not have.
const NOT_HERE: [&str; 15] = [
    "begin",
    "hold",
    "nice",
    "depend",
    "array",
    "requeue",
    "no-requeue",
    "spares",
    "no-kill",
    "wait",
    "quiet",
    "parsable",
    "reservation",
    "json",
    "time",
];

/// Adds the options to `command`.
pub fn with_options(command: Command) -> Command {
    let shared = submit::options::args()
        .filter(|a| !NOT_HERE.contains(&a.get_id().as_str()))
        .map(|a| match a.get_id().as_str() {
            "account" => a.short('A'),
            "require" => a.visible_alias("nodelist"),
            "avoid" => a.visible_alias("exclude"),
            _ => a,
        });
    command
        .next_help_heading("What")
        .arg(
            value("time", "LENGTH", "How long: minutes, H:MM:SS, D-HH:MM, 90m, 2h30m")
                .short('t')
                .value_parser(crate::native::arg::parse_limit),
        )
        .args(shared)
        .next_help_heading("When")
        .args(window::args())
        .args(repeat_args())
        .next_help_heading("Who and how much")
        .args(money_args())
        .args(sharing_args())
        .arg(submit::options::words(
            "A batch script and its arguments, or a command, that starts with the reservation",
        ))
        .next_help_heading("Output")
        .arg(json())
}

fn repeat_args() -> [Arg; 2] {
    [
        value(
            "repeat",
            "RRULE",
            "Repeat by this rule of RFC 5545, from --at on: FREQ=WEEKLY;BYDAY=MO;COUNT=10",
        )
        .requires("at"),
        flag(
            "as-many-as-fit",
            "With --repeat: book those that are possible, list the others; without it all or none",
        )
        .requires("repeat"),
    ]
}

fn money_args() -> [Arg; 2] {
    [
        value("max-price", "SU", "Refuse what costs more").value_parser(price),
        value("wrap", "COMMAND", "A line of shell that starts with the reservation")
            .conflicts_with("words"),
    ]
}

/// The options that let others use a reservation.
pub fn sharing_args() -> [Arg; 3] {
    [
        values("share-users", "USER[,...]", "Users who may use it too"),
        values("share-groups", "GROUP[,...]", "Groups whose members may use it too"),
        values("share-accounts", "NAME[,...]", "Accounts whose members may use it too"),
    ]
}

/// A sum of service units.
///
/// # Errors
/// Not such a sum.
pub fn price(text: &str) -> Result<Su, String> {
    text.parse()
        .map_err(|e: cosy_model::money::SuError| e.to_string())
}

/// Reads the command line (`args` as given, `m` as parsed); with `or_soonest` options of time may
/// be missing.
///
/// # Errors
/// Mistakes on the command line or in the script.
pub fn read(
    args: &[OsString],
    m: &ArgMatches,
    or_soonest: bool,
) -> anyhow::Result<ReservationRequest> {
    let now = window::present(m).map_err(exit::usage)?;
    read_at(args, m, or_soonest, now)
}

fn read_at(
    args: &[OsString],
    m: &ArgMatches,
    or_soonest: bool,
    now: Zoned,
) -> anyhow::Result<ReservationRequest> {
    let (mut job, mut options) = job(args, m)?;
    starts_by_itself(&options).map_err(exit::usage)?;
    let mut notes = Vec::new();
    let length = window::length(options.time).map_err(exit::usage)?;
    let window = window::read(m, length, &now, or_soonest, &mut notes).map_err(exit::usage)?;
    let mut pick = window.pick;
    let repeat = match (m.get_one::<String>("repeat"), pick) {
        (Some(rule), StartChoice::At(first)) => {
            let fit = m.get_flag("as-many-as-fit");
            let repeat = repeat::repeat(rule, first, &now, fit, &mut notes).map_err(exit::usage)?;
            if let Some(first) = repeat.starts.first() {
                pick = StartChoice::At(*first);
            }
            Some(repeat)
        }
        (Some(_), _) => return Err(exit::usage("--repeat needs --at TIME: its first start")),
        (None, _) => None,
    };
    if let Some(job) = &mut job {
        job.spec.time_limit = Some(length);
    }
    let spec = ReservationSpec {
        name: options.name.take().unwrap_or_default(),
        queue: options.queue.clone(),
        request: submit::request(&options),
        licenses: options.licenses.clone().unwrap_or_default(),
        length,
        earliest: window.earliest,
        latest_end: window.latest_end,
        pick,
        repeat,
        account: options.account.clone(),
        max_price: m.get_one("max-price").copied(),
        sharing: sharing(m).map_err(exit::usage)?,
        comment: options.comment.take().unwrap_or_default(),
        flags: Vec::new(),
    };
    Ok(ReservationRequest {
        spec,
        job,
        notes,
        now,
    })
}

/// The job of the script or command, if there is one, and all options, with those in the script.
fn job(args: &[OsString], m: &ArgMatches) -> anyhow::Result<(Option<Box<Submission>>, JobOptions)> {
    if let Some(line) = m.get_one::<String>("wrap") {
        let target = Target::Script {
            file: Some("wrap".into()),
            args: Vec::new(),
        };
        let text = format!("#!/bin/sh\n{line}\n").into_bytes();
        let (job, options) = submit::assemble(target, text, m)?;
        return Ok((Some(Box::new(job)), options));
    }
    if m.contains_id("words") {
        let (job, options) = submit::prepare(args, m)?;
        let empty = matches!(&job.spec.program, Program::Command { argv } if argv.is_empty());
        if !empty {
            return Ok((Some(Box::new(job)), options));
        }
    }
    let mut options = JobOptions::default();
    options.apply(m).map_err(exit::usage)?;
    Ok((None, options))
}

/// Refuses options in the script that a job with a reservation of its own cannot have.
fn starts_by_itself(options: &JobOptions) -> Result<(), String> {
    let found = [
        ("--begin", options.begin.is_some()),
        ("--hold", options.hold),
        ("--depend", !options.depend.is_empty()),
        ("--array", options.array.is_some()),
    ];
    match found.iter().find(|(_, given)| *given) {
        Some((option, _)) => Err(format!(
            "the script's {option}: a job that is attached to a reservation starts with it, \
             alone; reserve without a script and enter with csub --reservation"
        )),
        None => Ok(()),
    }
}

/// The users, groups and accounts that the options of [`sharing_args`] name.
///
/// # Errors
/// More names than are allowed.
pub fn sharing(m: &ArgMatches) -> Result<Sharing, String> {
    let sharing = Sharing {
        users: crate::native::arg::list(m, "share-users"),
        groups: crate::native::arg::list(m, "share-groups"),
        accounts: crate::native::arg::list(m, "share-accounts"),
    };
    for (option, names) in [
        ("--share-users", &sharing.users),
        ("--share-groups", &sharing.groups),
        ("--share-accounts", &sharing.accounts),
    ] {
        if names.len() > SHARING {
            let n = names.len();
            return Err(format!("{option}: {n} names; at most {SHARING} are allowed"));
        }
    }
    Ok(sharing)
}

/// The present in the zone of `--zone`, else of the user.
pub fn present(m: &ArgMatches) -> Zoned {
    window::present(m).unwrap_or_else(|_| times::now())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::times::Direction;
    use cosy_model::job::MemoryRequest;
    use cosy_model::{MiB, Span};

    fn noon() -> Zoned {
        "2026-10-01T12:00:00+02:00[Europe/Berlin]".parse().unwrap()
    }

    fn get(args: &[&str]) -> Result<ReservationRequest, String> {
        let matches = with_options(crate::native::arg::command("book", "x"))
            .try_get_matches_from([&["book"], args].concat())
            .map_err(|e| crate::native::arg::error_line(&e).unwrap_or_default())?;
        let args: Vec<OsString> = args.iter().map(Into::into).collect();
        read_at(&args, &matches, false, noon()).map_err(|e| format!("{e:#}"))
    }

    fn fine(args: &[&str]) -> ReservationRequest {
        get(args).unwrap_or_else(|e| panic!("{args:?}: {e}"))
    }

    #[test]
    fn options_reach_the_reservation() {
        let w = fine(&[
            "-N4",
            "-n",
            "8",
            "-c",
            "2",
            "--mem",
            "2G",
            "--gpus",
            "1",
            "--exclusive",
            "-C",
            "x,y",
            "--nodelist",
            "n[1-2]",
            "--exclude",
            "n3",
            "--prefer",
            "n4",
            "--sets",
            "a,b",
            "-q",
            "day",
            "-t",
            "2h",
            "-A",
            "acc",
            "--name",
            "course",
            "--comment",
            "c",
            "--at",
            "2026-10-19 14:00",
            "--repeat",
            "FREQ=WEEKLY;BYDAY=TU;COUNT=2",
            "--as-many-as-fit",
            "--share-users",
            "ann,bob",
            "--share-groups",
            "g",
            "--share-accounts",
            "p",
            "--max-price",
            "12.5",
        ]);
        let (a, r) = (&w.spec, &w.spec.request);
        assert_eq!((r.nodes, r.tasks, r.cores_per_task), (Some(4), Some(8), 2));
        assert_eq!((r.memory, r.gpus_per_node), (MemoryRequest::PerNode(MiB(2048)), 1));
        assert!(r.exclusive && w.job.is_none());
        assert_eq!((r.require.join("+"), r.avoid.join("+")), ("n1+n2".into(), "n3".into()));
        assert_eq!((r.prefer.join("+"), r.sets.join("+")), ("n4".into(), "a+b".into()));
        assert_eq!((a.queue.as_deref(), a.account.as_deref()), (Some("day"), Some("acc")));
        assert_eq!((&*a.name, &*a.comment, a.length), ("course", "c", Span::from_minutes(120)));
        assert_eq!(a.max_price, Some(Su(12_500_000)));
        assert_eq!(a.sharing.users, ["ann", "bob"]);
        assert_eq!((&*a.sharing.groups[0], &*a.sharing.accounts[0]), ("g", "p"));
        let repeat = a.repeat.as_ref().unwrap();
        assert!(repeat.as_many_as_fit && repeat.starts.len() == 2);
        let first = times::parse("2026-10-20 14:00", &noon(), Direction::Future).unwrap();
        assert_eq!(a.pick, StartChoice::At(first));
        assert_eq!(w.notes.len(), 1, "{:?}", w.notes);
    }

    #[test]
    fn with_a_job() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("s.sh");
        let text = "#!/bin/sh\n#COSY -N 2 -t 10 -J inside -o out\nls\n";
        std::fs::write(&file, text).unwrap();
        let file = file.to_str().unwrap();
        let w = fine(&["--soonest", "-N3", file, "-x", "y"]);
        let job = w.job.unwrap();
        assert_eq!((w.spec.request.nodes, w.spec.length), (Some(3), Span::from_minutes(10)));
        assert_eq!((job.spec.request.nodes, &*job.spec.name), (Some(3), "inside"));
        assert_eq!(job.spec.time_limit, Some(w.spec.length));
        assert_eq!(job.spec.stdout, Some("out".into()));
        assert!(matches!(&job.spec.program, Program::Script { args, .. } if args.len() == 2));
        let w = fine(&["--soonest", "-t5", "--", "make", "-j", "--", "x"]);
        let job = w.job.unwrap();
        assert!(matches!(&job.spec.program, Program::Command { argv } if argv.len() == 4));
        let w = fine(&["--soonest", "-t5", "--wrap", "make; ls"]);
        let job = w.job.unwrap();
        assert_eq!(job.script.lossy(), "#!/bin/sh\nmake; ls\n");
        assert!(fine(&["--soonest", "-t5"]).job.is_none());
    }

    #[test]
    fn nonsense() {
        let check = |args: &[&str], want: &str| {
            let args = [&["--soonest"], args].concat();
            let error = get(&args).err().unwrap_or_else(|| panic!("{args:?}"));
            assert!(error.contains(want), "{args:?}: {error}");
            assert!(!error.contains('\n'), "{error}");
        };
        check(&[], "how long?");
        check(&["-t", "0"], "more than 0");
        check(&["-t", "unlimited"], "cannot be reserved");
        check(&["-t", "99999d"], "at most 10 years");
        check(&["-t", "x"], "no length of time");
        check(&["-t5", "-N0"], "from 1 to");
        check(&["-t5", "--max-price", "-1"], "no sum of service units");
        check(&["-t5", "--max-price", "99999999999999"], "no sum of service units");
        check(&["-t5", "--repeat", "FREQ=DAILY;COUNT=2"], "--at");
        check(&["-t5", "--as-many-as-fit"], "--repeat");
        check(&["-t5", "--share-users", ""], "a name is needed");
        check(&["-t5", "--wrap", "x", "y"], "cannot be used with");
        check(&["-t5", "--wrap", "#COSY -a 1-5"], "the script's --array");
        check(&["-t5", "--array", "1-5"], "unexpected argument");
        check(&["-t5", "/no/such/script"], "cannot read the script");
    }
}
