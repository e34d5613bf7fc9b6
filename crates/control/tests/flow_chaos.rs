//! Random workflows among random jobs, reservations and hands that take things away, with a
//! controller that dies inside its turns: nothing is half booked, every workflow ends, and
//! nothing of it is left.
//!
//! A seed that fails is printed; it repeats the same life.

#![allow(clippy::unwrap_used)]

mod flows;
mod world;

use cosy_control::{AccountConfig, ClusterConfig, OfFlow};
use cosy_model::api::{JobFilter, JobRef, Request, Submission};
use cosy_model::reservation::*;
use cosy_model::workflow::*;
use cosy_model::{JobId, OsText, ReservationId, Span, Su};
use flows::graph;
use std::collections::BTreeMap;
use world::*;

const LIVES: u64 = 30;
const STEPS: u64 = 120;

fn rules() -> ClusterConfig {
    let mut config = config(3, 4);
    config.reservations.all_of.clear();
    config.reservations.holds = None;
    config.reservations.rehold = None;
    config.reservations.hold = Span::from_secs(90);
    let limits = &mut config.reservations.per_user;
    (limits.open, limits.share_ppm) = (Some(5), Some(800_000));
    let account = AccountConfig {
        members: Vec::new(),
        budget: Some(Su::whole(40)),
    };
    config.accounts.insert("lab".to_owned(), account);
    config
}

fn random_flow(dice: &mut Dice, now: cosy_model::Time) -> FlowSpec {
    let count = 1 + dice.below(6) as usize;
    let names = &"abcdef"[..count];
    let mut spec = graph(names, &[]);
    for to in 1..count as u32 {
        for from in 0..to {
            if dice.chance(40) {
                spec.edges.push(FlowEdge {
                    from,
                    to,
                    data_bytes: 0,
                });
            }
        }
    }
    for task in &mut spec.tasks {
        task.estimate = Span::from_secs(10 + dice.below(100) as i64);
        task.retries = dice.below(3) as u32;
        let request = &mut task.spec.request;
        match dice.below(3) {
            0 => request.exclusive = true,
            1 => (request.nodes, request.exclusive) = (Some(1 + dice.below(2) as u32), true),
            _ => request.tasks = Some(1 + dice.below(4) as u32),
        }
    }
    spec.overrun = Overrun::ALL[dice.below(3) as usize];
    spec.early = dice.chance(50);
    spec.scheduler = FlowScheduler::ALL[dice.below(4) as usize];
    spec.slack_policy = FlowSlackPolicy::ALL[dice.below(6) as usize];
    spec.deadline = match dice.below(5) {
        0 => None,
        1 => Some(FlowDeadline::By(now + Span::from_secs(dice.below(400) as i64 + 1))),
        _ => Some(FlowDeadline::Slack(dice.below(800) as u32)),
    };
    spec.max_price = dice.chance(20).then(|| Su(dice.below(1_000_000) as i64));
    spec
}

/// One life: what it did is told by the numbers of workflows in each state.
struct Life {
    w: World,
    dice: Dice,
    tally: BTreeMap<FlowState, u32>,
}

impl Life {
    fn new(seed: u64) -> Self {
        let mut w = World::new(rules());
        w.longer_limits = true;
        Self {
            w,
            dice: Dice(seed),
            tally: BTreeMap::new(),
        }
    }

    fn step(&mut self) {
        if self.dice.chance(15) && self.w.dies.is_none() {
            let death = match self.dice.chance(50) {
                true => Death::BeforeCommit,
                false => Death::AfterCommit,
            };
            self.w.dies = Some((self.dice.below(4) as u32, death));
        }
        match self.dice.below(12) {
            0..3 => self.submit(),
            3 => self.confirm(),
            4 => self.cancel_flow(),
            5 => self.cancel_job(),
            6 => self.cancel_slot(),
            7 => self.plain_job(),
            8 => self.other_reservation(),
            9 => self.lose_node(),
            _ => {}
        }
        self.draw_ends();
        self.w.deliver_all();
        let secs = 1 + self.dice.below(20) as i64;
        self.w.pass(secs);
        self.connect_all();
        self.check();
    }

