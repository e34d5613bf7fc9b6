//! A controller with fake nodes, a fake store and a fake clock: what the daemons do to
//! it, without any daemon.

#![allow(dead_code, clippy::unwrap_used)]

use cosy_control::*;
use cosy_model::api::{JobField, JobFilter, Reply, Request, Submission, Table};
use cosy_model::node::*;
use cosy_model::step::StepRecord;
use cosy_model::*;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A small generator of numbers (splitmix64): same seed, same numbers.
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.roll() % n.max(1)
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// The store, in memory, with the meaning of the real one.
#[derive(Default, Clone)]
pub struct MemoryStore {
    pub submissions: BTreeMap<JobId, (SubmissionRow, bool)>,
    pub jobs: BTreeMap<JobId, JobRow>,
    pub bodies: BTreeMap<(JobId, u32), SubmissionRow>,
    standings: BTreeMap<JobId, StandingRow>,
    pub nodes: BTreeMap<String, NodeRow>,
    queues: BTreeMap<String, QueueState>,
    own_queues: BTreeMap<String, OwnQueue>,
    pub license_use: BTreeMap<String, LicenseUse>,
    /// What was told of licences.
    pub told_of_licenses: Vec<api::HistoryEvent>,
    revoked: Vec<(String, String, Time)>,
    pub answers: BTreeMap<(Uid, [u8; 16]), (Time, Reply)>,
    last_event: u64,
    older: Vec<OlderRow>,
    pub clock: Option<ClockRow>,
    pub restored: Option<RestoredRow>,
    /// A node tells what it likes: of steps some may be missing.
    pub a_node_lies: bool,
    /// What has happened to nodes: the word, and which.
    said: BTreeSet<(String, String)>,
    /// What was said of ends, by object.
    pub ended: BTreeMap<String, String>,
    /// What happened to nodes and clocks.
    pub told: Vec<api::HistoryEvent>,
    /// Runs that another one followed.
    pub earlier_runs: Vec<JobRow>,
    /// Each time that room was made: rows of jobs before and behind the batch, where it was made
    /// once in it.
    pub around_room: Vec<Option<[BTreeMap<JobId, JobRow>; 2]>>,
    /// Who made room for whom.
    pub room: Vec<api::HistoryEvent>,
    /// What happened to triggers.
    pub happened: Vec<api::HistoryEvent>,
    pub reservations: BTreeMap<ReservationId, ReservationRow>,
    pub flows: BTreeMap<FlowId, LoadedFlow>,
    pub accounts: BTreeMap<String, AccountRow>,
    policy: BTreeMap<PolicyKey, PolicyRow>,
    pub ledger: Vec<reservation::LedgerEntry>,
    figures: BTreeMap<Time, FiguresRow>,
    hour_prices: BTreeMap<u8, HourPriceRow>,
    pub usage: BTreeMap<UsageKey, UsageRow>,
    pub triggers: BTreeMap<TriggerId, TriggerRow>,
    last_trigger: u64,
    /// Records of steps, in their order.
    pub steps: BTreeMap<AttemptKey, Vec<StepRecord>>,
}

impl MemoryStore {
    pub fn commit(&mut self, records: Vec<Record>) {
        let mut gone = false;
        let made = |record: &&Record| match record {
            Record::Happened(event) => event.kind == EventKind::MakesRoom,
            _ => false,
        };
        let made = records.iter().filter(made).count();
        let before = (made == 1).then(|| self.jobs.clone());
        for record in records {
            match record {
                Record::Submitted { row, .. } => {
                    let old = self.submissions.insert(row.base, (*row, true));
                    assert!(old.is_none(), "an id was given out twice");
                }
                Record::Body { number, row } => {
                    let old = self.bodies.insert((row.base, number), *row);
                    assert!(old.is_none(), "a body was written twice");
                }
                Record::BodyGone { base, number } => {
                    assert!(self.bodies.remove(&(base, number)).is_some());
                    gone = true;
                }
                Record::Standing(row) => {
                    self.assert_body(row.base, row.body);
                    self.standings.insert(row.base, row);
                }
                Record::Job(row) => {
                    self.assert_body(row.base, row.body);
                    if let Some(old) = self.jobs.get(&row.id) {
                        let ended_twice = old.end.is_some() && row.end.is_some();
                        assert!(!ended_twice, "job {} ended twice", row.id);
                    }
                    self.jobs.insert(row.id, *row);
                }
                Record::EarlierRun(row) => self.earlier_runs.push(*row),
                Record::Older(row) => self.older.push(row),
                Record::BackupTakenUp => self.restored = None,
                Record::Clock(row) => self.clock = Some(row),
                Record::SubmissionLives(base) => self.submissions.get_mut(&base).unwrap().1 = true,
                Record::SubmissionDone(base) => self.submissions.get_mut(&base).unwrap().1 = false,
                Record::Node { name, row } => drop(self.nodes.insert(name, row)),
                Record::Queue { name, state } => drop(self.queues.insert(name, state)),
                Record::LicenseUse { license, row } => drop(self.license_use.insert(license, row)),
                Record::OwnQueue { name, row } => self.keep_queue(name, row),
                Record::Answered {
                    uid,
                    key,
                    at,
                    reply,
                } => drop(self.answers.insert((uid, key), (at, *reply))),
                Record::AnswerGone { uid, key } => drop(self.answers.remove(&(uid, key))),
                Record::Happened(event) => {
                    let event = api::HistoryEvent::from(&event);
                    let skips = event.what == "store_restored";
                    assert!(
                        event.seq == self.last_event + 1 || skips && event.seq > self.last_event
                    );
                    self.last_event = event.seq;
                    if event.object.starts_with("node ") {
                        self.said.insert((event.what.clone(), event.object.clone()));
                    }
                    if event.what == "ended" {
                        self.ended
                            .insert(event.object.clone(), event.detail.clone());
                    }
                    if event.object.starts_with("license ") {
                        self.told_of_licenses.push(event.clone());
                    }
                    let of = |word: &str| event.object.starts_with(word);
                    if of("node ") || of("clock ") {
                        self.told.push(event.clone());
                    }
                    const ROOM: [&str; 4] = ["makes_room", "preempted", "spared", "start_moved"];
                    if ROOM.contains(&event.what.as_str()) {
                        self.room.push(event.clone());
                    }
                    if event.what.starts_with("trigger") {
                        self.happened.push(event);
                    }
                }
                Record::Reservation(row) => drop(self.reservations.insert(row.id, *row)),
                Record::Account(row) => drop(self.accounts.insert(row.name.clone(), row)),
                Record::AccountGone(name) => drop(self.accounts.remove(&name)),
                Record::Policy { key, row } => {
                    assert!(row.as_ref().is_none_or(|row| row.key() == key));
                    match row {
                        Some(row) => drop(self.policy.insert(key, *row)),
                        None => drop(self.policy.remove(&key)),
                    }
                }
                Record::Ledger(entry) => {
                    let last = self.ledger.last().map_or(0, |e| e.seq);
                    assert_eq!(entry.seq, last + 1, "a line of the ledger is missing");
                    self.ledger.push(entry);
                }
                Record::Figures(row) => drop(self.figures.insert(row.at, row)),
                Record::ForgetFigures { before } => self.figures.retain(|at, _| *at >= before),
                Record::Trigger(row) => {
                    self.last_trigger = self.last_trigger.max(row.id.0);
                    self.triggers.insert(row.id, *row);
                }
                Record::TriggerGone(id) => drop(self.triggers.remove(&id)),
                Record::Usage(row) => {
                    self.usage.insert(row.key(), *row);
                }
                Record::HourPrice(row) => drop(self.hour_prices.insert(row.hour, row)),
                Record::Steps(batch) => self.keep_steps(*batch),
                Record::FlowMade { row, spec, .. } => {
                    let flow = LoadedFlow {
                        row: *row,
                        spec: *spec,
                        tasks: Vec::new(),
                    };
                    let old = self.flows.insert(flow.row.id, flow);
                    assert!(old.is_none(), "an id was given out twice");
                }
                Record::Flow(row) => {
                    let id = row.id;
                    self.flows.get_mut(&id).unwrap().row = *row;
                }
                Record::FlowTask(row) => {
                    let tasks = &mut self.flows.get_mut(&row.of.flow).unwrap().tasks;
                    let at = row.of.task as usize;
                    assert!(at <= tasks.len(), "a task is missing");
                    if at == tasks.len() {
                        tasks.push(*row);
                    } else {
                        tasks[at] = *row;
                    }
                }
                Record::KeyRevoked { key, node, at } => self.revoked.push((key, node, at)),
                Record::NodeKey { .. }
                | Record::NodeKeyGone { .. }
                | Record::Token { .. }
                | Record::TokenGone { .. }
                | Record::ForgetAnswers { .. } => {}
            }
        }
        if gone {
            self.assert_bodies();
        }
        match before {
            Some(before) => self.around_room.push(Some([before, self.jobs.clone()])),
            None => self.around_room.extend(vec![None; made]),
        }
    }

