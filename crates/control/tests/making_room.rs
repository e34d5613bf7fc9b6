//! Random histories of a site where jobs make room: whoever goes helps the one it goes for, nobody
//! goes too many, and the one who asked starts when they have gone. What is enough, and what it
//! costs, is found by trying all sets, from what the store says, without the planner.

#![allow(clippy::unwrap_used)]

mod world;

use cosy_control::{JobRow, PreemptBy};
use cosy_model::api::{HistoryEvent, Reply, Request};
use cosy_model::policy::*;
use cosy_model::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use world::*;

const NODES: u32 = 3;
const CORES: u32 = 4;

/// Classes from the lowest to the highest; each preempts all below it.
const CLASSES: [&str; 3] = ["low", "high", "rare"];

/// What happens to the site.
#[derive(Clone, Debug)]
enum Step {
    /// A job of a class wants so many cores on each of so many nodes, for so many seconds.
    Submit(usize, u32, u32, i64),
    /// So many seconds pass.
    Pass(i64),
    /// The job that was submitted then, counted from the last one, is cancelled.
    Cancel(usize),
    /// The work of that job is safe.
    Checkpoint(usize),
    /// The controller dies, and nodes find it again.
    Crash,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let submit = (0usize..3, 1u32..=NODES, prop_oneof![Just(1u32), Just(2), Just(4)], 5i64..80);
    let step = prop_oneof![
        6 => submit.prop_map(|(class, nodes, cores, secs)| Step::Submit(class, nodes, cores, secs)),
        3 => (1i64..15).prop_map(Step::Pass),
        1 => (0usize..6).prop_map(Step::Cancel),
        1 => (0usize..6).prop_map(Step::Checkpoint),
        1 => Just(Step::Crash),
    ];
    prop::collection::vec(step, 4..24)
}

fn mode() -> impl Strategy<Value = PreemptMode> {
    prop_oneof![
        Just(PreemptMode::Cancel),
        Just(PreemptMode::Requeue),
        Just(PreemptMode::Suspend)
    ]
}

fn site(mode: PreemptMode, grace: i64, exempt: i64) -> World {
    let mut config = config(NODES, CORES);
    config.preemption.by.insert(PreemptBy::Qos);
    config.preemption.mode = mode;
    config.preemption.exempt = Span::from_secs(exempt);
    let mut world = World::new(config);
    let class = |at: usize| PolicyChange::AddQos {
        name: CLASSES[at].to_owned(),
        set: QosChange {
            preempt: Some(QosListChange::Exactly(
                CLASSES[..at]
                    .iter()
                    .map(|name| (*name).to_owned())
                    .collect(),
            )),
            grace: Some(Span::from_secs(grace)),
            ..QosChange::default()
        },
    };
    let request = Request::ChangePolicy {
        changes: (0..CLASSES.len()).map(class).collect(),
        dry_run: false,
    };
    let reply = world.ask_as(user(0, "root"), Some([1; 16]), request);
    assert!(matches!(reply, Reply::Done { .. }), "{reply:?}");
    world
}

/// Cores that nobody else may have beside a job, by node. One that waits for its cores to go on
/// has a claim to them.
fn held(row: &JobRow) -> BTreeMap<&str, u32> {
    let run = row.run.as_ref().filter(|_| row.end.is_none());
    let parts = run.into_iter().flat_map(|run| &run.parts);
    let parts = parts.filter(|part| !part.released);
    let claims = run.is_some_and(|run| run.resuming);
    let cores = |part: &cosy_control::record::PartRow| {
        let kept = part.kept.as_ref().filter(|_| !claims);
        kept.unwrap_or(&part.amounts).cores
    };
    parts.map(|part| (&*part.node, cores(part))).collect()
}

/// When it started. That is written a little later, and programs start at once here.
fn began(run: &cosy_control::record::RunRow) -> Time {
    run.started.unwrap_or(run.allocated)
}

/// What a job for which others go may count on.
#[derive(Clone, Copy, Debug)]
struct Owed {
    /// How often it had started.
    attempt: Attempt,
    /// When it starts at the latest. Unknown while room is made for another one too: that one may
    /// start elsewhere than where it was thought to.
    at: Option<Time>,
}

