//! The options of `csub`, on its command line and in `#COSY` lines alike.
//!
//! Both are read with the same [`command`] and laid over each other: each option is
//! `None` until somebody gives it.

use crate::job_options::{EnvItem, JobOptions};
use crate::native::arg::{
    flag, json, number, optional, parse_limit, parse_name, parse_reservation, value, values,
};
use crate::{refs, signals};
use clap::{Arg, ArgAction, ArgMatches, Command};
use cosy_model::device::{DeviceError, GpuRequest};
use cosy_model::job::{
    MailRequest, MemoryRequest, OpenMode, RequeueTerms, SwitchRequest, WarnSignal,
};
use cosy_model::limits::{COMMENT_BYTES, NICE, NODE_CORES, NODES, PATH_BYTES};
use cosy_model::{ArraySpec, ContainerOptions, CountedResources, MiB, OsText, Span};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// The command line of `csub`.
pub fn command() -> Command {
    crate::native::arg::command("submit", "Submit a batch job: a script or a command")
        .override_usage("csub [OPTIONS] SCRIPT [ARG]...\n       csub [OPTIONS] -- COMMAND [ARG]...\n       csub [OPTIONS] < SCRIPT")
        .after_help(AFTER)
        .args(args())
        .arg(words(
            "Batch script and its arguments ('-' or nothing is standard input), or a command",
        ))
}

/// All options; `cresv` has those that make sense for a reservation.
pub fn args() -> impl Iterator<Item = Arg> {
    resource_args()
        .into_iter()
        .chain(place_args())
        .chain(time_args())
        .chain(file_args())
        .chain(other_args())
        .chain(container_args())
}

/// The positional arguments: script or command, and its arguments.
pub fn words(help: &'static str) -> Arg {
    Arg::new("words")
        .value_name("SCRIPT | -- COMMAND")
        .help(help)
        .value_parser(clap::value_parser!(OsString))
        .num_args(0..)
        .trailing_var_arg(true)
}

const AFTER: &str = "\
Options may also stand in the script, in lines '#COSY --nodes 2 -t 10' before its first
command; the command line wins. File names may hold %j (job id), %A (array id), %a (array
index), %x (job name), %u (user), %N (first node), %% (a percent sign).
Exit codes: 0 submitted, 1 refused, 2 mistake on the command line, 3 no controller; with
--wait or --follow the job's own (128 and the signal when a signal ended it).";

fn resource_args() -> [Arg; 12] {
    [
        value("nodes", "N", "Number of nodes")
            .short('N')
            .value_parser(number(1, NODES as u32)),
        value("tasks", "N", "Number of tasks")
            .short('n')
            .value_parser(number(1, 10_000_000)),
        value("tasks-per-node", "N", "Tasks on one node, at most")
            .value_parser(number(1, NODE_CORES)),
        value("cores-per-task", "N", "Cores of each task")
            .short('c')
            .value_parser(number(1, NODE_CORES)),
        value("mem", "SIZE", "Memory on each node (500M, 2G; M without unit)").value_parser(size),
        value("mem-per-core", "SIZE", "Memory for each core").value_parser(size),
        value("disk", "SIZE", "Scratch disk on each node").value_parser(size),
        value("gpus", "N|TYPE:N[,...]", "GPUs on each node, of any one type or by type (a100:2)")
            .value_parser(gpus),
        value("other", "NAME=N[,...]", "Other countable resources on each node")
            .value_parser(other),
        value("licenses", "NAME[:N][,...]", "Licences, counted over the cluster, like matlab:2")
            .short('L')
            .value_parser(licenses),
        flag("exclusive", "Whole nodes, shared with nobody"),
        values("features", "NAME[,...]", "Features that every node must have").short('C'),
    ]
}