    fn assert_bodies(&self) {
        let rows = self.jobs.values().map(|row| (row.base, row.body));
        rows.for_each(|(base, body)| self.assert_body(base, body));
    }

    fn assert_body(&self, base: JobId, number: u32) {
        let known = number == 0 || self.bodies.contains_key(&(base, number));
        assert!(known, "there is no body {number} of {base}");
    }

    fn keep_queue(&mut self, name: String, row: Option<Box<OwnQueue>>) {
        if row.as_ref().is_some_and(|row| row.spec.is_none()) {
            self.queues.remove(&name);
        }
        match row {
            Some(row) => drop(self.own_queues.insert(name, *row)),
            None => drop(self.own_queues.remove(&name)),
        }
    }

    /// Each step once, whatever was reported twice.
    fn keep_steps(&mut self, batch: StepBatch) {
        let known = self.steps.entry(batch.key).or_default();
        if batch.before > known.len() as u64 {
            let key = batch.key;
            assert!(self.a_node_lies, "a record of {key:?} is missing");
            return;
        }
        let old = known.len() as u64 - batch.before;
        known.extend(batch.records.into_iter().skip(old as usize));
    }

    fn step_uses(&self) -> Vec<(AttemptKey, StepUse)> {
        let sum = |records: &[StepRecord]| {
            records
                .iter()
                .fold(StepUse::default(), |sum, r| sum.and(&r.end))
        };
        self.steps.iter().map(|(k, r)| (*k, sum(r))).collect()
    }

    pub fn load(&self) -> Loaded {
        let live: Vec<SubmissionRow> = self
            .submissions
            .values()
            .filter(|(_, live)| *live)
            .map(|(row, _)| row.clone())
            .collect();
        let bases: BTreeSet<JobId> = live.iter().map(|s| s.base).collect();
        let next = self.submissions.values().map(|(s, _)| s.base.0 + s.ids());
        let mut facts = Vec::new();
        let live_body = |(base, _): &(JobId, u32)| bases.contains(base);
        let bodies = self.bodies.iter().filter(|(key, _)| live_body(key));
        let bodies: Vec<(u32, SubmissionRow)> = bodies
            .map(|((_, number), row)| (*number, row.clone()))
            .collect();
        let specs = live.iter().chain(bodies.iter().map(|(_, row)| row));
        for d in specs.flat_map(|s| &s.spec.dependencies) {
            let job = api::JobRef {
                job: d.job,
                task: d.task,
            };
            if let Some(ok) = self.outcome(job) {
                facts.push((job, ok));
            }
        }
        let mut loaded = Loaded {
            older: self.older.clone(),
            clock: self.clock.clone(),
            restored: self.restored,
            jobs: self
                .jobs
                .values()
                .filter(|j| bases.contains(&j.base))
                .cloned()
                .collect(),
            bodies,
            standings: self
                .standings
                .values()
                .filter(|s| bases.contains(&s.base))
                .copied()
                .collect(),
            submissions: live,
            next_job: next.max().unwrap_or(1),
            last_event: self.last_event,
            nodes: self.nodes.clone().into_iter().collect(),
            queues: self.queues.clone().into_iter().collect(),
            own_queues: self.own_queues.clone().into_iter().collect(),
            license_use: self.license_use.clone().into_iter().collect(),
            facts,
            revoked_keys: self.revoked.clone(),
            answers: self
                .answers
                .iter()
                .map(|((u, k), (t, r))| (*u, *k, *t, r.clone()))
                .collect(),
            reservations: self.reservations.values().cloned().collect(),
            next_reservation: self.reservations.keys().last().map_or(1, |id| id.0 + 1),
            accounts: self.accounts.values().cloned().collect(),
            policy: self.policy.values().cloned().collect(),
            last_entry: self.ledger.last().map_or(0, |e| e.seq),
            figures: self.figures.values().cloned().collect(),
            hour_prices: self.hour_prices.values().cloned().collect(),
            usage: self.usage.values().cloned().collect(),
            steps: self.step_uses(),
            flows: self.flows.values().cloned().collect(),
            next_flow: self.flows.keys().last().map_or(1, |id| id.0 + 1),
            triggers: self.triggers.values().cloned().collect(),
            next_trigger: self.last_trigger + 1,
            ..Loaded::default()
        };
        loaded.go_on_above_older();
        loaded
    }

