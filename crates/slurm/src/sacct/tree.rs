//! Records as `sacct --json` and `--yaml` tell them, in the shape of the data parser of
//! 22.05 (`dbv0.0.38` of its REST interface). Source: the published description of that
//! interface.

use super::rows::{Part, Row};
use crate::json_yaml::{Data, map};
use crate::tres::{Item, Tres};
use cosy_model::api::JobField as F;
use cosy_model::{Span, Time};

/// One job out of its records, the whole job first.
pub fn of_job(rows: &[Row<'_>]) -> Data {
    let Some((whole, steps)) = rows.split_first() else {
        return Data::Null;
    };
    let mut all = match head(whole) {
        Data::Map(entries) => entries,
        other => return other,
    };
    if let Data::Map(entries) = tail(whole, steps) {
        all.extend(entries);
    }
    Data::Map(all)
}

fn seconds(at: Option<Time>) -> Data {
    at.map_or(0, Time::secs).into()
}

fn spent(microseconds: i64) -> Data {
    map([
        ("seconds", (microseconds / 1_000_000).into()),
        ("microseconds", (microseconds % 1_000_000).into()),
    ])
}

fn ended(exit: (i64, i64)) -> Data {
    match exit {
        (_, signal) if signal != 0 => map([
            ("status", "SIGNALED".into()),
            ("return_code", 0.into()),
            ("signal", map([("signal_id", signal.into())])),
        ]),
        (0, _) => map([("status", "SUCCESS".into()), ("return_code", 0.into())]),
        (code, _) => map([("status", "ERROR".into()), ("return_code", code.into())]),
    }
}

fn tres(all: impl Iterator<Item = Item>) -> Data {
    let one = |item: Item| {
        map([
            ("type", item.kind.into()),
            ("name", item.name.map_or(Data::Null, Data::from)),
            ("count", Data::Number(item.count)),
        ])
    };
    Data::List(all.map(one).collect())
}

fn head(whole: &Row<'_>) -> Data {
    let job = &whole.job;
    let account = || job.text(F::Account).into();
    let limit = match job.limit() {
        Some(span) if !span.is_unlimited() => (span.secs() / 60).into(),
        Some(_) | None => Data::Null,
    };
    map([
        ("account", account()),
        (
            "comment",
            map([
                ("administrator", Data::Null),
                ("job", job.text(F::Comment).into()),
                ("system", Data::Null),
            ]),
        ),
        ("allocation_nodes", whole.node_count().into()),
        (
            "array",
            map([
                ("job_id", job.number(F::ArrayId).unwrap_or(0).into()),
                ("task", job.folded().map_or(Data::Null, |tasks| tasks.spec.into())),
                ("task_id", job.task().into()),
            ]),
        ),
        (
            "association",
            map([
                ("account", account()),
                ("cluster", job.around().cluster.as_str().into()),
                ("partition", Data::Null),
                ("user", job.text(F::User).into()),
            ]),
        ),
        ("cluster", job.around().cluster.as_str().into()),
        ("constraints", job.text(F::Constraint).into()),
        ("derived_exit_code", ended(job.derived_exit())),
        ("time", times(whole, limit)),
        ("exit_code", ended(whole.exit())),
        ("failed_node", job.text(F::FailedNodes).into()),
        ("flags", Data::List(Vec::new())),
        (
            "group",
            job.around()
                .groups
                .get(&job.count(F::Gid))
                .map_or(Data::Null, |g| g.as_str().into()),
        ),
        (
            "het",
            map([
                ("job_id", job.het().map_or(0, |het| het.job).into()),
                ("job_offset", job.het().map_or(Data::Null, |het| het.offset.into())),
            ]),
        ),
        ("job_id", job.raw_id().into()),
        ("name", job.text(F::Name).into()),
        ("mcs", map([("label", "".into())])),
        ("nodes", whole.nodes().into()),
    ])
}

fn times(whole: &Row<'_>, limit: Data) -> Data {
    let job = &whole.job;
    let usage = whole.usage().unwrap_or_default();
    let suspended = job.span(F::SuspendedFor).unwrap_or(Span(0)).secs();
    map([
        ("elapsed", whole.elapsed().secs().into()),
        ("eligible", seconds(job.time(F::Eligible))),
        ("end", seconds(whole.end())),
        ("start", seconds(whole.start())),
        ("submission", seconds(job.time(F::Submit))),
        ("suspended", suspended.into()),
        ("system", spent(usage.system_us)),
        ("limit", limit),
        ("total", spent(usage.user_us.saturating_add(usage.system_us))),
        ("user", spent(usage.user_us)),
    ])
}

fn tail(whole: &Row<'_>, steps: &[Row<'_>]) -> Data {
    let job = &whole.job;
    map([
        ("partition", job.text(F::Queue).into()),
        ("priority", job.count(F::Priority).into()),
        ("qos", job.text(F::Qos).into()),
        ("required", map([("CPUs", job.cores().into()), ("memory", Data::Null)])),
        ("kill_request_user", whole.canceller.into()),
        (
            "reservation",
            map([
                ("id", job.number(F::Reservation).unwrap_or(0).into()),
                ("name", reservation(whole)),
            ]),
        ),
        (
            "state",
            map([
                ("current", whole.state().name().into()),
                ("reason", job.reason().into()),
            ]),
        ),
        ("steps", Data::List(steps.iter().map(of_step).collect())),
        (
            "tres",
            map([
                ("allocated", tres(job.tres_held().into_iter().flat_map(Tres::items))),
                ("requested", tres(job.tres_asked().items())),
            ]),
        ),
        ("user", job.text(F::User).into()),
        (
            "wckey",
            map([
                ("wckey", job.text(F::Wckey).into()),
                ("flags", Data::List(Vec::new())),
            ]),
        ),
        ("working_directory", job.text(F::Workdir).into()),
    ])
}