fn place_args() -> [Arg; 11] {
    [
        value("queue", "NAME", "Queue")
            .short('q')
            .value_parser(parse_name),
        value("prefer", "NODES", "Nodes to take first, like n[1-3,7]").value_parser(hosts),
        value("avoid", "NODES", "Nodes not to take").value_parser(hosts),
        value("require", "NODES", "Nodes that the job must get").value_parser(hosts),
        values("sets", "SET[,...]", "Node sets to take nodes from, in this order"),
        value("switches", "N[@TIME]", "Nodes on N switches at most; after TIME on any number")
            .value_parser(SwitchRequest::of_words),
        value("segment", "N", "Nodes in groups of N, each group on one switch")
            .value_parser(number(1, NODES as u32)),
        flag("contiguous", "Nodes side by side, in the order of the configuration"),
        value("account", "NAME", "Account to charge").value_parser(parse_name),
        value("qos", "NAME", "Quality of service, as 'cadm qos list' names it")
            .value_parser(parse_name),
        value("reservation", "ID", "Run inside this reservation, as cresv list names it")
            .value_parser(parse_reservation),
    ]
}

fn requeue() -> Arg {
    let help = "Run again after a node was lost (the default): N times at most, or at once";
    Arg::new("requeue")
        .long("requeue")
        .value_name("N|expedite")
        .num_args(0..=1)
        .require_equals(true)
        .default_missing_value("")
        .value_parser(requeue_terms)
        .help(help)
        .overrides_with_all(["requeue", "no-requeue"])
}

fn requeue_terms(text: &str) -> Result<RequeueTerms, String> {
    match text {
        "" => Ok(RequeueTerms::default()),
        words => RequeueTerms::of_words(words),
    }
}

fn time_args() -> [Arg; 11] {
    [
        value("time", "LIMIT", "Longest run time: minutes, H:MM:SS, D-HH:MM, 90s, 2h30m")
            .short('t')
            .value_parser(parse_limit),
        value("begin", "TIME", "Not before: now+2h, 16:30, tomorrow, 2026-11-21T10:00, RFC 3339"),
        flag("hold", "Wait until released").short('H'),
        value("nice", "N", "Nice value; a higher one lets others go first").value_parser(nice),
        value(
            "depend",
            "LIST",
            "Start after others: afterok:12:13,after:5,afternotok:7,afterany:8_3,singleton",
        )
        .short('d')
        .value_parser(refs::dependencies),
        value("array", "INDICES", "Array of tasks: 1-100, 0-31:4, 1,5,7; %5 at the end: 5 at once")
            .short('a')
            .value_parser(array),
        requeue(),
        value("spares", "N", "So many nodes more, which take the place of lost ones")
            .value_parser(number(1, NODES as u32)),
        flag("no-kill", "Go on with the nodes that are left when one is lost"),
        flag("no-requeue", "Do not run again after a node was lost").overrides_with("requeue"),
        value(
            "signal",
            "[B:]SIG[@SECONDS]",
            "Signal before the time limit (60 s before); B: only to the script",
        )
        .value_parser(warn),
    ]
}

fn file_args() -> [Arg; 7] {
    [
        value("output", "FILE", "Output file")
            .short('o')
            .value_parser(clap::value_parser!(OsString)),
        value("error", "FILE", "Error file (default: the output file)")
            .short('e')
            .value_parser(clap::value_parser!(OsString)),
        value("input", "FILE", "Input file")
            .short('i')
            .value_parser(clap::value_parser!(OsString)),
        value(
            "open-mode",
            "MODE",
            "How output files are opened: truncate or append",
        )
        .value_parser(open_mode),
        value("chdir", "DIR", "Working directory (default: the present one)")
            .short('D')
            .value_parser(clap::value_parser!(OsString)),
        Arg::new("env")
            .long("env")
            .value_name("LIST")
            .help("Environment: ALL (the default; NONE with --login), NONE, NAME,NAME=value,...; may be repeated")
            .action(ArgAction::Append)
            .value_parser(env_items),
        flag("login", "Start from the login environment"),
    ]
}

fn other_args() -> [Arg; 10] {
    [
        value("name", "NAME", "Name of the job")
            .short('J')
            .value_parser(parse_name),
        value("comment", "TEXT", "Any text").value_parser(comment),
        value("mpi", "NAME", "MPI plugin (default: that of the queue, else found out)")
            .value_parser(crate::launch::mpi::parse),
        value("mail-type", "LIST", "Mail at BEGIN, END, FAIL, REQUEUE, ALL, NONE")
            .value_parser(mail_type),
        value("mail-user", "ADDRESS", "Address for mail (default: yours)").value_parser(parse_name),
        flag("wait", "Wait for the job's end and take its exit code").short('w'),
        flag("follow", "Show what the job writes until it ends, and take its exit code").short('f'),
        json(),
        flag("quiet", "Say nothing when all is well").short('Q'),
        flag("parsable", "Print the id only"),
    ]
}