    pub fn outcome(&self, job: api::JobRef) -> Option<bool> {
        let (row, live) = self.submissions.get(&job.job)?;
        if *live && job.task.is_none() {
            return None;
        }
        let at = match job.task {
            Some(task) => row.indices.as_ref()?.place_of(task)? as u64,
            None => 0,
        };
        let ids = if job.task.is_some() { 1 } else { row.ids() };
        let mut ok = true;
        for n in 0..ids {
            let job = self.jobs.get(&JobId(row.base.0 + at + n))?;
            job.end.as_ref()?;
            ok &= job.state == JobState::Completed;
        }
        Some(ok)
    }

    /// Whether history says so.
    pub fn told(&self, what: &str, object: &str) -> bool {
        let said = self.said.iter();
        said.into_iter().any(|(w, o)| w == what && o == object)
    }

    pub fn ends(&self) -> BTreeMap<JobId, JobState> {
        self.jobs
            .values()
            .filter(|j| j.end.is_some())
            .map(|j| (j.id, j.state))
            .collect()
    }

    pub fn row(&self, id: u64) -> &JobRow {
        &self.jobs[&JobId(id)]
    }
}

/// What a fake node knows of an attempt.
#[derive(Clone, Debug)]
pub struct OnNode {
    /// Since when, and when it would have ended.
    pub stopped: Option<(Time, Time)>,
    pub phase: AttemptPhase,
    pub ends_at: Time,
    pub first: bool,
    /// When its program began, on the controller's clock as it is now.
    pub began: Time,
    /// Its program begins then: prologs take their time.
    pub begins: Option<(Time, Box<Launch>)>,
}

/// When the controller dies in the middle of a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Death {
    /// Before the batch is committed: nothing of it remains.
    BeforeCommit,
    /// After the commit and before any effect has left.
    AfterCommit,
}

/// A fake node: its daemon may be down, its attempts run on.
pub struct FakeNode {
    pub name: String,
    pub boot: u64,
    pub link: Option<LinkId>,
    pub known: BTreeMap<AllocationKey, OnNode>,
    /// How far it has seen the store.
    pub seen: Option<StoreMark>,
    /// How often each attempt was started, over all time.
    pub starts: BTreeMap<AllocationKey, u32>,
    /// By how much its clock is ahead of the controller's.
    pub ahead: Span,
    /// What it tells of its GPUs and devices.
    pub gpu_types: Vec<String>,
    pub devices: Vec<String>,
}

pub struct World {
    pub now: Time,
    pub config: ClusterConfig,
    pub controller: Controller,
    pub store: MemoryStore,
    pub nodes: Vec<FakeNode>,
    /// Nodes whose reports do not arrive, while orders reach them.
    pub unheard: BTreeSet<usize>,
    /// Orders that daemons which connect from now on do not know.
    pub lacks: Vec<&'static str>,
    /// Reports take their time: they come with [`World::arrive_one`].
    pub slow_reports: bool,
    /// Reports on their way.
    pub reports: VecDeque<(LinkId, NodeReport)>,
    /// Nodes act on orders and answer before the controller hears that a batch is durable.
    pub quick_nodes: bool,
    /// Orders on their way.
    pub orders: VecDeque<(LinkId, NodeOrder)>,
    pub replies: BTreeMap<ClientId, Reply>,
    /// Jobs described to rules.
    pub described: BTreeMap<ClientId, Described>,
    /// What rules at submission have given whatever is asked.
    pub rules_give: Vec<AdminField>,
    /// Why rules at submission refuse whatever is asked.
    pub rules_refuse: Option<Refusal>,
    /// What first words of daemons were answered.
    pub answers: BTreeMap<LinkId, LinkAnswer>,
    pub mails: Vec<String>,
    /// What they say, in the same order.
    pub bodies: Vec<String>,
    /// Programs of triggers that were ordered.
    pub programs: Vec<Launch>,
    /// What jobs were told.
    pub notes: Vec<(JobId, String)>,
    /// Signals that jobs were sent.
    pub signals: Vec<(JobId, i32)>,
    pub directory_down: bool,
    next_id: u64,
    /// Where nodes listen, other than at port 7818.
    pub ports: BTreeMap<usize, u16>,
    /// Run time of jobs by name suffix; default 10 s.
    pub run_time: Span,
    /// Run times of single jobs, in place of `run_time`.
    pub run_times: BTreeMap<JobId, Span>,
    /// Programs go on when their limit becomes longer.
    pub longer_limits: bool,
    /// Exit codes of attempts, other than 0.
    pub exit_codes: BTreeMap<AllocationKey, i32>,
    /// How long jobs hold out beyond their limit.
    pub overtime: Span,
    /// The controller dies so many batches from now.
    pub dies: Option<(u32, Death)>,
    /// How often it has died.
    pub deaths: u32,
    /// Batches committed so far.
    pub commits: u64,
    /// Records committed so far.
    pub records: usize,
    /// Most records of a batch so far.
    pub largest_batch: usize,
    /// Invariants are not checked after each turn: there are too many jobs.
    pub unchecked: bool,
    /// The clock on the wall was set forward by so much in all.
    pub set_by: Span,
    /// How long the machine has slept.
    pub slept: Span,
    /// Which run of the controller's machine.
    pub boot: BootId,
    /// Programs begin so long after they were ordered to.
    pub late: Span,
    /// Limits of running programs that were changed, as ordered.
    pub limits: Vec<(AttemptKey, Span)>,
    /// Plans take their time: they come with [`World::plans_come`].
    pub slow_plans: bool,
    late_plans: Vec<Event>,
    /// Programs that switch nodes do not end by themselves.
    pub slow_programs: bool,
    /// Programs that were run to switch nodes.
    pub switched: Vec<PowerOrder>,
}

pub fn user(uid: u32, name: &str) -> User {
    User {
        uid: Uid(uid),
        name: name.to_owned(),
        gid: Gid(uid),
        groups: vec![Group {
            gid: Gid(uid),
            name: format!("g{name}"),
        }],
        home: "/".to_owned(),
        shell: "/bin/sh".to_owned(),
    }
}

