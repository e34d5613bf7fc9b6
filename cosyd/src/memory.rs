//! Memory that this process uses, and how much it may: `memory_limit`.
//!
//! What counts is what the kernel has as resident. New work that would pass its part of the limit is refused,
//! before anything is kept of it. Everything else goes on: what runs and waits, ends, questions. What those
//! take for a while is bounded by [`crate::budget`], and the rest of the limit is kept for it.

use crate::allocator;
use cosy_model::api::{BudgetRow, Request, Submission};
use cosy_model::workflow::FlowTask;
use cosy_model::{JobSpec, Program, Refusal, RefusalCode, limits};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Per cent of the limit up to which new work is taken.
const FOR_ALL: u64 = 90;
/// The same for a user who has more than half of all jobs: others find room where that user finds none.
const FOR_THE_LARGEST: u64 = 80;
/// The same for administrators.
const FOR_ADMINISTRATORS: u64 = 95;
/// How often it is looked whether there is memory to give back, where there is too little.
const BETWEEN: Duration = Duration::from_secs(1);

/// Who asks for new work.
#[derive(Clone, Copy, Debug)]
pub struct Requester {
    /// An administrator.
    pub trusted: bool,
    /// Jobs that wait or run: the user's own.
    pub own_jobs: u64,
    /// Those of all.
    pub all_jobs: u64,
}

/// Memory in use, and how much may be.
#[derive(Debug)]
pub struct Memory {
    /// Where the kernel tells it.
    statm: Option<File>,
    page_bytes: u64,
    /// 0: there is none.
    limit: AtomicU64,
    peak: AtomicU64,
    refused: AtomicU64,
    /// New work was refused, and there is no more memory since then.
    short: AtomicBool,
}

