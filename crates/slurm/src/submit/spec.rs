//! The job that options and context make together.

use super::options::{Memory, SubmitOptions};
use super::{Fault, array, constraint, count, depend, export::Propagate, gpus, gres, sampling};
use cosy_model::job::{MemoryRequest, RequeueTerms, ResourceRequest, Rlimits};
use cosy_model::limits::{HOST_LIST_BYTES, NAME_BYTES};
use cosy_model::{
    ArraySpec, CountedResources, Dialect, JobSpec, MiB, OsText, Program, ReservationId, Span, Time,
    expand,
};

/// What the original's controller says to a number of nodes that it does not take.
pub const NODE_COUNT: &str = "Node count specification invalid";
/// The same for nodes that there are not.
pub const NODE_NAME: &str = "Invalid node name specified";
/// The same for a shortest time that is longer than the limit.
pub const TIME_MIN: &str = "Invalid time-min specification (exceeds job's time or other limits)";

/// The same for a deadline that is past.
pub const TIME_LIMIT: &str = "Requested time limit is invalid (missing or exceeds some limit)";
/// What is said to a job that may not begin before it has to be over.
pub const TOO_LATE: &str = "Incompatible begin and deadline time specification";

/// What a job takes from where it is asked for.
#[derive(Clone, Debug)]
pub struct SubmissionContext {
    /// The present, from which relative times count.
    pub now: Time,
    /// What to run.
    pub program: Program,
    /// The job's name where none is given.
    pub default_name: String,
    /// Working directory where `--chdir` names none.
    pub workdir: OsText,
    /// Block of variables `NAME=value`, each ended by NUL.
    pub environment: OsText,
    /// File mode mask.
    pub umask: u32,
    /// Resource limits: name, soft and hard value.
    pub rlimits: Rlimits,
    /// Name of the host that the job is submitted from.
    pub host: Option<String>,
    /// Session that the job is submitted in.
    pub session: Option<u32>,
    /// The whole command line.
    pub line: String,
    /// The reservation that was named.
    pub reservation: Option<ReservationId>,
    /// The user may choose a place in the queue.
    pub root: bool,
}

/// The job, and the array that it is.
///
/// # Errors
/// What the original refuses before or at submission.
pub fn build(
    job_options: &SubmitOptions,
    context: SubmissionContext,
) -> Result<(JobSpec, Option<ArraySpec>), Fault> {
    times(job_options, context.now)?;
    sampling::check(job_options.sampling, job_options.memory != Memory::Default)?;
    let request = request(job_options)?;
    let array = job_options.array.as_deref().map(array::read).transpose()?;
    let depend = match &job_options.dependency {
        Some(text) => depend::read(text)?,
        None => depend::Depend::default(),
    };
    let licenses = match &job_options.licenses {
        Some(text) => gres::licenses(text)?,
        None => CountedResources::default(),
    };
    let container = job_options.container.container().map_err(Fault::error)?;
    let name = job_options.name.as_ref().unwrap_or(&context.default_name);
    let plain = JobSpec::plain(job_name(name), context.program, context.workdir);
    let spec = JobSpec {
        queue: queue(job_options),
        account: job_options.account.clone(),
        reservation: context.reservation,
        comment: job_options.comment.clone().unwrap_or_default(),
        request,
        time_limit: job_options.time,
        begin: job_options.begin,
        hold: job_options.hold,
        nice: job_options.nice.unwrap_or(0),
        dependencies: depend.all,
        any_dependency: depend.any,
        end_if_never: job_options.end_if_never,
        requeue: job_options.requeue.unwrap_or(true),
        no_kill: job_options.no_kill,
        requeue_terms: RequeueTerms {
            most: None,
            expedite: job_options.expedite,
        },
        stdout: file(&job_options.output),
        stderr: file(&job_options.error),
        stdin: file(&job_options.input),
        open_mode: job_options.open_mode.unwrap_or_default(),
        environment: context.environment,
        login_environment: job_options.login,
        umask: context.umask,
        rlimits: limits(&context.rlimits, &job_options.propagate),
        warn: job_options.signal,
        mail: job_options.mail(),
        dialect: Dialect::Slurm,
        qos: job_options.qos.clone(),
        wckey: job_options.wckey.clone(),
        submit_host: context.host,
        submit_session: context.session,
        submit_line: context.line,
        licenses,
        deadline: job_options.deadline,
        time_min: job_options.time_min,
        priority: job_options.priority.filter(|_| context.root),
        container: container.map(Box::new),
        ..plain
    };
    Ok((spec, array))
}

