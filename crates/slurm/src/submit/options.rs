//! The options of a command line, a script and the environment, read and put together: a
//! later one goes over an earlier one.
//!
//! What is only looked at by the original's controller (arrays, dependencies, features,
//! licenses, GPUs) stays text until the job is built, so that mistakes are told in the
//! order in which the original tells them.

use super::count::{self, NodeCount};
use super::distribution::{self, Distribution};
use super::export::{Export, Propagate};
use super::table::{self, OptionSupport};
use super::times::{self, PastTime};
use super::{Fault, Line, Program, binding, ignored_values, mail, sampling, signal};
use crate::getopt::GivenOption;
use cosy_model::job::{MailRequest, OpenMode, SwitchRequest, WarnSignal};
use cosy_model::limits::NICE;
use cosy_model::{ContainerOptions, MiB, Span, Time};
use jiff::Zoned;
use std::ffi::OsString;

/// Where options are read.
pub struct OptionSources<'a> {
    /// By which program.
    pub program: Program,
    /// Tells the present, in the user's zone; asked only where it matters.
    pub now: &'a dyn Fn() -> Zoned,
    /// The user may do what only root may.
    pub root: bool,
}

/// Memory as it was asked for; the last option wins.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Memory {
    /// The queue's default.
    #[default]
    Default,
    /// `--mem`; 0 is all that the nodes have.
    PerNode(MiB),
    /// Memory for each core (`--mem-per-cpu`).
    PerCore(MiB),
    /// Memory for each GPU (`--mem-per-gpu`).
    PerGpu(MiB),
}

