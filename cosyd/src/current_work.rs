//! What the controller works on, written where it outlives the process: a page of a file in
//! the state directory, shared with the kernel. What was in hand when a process died of
//! something that cannot be caught (its stack, its memory, a kill) is known at the next start.
//!
//! ```text
//! word 0  in hand now; 0 nothing        kind in the highest byte, number in the others
//! word 1  in hand when it died last
//! word 2  deaths in a row with that in hand
//! ```
//!
//! Nothing is made durable here: after a crash of the machine the page may be of no use, and
//! then nothing is known.

use cosy_control::{Event, Object, Witness};
use cosy_model::{FlowId, JobId, ReservationId, TriggerId};
use rustix::mm::{MapFlags, ProtFlags, mmap};
use std::fmt;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Name of the file in the state directory.
const FILE: &str = "in-hand";
/// Bytes of it.
const LENGTH: usize = 4096;
/// Bits of a word that hold a number.
const NUMBER: u32 = 56;
/// Deaths in a row with the same thing in hand that are laid to it.
const DEATHS: u64 = 2;

/// What the process is working on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CurrentWork {
    /// All that lives is taken up from the store.
    TakingUp,
    /// An event of that kind.
    Event(u8),
    /// The end of a turn: starts, dates, batches.
    Settling,
    /// An object of the controller.
    Object(Object),
}

/// Kinds of events, for messages. A place in the list is the kind's number.
const EVENTS: [&str; 17] = [
    "a request",
    "the end of a command",
    "the loss of a command",
    "a node's first word",
    "a node's report",
    "the end of a node's link",
    "a user's look-up",
    "a plan",
    "an appraisal",
    "a plan of a workflow",
    "a new configuration",
    "a commit",
    "the time",
    "descriptions for rules",
    "the database's settings",
    "a plan of nodes to be switched on",
    "a program that switches nodes",
];

impl CurrentWork {
    /// An event of its kind.
    pub const fn event(event: &Event) -> Self {
        Self::Event(match event {
            Event::Asked { .. } => 0,
            Event::ClientGone(_) => 1,
            Event::ClientLost(_) => 2,
            Event::LinkOpened { .. } => 3,
            Event::LinkReported { .. } => 4,
            Event::LinkClosed(_) => 5,
            Event::UserResolved { .. } => 6,
            Event::Planned { .. } => 7,
            Event::Appraised { .. } => 8,
            Event::FlowPlanned { .. } => 9,
            Event::Reconfigured(_) => 10,
            Event::BecameDurable => 11,
            Event::Ticked => 12,
            Event::DescriptionsWanted(_) => 13,
            Event::StoreJudged { .. } => 14,
            Event::WakesPlanned(_) => 15,
            Event::PowerEnded(_) => 16,
        })
    }

    const fn word(self) -> u64 {
        let (kind, number) = match self {
            Self::TakingUp => (1, 0),
            Self::Settling => (2, 0),
            Self::Event(event) => (3, event as u64),
            Self::Object(Object::Job(id)) => (4, id.0),
            Self::Object(Object::Reservation(id)) => (5, id.0),
            Self::Object(Object::Flow(id)) => (6, id.0),
            Self::Object(Object::Trigger(id)) => (7, id.0),
        };
        (kind << NUMBER) | (number & ((1 << NUMBER) - 1))
    }

    fn of(word: u64) -> Option<Self> {
        let number = word & ((1 << NUMBER) - 1);
        Some(match word >> NUMBER {
            1 => Self::TakingUp,
            2 => Self::Settling,
            3 => Self::Event(u8::try_from(number).ok()?),
            4 => Self::Object(Object::Job(JobId(number))),
            5 => Self::Object(Object::Reservation(ReservationId(number))),
            6 => Self::Object(Object::Flow(FlowId(number))),
            7 => Self::Object(Object::Trigger(TriggerId(number))),
            _ => return None,
        })
    }
}

impl fmt::Display for CurrentWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TakingUp => f.write_str("what lives was taken up from the store"),
            Self::Settling => f.write_str("a turn was brought to its end"),
            Self::Event(event) => {
                let name = EVENTS.get(usize::from(*event)).unwrap_or(&"an event");
                write!(f, "{name} was decided")
            }
            Self::Object(Object::Job(id)) => write!(f, "job {id} was in hand"),
            Self::Object(Object::Reservation(id)) => write!(f, "reservation {id} was in hand"),
            Self::Object(Object::Flow(id)) => write!(f, "workflow {id} was in hand"),
            Self::Object(Object::Trigger(id)) => write!(f, "trigger {id} was in hand"),
        }
    }
}

