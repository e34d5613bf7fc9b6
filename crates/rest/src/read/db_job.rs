//! A job as `slurmdb/.../jobs` tells it: what `sacct --json` tells of it, and what came to that since.

use crate::json::INFINITE;
use crate::read::file_names;
use crate::tree::{Tree, exit, minutes, texts, tres_of};
use cosy_model::Time;
use cosy_model::api::JobField as F;
use cosy_slurm::job::{JobView, RequestedMemory};
use cosy_slurm::json_yaml::{Data, map};
use cosy_slurm::sacct::rows::{NEEDS, Row};
use cosy_slurm::sacct::tree as older;
use cosy_slurm::tres::{Item, Tres};
use cosy_view::words::end_note::CancelNote;

/// The fields that [`of_job`] needs.
pub fn needs() -> Vec<F> {
    let own = [
        F::ArrayAtOnce,
        F::AdminComment,
        F::Stdin,
        F::Stdout,
        F::Stderr,
        F::Licenses,
        F::Gres,
    ];
    NEEDS.iter().chain(&own).copied().collect()
}

/// One job out of its records, the whole job first.
pub fn of_job(rows: &[Row<'_>]) -> Data {
    let Some((whole, steps)) = rows.split_first() else {
        return Data::Null;
    };
    let job = &whole.job;
    let over = job.our_state().is_end();
    let canceller = CancelNote::read(job.text(F::Reason)).map_or("", |note| note.who);
    let mut tree = Tree::of(older::of_job(rows));
    tree.at("comment.administrator", job.text(F::AdminComment))
        .at("array.limits.max.running.tasks", job.count(F::ArrayAtOnce))
        .set("derived_exit_code", exit(job.derived_exit(), over))
        .set("exit_code", exit(whole.exit(), over))
        .at("time.limit", job.limit().map_or(INFINITE, |limit| minutes(Some(limit))))
        .at("time.planned", planned(job))
        .set("licenses", job.text(F::Licenses))
        .set("hold", job.waits() && job.count(F::Priority) == 0)
        .set("qosreq", job.text(F::Qos))
        .set("required", required(job))
        .set("kill_request_user", canceller)
        .set("restart_cnt", job.count(F::Restarts))
        .at("reservation.requested", reservation(job))
        .set("stdin_expanded", file_names::expanded(job, F::Stdin))
        .set("stdout_expanded", file_names::expanded(job, F::Stdout))
        .set("stderr_expanded", file_names::expanded(job, F::Stderr))
        .set("stdin", job.text(F::Stdin))
        .set("stdout", job.text(F::Stdout))
        .set("stderr", job.text(F::Stderr))
        .set("steps", Data::List(steps.iter().map(of_step).collect()))
        .set("submit_line", job.text(F::SubmitLine))
        .set("tres", amounts(job))
        .set("used_gres", job.text(F::Gres));
    tree.done()
}

/// How long it waited since it could have started.
fn planned(job: &JobView<'_>) -> Data {
    let waited = || {
        Some(
            job.time(F::Start)?
                .since(job.time(F::Eligible)?)
                .secs()
                .max(0),
        )
    };
    Data::from(waited())
}

fn reservation<'t>(job: &JobView<'t>) -> &'t str {
    let id = job.number(F::Reservation);
    let name = id.and_then(|id| job.around().reservations.get(&id));
    name.map_or("", String::as_str)
}

fn required(job: &JobView<'_>) -> Data {
    let size = |mib: u64| i64::try_from(mib).unwrap_or(i64::MAX).into();
    let (per_core, per_node) = match job.memory() {
        RequestedMemory::PerCore(mib) => (size(mib), Data::Null),
        RequestedMemory::PerNode(mib) => (Data::Null, size(mib)),
        RequestedMemory::Nothing => (Data::Null, Data::Null),
    };
    map([
        ("CPUs", job.cores().into()),
        ("memory_per_cpu", per_core),
        ("memory_per_node", per_node),
    ])
}

fn amounts(job: &JobView<'_>) -> Data {
    map([
        ("allocated", list(job.tres_held().into_iter().flat_map(Tres::items))),
        ("requested", list(job.tres_asked().items())),
    ])
}

fn list(items: impl Iterator<Item = Item>) -> Data {
    let one = |item: Item| tres_of(item.kind, item.name.unwrap_or_default(), item.count);
    Data::List(items.map(one).collect())
}

/// A step, its script among them.
fn of_step(row: &Row<'_>) -> Data {
    let usage = row.usage().unwrap_or_default();
    let spent = |us: i64| {
        map([
            ("seconds", (us / 1_000_000).into()),
            ("microseconds", (us % 1_000_000).into()),
        ])
    };
    let at = |time: Option<Time>| Data::from(time.map(Time::secs));
    let total = usage.user_us.saturating_add(usage.system_us);
    let names = cosy_model::expand(row.nodes()).unwrap_or_default();
    let mut tree = Tree::default();
    tree.at("time.elapsed", row.elapsed().secs())
        .at("time.end", at(row.end()))
        .at("time.start", at(row.start()))
        .at("time.system", spent(usage.system_us))
        .at("time.limit", Data::Null)
        .at("time.total", spent(total))
        .at("time.user", spent(usage.user_us))
        .set("exit_code", exit(row.exit(), row.end().is_some()))
        .at("nodes.count", row.node_count())
        .at("nodes.range", row.nodes())
        .at("nodes.list", texts(names))
        .at("tasks.count", row.tasks().unwrap_or(1))
        .set("state", row.state().name())
        .at("step.id", row.raw_id())
        .at("step.name", row.name())
        .at("task.distribution", "Unknown")
        .at(
            "tres.allocated",
            list([Item::cores(row.cores()), Item::nodes(row.node_count())].into_iter()),
        );
    if usage.peak_bytes > 0 {
        let peak = || Data::List(vec![tres_of("mem", "", usage.peak_bytes)]);
        tree.at("tres.requested.max", peak())
            .at("tres.consumed.max", peak());
    }
    tree.done()
}