/// Everything that was asked for.
#[derive(Clone, Debug, Default)]
pub struct SubmitOptions {
    /// Name of the job (`--job-name`).
    pub name: Option<String>,
    /// Partitions to choose from, separated by commas (`--partition`).
    pub partition: Option<String>,
    /// Account to charge (`--account`).
    pub account: Option<String>,
    /// Quality of service by name; recorded (`--qos`).
    pub qos: Option<String>,
    /// Key for accounting; recorded (`--wckey`).
    pub wckey: Option<String>,
    /// Words that go into the job's record (`--comment`).
    pub comment: Option<String>,
    /// Reservation by name or id (`--reservation`).
    pub reservation: Option<String>,
    /// Names of clusters: this one, or `all` (`--clusters`).
    pub clusters: Option<String>,
    /// `--array`, as text.
    pub array: Option<String>,
    /// `--dependency`, as text.
    pub dependency: Option<String>,
    /// Whether a job ends whose dependency cannot come true any more (`--kill-on-invalid-dep`).
    pub end_if_never: Option<bool>,
    /// Earliest start (`--begin`).
    pub begin: Option<Time>,
    /// Latest end (`--deadline`).
    pub deadline: Option<Time>,
    /// Time limit; without, the queue's default (`--time`).
    pub time: Option<Span>,
    /// Shortest time limit that will do, for an earlier start (`--time-min`).
    pub time_min: Option<Span>,
    /// The job waits until somebody releases it (`--hold`).
    pub hold: bool,
    /// What the priority is lowered by (`--nice`).
    pub nice: Option<i64>,
    /// Priority that replaces the computed one, for administrators (`--priority`).
    pub priority: Option<u32>,
    /// Whether the job starts again when its node is lost (`--requeue`, `--no-requeue`).
    pub requeue: Option<bool>,
    /// `--no-kill`: the job goes on without a node that is lost.
    pub no_kill: bool,
    /// `--requeue=expedite`: it waits for nothing but its turn.
    pub expedite: bool,
    /// Fewest and most nodes (`--nodes`).
    pub nodes: Option<NodeCount>,
    /// Tasks on all nodes together (`--ntasks`).
    pub tasks: Option<u32>,
    /// Most tasks on one node (`--ntasks-per-node`).
    pub tasks_per_node: Option<u32>,
    /// Tasks for each GPU (`--ntasks-per-gpu`).
    pub tasks_per_gpu: Option<u32>,
    /// Cores of each task (`--cpus-per-task`).
    pub cores_per_task: Option<u32>,
    /// `--mincpus`: cores on each node at least.
    pub cores_per_node: Option<u32>,
    /// Cores that come with each GPU (`--cpus-per-gpu`).
    pub cores_per_gpu: Option<u32>,
    /// `--mem` and its like.
    pub memory: Memory,
    /// Local disk on each node (`--tmp`).
    pub disk: Option<MiB>,
    /// `--exclusive`: true; `--oversubscribe`: false.
    pub exclusive: Option<bool>,
    /// Nodes next to each other in the configuration's order (`--contiguous`).
    pub contiguous: bool,
    /// Groups of so many nodes on one leaf switch each (`--segment`).
    pub segment: Option<u32>,
    /// Most leaf switches, and for how long (`--switches`).
    pub switches: Option<SwitchRequest>,
    /// More tasks than cores are fine (`--overcommit`).
    pub overcommit: bool,
    /// As few nodes as will do (`--use-min-nodes`).
    pub fewest_nodes: bool,
    /// As many nodes as possible (`--spread-job`).
    pub spread: bool,
    /// `--gres`, as text.
    pub gres: Option<String>,
    /// `--gpus`, as text.
    pub gpus: Option<String>,
    /// `--gpus-per-node`, as text.
    pub gpus_per_node: Option<String>,
    /// `--gpus-per-task`, as text.
    pub gpus_per_task: Option<String>,
    /// Which GPUs tasks see, as given.
    pub gpu_bind: Option<String>,
    /// `--gpus-per-socket`, as text.
    pub gpus_per_socket: Option<String>,
    /// `--sockets-per-node`, as far as it is about GPUs.
    pub sockets_per_node: Option<u32>,
    /// `--licenses`, as text.
    pub licenses: Option<String>,
    /// `--constraint`, as text.
    pub constraint: Option<String>,
    /// `--prefer`, as text.
    pub prefer: Option<String>,
    /// `--nodelist`, as text; a host list or, with a `/`, a file.
    pub nodelist: Option<String>,
    /// File with a host list (`--nodefile`).
    pub nodefile: Option<OsString>,
    /// `--exclude`, as text.
    pub exclude: Option<String>,
    /// Working directory (`--chdir`).
    pub chdir: Option<OsString>,
    /// File for standard output, with patterns like `%j` (`--output`).
    pub output: Option<OsString>,
    /// File for standard error, with patterns; without, the one for output (`--error`).
    pub error: Option<OsString>,
    /// File for standard input, with patterns (`--input`).
    pub input: Option<OsString>,
    /// Whether output files are emptied or appended to (`--open-mode`).
    pub open_mode: Option<OpenMode>,
    /// Which variables of the environment go along (`--export`).
    pub export: Option<Export>,
    /// File with further variables, separated by NUL, or a descriptor's number
    /// (`--export-file`).
    pub export_file: Option<OsString>,
    /// The environment of a login of the user instead of this one (`--get-user-env`).
    pub login: bool,
    /// Resource limits that go along (`--propagate`).
    pub propagate: Propagate,
    /// Signal to send before the time limit, to whom and how long before (`--signal`).
    pub signal: Option<WarnSignal>,
    /// Events that the user gets mail about (`--mail-type`).
    pub mail_type: Option<MailRequest>,
    /// Address for mail; without, the user's (`--mail-user`).
    pub mail_user: Option<String>,
    /// How tasks are dealt out to nodes and cores (`--distribution`).
    pub distribution: Option<Distribution>,
    /// `--container`, `--container-image` and its like.
    pub container: ContainerOptions,
    /// `--acctg-freq`: seconds between looks at tasks.
    pub sampling: Option<u32>,
    /// `#PBS` and `#BSUB` lines of the script are no options (`--ignore-pbs`).
    pub ignore_pbs: bool,
    /// How often `--verbose`.
    pub verbose: u32,
    /// Only errors are printed (`--quiet`).
    pub quiet: bool,
    /// Prints the id alone, followed by `;CLUSTER` where one was named (`--parsable`).
    pub parsable: bool,
    /// Nothing is submitted; prints when the job would start (`--test-only`).
    pub test_only: bool,
    /// `--wait` of sbatch.
    pub wait: bool,
    /// File whose text goes before the script (`--bbf`).
    pub preamble: Option<OsString>,
    /// Command line to be wrapped in a script (`--wrap`).
    pub wrap: Option<String>,
    /// Lines to print for options that mean nothing here, without doubles.
    pub remarks: Vec<String>,
}

