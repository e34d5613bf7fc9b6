//! The options of `cosy run`: those of `csub` where they mean the same, and its own.
//!
//! Inside a job the options describe the step; outside, the job that is submitted first, and the
//! step in it.

use crate::job_options::JobOptions;
use crate::launch::interrupt::InterruptMode;
use crate::launch::mpi;
use crate::launch::options::{RunOptions, StepRef};
use crate::native::arg::{flag, number, parse_limit, value};
use crate::native::submit::options::{args, container_args, gpus, words};
use clap::{Arg, ArgMatches, Command};
use cosy_model::limits::NODE_CORES;
use cosy_model::step::{Bind, DisplayNodes, Distribution, GpuBind};
use cosy_model::{Dialect, JobId, Span, StepId};
use std::path::PathBuf;
use std::str::FromStr;

/// Options of `csub` that mean the same here.
const SHARED: [&str; 32] = [
    "nodes",
    "tasks",
    "tasks-per-node",
    "cores-per-task",
    "mem",
    "mem-per-core",
    "disk",
    "gpus",
    "other",
    "licenses",
    "exclusive",
    "features",
    "queue",
    "prefer",
    "avoid",
    "require",
    "sets",
    "account",
    "qos",
    "reservation",
    "time",
    "begin",
    "nice",
    "depend",
    "output",
    "error",
    "input",
    "open-mode",
    "chdir",
    "env",
    "name",
    "comment",
];

/// The command line of `cosy run`.
pub fn command() -> Command {
    crate::native::arg::command("run", "Run tasks of a program over the nodes of a job")
        .override_usage(
            "cosy run [OPTIONS] COMMAND [ARG]...\n       \
             cosy run [OPTIONS] --multi-prog FILE\n       \
             cosy run --list | --attach JOB.STEP | --cancel JOB.STEP",
        )
        .after_help(AFTER)
        .args(job_args())
        .args(step_args())
        .arg(x11_arg())
        .args(output_args())
        .args(other_args())
        .args(container_args())
        .arg(words("Program and its arguments").value_name("COMMAND"))
}