/// Options of a container that have a value: its name and the help.
const CONTAINER_VALUES: [(&str, &str, &str); 7] = [
    (
        "container-image",
        "IMAGE",
        "Run in a container of this image: [REGISTRY#]NAME[:TAG], or a file",
    ),
    ("container", "BUNDLE", "Run in a container of this OCI bundle, a folder with config.json"),
    (
        "container-mounts",
        "LIST",
        "What of the node is seen inside: SOURCE[:TARGET[:FLAG+FLAG]],...",
    ),
    ("container-workdir", "DIR", "Working directory inside (default: that of the job)"),
    ("container-name", "NAME", "Keep the container's files on the node under this name"),
    ("container-save", "FILE", "Write the container to this file when the program has ended"),
    ("container-env", "LIST", "Variables whose values here go over those of the image"),
];

/// Those without.
const CONTAINER_FLAGS: [(&str, &str); 8] = [
    ("container-mount-home", "The home directory is seen inside"),
    ("no-container-mount-home", "It is not (the default)"),
    ("container-remap-root", "Be root inside"),
    ("no-container-remap-root", "Be oneself inside (the default)"),
    ("container-entrypoint", "The image's entry point starts the program"),
    ("no-container-entrypoint", "It does not (the default)"),
    ("container-writable", "The root file system can be written to"),
    ("container-readonly", "It cannot (the default)"),
];

/// The container that a job or a step runs in; for `cosy run` too.
pub fn container_args() -> impl Iterator<Item = Arg> {
    let values = CONTAINER_VALUES.map(|(long, name, help)| value(long, name, help));
    let flags = CONTAINER_FLAGS.map(|(long, help)| flag(long, help));
    values.into_iter().chain(flags)
}

fn apply_container(options: &mut ContainerOptions, m: &ArgMatches) -> Result<(), String> {
    for (name, ..) in CONTAINER_VALUES {
        if let Some(text) = optional::<String>(m, name) {
            options.apply(name, text)?;
        }
    }
    for (name, _) in CONTAINER_FLAGS.iter().filter(|(name, _)| is_given(m, name)) {
        options.apply(name, "")?;
    }
    Ok(())
}

impl JobOptions {
    /// Overrides these options with those given in `m`; options that its command does not have
    /// count as not given.
    ///
    /// # Errors
    /// Options that contradict each other, or a file name that is too long.
    pub fn apply(&mut self, m: &ArgMatches) -> Result<(), String> {
        take(&mut self.queue, m, "queue");
        take(&mut self.nodes, m, "nodes");
        take(&mut self.tasks, m, "tasks");
        take(&mut self.tasks_per_node, m, "tasks-per-node");
        take(&mut self.cores_per_task, m, "cores-per-task");
        self.apply_memory(m)?;
        take(&mut self.disk, m, "disk");
        take(&mut self.gpus, m, "gpus");
        replace(&mut self.other, m, "other");
        take(&mut self.licenses, m, "licenses");
        take(&mut self.time, m, "time");
        take(&mut self.name, m, "name");
        path(&mut self.output, m, "output")?;
        path(&mut self.error, m, "error")?;
        path(&mut self.input, m, "input")?;
        take(&mut self.open_mode, m, "open-mode");
        take(&mut self.chdir, m, "chdir");
        self.apply_env(m);
        self.login |= is_given(m, "login");
        replace(&mut self.prefer, m, "prefer");
        replace(&mut self.avoid, m, "avoid");
        replace(&mut self.require, m, "require");
        names(&mut self.sets, m, "sets");
        names(&mut self.features, m, "features");
        take(&mut self.begin, m, "begin");
        self.hold |= is_given(m, "hold");
        take(&mut self.nice, m, "nice");
        replace(&mut self.depend, m, "depend");
        take(&mut self.array, m, "array");
        let terms = optional::<RequeueTerms>(m, "requeue");
        if terms.is_some() || is_given(m, "no-requeue") {
            self.requeue = Some(terms.is_some());
            self.requeue_terms = terms.copied().unwrap_or_default();
        }
        self.spares = optional::<u32>(m, "spares").copied().unwrap_or(self.spares);
        self.no_kill |= is_given(m, "no-kill");
        self.exclusive |= is_given(m, "exclusive");
        take(&mut self.switches, m, "switches");
        take(&mut self.segment, m, "segment");
        self.contiguous |= is_given(m, "contiguous");
        take(&mut self.account, m, "account");
        take(&mut self.qos, m, "qos");
        take(&mut self.reservation, m, "reservation");
        take(&mut self.comment, m, "comment");
        take(&mut self.mpi, m, "mpi");
        apply_container(&mut self.container, m)?;
        take(&mut self.signal, m, "signal");
        take(&mut self.mail_type, m, "mail-type");
        take(&mut self.mail_user, m, "mail-user");
        self.wait |= is_given(m, "wait");
        self.follow |= is_given(m, "follow");
        self.json |= is_given(m, "json");
        self.quiet |= is_given(m, "quiet");
        self.parsable |= is_given(m, "parsable");
        Ok(())
    }

