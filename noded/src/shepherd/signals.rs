//! Orders from the daemon to a shepherd: one real-time signal with a value, which is
//! queued, needs no connection, and works whoever the shepherd's parent is.

use crate::sys;
use cosy_model::Span;
use cosy_model::node::{KillCause, KillOrder};
use nix::libc;
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// What a shepherd is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// End the job.
    Kill(KillOrder),
    /// Pass a signal on.
    Signal {
        /// Number as the kernel has it.
        signal: i32,
        /// Signals the script alone, not its processes.
        script_only: bool,
    },
    /// Read what the program is to be told.
    Note,
    /// End everything: it uses more memory than it has.
    OutOfMemory,
    /// Stop everything, and the clock.
    Suspend,
    /// Continue stopped processes.
    Resume,
    /// Another time limit, in seconds from the start.
    Limit(u32),
    /// Another time limit, in seconds from now.
    Left(u32),
}

/// A time limit of so many seconds is none.
const NO_LIMIT: u32 = (1 << 28) - 1;

/// A time limit as [`Order::Limit`] and [`Order::Left`] carry it: rounded up.
pub fn seconds(limit: Span) -> u32 {
    if limit.is_unlimited() {
        return NO_LIMIT;
    }
    let secs = limit.ms().max(0).saturating_add(999) / 1000;
    u32::try_from(secs).map_or(NO_LIMIT, |secs| secs.min(NO_LIMIT))
}

/// The same as a span.
pub fn span(secs: u32) -> Span {
    match secs {
        NO_LIMIT.. => Span::UNLIMITED,
        secs => Span::from_secs(i64::from(secs)),
    }
}

const LIMIT: i32 = 1 << 28;
const LEFT: i32 = 1 << 29;

impl Order {
    /// As a signal's value: what in the second byte, a signal's number or whether it makes room in the first; limits
    /// have a bit of their own above 28 bits of seconds.
    pub const fn encode(self) -> i32 {
        match self {
            Self::Signal {
                signal,
                script_only: false,
            } => 1 << 8 | (signal & 0xff),
            Self::Signal {
                signal,
                script_only: true,
            } => 2 << 8 | (signal & 0xff),
            Self::Kill(KillOrder { cause, preempted }) => {
                let what = match cause {
                    KillCause::Cancelled => 3,
                    KillCause::TimeLimit => 4,
                    KillCause::Superseded => 5,
                    KillCause::Requeued => 6,
                };
                what << 8 | preempted as i32
            }
            Self::Suspend => 7 << 8,
            Self::Resume => 8 << 8,
            Self::Note => 9 << 8,
            Self::OutOfMemory => 10 << 8,
            Self::Limit(secs) => LIMIT | (secs & NO_LIMIT) as i32,
            Self::Left(secs) => LEFT | (secs & NO_LIMIT) as i32,
        }
    }

    /// A shepherd of an earlier release does not look at the first byte.
    const fn kill(cause: KillCause, first_byte: i32) -> Self {
        let preempted = first_byte & 1 == 1;
        Self::Kill(KillOrder { cause, preempted })
    }

    /// The order that a signal's value stands for; `None` for other values.
    pub const fn decode(value: i32) -> Option<Self> {
        let secs = (value as u32) & NO_LIMIT;
        match value & !(NO_LIMIT as i32) {
            0 => {}
            LIMIT => return Some(Self::Limit(secs)),
            LEFT => return Some(Self::Left(secs)),
            _ => return None,
        }
        let signal = value & 0xff;
        match value >> 8 {
            1 => Some(Self::Signal {
                signal,
                script_only: false,
            }),
            2 => Some(Self::Signal {
                signal,
                script_only: true,
            }),
            3 => Some(Self::kill(KillCause::Cancelled, signal)),
            4 => Some(Self::kill(KillCause::TimeLimit, signal)),
            5 => Some(Self::kill(KillCause::Superseded, signal)),
            6 => Some(Self::kill(KillCause::Requeued, signal)),
            7 => Some(Self::Suspend),
            8 => Some(Self::Resume),
            9 => Some(Self::Note),
            10 => Some(Self::OutOfMemory),
            _ => None,
        }
    }
}

/// What a signal to the shepherd means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SignalMeaning {
    /// Some child ended.
    Child,
    /// The daemon orders.
    Order(Order),
    /// A signal that asks this process to end, from the system that goes down or by hand: the
    /// job is ended as lost with its node.
    Stop,
}

/// The signals of a shepherd, as a descriptor to wait on.
#[derive(Debug)]
pub struct Signals(SignalFd);

impl Signals {
    /// Opens it. The daemon has blocked the signals before this process began.
    ///
    /// # Errors
    /// The system call's.
    pub fn open() -> io::Result<Self> {
        let mask = sys::shepherd_signals();
        mask.thread_block()?;
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        Ok(Self(SignalFd::with_flags(&mask, flags)?))
    }

    /// The next signal that came, without waiting.
    pub fn next(&self) -> Option<SignalMeaning> {
        loop {
            let info = self.0.read_signal().ok()??;
            let signal = info.ssi_signo as i32;
            if signal == libc::SIGCHLD {
                return Some(SignalMeaning::Child);
            }
            if signal != sys::order_signal() {
                return Some(SignalMeaning::Stop);
            }
            if let Some(order) = Order::decode(info.ssi_int) {
                return Some(SignalMeaning::Order(order));
            }
        }
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_come_back() {
        let mut all = vec![
            Order::Kill(KillCause::Cancelled.into()),
            Order::Kill(KillCause::TimeLimit.into()),
            Order::Kill(KillCause::Superseded.into()),
            Order::Kill(KillCause::Requeued.into()),
            Order::kill(KillCause::Cancelled, 1),
            Order::kill(KillCause::Requeued, 1),
            Order::Note,
            Order::OutOfMemory,
            Order::Suspend,
            Order::Resume,
            Order::Limit(0),
            Order::Limit(86_400),
            Order::Left(1),
            Order::Left(NO_LIMIT),
        ];
        for script_only in [false, true] {
            all.push(Order::Signal {
                signal: 15,
                script_only,
            });
        }
        for order in all {
            assert_eq!(Order::decode(order.encode()), Some(order));
        }
        assert_eq!(Order::decode(0), None);
        assert_eq!(Order::decode(-1), None);
    }

    #[test]
    fn limits_in_seconds() {
        let check = |limit: Span, secs: u32, back: Span| {
            assert_eq!((seconds(limit), span(secs)), (secs, back), "{limit}");
        };
        check(Span(1), 1, Span::from_secs(1));
        check(Span::from_minutes(2), 120, Span::from_minutes(2));
        check(Span(-5), 0, Span::ZERO);
        check(Span::UNLIMITED, NO_LIMIT, Span::UNLIMITED);
        check(Span(i64::MAX - 1), NO_LIMIT, Span::UNLIMITED);
    }
}
