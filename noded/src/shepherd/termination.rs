//! How a program or a step is brought to its end.
//!
//! ```text
//!            limit or order            grace over
//!  Running ------------------> Ending ------------> Killing --> nothing left
//!     |  nothing left that counts                     ^
//!     +-----------------------------------------------+
//! ```

use super::{leftovers, shutdown};
use crate::cgroup::Group;
use cosy_model::node::KillCause;
use cosy_model::{EndCause, Span};
use nix::libc;
use std::time::{Duration, Instant};

/// After this long, what could not be killed is left and the node is to be drained.
const UNKILLABLE: Duration = Duration::from_secs(60);
/// First pause between two rounds of killing; doubles up to [`LAST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LAST_PAUSE: Duration = Duration::from_millis(500);
/// Longest grace, in milliseconds.
const GRACE: i64 = 86_400_000;

#[derive(Clone, Copy, Debug)]
enum State {
    Running,
    Ending {
        kill_at: Instant,
    },
    Killing {
        since: Instant,
        next_kill: Instant,
        pause: Duration,
    },
}

/// Where it is on its way to its end, and why.
#[derive(Debug)]
pub struct Ending {
    groups: Vec<Group>,
    grace: Duration,
    state: State,
    cause: Option<EndCause>,
    given_up: bool,
}

impl Ending {
    /// It runs. `groups` are its control groups; `grace` is what lies between SIGTERM and
    /// SIGKILL.
    pub fn new(groups: Vec<Group>, grace: Span) -> Self {
        Self {
            groups,
            grace: Duration::from_millis(grace.ms().clamp(0, GRACE) as u64),
            state: State::Running,
            cause: None,
            given_up: false,
        }
    }

    /// Nobody and nothing has begun to end it.
    pub fn is_running(&self) -> bool {
        matches!(self.state, State::Running)
    }

    /// Why it was ended, where it did not end by itself.
    pub fn cause(&self) -> Option<&EndCause> {
        self.cause.as_ref()
    }

    /// Something could not be killed.
    pub fn given_up(&self) -> bool {
        self.given_up
    }

    /// SIGTERM to everything (also to what is stopped), SIGKILL after the grace.
    pub fn finish(&mut self, cause: EndCause) {
        self.begin(cause, false);
    }

    /// The system wants this supervisor to end. Where the machine goes down everything here has
    /// got its SIGTERM with it, and gets no second one.
    pub fn taken_down(&mut self) {
        self.begin(EndCause::NodeLost, shutdown::is_under_way());
    }

    fn begin(&mut self, cause: EndCause, has_sigterm: bool) {
        let State::Running = self.state else {
            return;
        };
        self.cause = Some(cause);
        if self.grace.is_zero() {
            return self.kill_now();
        }
        if !has_sigterm {
            leftovers::signal_all(&self.groups, libc::SIGTERM);
        }
        leftovers::signal_all(&self.groups, libc::SIGCONT);
        self.state = State::Ending {
            kill_at: Instant::now() + self.grace,
        };
    }

    /// The daemon wants its end.
    pub fn ordered(&mut self, cause: KillCause) {
        match cause {
            KillCause::Cancelled | KillCause::Requeued => self.finish(EndCause::Cancelled),
            KillCause::TimeLimit => self.finish(EndCause::TimeLimit),
            KillCause::Superseded => self.kill(EndCause::Cancelled),
        }
    }

    /// It uses more memory than it has, and hangs for it.
    pub fn out_of_memory(&mut self) {
        self.finish(EndCause::OutOfMemory);
    }

    /// SIGKILL to everything, for that reason where there was none yet.
    pub fn kill(&mut self, cause: EndCause) {
        self.cause.get_or_insert(cause);
        self.kill_now();
    }

    /// SIGKILL to everything.
    pub fn kill_now(&mut self) {
        if let State::Killing { .. } = self.state {
            return;
        }
        leftovers::kill_all(&self.groups, false);
        let now = Instant::now();
        self.state = State::Killing {
            since: now,
            next_kill: now + FIRST_PAUSE,
            pause: FIRST_PAUSE,
        };
    }

    /// When [`Self::keep_time`] has something to do.
    pub fn next_timer(&self) -> Option<Instant> {
        match self.state {
            State::Running => None,
            State::Ending { kill_at } => Some(kill_at),
            State::Killing { next_kill, .. } => Some(next_kill),
        }
    }

    /// Does what is due; `left`: something is left to be ended.
    pub fn keep_time(&mut self, now: Instant, left: bool) {
        match self.state {
            State::Running => {}
            State::Ending { kill_at } if now >= kill_at => self.kill_now(),
            State::Ending { .. } => {}
            State::Killing {
                since,
                next_kill,
                pause,
            } if now >= next_kill && left => {
                if now.duration_since(since) >= UNKILLABLE {
                    self.given_up = true;
                    return;
                }
                leftovers::kill_all(&self.groups, true);
                let pause = (pause * 2).min(LAST_PAUSE);
                self.state = State::Killing {
                    since,
                    next_kill: now + pause,
                    pause,
                };
            }
            State::Killing { .. } => {}
        }
    }
}
