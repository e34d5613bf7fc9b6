//! Lists of jobs, in pieces; those of workflows, reservations and nodes stand in the same line,
//! and commands that wait for jobs that are not looked up yet (see [`crate::conversations::waits`]).
//!
//! A list of 100,000 jobs with many columns takes far longer than others should wait. So it is
//! made in pieces, one in each turn, and answered with the last: first the jobs that are meant
//! are looked for, then their rows are made. What happens in between is in the rows that are
//! still to come. A list that does not fit into one answer ends where the answer is full and
//! says where it goes on (`Table::more`); a command that does not ask for the rest is refused.
//!
//! What always holds: a piece looks at [`PIECE_JOBS`] jobs or makes cells for
//! [`PIECE_WORK`], and memory for rows is bounded by the answer.

pub(crate) mod begin;
pub(crate) mod procedures;

use crate::conversations::plans::Starts;
use crate::event::{Caller, ClientId};
use crate::jobs::arrays::Names;
use crate::machine::nodes::NodeList;
use crate::reservations::ReservationList;
use crate::workflows::FlowList;
use cosy_model::api::{Cursor, JobField, JobFilter, JobRef};
use cosy_model::{JobId, Refusal, RefusalCode, Time, limits};
use cosy_sched::OrderKey;
use cosy_view::list::JobRows;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Jobs that one piece looks at.
const PIECE_JOBS: usize = 5_000;
/// Work for rows in one piece: 1 for each cell and for 64 bytes of text.
const PIECE_WORK: usize = 5_000;
/// Of so many jobs that are named each is asked for its place; of more, all jobs are put in order.
const PLACED_ALONE: usize = 64;
/// Lists under way at once.
const LISTINGS: usize = 256;
/// Room in an answer for what is around the rows, in bytes.
const AROUND_ROWS: usize = 64 << 10;

/// What becomes of the rows.
#[derive(Debug)]
pub(crate) enum Answering {
    /// They are a list.
    List {
        /// The rest is asked for.
        pages: bool,
        /// It goes on there.
        after: Option<Cursor>,
    },
    /// They and sentences explain a job.
    Job(JobRef),
}

/// What is asked for.
pub(crate) struct ListRequest {
    pub client: ClientId,
    pub caller: Box<Caller>,
    pub filter: JobFilter,
    pub fields: Vec<JobField>,
    pub fold: bool,
    /// Predicted starts; those of the last plan without.
    pub starts: Option<Starts>,
    pub answering: Answering,
}

/// A list under way.
#[derive(Debug)]
pub(crate) enum List {
    /// Jobs, live and ended.
    Jobs(Box<Listing>),
    /// Workflows that are remembered.
    Flows(Box<FlowList>),
    /// Reservations that are remembered.
    Reservations(Box<ReservationList>),
    /// Nodes of the configuration.
    Nodes(Box<NodeList>),
    /// None: that command waits for jobs, whose names are looked up.
    Wait(ClientId),
}

/// Lists that are being made.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    /// The one whose turn it is first.
    line: VecDeque<List>,
    /// This turn has had its piece of a list.
    made_piece: bool,
}

impl Lists {
    /// A list is gone on with when its turn comes.
    pub fn push(&mut self, list: List) {
        self.line.push_back(list);
    }

    /// Nobody waits any more for what that command asked for.
    pub fn leave(&mut self, client: ClientId) {
        self.line.retain(|list| list.client() != client);
    }

    /// No list is being made.
    pub fn is_empty(&self) -> bool {
        self.line.is_empty()
    }
}

impl List {
    /// Who asked for it.
    pub const fn client(&self) -> ClientId {
        match self {
            Self::Jobs(list) => list.client,
            Self::Flows(list) => list.client,
            Self::Reservations(list) => list.client,
            Self::Nodes(list) => list.client,
            Self::Wait(client) => *client,
        }
    }
}

/// A list of jobs under way.
#[derive(Debug)]
pub(crate) struct Listing {
    client: ClientId,
    caller: Box<Caller>,
    /// When it was begun.
    begun: Time,
    named: Option<Ids>,
    /// Which; without the ids.
    filter: JobFilter,
    /// So many rows are wanted, where it is asked for by pages.
    most_rows: Option<u32>,
    /// It names what others are not told of jobs.
    private: bool,
    fold: bool,
    starts: Option<Starts>,
    /// Waiting jobs in their order, as far as it is looked up and places are not given yet; empty
    /// where each job is asked for its place.
    order: BTreeSet<OrderKey>,
    /// Places in it, from 1, by job.
    places: BTreeMap<JobId, i64>,
    answering: Answering,
    stage: Stage,
    live: Vec<(JobId, JobId)>,
    /// By array, what its tasks ask for, and whether they are held.
    folds: BTreeMap<(JobId, u32, bool), Fold>,
    ended: Vec<JobId>,
    /// Of them, those that ended while the list was made: they may be among the live ones too.
    just_ended: BTreeSet<JobId>,
    entries: VecDeque<Entry>,
    rows: JobRows,
    /// Where the last row stands.
    at: Option<Cursor>,
}

/// Jobs that are named, each once.
#[derive(Debug, Default)]
struct Ids {
    ids: Vec<JobId>,
    seen: BTreeSet<JobId>,
    /// Those that are not looked up yet.
    names: Names,
}

/// Where the making of a list stands.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// Names are looked up.
    Naming,
    /// The order of waiting jobs is looked up; those after this one are next.
    Placing(JobId),
    /// They are given places; this is the next one.
    Ranking(i64),
    /// Live jobs are looked at; those after this one, or at that place of the named, are next.
    Live(usize, JobId),
    /// The same for those that ended moments ago.
    Ended(usize, JobId),
    /// Rows are made.
    Rows,
}

