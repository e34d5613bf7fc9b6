//! Plans of workflows: asked for, made on a snapshot elsewhere, and then answered or gone on
//! with.
//!
//! What always holds: only a few snapshots exist at once; what waits for one holds none.

pub(crate) mod procedures;

use super::book::FlowBooking;
use super::replan::Replan;
use super::resolve::{ResolvedFlow, of_task};
use crate::event::{Caller, ClientId};
use crate::turn::Asker;
use cosy_model::workflow::FlowSpec;
use cosy_model::{About, FlowId, Refusal, RefusalCode, Time, Uid};
use cosy_sched::workflow::DagError;
use cosy_sched::workflow::live::{LiveError, LiveFlow, LivePlan};
use cosy_view::words::counted;
use cosy_view::words::moment::utc;
use std::collections::{BTreeMap, VecDeque};

/// Snapshots at once.
const UNDER_WAY: usize = 2;
/// Requests that wait for one.
const WAITING: usize = 100;
/// Requests of one user that wait or are under way.
const OF_ONE_USER: usize = 8;
/// Tasks of a circle that are named.
const NAMED: usize = 20;

/// What a plan comes back as.
pub(crate) type Planned = Result<LivePlan, LiveError>;

/// Who waits for a plan, and what becomes of it.
#[derive(Debug)]
pub(crate) enum FlowPending {
    /// It is answered.
    Plan {
        client: ClientId,
        caller: Box<Caller>,
        wish: Box<ResolvedFlow>,
    },
    /// Its slots are taken.
    Submit(Box<FlowBooking>),
    /// What has not started of it moves.
    Replan(Box<Replan>),
}

impl FlowPending {
    fn uid(&self) -> Option<Uid> {
        match self {
            Self::Plan { caller, .. } => Some(caller.user.uid),
            Self::Submit(booking) => Some(booking.caller.user.uid),
            Self::Replan(_) => None,
        }
    }
}

/// Plans under way.
#[derive(Debug)]
pub(crate) struct FlowPlans {
    next: u64,
    under_way: BTreeMap<u64, FlowPending>,
    waiting: VecDeque<(FlowPending, Box<LiveFlow>)>,
}

impl FlowPlans {
    /// Numbers begin at the time, so that an answer to an earlier life of the controller is
    /// never taken for one to this.
    pub fn new(now: Time) -> Self {
        Self {
            next: u64::try_from(now.0).unwrap_or(0).saturating_mul(1000),
            under_way: BTreeMap::new(),
            waiting: VecDeque::new(),
        }
    }

    fn all(&self) -> impl Iterator<Item = &FlowPending> {
        let waiting = self.waiting.iter().map(|(pending, _)| pending);
        self.under_way.values().chain(waiting)
    }

    /// True when a request with that key waits for its plan already: its answer goes to the
    /// new connection.
    pub fn rejoin(&mut self, asker: Asker<'_>) -> bool {
        let Some(key) = asker.key else { return false };
        let uid = asker.caller.user.uid;
        let waiting = self.waiting.iter_mut().map(|(pending, _)| pending);
        for pending in self.under_way.values_mut().chain(waiting) {
            if let FlowPending::Submit(booking) = pending
                && (booking.caller.user.uid, booking.key) == (uid, Some(key))
            {
                booking.client = asker.client;
                return true;
            }
        }
        false
    }

    /// True when a part of that workflow is being planned again.
    pub fn replans(&self, id: FlowId) -> bool {
        self.all()
            .any(|pending| matches!(pending, FlowPending::Replan(replan) if replan.flow == id))
    }

    fn next_one(&mut self) -> Option<(u64, Box<LiveFlow>)> {
        if self.under_way.len() >= UNDER_WAY {
            return None;
        }
        let (pending, flow) = self.waiting.pop_front()?;
        let number = self.next;
        self.next += 1;
        self.under_way.insert(number, pending);
        Some((number, flow))
    }

    /// For whom that plan was made.
    pub fn take(&mut self, plan: u64) -> Option<FlowPending> {
        self.under_way.remove(&plan)
    }
}

/// Why a task finds no place, however late.
fn no_place(spec: &FlowSpec, task: usize) -> String {
    let licensed = spec.tasks.get(task).map(|task| &task.spec.licenses);
    let licensed = licensed.filter(|licenses| !licenses.is_empty());
    let licences = licensed.map_or(String::new(), |all| {
        format!(", or there are too few of its licences ({})", counted::write(all))
    });
    format!(
        "the nodes of no set that are in service now are large enough or many enough for it, all of one set{licences}"
    )
}

/// Why there is no plan, with the tasks' names.
pub(crate) fn flow_refusal(spec: &FlowSpec, error: &LiveError) -> Refusal {
    let name = |task: &usize| spec.tasks.get(*task).map_or("", |task| task.name.as_str());
    match error {
        LiveError::Graph(DagError::Cycle(tasks)) => {
            let names: Vec<&str> = tasks.iter().take(NAMED).map(name).collect();
            Refusal::invalid(format!(
                "tasks wait for each other in a circle: {} -> {}{}",
                names.join(" -> "),
                if tasks.len() > NAMED { "... -> " } else { "" },
                names.first().copied().unwrap_or_default()
            ))
        }
        LiveError::Graph(DagError::Nowhere(task)) | LiveError::Nowhere { task } => {
            of_task(name(task), Refusal::new(RefusalCode::NeverFits, no_place(spec, *task)))
        }
        LiveError::Graph(DagError::Estimate(task)) => of_task(
            name(task),
            Refusal::invalid("its estimated run time is below 0 or far too long"),
        ),
        LiveError::Graph(DagError::Edge(from, to)) => Refusal::invalid(format!(
            "the edge from '{}' to '{}' leads nowhere or back to itself, or carries far too much data",
            name(from),
            name(to)
        )),
        LiveError::Graph(DagError::Empty) => Refusal::invalid("the workflow has no tasks"),
        LiveError::TooEarly {
            shortest_end,
            deadline,
        } => Refusal::new(
            RefusalCode::NotFree,
            format!(
                "the deadline {} cannot be kept: the earliest that works is {}",
                utc(*deadline),
                utc(*shortest_end)
            ),
        )
        .about(About::Deadline),
        LiveError::Failed => {
            Refusal::new(RefusalCode::Unavailable, "the plan could not be worked out; try again")
        }
    }
}