    fn apply_memory(&mut self, m: &ArgMatches) -> Result<(), String> {
        let node = optional::<MiB>(m, "mem");
        let core = optional::<MiB>(m, "mem-per-core");
        self.memory = match (node, core) {
            (None, None) => self.memory,
            (Some(node), None) => Some(MemoryRequest::PerNode(*node)),
            (None, Some(core)) => Some(MemoryRequest::PerCore(*core)),
            (Some(_), Some(_)) => {
                return Err("--mem and --mem-per-core exclude each other".to_owned());
            }
        };
        Ok(())
    }

    fn apply_env(&mut self, m: &ArgMatches) {
        if let Ok(Some(items)) = m.try_get_many::<Vec<EnvItem>>("env") {
            self.env = items.flatten().cloned().collect();
        }
    }
}

/// Whether a flag was given that the command may not have.
fn is_given(m: &ArgMatches, name: &str) -> bool {
    optional::<bool>(m, name).copied().unwrap_or(false)
}

fn take<T: Clone + Send + Sync + 'static>(slot: &mut Option<T>, m: &ArgMatches, name: &str) {
    if let Some(value) = optional::<T>(m, name) {
        *slot = Some(value.clone());
    }
}

fn replace<T: Clone + Send + Sync + 'static>(slot: &mut Vec<T>, m: &ArgMatches, name: &str) {
    if let Some(value) = optional::<Vec<T>>(m, name) {
        slot.clone_from(value);
    }
}

fn names(slot: &mut Vec<String>, m: &ArgMatches, name: &str) {
    if m.try_contains_id(name).unwrap_or(false) {
        *slot = crate::native::arg::list(m, name);
    }
}

fn path(slot: &mut Option<OsText>, m: &ArgMatches, name: &str) -> Result<(), String> {
    if let Some(value) = optional::<OsString>(m, name) {
        *slot = Some(file_pattern(value.clone().into_vec(), name)?);
    }
    Ok(())
}

fn file_pattern(bytes: Vec<u8>, option: &str) -> Result<OsText, String> {
    if bytes.is_empty() {
        return Err(format!("--{option}: a file name is needed"));
    }
    if bytes.len() > PATH_BYTES {
        return Err(format!(
            "--{option}: the file name has {} bytes; at most {PATH_BYTES} are allowed",
            bytes.len()
        ));
    }
    Ok(OsText(bytes))
}

fn size(text: &str) -> Result<MiB, String> {
    let size = text.parse::<MiB>().map_err(|e| e.to_string())?;
    if size == MiB(0) {
        return Err("a size must be more than 0".to_owned());
    }
    Ok(size)
}

/// A host list, expanded; for `csub` and `cosy change`.
///
/// # Errors
/// Not a host list, or too many names.
pub fn hosts(text: &str) -> Result<Vec<String>, String> {
    cosy_model::expand(text).map_err(|e| e.to_string())
}

