//! What the controller has done: `slurm/.../diag`. Cosy counts no cycles and no messages by type of
//! Slurm's; what is told of them is what its meter has (`cadm meter`).

use crate::tree::{Tree, number, seconds};
use cosy_model::Time;
use cosy_model::api::{MeterRow, WHOLE_TURN};
use cosy_slurm::diagnosis::Counts;
use cosy_slurm::json_yaml::{Data, map};

/// The statistics: jobs counted since `since`, and the meter's rows.
pub fn of_counts(counts: &Counts, kinds: &[MeterRow], now: Time, since: Time) -> Data {
    let turns = kinds.iter().find(|row| row.kind == WHOLE_TURN);
    let mut tree = Tree::default();
    tree.set("parts_packed", 1)
        .set("req_time", seconds(Some(now)))
        .set("req_time_start", seconds(Some(since)))
        .set("server_thread_count", 1)
        .set("schedule_queue_length", number(counts.pending))
        .set("jobs_submitted", number(counts.submitted))
        .set("jobs_started", number(counts.started))
        .set("jobs_completed", number(counts.completed))
        .set("jobs_canceled", number(counts.cancelled))
        .set("jobs_failed", number(counts.failed))
        .set("jobs_pending", number(counts.pending))
        .set("jobs_running", number(counts.running))
        .set("job_states_ts", seconds(Some(now)))
        .set("bf_queue_len", number(counts.pending));
    if let Some(turns) = turns {
        tree.set("schedule_cycle_total", number(turns.count))
            .set("schedule_cycle_sum", number(turns.turns_us))
            .set("schedule_cycle_max", number(turns.longest_turn_us))
            .set("schedule_cycle_mean", number(turns.turns_us / turns.count.max(1)));
    }
    let kinds = kinds.iter().filter(|row| row.kind != WHOLE_TURN);
    tree.set("rpcs_by_message_type", Data::List(kinds.map(message).collect()));
    tree.done()
}

fn message(row: &MeterRow) -> Data {
    map([
        ("message_type", row.kind.as_str().into()),
        ("count", number(row.count)),
        ("cycle_max", number(row.longest_turn_us)),
        ("total_time", number(row.turns_us)),
        ("average_time", number(row.turns_us / row.count.max(1))),
    ])
}