pub fn config(nodes: u32, cores: u32) -> ClusterConfig {
    let node = |n: u32| NodeSpec {
        name: format!("n{n}"),
        amounts: Some(Amounts {
            cores,
            memory: MiB(16_000),
            disk: MiB(1000),
            gpus: 2,
            other: CountedResources::default(),
        }),
        key: Some(format!("key{n}")),
        ..NodeSpec::default()
    };
    ClusterConfig {
        name: "test".to_owned(),
        admins: vec!["adm".to_owned()],
        controller_uid: Uid(999),
        nodes: (1..=nodes).map(node).collect(),
        queues: vec![QueueSpec {
            name: "main".to_owned(),
            ..QueueSpec::default()
        }],
        default_queue: Some("main".to_owned()),
        ..ClusterConfig::default()
    }
}

/// A job of so many whole nodes with a quality of service, which may run again.
pub fn job_of_qos(qos: &str, nodes: u32) -> JobSpec {
    JobSpec {
        qos: Some(qos.to_owned()),
        request: whole_nodes(nodes),
        requeue: true,
        time_limit: Some(Span::from_secs(3000)),
        ..spec(qos)
    }
}

pub fn submits(world: &mut World, spec: JobSpec) -> u64 {
    let id = world.submit(spec);
    world.deliver_all();
    id
}

/// What is said of who makes room for whom.
pub fn room(world: &World) -> Vec<String> {
    let told = world.store.room.iter();
    told.map(|e| format!("{} {} {}", e.object, e.what, e.detail))
        .collect()
}

/// The controller dies, and all nodes connect to the next one.
pub fn reconnects(world: &mut World) {
    world.crash();
    world.connect_all();
}

/// So many whole nodes.
pub fn whole_nodes(nodes: u32) -> job::ResourceRequest {
    job::ResourceRequest {
        nodes: Some(nodes),
        exclusive: true,
        ..job::ResourceRequest::default()
    }
}

/// A request for an allocation of that kind.
pub fn allocates(spec: JobSpec) -> Request {
    Request::Allocate(Box::new(Submission {
        spec,
        script: OsText::default(),
        array: None,
    }))
}

pub fn spec(name: &str) -> JobSpec {
    let program = Program::Command {
        argv: vec![OsText::from("true")],
    };
    JobSpec {
        time_limit: Some(Span::from_secs(60)),
        ..JobSpec::plain(name, program, OsText::from("/"))
    }
}

impl World {
    pub fn new(config: ClusterConfig) -> Self {
        let mut world = Self::unconnected(config);
        for n in 0..world.nodes.len() {
            world.connect(n);
        }
        world.deliver_all();
        world
    }

    /// No node's daemon has connected yet.
    pub fn unconnected(config: ClusterConfig) -> Self {
        let now = Time::from_secs(1_000_000);
        let store = MemoryStore::default();
        let first = ClockReading {
            boot: BootId(1),
            ..now.into()
        };
        let controller = Controller::restore(config.clone(), store.load(), first);
        let nodes = config
            .nodes
            .iter()
            .map(|n| FakeNode {
                name: n.name.clone(),
                boot: 1,
                link: None,
                known: BTreeMap::new(),
                seen: None,
                starts: BTreeMap::new(),
                ahead: Span::ZERO,
                gpu_types: Vec::new(),
                devices: Vec::new(),
            })
            .collect();
        Self {
            now,
            config,
            controller,
            store,
            nodes,
            unheard: BTreeSet::new(),
            lacks: Vec::new(),
            orders: VecDeque::new(),
            slow_reports: false,
            reports: VecDeque::new(),
            quick_nodes: false,
            replies: BTreeMap::new(),
            described: BTreeMap::new(),
            rules_give: Vec::new(),
            rules_refuse: None,
            answers: BTreeMap::new(),
            mails: Vec::new(),
            bodies: Vec::new(),
            programs: Vec::new(),
            notes: Vec::new(),
            signals: Vec::new(),
            directory_down: false,
            next_id: 1,
            ports: BTreeMap::new(),
            run_time: Span::from_secs(10),
            run_times: BTreeMap::new(),
            longer_limits: false,
            exit_codes: BTreeMap::new(),
            overtime: Span::ZERO,
            dies: None,
            deaths: 0,
            commits: 0,
            records: 0,
            largest_batch: 0,
            unchecked: false,
            set_by: Span::ZERO,
            slept: Span::ZERO,
            boot: BootId(1),
            late: Span::ZERO,
            limits: Vec::new(),
            slow_plans: false,
            late_plans: Vec::new(),
            slow_programs: false,
            switched: Vec::new(),
        }
    }

    /// Nodes with two FPGAs and two GPUs each: in turn alike, of two types, without a type.
    pub fn with_devices(mut config: ClusterConfig) -> Self {
        for amounts in config.nodes.iter_mut().filter_map(|n| n.amounts.as_mut()) {
            amounts.other.set("fpga", 2);
        }
        let mut world = Self::new(config);
        for n in 0..world.nodes.len() {
            let types = [&["a", "a"][..], &["a", "b"], &[]][n % 3];
            world.nodes[n].gpu_types = types.iter().map(|t| (*t).to_owned()).collect();
            world.nodes[n].devices = vec!["fpga".to_owned()];
            world.connect(n);
        }
        world
    }

    pub fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// What both clocks show.
    pub fn moment(&self) -> ClockReading {
        ClockReading {
            wall: self.now,
            steady: MonotonicTime(self.now.0 - self.set_by.0),
            slept: self.slept,
            boot: self.boot,
        }
    }

    /// Somebody sets the controller's clock and leaves those of nodes.
    pub fn set_its_clock(&mut self, by: Span) {
        self.set_clock(by);
        for node in &mut self.nodes {
            node.ahead = Span(node.ahead.0 - by.0);
        }
    }

    /// Somebody sets the clocks of the controller and of the nodes. What runs goes on.
    pub fn set_clock(&mut self, by: Span) {
        let step = ClockStep { from: self.now, by };
        self.now = self.now + by;
        self.set_by = self.set_by + by;
        for node in &mut self.nodes {
            for on in node.known.values_mut() {
                on.ends_at = on.ends_at.set_by(step);
                on.began = on.began.set_by(step);
                if let Some((at, _)) = &mut on.begins {
                    *at = at.set_by(step);
                }
                if let Some((since, end)) = &mut on.stopped {
                    (*since, *end) = (since.set_by(step), end.set_by(step));
                }
            }
        }
    }