/// How old a deadline may be that is `now`.
const NOW: Span = Span::from_secs(2);

/// Times that contradict each other, or the present.
fn times(job_options: &SubmitOptions, now: Time) -> Result<(), Fault> {
    let SubmitOptions {
        begin,
        deadline,
        time,
        time_min,
        ..
    } = job_options;
    if let (Some(begin), Some(deadline)) = (begin, deadline)
        && deadline < begin
    {
        return Err(Fault::error(TOO_LATE));
    }
    if deadline.is_some_and(|d| d + NOW < now) {
        return Err(Fault::refusal(TIME_LIMIT));
    }
    let left = deadline.map(|d| d.since(now));
    let longest = [*time, left].into_iter().flatten().min();
    if time_min.is_some_and(|least| longest.is_some_and(|most| least > most)) {
        return Err(Fault::refusal(TIME_MIN));
    }
    Ok(())
}

/// The first of several queues: a job waits in one here.
pub fn queue(job_options: &SubmitOptions) -> Option<String> {
    let all = job_options.partition.as_deref()?;
    let first = all.split(',').next().unwrap_or(all);
    Some(first.to_owned()).filter(|q| !q.is_empty())
}

/// A name that a job can have.
pub fn job_name(name: &str) -> String {
    let clean = |c: char| if c.is_control() { '?' } else { c };
    let mut name: String = name.chars().take(NAME_BYTES).map(clean).collect();
    while name.len() > NAME_BYTES {
        name.pop();
    }
    if name.is_empty() {
        "job".to_owned()
    } else {
        name
    }
}

fn file(pattern: &Option<std::ffi::OsString>) -> Option<OsText> {
    use std::os::unix::ffi::OsStringExt;
    let pattern = pattern.clone().filter(|p| !p.is_empty())?;
    Some(OsText(pattern.into_vec()))
}

fn limits(all: &Rlimits, wanted: &Propagate) -> Rlimits {
    let taken = all.iter().filter(|(name, ..)| wanted.takes(name));
    taken.cloned().collect()
}

/// Resources and places.
///
/// # Errors
/// Numbers that contradict each other, lists that cannot be read.
pub fn request(job_options: &SubmitOptions) -> Result<ResourceRequest, Fault> {
    let require = hosts(job_options.nodelist.as_deref())?;
    let avoid = hosts(job_options.exclude.as_deref())?;
    let (nodes, max_nodes) = node_counts(job_options, require.len())?;
    let features = match &job_options.constraint {
        Some(text) => constraint::read(text)?,
        None => constraint::Features::default(),
    };
    let preferred = job_options.prefer.as_deref().map(constraint::preferred);
    let mut request = ResourceRequest {
        nodes,
        max_nodes,
        tasks: job_options.tasks,
        tasks_per_node: job_options.tasks_per_node,
        cores_per_task: job_options.cores_per_task.unwrap_or(1),
        disk_per_node: job_options.disk.unwrap_or_default(),
        exclusive: job_options.exclusive.unwrap_or(false),
        oversubscribe: job_options.exclusive == Some(false),
        contiguous: job_options.contiguous,
        switches: job_options.switches,
        segment: job_options.segment,
        overcommit: job_options.overcommit,
        features: features.all,
        any_features: features.any,
        same_features: features.same,
        counted_features: features.counted,
        prefer_features: preferred.transpose()?.unwrap_or_default(),
        require,
        avoid,
        ..ResourceRequest::default()
    };
    gpus::devices(job_options, &mut request)?;
    if let Some(cores) = job_options.cores_per_node {
        cores_on_each_node(cores, &mut request);
    }
    memory(job_options.memory, &mut request);
    Ok(request)
}

fn hosts(list: Option<&str>) -> Result<Vec<String>, Fault> {
    let Some(list) = list.filter(|l| !l.is_empty()) else {
        return Ok(Vec::new());
    };
    let invalid = || Fault::refusal(NODE_NAME);
    if list.len() > HOST_LIST_BYTES {
        return Err(invalid());
    }
    let mut names = expand(list).map_err(|_| invalid())?;
    let mut seen = std::collections::BTreeSet::new();
    names.retain(|n| seen.insert(n.clone()));
    Ok(names)
}

