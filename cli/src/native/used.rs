//! What a job has used of what it asked for: cores, memory and time.

use crate::units::{brief, bytes, micros};
use cosy_model::api::{JobField, Table};
use cosy_model::step::JobUse;
use cosy_model::{JobState, MiB, Span};
use cosy_view::phrase::energy;

/// The use of a job whose record says nothing of it yet, because it runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LiveUse {
    cpu_us: i64,
    memory_bytes: i64,
}

impl LiveUse {
    /// What script and steps use together on the first node; `None` where nothing is known.
    pub fn of(used: &JobUse) -> Option<Self> {
        let all = used
            .script
            .iter()
            .chain(used.steps.iter().map(|(_, used)| used));
        let (mut cpu, mut memory) = (0_u64, 0_u64);
        for one in all {
            cpu = cpu
                .saturating_add(one.user_cpu_us)
                .saturating_add(one.system_cpu_us);
            memory = memory.saturating_add(one.memory_bytes);
        }
        let signed = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        (memory > 0 || cpu > 0).then(|| Self {
            cpu_us: signed(cpu),
            memory_bytes: signed(memory),
        })
    }
}

/// A job in a row of a table.
#[derive(Clone, Copy)]
pub struct Used<'t> {
    /// The table.
    pub table: &'t Table,
    /// Its row.
    pub row: usize,
}

impl Used<'_> {
    /// A number that is known.
    pub fn number(self, field: JobField) -> Option<i64> {
        self.table.number(self.row, field)
    }

    /// A number that is more than nothing.
    pub fn some(self, field: JobField) -> Option<i64> {
        self.number(field).filter(|n| *n > 0)
    }

    /// Several tasks in one row have no run time of their own.
    fn is_one(self) -> bool {
        !self.table.text(self.row, JobField::Ref).contains('[')
    }

    /// User and system CPU time in microseconds, as recorded.
    pub fn cpu_us(self) -> Option<i64> {
        let user = self.number(JobField::UserCpu);
        let system = self.number(JobField::SystemCpu);
        user.or(system)?;
        Some(user.unwrap_or(0).saturating_add(system.unwrap_or(0)))
    }

    /// Its time limit, where it has one.
    pub fn limit(self) -> Option<Span> {
        let limit = self.some(JobField::TimeLimit).map(Span);
        limit.filter(|limit| !limit.is_unlimited())
    }

    /// Per cent of its cores that were busy on average.
    pub fn cores_percent(self) -> Option<i64> {
        let ran = self.some(JobField::Elapsed).filter(|_| self.is_one())?;
        let had = ran.saturating_mul(self.some(JobField::Cores)?);
        percent(self.cpu_us()? / 1000, had)
    }

    /// Bytes of memory that it was given on a node.
    pub fn memory_bytes(self) -> Option<i64> {
        let mib = self.some(JobField::MemoryPerNode)?;
        Some(mib.saturating_mul(1 << 20))
    }

    /// Per cent of the memory that it had on a node, on the one where it used most.
    pub fn memory_percent(self) -> Option<i64> {
        percent(self.some(JobField::PeakMemory)?, self.memory_bytes()?)
    }

    /// Per cent of its time limit.
    pub fn time_percent(self) -> Option<i64> {
        percent(self.number(JobField::Elapsed)?, self.limit()?.0)
    }

    /// Per cent of its time in which something ran on its GPUs, on average over them.
    pub fn gpu_percent(self) -> Option<i64> {
        self.number(JobField::GpuBusy).map(|permille| permille / 10)
    }

    /// One line: `3.2 of 64 cores (1h of CPU time), 3.0G of 64G of memory, 41m of 4h`. Of a job that
    /// runs as it is now.
    pub fn line(self, live: Option<LiveUse>) -> String {
        let state: Option<JobState> = self.table.text(self.row, JobField::State).parse().ok();
        let has_begun = self.number(JobField::Start).is_some();
        if !has_begun || state == Some(JobState::Waiting) {
            return String::new();
        }
        let parts = [
            self.cores(live),
            self.memory(live),
            self.gpus(),
            self.energy(),
        ];
        let mut parts: Vec<String> = parts.into_iter().flatten().collect();
        // Alone it says no more than start and end.
        if !parts.is_empty() {
            parts.extend(self.time());
        }
        parts.join(", ")
    }

    fn cores(self, live: Option<LiveUse>) -> Option<String> {
        let us = self.cpu_us().or(live.map(|l| l.cpu_us))?;
        let time = match us {
            ..60_000_000 => micros(us),
            us => brief(Span(us / 1000)),
        };
        let nodes = self.number(JobField::NodeCount);
        let here = live.is_some() && nodes.is_some_and(|n| n > 1);
        let busy = || {
            let ran = self
                .some(JobField::Elapsed)
                .filter(|_| self.is_one() && !here)?;
            let tenths = (us / 1000).saturating_mul(10) / ran;
            Some((tenths, self.some(JobField::Cores)?))
        };
        Some(match busy() {
            Some((tenths, cores)) => {
                let word = if cores == 1 { "core" } else { "cores" };
                format!("{}.{} of {cores} {word} ({time} of CPU time)", tenths / 10, tenths % 10)
            }
            None if here => format!("{time} of CPU time on its first node"),
            None => format!("{time} of CPU time"),
        })
    }

    fn memory(self, live: Option<LiveUse>) -> Option<String> {
        let (used, when) = match (self.some(JobField::PeakMemory), live) {
            (Some(peak), _) => (peak, " at most"),
            (None, Some(live)) => (live.memory_bytes, " now"),
            (None, None) => return None,
        };
        Some(match self.some(JobField::MemoryPerNode) {
            Some(mib) => format!("{} of {} of memory{when}", bytes(used), MiB(mib.unsigned_abs())),
            None => format!("{} of memory{when}", bytes(used)),
        })
    }

    /// Of one that has ended: `2 GPUs 45% busy`, with the most memory of a node's GPUs.
    fn gpus(self) -> Option<String> {
        let busy = self.gpu_percent()?;
        let count = self.some(JobField::Gpus).unwrap_or(1);
        let word = if count == 1 { "GPU" } else { "GPUs" };
        let memory = self.some(JobField::GpuMemory);
        let memory = memory.map_or_else(String::new, |most| {
            format!(" with {} of their memory at most", bytes(most))
        });
        Some(format!("{count} {word} {busy}% busy{memory}"))
    }

    /// Of one that has ended.
    fn energy(self) -> Option<String> {
        let joules = self.number(JobField::Energy)?;
        Some(format!("an estimated {}", energy(joules.unsigned_abs())))
    }

    fn time(self) -> Option<String> {
        let ran = brief(Span(self.number(JobField::Elapsed)?));
        Some(match self.limit() {
            Some(limit) => format!("{ran} of {}", brief(limit)),
            None => ran,
        })
    }
}

