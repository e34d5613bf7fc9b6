//! A job as `squeue --json` and `--yaml` tell it. Source: captures of 22.05; the names and
//! their order are those of its data parser.
//!
//! What Slurm knows and Cosy does not have is told as where nothing was asked for.

use crate::job::{self, JobView, RequestedMemory, wait_status};
use crate::json_yaml::{Data, Key, map};
use crate::state::SlurmState;
use cosy_model::api::JobField as F;
use cosy_model::{JobState, Time};
use cosy_view::words::gres;
use cosy_view::words::ids_by_node::{self, Ids};

/// The fields that [`of_job`] needs.
pub fn needs() -> Vec<F> {
    let own = [
        F::Id,
        F::Ref,
        F::ArrayId,
        F::ArrayTask,
        F::ArrayAtOnce,
        F::Component,
        F::Components,
        F::Name,
        F::User,
        F::Uid,
        F::Gid,
        F::Account,
        F::Qos,
        F::Wckey,
        F::Licenses,
        F::Deadline,
        F::Submit,
        F::Eligible,
        F::Start,
        F::Allocated,
        F::TimeLimit,
        F::TimeMin,
        F::Tasks,
        F::MinDisk,
        F::MaxNodes,
        F::ExitCode,
        F::DerivedExitCode,
        F::DerivedSignal,
        F::Nice,
        F::Requeue,
        F::DependencyText,
        F::Reservation,
        F::Command,
        F::Workdir,
        F::Stdout,
        F::Stderr,
        F::Stdin,
        F::Constraint,
        F::Prefer,
        F::Require,
        F::Avoid,
        F::Comment,
        F::AdminComment,
        F::Exclusive,
        F::Contiguous,
        F::Gres,
        F::BatchHost,
        F::Batch,
        F::Priority,
        F::CoreIds,
        F::SuspendedFor,
        F::SuspendedSince,
        F::Resized,
        F::End,
        F::LatestEnd,
    ];
    let mut all = own.to_vec();
    for need in job::TRES.iter().chain(job::REASON) {
        if !all.contains(need) {
            all.push(*need);
        }
    }
    all
}

type Entries = Vec<(Key, Data)>;

/// A job as `squeue --json` shows it.
pub fn of_job(job: &JobView<'_>) -> Data {
    let mut all = Vec::with_capacity(120);
    who(&mut all, job);
    request(&mut all, job);
    holding(&mut all, job);
    sizes(&mut all, job);
    order(&mut all, job);
    ends(&mut all, job);
    Data::Map(all)
}