/// Least and most nodes; named ones count.
fn node_counts(
    job_options: &SubmitOptions,
    named: usize,
) -> Result<(Option<u32>, Option<u32>), Fault> {
    let named = u32::try_from(named).unwrap_or(u32::MAX);
    let Some(asked) = job_options.nodes else {
        return Ok((Some(named).filter(|n| *n > 1), None));
    };
    if asked.most == 0 || asked.least == 0 {
        return Err(Fault::refusal(NODE_COUNT));
    }
    if named > asked.most {
        return Err(count::too_few_nodes(named, asked.most));
    }
    let least = asked.least.max(named);
    let most = Some(asked.most).filter(|most| *most > least && !job_options.fewest_nodes);
    Ok((Some(least), most))
}

/// At least so many cores on each node: more tasks have room there where none were counted,
/// else each task has more cores.
fn cores_on_each_node(least: u32, request: &mut ResourceRequest) {
    if request.tasks.is_none() && request.tasks_per_node.is_none() {
        let room = least.div_ceil(request.cores_per_task.max(1));
        request.tasks_per_node = Some(room).filter(|room| *room > 1);
        return;
    }
    let each = least.div_ceil(gpus::tasks_on_a_node(request));
    request.cores_per_task = request.cores_per_task.max(each);
}

fn memory(asked: Memory, request: &mut ResourceRequest) {
    request.ask_memory(match asked {
        Memory::Default => MemoryRequest::QueueDefault,
        Memory::PerCore(MiB(0)) | Memory::PerGpu(MiB(0)) => MemoryRequest::QueueDefault,
        Memory::PerNode(size) => MemoryRequest::PerNode(size),
        Memory::PerCore(size) => MemoryRequest::PerCore(size),
        Memory::PerGpu(MiB(size)) => {
            let gpus = u64::from(request.gpus_per_node.max(1));
            MemoryRequest::PerNode(MiB(size.saturating_mul(gpus)))
        }
    });
}

#[cfg(test)]
mod tests {
    use super::super::options::OptionSources;
    use super::super::{Program as Command, table};
    use super::*;
    use crate::getopt::{Order, parse};
    use std::ffi::OsString;

    fn job_options(line: &str) -> SubmitOptions {
        let now = || crate::submit::at("2026-11-21T14:30:10");
        let scene = OptionSources {
            program: Command::Sbatch,
            now: &now,
            root: false,
        };
        let args: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        let mut job_options = SubmitOptions::default();
        for found in parse(&table::options(Command::Sbatch), Order::Stop, &args).found {
            job_options.apply(&found, &scene).unwrap();
        }
        job_options
    }

    fn context() -> SubmissionContext {
        SubmissionContext {
            now: Time(
                crate::submit::at("2026-11-21T14:30:10")
                    .timestamp()
                    .as_millisecond(),
            ),
            program: Program::Allocation,
            default_name: "a.sh".to_owned(),
            workdir: "/w".into(),
            environment: OsText::default(),
            umask: 0o22,
            rlimits: [("CORE".to_owned(), 0, 0), ("AS".to_owned(), 1, 1)].into(),
            host: None,
            session: Some(7),
            line: "sbatch a.sh".to_owned(),
            reservation: None,
            root: false,
        }
    }

