//! `sdiag`: what the controller has done since midnight, as far as it tells. Sources:
//! sdiag(1), a capture.
//!
//! Cosy's controller does not count cycles or messages: what Slurm tells of them is 0 here,
//! so that programs that read the report find every line.

use crate::times;
use cosy_model::api::{JobField, QueueInfo, Table};
use cosy_model::{JobState, Time};
use jiff::Zoned;

/// What is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Jobs submitted today that are known.
    pub submitted: usize,
    /// Jobs among them that have begun today.
    pub started: usize,
    /// Ended with exit code 0.
    pub completed: usize,
    /// Ended by somebody.
    pub cancelled: usize,
    /// Ended with another exit code, at a limit, or with a node.
    pub failed: usize,
    /// Jobs that wait now, held ones too.
    pub pending: usize,
    /// Jobs that run now.
    pub running: usize,
}

/// The fields of history that [`Counts::of`] looks at.
pub const NEEDS: &[JobField] = &[JobField::State, JobField::Start, JobField::Submit];

impl Counts {
    /// Counted in all queues, and in the jobs that were there since then.
    pub fn of(queues: &[QueueInfo], jobs: &Table, since: Time) -> Self {
        let mut counts = Self::default();
        for queue in queues {
            counts.pending += queue.waiting as usize;
            counts.running += queue.running as usize;
        }
        counts.submitted = counts.pending;
        for row in 0..jobs.rows {
            let at = |field| jobs.number(row, field).map(Time);
            let today = |field| at(field).is_some_and(|t| t >= since);
            counts.started += usize::from(today(JobField::Start));
            match jobs.text(row, JobField::State).parse::<JobState>() {
                Ok(JobState::Completed) => counts.completed += 1,
                Ok(JobState::Cancelled) => counts.cancelled += 1,
                Ok(state) if state.is_end() => counts.failed += 1,
                Ok(JobState::Waiting) | Err(_) => continue,
                Ok(_) => {}
            }
            counts.submitted += usize::from(today(JobField::Submit));
        }
        counts
    }
}

/// The report; `since` is from when on jobs are counted.
pub fn report(counts: &Counts, now: &Zoned, since: &Zoned) -> String {
    let line = "*".repeat(55);
    let at = |when: &Zoned| {
        let seconds = when.timestamp().as_second();
        format!("{} ({seconds})", times::heading(when))
    };
    let mut text =
        format!("{line}\nsdiag output at {}\nData since      {}\n{line}\n", at(now), at(since));
    text.push_str(
        "Server thread count:  1\nAgent queue size:     0\nAgent count:          0\n\
         Agent thread count:   0\nDBD Agent queue size: 0\n\n",
    );
    text.push_str(&format!(
        "Jobs submitted: {}\nJobs started:   {}\nJobs completed: {}\nJobs canceled:  {}\n\
         Jobs failed:    {}\n\n",
        counts.submitted, counts.started, counts.completed, counts.cancelled, counts.failed
    ));
    text.push_str(&format!(
        "Job states ts:  {}\nJobs pending:   {}\nJobs running:   {}\n\n",
        at(now),
        counts.pending,
        counts.running
    ));
    text.push_str(&cycles(counts.pending));
    text
}

fn cycles(queue: usize) -> String {
    let mut text = String::from("Main schedule statistics (microseconds):\n");
    for name in [
        "Last cycle:   0",
        "Max cycle:    0",
        "Total cycles: 0",
        "Mean cycle:   0",
        "Mean depth cycle:  0",
        "Cycles per minute: 0",
    ] {
        text.push_str(&format!("\t{name}\n"));
    }
    text.push_str(&format!("\tLast queue length: {queue}\n\nBackfilling stats\n"));
    for name in [
        "Total backfilled jobs (since last slurm start): 0",
        "Total backfilled jobs (since last stats cycle start): 0",
        "Total backfilled heterogeneous job components: 0",
        "Total cycles: 0",
        "Last cycle when: N/A",
        "Last cycle: 0",
        "Max cycle:  0",
        "Mean cycle: 0",
        "Last depth cycle: 0",
        "Last depth cycle (try sched): 0",
        "Depth Mean: 0",
        "Depth Mean (try depth): 0",
    ] {
        text.push_str(&format!("\t{name}\n"));
    }
    text.push_str(&format!("\tLast queue length: {queue}\n\tQueue length mean: {queue}\n"));
    text.push_str("\tLast table size: 0\n\tMean table size: 0\n\n");
    text.push_str("Latency for 1000 calls to gettimeofday(): 0 microseconds\n\n");
    text.push_str("Remote Procedure Call statistics by message type\n\n");
    text.push_str("Remote Procedure Call statistics by user\n\n");
    text.push_str("Pending RPC statistics\n\tNo pending RPCs\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let now: Zoned = "2026-11-21T02:22:03+00:00[+00:00]".parse().unwrap();
        let since: Zoned = "2026-11-21T00:00:00+00:00[+00:00]".parse().unwrap();
        let counts = Counts {
            submitted: 203,
            started: 101,
            completed: 81,
            pending: 7,
            ..Counts::default()
        };
        let text = report(&counts, &now, &since);
        for want in [
            "sdiag output at Sat Nov 21 02:22:03 2026 (1795227723)",
            "Data since      Sat Nov 21 00:00:00 2026 (1795219200)",
            "Jobs submitted: 203",
            "Jobs completed: 81",
            "Jobs pending:   7",
            "\tLast queue length: 7",
            "Server thread count:  1",
        ] {
            assert!(text.lines().any(|l| l == want), "{want}");
        }
    }
}
