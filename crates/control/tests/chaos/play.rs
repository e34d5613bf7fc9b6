//! The player: users, nodes and accidents at random, from a seed.

use crate::watch::Watch;
use crate::world::*;
use cosy_control::Event;
use cosy_model::api::{JobChange, NodeAction, Reply, Request, Submission};
use cosy_model::reservation::*;
use cosy_model::*;

/// Longest step of time, so that no node falls silent.
const STEP: Span = Span::from_secs(25);

/// A changing request that was made, for its repetition.
struct Made {
    at: Time,
    who: User,
    key: [u8; 16],
    request: Request,
    reply: Option<Reply>,
}

pub struct Play {
    pub world: World,
    pub dice: Dice,
    pub watch: Watch,
    made: Vec<Made>,
    keys: u64,
    /// Crashes between two turns.
    pub crashes: u64,
    /// Confirmations of what has expired.
    pub late: u64,
    /// Refusals.
    pub refused: u64,
}

impl Play {
    pub fn new(mut dice: Dice) -> Self {
        let config = crate::setting::random(&mut dice);
        let mut world = World::new(config);
        world.overtime = Span(dice.below(6) as i64 * 1000);
        world.late = random_delay(&mut dice);
        Self {
            world,
            dice,
            watch: Watch::default(),
            made: Vec::new(),
            keys: 0,
            crashes: 0,
            late: 0,
            refused: 0,
        }
    }

    /// Tells what happens, if the one who looks for a fault wants it.
    fn note(&self, what: &str) {
        if std::env::var_os("COSY_TELL").is_some() {
            eprintln!("{:>9} {what}", self.world.now.since(Time::from_secs(1_000_000)));
        }
    }

    pub fn user(&mut self) -> User {
        match self.dice.below(8) {
            0..4 => user(1000, "u1000"),
            4..6 => user(1001, "u1001"),
            6 => user(1002, "u1002"),
            _ => user(0, "root"),
        }
    }

    /// Whatever is due is done, and then everything must hold.
    pub fn check(&mut self) {
        self.world.dies = None;
        self.world.event(Event::Ticked);
        if let Err(wrong) = self.watch.check(&self.world) {
            panic!("{wrong}");
        }
    }

    /// Asks, perhaps with an accident on the way.
    pub fn ask(&mut self, who: User, request: Request) -> Option<Reply> {
        self.keys += 1;
        let mut key = [0; 16];
        key[..8].copy_from_slice(&self.keys.to_le_bytes());
        let reply = self.ask_with(who.clone(), key, request.clone());
        if let Some(Reply::Reserved { reservations, .. }) = &reply {
            self.told_reservations(reservations);
        }
        if request.changes() {
            self.made.push(Made {
                at: self.world.now,
                who,
                key,
                request,
                reply: reply.clone(),
            });
        }
        reply
    }

    fn ask_with(&mut self, who: User, key: [u8; 16], request: Request) -> Option<Reply> {
        self.check();
        if self.dice.chance(6) {
            let death = match self.dice.chance(50) {
                true => Death::BeforeCommit,
                false => Death::AfterCommit,
            };
            self.world.dies = Some((self.dice.below(4) as u32, death));
        }
        let deaths = self.world.deaths;
        let before = State::of(&self.world);
        let name = who.name.clone();
        let text = format!("{name} {request:?}");
        let changes = request.changes();
        let reply = self
            .world
            .ask_as(who.clone(), changes.then_some(key), request);
        let answered = self.world.deaths == deaths;
        let told: String = format!("{reply:?}").chars().take(300).collect();
        let told = if answered { told } else { "DIED".to_owned() };
        self.note(&format!("{text} -> {told}"));
        if let (true, Reply::Refused(refusal)) = (answered, &reply) {
            let after = State::of(&self.world);
            assert!(before == after, "refused ({refusal}) and yet changed");
            self.refused += 1;
        }
        self.check();
        answered.then_some(reply)
    }

    /// What was told is in the store.
    fn told_reservations(&self, reservations: &[ReservationInfo]) {
        for told in reservations {
            let row = self.world.store.reservations.get(&told.id);
            let row = row.unwrap_or_else(|| panic!("{} was told and is not there", told.id));
            assert_eq!((row.start, row.end), (told.start, told.end));
        }
    }