    pub fn event(&mut self, event: Event) {
        self.controller.handle(self.moment(), event);
        self.settle();
    }

    pub fn settle(&mut self) {
        loop {
            let batch = self.controller.settle(self.moment());
            if !self.unchecked {
                self.check();
            }
            if batch.is_empty() {
                if self.controller.is_listing() {
                    continue; // a list is made in pieces, one in each turn
                }
                return;
            }
            let death = self.death_now();
            if death == Some(Death::BeforeCommit) {
                return self.crash();
            }
            self.records += batch.records.len();
            self.largest_batch = self.largest_batch.max(batch.records.len());
            self.store.commit(batch.records);
            self.commits += 1;
            if death == Some(Death::AfterCommit) {
                return self.crash();
            }
            let mut again = Vec::new();
            for effect in batch.effects {
                self.perform(effect, &mut again);
            }
            if self.quick_nodes {
                self.deliver_all();
            }
            for event in again {
                self.controller.handle(self.moment(), event);
            }
        }
    }

    /// Hands over the plans that took their time.
    pub fn plans_come(&mut self) {
        for planned in std::mem::take(&mut self.late_plans) {
            self.event(planned);
        }
    }

    pub fn check(&self) {
        invariants::check(&self.controller).unwrap_or_else(|e| panic!("{e}"));
    }

    /// Whether the controller dies at this batch.
    fn death_now(&mut self) -> Option<Death> {
        let (left, death) = self.dies?;
        self.dies = left.checked_sub(1).map(|left| (left, death));
        (left == 0).then_some(death)
    }

    fn perform(&mut self, effect: Effect, again: &mut Vec<Event>) {
        match effect {
            Effect::Reply { client, reply } => drop(self.replies.insert(client, reply)),
            Effect::LinkReply { link, answer } => drop(self.answers.insert(link, answer)),
            Effect::Reload { .. } => {}
            Effect::Describe { client, described } => {
                drop(self.described.insert(client, described));
            }
            Effect::Pass { client, claims } => {
                let text = format!("{claims:?}");
                self.replies
                    .insert(client, Reply::Pass(text.as_str().into()));
            }
            Effect::CloseLink(link) => {
                for node in self.nodes.iter_mut().filter(|n| n.link == Some(link)) {
                    node.link = None;
                }
                self.orders.retain(|(l, _)| *l != link);
                again.push(Event::LinkClosed(link));
            }
            Effect::Order { link, order } => self.orders.push_back((link, order)),
            Effect::Heard { link, mark, .. } => {
                for node in self.nodes.iter_mut().filter(|n| n.link == Some(link)) {
                    let seen = node.seen.unwrap_or_default();
                    node.seen = Some(seen.or_later(mark));
                }
            }
            Effect::Prepare {
                link, allocation, ..
            } => self
                .orders
                .push_back((link, NodeOrder::Prepare(allocation))),
            Effect::Launch { link, launch, .. } => {
                self.orders.push_back((link, NodeOrder::Launch(launch)));
            }
            Effect::RunProgram { link, launch, .. } => {
                self.programs.push((*launch).clone());
                self.orders.push_back((link, NodeOrder::Launch(launch)));
            }
            Effect::TellDurable => again.push(Event::BecameDurable),
            Effect::ResolveUser(uid) => {
                let result = if self.directory_down {
                    Err(LookupFailure::Down)
                } else {
                    Ok(user(uid.0, &format!("u{uid}")))
                };
                again.push(Event::UserResolved { uid, result });
            }
            Effect::Plan {
                plan,
                scheduler,
                inside,
                only,
                most,
            } => {
                let predictions = predictions(self.now, &scheduler, &inside, only, most);
                let planned = Event::Planned { plan, predictions };
                if self.slow_plans {
                    self.late_plans.push(planned);
                } else {
                    again.push(planned);
                }
            }
            Effect::PlanWakes(question) => {
                let WakeQuestion { now, until, .. } = *question;
                let starts = question.scheduler.starts_until(now, until);
                again.push(Event::WakesPlanned(starts));
            }
            Effect::Power(order) => {
                if !self.slow_programs {
                    again.push(Event::PowerEnded(Box::new(PowerEnd {
                        program: order.program,
                        nodes: order.nodes.clone(),
                        failure: None,
                    })));
                }
                self.switched.push(*order);
            }
            Effect::Appraise {
                appraisal,
                now,
                scheduler,
                inquiry,
            } => {
                let result = Box::new(scheduler.appraise(now, &inquiry));
                again.push(Event::Appraised { appraisal, result });
            }
            Effect::PlanFlow {
                plan,
                now,
                scheduler,
                flow,
            } => {
                let result = Box::new(scheduler.plan_flow(now, &flow));
                again.push(Event::FlowPlanned { plan, result });
            }
            Effect::Passage {
                link,
                number,
                passage,
                ..
            } => self.orders.push_back((
                link,
                NodeOrder::Passage {
                    number,
                    passage: Ok(passage),
                },
            )),
            Effect::Mail { subject, body, .. } => {
                self.mails.push(subject);
                self.bodies.push(body);
            }
        }
    }

    /// Every node that has no link registers, and the orders that leave are obeyed.
    pub fn connect_all(&mut self) {
        for n in 0..self.nodes.len() {
            if self.nodes[n].link.is_none() {
                self.connect(n);
            }
        }
        self.deliver_all();
    }

    pub fn connect(&mut self, n: usize) {
        self.connect_as(n, &format!("key{}", n + 1));
    }

