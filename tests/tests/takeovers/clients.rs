//! Those who submit and cancel, and remember what was acknowledged.

use cosy_client::{CallError, Caller, RetryPolicy, new_key};
use cosy_model::api::{Reply, Request};
use cosy_model::{JobId, RefusalCode};
use cosy_tests::cluster::cancel_request;
use cosy_tests::{Chance, marked};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What all clients share.
pub struct Clients {
    pub sockets: Vec<PathBuf>,
    /// Where jobs work.
    pub work: PathBuf,
    /// Where they say when they begin and end.
    pub marks: PathBuf,
    pub stop: AtomicBool,
    /// Commands that have failed and were given again.
    pub errors: AtomicU64,
}

/// A submission that was acknowledged.
pub struct Known {
    pub id: JobId,
    pub exit: i64,
    pub cancelled: bool,
    /// It runs over takeovers.
    pub long: bool,
}

impl Clients {
    pub fn go_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    pub fn caller(&self) -> Caller {
        let retry = RetryPolicy {
            answer_timeout: Duration::from_secs(2),
            ..RetryPolicy::default()
        };
        Caller::of_sockets(self.sockets.clone(), retry, |_| {})
    }

    /// An answer, however often the command fails: it has one key until then.
    pub fn insist(&self, caller: &mut Caller, request: Request) -> Reply {
        let key = new_key();
        let begun = Instant::now();
        loop {
            match caller.ask_with_key(request.clone(), Some(key)) {
                Ok(reply) => return reply,
                Err(CallError::Refused(refusal)) if refusal.code != RefusalCode::Unavailable => {
                    return Reply::Refused(refusal);
                }
                Err(e) => {
                    self.errors.fetch_add(1, Ordering::Relaxed);
                    eprintln!("a command failed: {e}");
                    assert!(begun.elapsed() < Duration::from_secs(120), "{e}");
                }
            }
        }
    }

    /// Submits and cancels until told to stop.
    pub fn submit(&self, mut chance: Chance) -> Vec<Known> {
        let mut caller = self.caller();
        let mut known: Vec<Known> = Vec::new();
        while self.go_on() {
            let exit = chance.below(4) as i64;
            let long = chance.one_in(40);
            let seconds = chance.below(3) + if long { 5 + chance.below(15) } else { 0 };
            let sleep = format!("{seconds}.{}", chance.below(10));
            let submission = marked(&self.work, &self.marks, &sleep, exit);
            match self.insist(&mut caller, Request::Submit(Box::new(submission))) {
                Reply::Submitted { job: id, .. } => known.push(Known {
                    id,
                    exit,
                    cancelled: false,
                    long,
                }),
                other => panic!("not submitted: {other:?}"),
            }
            if chance.one_in(6) {
                let at = chance.below(known.len() as u64) as usize;
                let reply = self.insist(&mut caller, cancel_request(known[at].id));
                known[at].cancelled |= matches!(reply, Reply::Done { changed, .. } if changed > 0);
            }
            std::thread::sleep(Duration::from_millis(50 + chance.below(150)));
        }
        known
    }
}