/// How the last process died, when something was in hand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LastCrash {
    /// What the process was working on.
    pub with: CurrentWork,
    /// True when several in a row died with the same work: that work is held to be the cause.
    pub repeated: bool,
}

/// Memory of the process that says what is being worked on, and outlives a crash.
#[derive(Clone, Debug)]
pub struct WorkPage(Arc<Page>);

#[derive(Debug)]
struct Page(&'static [AtomicU64; 3]);

impl WorkPage {
    /// Opens the page in a state directory; gives also how the last process died.
    ///
    /// # Errors
    /// The file cannot be made or mapped.
    pub fn open(state_dir: &Path) -> io::Result<(Self, Option<LastCrash>)> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(state_dir.join(FILE))?;
        file.set_len(LENGTH as u64)?;
        let flags = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, of a file that has that length; it stays as long as the
        // process, and what is in it is only reached as atomic words, which any bytes are.
        let words = unsafe {
            let at = mmap(std::ptr::null_mut(), LENGTH, flags, MapFlags::SHARED, &file, 0)?;
            &*at.cast::<[AtomicU64; 3]>()
        };
        let hand = Self(Arc::new(Page(words)));
        let death = hand.look_back();
        Ok((hand, death))
    }

    fn look_back(&self) -> Option<LastCrash> {
        let [now, last, deaths] = self.0.0;
        let word = now.swap(0, Ordering::Relaxed);
        let Some(with) = CurrentWork::of(word) else {
            last.store(0, Ordering::Relaxed);
            deaths.store(0, Ordering::Relaxed);
            return None;
        };
        if last.swap(word, Ordering::Relaxed) != word {
            deaths.store(0, Ordering::Relaxed);
        }
        let count = deaths.fetch_add(1, Ordering::Relaxed) + 1;
        let repeated = count >= DEATHS;
        Some(LastCrash { with, repeated })
    }

    /// From now on that is in hand.
    pub fn take(&self, what: CurrentWork) {
        self.0.0[0].store(what.word(), Ordering::Relaxed);
    }

    /// Notes that the process works on nothing.
    pub fn put_down(&self) {
        self.0.0[0].store(0, Ordering::Relaxed);
    }

    /// What the page says that is being worked on.
    pub fn has(&self) -> Option<CurrentWork> {
        CurrentWork::of(self.0.0[0].load(Ordering::Relaxed))
    }

    /// For those whom the controller tells.
    pub fn witness(&self) -> Arc<dyn Witness> {
        self.0.clone()
    }
}

impl Witness for Page {
    fn works_on(&self, object: Object) {
        self.0[0].store(CurrentWork::Object(object).word(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_back() {
        for what in [
            CurrentWork::TakingUp,
            CurrentWork::Settling,
            CurrentWork::Event(4),
            CurrentWork::Object(Object::Job(JobId(1_000_000_007))),
            CurrentWork::Object(Object::Reservation(ReservationId(1))),
            CurrentWork::Object(Object::Flow(FlowId(2))),
            CurrentWork::Object(Object::Trigger(TriggerId(3))),
        ] {
            assert_eq!(CurrentWork::of(what.word()), Some(what));
        }
        assert_eq!(CurrentWork::of(0), None);
        assert_eq!(CurrentWork::of(u64::MAX), None);
    }

    #[test]
    fn two_deaths_in_a_row_are_laid_to_what_was_in_hand() {
        let dir = tempfile::tempdir().unwrap();
        let job = |id| CurrentWork::Object(Object::Job(JobId(id)));
        let open = || WorkPage::open(dir.path()).unwrap();
        let check = |holds: Option<CurrentWork>, expected: Option<(CurrentWork, bool)>| {
            let (hand, death) = open();
            assert_eq!(death.map(|d| (d.with, d.repeated)), expected);
            if let Some(what) = holds {
                hand.take(CurrentWork::Settling);
                match what {
                    CurrentWork::Object(object) => hand.witness().works_on(object),
                    other => hand.take(other),
                }
                assert_eq!(hand.has(), Some(what));
            }
        };
        check(Some(job(5)), None);
        check(Some(job(6)), Some((job(5), false)));
        check(Some(job(6)), Some((job(6), false)));
        check(Some(job(6)), Some((job(6), true)));
        check(None, Some((job(6), true)));
        // A clean end in between, and it begins again.
        check(Some(job(6)), None);
        check(None, Some((job(6), false)));
    }

    #[test]
    fn a_page_of_anything_is_read() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(FILE), [0xff; 100]).unwrap();
        assert_eq!(WorkPage::open(dir.path()).unwrap().1, None);
    }
}