    /// Jobs take as long as they like and sometimes fail.
    fn draw_ends(&mut self) {
        let jobs: Vec<JobId> = self.w.store.submissions.keys().copied().collect();
        for job in jobs {
            if self.w.run_times.contains_key(&job) {
                continue;
            }
            let secs = 1 + self.dice.below(150) as i64;
            self.w.run_times.insert(job, Span::from_secs(secs));
            for number in 1..=3 {
                if self.dice.chance(20) {
                    self.w.exit_codes.insert(attempt(job.0, number), 1);
                }
            }
        }
    }

    fn connect_all(&mut self) {
        for n in 0..self.w.nodes.len() {
            if self.w.nodes[n].link.is_none() {
                self.w.connect(n);
            }
        }
        self.w.deliver_all();
    }

    fn submit(&mut self) {
        let spec = random_flow(&mut self.dice, self.w.now);
        let hold = spec.deadline.is_some() && self.dice.chance(40);
        let spec = Box::new(spec);
        self.w.ask(Request::SubmitFlow { spec, hold });
    }

    fn any<T: Copy>(&mut self, all: Vec<T>) -> Option<T> {
        let at = self.dice.below(all.len() as u64) as usize;
        all.get(at).copied()
    }

    fn confirm(&mut self) {
        let held = self.w.store.flows.values();
        let held = held.filter(|f| f.row.state == FlowState::Held);
        let held: Vec<_> = held.map(|f| f.row.id).collect();
        if let Some(id) = self.any(held) {
            self.w.ask(Request::ConfirmFlow { id });
        }
    }

    fn cancel_flow(&mut self) {
        let live = self.w.store.flows.values();
        let live: Vec<_> = live.filter(|f| f.row.is_live()).map(|f| f.row.id).collect();
        if let Some(id) = self.any(live) {
            self.w.ask(Request::CancelFlow { ids: vec![id] });
        }
    }

    fn cancel_job(&mut self) {
        let jobs: Vec<JobId> = self.w.store.submissions.keys().copied().collect();
        if let Some(job) = self.any(jobs) {
            let filter = JobFilter {
                ids: vec![JobRef { job, task: None }],
                ..JobFilter::default()
            };
            self.w.ask(cancels(filter));
        }
    }

    fn cancel_slot(&mut self) {
        let slots = self.w.store.reservations.values();
        let slots: Vec<ReservationId> = slots.filter(|r| r.state.is_live()).map(|r| r.id).collect();
        if let Some(id) = self.any(slots) {
            let series = self.dice.chance(20);
            let ids = vec![id];
            self.w.ask(Request::CancelReservation { ids, series });
        }
    }

    fn plain_job(&mut self) {
        let mut job = spec("plain");
        job.request.nodes = Some(1 + self.dice.below(3) as u32);
        job.request.exclusive = self.dice.chance(70);
        job.time_limit = Some(Span::from_secs(20 + self.dice.below(200) as i64));
        let submission = Submission {
            spec: job,
            script: OsText::default(),
            array: None,
        };
        self.w.ask(Request::Submit(Box::new(submission)));
    }

    fn other_reservation(&mut self) {
        let ask =
            ReservationSpec::plain(spec("x").request, Span::from_secs(60), StartChoice::Soonest);
        let request = Request::Reserve {
            ask: Box::new(ask),
            hold: false,
            job: None,
        };
        self.w.ask_as(user(3000, "bob"), None, request);
    }

    fn lose_node(&mut self) {
        let n = self.dice.below(3) as usize;
        self.w.disconnect(n);
        if self.dice.chance(30) {
            self.w.nodes[n].boot += 1;
            self.w.nodes[n].known.clear();
        }
    }

