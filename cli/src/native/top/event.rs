//! What happens to `cosy top`, and what it then wants done.
//!
//! Nothing here does anything: events come from keys, threads and the clock, effects are carried out by
//! [`session`](crate::native::top::session).

use cosy_client::CallError;
use cosy_model::api::{JobFilter, JobRef, NodeInfo, Request, Table};
use cosy_model::reservation::{PlanChart, Quote, ReservationSpec};
use cosy_model::{JobId, Time};
use jiff::Zoned;
use ratatui_termion::termion::event::Key;
use std::path::PathBuf;
use std::time::Duration;

/// When something happens.
#[derive(Clone, Debug)]
pub struct Moment {
    /// On the wall, in the reader's zone.
    pub now: Zoned,
    /// Since the command began: no clock that is set changes it.
    pub passed: Duration,
}

/// What happens.
#[derive(Debug)]
pub enum Event {
    /// A key was pressed.
    Key(Key),
    /// The terminal has that many columns and rows.
    Resized(u16, u16),
    /// Some time has passed.
    Ticked,
    /// The controller has answered, or has not.
    Answered(Box<Answer>),
    /// There is something new of the file that is followed.
    Output(News),
    /// The user is to be told that, once.
    Noted(String),
}

/// What is to be done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// The controller is asked; what comes of it is told by [`Event::Answered`].
    Ask(Ask),
    /// This file is followed from now on in place of the one before.
    Follow(Option<PathBuf>),
    /// The screen is drawn anew: something else has written to it.
    Redraw,
    /// The command stops until its shell goes on with it.
    Suspend,
    /// The command ends.
    Quit,
}

/// A question for the controller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ask {
    /// Jobs, as many as are shown.
    Jobs(Box<JobFilter>),
    /// All nodes.
    Nodes,
    /// The plan until then, and which jobs in it are those of a user.
    Plan {
        /// Its right end.
        until: Time,
        /// The user's number.
        own: u32,
    },
    /// All of one job.
    Job(JobRef),
    /// Something that changes jobs.
    Change {
        /// What is asked.
        request: Box<Request>,
        /// What is told once it is done.
        done: String,
    },
    /// What a reservation of that shape would cost.
    Quote {
        /// The job whose shape it is.
        of: String,
        /// The reservation.
        spec: Box<ReservationSpec>,
    },
}

impl Ask {
    /// Whether it is asked again and again, for what is shown.
    pub const fn is_look(&self) -> bool {
        match self {
            Self::Jobs(_) | Self::Nodes | Self::Plan { .. } | Self::Job(_) => true,
            Self::Change { .. } | Self::Quote { .. } => false,
        }
    }
}

/// What came of a question.
#[derive(Debug)]
pub struct Answer {
    /// The question.
    pub ask: Ask,
    /// What came.
    pub got: Result<Got, Failure>,
    /// How long it took.
    pub took: Duration,
}

/// Why there is no answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// In words.
    pub text: String,
    /// The controller did not answer at all: it may later.
    pub unreachable: bool,
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        Self {
            text: error.to_string(),
            unreachable: error.is_unreachable(),
        }
    }
}

/// An answer.
#[derive(Debug)]
pub enum Got {
    /// To [`Ask::Jobs`].
    Jobs(Listing),
    /// To [`Ask::Nodes`].
    Nodes(Vec<NodeInfo>),
    /// To [`Ask::Plan`].
    Plan {
        /// The plan.
        chart: Box<PlanChart>,
        /// Ids of the user's own jobs and arrays.
        own: Vec<JobId>,
    },
    /// To [`Ask::Job`].
    Job {
        /// Its fields; several rows for the tasks of an array.
        table: Box<Table>,
        /// Sentences about it.
        told: Vec<String>,
    },
    /// To [`Ask::Change`].
    Changed {
        /// How many jobs it was done to.
        changed: u64,
        /// Why not to others.
        refused: Vec<String>,
    },
    /// To [`Ask::Quote`].
    Quote(Box<Quote>),
}

/// Jobs, as many as are shown.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// Their rows.
    pub table: Table,
    /// There are more rows.
    pub cut: bool,
    /// So many jobs wait or run in all queues, where that was asked.
    pub in_all: Option<u64>,
}

/// Something new of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct News {
    /// The file.
    pub path: PathBuf,
    /// What it is.
    pub said: Said,
}

/// What there is new of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Said {
    /// It goes on with these bytes.
    More(Vec<u8>),
    /// It begins anew.
    Anew,
    /// There is no such file.
    Absent,
    /// It cannot be read: why.
    Unreadable(String),
}