impl SubmitOptions {
    /// Takes an option. False for one that is done and not about the job to ask for: it is
    /// the program's own (`--label`, `--bell`, `--help`).
    ///
    /// # Errors
    /// A value that cannot be read, or an option that is not available.
    pub fn apply(&mut self, found: &GivenOption, scene: &OptionSources<'_>) -> Result<bool, Fault> {
        self.look_at_status(found, scene)?;
        let taken = self.names(found)
            || self.times(found, scene)?
            || self.numbers(found)?
            || self.resources(found)?
            || self.files(found, scene.program)?
            || self.container(found)?
            || self.manners(found, scene.program);
        Ok(taken)
    }

    fn look_at_status(
        &mut self,
        found: &GivenOption,
        scene: &OptionSources<'_>,
    ) -> Result<(), Fault> {
        let Some(entry) = table::find(scene.program, found.name) else {
            return Ok(());
        };
        match entry.status {
            OptionSupport::Done if found.name == "gpu-bind" => drop(binding::gpus(&found.text())?),
            OptionSupport::Done => {}
            OptionSupport::Accepted(_) => ignored_values::check(found)?,
            OptionSupport::Ignored(why) => {
                match found.name {
                    "acctg-freq" => self.sampling = sampling::read(&found.text())?,
                    "mem-bind" => binding::check_memory(&found.text())?,
                    _ => ignored_values::check(found)?,
                }
                // What goes along into a job was told when that was submitted.
                let told = scene.program == Program::Srun
                    && matches!(found.name, "hint" | "threads-per-core");
                if !told {
                    self.remark(format!("--{} has no effect: {why}", found.name));
                }
            }
            OptionSupport::Refused(why) => return Err(refused(found.name, why, scene)),
        }
        let spelled = match found.name {
            CORE_SPEC => "-S",
            THREAD_SPEC => "--thread-spec",
            _ => return Ok(()),
        };
        self.remark(format!(
            "error: Ignoring {spelled} since it's not allowed by configuration \
             (AllowSpecResourcesUsage = No)"
        ));
        Ok(())
    }

    fn remark(&mut self, line: String) {
        if !self.remarks.contains(&line) {
            self.remarks.push(line);
        }
    }

    /// Names that are only handed on.
    fn names(&mut self, found: &GivenOption) -> bool {
        let slot = match found.name {
            "job-name" => &mut self.name,
            "partition" => &mut self.partition,
            "account" => &mut self.account,
            "qos" => &mut self.qos,
            "wckey" => &mut self.wckey,
            "comment" => &mut self.comment,
            "reservation" => &mut self.reservation,
            "clusters" => &mut self.clusters,
            "array" => &mut self.array,
            "dependency" => &mut self.dependency,
            "licenses" => &mut self.licenses,
            "constraint" => &mut self.constraint,
            "prefer" => &mut self.prefer,
            "gres" => &mut self.gres,
            "gpus" => &mut self.gpus,
            "gpus-per-node" => &mut self.gpus_per_node,
            "gpus-per-task" => &mut self.gpus_per_task,
            "gpus-per-socket" => &mut self.gpus_per_socket,
            "gpu-bind" => &mut self.gpu_bind,
            "nodelist" => &mut self.nodelist,
            "exclude" => &mut self.exclude,
            "mail-user" => &mut self.mail_user,
            "wrap" => &mut self.wrap,
            _ => return false,
        };
        let text = found.text();
        let means_none = matches!(found.name, "array" | "dependency" | "constraint" | "prefer");
        *slot = Some(text).filter(|text| !(means_none && text.is_empty()));
        true
    }

