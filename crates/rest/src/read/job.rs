//! A job as `slurm/.../jobs` tells it: what `squeue --json` tells of it, and what came to that since.

use crate::json::INFINITE;
use crate::read::file_names;
use crate::tree::{Tree, exit, minutes, number, seconds, texts};
use cosy_model::JobState;
use cosy_model::api::JobField as F;
use cosy_slurm::job::{JobView, RequestedMemory};
use cosy_slurm::json_yaml::{Data, map};
use cosy_slurm::show::held_by_node;
use cosy_slurm::{SlurmState, squeue};
use cosy_view::words::ids_by_node;

/// The fields that [`of_job`] needs.
pub fn needs() -> Vec<F> {
    let own = [
        F::GpuIds,
        F::SubmitLine,
        F::SubmitHost,
        F::MailTypes,
        F::MailTo,
        F::HeldBy,
        F::PreemptTime,
        F::PreemptEligible,
        F::EndIfNever,
        F::PredictedStart,
        F::Begin,
    ];
    let mut all = squeue::tree::needs();
    all.extend(own);
    all
}

/// The record of a job.
pub fn of_job(job: &JobView<'_>) -> Data {
    let mut tree = Tree::of(squeue::tree::of_job(job));
    tree.take("show_flags");
    tree.set("job_state", states(job.state()))
        .set("flags", flags(job))
        .set("job_resources", resources(job))
        .set("gres_detail", texts(held_by_node::gres(job)))
        .set("hold", job.waits() && job.count(F::Priority) == 0)
        .set("allocating_node", job.text(F::SubmitHost))
        .set("submit_line", job.text(F::SubmitLine))
        .set("profile", "NOT_SET")
        .set("licenses_allocated", held(job, job.text(F::Licenses)))
        .set("step_id", map([("job_id", job.raw_id().into())]));
    numbers(&mut tree, job);
    times(&mut tree, job);
    ends(&mut tree, job);
    mail(&mut tree, job);
    for (pattern, name) in [
        (F::Stdin, "stdin_expanded"),
        (F::Stdout, "stdout_expanded"),
        (F::Stderr, "stderr_expanded"),
    ] {
        tree.set(name, file_names::expanded(job, pattern));
    }
    tree.done()
}

/// What it does, and what is the matter with it beside that.
fn states(state: SlurmState) -> Data {
    match state {
        SlurmState::Configuring => texts(["RUNNING", "CONFIGURING"]),
        SlurmState::SpecialExit => texts(["PENDING", "SPECIAL_EXIT"]),
        other => other.name().into(),
    }
}

fn flags(job: &JobView<'_>) -> Data {
    let mut flags = Vec::new();
    match job.number(F::EndIfNever) {
        Some(0) => flags.push("NO_KILL_INVALID_DEPENDENCY"),
        Some(_) => flags.push("KILL_INVALID_DEPENDENCY"),
        None => {}
    }
    if job.het().is_some() {
        flags.push("HETEROGENEOUS_JOB");
    }
    if job.count(F::CoresPerTask) > 1 {
        flags.push("EXACT_CPU_COUNT_REQUESTED");
    }
    if job.number(F::MinMemoryPerNode).is_some() || job.number(F::MemoryPerCore).is_some() {
        flags.push("EXACT_MEMORY_REQUESTED");
    }
    if job.our_state() == JobState::Running {
        flags.push("JOB_WAS_RUNNING");
    }
    if !job.text(F::DependencyText).is_empty() {
        flags.push("DEPENDENT");
    }
    texts(flags)
}

fn held<'t>(job: &JobView<'_>, text: &'t str) -> &'t str {
    if job.tres_held().is_some() { text } else { "" }
}

/// The nodes that it holds, core by core.
fn resources(job: &JobView<'_>) -> Data {
    let cores = job.text(F::CoreIds);
    if cores.is_empty() {
        return Data::Null;
    }
    let nodes: Vec<Data> = ids_by_node::read(cores)
        .enumerate()
        .map(|(at, (node, ids))| on_node(job, at, node, &ids.numbers()))
        .collect();
    map([
        ("select_type", "CORE".into()),
        (
            "nodes",
            map([
                ("count", number(nodes.len())),
                ("select_type", "AVAILABLE".into()),
                ("list", job.text(F::Nodes).into()),
                ("whole", job.flag(F::Exclusive).into()),
                ("allocation", Data::List(nodes)),
            ]),
        ),
        ("cpus", job.cores().into()),
        ("threads_per_core", Data::Null),
    ])
}

fn on_node(job: &JobView<'_>, at: usize, name: &str, cores: &[u32]) -> Data {
    let memory = match job.memory() {
        RequestedMemory::PerCore(mib) => {
            mib.saturating_mul(u64::try_from(cores.len()).unwrap_or(u64::MAX))
        }
        RequestedMemory::PerNode(mib) => mib,
        RequestedMemory::Nothing => 0,
    };
    let core = |id: &u32| map([("index", number(*id)), ("status", "ALLOCATED".into())]);
    let socket = map([
        ("index", 0.into()),
        ("cores", Data::List(cores.iter().map(core).collect())),
    ]);
    map([
        ("index", number(at)),
        ("name", name.into()),
        ("cpus", map([("count", number(cores.len())), ("used", 0.into())])),
        ("memory", map([("used", 0.into()), ("allocated", number(memory))])),
        ("sockets", Data::List(vec![socket])),
    ])
}

fn numbers(tree: &mut Tree, job: &JobView<'_>) {
    let each = job.number(F::CoresPerTask).unwrap_or(1).max(1);
    tree.set("cpus_per_task", each).set("max_cpus", 0);
    if job.number(F::ArrayId).is_none() {
        // Where there is no array its number is 0 and the task's is not set.
        tree.set("array_task_id", Data::Null);
    }
    if job.het().is_none() {
        tree.set("het_job_offset", 0).set("het_job_id", 0);
    }
}

fn times(tree: &mut Tree, job: &JobView<'_>) {
    let limit = match job.span(F::TimeLimit) {
        // Without a limit of its own it has none, as `scontrol show job` says.
        None => INFINITE,
        some => minutes(some),
    };
    tree.set("time_limit", limit)
        .set("start_time", seconds(job.start()))
        .set("preempt_time", seconds(job.time(F::PreemptTime)))
        .set("preemptable_time", seconds(job.time(F::PreemptEligible)));
}

fn ends(tree: &mut Tree, job: &JobView<'_>) {
    let over = job.our_state().is_end();
    // While it runs Slurm tells a success that has no number yet.
    tree.set("exit_code", exit(job.exit(), over))
        .set("derived_exit_code", exit(job.derived_exit(), over));
}

fn mail(tree: &mut Tree, job: &JobView<'_>) {
    let types = job.text(F::MailTypes);
    let words = types.split(',').filter(|word| !word.is_empty());
    let words: Vec<String> = words.map(str::to_ascii_uppercase).collect();
    let to = match job.text(F::MailTo) {
        "" if !words.is_empty() => job.text(F::User),
        to => to,
    };
    tree.set("mail_type", texts(words)).set("mail_user", to);
}