/// What the test knows of the jobs.
struct History {
    world: World,
    /// Class, nodes and cores of each job.
    asked: BTreeMap<JobId, (usize, u32, u32)>,
    /// Sets that have been looked at.
    looked: usize,
    /// Events that have been looked at.
    told: usize,
    exempt: i64,
    /// Sets that were compared with all others.
    compared: usize,
    /// Jobs for which others go.
    owed: BTreeMap<JobId, Owed>,
}

impl History {
    fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        let last = self.asked.len();
        let job = |back: usize| last.checked_sub(back).filter(|id| *id > 0);
        match step {
            Step::Submit(class, nodes, cores, secs) => {
                let mut spec = spec("x");
                spec.qos = Some(CLASSES[*class].to_owned());
                spec.request.nodes = Some(*nodes);
                spec.request.tasks = Some(*nodes);
                spec.request.cores_per_task = *cores;
                spec.requeue = true;
                spec.time_limit = Some(Span::from_secs(100));
                let id = JobId(last as u64 + 1);
                self.world.run_times.insert(id, Span::from_secs(*secs));
                self.asked.insert(id, (*class, *nodes, *cores));
                prop_assert_eq!(self.world.submit(spec), id.0);
                self.world.deliver_all();
            }
            Step::Pass(secs) => {
                for _ in 0..*secs {
                    self.world.pass(1);
                    self.check()?;
                }
            }
            Step::Cancel(back) => {
                if let Some(id) = job(*back) {
                    self.world.ask(cancels(ids(&[id as u64])));
                    self.world.deliver_all();
                    self.owed.remove(&JobId(id as u64));
                }
            }
            Step::Checkpoint(back) => {
                if let Some(id) = job(*back) {
                    let change = api::JobChange {
                        checkpointed: true,
                        ..api::JobChange::default()
                    };
                    let (filter, change) = (ids(&[id as u64]), Box::new(change));
                    self.world.ask(Request::Change { filter, change });
                }
            }
            Step::Crash => {
                self.world.crash();
                self.world.connect_all();
            }
        }
        self.check()
    }

    /// Looks at what has happened since the last look.
    fn check(&mut self) -> Result<(), TestCaseError> {
        let events = self.world.store.room[self.told..].to_vec();
        self.told = self.world.store.room.len();
        for event in events.iter().filter(|event| event.what == "makes_room") {
            self.check_set(event)?;
        }
        let now = self.world.now;
        let jobs = &self.world.store.jobs;
        let over = |id: &JobId, attempt: &Attempt| {
            jobs.get(id)
                .is_some_and(|row| row.attempt > *attempt || row.end.is_some())
        };
        self.owed.retain(|id, owed| !over(id, &owed.attempt));
        let late = self
            .owed
            .iter()
            .find(|(_, owed)| owed.at.is_some_and(|at| now > at));
        prop_assert!(late.is_none(), "{late:?} has not started: {:?}", self.world.queue());
        Ok(())
    }

    /// One set of jobs that go, against all sets.
    fn check_set(&mut self, event: &HistoryEvent) -> Result<(), TestCaseError> {
        let around = self.world.store.around_room[self.looked].clone();
        self.looked += 1;
        let id = JobId(event.object.trim_start_matches("job ").parse().unwrap());
        let Some([before, after]) = around else {
            return Ok(()); // of what two in one turn see of each other the store does not tell
        };
        let list = event.detail.strip_prefix("of ").unwrap_or_default();
        let gone: BTreeSet<JobId> = list
            .split(", ")
            .filter_map(|one| one.split(' ').next()?.parse().ok())
            .map(JobId)
            .collect();
        let until = gone.iter().filter_map(|victim| {
            after
                .get(victim)?
                .run
                .as_ref()?
                .preempted
                .map(|row| row.until)
        });
        let latest = until.max().unwrap_or(event.at).max(event.at);
        let attempt = before.get(&id).map_or(Attempt(0), |row| row.attempt);
        let alone = self.owed.keys().all(|other| *other == id);
        if !alone {
            self.owed.values_mut().for_each(|owed| owed.at = None);
        }
        let at = alone.then(|| latest + Span::from_secs(5));
        self.owed.insert(id, Owed { attempt, at });
        let asks = id;
        let (class, nodes, cores) = self.asked[&asks];
        // Whoever it must not push back has a place that these numbers do not tell of.
        let equal = |other: &JobId, row: Option<&JobRow>| {
            let waits = row.is_none_or(|row| row.end.is_none() && row.run.is_none());
            *other != id && waits && self.asked[other].0 >= class
        };
        if self
            .asked
            .keys()
            .any(|other| equal(other, before.get(other)))
        {
            return Ok(());
        }
        // What else happened in the same turn, some of it before the question and some after it, the
        // store does not tell apart.
        let others = |id: &&JobId| *id != &asks && !gone.contains(id);
        let changed = |id: &JobId| {
            let of = |rows: &BTreeMap<JobId, JobRow>| {
                let row = rows.get(id)?;
                let runs = row.run.is_some() && row.end.is_none();
                let held = held(row).into_iter().map(|(n, c)| (n.to_owned(), c));
                Some((row.attempt, runs, held.collect::<Vec<_>>()))
            };
            of(&before) != of(&after)
        };
        if self.asked.keys().filter(others).any(changed) {
            return Ok(());
        }
        let runs = |id: &JobId| {
            let row = before.get(id);
            row.is_some_and(|row| row.run.is_some() && row.end.is_none())
        };
        let holders: Vec<JobId> = self.asked.keys().copied().filter(runs).collect();
        let leaves_by_itself = |row: &JobRow| {
            row.run
                .as_ref()
                .is_some_and(|run| run.preempted.is_some() || run.after.is_some())
        };
        let fits = |gone: &BTreeSet<JobId>| {
            let mut free: BTreeMap<String, u32> =
                (1..=NODES).map(|n| (format!("n{n}"), CORES)).collect();
            for holder in holders.iter().filter(|id| !gone.contains(id)) {
                for (node, cores) in held(&before[holder]) {
                    let free = free.get_mut(node).unwrap();
                    *free = free.saturating_sub(cores);
                }
            }
            free.values().filter(|free| **free >= cores).count() as u32 >= nodes
        };
        if holders
            .iter()
            .any(|id| !gone.contains(id) && leaves_by_itself(&before[id]))
        {
            return Ok(()); // others are on their way out already, for somebody else
        }
        prop_assert!(fits(&gone), "{event:?}: {gone:?} are not enough");
        for one in &gone {
            let mut less = gone.clone();
            less.remove(one);
            prop_assert!(!fits(&less), "{event:?}: it would start without {one} going");
        }
        let candidates: Vec<JobId> = holders
            .iter()
            .copied()
            .filter(|victim| {
                let Some(run) = &before[victim].run else {
                    return false;
                };
                let old = event.at >= began(run) + Span::from_secs(self.exempt);
                self.asked[victim].0 < class
                    && old
                    && run.suspended.is_none()
                    && run.killed.is_none()
            })
            .collect();
        prop_assert!(gone.iter().all(|one| candidates.contains(one)), "{event:?}: {candidates:?}");
        let lost = |id: &JobId| {
            let run = before[id].run.as_ref().unwrap();
            let still = run
                .suspended
                .map_or(0, |since| event.at.since(since).secs());
            let ran = event.at.since(began(run)).secs() - run.suspended_for.secs() - still;
            let unsafe_for = run
                .checkpoint
                .map_or(ran, |safe| event.at.since(safe).secs());
            let cores: u32 = run.parts.iter().map(|part| part.amounts.cores).sum();
            i64::from(cores) * ran.min(unsafe_for)
        };
        let cost = |gone: &BTreeSet<JobId>| gone.iter().map(lost).sum::<i64>();
        let all = (0..1usize << candidates.len()).map(|bits| -> BTreeSet<JobId> {
            let chosen = candidates
                .iter()
                .enumerate()
                .filter(|(at, _)| bits >> at & 1 == 1);
            chosen.map(|(_, id)| *id).collect()
        });
        let best = all.filter(|set| fits(set)).map(|set| cost(&set)).min();
        prop_assert_eq!(Some(cost(&gone)), best, "{:?} of {:?}", event, candidates);
        self.compared += 1;
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases / 2, // PROPTEST_CASES asks for more
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn whoever_goes_helps(
        mode in mode(),
        grace in prop_oneof![Just(0i64), Just(12)],
        exempt in prop_oneof![Just(0i64), Just(7)],
        steps in steps(),
    ) {
        let mut history = History {
            world: site(mode, grace, exempt),
            asked: BTreeMap::new(),
            looked: 0,
            compared: 0,
            told: 0,
            exempt,
            owed: BTreeMap::new(),
        };
        for step in &steps {
            history.step(step)?;
        }
        history.step(&Step::Pass(40))?;
    }
}
