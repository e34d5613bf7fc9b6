//! What a job's script and steps use on this node while they run: measured when somebody
//! asks. What they used over time is measured by [`crate::samples`].
//!
//! Processes are found by the mark in their environment; what control groups have counted
//! goes over it where that is more. Blocks: it reads `/proc`, and belongs on a thread of its
//! own. Source: proc(5).

use crate::cgroup::Group;
use crate::samples::processes::add_to;
use crate::shepherd::all_processes;
use crate::sweep;
use crate::sys::figures::{resident, times};
use cosy_model::step::{JobUse, LiveUse};
use cosy_model::variables::NODE_MARK;
use cosy_model::{DeviceUse, StepId, Uid};
use tokio::sync::Semaphore;

/// Something to be measured.
#[derive(Debug)]
pub struct Subject {
    /// User of the processes; the mark alone proves nothing, it is only a variable.
    pub uid: Uid,
    /// What its processes carry in their environment.
    pub mark: String,
    /// Control groups of its processes.
    pub groups: Vec<Group>,
}

/// Looks through `/proc` that go on at once, whoever asks: each reads something of every process
/// of the machine. Further ones wait for their turn.
const LOOKS: usize = 2;

static TURNS: Semaphore = Semaphore::const_new(LOOKS);

/// What such a look finds, on a thread of its own when it is its turn; `None` when it failed.
pub async fn in_turn<T: Send + 'static>(look: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let _turn = TURNS.acquire().await.ok()?;
    tokio::task::spawn_blocking(look).await.ok()
}

/// What script and steps use.
pub fn of_job(script: &Subject, steps: &[(StepId, Subject)]) -> JobUse {
    let subjects = std::iter::once(script).chain(steps.iter().map(|(_, subject)| subject));
    let mut parts: Vec<UsagePart<'_>> = subjects.map(UsagePart::new).collect();
    for pid in all_processes() {
        // An environment may be long: those of others are not read.
        if sweep::user_of(pid) == Some(script.uid.0)
            && let Some(mark) = sweep::mark_of(pid)
            && let Some(part) = parts.iter_mut().find(|part| part.mark == mark)
            && part.subject.uid == script.uid
        {
            part.add(pid);
        }
    }
    let mut parts = parts.iter().map(UsagePart::sum);
    JobUse {
        script: parts.next().filter(|used| *used != LiveUse::default()),
        steps: steps.iter().map(|(step, _)| *step).zip(parts).collect(),
        devices: DeviceUse::default(),
    }
}

struct UsagePart<'a> {
    mark: Vec<u8>,
    subject: &'a Subject,
    used: LiveUse,
}

impl<'a> UsagePart<'a> {
    fn new(subject: &'a Subject) -> Self {
        Self {
            mark: format!("{NODE_MARK}={}", subject.mark).into_bytes(),
            subject,
            used: LiveUse::default(),
        }
    }

    fn add(&mut self, pid: i32) {
        let read = |name: &str| std::fs::read_to_string(format!("/proc/{pid}/{name}"));
        let (user, system) = read("stat").map_or((0, 0), |text| times(&text));
        let memory = read("status").map_or(0, |text| resident(&text));
        let used = &mut self.used;
        used.user_cpu_us = used.user_cpu_us.saturating_add(user);
        used.system_cpu_us = used.system_cpu_us.saturating_add(system);
        used.memory_bytes = used.memory_bytes.saturating_add(memory);
        // Those that have changed their user are not told of.
        if let Ok(text) = read("io") {
            add_to(&mut used.read_bytes, &text, "read_bytes: ");
            add_to(&mut used.written_bytes, &text, "write_bytes: ");
        }
    }

    fn sum(&self) -> LiveUse {
        let mut used = self.used;
        for group in &self.subject.groups {
            let (user, system) = group.cpu_time().unwrap_or_default();
            used.user_cpu_us = used.user_cpu_us.max(user);
            used.system_cpu_us = used.system_cpu_us.max(system);
            let peak = group.peak_memory().filter(|_| group.memory);
            used.memory_bytes = used.memory_bytes.max(peak.unwrap_or(0));
        }
        used
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However many ask, so many look at once.
    #[tokio::test]
    async fn looks_take_turns() {
        use std::sync::Arc;
        use std::sync::atomic::{AtomicUsize, Ordering};
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let mut all = tokio::task::JoinSet::new();
        for _ in 0..20 {
            let (now, most) = (now.clone(), most.clone());
            all.spawn(in_turn(move || {
                let here = now.fetch_add(1, Ordering::SeqCst) + 1;
                most.fetch_max(here, Ordering::SeqCst);
                let pids = all_processes().count();
                now.fetch_sub(1, Ordering::SeqCst);
                pids
            }));
        }
        let found = all.join_all().await;
        assert!(found.iter().all(|pids| pids.is_some_and(|n| n > 0)));
        assert!((1..=LOOKS).contains(&most.load(Ordering::SeqCst)));
    }
}