    fn times(&mut self, found: &GivenOption, scene: &OptionSources<'_>) -> Result<bool, Fault> {
        let text = found.text();
        let point = || {
            times::point(&text, &(scene.now)(), PastTime::Next)
                .map(Some)
                .map_err(|e| {
                    let mut fault = Fault::specification(found.name);
                    fault.lines.insert(0, Line::Plain(e.to_string()));
                    fault
                })
        };
        let limit = || {
            let limit = times::limit(&text);
            limit
                .map(Some)
                .ok_or_else(|| Fault::specification(found.name))
        };
        match found.name {
            "begin" => self.begin = point()?,
            "deadline" => self.deadline = point()?,
            "time" => self.time = limit()?,
            "time-min" => self.time_min = limit()?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn numbers(&mut self, found: &GivenOption) -> Result<bool, Fault> {
        let text = found.text();
        let number = || count::positive(&text, found.name).map(Some);
        match found.name {
            "ntasks" => self.tasks = number()?,
            "ntasks-per-node" => self.tasks_per_node = number()?,
            "ntasks-per-gpu" => self.tasks_per_gpu = number()?,
            "cpus-per-task" => self.cores_per_task = number()?,
            "cpus-per-gpu" => self.cores_per_gpu = number()?,
            "mincpus" => self.cores_per_node = number()?,
            // `2-4` and `*` are the original's, too.
            "sockets-per-node" => self.sockets_per_node = number().unwrap_or(Some(1)),
            "nodes" => self.nodes = Some(count::nodes(&text)?),
            "nice" => self.nice = Some(nice(found)?),
            "priority" => self.priority = Some(priority(&text)?),
            "signal" => self.signal = Some(signal::read(&text)?),
            "mail-type" => self.mail_type = Some(mail::read(&text)?),
            "kill-on-invalid-dep" => self.end_if_never = Some(yes(found)?),
            "requeue" => (self.requeue, self.expedite) = (Some(true), expedite(found)?),
            "distribution" => self.distribution = Some(distribution::read(&text)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn resources(&mut self, found: &GivenOption) -> Result<bool, Fault> {
        let size = || count::size(&found.text(), found.name);
        match found.name {
            "mem" => self.memory = Memory::PerNode(size()?),
            "mem-per-cpu" => self.memory = Memory::PerCore(size()?),
            "mem-per-gpu" => self.memory = Memory::PerGpu(size()?),
            "tmp" => self.disk = Some(size()?),
            "exclusive" => self.exclusive = Some(exclusive(found)?),
            "oversubscribe" => self.exclusive = Some(false),
            "contiguous" => self.contiguous = true,
            "switches" => self.switches = switches(found)?,
            "segment" => self.segment = Some(count::positive(&found.text(), found.name)?),
            "overcommit" => self.overcommit = true,
            "use-min-nodes" => self.fewest_nodes = true,
            "spread-job" => self.spread = true,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn files(&mut self, found: &GivenOption, program: Program) -> Result<bool, Fault> {
        let value = found.value.clone();
        match found.name {
            "chdir" => self.chdir = value,
            "output" => self.output = value,
            "error" => self.error = value,
            "input" => self.input = value,
            "nodefile" => self.nodefile = value,
            "export-file" => self.export_file = value,
            "bbf" => self.preamble = value,
            "open-mode" => self.open_mode = Some(open_mode(found)?),
            "export" => self.export = Some(export(found)),
            "propagate" => self.propagate = Propagate::read(given(found).as_deref())?,
            "get-user-env" => {
                check_user_env(found)?;
                self.login = program == Program::Sbatch;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn container(&mut self, found: &GivenOption) -> Result<bool, Fault> {
        self.container
            .apply(found.name, &found.text())
            .map_err(Fault::error)
    }

    fn manners(&mut self, found: &GivenOption, program: Program) -> bool {
        match (found.name, program) {
            ("hold", _) => self.hold = true,
            ("no-kill", Program::Sbatch | Program::Salloc) => self.no_kill = found.text() != "off",
            ("no-requeue", _) => (self.requeue, self.expedite) = (Some(false), false),
            ("ignore-pbs", _) => self.ignore_pbs = true,
            ("verbose", _) => self.verbose = self.verbose.saturating_add(1),
            ("quiet", _) => self.quiet = true,
            ("parsable", _) => self.parsable = true,
            ("test-only", _) => self.test_only = true,
            ("wait", Program::Sbatch) => self.wait = true,
            _ => return false,
        }
        true
    }

    /// The mail that the job is to send.
    pub fn mail(&self) -> MailRequest {
        let mut mail = self.mail_type.clone().unwrap_or_default();
        mail.to = self.mail_user.clone().unwrap_or_default();
        mail
    }
}

const MEMORY: [&str; 3] = ["mem", "mem-per-cpu", "mem-per-gpu"];
const CORE_SPEC: &str = "core-spec";
const THREAD_SPEC: &str = "thread-spec";

/// Refuses options that contradict each other: cores and threads to set aside, memory in
/// several ways. What was written goes over the environment.
///
/// # Errors
/// The original's sentences.
pub fn check_together(environment: &[GivenOption], written: &[GivenOption]) -> Result<(), Fault> {
    check_set_aside(environment, written)?;
    check_memory(environment, written)
}

/// Refuses cores and threads to set aside together; what was written goes over the
/// environment.
///
/// # Errors
/// The original's sentence for both.
fn check_set_aside(environment: &[GivenOption], written: &[GivenOption]) -> Result<(), Fault> {
    let has = |options: &[GivenOption], name| options.iter().any(|f| f.name == name);
    let both = |options| has(options, CORE_SPEC) && has(options, THREAD_SPEC);
    let any = has(written, CORE_SPEC) || has(written, THREAD_SPEC);
    if both(written) {
        return Err(Fault::fatal("-S/--core-spec and --thred-spec options are mutually exclusive"));
    }
    if both(environment) && !any {
        return Err(Fault::fatal(
            "Both --core-spec and --thread-spec set using environment variables. Those options \
             are mutually exclusive.",
        ));
    }
    Ok(())
}

/// Refuses memory that is asked for in two ways at once; what was written goes over the
/// environment.
///
/// # Errors
/// The original's sentence.
fn check_memory(environment: &[GivenOption], written: &[GivenOption]) -> Result<(), Fault> {
    let ways = |options: &[GivenOption]| {
        let has = |name| options.iter().any(|f| f.name == name);
        MEMORY.iter().filter(|name| has(**name)).count()
    };
    if ways(written) > 1 {
        return Err(Fault::fatal(
            "--mem, --mem-per-cpu, and --mem-per-gpu are mutually exclusive.",
        ));
    }
    if ways(written) == 0 && ways(environment) > 1 {
        return Err(Fault::fatal(
            "SLURM_MEM_PER_CPU, SLURM_MEM_PER_GPU, and SLURM_MEM_PER_NODE are mutually exclusive.",
        ));
    }
    Ok(())
}

/// A value that was given, as text.
fn given(found: &GivenOption) -> Option<String> {
    found.value.is_some().then(|| found.text())
}

fn refused(name: &str, why: &str, scene: &OptionSources<'_>) -> Fault {
    if matches!(name, "uid" | "gid") && !scene.root {
        return Fault::value(format!("--{name} only permitted by root user"));
    }
    Fault::value(format!("--{name} is not available: {why}"))
}

/// Nothing at all is 100.
fn nice(found: &GivenOption) -> Result<i64, Fault> {
    let Some(text) = given(found) else {
        return Ok(100);
    };
    let number = leading(&text);
    if number.abs() > NICE {
        return Err(Fault::value(format!("Invalid --nice value, out of range (+/- {NICE})")));
    }
    Ok(number)
}

fn priority(text: &str) -> Result<u32, Fault> {
    const MOST: i64 = 4_294_967_294;
    match leading(text) {
        number if number < 0 => Err(Fault::value("Priority must be >= 0")),
        number if number >= MOST => Err(Fault::value(format!("Priority must be < {MOST}"))),
        number => Ok(u32::try_from(number).unwrap_or(u32::MAX)),
    }
}

/// A number as the C library reads it: what is none is 0.
fn leading(text: &str) -> i64 {
    let text = text.trim();
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = digits
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(digits.len());
    sign * digits[..end.min(15)].parse::<i64>().unwrap_or(0)
}

fn yes(found: &GivenOption) -> Result<bool, Fault> {
    match found.text().to_ascii_lowercase().as_str() {
        "yes" | "y" => Ok(true),
        "no" | "n" => Ok(false),
        _ => Err(Fault::specification(found.name)),
    }
}

fn exclusive(found: &GivenOption) -> Result<bool, Fault> {
    match given(found)
        .as_deref()
        .map(str::to_ascii_lowercase)
        .as_deref()
    {
        // Shared only with jobs of the same user: shared with nobody is within that.
        None | Some("user" | "mcs" | "exclusive") => Ok(true),
        Some("oversubscribe") => Ok(false),
        Some(_) => Err(Fault::specification("exclusive")),
    }
}

fn expedite(found: &GivenOption) -> Result<bool, Fault> {
    match given(found).as_deref() {
        None => Ok(false),
        Some("expedite") => Ok(true),
        Some(_) => Err(Fault::specification("requeue")),
    }
}

/// `N[@TIME]`; 0 is any number.
fn switches(found: &GivenOption) -> Result<Option<SwitchRequest>, Fault> {
    let text = found.text();
    let number = text.split('@').next().unwrap_or_default();
    match number.trim().parse::<u32>() {
        Ok(0) => Ok(None),
        Ok(_) => match SwitchRequest::of_words(&text) {
            Ok(read) => Ok(Some(read)),
            Err(_) => Err(Fault::specification("switches")),
        },
        Err(_) => {
            let number = count::cut(number);
            let why = format!("Invalid numeric value \"{number}\" for --switches.");
            Err(Fault::error(why))
        }
    }
}

fn open_mode(found: &GivenOption) -> Result<OpenMode, Fault> {
    match found.text().bytes().next() {
        Some(b'a' | b'A') => Ok(OpenMode::Append),
        Some(b't' | b'T') => Ok(OpenMode::Truncate),
        _ => Err(Fault::specification("open-mode")),
    }
}

fn export(found: &GivenOption) -> Export {
    given(found).map_or_else(Export::default, |text| Export::read(&text))
}

/// Checks the grammar `[SECONDS][S|L]` of `--get-user-env`.
fn check_user_env(found: &GivenOption) -> Result<(), Fault> {
    let text = found.text();
    let mode = text.trim_start_matches(|c: char| c.is_ascii_digit());
    if matches!(mode, "" | "S" | "s" | "L" | "l") {
        return Ok(());
    }
    Err(Fault::specification("get-user-env"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::getopt::{Order, parse};

    fn read(line: &str, root: bool) -> Result<SubmitOptions, Fault> {
        let now = || crate::submit::at("2026-11-21T14:30:10");
        let program = Program::Sbatch;
        let scene = OptionSources {
            program,
            now: &now,
            root,
        };
        let args: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let parsed = parse(&table::options(program), Order::Stop, &args);
        assert_eq!(parsed.mistake, None, "{line}");
        let mut job_options = SubmitOptions::default();
        for found in &parsed.found {
            job_options.apply(found, &scene)?;
        }
        Ok(job_options)
    }

    #[test]
    fn values() {
        let w = read("-n 4 -N 2-3 -c2 -t 5 --mem 1G --mem-per-cpu=20 -J a -J b -H", false).unwrap();
        assert_eq!((w.tasks, w.cores_per_task, w.hold), (Some(4), Some(2), true));
        assert_eq!(w.nodes, Some(NodeCount { least: 2, most: 3 }));
        assert_eq!(w.time, Some(Span::from_minutes(5)));
        assert_eq!(w.memory, Memory::PerCore(MiB(20)));
        assert_eq!(w.name.as_deref(), Some("b"));
        let check = |line: &str, want: i64| assert_eq!(read(line, false).unwrap().nice, Some(want));
        check("--nice", 100);
        check("--nice=5", 5);
        check("--nice=-5", -5);
        check("--nice=foo", 0);
        assert!(read("--nice=99999999999999999999", false).is_err());
        assert_eq!(read("--exclusive -s", false).unwrap().exclusive, Some(false));
        assert!(read("--contiguous", false).unwrap().contiguous);
        let switches = |text: &str| read(&format!("--switches={text}"), false).map(|o| o.switches);
        let one = SwitchRequest::of(1);
        assert_eq!(switches("1"), Ok(Some(one)));
        let half_an_hour = Some(Span::from_minutes(30));
        assert_eq!(
            switches("1@30"),
            Ok(Some(SwitchRequest {
                wait: half_an_hour,
                ..one
            }))
        );
        assert_eq!(switches("0"), Ok(None));
        assert!(switches("a@b").is_err());
        assert!(switches("1@b").is_err());
        let remarks = |line: &str| read(line, false).unwrap().remarks;
        assert_eq!(remarks("--hint=nomultithread --hint=nomultithread").len(), 1);
        // Whether there is such a quality of service is for the controller to say.
        assert_eq!(remarks("--qos=nosuch"), [""; 0]);
    }

    #[test]
    fn values_as_observed() {
        let empty = |line: &str| read(line, false).unwrap();
        assert_eq!(empty("--array=").array, None);
        assert_eq!(empty("--dependency=").dependency, None);
        assert_eq!(empty("--constraint=").constraint, None);
        let mode = |text: &str| empty(&format!("--open-mode={text}")).open_mode;
        assert_eq!(mode("trunc"), Some(OpenMode::Truncate));
        assert_eq!(mode("Append"), Some(OpenMode::Append));
        assert_eq!(empty("--priority=5x").priority, Some(5));
    }

    #[test]
    fn memory_is_asked_for_in_one_way() {
        let found = |names: &[&'static str]| -> Vec<GivenOption> {
            let one = |name: &&'static str| GivenOption {
                name,
                value: Some("1".into()),
            };
            names.iter().map(one).collect()
        };
        let check = |environment: &[&'static str], written: &[&'static str], fine: bool| {
            let got = check_memory(&found(environment), &found(written));
            assert_eq!(got.is_ok(), fine, "{environment:?} {written:?}");
        };
        check(&[], &["mem", "mem"], true);
        check(&[], &["mem", "mem-per-cpu"], false);
        check(&["mem-per-cpu"], &["mem"], true);
        check(&["mem-per-cpu", "mem-per-gpu"], &[], false);
        check(&["mem-per-cpu", "mem-per-gpu"], &["mem"], true);
    }

    #[test]
    fn mistakes_as_captured() {
        let check = |line: &str, code: u8, want: &str| {
            let fault = read(line, false).unwrap_err();
            assert_eq!((fault.text(Program::Sbatch).as_str(), fault.code), (want, code), "{line}");
        };
        check("-t foo", 255, "sbatch: error: Invalid --time specification\n");
        check(
            "--begin=foo",
            255,
            "Invalid time specification (pos=0): foo\nsbatch: error: Invalid --begin specification\n",
        );
        check("-n 0", 1, "sbatch: error: Invalid numeric value \"0\" for --ntasks.\n");
        check("-N foo", 255, "sbatch: error: \"foo\" is not a valid node count\n");
        check("--mem=foo", 255, "sbatch: error: Invalid --mem specification\n");
        check("--mail-type=FOO", 255, "sbatch: error: Invalid --mail-type specification\n");
        check("--signal=FOO", 255, "sbatch: error: Invalid --signal specification\n");
        check("--exclusive=foo", 255, "sbatch: error: Invalid --exclusive specification\n");
        check("--open-mode=x", 255, "sbatch: error: Invalid --open-mode specification\n");
        check("--get-user-env=5x", 255, "sbatch: error: Invalid --get-user-env specification\n");
        check("-m foo", 255, "sbatch: error: Invalid --distribution specification\n");
        check(
            "--hint=foo",
            1,
            "sbatch: error: unrecognized --hint argument \"foo\", see --hint=help\n",
        );
        check("--uid=0", 255, "sbatch: error: --uid only permitted by root user\n");
        check(
            "--reboot",
            255,
            "sbatch: error: --reboot is not available: nodes are not rebooted for jobs\n",
        );
        let root = read("--uid=0", true).unwrap_err().text(Program::Sbatch);
        assert!(root.contains("not available"), "{root}");
    }

    #[test]
    fn cores_and_threads_to_set_aside() {
        let options = |names: &[&'static str]| -> Vec<GivenOption> {
            let one = |name: &&'static str| GivenOption {
                name,
                value: Some("1".into()),
            };
            names.iter().map(one).collect()
        };
        let check = |environment: &[&'static str], line: &[&'static str], want: &str| {
            let got = check_set_aside(&options(environment), &options(line));
            let text = got.map_or_else(|fault| fault.text(Program::Salloc), |()| String::new());
            assert!(text.contains(want) && text.is_empty() == want.is_empty(), "{text}");
        };
        let both = ["core-spec", "thread-spec"];
        check(&[], &both, "salloc: fatal: -S/--core-spec and");
        check(&both, &[], "salloc: fatal: Both --core-spec and");
        check(&both, &["core-spec"], "");
        check(&["core-spec"], &["thread-spec"], "");
    }

    #[test]
    fn every_done_option_of_sbatch_is_taken() {
        let own = ["help", "usage", "version"];
        let now = || crate::submit::at("2026-11-21T14:30:10");
        for entry in table::entries(Program::Sbatch) {
            let value = match entry.opt.name {
                "signal" => "USR1",
                "mail-type" => "END",
                "export" | "propagate" => "ALL",
                "kill-on-invalid-dep" => "yes",
                "requeue" => "expedite",
                "exclusive" => "user",
                "open-mode" => "append",
                "distribution" => "block",
                "get-user-env" => "L",
                "begin" | "deadline" => "now",
                "container-mounts" => "/a:/b:ro",
                "gpu-bind" => "closest",
                _ => "1",
            };
            let takes = entry.opt.argument != crate::getopt::Argument::Nothing;
            let found = GivenOption {
                name: entry.opt.name,
                value: takes.then(|| value.into()),
            };
            let scene = OptionSources {
                program: Program::Sbatch,
                now: &now,
                root: false,
            };
            let taken = SubmitOptions::default().apply(&found, &scene);
            if entry.status == OptionSupport::Done && !own.contains(&entry.opt.name) {
                assert_eq!(taken, Ok(true), "{}", entry.opt.long);
            }
        }
    }
}