    /// All slots and jobs of a workflow are in the store with it, or none is.
    fn check(&self) {
        let store = &self.w.store;
        let mut slots: BTreeMap<OfFlow, ReservationId> = BTreeMap::new();
        for slot in store.reservations.values() {
            slots.extend(slot.flow.map(|of| (of, slot.id)));
        }
        let jobs = store.submissions.values();
        let of_jobs = jobs.filter_map(|(row, _)| Some((row.flow?, row.base)));
        let mut jobs: BTreeMap<OfFlow, JobId> = of_jobs.collect();
        for flow in store.flows.values() {
            assert_eq!(flow.tasks.len(), flow.spec.tasks.len(), "half a workflow");
            for task in &flow.tasks {
                assert_eq!(slots.remove(&task.of), task.reservation, "half booked");
                assert_eq!(jobs.remove(&task.of), Some(task.job), "half submitted");
                let Some(slot) = task.reservation.map(|id| &store.reservations[&id]) else {
                    continue;
                };
                let live = slot.state.is_live();
                assert!(!live || flow.row.is_live(), "a slot outlives its workflow");
                assert!(!live || task.end.is_none(), "a slot outlives its task");
                let held = slot.state == ReservationState::Held;
                assert!(!held || flow.row.state == FlowState::Held, "half confirmed");
            }
        }
        assert!(slots.is_empty() && jobs.is_empty(), "of no workflow");
    }

    /// Nothing new comes: all that there is ends.
    fn run_out(&mut self) {
        self.w.dies = None;
        for _ in 0..3000 {
            self.draw_ends();
            self.connect_all();
            self.w.pass(5);
            let live = self.w.store.flows.values().any(|f| f.row.is_live());
            if !live {
                break;
            }
        }
        self.check();
        let flows = self.w.store.flows.values();
        for flow in flows {
            assert!(!flow.row.is_live(), "it never ends: {:?}", flow.tasks);
            let done = flow.tasks.iter().all(|t| t.state == FlowTaskState::Done);
            // One that is given up in its last moment may have done all.
            match flow.row.state {
                FlowState::Completed => assert!(done),
                FlowState::Failed | FlowState::Expired => assert!(!done),
                FlowState::Cancelled => {}
                FlowState::Held | FlowState::Running => panic!("it never ends"),
            }
            self.parents_came_first(flow);
            *self.tally.entry(flow.row.state).or_default() += 1;
        }
    }

    fn parents_came_first(&self, flow: &cosy_control::LoadedFlow) {
        for edge in &flow.spec.edges {
            let (from, to) = (&flow.tasks[edge.from as usize], &flow.tasks[edge.to as usize]);
            if let Some(start) = to.start {
                assert_eq!(from.state, FlowTaskState::Done);
                assert!(from.end.is_some_and(|end| end <= start));
            }
        }
    }
}

#[test]
fn nothing_is_half_booked_and_everything_ends() {
    let mut tally: BTreeMap<FlowState, u32> = BTreeMap::new();
    let mut deaths = 0;
    for seed in 0..LIVES {
        let life = std::panic::catch_unwind(|| {
            let mut life = Life::new(seed);
            (0..STEPS).for_each(|_| life.step());
            life.run_out();
            (life.tally, life.w.deaths)
        });
        let Ok((states, died)) = life else {
            panic!("seed {seed}");
        };
        deaths += died;
        for (state, count) in states {
            *tally.entry(state).or_default() += count;
        }
    }
    // All of it did happen.
    let seen = |state| tally.get(&state).copied().unwrap_or(0);
    for state in [
        FlowState::Completed,
        FlowState::Failed,
        FlowState::Cancelled,
        FlowState::Expired,
    ] {
        assert!(seen(state) > 5, "{tally:?}");
    }
    assert!(deaths > 50, "{deaths}");
}
