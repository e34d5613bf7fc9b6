//! Which jobs a request means.
//!
//! Whoever asks chooses how long the lists are and how often something is named in them. So a
//! filter is sorted once before jobs are held against it, each id is expanded once, and no list
//! is searched for each job: the work goes with the number of jobs, not with that of the words.
//! Where something is to be done to them, they are looked for in pieces ([`Choosing`]).

pub(crate) mod procedures;

use crate::jobs::arrays::Expanding;
use crate::jobs::job::{Group, Job, Submitted};
use cosy_model::api::{JobFilter, JobRef};
use cosy_model::{JobId, JobState, NodeId, Refusal, Refusals, Uid, limits};
use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Users by name or number; none is no condition.
#[derive(Debug)]
pub(crate) struct Users<S> {
    names: BTreeSet<S>,
    /// Those that are numbers.
    uids: BTreeSet<Uid>,
}

impl<S: Ord + Borrow<str>> Users<S> {
    pub fn new(words: impl Iterator<Item = S>) -> Self {
        let names: BTreeSet<S> = words.collect();
        Self {
            uids: names.iter().filter_map(|n| uid_of(n.borrow())).collect(),
            names,
        }
    }

    pub fn has(&self, name: &str, uid: Uid) -> bool {
        // The name lies elsewhere in memory: it is looked at last.
        self.names.is_empty() || self.uids.contains(&uid) || self.names.contains(name)
    }
}

/// The user that a number stands for.
fn uid_of(text: &str) -> Option<Uid> {
    let uid: u32 = text.parse().ok()?;
    (uid.to_string() == text).then_some(Uid(uid))
}

/// The conditions of a filter, its ids aside. An empty set is no condition.
pub(crate) struct Sieve<'a> {
    users: Users<&'a str>,
    queues: BTreeSet<&'a str>,
    names: BTreeSet<&'a str>,
    accounts: BTreeSet<&'a str>,
    states: BTreeSet<JobState>,
    /// `None` is no condition.
    nodes: Option<BTreeSet<NodeId>>,
}

impl Sieve<'_> {
    /// Whether a live job is one that is meant.
    pub fn passes(&self, job: &Job) -> bool {
        let on_node = |nodes: &BTreeSet<NodeId>| {
            let mut parts = job.run().into_iter().flat_map(|run| run.parts());
            parts.any(|part| nodes.contains(&part.node()))
        };
        self.passes_submitted(job.submitted())
            && self.passes_state(job.state())
            && self.nodes.as_ref().is_none_or(on_node)
    }

    /// Whether only jobs on certain nodes are meant.
    pub fn names_nodes(&self) -> bool {
        self.nodes.is_some()
    }

    pub fn passes_state(&self, state: JobState) -> bool {
        self.states.is_empty() || self.states.contains(&state)
    }

    /// What does not depend on how the job stands.
    pub fn passes_submitted(&self, job: &Submitted) -> bool {
        let has = |set: &BTreeSet<&str>, what: &str| set.is_empty() || set.contains(what);
        self.users.has(&job.user, job.uid)
            && has(&self.queues, &job.queue)
            && has(&self.names, &job.spec.name)
            && has(&self.accounts, job.spec.account.as_deref().unwrap_or(""))
    }
}

/// Why a job cannot be touched.
#[derive(Clone, Copy, Debug)]
enum Untouchable {
    /// It has ended.
    Ended,
    /// It belongs to that user.
    Foreign(Uid),
}

/// Of an array of which tasks are meant.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Tally {
    /// Tasks without a row of their own when the first was looked at. They never become more.
    plain: u32,
    /// Those of them that are meant.
    chosen: u32,
    /// All of its tasks were looked at.
    whole: bool,
    /// One without a row was looked at and is not meant.
    left_out: bool,
}