fn reservation(whole: &Row<'_>) -> Data {
    let id = whole.job.number(F::Reservation);
    let name = id.and_then(|id| whole.job.around().reservations.get(&id));
    name.map_or("", String::as_str).into()
}

fn of_step(row: &Row<'_>) -> Data {
    let usage = row.usage().unwrap_or_default();
    let total = usage.user_us.saturating_add(usage.system_us);
    let names = cosy_model::hostlist::expand(row.nodes()).unwrap_or_default();
    map([
        (
            "time",
            map([
                ("elapsed", row.elapsed().secs().into()),
                ("end", seconds(row.end())),
                ("start", seconds(row.start())),
                ("suspended", 0.into()),
                ("system", spent(usage.system_us)),
                ("total", spent(total)),
                ("user", spent(usage.user_us)),
            ]),
        ),
        ("exit_code", ended(row.exit())),
        (
            "nodes",
            map([
                ("count", row.node_count().into()),
                ("range", row.nodes().into()),
                ("list", Data::List(names.into_iter().map(Data::from).collect())),
            ]),
        ),
        ("tasks", map([("count", row.tasks().unwrap_or(1).into())])),
        ("state", row.state().name().into()),
        (
            "step",
            map([
                ("job_id", row.job.raw_id().into()),
                ("id", step_id(row)),
                ("name", row.name().into()),
            ]),
        ),
        (
            "tres",
            map([(
                "allocated",
                tres([Item::cores(row.cores()), Item::nodes(row.node_count())].into_iter()),
            )]),
        ),
    ])
}

fn step_id(row: &Row<'_>) -> Data {
    match row.part {
        Part::Whole | Part::Batch => row.step().map_or(Data::Null, Data::from),
        Part::Step(s) => i64::from(s.step.0).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::tests::table;
    use crate::job::{ClusterFacts, JobView};
    use crate::json_yaml::{Spelling, whole};

    #[test]
    fn what_clients_read() {
        let table = table(&[&[
            (F::Id, "12"),
            (F::Ref, "12"),
            (F::Name, "x"),
            (F::State, "failed"),
            (F::ExitCode, "3"),
            (F::Nodes, "n1"),
            (F::NodeCount, "1"),
            (F::Cores, "2"),
            (F::MinMemoryPerNode, "2048"),
            (F::Start, "0"),
            (F::End, "1000"),
            (F::Elapsed, "1000"),
            (F::Batch, "1"),
        ]]);
        let around = ClusterFacts::default();
        let rows = Row::of_job(JobView::new(&table, 0, &around), &[], &[], None, Time(0));
        let text = whole(Spelling::Json, &of_job(&rows));
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        let check = |pointer: &str, want: serde_json::Value| {
            assert_eq!(read.pointer(pointer), Some(&want), "{pointer}");
        };
        check("/job_id", 12.into());
        check("/state/current", "FAILED".into());
        check("/state/reason", "NonZeroExitCode".into());
        check("/exit_code/return_code", 3.into());
        check("/tres/allocated/1/count", 2048.into());
        check("/steps/0/step/id", "batch".into());
        assert_eq!(read.pointer("/steps/1"), None);
    }
    #[test]
    fn a_job_with_nodes_runs() {
        let check = |state: &str, want: &str| {
            let table = table(&[&[(F::Id, "12"), (F::Ref, "12"), (F::State, state)]]);
            let around = ClusterFacts::default();
            let rows = Row::of_job(JobView::new(&table, 0, &around), &[], &[], None, Time(0));
            assert_eq!(rows[0].state_text(), want, "{state}");
        };
        check("waiting", "PENDING");
        check("starting", "RUNNING");
        check("running", "RUNNING");
        check("completing", "RUNNING");
        check("completed", "COMPLETED");
    }
}