    /// A request is made again with its key: after an answer the same comes back and
    /// nothing changes; without one it is done now, once.
    pub fn repeat(&mut self) {
        let recent = self.world.now - Span::from_minutes(30);
        self.made.retain(|made| made.at > recent);
        if self.made.is_empty() {
            return;
        }
        let at = self.dice.below(self.made.len() as u64) as usize;
        let made = &self.made[at];
        let (who, key, request) = (made.who.clone(), made.key, made.request.clone());
        let first = made.reply.clone();
        let before = State::of(&self.world);
        let reply = self.ask_with(who, key, request);
        // What has changed nothing is not kept.
        let kept =
            |reply: &Reply| !matches!(reply, Reply::Refused(_) | Reply::Done { changed: 0, .. });
        let known = first.filter(kept);
        if let (Some(first), Some(reply)) = (&known, &reply) {
            assert!(first == reply, "told {first:?} and then {reply:?}");
            let after = State::of(&self.world);
            assert!(before == after, "a repeated request changed something");
        }
        if known.is_none() {
            self.made[at].reply = reply;
        }
    }

    /// Lets time pass, from one thing that is due to the next.
    pub fn pass(&mut self, span: Span) {
        let until = self.world.now + span;
        while self.world.now < until {
            self.world.now = self.next_date().min(until);
            self.world.end_due();
            for n in 0..self.world.nodes.len() {
                self.world
                    .report(n, cosy_model::node::NodeReport::Heartbeat);
            }
            self.world.event(Event::Ticked);
            self.world.deliver_all();
            self.check();
        }
    }

    /// When something happens next by itself, or a step from now.
    fn next_date(&self) -> Time {
        let now = self.world.now;
        let clearance = self.world.config.policy.clearance;
        let rows = self.world.store.reservations.values();
        let rows = rows.filter(|row| row.state.is_live());
        let dates = rows.flat_map(|row| {
            let hold = row.hold_until.unwrap_or(row.start);
            [hold, row.start - clearance, row.start, row.end]
        });
        let known = self.world.nodes.iter().flat_map(|n| n.known.values());
        let begins = known.clone().filter_map(|on| Some(on.begins.as_ref()?.0));
        let ends = known.map(|on| on.ends_at).chain(begins);
        let next = dates.chain(ends).filter(|at| *at > now).min();
        next.map_or(now + STEP, |at| at.min(now + STEP))
    }

    /// One thing happens.
    pub fn step(&mut self) {
        match self.dice.below(100) {
            0..24 => self.submit(),
            24..44 => {
                let most = if self.dice.chance(15) { 400 } else { 40 };
                let span = Span(1 + self.dice.below(most * 1000) as i64);
                self.pass(span);
            }
            44..60 => crate::booking::reserve(self),
            60..66 => crate::booking::confirm(self),
            66..71 => crate::booking::cancel(self),
            71..74 => crate::booking::extend(self),
            74..76 => crate::booking::shorten(self),
            76..77 if self.dice.chance(50) => crate::booking::alter(self),
            76..77 => crate::booking::share(self),
            77..78 => crate::booking::look(self),
            78..80 => self.crash(),
            80..88 => self.node(),
            88..91 => self.money(),
            91..92 => self.reload(),
            92..96 => self.repeat(),
            96..97 => self.cancel_job(),
            97..98 => self.suspend_or_resume(),
            98..99 => self.give_nodes_back(),
            _ => crate::booking::compare(self),
        }
        if self.dice.chance(80) {
            self.world.deliver_all();
        }
        self.check();
    }

    fn crash(&mut self) {
        self.note("crash");
        self.crashes += 1;
        self.world.crash();
        for n in 0..self.world.nodes.len() {
            if self.dice.chance(85) {
                self.world.connect(n);
            }
        }
    }