    /// The same for a node whose key is not that of its place.
    pub fn connect_as(&mut self, n: usize, peer: &str) {
        let link = LinkId(self.id());
        let node = &mut self.nodes[n];
        node.link = Some(link);
        let name = node.name.clone();
        let inventory = node
            .known
            .iter()
            .map(|(key, on)| InventoryItem {
                key: *key,
                node: name.clone(),
                phase: match &on.phase {
                    AttemptPhase::Running { since, .. } => AttemptPhase::Running {
                        since: *since,
                        ran: Some(self.now.since(on.began)),
                    },
                    phase => phase.clone(),
                },
            })
            .collect();
        let seen = node
            .seen
            .map_or(OsText::default(), |mark| OsText(mark.to_bytes()));
        let amounts = self.config.nodes[n].amounts.clone().unwrap_or_default();
        let nodes = vec![NodeSelf {
            name: name.clone(),
            amounts,
            gpu_types: node.gpu_types.clone(),
            shards: Vec::new(),
            devices: node.devices.clone(),
            features: Vec::new(),
            boot_id: node.boot.to_string(),
            version: "t".into(),
            only_uid: None,
            listen: format!(":{}", self.ports.get(&n).unwrap_or(&7818)),
            step_socket: format!("/run/{name}.steps"),
            machine: cosy_model::node::Machine::default(),
        }];
        let peer = peer.to_owned();
        self.event(Event::LinkOpened {
            link,
            peer,
            address: Some(std::net::IpAddr::from([10, 0, 0, (n % 200) as u8 + 1])),
            hello: LinkHello::Node {
                lacks: self.lacks.clone(),
            },
        });
        self.event(Event::LinkReported {
            link,
            report: NodeReport::Register {
                nodes,
                inventory,
                seen,
                clock: Some(self.now + self.nodes[n].ahead),
            },
        });
        self.heartbeat(n);
    }

    pub fn disconnect(&mut self, n: usize) {
        if let Some(link) = self.nodes[n].link.take() {
            self.orders.retain(|(l, _)| *l != link);
            self.event(Event::LinkClosed(link));
        }
    }

    /// Its machine is switched off: nothing runs there any more.
    pub fn switch_off(&mut self, n: usize) {
        self.disconnect(n);
        self.nodes[n].boot += 1;
        self.nodes[n].known.clear();
    }

    pub fn report(&mut self, n: usize, report: NodeReport) {
        if let Some(link) = self.nodes[n].link.filter(|_| !self.unheard.contains(&n)) {
            match self.slow_reports {
                true => self.reports.push_back((link, report)),
                false => self.event(Event::LinkReported { link, report }),
            }
        }
    }

    /// The oldest report arrives, if its link is still there; it may come once more later.
    pub fn arrive_one(&mut self, twice: bool) -> bool {
        let Some((link, report)) = self.reports.pop_front() else {
            return false;
        };
        if self.nodes.iter().any(|node| node.link == Some(link)) {
            if twice {
                self.reports.push_back((link, report.clone()));
            }
            self.event(Event::LinkReported { link, report });
        }
        true
    }

    /// How often programs of a job were started, in all its attempts on all nodes.
    pub fn starts_of(&self, id: u64) -> u32 {
        let all = self.nodes.iter().flat_map(|node| &node.starts);
        let of = all.filter(|(key, _)| key.number() == id);
        of.map(|(_, starts)| starts).sum()
    }

    /// A node says that it is there, and what its clock shows.
    pub fn heartbeat(&mut self, n: usize) {
        let figures = Figures {
            number: 1,
            clock: Some(self.now + self.nodes[n].ahead),
            ..Figures::default()
        };
        self.report(n, NodeReport::Figures(figures));
    }

    pub fn deliver_all(&mut self) {
        while self.deliver_one() {}
    }

    /// Hands the oldest order to its node.
    /// Delivers until a program is about to be launched.
    pub fn next_launch(&mut self) -> Box<Launch> {
        loop {
            let launch = self.orders.iter().find_map(|(_, order)| match order {
                NodeOrder::Launch(launch) => Some(launch.clone()),
                _ => None,
            });
            match launch {
                Some(launch) => return launch,
                None => assert!(self.deliver_one(), "nothing is launched"),
            }
        }
    }

    pub fn deliver_one(&mut self) -> bool {
        let Some((link, order)) = self.orders.pop_front() else {
            return false;
        };
        if let Some(n) = self.nodes.iter().position(|n| n.link == Some(link)) {
            self.obey(n, order);
        }
        true
    }

    fn obey(&mut self, n: usize, order: NodeOrder) {
        let now = self.now;
        let name = self.nodes[n].name.clone();
        match order {
            NodeOrder::Prepare(allocation) => {
                let key = allocation.key;
                let on = OnNode {
                    phase: AttemptPhase::Prepared,
                    ends_at: Time::FAR,
                    first: false,
                    stopped: None,
                    began: now,
                    begins: None,
                };
                self.nodes[n].known.entry(key).or_insert(on);
                self.report(
                    n,
                    NodeReport::Prepared {
                        key,
                        node: name,
                        failure: None,
                    },
                );
            }
            NodeOrder::Launch(launch) => self.launch(n, &launch),
            NodeOrder::Kill { key, cause, .. } => self.kill(n, key, cause),
            NodeOrder::Release { key, .. } => {
                self.nodes[n].known.remove(&key);
                self.report(
                    n,
                    NodeReport::Released {
                        key,
                        node: name,
                        drain: None,
                        devices: DeviceUse::default(),
                    },
                );
            }
            NodeOrder::Forget { key, .. } => {
                let ended = self.nodes[n]
                    .known
                    .get(&key)
                    .is_some_and(|on| matches!(on.phase, AttemptPhase::Ended(_)));
                if ended {
                    self.nodes[n].known.remove(&key);
                }
            }
            NodeOrder::Note { key, text, .. } => self.notes.push((key.job, text)),
            NodeOrder::Suspend { key, .. } => self.stop(n, key, true),
            NodeOrder::Resume { key, .. } => self.stop(n, key, false),
            NodeOrder::Limit { key, limit, .. } => self.limit(n, key, limit),
            NodeOrder::StepsTaken { .. } | NodeOrder::Passage { .. } | NodeOrder::Moved { .. } => {}
            NodeOrder::Heard { .. } | NodeOrder::Leaving => {}
            NodeOrder::Signal { key, signal, .. } => self.signals.push((key.job, signal)),
            NodeOrder::Welcome { .. } | NodeOrder::RelayReply { .. } => {}
        }
        let _ = now;
    }

    fn launch(&mut self, n: usize, launch: &Launch) {
        let key = launch.allocation.key;
        if let Some(on) = self.nodes[n].known.get(&key) {
            let again = on.phase.clone();
            let name = self.nodes[n].name.clone();
            match again {
                AttemptPhase::Running { since, .. } => self.report(
                    n,
                    NodeReport::Started {
                        key,
                        node: name,
                        at: since,
                    },
                ),
                AttemptPhase::Ended(end) => self.report(
                    n,
                    NodeReport::Ended {
                        key,
                        node: name,
                        end,
                        drain: None,
                    },
                ),
                AttemptPhase::Prepared => {}
            }
            return;
        }
        if self.late > Span::ZERO {
            let on = OnNode {
                stopped: None,
                phase: AttemptPhase::Prepared,
                ends_at: Time::FAR,
                first: true,
                began: self.now,
                begins: Some((self.now + self.late, Box::new(launch.clone()))),
            };
            self.nodes[n].known.insert(key, on);
            return;
        }
        self.begin(n, launch);
    }