impl Memory {
    /// `limit`: bytes; `None` is no limit.
    pub fn new(limit: Option<u64>) -> Self {
        let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE);
        let page = page.ok().flatten().and_then(|n| u64::try_from(n).ok());
        Self {
            statm: File::open("/proc/self/statm").ok(),
            page_bytes: page.unwrap_or(4096),
            limit: AtomicU64::new(limit.unwrap_or(0)),
            peak: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            short: AtomicBool::new(false),
        }
    }

    /// The same, with a thread that gives free memory back as long as new work is refused.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn watched(limit: Option<u64>) -> std::io::Result<Arc<Self>> {
        let memory = Arc::new(Self::new(limit));
        let watched = memory.clone();
        let thread = std::thread::Builder::new().name("memory".into());
        thread.stack_size(1 << 18).spawn(move || {
            loop {
                std::thread::sleep(BETWEEN);
                watched.look();
            }
        })?;
        Ok(memory)
    }

    /// Another limit from now on.
    pub fn set_limit(&self, limit: Option<u64>) {
        self.limit.store(limit.unwrap_or(0), Ordering::Relaxed);
    }

    /// Bytes in use; 0 where the system does not tell.
    pub fn used(&self) -> u64 {
        let mut text = [0; 128];
        let read = self.statm.as_ref().map(|file| file.read_at(&mut text, 0));
        let read = read.and_then(Result::ok).and_then(|n| text.get(..n));
        let text = read.and_then(|text| std::str::from_utf8(text).ok());
        let pages = text.and_then(|text| text.split_whitespace().nth(1)?.parse::<u64>().ok());
        let used = pages.unwrap_or(0).saturating_mul(self.page_bytes);
        self.peak.fetch_max(used, Ordering::Relaxed);
        used
    }

    /// Whether there is room for what is asked.
    ///
    /// # Errors
    /// There is none: how much is in use, and how much may be.
    pub fn admit(&self, request: &Request, who: impl FnOnce() -> Requester) -> Result<(), Refusal> {
        let limit = self.limit.load(Ordering::Relaxed);
        if limit == 0 {
            return Ok(());
        }
        match bytes_of(request) {
            Some(more) => self.make_room(limit, self.used(), more, who()),
            None => Ok(()),
        }
    }

    fn make_room(&self, limit: u64, used: u64, more: u64, who: Requester) -> Result<(), Refusal> {
        let largest = who.own_jobs > who.all_jobs / 2;
        let (share, whom) = match (who.trusted, largest) {
            (true, _) => (FOR_ADMINISTRATORS, "for new work of administrators".to_owned()),
            (false, true) => (
                FOR_THE_LARGEST,
                format!(
                    "for new work of who has most of the jobs ({} of {})",
                    who.own_jobs, who.all_jobs
                ),
            ),
            (false, false) => (FOR_ALL, "for new work".to_owned()),
        };
        let most = limit / 100 * share;
        if used.saturating_add(more) <= most {
            return Ok(());
        }
        self.refused.fetch_add(1, Ordering::Relaxed);
        if !self.short.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "new work is refused: {} MiB of memory are in use, and memory_limit is {} MiB",
                mib(used),
                mib(limit)
            );
        }
        Err(Refusal::new(
            RefusalCode::TooMany,
            format!(
                "the controller has {} MiB of memory in use and this would take {} MiB more: it has {} MiB {whom} ({share} % of memory_limit); what waits and runs goes on; try again when jobs have ended, ask for less at once, or have administrators raise memory_limit",
                mib(used),
                mib(more).max(1),
                mib(most),
            ),
        ))
    }

    /// How much is in use, as commands show it.
    pub fn row(&self) -> BudgetRow {
        let limit = self.limit.load(Ordering::Relaxed);
        let used = self.used();
        BudgetRow {
            what: "bytes of memory".to_owned(),
            used,
            peak: self.peak.load(Ordering::Relaxed),
            per_user: limit / 100 * FOR_THE_LARGEST,
            in_all: limit / 100 * FOR_ALL,
            refused: self.refused.load(Ordering::Relaxed),
        }
    }

    /// Gives back what is free, as long as new work is refused.
    fn look(&self) {
        let limit = self.limit.load(Ordering::Relaxed);
        if !self.short.load(Ordering::Relaxed) {
            self.used();
            return;
        }
        allocator::give_free_memory_back();
        let used = self.used();
        if limit == 0 || used <= limit / 100 * FOR_THE_LARGEST {
            self.short.store(false, Ordering::Relaxed);
            tracing::info!("new work is taken again: {} MiB of memory are in use", mib(used));
        }
    }
}

/// What new work takes, at most, while it waits; `None`: it is no new work.
fn bytes_of(request: &Request) -> Option<u64> {
    match request {
        Request::Submit(job) | Request::Allocate(job) => Some(bytes_of_jobs(job)),
        Request::SubmitFlow { spec, .. } | Request::PlanFlow { spec } => {
            let tasks = spec.tasks.len() as u64 + 1;
            let container = |job: &JobSpec| job.container.as_ref().map_or(0, |c| c.bytes());
            let of_task = |task: &FlowTask| task.script.0.len() + container(&task.spec);
            let own = spec.tasks.iter().map(|task| of_task(task) as u64);
            let text = own.sum::<u64>() + spec.environment.0.len() as u64;
            Some(limits::JOB_BYTES.saturating_mul(tasks).saturating_add(text))
        }
        Request::Quote { .. }
        | Request::Reserve { .. }
        | Request::ExtendReservation { .. }
        | Request::AlterReservation { .. }
        | Request::PlanChart { .. }
        | Request::SetTrigger(_) => Some(limits::JOB_BYTES),
        _ => None,
    }
}