/// Rounded down; `None` without anything to be a part of.
fn percent(part: i64, whole: i64) -> Option<i64> {
    i64::try_from(i128::from(part.max(0)) * 100 / i128::from(whole.max(1)))
        .ok()
        .filter(|_| whole > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::api::{Column, NO_NUMBER};

    fn job(state: &str, name: &str, numbers: &[(JobField, i64)]) -> Table {
        use JobField as F;
        let mut fields = vec![F::State, F::Ref];
        let text = |t: &str| Column::Texts(vec![t.to_owned()]);
        let mut columns = vec![text(state), text(name)];
        for (field, n) in numbers {
            fields.push(*field);
            columns.push(Column::Numbers(vec![*n]));
        }
        Table::of(fields, columns, 1)
    }

    const ENDED: [(JobField, i64); 8] = [
        (JobField::Start, 1),
        (JobField::Elapsed, 41 * 60_000),
        (JobField::TimeLimit, 240 * 60_000),
        (JobField::Cores, 8),
        (JobField::UserCpu, 41 * 60_000_000),
        (JobField::SystemCpu, 41 * 60_000_000),
        (JobField::PeakMemory, 3 << 30),
        (JobField::MemoryPerNode, 64 << 10),
    ];

    #[test]
    fn an_ended_one() {
        let table = job("completed", "12", &ENDED);
        let used = Used {
            table: &table,
            row: 0,
        };
        let want = "2.0 of 8 cores (1h22m of CPU time), 3.0G of 64G of memory at most, 41m of 4h";
        assert_eq!(used.line(None), want);
        let percents = (used.cores_percent(), used.memory_percent(), used.time_percent());
        assert_eq!(percents, (Some(25), Some(4), Some(17)));
        let mut numbers = ENDED.to_vec();
        numbers.extend([
            (JobField::Gpus, 2),
            (JobField::GpuBusy, 459),
            (JobField::GpuMemory, 3 << 30),
            (JobField::Energy, 4_400_000),
        ]);
        let table = job("completed", "12", &numbers);
        let used = Used {
            table: &table,
            row: 0,
        };
        let want = "2.0 of 8 cores (1h22m of CPU time), 3.0G of 64G of memory at most, \
                    2 GPUs 45% busy with 3.0G of their memory at most, an estimated 1.2 kWh, 41m of 4h";
        assert_eq!(used.line(None), want);
        let tasks = job("completed", "12_[1-4]", &ENDED);
        assert_eq!(
            Used {
                table: &tasks,
                row: 0
            }
            .cores_percent(),
            None
        );
    }

    #[test]
    fn one_that_runs() {
        let live = LiveUse {
            cpu_us: 60_000_000,
            memory_bytes: 1 << 30,
        };
        let mut numbers = ENDED[..4].to_vec();
        numbers.extend([
            (JobField::MemoryPerNode, 64 << 10),
            (JobField::UserCpu, NO_NUMBER),
        ]);
        let line = |numbers: &[(JobField, i64)], state: &str, live| {
            let table = job(state, "12", numbers);
            Used {
                table: &table,
                row: 0,
            }
            .line(live)
        };
        let want = "0.0 of 8 cores (1m of CPU time), 1.0G of 64G of memory now, 41m of 4h";
        assert_eq!(line(&numbers, "running", Some(live)), want);
        assert_eq!(line(&numbers, "running", None), "");
        numbers.push((JobField::NodeCount, 2));
        let want = "1m of CPU time on its first node, 1.0G of 64G of memory now, 41m of 4h";
        assert_eq!(line(&numbers, "running", Some(live)), want);
        assert_eq!(line(&numbers, "waiting", None), "");
    }

    #[test]
    fn odd_figures() {
        assert_eq!(percent(5, 0), None);
        assert_eq!(percent(i64::MAX, 1), None);
        assert_eq!(percent(-1, 10), Some(0));
    }
}