    fn node(&mut self) {
        let n = self.dice.below(self.world.nodes.len() as u64) as usize;
        let what = self.dice.below(10);
        self.world.late = random_delay(&mut self.dice);
        self.note(&format!("node {n}: {what}"));
        match what {
            0..5 => {
                for n in 0..self.world.nodes.len() {
                    if self.world.nodes[n].link.is_none() {
                        self.world.connect(n);
                    }
                }
            }
            5 => self.world.disconnect(n),
            6 => {
                self.world.switch_off(n);
                self.world.connect(n);
            }
            7 => {
                // Silence long enough to be given up.
                self.world.disconnect(n);
                self.pass(Span::from_secs(65));
            }
            what => {
                let action = match what {
                    8 => NodeAction::Drain {
                        reason: "broken".into(),
                    },
                    _ => NodeAction::Resume,
                };
                let nodes = match action {
                    NodeAction::Resume => self.world.nodes.iter().map(|n| n.name.clone()).collect(),
                    _ => vec![self.world.nodes[n].name.clone()],
                };
                self.ask(user(0, "root"), Request::NodeControl { nodes, action });
            }
        }
    }

    fn money(&mut self) {
        let sum = Su(self.dice.below(5_000_000) as i64);
        let name = ["lab", "solo", "side"][self.dice.below(3) as usize];
        let action = match self.dice.below(6) {
            0..2 => AccountAction::Grant(sum),
            2..4 => AccountAction::Withdraw(sum),
            4 => AccountAction::Create {
                members: vec!["u1000".to_owned()],
                budget: self.dice.chance(50).then_some(sum),
            },
            _ => AccountAction::Remove,
        };
        let name = name.to_owned();
        self.ask(user(0, "root"), Request::AccountControl { name, action });
    }

    fn reload(&mut self) {
        if self.world.nodes.len() >= 8 {
            return;
        }
        self.note("a node is added");
        let name = format!("n{}", self.world.nodes.len() + 1);
        let mut spec = self.world.config.nodes[0].clone();
        spec.key = Some(format!("key{}", self.world.nodes.len() + 1));
        spec.name.clone_from(&name);
        self.world.config.nodes.push(spec);
        self.world.nodes.push(FakeNode {
            seen: None,
            name,
            boot: 1,
            link: None,
            known: std::collections::BTreeMap::new(),
            starts: std::collections::BTreeMap::new(),
            ahead: Span::ZERO,
            gpu_types: Vec::new(),
            devices: Vec::new(),
        });
        let config = Box::new(self.world.config.clone());
        self.world.event(Event::Reconfigured(config));
        self.world.connect(self.world.nodes.len() - 1);
    }

    fn cancel_job(&mut self) {
        let most = self.world.store.submissions.len() as u64 + 1;
        let filter = ids(&[1 + self.dice.below(most)]);
        self.ask(user(0, "root"), cancels(filter));
    }

    /// A job that has nodes is stopped, or one that is stopped is to run on.
    fn suspend_or_resume(&mut self) {
        let jobs = self.world.store.jobs.values();
        let with_nodes = jobs.filter(|job| job.end.is_none());
        let known = with_nodes.filter_map(|job| Some((job.id, job.run.as_ref()?.suspended)));
        let stop = self.dice.chance(60);
        let known: Vec<u64> = known
            .filter(|(_, since)| since.is_some() != stop)
            .map(|(id, _)| id.0)
            .collect();
        if known.is_empty() {
            return;
        }
        let filter = ids(&[known[self.dice.below(known.len() as u64) as usize]]);
        let request = match stop {
            true => Request::Suspend { filter },
            false => Request::Resume { filter },
        };
        self.ask(user(0, "root"), request);
    }

    /// A running job goes on with fewer nodes.
    fn give_nodes_back(&mut self) {
        let jobs = self.world.store.jobs.values();
        let large = jobs.filter_map(|job| {
            let run = job.run.as_ref().filter(|_| job.end.is_none())?;
            (run.parts.len() > 1).then_some((job.id.0, run.parts.len()))
        });
        let large: Vec<(u64, usize)> = large.collect();
        if large.is_empty() {
            return;
        }
        let (id, nodes) = large[self.dice.below(large.len() as u64) as usize];
        let left = 1 + self.dice.below(nodes as u64) as u32;
        let change = JobChange {
            nodes: Some(left),
            ..JobChange::default()
        };
        let request = Request::Change {
            filter: ids(&[id]),
            change: Box::new(change),
        };
        self.ask(user(0, "root"), request);
    }