fn bytes_of_jobs(job: &Submission) -> u64 {
    let tasks = job.array.as_ref().map_or(0, |array| array.count());
    let words = match &job.spec.program {
        Program::Script { args: words, .. } | Program::Command { argv: words } => words.as_slice(),
        Program::Allocation => &[],
    };
    let words = words.iter().map(|word| word.0.len()).sum::<usize>();
    let container = job.spec.container.as_ref().map_or(0, |c| c.bytes());
    let text = job.spec.environment.0.len() + job.script.0.len() + words + container;
    let queued = tasks.min(limits::QUEUED_TASKS.into()) * limits::QUEUED_TASK_BYTES;
    tasks
        .saturating_mul(limits::TASK_BYTES)
        .saturating_add(queued + limits::JOB_BYTES + text as u64)
}

const fn mib(bytes: u64) -> u64 {
    bytes.div_ceil(1 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::{ArraySpec, MiB, OsText};

    fn somebody(own_jobs: u64) -> Requester {
        Requester {
            trusted: false,
            own_jobs,
            all_jobs: 1000,
        }
    }

    fn administrator() -> Requester {
        Requester {
            trusted: true,
            ..somebody(1000)
        }
    }

    /// An array of held tasks that is submitted.
    fn submission(tasks: u32) -> Request {
        Request::Submit(Box::new(Submission {
            spec: JobSpec::plain("x", Program::Allocation, OsText::default()),
            script: OsText::default(),
            array: Some(ArraySpec {
                ranges: vec![(1, tasks, 1)],
                at_once: None,
            }),
        }))
    }

    #[test]
    fn each_has_a_part_of_the_limit() {
        let memory = Memory::new(Some(MiB(1000).bytes()));
        for (who, most) in [
            (somebody(0), 900),
            (somebody(500), 900),
            (somebody(501), 800),
            (administrator(), 950),
        ] {
            let tried = |used: u64, more: u64| {
                let limit = MiB(1000).bytes();
                memory.make_room(limit, MiB(used).bytes(), MiB(more).bytes(), who)
            };
            assert_eq!(tried(most - 10, 10), Ok(()), "{who:?}");
            assert_eq!(tried(0, most), Ok(()), "{who:?}");
            let refused = tried(most - 10, 11).unwrap_err();
            assert_eq!(refused.code, RefusalCode::TooMany);
            let told = format!("has {} MiB of memory in use", most - 10);
            assert!(refused.message.contains(&told), "{refused}");
            assert!(refused.message.contains("would take 11 MiB more"), "{refused}");
            assert!(refused.message.contains(&format!("it has {most} MiB")), "{refused}");
        }
        let row = memory.row();
        assert_eq!((row.refused, row.in_all), (4, MiB(900).bytes()));
        assert!(row.used > 0 && row.peak >= row.used, "{row:?}");
    }

    #[test]
    fn nobody_who_asks_for_no_new_work_is_refused() {
        let nothing = Memory::new(Some(100));
        let asked = |request: Request| nothing.admit(&request, || somebody(0));
        assert!(asked(submission(1)).is_err());
        assert_eq!(asked(Request::Ping), Ok(()));
        assert_eq!(asked(Request::Nodes), Ok(()));
        nothing.set_limit(None);
        let asked = |request: Request| nothing.admit(&request, || somebody(0));
        assert_eq!(asked(submission(1)), Ok(()));
        // What is to come is counted before it is there.
        let used = nothing.used();
        nothing.set_limit(Some(2 * used));
        let asked = |request: Request| nothing.admit(&request, || somebody(0));
        assert_eq!(asked(submission(1)), Ok(()));
        assert!(asked(submission(u32::MAX - 1)).is_err());
    }

    #[test]
    fn new_work_is_taken_again_when_there_is_memory() {
        let memory = Memory::new(Some(100));
        let job = submission(1);
        assert!(memory.admit(&job, || somebody(0)).is_err());
        memory.look();
        assert!(memory.short.load(Ordering::Relaxed));
        memory.set_limit(Some(100 * memory.used()));
        memory.look();
        assert!(!memory.short.load(Ordering::Relaxed));
        assert_eq!(memory.admit(&job, || somebody(0)), Ok(()));
    }
}