impl Tally {
    /// True when all that now have no row of their own are meant.
    pub fn covers(self, plain: u32) -> bool {
        // The last that is like no other, named alone, is not the array.
        let unchanged = plain > 1 && plain == self.plain && plain == self.chosen;
        plain > 0 && (self.whole && !self.left_out || unchanged)
    }
}

/// What was named, as far as it has been gone through.
#[derive(Debug)]
struct Naming {
    expanding: Expanding,
    /// There is such a job.
    known: bool,
    /// One of them is meant.
    any: bool,
    /// One of them lives.
    live: bool,
    /// Those that have ended moments ago.
    ended: Vec<JobId>,
    /// The last that cannot be touched.
    last: Option<(JobId, Untouchable)>,
}

/// The jobs that a request means, looked for in pieces: somebody may name an array of 100,000
/// tasks, or nothing but a user.
#[derive(Debug)]
pub(crate) struct Choosing {
    /// Without the ids.
    filter: JobFilter,
    /// What is named and not looked up yet; `None` where all jobs are looked at.
    named: Option<VecDeque<JobRef>>,
    refs: BTreeSet<JobRef>,
    seen: BTreeSet<JobId>,
    naming: Option<Naming>,
    /// All jobs up to this one were looked at.
    after: JobId,
    /// Those from this one on were submitted later: they are not meant.
    until: JobId,
    /// Jobs of which nothing lives any more are meant too.
    with_ended: bool,
    /// Each once, in the order in which they were named.
    pub ids: Vec<JobId>,
    /// Those of them that hold nodes.
    pub running: Vec<JobId>,
    /// Named ones that have ended, where these are meant too.
    pub ended: Vec<JobId>,
    pub refused: Refusals,
    /// The submissions that the jobs belong to.
    pub bases: BTreeSet<JobId>,
    /// Arrays among these.
    pub tallies: BTreeMap<JobId, Tally>,
}

impl Naming {
    const fn of(target: JobRef) -> Self {
        Self {
            expanding: Expanding::of(target),
            known: false,
            any: false,
            live: false,
            ended: Vec::new(),
            last: None,
        }
    }
}

impl Choosing {
    /// Nothing is looked at yet. `until`: the next job to be submitted.
    pub fn new(mut filter: JobFilter, with_ended: bool, until: JobId) -> Result<Self, Refusal> {
        if filter.is_empty() {
            return Err(Refusal::invalid(
                "no job is named: give ids, or a user, queue, name or state",
            ));
        }
        if filter.ids.len() > limits::IDS_IN_REQUEST {
            return Err(Refusal::invalid("too many ids in one request"));
        }
        let ids = std::mem::take(&mut filter.ids);
        Ok(Self {
            filter,
            named: (!ids.is_empty()).then(|| ids.into()),
            refs: BTreeSet::new(),
            seen: BTreeSet::new(),
            naming: None,
            after: JobId(0),
            until,
            with_ended,
            ids: Vec::new(),
            running: Vec::new(),
            ended: Vec::new(),
            refused: Refusals::default(),
            bases: BTreeSet::new(),
            tallies: BTreeMap::new(),
        })
    }

    /// Jobs were named: what cannot be done is told of each.
    pub const fn is_named(&self) -> bool {
        self.named.is_some()
    }

    fn choose(&mut self, group: Option<&Group>, job: &Job, meant: bool) {
        let base = job.submitted().base;
        if meant && !self.seen.insert(job.id()) {
            return;
        }
        if meant {
            self.ids.push(job.id());
            self.running.extend((!job.is_waiting()).then_some(job.id()));
            self.bases.insert(base);
        }
        let Some(group) = group.filter(|_| job.member().is_some()) else {
            return;
        };
        let tally = self.tallies.entry(base).or_insert_with(|| Tally {
            plain: group.plain(),
            ..Tally::default()
        });
        tally.chosen += u32::from(meant && !job.has_row());
        tally.left_out |= !meant && !job.has_row();
    }
}