    /// A job of the queue, or one that is to run in a reservation.
    fn submit(&mut self) {
        let who = self.user();
        let mut spec = crate::booking::random_job(self);
        let live: Vec<ReservationId> = self.live();
        if !live.is_empty() && self.dice.chance(35) {
            let at = self.dice.below(live.len() as u64) as usize;
            spec.reservation = Some(live[at]);
            spec.queue = None;
            if self.dice.chance(40) {
                spec.time_limit = None;
            }
        }
        let within = spec.reservation;
        let submission = Submission {
            spec,
            script: OsText::default(),
            array: None,
        };
        let reply = self.ask(who.clone(), Request::Submit(Box::new(submission)));
        match (&reply, within) {
            (Some(Reply::Submitted { .. }), Some(id)) => {
                assert!(self.may_enter(&who, id), "{} got into {id}", who.name);
            }
            (Some(Reply::Refused(r)), Some(id)) if r.code == RefusalCode::AccessDenied => {
                assert!(!self.may_enter(&who, id), "{} was kept out of {id}", who.name);
            }
            _ => {}
        }
        if let Some(Reply::Submitted { job, .. }) = reply {
            self.set_run_time(job);
        }
    }

    /// Some jobs use their limit fully, some end early.
    pub fn set_run_time(&mut self, job: JobId) {
        let time = match self.dice.below(4) {
            0..2 => Span::from_secs(100_000),
            2 => Span::from_secs(1),
            _ => Span(1 + self.dice.below(200_000) as i64),
        };
        self.world.run_times.insert(job, time);
    }

    fn may_enter(&self, who: &User, id: ReservationId) -> bool {
        let row = &self.world.store.reservations[&id];
        let member = match row.account.as_deref() {
            Some("lab") => ["u1000", "u1001"].contains(&who.name.as_str()),
            Some("solo") => who.name == "u1002",
            Some("side") => who.name == "u1000",
            Some(_) | None => false,
        };
        row.uid == who.uid
            || who.uid == Uid(0)
            || member
            || row.ask.sharing.users.contains(&who.name)
    }

    pub fn live(&self) -> Vec<ReservationId> {
        let rows = self.world.store.reservations.values();
        let live = rows.filter(|row| row.state.is_live());
        live.map(|row| row.id).collect()
    }

    /// Everything comes to its end, and the books say what each thing cost.
    pub fn finish(&mut self) {
        for n in 0..self.world.nodes.len() {
            if self.world.nodes[n].link.is_none() {
                self.world.connect(n);
            }
        }
        self.pass(Span::from_secs(900));
        let left = self.live();
        if !left.is_empty() {
            self.ask(
                user(0, "root"),
                Request::CancelReservation {
                    ids: left,
                    series: false,
                },
            );
        }
        let left = self.live();
        let cancelled_all = left.is_empty() || self.world.deaths > 0;
        assert!(cancelled_all, "not cancelled: {left:?}");
        if left.is_empty() {
            let held = self.world.store.accounts.values().map(|row| row.held);
            assert!(held.into_iter().all(|sum| sum == Su::ZERO));
        }
    }
}

/// How long prologs take: often nothing, rarely longer than the force at the end of a job.
fn random_delay(dice: &mut Dice) -> Span {
    match dice.below(3) {
        0 => Span::ZERO,
        1 => Span(dice.below(3000) as i64),
        _ => Span(dice.below(30_000) as i64),
    }
}

/// What a refused request must not change.
#[derive(PartialEq, Debug)]
struct State {
    reservations: Vec<cosy_control::ReservationRow>,
    accounts: Vec<cosy_control::AccountRow>,
    jobs: Vec<cosy_control::SubmissionRow>,
}

impl State {
    fn of(world: &World) -> Self {
        let store = &world.store;
        let live = store.reservations.values().filter(|r| r.state.is_live());
        let jobs = store.submissions.values().filter(|(_, live)| *live);
        Self {
            reservations: live.cloned().collect(),
            accounts: store.accounts.values().cloned().collect(),
            jobs: jobs.map(|(row, _)| row.clone()).collect(),
        }
    }
}
