//! Scenarios as text: `tests/scenarios/sched/*.scn` of the workspace has a cluster, queues
//! and events; the schedule that must come out lies beside it as a chart (`*.gantt`). To
//! write charts anew: `COSY_UPDATE=1 cargo test -p cosy-sched --test scenarios`.
//!
//! ```text
//! nodes 4 cores=1            nodes alike, named by number
//! policy easy                fcfs, easy, conservative, or a number (depth, with backfill)
//! queue day priority=5 nodes=0-3
//! at 0 submit A queue=day nodes=2 limit=10 runs=8 user=prefer nice=0 whole ahead
//!      also: tasks= cores= memory= gpus= (of each task), prefer=0-1/2 avoid= require=
//! pool matlab shared 2       a licence; `own`: a limit, which others may pass. holds=matlab:1
//!      of submit and reserve; its number at=TIME:COUNT later
//! at 2 predict A             writes down when A would start if running jobs took their limits
//! at 3 cancel A | down 1 | up 1 | close day | open day | reserve R nodes=0-1 from=5 to=9
//! ```
#![allow(clippy::unwrap_used)] // tests

use cosy_model::{
    AccessLevel, Amounts, JobId, MiB, NodeId, NodeShare, QueueId, ReservationId, Span, Time,
    WaitReason,
};
use cosy_sched::{
    Block, Component, Demand, Depth, Hold, HoldAmount, NodeMask, OrderKey, Policy, PoolId,
    PoolKind, PoolSpec, Scheduler, WaitingJob,
};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

const END: i64 = 200;

#[derive(Default)]
struct Scenario {
    nodes: Vec<Amounts>,
    policy: Policy,
    queues: Vec<(String, i32, NodeMask)>,
    events: Vec<(i64, String)>,
    pools: Vec<(String, PoolSpec)>,
}

/// `word key=value key=value flag`.
struct Words<'a>(Vec<&'a str>);

impl<'a> Words<'a> {
    fn get(&self, key: &str) -> Option<&'a str> {
        let value = |word: &&'a str| word.strip_prefix(key)?.strip_prefix('=');
        self.0.iter().find_map(value)
    }

    fn number<T: std::str::FromStr>(&self, key: &str) -> Option<T> {
        let text = self.get(key)?;
        Some(text.parse().unwrap_or_else(|_| panic!("{key}={text}")))
    }

    fn amounts(&self) -> Amounts {
        Amounts {
            cores: self.number("cores").unwrap_or(1),
            memory: MiB(self.number("memory").unwrap_or(0)),
            gpus: self.number("gpus").unwrap_or(0),
            ..Amounts::default()
        }
    }
}

/// `0-3,5`.
fn mask(text: &str) -> NodeMask {
    let range = |part: &str| {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        from.parse::<u32>().unwrap()..=to.parse().unwrap()
    };
    text.split(',').flat_map(range).map(NodeId).collect()
}

fn parse(text: &str) -> Scenario {
    let mut scenario = Scenario::default();
    for line in text.lines() {
        let line = line.split('#').next().unwrap().trim();
        let Some((word, rest)) = line.split_once(' ') else {
            assert!(line.is_empty(), "what is '{line}'?");
            continue;
        };
        let words = Words(rest.split_whitespace().collect());
        match word {
            "nodes" => {
                let count = words.0[0].parse().unwrap();
                scenario.nodes.extend(vec![words.amounts(); count]);
            }
            "policy" => scenario.policy = policy(rest),
            "queue" => {
                let priority = words.number("priority").unwrap_or(0);
                let nodes = mask(words.get("nodes").expect("nodes of the queue"));
                scenario.queues.push((words.0[0].into(), priority, nodes));
            }
            "pool" => {
                let (kind, count) = (words.0[1], words.0[2].parse().unwrap());
                let (kind, reason) = match kind {
                    "own" => (PoolKind::Own, WaitReason::ArrayLimit),
                    _ => (PoolKind::Shared, WaitReason::Licenses),
                };
                let later = words.get("at").map(|at| at.split_once(':').unwrap());
                let later = later.map(|(at, count)| {
                    (Time::from_secs(at.parse().unwrap()), count.parse().unwrap())
                });
                let spec = PoolSpec {
                    later: later.into_iter().collect(),
                    ..PoolSpec::new(kind, reason, count)
                };
                scenario.pools.push((words.0[0].into(), spec));
            }
            "at" => {
                let (at, event) = rest.split_once(' ').unwrap();
                scenario.events.push((at.parse().unwrap(), event.into()));
            }
            _ => panic!("what is '{line}'?"),
        }
    }
    if scenario.queues.is_empty() {
        let all = NodeMask::all(scenario.nodes.len());
        scenario.queues.push(("all".into(), 0, all));
    }
    scenario
}

fn policy(name: &str) -> Policy {
    match name {
        "fcfs" => Policy::FCFS,
        "easy" => Policy::EASY,
        "conservative" => Policy::CONSERVATIVE,
        depth => Policy {
            depth: Depth::Count(depth.parse().unwrap()),
            backfill: true,
        },
    }
}