const AFTER: &str = "\
Inside a job the step starts at once, beside other steps as long as cores are free; outside
one it gets an allocation first. --output and --error may be 'none', 'all', a rank (only that
task's), or a file name with %t (rank), %n (number of the node), %N (node), %j (job), %s
(step), %J (job.step), %x (name), %u (user); a name without %t, %n, %N is one file. --input
may be 'all', 'none', a rank, or such a name. An interrupt (^C) shows what runs; a second one
within a second ends the step.
Exit code: the largest of all tasks, 128 and its number for a signal; 1 refused or lost, 2
mistake on the command line, 3 no controller.";

/// Options that describe an allocation, as `csub` has them; for `calloc` too.
pub fn job_args() -> impl Iterator<Item = Arg> {
    args()
        .filter(|a| SHARED.contains(&a.get_id().as_str()))
        .map(|a| match a.get_id().as_str() {
            "require" => a.short('w').visible_alias("nodelist"),
            "avoid" => a.short('x').visible_alias("exclude"),
            "gpus" => a.visible_alias("gpus-per-node"),
            "env" => a
                .visible_alias("export")
                .help("Environment: ALL (the default), NONE, NAME,NAME=value,...; may be repeated"),
            _ => a,
        })
        .chain([flag("quiet", "Say only what went wrong").short('Q')])
}

/// `--mpi`; for `calloc` too.
pub fn mpi_arg() -> Arg {
    value(
        "mpi",
        "NAME",
        "How tasks find each other: none, pmi, pmix, or a plugin (default: found out)",
    )
    .value_parser(mpi::parse)
}

/// `--x11`; for `calloc` too.
pub fn x11_arg() -> Arg {
    value("x11", "NODES", "Show windows here: of all nodes, or of the first or last one alone")
        .num_args(0..=1)
        .require_equals(true)
        .default_missing_value("all")
        .value_parser(DisplayNodes::from_str)
}

/// `--wait-for` and `--immediate`; for `calloc` too.
pub fn max_wait_args() -> [Arg; 2] {
    [
        value("wait-for", "TIME", "Give up when it cannot start within this time")
            .value_parser(parse_limit),
        flag("immediate", "Give up when it cannot start at once")
            .short('I')
            .conflicts_with("wait-for"),
    ]
}

fn step_args() -> impl Iterator<Item = Arg> {
    [
        value("gpus-per-task", "N|TYPE:N[,...]", "GPUs of each task").value_parser(gpus),
        value("gpu-bind", "HOW", "Which GPUs a task sees: none, closest, single:TASKS, per_task:N, map_gpu:LIST, mask_gpu:LIST")
            .value_parser(GpuBind::from_str),
        value("distribution", "HOW", "Which task goes where: block, cyclic, plane=N")
            .short('m')
            .value_parser(distribution),
        value("bind", "TO", "What tasks are bound to: cores, numa, none").value_parser(bind),
        flag("overlap", "Share cores, memory and GPUs with other steps"),
        flag("overcommit", "Allow more tasks than cores"),
        value("multi-prog", "FILE", "Several programs: lines of ranks, program, arguments")
            .value_parser(clap::value_parser!(PathBuf)),
        mpi_arg(),
        value("job", "ID", "Use this running job of yours").value_parser(parse_job),
    ]
    .into_iter()
    .chain(max_wait_args())
}

fn output_args() -> [Arg; 4] {
    [
        flag("label", "Write the rank before each line").short('l'),
        flag("unbuffered", "Pass output on as it comes, not in whole lines").short('u'),
        flag("pty", "Task 0 gets a terminal of its own, shown on this one"),
        Arg::new("kill-on-bad-exit")
            .long("kill-on-bad-exit")
            .short('K')
            .value_name("0|1")
            .help("End all tasks when one ends badly (the default with MPI)")
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("1")
            .overrides_with("kill-on-bad-exit")
            .value_parser(["0", "1"]),
    ]
}

fn other_args() -> [Arg; 4] {
    let whole = |arg: Arg| arg.conflicts_with("words");
    [
        whole(flag("list", "Show the steps of the job that run or wait")),
        flag("json", "With --list: as JSON").requires("list"),
        whole(
            value("attach", "JOB.STEP", "Show the output of a running step")
                .value_parser(parse_step),
        ),
        whole(value("cancel", "JOB.STEP", "End a running step").value_parser(parse_step)),
    ]
}

impl RunOptions {
    /// Reads the command line.
    ///
    /// # Errors
    /// Options that contradict each other.
    pub fn from_matches(m: &ArgMatches) -> Result<Self, String> {
        let mut job = JobOptions::default();
        job.apply(m)?;
        let one = |name: &str| m.get_one::<StepRef>(name).copied();
        let options = Self {
            job,
            inside: m.get_one("job").copied(),
            attach: one("attach"),
            cancel: one("cancel"),
            list: m.get_flag("list"),
            gpus_per_task: m.get_one("gpus-per-task").cloned(),
            gpu_bind: m.get_one("gpu-bind").cloned().unwrap_or_default(),
            distribution: m.get_one("distribution").copied().unwrap_or_default(),
            places: Vec::new(),
            bind: m.get_one("bind").copied().unwrap_or_default(),
            overlap: m.get_flag("overlap"),
            overcommit: m.get_flag("overcommit"),
            max_wait: max_wait(m),
            label: m.get_flag("label"),
            unbuffered: m.get_flag("unbuffered"),
            kill_on_bad_exit: m.get_one::<String>("kill-on-bad-exit").map(|v| v == "1"),
            multi_prog: m.get_one("multi-prog").cloned(),
            pty: m.get_flag("pty"),
            mpi: m.get_one("mpi").cloned(),
            x11: m.get_one("x11").copied(),
            command: crate::native::arg::list(m, "words"),
            copy: None,
            interrupts: InterruptMode::default(),
            wait: None,
            verbose: false,
            tell_bind: false,
            dialect: Dialect::Cosy,
            supervisors: 0,
            stopped: false,
        };
        options.check()?;
        Ok(options)
    }

    fn check(&self) -> Result<(), String> {
        if self.list || self.attach.is_some() || self.cancel.is_some() {
            return Ok(());
        }
        match (&self.multi_prog, self.command.is_empty()) {
            (None, true) => return Err("what is to be run? A program is needed".to_owned()),
            (Some(_), false) => {
                return Err("--multi-prog names the programs: no other is needed".to_owned());
            }
            (None, false) | (Some(_), true) => {}
        }
        let elsewhere = self.job.output.is_some() || self.job.error.is_some();
        if self.pty && (elsewhere || self.job.input.is_some()) {
            return Err("--pty has its input and output at the terminal: without -i, -o, -e".into());
        }
        if self.pty && self.label {
            return Err("--pty and --label exclude each other".to_owned());
        }
        Ok(())
    }
}

/// How long to wait for a start, as these options say.
pub fn max_wait(m: &ArgMatches) -> Option<Span> {
    if m.get_flag("immediate") {
        return Some(Span::ZERO);
    }
    m.get_one("wait-for").copied()
}

fn parse_job(text: &str) -> Result<JobId, String> {
    let reference: cosy_model::api::JobRef = text.parse()?;
    match reference.task {
        None => Ok(reference.job),
        Some(_) => Err("the number of a job is needed, as $COSY_JOB_ID in it".to_owned()),
    }
}

fn parse_step(text: &str) -> Result<StepRef, String> {
    let bad = || "a step is needed, like 12.0".to_owned();
    let (job, step) = text.split_once('.').ok_or_else(bad)?;
    let fine = (1..=9).contains(&step.len()) && step.bytes().all(|b| b.is_ascii_digit());
    let step = fine.then(|| step.parse().ok()).flatten().ok_or_else(bad)?;
    Ok(StepRef {
        job: parse_job(job).map_err(|_| bad())?,
        step: StepId(step),
    })
}

fn distribution(text: &str) -> Result<Distribution, String> {
    match (text, text.strip_prefix("plane=")) {
        ("block", _) => Ok(Distribution::Block),
        ("cyclic", _) => Ok(Distribution::Cyclic),
        (_, Some(n)) => number(1, NODE_CORES)(n).map(Distribution::Plane),
        (_, None) => Err("block, cyclic or plane=N is needed".to_owned()),
    }
}

fn bind(text: &str) -> Result<Bind, String> {
    match text {
        "cores" => Ok(Bind::Cores),
        "numa" => Ok(Bind::Numa),
        "none" => Ok(Bind::None),
        _ => Err("cores, numa or none is needed".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<RunOptions, String> {
        let matches = command()
            .try_get_matches_from([&["run"], args].concat())
            .map_err(|e| crate::native::arg::error_line(&e).unwrap_or_default())?;
        RunOptions::from_matches(&matches)
    }

    #[test]
    fn options_are_read() {
        let o = parse(&[
            "-n",
            "8",
            "-N2",
            "-c",
            "2",
            "-m",
            "plane=3",
            "--bind",
            "numa",
            "-w",
            "n[1-2]",
            "-x",
            "n3",
            "-l",
            "-K",
            "--overlap",
            "--wait-for",
            "5",
            "--gpus-per-task",
            "1",
            "--export",
            "A=1",
            "--mpi",
            "pmi",
            "prog",
            "-n",
            "-l",
        ])
        .unwrap();
        assert_eq!((o.job.tasks, o.job.nodes, o.job.cores_per_task), (Some(8), Some(2), Some(2)));
        assert_eq!((o.distribution, o.bind), (Distribution::Plane(3), Bind::Numa));
        assert_eq!(
            (&*o.job.require, &*o.job.avoid),
            (&["n1".into(), "n2".into()][..], &["n3".into()][..])
        );
        assert!(o.label && o.overlap && o.kill_on_bad_exit == Some(true));
        assert_eq!(o.max_wait, Some(Span::from_minutes(5)));
        let each = o.gpus_per_task.as_ref().map(|g| g.count);
        assert_eq!((each, o.mpi.as_deref()), (Some(1), Some("pmi")));
        assert_eq!(o.command, ["prog", "-n", "-l"]);
        assert_eq!(o.job.env.len(), 1);
    }

    #[test]
    fn kill_on_bad_exit() {
        let check = |args: &[&str], want: Option<bool>| {
            let got = parse(&[args, &["x"]].concat()).map(|o| o.kill_on_bad_exit);
            assert_eq!(got, Ok(want), "{args:?}");
        };
        check(&[], None);
        check(&["-K"], Some(true));
        check(&["-K=0"], Some(false));
        check(&["--kill-on-bad-exit=0"], Some(false));
        check(&["-K", "--kill-on-bad-exit=0"], Some(false));
    }

    #[test]
    fn nonsense() {
        let check = |args: &[&str], want: &str| {
            let error = parse(args).unwrap_err();
            assert!(error.contains(want), "{args:?}: {error}");
        };
        check(&[], "what is to be run");
        check(&["-n", "0", "x"], "a whole number from 1");
        check(&["-m", "round", "x"], "block, cyclic or plane=N");
        check(&["-m", "plane=0", "x"], "a whole number from 1");
        check(&["--bind", "x", "x"], "cores, numa or none");
        check(&["--multi-prog", "f", "x"], "names the programs");
        check(&["--pty", "-o", "f", "x"], "--pty");
        check(&["--pty", "-l", "x"], "exclude each other");
        check(&["--attach", "12", "x"], "a step is needed");
        check(&["--attach", "12.x"], "a step is needed");
        check(&["--attach", "12.0", "x"], "cannot be used with");
        check(&["--job", "12_3", "x"], "the number of a job");
        check(&["-I", "--wait-for", "5", "x"], "cannot be used with");
        check(&["--mpi", "a b", "x"], "a name");
        check(&["-t", "0", "x"], "more than 0");
    }

    #[test]
    fn steps() {
        let check = |text: &str, want: Option<(u64, u32)>| {
            let got = parse_step(text).ok().map(|s| (s.job.0, s.step.0));
            assert_eq!(got, want, "{text}");
        };
        check("12.0", Some((12, 0)));
        check("12.99999999", Some((12, 99_999_999)));
        check("12", None);
        check("12.", None);
        check(".1", None);
        check("12.-1", None);
        check("12_1.0", None);
    }
}