    /// The program begins.
    fn begin(&mut self, n: usize, launch: &Launch) {
        let key = launch.allocation.key;
        let now = self.now;
        let limit = launch.allocation.limit;
        let asked = self.run_times.get(&JobId(key.number())).copied();
        let asked = asked.unwrap_or(self.run_time);
        let length = if asked > limit {
            limit + self.overtime
        } else {
            asked
        };
        let node = &mut self.nodes[n];
        *node.starts.entry(key).or_default() += 1;
        let since = now + node.ahead;
        node.known.insert(
            key,
            OnNode {
                phase: AttemptPhase::Running { since, ran: None },
                ends_at: now + length,
                first: true,
                stopped: None,
                began: now,
                begins: None,
            },
        );
        let name = node.name.clone();
        self.report(
            n,
            NodeReport::Started {
                key,
                node: name,
                at: since,
            },
        );
    }

    /// Programs begin whose prologs are over.
    fn begin_due(&mut self) {
        for n in 0..self.nodes.len() {
            let now = self.now;
            let known = self.nodes[n].known.values_mut();
            let due: Vec<Box<Launch>> = known
                .filter_map(|on| on.begins.take_if(|(at, _)| *at <= now))
                .map(|(_, launch)| launch)
                .collect();
            due.iter().for_each(|launch| self.begin(n, launch));
        }
    }

    /// A program that is stopped ends so much later.
    fn stop(&mut self, n: usize, key: AttemptKey, stopped: bool) {
        let now = self.now;
        let Some(on) = self.nodes[n].known.get_mut(&key.into()) else {
            return;
        };
        match (stopped, on.stopped) {
            (true, None) => on.stopped = Some((now, std::mem::replace(&mut on.ends_at, Time::FAR))),
            (false, Some((since, ends_at))) => {
                on.stopped = None;
                on.ends_at = ends_at + now.since(since);
            }
            (true, Some(_)) | (false, None) => {}
        }
    }

    /// The program ends at the limit at the latest.
    fn limit(&mut self, n: usize, key: AttemptKey, limit: Span) {
        self.limits.push((key, limit));
        if let Some(on) = self.nodes[n].known.get_mut(&key.into())
            && let AttemptPhase::Running { .. } = on.phase
        {
            let since = on.began;
            let asked = self.run_times.get(&key.job).copied();
            let asked = asked.filter(|_| self.longer_limits).unwrap_or(limit);
            let all = since + asked.min(limit);
            on.ends_at = match self.longer_limits {
                true => all,
                false => on.ends_at.min(all),
            };
        }
    }

    fn kill(&mut self, n: usize, key: AllocationKey, cause: KillCause) {
        let name = self.nodes[n].name.clone();
        let on = self.nodes[n].known.get(&key);
        let running = on.map(|on| on.phase.clone());
        let (began, now) = (on.map_or(self.now, |on| on.began), self.now);
        let their_now = now + self.nodes[n].ahead;
        let cause = match cause {
            KillCause::TimeLimit => EndCause::TimeLimit,
            KillCause::Cancelled | KillCause::Superseded | KillCause::Requeued => {
                EndCause::Cancelled
            }
        };
        let end = match running {
            Some(AttemptPhase::Ended(end)) => end,
            Some(AttemptPhase::Running { since, .. }) => End {
                start: Some(since),
                signal: 15,
                ..End::never_ran(cause, since + now.since(began))
            },
            Some(AttemptPhase::Prepared) | None => End::never_ran(cause, their_now),
        };
        self.nodes[n].known.insert(
            key,
            OnNode {
                phase: AttemptPhase::Ended(end.clone()),
                ends_at: Time::FAR,
                first: true,
                stopped: None,
                began,
                begins: None,
            },
        );
        self.report(
            n,
            NodeReport::Ended {
                key,
                node: name,
                end,
                drain: None,
            },
        );
    }

    /// Programs whose time has come end, whether or not their daemon is connected.
    pub fn end_due(&mut self) {
        self.begin_due();
        for n in 0..self.nodes.len() {
            let due: Vec<AllocationKey> = self.nodes[n]
                .known
                .iter()
                .filter(|(_, on)| {
                    on.ends_at <= self.now && matches!(on.phase, AttemptPhase::Running { .. })
                })
                .map(|(key, _)| *key)
                .collect();
            for key in due {
                let code = self.exit_codes.get(&key).copied().unwrap_or(0);
                self.end(n, key, code);
            }
        }
    }

    pub fn end(&mut self, n: usize, key: impl Into<AllocationKey>, exit_code: i32) {
        self.end_for(n, key, exit_code, EndCause::Exited);
    }

    /// A running attempt ends for that reason, as its node says.
    pub fn end_for(
        &mut self,
        n: usize,
        key: impl Into<AllocationKey>,
        exit_code: i32,
        cause: EndCause,
    ) {
        let key = key.into();
        let now = self.now;
        let name = self.nodes[n].name.clone();
        let Some(on) = self.nodes[n].known.get_mut(&key) else {
            return;
        };
        let AttemptPhase::Running { since, .. } = on.phase else {
            return;
        };
        let end = End {
            start: Some(since),
            exit_code,
            // A node measures on a clock that nobody sets.
            ..End::never_ran(cause, since + now.since(on.began))
        };
        on.phase = AttemptPhase::Ended(end.clone());
        self.report(
            n,
            NodeReport::Ended {
                key,
                node: name,
                end,
                drain: None,
            },
        );
    }

    pub fn pass(&mut self, secs: i64) {
        for _ in 0..secs {
            self.now = self.now + Span::from_secs(1);
            self.end_due();
            for n in 0..self.nodes.len() {
                self.heartbeat(n);
            }
            self.event(Event::Ticked);
            self.deliver_all();
        }
    }

    /// The controller listens for so long, and only these nodes say something.
    pub fn listen(&mut self, secs: i64, talking: &[usize]) {
        for _ in 0..secs {
            self.now = self.now + Span::from_secs(1);
            for n in talking {
                self.report(*n, NodeReport::Heartbeat);
            }
            self.event(Event::Ticked);
        }
    }

