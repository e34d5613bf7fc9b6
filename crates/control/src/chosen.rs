//! Which jobs a request means.
//!
//! Whoever asks chooses how long the lists are and how often something is named in them. So a
//! filter is sorted once before jobs are held against it, each id is expanded once, and no list
//! is searched for each job: the work goes with the number of jobs, not with that of the words.

use crate::controller::Controller;
use crate::event::Caller;
use crate::job::{Job, Submitted};
use cosy_model::api::{JobFilter, JobRef};
use cosy_model::{About, JobId, JobState, NodeId, Refusal, RefusalCode, Refusals, Uid, limits};
use std::collections::{BTreeMap, BTreeSet};

/// The conditions of a filter, its ids aside. An empty set is no condition.
pub(crate) struct Sieve<'a> {
    users: BTreeSet<&'a str>,
    /// Those of the users that are numbers.
    uids: BTreeSet<Uid>,
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
            let mut parts = job.run().into_iter().flat_map(|run| &run.parts);
            parts.any(|part| nodes.contains(&part.node))
        };
        self.passes_submitted(&job.submitted)
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
        let user = self.users.is_empty()
            || self.users.contains(job.user.as_str())
            || self.uids.contains(&job.uid);
        user && has(&self.queues, &job.queue)
            && has(&self.names, &job.spec.name)
            && has(&self.accounts, job.spec.account.as_deref().unwrap_or(""))
    }
}

/// Ids that are named, expanded. What ended arrays consist of is looked up once.
pub(crate) struct Named<'a> {
    it: &'a Controller,
    /// Ids of the tasks of ended arrays, by array and index.
    over: BTreeMap<JobId, BTreeMap<u32, JobId>>,
}

impl<'a> Named<'a> {
    pub fn new(it: &'a Controller) -> Self {
        Self {
            it,
            over: BTreeMap::new(),
        }
    }

    /// The ids that a reference stands for, live or ended moments ago.
    pub fn ids(&mut self, target: JobRef) -> Vec<JobId> {
        match target.task {
            Some(task) => self.task(target.job, task).into_iter().collect(),
            None => self.it.ids_of(target),
        }
    }

    /// Whose a reference is: what it stands for all belongs to one submission.
    pub fn submitted(&mut self, target: JobRef) -> Option<&'a Submitted> {
        let it = self.it;
        let group = it.groups.get(&target.job);
        if let Some(group) = group.filter(|_| target.task.is_none()) {
            return Some(&group.submitted);
        }
        let id = match target.task {
            Some(task) => self.task(target.job, task)?,
            None => *it.ids_of(target).first()?,
        };
        let live = it.jobs.get(&id).map(|job| &*job.submitted);
        live.or_else(|| it.ended.get(&id).map(|ended| &*ended.submitted))
    }

    fn task(&mut self, array: JobId, task: u32) -> Option<JobId> {
        let it = self.it;
        if it.groups.contains_key(&array) {
            let target = JobRef {
                job: array,
                task: Some(task),
            };
            return it.ids_of(target).first().copied();
        }
        let tasks = self.over.entry(array).or_insert_with(|| {
            let ended = it.ended.range(array..);
            let ended = ended.take_while(|(_, e)| e.submitted.base == array);
            ended
                .filter_map(|(id, e)| Some((e.row.index?, *id)))
                .collect()
        });
        tasks.get(&task).copied()
    }
}

/// Why a job cannot be touched.
#[derive(Clone, Copy)]
enum Untouchable {
    /// It has ended.
    Ended,
    /// It belongs to somebody else.
    Foreign,
}

/// Which jobs a filter names, and what was named but cannot be touched.
#[derive(Default)]
pub(crate) struct Chosen {
    /// Each once.
    pub ids: Vec<JobId>,
    pub refused: Refusals,
}

impl Controller {
    pub(crate) fn sieve<'a>(&self, filter: &'a JobFilter) -> Sieve<'a> {
        fn set(words: &[String]) -> BTreeSet<&str> {
            words.iter().map(String::as_str).collect()
        }
        let users = set(&filter.users);
        let uid = |text: &&str| {
            let uid: u32 = text.parse().ok()?;
            (uid.to_string() == **text).then_some(Uid(uid))
        };
        let node = |name: &String| self.node_ids.get(name).copied();
        Sieve {
            uids: users.iter().filter_map(uid).collect(),
            users,
            queues: set(&filter.queues),
            names: set(&filter.names),
            accounts: set(&filter.accounts),
            states: filter.states.iter().copied().collect(),
            nodes: (!filter.nodes.is_empty())
                .then(|| filter.nodes.iter().filter_map(node).collect()),
        }
    }

    pub(crate) fn choose(&self, caller: &Caller, filter: &JobFilter) -> Result<Chosen, Refusal> {
        if filter.is_empty() {
            return Err(Refusal::invalid(
                "no job is named: give ids, or a user, queue, name or state",
            ));
        }
        if filter.ids.len() > limits::IDS_IN_REQUEST {
            return Err(Refusal::invalid("too many ids in one request"));
        }
        let sieve = self.sieve(filter);
        let mut chosen = Chosen::default();
        if filter.ids.is_empty() {
            let passes = |j: &&Job| self.may_touch(caller, &j.submitted) && sieve.passes(j);
            chosen.ids = self.jobs.values().filter(passes).map(|j| j.id).collect();
            return Ok(chosen);
        }
        let mut named = Named::new(self);
        let (mut refs, mut seen) = (BTreeSet::new(), BTreeSet::new());
        for target in filter.ids.iter().filter(|target| refs.insert(**target)) {
            let ids = named.ids(*target);
            let mut any = false;
            let mut untouched = ids.is_empty().then(|| crate::request::no_job(*target));
            let mut last = None;
            for id in ids {
                match self.untouchable(caller, id) {
                    None if self.jobs.get(&id).is_some_and(|job| sieve.passes(job)) => {
                        any = true;
                        chosen.ids.extend(seen.insert(id).then_some(id));
                    }
                    None => {}
                    Some(why) => last = Some((id, why)),
                }
            }
            untouched = untouched.or_else(|| Some(self.untouched(last?)));
            if let Some(refusal) = untouched.filter(|_| !any) {
                chosen.refused.push(target.to_string(), refusal);
            }
        }
        Ok(chosen)
    }

    fn untouchable(&self, caller: &Caller, id: JobId) -> Option<Untouchable> {
        match self.jobs.get(&id) {
            None => Some(Untouchable::Ended),
            Some(job) if !self.may_touch(caller, &job.submitted) => Some(Untouchable::Foreign),
            Some(_) => None,
        }
    }

    fn untouched(&self, (id, why): (JobId, Untouchable)) -> Refusal {
        let name = self.name_of(id);
        match why {
            Untouchable::Ended => {
                let why = format!("job {name} has already ended");
                Refusal::new(RefusalCode::WrongState, why).about(About::Ended)
            }
            Untouchable::Foreign => {
                let why = format!("job {name} belongs to somebody else");
                Refusal::new(RefusalCode::Forbidden, why)
            }
        }
    }
}