    #[test]
    fn requests() {
        let check = |line: &str, want: &str| {
            let r = request(&job_options(line)).unwrap();
            let shown = |n: Option<u32>| n.map_or_else(|| "-".to_owned(), |n| n.to_string());
            let got = format!(
                "N{} M{} n{} p{} c{} g{} {:?}{}",
                shown(r.nodes),
                shown(r.max_nodes),
                shown(r.tasks),
                shown(r.tasks_per_node),
                r.cores_per_task,
                r.gpus_per_node,
                r.memory,
                if r.exclusive { " whole" } else { "" }
            );
            assert_eq!(got, want, "{line}");
        };
        check("", "N- M- n- p- c1 g0 QueueDefault");
        check("-N2-4 -n8 -c2", "N2 M4 n8 p- c2 g0 QueueDefault");
        check("-w n[1-3]", "N3 M- n- p- c1 g0 QueueDefault");
        check("-w n1", "N- M- n- p- c1 g0 QueueDefault");
        check("-w n1,n2 -N1-4", "N2 M4 n- p- c1 g0 QueueDefault");
        check("--mem=0", "N- M- n- p- c1 g0 QueueDefault whole");
        check("--mem=1G", "N- M- n- p- c1 g0 PerNode(MiB(1024))");
        check("--gres=gpu:2", "N- M- n- p- c1 g2 QueueDefault");
        check("-G 4 -N 2", "N2 M- n- p- c1 g2 QueueDefault");
        check("-G 4", "N1 M- n- p- c1 g4 QueueDefault");
        check("-G 7 -N2", "N2 M- n- p- c1 g4 QueueDefault");
        let in_all = |line: &str| request(&job_options(line)).unwrap().gpus_in_all;
        assert_eq!(in_all("-G 7 -N2"), Some(7));
        assert_eq!(in_all("-G 8 -N2"), None);
        assert_eq!(in_all("-G a100:7 -N2"), None);
        check("-n4 --gpus-per-task=1", "N1 M- n4 p4 c1 g4 QueueDefault");
        check("-N2 -n4 --gpus-per-task=1", "N2 M- n4 p2 c1 g2 QueueDefault");
        check("--gpus-per-node=2 --cpus-per-gpu=3", "N1 M- n- p1 c6 g2 QueueDefault");
        check("--gpus-per-node=2 --ntasks-per-gpu=2", "N- M- n- p4 c1 g2 QueueDefault");
        check("-G 4 --gpus-per-node=2", "N2 M- n- p- c1 g2 QueueDefault");
        check("-G 2 --gpus-per-node=0", "N1 M- n- p- c1 g2 QueueDefault");
        check("-G 4 --gres=gpu:2 -N1-3", "N2 M- n- p- c1 g2 QueueDefault");
        check("-G 4 --gpus-per-task=2 -N1", "N1 M- n2 p2 c1 g4 QueueDefault");
        check("--gpus-per-socket=2 --sockets-per-node=2", "N- M- n- p- c1 g4 QueueDefault");
        check("--mincpus=4", "N- M- n- p4 c1 g0 QueueDefault");
        check("--mincpus=1", "N- M- n- p- c1 g0 QueueDefault");
        check("--mincpus=4 -c3", "N- M- n- p2 c3 g0 QueueDefault");
        check("--mincpus=5 -N2 -n4", "N2 M- n4 p2 c3 g0 QueueDefault");
        check("--mincpus=4 -n8", "N1 M- n8 p8 c1 g0 QueueDefault");
        check("--gpus-per-node=2 --mem-per-gpu=10", "N- M- n- p- c1 g2 PerNode(MiB(20))");
    }

    /// What rules at submission see of `--mem=0`, `--gpus` and its like.
    #[test]
    fn words_are_kept() {
        let check = |line: &str, want: [&str; 4]| {
            let asked = request(&job_options(line)).unwrap().asked;
            let got = [
                &*asked.per_job,
                &*asked.per_node,
                &*asked.per_socket,
                &*asked.per_task,
            ];
            assert_eq!(got, want, "{line}");
        };
        check("--gres=gpu:2", [""; 4]);
        check("--gpus-per-node=a100:2", [""; 4]);
        check("-G 4", ["gres/gpu:4", "", "", ""]);
        check("-G a100:2,v100:1 -N1", ["gres/gpu:a100:2,gres/gpu:v100:1", "", "", ""]);
        check("-G 4 --gres=gpu:2", ["gres/gpu:4", "gres/gpu:2", "", ""]);
        check("-n4 --gpus-per-task=a100:1", ["", "", "", "gres/gpu:a100:1"]);
        check("--gpus-per-socket=2 --sockets-per-node=2", ["", "", "gres/gpu:2", ""]);
        let memory = |line: &str| {
            let request = request(&job_options(line)).unwrap();
            let asked = request.asked;
            (asked.all_memory, asked.exclusive, request.exclusive)
        };
        assert_eq!(memory("--mem=0"), (true, false, true));
        assert_eq!(memory("--mem=0 --exclusive"), (true, true, true));
        assert_eq!(memory("--exclusive"), (false, false, true));
        assert_eq!(memory("--mem-per-cpu=0"), (false, false, false));
    }