    /// The controller is killed and started again: only the store is left.
    pub fn crash(&mut self) {
        self.deaths += 1;
        self.dies = None;
        self.controller =
            Controller::restore(self.config.clone(), self.store.load(), self.moment());
        invariants::check(&self.controller).unwrap_or_else(|e| panic!("after restore: {e}"));
        self.orders.clear();
        for node in &mut self.nodes {
            node.link = None;
        }
    }

    pub fn ask_as(&mut self, who: User, key: Option<[u8; 16]>, request: Request) -> Reply {
        let client = self.ask_on(who, key, request);
        self.replies
            .remove(&client)
            .unwrap_or(Reply::Ended(Vec::new()))
    }

    /// The same; the answer is in `replies` when it comes.
    pub fn ask_on(&mut self, who: User, key: Option<[u8; 16]>, request: Request) -> ClientId {
        let client = ClientId(self.id());
        let refs = match &request {
            Request::Submit(s) | Request::Allocate(s) => targets(&s.spec.dependencies),
            Request::Attend { job, .. } => vec![api::JobRef {
                job: *job,
                task: None,
            }],
            Request::Wait { jobs } => jobs.clone(),
            _ => Vec::new(),
        };
        let old_jobs = refs
            .into_iter()
            .map(|job| OldJob {
                job,
                owner: self.store.submissions.get(&job.job).map(|(row, _)| row.uid),
                ok: self.store.outcome(job),
            })
            .collect();
        self.event(Event::Asked {
            client,
            caller: Box::new(Caller {
                given: self.rules_give.clone(),
                ..Caller::known(who)
            }),
            key,
            request,
            facts: Facts {
                old_jobs,
                refused: self.rules_refuse.clone(),
                ..Facts::default()
            },
        });
        client
    }

    pub fn ask(&mut self, request: Request) -> Reply {
        self.ask_as(user(1000, "u1000"), None, request)
    }

    /// What a reservation would cost, and where it could be.
    pub fn quote(&mut self, ask: reservation::ReservationSpec) -> reservation::Quote {
        match self.ask(quotes(ask)) {
            Reply::Quote(quote) => *quote,
            other => panic!("{other:?}"),
        }
    }

    pub fn submit(&mut self, spec: JobSpec) -> u64 {
        match self.try_submit(spec, None) {
            Ok(id) => id,
            Err(refusal) => panic!("refused: {refusal}"),
        }
    }

    pub fn try_submit(&mut self, spec: JobSpec, array: Option<&str>) -> Result<u64, Refusal> {
        let submission = Submission {
            spec,
            script: OsText::default(),
            array: array.map(|a| a.parse().unwrap()),
        };
        match self.ask(Request::Submit(Box::new(submission))) {
            Reply::Submitted { job, .. } => Ok(job.0),
            Reply::Refused(refusal) => Err(refusal),
            other => panic!("{other:?}"),
        }
    }

    pub fn jobs(&mut self, fields: &[JobField]) -> Table {
        let request = Request::Jobs {
            filter: JobFilter {
                states: JobState::ALL.into_iter().filter(|s| !s.is_end()).collect(),
                ..JobFilter::default()
            },
            fields: fields.to_vec(),
            fold_arrays: false,
        };
        match self.ask_as(user(0, "root"), None, request) {
            Reply::Jobs(table) => table,
            other => panic!("{other:?}"),
        }
    }

    /// What is told of a job in words.
    pub fn explained(&mut self, id: u64) -> String {
        let job = api::JobRef {
            job: JobId(id),
            task: None,
        };
        let Reply::Explained { lines, .. } = self.ask(Request::Explain { job }) else {
            panic!("explained");
        };
        lines.join("; ")
    }

    /// `id:state/reason` of every live job.
    /// What a field of a job says.
    pub fn text(&mut self, id: u64, field: JobField) -> String {
        let (table, row) = self.job(id, field);
        table.text(row, field).to_owned()
    }

    pub fn number(&mut self, id: u64, field: JobField) -> Option<i64> {
        let (table, row) = self.job(id, field);
        table.number(row, field)
    }

    fn job(&mut self, id: u64, field: JobField) -> (api::Table, usize) {
        let table = self.jobs(&[JobField::Id, field]);
        let mut rows = 0..table.rows;
        let row = rows.find(|row| table.number(*row, JobField::Id) == Some(id as i64));
        (table, row.expect("it is listed"))
    }

    pub fn queue(&mut self) -> String {
        let table = self.jobs(&[JobField::Ref, JobField::State, JobField::Reason]);
        let row = |n: usize| {
            let reason = table.text(n, JobField::Reason);
            let slash = if reason.is_empty() { "" } else { "/" };
            format!(
                "{}:{}{slash}{reason}",
                table.text(n, JobField::Ref),
                table.text(n, JobField::State)
            )
        };
        (0..table.rows).map(row).collect::<Vec<_>>().join(" ")
    }

    pub fn state_of(&self, id: u64) -> JobState {
        self.store
            .ends()
            .get(&JobId(id))
            .copied()
            .unwrap_or(JobState::Waiting)
    }
}

fn targets(dependencies: &[Dependency]) -> Vec<api::JobRef> {
    let target = |d: &Dependency| api::JobRef {
        job: d.job,
        task: d.task,
    };
    dependencies.iter().map(target).collect()
}

/// Those jobs are to be cancelled, whatever of them runs.
pub fn quotes(ask: reservation::ReservationSpec) -> Request {
    Request::Quote {
        ask: Box::new(ask),
        most: None,
        as_job: None,
    }
}

pub fn cancels(filter: JobFilter) -> Request {
    Request::Cancel {
        filter,
        signal: None,
        script_only: false,
        steps_only: false,
    }
}

pub fn ids(ids: &[u64]) -> JobFilter {
    JobFilter {
        ids: ids
            .iter()
            .map(|id| api::JobRef {
                job: JobId(*id),
                task: None,
            })
            .collect(),
        ..JobFilter::default()
    }
}

/// `spec`, to begin once that job has come so far.
pub fn after(kind: DependencyKind, job: u64, spec: JobSpec) -> JobSpec {
    JobSpec {
        dependencies: vec![Dependency {
            kind,
            job: JobId(job),
            task: None,
            delay: Span::ZERO,
        }],
        ..spec
    }
}

/// An attempt at a job.
pub const fn attempt(job: u64, number: u32) -> AllocationKey {
    AllocationKey::Job(AttemptKey {
        job: JobId(job),
        attempt: Attempt(number),
    })
}