/// Waiting tasks of one array that look alike.
#[derive(Debug)]
struct Fold {
    /// The lowest of their ranks.
    rank: JobId,
    /// The first id of the array.
    base: JobId,
    tasks: Vec<FoldedTask>,
}

/// One of them; they go in the order of indices.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct FoldedTask {
    index: u32,
    /// Its rank above the first id of the array.
    at: u32,
    id: JobId,
}

#[derive(Debug)]
enum Entry {
    Live { rank: JobId, id: JobId },
    Fold(Fold),
    Ended(JobId),
}

impl Entry {
    /// Where it stands: what lives by rank, what has ended after that, as it was found.
    const fn place(&self) -> (u8, JobId) {
        match self {
            Self::Live { rank, .. } | Self::Fold(Fold { rank, .. }) => (0, *rank),
            Self::Ended(_) => (1, JobId(0)),
        }
    }
}

impl Listing {
    /// True when rows are left for another answer, or the answer is too long.
    fn is_full(&self) -> bool {
        self.rows.bytes() > self.most_bytes() || self.has_enough()
    }

    /// It has as many rows as its command wants.
    fn has_enough(&self) -> bool {
        self.most_rows
            .is_some_and(|most| self.rows.len() >= most as usize)
    }

    /// Bytes of rows in the answer, at most.
    const fn most_bytes(&self) -> usize {
        match &self.answering {
            Answering::List { pages: true, .. } => limits::PAGE_BYTES,
            Answering::List { pages: false, .. } | Answering::Job(_) => {
                limits::REPLY_BYTES - AROUND_ROWS
            }
        }
    }

    fn after(&self) -> Option<Cursor> {
        match &self.answering {
            Answering::List { after, .. } => *after,
            Answering::Job(_) => None,
        }
    }

    /// Whether a job without a row for several tasks was told in an earlier answer, by its id alone:
    /// its rank is not beyond it.
    fn was_told(&self, job: JobId) -> bool {
        self.after().is_some_and(|c| c.part > 0 || job.0 <= c.at)
    }

    /// Gives the next waiting jobs in line their places.
    fn rank(&mut self, first: i64, left: &mut usize) {
        let mut place = first;
        while *left > 0 {
            let Some(key) = self.order.pop_first() else {
                self.stage = Stage::Live(0, JobId(0));
                return;
            };
            *left -= 1;
            self.places.insert(key.job, place);
            place += 1;
        }
        self.stage = Stage::Ranking(place);
    }

    /// An ended job is listed.
    fn found_ended(&mut self, id: JobId, ended_at: Time) {
        self.ended.push(id);
        if ended_at >= self.begun {
            self.just_ended.insert(id);
        }
    }

    /// Forgets of ended jobs those that were live when they were looked at: each has one row.
    fn leave_out_twice_found(&mut self) {
        let just_ended = std::mem::take(&mut self.just_ended);
        if just_ended.is_empty() {
            return;
        }
        let alone = self.live.iter().map(|(_, id)| id);
        let folded = self
            .folds
            .values()
            .flat_map(|fold| &fold.tasks)
            .map(|task| &task.id);
        let twice: BTreeSet<JobId> = alone
            .chain(folded)
            .filter(|id| just_ended.contains(id))
            .copied()
            .collect();
        self.ended.retain(|id| !twice.contains(id));
    }

    /// Tasks none of which waits any more have a row each. Of what comes next only the same array's
    /// tasks can stand between them.
    fn unfold(&mut self, fold: Fold) {
        let task = |task: FoldedTask| Entry::Live {
            rank: JobId(fold.base.0 + u64::from(task.at)),
            id: task.id,
        };
        let mut tasks: Vec<Entry> = fold.tasks.into_iter().map(task).collect();
        let last = tasks.iter().map(Entry::place).max();
        while self.entries.front().map(Entry::place) < last
            && let Some(next) = self.entries.pop_front()
        {
            tasks.push(next);
        }
        tasks.sort_by_key(Entry::place);
        for task in tasks.into_iter().rev() {
            self.entries.push_front(task);
        }
    }

    /// All that is to become rows, in order; from the place on where this answer begins.
    fn sort(&mut self) {
        self.leave_out_twice_found();
        let after = self.after();
        let told = |rank: JobId| after.is_some_and(|c| c.part > 0 || rank.0 <= c.at);
        let live = std::mem::take(&mut self.live).into_iter();
        let live = live.map(|(rank, id)| Entry::Live { rank, id });
        let folds = std::mem::take(&mut self.folds).into_values();
        let folds = folds.map(Entry::Fold);
        let mut entries: Vec<Entry> = live
            .chain(folds)
            .filter(|entry| !told(entry.place().1))
            .collect();
        entries.sort_by_key(Entry::place);
        let mut ended = std::mem::take(&mut self.ended);
        if let Some(last) = after.filter(|c| c.part > 0) {
            match ended.iter().position(|id| id.0 == last.at) {
                Some(at) => drop(ended.drain(..=at)),
                None => ended.retain(|id| id.0 > last.at),
            }
        }
        entries.extend(ended.into_iter().map(Entry::Ended));
        self.rows.expect(entries.len(), self.most_bytes());
        self.entries = entries.into();
        self.stage = Stage::Rows;
    }
}

fn too_long(rows: usize) -> Refusal {
    Refusal::new(
        RefusalCode::TooMany,
        format!(
            "the list has more rows than one answer holds ({rows} of them fill it): name fewer jobs or columns"
        ),
    )
}