/// A scenario being played, one time unit (a second) after the other.
struct Play<'a> {
    scenario: &'a Scenario,
    scheduler: Scheduler,
    names: Vec<String>,
    runs: BTreeMap<JobId, i64>,
    ends: BTreeMap<i64, Vec<JobId>>,
    chart: Chart,
    list: String,
}

impl<'a> Play<'a> {
    fn new(scenario: &'a Scenario) -> Self {
        let queues = scenario.queues.iter().map(|q| q.2.clone()).collect();
        let mut scheduler = Scheduler::new(scenario.policy, scenario.nodes.clone(), queues);
        for (at, (_, spec)) in scenario.pools.iter().enumerate() {
            scheduler.set_pool(PoolId(at as u32), spec.clone());
        }
        Self {
            scenario,
            scheduler,
            names: Vec::new(),
            runs: BTreeMap::new(),
            ends: BTreeMap::new(),
            chart: Chart::new(&scenario.nodes),
            list: String::new(),
        }
    }

    fn id(&self, name: &str) -> u64 {
        let at = self.names.iter().position(|known| known == name);
        at.unwrap_or_else(|| panic!("no {name}")) as u64
    }

    fn queue(&self, name: &str) -> u16 {
        let mut names = self.scenario.queues.iter();
        names
            .position(|queue| queue.0 == name)
            .expect("a known queue") as u16
    }

    /// `matlab:2,user:1`.
    fn holds(&self, words: &Words) -> Vec<(PoolId, u64)> {
        let one = |text: &str| {
            let (name, count) = text.split_once(':').expect("a count");
            let at = self.scenario.pools.iter().position(|pool| pool.0 == name);
            (PoolId(at.expect("a known pool") as u32), count.parse().unwrap())
        };
        let holds = words.get("holds").into_iter();
        holds.flat_map(|all| all.split(',')).map(one).collect()
    }

    fn predict(&mut self, now: i64, name: &str) {
        let job = JobId(self.id(name));
        let told = self.scheduler.predict(Time::from_secs(now), job).unwrap();
        let start = told
            .start
            .map_or("never".into(), |at| (at.0 / 1000).to_string());
        let why = told.reason.word();
        writeln!(self.list, "{name} at {now}: starts {start}, {why}").unwrap();
    }

    fn run(mut self) -> String {
        let all = &self.scenario.events;
        for now in 0..END {
            for job in self.ends.remove(&now).unwrap_or_default() {
                self.scheduler.end(job);
            }
            for (_, event) in all.iter().filter(|(at, _)| *at == now) {
                self.event(now, event);
            }
            for start in self.scheduler.schedule(Time::from_secs(now)) {
                self.start(now, start);
            }
            let ahead = all.iter().any(|(at, _)| *at > now);
            if !ahead && self.ends.is_empty() {
                break;
            }
        }
        for job in self.scheduler.waiting_in_order() {
            let name = &self.names[job.key.job.0 as usize];
            let why = self
                .scheduler
                .why(Time::from_secs(END), job.key.job)
                .unwrap();
            writeln!(self.list, "{name} waits: {}", why.word()).unwrap();
        }
        format!("{}\n{}", self.chart.text(), self.list)
    }

    fn event(&mut self, now: i64, event: &str) {
        let (word, rest) = event.split_once(' ').expect("an event has an object");
        let words = Words(rest.split_whitespace().collect());
        let object = words.0[0];
        match word {
            "submit" => self.submit(now, object, &words),
            "reserve" => self.reserve(object, &words),
            "predict" => self.predict(now, object),
            "cancel" => drop(self.scheduler.dequeue(JobId(self.id(object)))),
            "down" | "up" => {
                let node = NodeId(object.parse().unwrap());
                self.scheduler.set_available(node, word == "up");
            }
            "close" | "open" => {
                let queue = QueueId(self.queue(object));
                self.scheduler.set_queue_starts(queue, word == "open");
            }
            _ => panic!("what is '{event}'?"),
        }
    }