fn add<const N: usize>(all: &mut Entries, entries: [(&'static str, Data); N]) {
    all.extend(entries.into_iter().map(|(k, v)| (Key::Borrowed(k), v)));
}

fn text(job: &JobView<'_>, field: F) -> Data {
    job.text(field).into()
}

fn nothing() -> Data {
    "".into()
}

fn seconds(at: Option<Time>) -> Data {
    at.map_or(0, Time::secs).into()
}

fn who(all: &mut Entries, job: &JobView<'_>) {
    let array = job.number(F::ArrayId).unwrap_or(0);
    let tasks = job.folded().map_or("", |tasks| tasks.spec);
    add(
        all,
        [
            ("account", text(job, F::Account)),
            ("accrue_time", seconds(job.time(F::Eligible))),
            ("admin_comment", text(job, F::AdminComment)),
            ("array_job_id", array.into()),
            (
                "array_task_id",
                match job.folded() {
                    Some(_) => Data::Null,
                    None => job.number(F::ArrayTask).into(),
                },
            ),
            ("array_max_tasks", job.count(F::ArrayAtOnce).into()),
            ("array_task_string", tasks.into()),
            ("association_id", 0.into()),
            ("batch_features", nothing()),
            ("batch_flag", job.flag(F::Batch).into()),
            ("batch_host", text(job, F::BatchHost)),
            ("flags", flags(job)),
            ("burst_buffer", nothing()),
            ("burst_buffer_state", nothing()),
            ("cluster", job.around().cluster.as_str().into()),
            ("cluster_features", nothing()),
            ("command", text(job, F::Command)),
            ("comment", text(job, F::Comment)),
            ("container", nothing()),
        ],
    );
}

fn flags(job: &JobView<'_>) -> Data {
    let mut flags = Vec::new();
    if job.our_state().is_end() {
        flags.push("TRES_STR_CALC".into());
    }
    if job.count(F::CoresPerTask) > 1 {
        flags.push("JOB_CPUS_SET".into());
    }
    if job.number(F::MinMemoryPerNode).is_some() || job.number(F::MemoryPerCore).is_some() {
        flags.push("JOB_MEM_SET".into());
    }
    if job.our_state() == JobState::Running {
        flags.push("JOB_WAS_RUNNING".into());
    }
    Data::List(flags)
}

fn request(all: &mut Entries, job: &JobView<'_>) {
    let billed = if job.waits() || job.text(F::Nodes).is_empty() {
        Data::Null
    } else {
        Data::Real(job.cores() as f64)
    };
    add(
        all,
        [
            ("contiguous", job.flag(F::Contiguous).into()),
            ("core_spec", Data::Null),
            ("thread_spec", Data::Null),
            ("cores_per_socket", Data::Null),
            ("billable_tres", billed),
            ("cpus_per_task", Data::Null),
            ("cpu_frequency_minimum", Data::Null),
            ("cpu_frequency_maximum", Data::Null),
            ("cpu_frequency_governor", Data::Null),
            ("cpus_per_tres", nothing()),
            ("deadline", seconds(job.time(F::Deadline))),
            ("delay_boot", 0.into()),
            ("dependency", text(job, F::DependencyText)),
            ("derived_exit_code", wait_status(job.derived_exit()).into()),
            ("eligible_time", seconds(job.time(F::Eligible))),
            ("end_time", seconds(job.end())),
            ("excluded_nodes", text(job, F::Avoid)),
            ("exit_code", wait_status(job.exit()).into()),
            ("features", text(job, F::Constraint)),
            ("federation_origin", nothing()),
            ("federation_siblings_active", nothing()),
            ("federation_siblings_viable", nothing()),
            ("gres_detail", Data::List(Vec::new())),
            ("group_id", job.count(F::Gid).into()),
            ("group_name", group(job)),
            ("job_id", job.raw_id().into()),
        ],
    );
}

fn group(job: &JobView<'_>) -> Data {
    let name = job.around().groups.get(&job.count(F::Gid));
    name.map_or("", String::as_str).into()
}

fn holding(all: &mut Entries, job: &JobView<'_>) {
    let cores = job.text(F::CoreIds);
    if !cores.is_empty() {
        let nodes: Vec<(&str, Ids<'_>)> = ids_by_node::read(cores).collect();
        let held = nodes.iter().map(|(node, cores)| held(job, node, *cores));
        let count = i64::try_from(nodes.len()).unwrap_or(i64::MAX);
        let resources = map([
            ("nodes", text(job, F::Nodes)),
            ("allocated_cores", job.cores().into()),
            ("allocated_hosts", count.into()),
            ("allocated_nodes", Data::List(held.collect())),
        ]);
        add(all, [("job_resources", resources)]);
    }
    add(
        all,
        [
            ("job_state", job.state().name().into()),
            ("last_sched_evaluation", seconds(evaluated(job))),
            ("licenses", text(job, F::Licenses)),
        ],
    );
}

fn evaluated(job: &JobView<'_>) -> Option<Time> {
    job.time(F::Allocated)
        .or_else(|| job.time(F::Start))
        .or_else(|| job.time(F::Submit))
}

fn held(job: &JobView<'_>, node: &str, cores: Ids<'_>) -> Data {
    let numbers = cores.numbers();
    let count = u64::try_from(numbers.len()).unwrap_or(u64::MAX);
    let memory = match job.memory() {
        RequestedMemory::PerCore(mib) => mib.saturating_mul(count),
        RequestedMemory::PerNode(mib) => mib,
        RequestedMemory::Nothing => 0,
    };
    let numbers = numbers.into_iter();
    let numbers = numbers.map(|n| (Key::Owned(n.to_string()), "allocated".into()));
    let socket = map([("cores", Data::Map(numbers.collect()))]);
    map([
        ("sockets", map([("0", socket)])),
        ("nodename", node.into()),
        ("cpus_used", 0.into()),
        ("memory_used", 0.into()),
        ("memory_allocated", i64::try_from(memory).unwrap_or(i64::MAX).into()),
    ])
}

fn sizes(all: &mut Entries, job: &JobView<'_>) {
    let (per_node, per_core) = match job.memory() {
        RequestedMemory::PerCore(mib) => {
            (Data::Null, i64::try_from(mib).unwrap_or(i64::MAX).into())
        }
        RequestedMemory::PerNode(mib) => {
            (i64::try_from(mib).unwrap_or(i64::MAX).into(), Data::Null)
        }
        RequestedMemory::Nothing => (Data::Null, Data::Null),
    };
    let nice = job.number(F::Nice).filter(|n| *n != 0);
    add(
        all,
        [
            ("max_cpus", 0.into()),
            ("max_nodes", most_nodes(job).into()),
            ("mcs_label", nothing()),
            ("memory_per_tres", nothing()),
            ("name", text(job, F::Name)),
            ("nodes", text(job, F::Nodes)),
            ("nice", nice.into()),
            ("tasks_per_core", Data::Null),
            ("tasks_per_node", job.count(F::TasksPerNode).into()),
            ("tasks_per_socket", Data::Null),
            ("tasks_per_board", 0.into()),
            ("cpus", job.cores().into()),
            ("node_count", job.nodes().into()),
            ("tasks", job.count(F::Tasks).max(1).into()),
            ("het_job_id", job.het().map_or(0, |het| het.job).into()),
            ("het_job_id_set", job.het().map_or_else(nothing, |het| het.set().into())),
            ("het_job_offset", job.het().map_or(0, |het| het.offset).into()),
            ("partition", job.partition().into()),
            ("prefer", text(job, F::Prefer)),
            ("memory_per_node", per_node),
            ("memory_per_cpu", per_core),
            ("minimum_cpus_per_node", job.cores_per_node().into()),
            ("minimum_tmp_disk_per_node", job.count(F::MinDisk).into()),
            ("preempt_time", 0.into()),
            ("pre_sus_time", suspended(job).into()),
        ],
    );
}

fn most_nodes(job: &JobView<'_>) -> i64 {
    let asked = job.number(F::MaxNodes).or_else(|| job.number(F::MinNodes));
    asked.filter(|_| job.waits()).unwrap_or(0)
}

fn suspended(job: &JobView<'_>) -> i64 {
    let whole = job.span(F::SuspendedFor).filter(|s| s.0 > 0);
    whole.map_or(0, |s| s.secs())
}

fn order(all: &mut Entries, job: &JobView<'_>) {
    let shared = if job.flag(F::Exclusive) {
        "none".into()
    } else {
        Data::Null
    };
    add(
        all,
        [
            ("priority", job.count(F::Priority).into()),
            ("profile", Data::Null),
            ("qos", text(job, F::Qos)),
            ("reboot", false.into()),
            ("required_nodes", text(job, F::Require)),
            ("requeue", job.flag(F::Requeue).into()),
            ("resize_time", seconds(job.time(F::Resized))),
            ("restart_cnt", job.count(F::Restarts).into()),
            ("resv_name", reservation(job)),
            ("shared", shared),
            (
                "show_flags",
                Data::List(vec!["SHOW_ALL".into(), "SHOW_DETAIL".into(), "SHOW_LOCAL".into()]),
            ),
            ("sockets_per_board", 0.into()),
            ("sockets_per_node", Data::Null),
        ],
    );
}

fn reservation(job: &JobView<'_>) -> Data {
    match job.number(F::Reservation) {
        Some(id) => match job.around().reservations.get(&id) {
            Some(name) => name.as_str().into(),
            None => id.to_string().into(),
        },
        None => nothing(),
    }
}

fn ends(all: &mut Entries, job: &JobView<'_>) {
    let limit = match job.span(F::TimeLimit) {
        Some(span) if !span.is_unlimited() => (span.secs() / 60).into(),
        Some(_) | None => Data::Null,
    };
    let minimum = job.span(F::TimeMin).map_or(0, |s| s.secs() / 60);
    let held = job
        .tres_held()
        .map_or_else(String::new, |held| held.to_string());
    let gres = gres::each(job.text(F::Gres)).map(|one| format!("gres:{one}"));
    let gres = gres.collect::<Vec<_>>().join(",");
    add(
        all,
        [
            ("start_time", seconds(job.time(F::Start))),
            ("state_description", nothing()),
            ("state_reason", job.reason().into()),
            ("standard_error", text(job, F::Stderr)),
            ("standard_input", text(job, F::Stdin)),
            ("standard_output", text(job, F::Stdout)),
            ("submit_time", seconds(job.time(F::Submit))),
            ("suspend_time", seconds(suspended_at(job))),
            ("system_comment", nothing()),
            ("time_limit", limit),
            ("time_minimum", minimum.into()),
            ("threads_per_core", Data::Null),
            ("tres_bind", nothing()),
            ("tres_freq", nothing()),
            ("tres_per_job", nothing()),
            ("tres_per_node", gres.into()),
            ("tres_per_socket", nothing()),
            ("tres_per_task", nothing()),
            ("tres_req_str", job.tres_asked().to_string().into()),
            ("tres_alloc_str", held.into()),
            ("user_id", job.count(F::Uid).into()),
            ("user_name", text(job, F::User)),
            ("wckey", text(job, F::Wckey)),
            ("current_working_directory", text(job, F::Workdir)),
        ],
    );
}

fn suspended_at(job: &JobView<'_>) -> Option<Time> {
    let stopped = job.state() == SlurmState::Suspended;
    job.time(F::SuspendedSince).filter(|_| stopped)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::ClusterFacts;
    use crate::job::tests::table;
    use crate::json_yaml::{Spelling, whole};
    use cosy_model::MiB;

    const NAMES: &str = "account accrue_time admin_comment array_job_id array_task_id \
        array_max_tasks array_task_string association_id batch_features batch_flag batch_host \
        flags burst_buffer burst_buffer_state cluster cluster_features command comment container \
        contiguous core_spec thread_spec cores_per_socket billable_tres cpus_per_task \
        cpu_frequency_minimum cpu_frequency_maximum cpu_frequency_governor cpus_per_tres deadline \
        delay_boot dependency derived_exit_code eligible_time end_time excluded_nodes exit_code \
        features federation_origin federation_siblings_active federation_siblings_viable \
        gres_detail group_id group_name job_id job_resources job_state last_sched_evaluation \
        licenses max_cpus max_nodes mcs_label memory_per_tres name nodes nice tasks_per_core \
        tasks_per_node tasks_per_socket tasks_per_board cpus node_count tasks het_job_id \
        het_job_id_set het_job_offset partition prefer memory_per_node memory_per_cpu \
        minimum_cpus_per_node minimum_tmp_disk_per_node preempt_time pre_sus_time priority profile \
        qos reboot required_nodes requeue resize_time restart_cnt resv_name shared show_flags \
        sockets_per_board sockets_per_node start_time state_description state_reason \
        standard_error standard_input standard_output submit_time suspend_time system_comment \
        time_limit time_minimum threads_per_core tres_bind tres_freq tres_per_job tres_per_node \
        tres_per_socket tres_per_task tres_req_str tres_alloc_str user_id user_name wckey \
        current_working_directory";

    #[test]
    fn names_and_values_as_captured() {
        let table = table(&[&[
            (F::Id, "1"),
            (F::Ref, "1"),
            (F::Name, "a.sh"),
            (F::State, "timed_out"),
            (F::Signal, "15"),
            (F::Queue, "main"),
            (F::Nodes, "n[3-4]"),
            (F::NodeCount, "2"),
            (F::Cores, "3"),
            (F::CoreIds, "n3:0-1;n4:7"),
            (F::TimeLimit, "60000"),
            (F::Submit, "1795227325000"),
            (F::Gid, "33"),
        ]]);
        let around = ClusterFacts {
            default_memory: [("main".to_owned(), MiB(100))].into(),
            groups: [(33, "www-data".to_owned())].into(),
            cluster: "base".to_owned(),
            ..ClusterFacts::default()
        };
        let data = of_job(&JobView::new(&table, 0, &around));
        let Data::Map(entries) = &data else {
            panic!("no map")
        };
        let names: Vec<&str> = entries.iter().map(|e| e.0.as_ref()).collect();
        assert_eq!(names, NAMES.split_whitespace().collect::<Vec<_>>());
        let read: serde_json::Value = serde_json::from_str(&whole(Spelling::Json, &data)).unwrap();
        let check = |pointer: &str, want: serde_json::Value| {
            assert_eq!(read.pointer(pointer), Some(&want), "{pointer}");
        };
        check("/job_state", "TIMEOUT".into());
        check("/state_reason", "TimeLimit".into());
        check("/exit_code", 15.into());
        check("/group_name", "www-data".into());
        check("/submit_time", 1_795_227_325.into());
        check("/time_limit", 1.into());
        check("/tres_alloc_str", "cpu=3,mem=300M,node=2,billing=3".into());
        check("/job_resources/allocated_nodes/0/memory_allocated", 200.into());
        check("/job_resources/allocated_nodes/1/sockets/0/cores/7", "allocated".into());
        check("/nice", serde_json::Value::Null);
    }
}