/// A number of GPUs, or numbers by type.
///
/// # Errors
/// In one line.
pub fn gpus(text: &str) -> Result<GpuRequest, String> {
    if text.bytes().all(|b| b.is_ascii_digit()) || !text.contains(|c: char| c.is_alphabetic()) {
        let count = number(0, 1024)(text)?;
        let types = cosy_model::CountedResources::default();
        return Ok(GpuRequest { count, types });
    }
    text.parse().map_err(|e: DeviceError| e.to_string())
}

fn other(text: &str) -> Result<Vec<(String, u32)>, String> {
    let one = |part: &str| {
        let (name, n) = part
            .split_once('=')
            .ok_or("name and number are needed, like fpga=2")?;
        Ok((parse_name(name)?, number(0, u32::MAX)(n)?))
    };
    text.split(',').map(one).collect()
}

/// Licences, as Slurm's commands read them too.
fn licenses(text: &str) -> Result<CountedResources, String> {
    let all = cosy_slurm::submit::gres::licenses(text);
    all.map_err(|_| "names and numbers are needed, like matlab:2,ansys".to_owned())
}

/// A nice value; for `csub` and `cosy change`.
///
/// # Errors
/// Not a number in the range.
pub fn nice(text: &str) -> Result<i64, String> {
    text.parse()
        .ok()
        .filter(|n: &i64| n.abs() <= NICE)
        .ok_or_else(|| format!("a whole number from -{NICE} to {NICE} is needed"))
}

/// Indices of an array; for `csub` and `cosy each`.
///
/// # Errors
/// In one line, what they are not.
pub fn array(text: &str) -> Result<ArraySpec, String> {
    text.parse()
        .map_err(|e: cosy_model::job::ArrayError| e.to_string())
}

/// A comment; for `csub` and `cosy change`.
///
/// # Errors
/// Too long.
pub fn comment(text: &str) -> Result<String, String> {
    if text.len() > COMMENT_BYTES {
        return Err(format!(
            "the comment has {} bytes; at most {COMMENT_BYTES} are allowed",
            text.len()
        ));
    }
    Ok(text.to_owned())
}

fn warn(text: &str) -> Result<WarnSignal, String> {
    const BEFORE: u32 = 60;
    let (script_only, rest) = match text.strip_prefix("B:") {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (signal, before) = match rest.split_once('@') {
        Some((signal, before)) => (signal, number(0, 1_000_000)(before)?),
        None => (rest, BEFORE),
    };
    Ok(WarnSignal {
        signal: signals::parse(signal)?,
        before: Span::from_secs(before.into()),
        script_only,
    })
}

fn open_mode(text: &str) -> Result<OpenMode, String> {
    match text {
        "truncate" => Ok(OpenMode::Truncate),
        "append" => Ok(OpenMode::Append),
        _ => Err("truncate or append is needed".to_owned()),
    }
}

fn mail_type(text: &str) -> Result<MailRequest, String> {
    let mut mail = MailRequest::default();
    for word in text.split(',') {
        match word.to_ascii_uppercase().as_str() {
            "NONE" => mail = MailRequest::default(),
            "BEGIN" => mail.begin = true,
            "END" => mail.end = true,
            "FAIL" => mail.fail = true,
            "REQUEUE" => mail.requeue = true,
            "ALL" => (mail.begin, mail.end, mail.fail, mail.requeue) = (true, true, true, true),
            _ => return Err("BEGIN, END, FAIL, REQUEUE, ALL or NONE are needed".to_owned()),
        }
    }
    Ok(mail)
}

fn env_items(text: &str) -> Result<Vec<EnvItem>, String> {
    let one = |part: &str| match (part, part.split_once('=')) {
        ("ALL", _) => Ok(EnvItem::All),
        ("NONE", _) => Ok(EnvItem::None),
        ("", _) | (_, Some(("", _))) => Err("the name of a variable is missing".to_owned()),
        (_, Some((name, value))) => Ok(EnvItem::Set(name.to_owned(), value.to_owned())),
        (name, None) => Ok(EnvItem::Keep(name.to_owned())),
    };
    text.split(',').map(one).collect()
}