    fn submit(&mut self, now: i64, name: &str, words: &Words) {
        let job = JobId(self.names.len() as u64);
        self.names.push(name.into());
        let queue = words.get("queue").map_or(0, |name| self.queue(name));
        let nodes: Option<u32> = words.number("nodes");
        let limit: i64 = words.number("limit").expect("a limit");
        self.runs.insert(job, words.number("runs").unwrap_or(limit));
        let (_, queue_priority, queue_nodes) = &self.scenario.queues[usize::from(queue)];
        let avoided = words.get("avoid").map(mask).unwrap_or_default();
        let tiers = words
            .get("prefer")
            .map(|sets| sets.split('/').map(mask).collect());
        let demand = Demand::from(Component {
            nodes,
            max_nodes: words.number("max_nodes"),
            tasks: words.number("tasks").or(nodes).unwrap_or(1),
            tasks_per_node: words.number("per_node"),
            per_task: words.amounts(),
            per_node: Amounts::default(),
            exclusive: words.0.contains(&"whole"),
            allowed: queue_nodes.and_not(&avoided).into(),
            counted: Vec::new(),
            topology: None,
            max_switches: None,
            segment: None,
            contiguous: false,
            required: words.get("require").map(mask).unwrap_or_default(),
            tiers: tiers.unwrap_or_default(),
        });
        let level = match words.get("user") {
            Some("prefer") => AccessLevel::Prefer,
            Some("defer") => AccessLevel::Defer,
            _ => AccessLevel::Allow,
        };
        if let Err(shortage) = self.scheduler.could_ever_run(&demand) {
            writeln!(self.list, "{name} refused: {shortage}").unwrap();
            return;
        }
        self.scheduler.enqueue(WaitingJob {
            holds: self.holds(words).into_iter().map(hold).collect(),
            key: OrderKey {
                ahead: words.0.contains(&"ahead").then_some(Time(0)),
                no_place: false,
                queue_priority: *queue_priority,
                level,
                score: 0,
                nice: words.number("nice").unwrap_or(0),
                submit: Time::from_secs(now),
                rank: job,
                job,
            },
            queue: QueueId(queue),
            demand: Arc::new(demand),
            limit: Span::from_secs(limit),
        });
    }

    fn reserve(&mut self, name: &str, words: &Words) {
        let reservation = ReservationId(self.names.len() as u64);
        self.names.push(name.into());
        let (from, to) = (words.number("from").unwrap(), words.number("to").unwrap());
        let share = |node: NodeId| NodeShare {
            component: 0,
            node,
            tasks: 1,
            amounts: self.scenario.nodes[node.index()].clone(),
        };
        let nodes = words.get("nodes").map(mask).unwrap_or_default();
        let shares: Vec<NodeShare> = nodes.iter().map(share).collect();
        self.chart.draw(name, &shares, from, to);
        self.scheduler.add_block(Block {
            holds: self.holds(words),
            reservation,
            shares,
            start: Time::from_secs(from),
            end: Time::from_secs(to),
        });
    }

    fn start(&mut self, now: i64, job: JobId) {
        let end = now + self.runs[&job];
        self.ends.entry(end).or_default().push(job);
        let name = &self.names[job.0 as usize];
        let shares = self.scheduler.held_by(job);
        self.chart.draw(name, &shares, now, end);
        let part = |share: &NodeShare| format!("{}x{}", share.node, share.tasks);
        let parts: Vec<String> = shares.iter().map(part).collect();
        writeln!(self.list, "{name} {now}-{end} on {}", parts.join(" ")).unwrap();
    }
}

fn hold((pool, amount): (PoolId, u64)) -> Hold {
    Hold {
        pool,
        amount: HoldAmount::Fixed(amount),
    }
}

/// One line for each core, one letter for each unit of time.
struct Chart {
    rows: Vec<(u32, Vec<u8>)>,
}

impl Chart {
    fn new(nodes: &[Amounts]) -> Self {
        let cores =
            |(at, node): (usize, &Amounts)| vec![(at as u32, Vec::new()); node.cores as usize];
        Self {
            rows: nodes.iter().enumerate().flat_map(cores).collect(),
        }
    }

    fn draw(&mut self, name: &str, shares: &[NodeShare], from: i64, to: i64) {
        let letter = name.as_bytes()[0];
        let (from, to) = (from as usize, to as usize);
        for share in shares {
            let mut left = share.amounts.cores;
            for (_, row) in self.rows.iter_mut().filter(|row| row.0 == share.node.0) {
                row.resize(row.len().max(to), b'.');
                if left > 0 && row[from..to].iter().all(|c| *c == b'.') {
                    row[from..to].fill(letter);
                    left -= 1;
                }
            }
            assert_eq!(left, 0, "{name} has no room on node {}", share.node);
        }
    }

    fn text(&self) -> String {
        let width = self.rows.iter().map(|row| row.1.len()).max().unwrap_or(0);
        let tens = (0..width.div_ceil(10)).map(|ten| format!("{:<10}", ten * 10));
        let mut text = format!("      {}\n", tens.collect::<String>().trim_end());
        for (node, row) in &self.rows {
            let row = String::from_utf8_lossy(row);
            writeln!(text, "{node:>4} |{row:.<width$}").unwrap();
        }
        text
    }
}

#[test]
fn scenarios() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/scenarios/sched");
    let files = std::fs::read_dir(&folder).expect("the folder of scenarios");
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|e| e == "scn"));
    files.sort();
    assert!(files.len() >= 12, "{} scenarios in {folder:?}", files.len());
    let wrong: Vec<String> = files.iter().filter_map(|file| check(file)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn check(file: &Path) -> Option<String> {
    let text = std::fs::read_to_string(file).unwrap();
    let got = Play::new(&parse(&text)).run();
    let chart = file.with_extension("gantt");
    if std::env::var_os("COSY_UPDATE").is_some() {
        std::fs::write(&chart, &got).unwrap();
    }
    let wanted = std::fs::read_to_string(&chart).unwrap_or_default();
    let name = file.display();
    (got != wanted).then(|| format!("{name}\nwanted:\n{wanted}\ngot:\n{got}"))
}