    #[test]
    fn refusals_as_captured() {
        let check = |line: &str, want: &str| {
            let fault = build(&job_options(line), context()).unwrap_err();
            assert_eq!((fault.text(Command::Sbatch).as_str(), fault.code), (want, 1), "{line}");
        };
        let failed = |why: &str| format!("sbatch: error: Batch job submission failed: {why}\n");
        check("-N 0", &failed("Node count specification invalid"));
        check("-w n1,n2 -N1", "sbatch: error: invalid number of nodes (-N 2-1)\n");
        check("--array=foo", &failed("Invalid job array specification"));
        check("-d foo:1", &failed("Job dependency problem"));
        check("--constraint=[", &failed("Invalid feature specification"));
        check("--time-min=5 -t 1", &failed(TIME_MIN));
        check("--time-min=120 --deadline=now+1hour -t 180", &failed(TIME_MIN));
        check("--deadline=2015-03-27T04:30:00", &failed(TIME_LIMIT));
        check("--begin=now+2hours --deadline=now+1hour", &format!("sbatch: error: {TOO_LATE}\n"));
        check("-w n[1", &failed("Invalid node name specified"));
        check("-L a:x", &failed("Invalid license specification"));
        check("--cpus-per-gpu=2", "sbatch: error: Invalid generic resource (gres) specification\n");
    }

    #[test]
    fn numbers_of_gpus_that_contradict_each_other() {
        let check = |line: &str, want: &str| {
            let fault = build(&job_options(line), context()).unwrap_err();
            let text = fault.text(Command::Sbatch);
            assert!(text.contains(want), "{line}: {text}");
            assert_eq!(fault.code, 1, "{line}");
        };
        check(
            "--gpus-per-task=1 --cpus-per-gpu=1 --cpus-per-task=2 -N1",
            "--cpus-per-gpu is mutually exclusive with --cpus-per-task",
        );
        check(
            "--gpus-per-task=1 --gpus-per-node=1 -n2 -N1",
            "Requested node configuration is not available",
        );
        check("--gpus-per-socket=1 -N1", "requires --sockets-per-node");
        let both = "--gpus-per-node=4 --gres=gpu:5 -N1";
        check(both, "Requested node configuration is not available");
        check(
            "--gpus-per-task=1 --gpus-per-node=2 --ntasks-per-node=1 -N1",
            "tasks per node differ from --ntasks-per-node",
        );
        check("--gres=gpu:2 --gpus=1", "Failed to ensure --gpus >= ");
        check("--gpus-per-socket=2 --sockets-per-node=1 --gpus=1", "Failed to ensure --gpus >= ");
        check(
            "--gpus-per-task=1 -n2 --gpus=1",
            "number of requested tasks differ from -n/--ntasks",
        );
        check("--gres=gpu:2 --gpus=3", "--gpus is not multiple of --gres");
        check(
            "--gres=gpu:2 --gpus-per-socket=1 --sockets-per-node=1",
            "sockets differ from --sockets-per-node",
        );
        check(
            "--gres=gpu:2 --gpus=4 -N1",
            "required nodes (2) doesn't fall between min_nodes (1) and max_nodes (1)",
        );
        check("--gpus=3 --gpus-per-task=2 -N1", "not multiple of --gpus-per-task");
        check("--gpus=1 -N2", "--gpus < -N");
    }

    #[test]
    fn jobs() {
        let line =
            "-p short,main -J x -d after:3+5 -L l:2 --propagate=CORE -o o.%j -H --priority=5";
        let (spec, array) = build(&job_options(line), context()).unwrap();
        assert_eq!((spec.name.as_str(), spec.queue.as_deref()), ("x", Some("short")));
        assert_eq!(spec.dialect, Dialect::Slurm);
        assert_eq!(spec.dependencies[0].delay.secs(), 300);
        assert_eq!(spec.licenses.get("l"), 2);
        assert_eq!(*spec.rlimits, [("CORE".to_owned(), 0, 0)]);
        assert!(spec.hold && spec.requeue && spec.priority.is_none() && array.is_none());
        let fine = |line: &str| build(&job_options(line), context()).is_ok();
        assert!(fine("--deadline=now"));
        assert!(fine("--deadline=now+1hour --begin=now+50minutes -t 120 --time-min=30"));
        let named = |line: &str| build(&job_options(line), context()).unwrap().0.name;
        assert_eq!(named(""), "a.sh");
        assert_eq!(named("--job-name="), "job");
        assert_eq!(named(&format!("-J {}", "é".repeat(300))).len(), 254);
    }
}
