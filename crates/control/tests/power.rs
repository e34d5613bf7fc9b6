//! Nodes are switched off when they are idle, and on in time for who is to have them.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

mod world;

use cosy_control::{ClusterConfig, Event, KeptNodes, PowerConfig, PowerEnd, PowerProgram};
use cosy_model::api::{JobField, NodeAction, NodeInfo, Reply, Request};
use cosy_model::reservation::{ReservationSpec, StartChoice};
use cosy_model::*;
use std::collections::{BTreeMap, BTreeSet};
use world::*;

/// How long nodes of [`Site`] take to come up, in seconds.
const BOOT: i64 = 40;

/// A cluster whose nodes do as they are told.
struct Site {
    world: World,
    /// Nodes on their way up, and when they are there.
    booting: BTreeMap<usize, Time>,
    /// How long those take that take another time than [`BOOT`], in seconds.
    slow: BTreeMap<usize, i64>,
    /// Those that never come up.
    broken: BTreeSet<usize>,
    /// What was done, as `resume n1`.
    done: Vec<String>,
}

fn settings(nodes: u32) -> ClusterConfig {
    let names = || (1..=nodes).map(|n| format!("n{n}"));
    ClusterConfig {
        power: PowerConfig {
            suspend: vec!["/off".into()],
            resume: vec!["/on".into()],
            resume_failed: vec!["/failed".into()],
            suspend_time: Span::from_secs(20),
            resume_time: Span::from_secs(300),
            idle: names().map(|name| (name, Span::from_secs(60))).collect(),
            ..PowerConfig::default()
        },
        ..config(nodes, 4)
    }
}

impl Site {
    fn new(config: ClusterConfig) -> Self {
        let mut world = World::new(config);
        world.run_time = Span::from_secs(30);
        Self {
            world,
            booting: BTreeMap::new(),
            slow: BTreeMap::new(),
            broken: BTreeSet::new(),
            done: Vec::new(),
        }
    }

    fn number(&self, name: &str) -> usize {
        let mut nodes = self.world.nodes.iter();
        nodes.position(|node| node.name == name).unwrap()
    }

    /// Does what programs were told, and lets a second pass.
    fn second(&mut self) {
        for order in std::mem::take(&mut self.world.switched) {
            self.done
                .push(format!("{} {}", order.program.word(), fold(&order.nodes)));
            for name in &order.nodes {
                let n = self.number(name);
                match order.program {
                    PowerProgram::Suspend => self.world.switch_off(n),
                    PowerProgram::Resume => {
                        let time = self.slow.get(&n).copied().unwrap_or(BOOT);
                        let up = self.world.now + Span::from_secs(time);
                        self.booting.entry(n).or_insert(up);
                    }
                    PowerProgram::ResumeFailed => {}
                }
            }
        }
        self.world.pass(1);
        let now = self.world.now;
        let up = self
            .booting
            .iter()
            .filter(|(n, at)| **at <= now && !self.broken.contains(n));
        let up: Vec<usize> = up.map(|(n, _)| *n).collect();
        for n in up {
            self.booting.remove(&n);
            self.world.connect(n);
            self.world.deliver_all();
        }
    }

    fn pass(&mut self, secs: i64) {
        (0..secs).for_each(|_| self.second());
    }

    /// What was done since the last time.
    fn done(&mut self) -> Vec<String> {
        std::mem::take(&mut self.done)
    }

    /// Everything is off, and each node is known to take [`BOOT`] seconds.
    fn asleep(config: ClusterConfig) -> Self {
        let mut site = Self::new(config);
        site.pass(90);
        let names: Vec<String> = site
            .world
            .nodes
            .iter()
            .map(|node| node.name.clone())
            .collect();
        site.steer(&names, NodeAction::PowerUp);
        site.pass(BOOT + 95);
        assert_eq!(site.states(), "off ".repeat(names.len()).trim());
        site.done();
        site
    }

    fn steer(&mut self, names: &[String], action: NodeAction) -> Reply {
        let nodes = names.to_vec();
        let request = Request::NodeControl { nodes, action };
        self.world.ask_as(user(0, "root"), None, request)
    }

    fn nodes(&mut self) -> Vec<NodeInfo> {
        match self.world.ask(Request::Nodes) {
            Reply::Nodes(all) => all,
            other => panic!("{other:?}"),
        }
    }

    /// What each node does.
    fn states(&mut self) -> String {
        let all = self.nodes();
        let words: Vec<&str> = all.iter().map(|node| node.state.as_str()).collect();
        words.join(" ")
    }

    fn reason(&mut self, n: usize) -> String {
        self.nodes()[n].reason.clone()
    }

    fn submit(&mut self, name: &str, nodes: u32, secs: i64) -> u64 {
        self.world.submit(JobSpec {
            request: whole_nodes(nodes),
            time_limit: Some(Span::from_secs(secs)),
            ..spec(name)
        })
    }

    fn submit_one(&mut self, n: u32) {
        self.submit(&format!("j{n}"), 1, 500);
    }

    /// How a job is, also when it has ended.
    fn state(&mut self, job: u64) -> JobState {
        let field = [JobField::Id, JobField::State];
        let table = self.world.jobs(&field);
        let mut rows = 0..table.rows;
        let row = rows.find(|row| table.number(*row, JobField::Id) == Some(job as i64));
        match row.map(|row| table.text(row, JobField::State).to_owned()) {
            Some(word) if word == "waiting" => JobState::Waiting,
            Some(_) => JobState::Running,
            None => self.world.state_of(job),
        }
    }

    /// When the job is predicted to start, or has started, in seconds from now.
    fn start(&mut self, job: u64) -> Option<i64> {
        let field = match self.state(job) {
            JobState::Waiting => JobField::PredictedStart,
            _ => JobField::Start,
        };
        let start = self.world.number(job, field)?;
        Some((start - self.world.now.0) / 1000)
    }
}

#[test]
fn idle_nodes_go_off_and_come_up_for_who_waits() {
    let mut site = Site::new(settings(4));
    site.pass(58);
    assert_eq!(site.done(), Vec::<String>::new());
    site.pass(4);
    assert_eq!(site.done(), ["suspend n[1-4]"]);
    assert_eq!(site.states(), ["powering-down"; 4].join(" "));
    site.pass(22);
    assert_eq!(site.states(), ["off"; 4].join(" "));
    // However silent they are.
    site.pass(200);
    assert!(!site.world.store.told("lost", "node n1"));
    let job = site.submit("a", 2, 100);
    site.pass(2);
    assert_eq!(site.done(), ["resume n[1-2]"]);
    assert_eq!(site.states(), "powering-up powering-up off off");
    // Nobody knows yet how long they take.
    assert!(site.start(job).unwrap() > 290);
    let why = site.world.text(job, JobField::Reason);
    assert_eq!(why, WaitReason::NodesOff.word());
    site.pass(BOOT);
    assert_eq!(site.state(job), JobState::Running);
    assert_eq!(site.world.text(job, JobField::Nodes), "n[1-2]");
    // They go off again, and are known then.
    site.pass(120);
    assert_eq!(site.done(), ["suspend n[1-2]"]);
    let job = site.submit("b", 3, 100);
    site.pass(1);
    let told = site.start(job).unwrap();
    assert!((BOOT - 1..=BOOT + 8).contains(&told), "{told}");
    let told = site.world.number(job, JobField::PredictedStart).unwrap();
    site.pass(2);
    assert_eq!(site.done(), ["resume n[1-3]"]);
    site.pass(BOOT);
    assert_eq!(site.state(job), JobState::Running);
    let real = site.world.number(job, JobField::Start).unwrap();
    assert!((told - real).abs() <= 8000, "{told} {real}");
}

#[test]
fn who_starts_sooner_elsewhere_wakes_nobody() {
    let mut site = Site::asleep(settings(2));
    site.world.run_time = Span::from_secs(1000);
    let first = site.submit("a", 1, 200);
    site.pass(BOOT + 3);
    assert_eq!(site.state(first), JobState::Running);
    assert_eq!(site.done(), ["resume n1"]);
    // The other one could be up in 40 s, the first node is free in less.
    site.pass(170);
    let second = site.submit("b", 1, 50);
    site.pass(5);
    assert_eq!(site.done(), Vec::<String>::new());
    assert!(site.start(second).unwrap() < 40);
    // A third one waits for longer than that.
    let third = site.submit("c", 1, 50);
    site.pass(2);
    assert_eq!(site.done(), ["resume n2"]);
    site.pass(BOOT);
    let states = [second, third].map(|job| site.state(job));
    assert_eq!(states, [JobState::Running; 2]);
}

#[test]
fn a_burst_wakes_as_many_as_it_can_use() {
    let mut site = Site::asleep(settings(6));
    let jobs: Vec<u64> = (0..4)
        .map(|n| site.submit(&format!("j{n}"), 1, 500))
        .collect();
    site.pass(2);
    assert_eq!(site.done(), ["resume n[1-4]"]);
    assert_eq!(site.world.switched.len(), 0);
    site.pass(BOOT + 1);
    assert!(jobs.iter().all(|job| site.state(*job) != JobState::Waiting));
    // So many in a minute.
    let mut config = settings(6);
    config.power.resume_rate = 2;
    let mut site = Site::asleep(config);
    site.pass(60);
    (0..4).for_each(|n| site.submit_one(n));
    site.pass(30);
    assert_eq!(site.done(), ["resume n[1-2]"]);
    site.pass(60);
    assert_eq!(site.done(), ["resume n[3-4]"]);
}

#[test]
fn a_wide_head_is_not_starved_by_small_jobs_on_nodes_that_are_on() {
    let mut config = settings(4);
    config.power.keep = vec![KeptNodes {
        nodes: ["n1", "n2"].map(str::to_owned).into(),
        count: None,
    }];
    let mut site = Site::asleep_but_two(config);
    let wide = site.submit("wide", 4, 100);
    // Over before the others are up, or not.
    let small = site.submit("small", 1, 20);
    let long = site.submit("long", 1, 5000);
    site.pass(2);
    assert_eq!(site.done(), ["resume n[3-4]"]);
    assert_eq!(site.state(small), JobState::Running);
    assert_eq!(site.state(long), JobState::Waiting);
    site.pass(BOOT + 2);
    assert_eq!(site.state(wide), JobState::Running);
}

impl Site {
    /// Two of four nodes stay on.
    fn asleep_but_two(config: ClusterConfig) -> Self {
        let mut site = Self::new(config);
        site.pass(90);
        site.steer(&["n3".to_owned(), "n4".to_owned()], NodeAction::PowerUp);
        site.pass(BOOT + 90);
        assert_eq!(site.states(), "idle idle off off");
        site.done();
        site
    }
}

#[test]
fn some_stay_on() {
    let mut config = settings(4);
    config.power.keep = vec![KeptNodes {
        nodes: ["n1", "n2", "n3"].map(str::to_owned).into(),
        count: Some(2),
    }];
    let mut site = Site::new(config);
    site.pass(100);
    assert_eq!(site.states(), "off idle idle off");
    // One that is busy is none of those two.
    site.world.run_time = Span::from_secs(300);
    site.submit("a", 1, 400);
    site.pass(100);
    assert_eq!(site.states(), "off busy idle off");
}

#[test]
fn reservations_find_their_nodes_up() {
    let mut site = Site::asleep(settings(3));
    let start = StartChoice::At(site.world.now + Span::from_secs(1000));
    let ask = ReservationSpec::plain(whole_nodes(1), Span::from_secs(600), start);
    let reply = site.world.ask(Request::Reserve {
        ask: Box::new(ask),
        job: None,
        hold: false,
    });
    assert!(matches!(reply, Reply::Reserved { .. }), "{reply:?}");
    site.pass(900);
    assert_eq!(site.states(), "off off off");
    assert!(!site.world.store.told("degraded", "reservation 1"));
    site.pass(99);
    assert_eq!(site.done(), ["resume n1"]);
    assert_eq!(site.states(), "idle off off");
    // It stays on while it lasts, however idle it is.
    site.pass(500);
    assert_eq!(site.states(), "idle off off");
    site.pass(250);
    assert_eq!(site.states(), "off off off");
}

#[test]
fn a_node_that_does_not_come_up_is_drained_and_its_job_goes_elsewhere() {
    let mut site = Site::asleep(settings(2));
    site.broken.insert(0);
    let job = site.submit("a", 1, 100);
    site.pass(150);
    assert_eq!(site.state(job), JobState::Waiting);
    site.pass(150 + 10);
    let why = site.reason(0);
    assert!(why.contains("did not come up within 00:05:00"), "{why}");
    assert_eq!(site.states().split(' ').next(), Some("drained"));
    site.pass(BOOT);
    assert_eq!(site.world.text(job, JobField::Nodes), "n2");
    let done = site.done();
    assert!(done.contains(&"resume fail n1".to_owned()), "{done:?}");
    // An administrator has mended it.
    site.broken.clear();
    site.booting.clear();
    site.steer(&["n1".to_owned()], NodeAction::Resume);
    site.done();
    let both = site.submit("b", 2, 100);
    site.pass(150);
    assert!(site.done().iter().any(|did| did.starts_with("resume n")));
    assert_eq!(site.state(both), JobState::Completed);
}

#[test]
fn programs_that_fail_drain_their_nodes() {
    let mut site = Site::new(settings(2));
    site.world.pass(62);
    let failed = |program| {
        Event::PowerEnded(Box::new(PowerEnd {
            program,
            nodes: vec!["n1".into(), "gone".into()],
            failure: Some("no credit".into()),
        }))
    };
    site.world.event(failed(PowerProgram::Suspend));
    assert_eq!(site.reason(0), "the suspend program failed: no credit");
    assert_eq!(site.states(), "drained powering-down");
    site.pass(30);
    site.submit("a", 1, 100);
    site.world.pass(2);
    site.world.event(Event::PowerEnded(Box::new(PowerEnd {
        program: PowerProgram::Resume,
        nodes: vec!["n2".into()],
        failure: Some("no credit".into()),
    })));
    assert_eq!(site.reason(1), "the resume program failed: no credit");
    assert_eq!(site.states(), "drained drained");
}

#[test]
fn a_node_that_does_not_go_off_is_drained() {
    let mut site = Site::new(settings(1));
    // Nobody does what the program says.
    site.world.pass(90);
    let why = site.reason(0);
    assert!(why.contains("still there"), "{why}");
    assert_eq!(site.states(), "drained");
}

#[test]
fn a_new_controller_goes_on_where_the_old_one_was() {
    let mut site = Site::asleep(settings(3));
    let job = site.submit("a", 1, 500);
    site.pass(2);
    assert_eq!(site.done(), ["resume n1"]);
    site.world.crash();
    assert_eq!(site.states(), "powering-up off off");
    // It may not have been told: it is told once more.
    site.pass(20);
    assert_eq!(site.done(), ["resume n1"]);
    site.pass(BOOT);
    assert_eq!(site.state(job), JobState::Running);
    assert_eq!(site.done(), Vec::<String>::new());
    assert!(!site.world.store.told("lost", "node n2"));
    // It knows how long they take.
    let second = site.submit("b", 1, 100);
    site.pass(1);
    assert!(site.start(second).unwrap() <= BOOT + 8);
}

#[test]
fn administrators_switch_nodes() {
    let mut site = Site::new(settings(2));
    site.world.run_time = Span::from_secs(50);
    site.pass(1);
    let job = site.submit("a", 1, 100);
    let both = ["n1".to_owned(), "n2".to_owned()];
    site.steer(&both, NodeAction::PowerDown { force: false });
    assert_eq!(site.states(), "draining powering-down");
    assert_eq!(site.reason(0), "it is switched off when its jobs have ended");
    site.pass(5);
    assert_eq!(site.done(), ["suspend n2"]);
    site.pass(60);
    assert_eq!(site.state(job), JobState::Completed);
    assert_eq!(site.done(), ["suspend n1"]);
    site.pass(20);
    assert_eq!(site.states(), "off off");
    site.steer(&both, NodeAction::PowerUp);
    site.pass(BOOT + 2);
    assert_eq!(site.states(), "idle idle");
    // At once.
    let job = site.submit("b", 1, 100);
    site.steer(&both, NodeAction::PowerDown { force: true });
    site.pass(3);
    assert_ne!(site.state(job), JobState::Running);
    let done = site.done().join(" ");
    assert!(done.contains("n2") && done.contains("n1"), "{done}");
    // Whoever may not, and where nobody can.
    let nodes = vec!["n1".to_owned()];
    let action = NodeAction::PowerUp;
    let request = Request::NodeControl { nodes, action };
    let reply = site.world.ask_as(user(1002, "bob"), None, request.clone());
    assert!(matches!(reply, Reply::Refused(refusal) if refusal.code == RefusalCode::Forbidden));
    let mut world = World::new(config(1, 4));
    let Reply::Refused(refusal) = world.ask_as(user(0, "root"), None, request) else {
        panic!("nobody can switch nodes there");
    };
    assert!(refusal.message.contains("suspend_program"), "{refusal}");
}

#[test]
fn cloud_nodes_are_off_until_they_are_needed() {
    let mut config = settings(3);
    config.power.cloud = ["n2", "n3"].map(str::to_owned).into();
    let mut world = World::unconnected(config);
    world.connect(0);
    world.deliver_all();
    let mut site = Site {
        world,
        booting: BTreeMap::new(),
        slow: BTreeMap::new(),
        broken: BTreeSet::new(),
        done: Vec::new(),
    };
    site.pass(2);
    assert_eq!(site.states(), "idle off off");
    let job = site.submit("a", 2, 500);
    site.pass(BOOT + 4);
    assert_eq!(site.done(), ["resume n2"]);
    assert_eq!(site.state(job), JobState::Running);
}

/// When nodes are up is told to the planner in steps of the slowest one's time.
#[test]
fn a_quick_node_does_not_wait_for_slow_ones() {
    const SLOW: i64 = 280;
    let mut site = Site::new(settings(2));
    site.slow.insert(1, SLOW);
    site.pass(90);
    site.steer(&["n1".to_owned(), "n2".to_owned()], NodeAction::PowerUp);
    for later in 0..20 {
        site.pass(SLOW + 95 + later);
        assert_eq!(site.states(), "off off");
        site.done();
        let job = site.submit("a", 1, 60);
        site.pass(2);
        assert_eq!(site.done(), ["resume n1"], "{later}");
        site.pass(BOOT);
        assert_eq!(site.state(job), JobState::Running, "{later}");
    }
}

#[test]
fn the_clock_is_set() {
    let mut site = Site::asleep(settings(2));
    let job = site.submit("a", 1, 500);
    site.pass(5);
    site.world.set_clock(Span::from_secs(3600));
    let at: BTreeMap<usize, Time> = site.booting.clone();
    site.booting = at
        .into_iter()
        .map(|(n, at)| (n, at + Span::from_secs(3600)))
        .collect();
    site.pass(BOOT);
    assert_eq!(site.state(job), JobState::Running);
    assert_eq!(site.reason(0), "");
    site.world.set_clock(Span::from_secs(-7200));
    site.pass(10);
    let second = site.submit("b", 1, 500);
    site.pass(2);
    assert!(site.start(second).unwrap() <= BOOT + 8);
}

#[test]
fn programs_that_take_long_do_not_pile_up() {
    let mut config = settings(8);
    for (n, name) in (1..=8).zip(config.power.idle.clone().into_keys()) {
        config.power.idle.insert(name, Span::from_secs(60 + 2 * n));
    }
    let mut site = Site::new(config);
    site.world.slow_programs = true;
    // The programs do not end, and the nodes are gone at once.
    site.pass(120);
    let done = site.done();
    assert_eq!(done.len(), 4, "{done:?}");
    let states = site.states();
    assert_eq!(states.matches("powering-down").count(), 4, "{states}");
    assert_eq!(states.matches("idle").count(), 4, "{states}");
    let ended = |done: &str| {
        Event::PowerEnded(Box::new(PowerEnd {
            program: PowerProgram::Suspend,
            nodes: expand(done.trim_start_matches("suspend ")).unwrap(),
            failure: None,
        }))
    };
    site.world.event(ended(&done[0]));
    site.pass(2);
    assert_eq!(site.states().matches("off").count(), 1);
    // The next one has its turn, for all that are idle by now.
    let next = site.done();
    assert_eq!(next.len(), 1);
    assert_eq!(
        expand(next[0].trim_start_matches("suspend "))
            .unwrap()
            .len(),
        4
    );
}

#[test]
fn a_node_whose_power_is_cut_is_off_though_its_link_stays() {
    let mut site = Site::new(settings(1));
    site.world.pass(62);
    assert_eq!(site.states(), "powering-down");
    // It says nothing any more, and nobody closes the link.
    site.world.unheard.insert(0);
    site.world.pass(60);
    assert_eq!(site.states(), "off");
    assert_eq!(site.reason(0), "");
}

#[test]
fn a_node_that_goes_off_is_not_taken_for_one_that_came_up() {
    let mut site = Site::new(settings(1));
    site.world.pass(62);
    assert_eq!(site.states(), "powering-down");
    // A new controller knows nothing of its machine, and its daemon is still there for a while.
    site.world.crash();
    site.world.connect_all();
    assert_eq!(site.states(), "powering-down");
    let job = site.submit("a", 1, 100);
    site.world.pass(3);
    assert_eq!(site.state(job), JobState::Waiting);
    site.pass(25);
    assert_eq!(site.done(), ["suspend n1", "suspend n1", "resume n1"]);
    site.pass(BOOT);
    assert_eq!(site.state(job), JobState::Running);
}

#[test]
fn where_nothing_can_be_switched_any_more_no_node_counts_as_off() {
    let mut site = Site::asleep(settings(2));
    site.steer(&["n1".to_owned()], NodeAction::PowerUp);
    site.pass(BOOT + 3);
    site.world.run_time = Span::from_secs(1000);
    site.submit("a", 1, 2000);
    site.pass(1);
    site.steer(&["n1".to_owned()], NodeAction::PowerDown { force: false });
    assert_eq!(site.states(), "draining off");
    let reloaded = ClusterConfig {
        power: PowerConfig::default(),
        ..settings(2)
    };
    site.world.event(Event::Reconfigured(Box::new(reloaded)));
    assert_eq!(site.states(), "busy unknown");
    let job = site.submit("b", 2, 100);
    site.pass(5);
    let why = site.world.text(job, JobField::Reason);
    assert_eq!(why, WaitReason::NodesUnavailable.word());
    // It is there again.
    site.world.connect(1);
    assert_eq!(site.states(), "busy idle");
}

#[test]
fn a_long_line_for_other_nodes_keeps_nobody_from_being_woken() {
    let mut config = settings(2);
    config.power.idle.remove("n1");
    let mut site = Site::new(config);
    site.pass(90);
    assert_eq!(site.states(), "idle off");
    site.world.unchecked = true;
    site.world.run_time = Span::from_secs(100_000);
    let on_first = |name: &str| JobSpec {
        request: job::ResourceRequest {
            require: vec!["n1".to_owned()],
            ..whole_nodes(1)
        },
        time_limit: Some(Span::from_secs(100_000)),
        ..spec(name)
    };
    site.world
        .try_submit(on_first("many"), Some("1-1500"))
        .unwrap();
    site.pass(2);
    site.submit("small", 1, 100);
    site.pass(3);
    assert_eq!(site.done(), ["suspend n2", "resume n2"]);
}

#[test]
fn a_cloud_node_that_is_gone_comes_up_anew() {
    let mut config = settings(2);
    config.power.cloud = ["n1", "n2"].map(str::to_owned).into();
    config.power.idle.clear();
    let mut site = Site::new(config);
    site.pass(2);
    site.world.switch_off(0);
    site.pass(150);
    let done = site.done();
    assert_eq!(done, ["suspend n1"], "what is left of it is cleaned up");
    assert_eq!(site.states(), "off idle");
    let job = site.submit("a", 2, 100);
    site.pass(BOOT + 5);
    assert_eq!(site.state(job), JobState::Running);
}

#[test]
fn one_that_comes_late_is_taken_all_the_same() {
    let mut config = settings(1);
    config.power.resume_time = Span::from_secs(30);
    let mut site = Site::new(config);
    site.pass(90);
    let job = site.submit("a", 1, 100);
    site.pass(36);
    assert_eq!(site.states(), "drained");
    site.pass(12);
    assert_eq!(site.state(job), JobState::Running);
    let power = site.nodes()[0].power.clone().unwrap();
    assert!(power.boot.unwrap() >= Span::from_secs(BOOT), "{power:?}");
}

#[test]
fn the_file_names_only_what_is_switched_on() {
    let mut config = settings(4);
    config.power.resume_rate = 1;
    config.power.keep = vec![KeptNodes {
        nodes: ["n1".to_owned()].into(),
        count: None,
    }];
    let mut site = Site::new(config);
    site.pass(90);
    assert_eq!(site.states(), "idle off off off");
    let wide = site.submit("wide", 3, 100);
    site.world.pass(2);
    let order = site.world.switched.remove(0);
    assert_eq!(order.nodes.len(), 1);
    let told: Vec<(u64, Vec<String>)> = order
        .jobs
        .iter()
        .map(|j| (j.job.0, j.nodes.clone()))
        .collect();
    assert_eq!(told, [(wide, order.nodes.clone())]);
}

#[test]
fn a_node_that_a_waiting_job_is_to_have_soon_stays_on() {
    let mut site = Site::new(settings(2));
    site.world.run_time = Span::from_secs(150);
    site.submit("a", 1, 200);
    site.pass(2);
    let wide = site.submit("wide", 2, 100);
    site.pass(120);
    assert_eq!(site.done(), Vec::<String>::new());
    assert_eq!(site.states(), "busy idle");
    site.pass(40);
    assert_eq!(site.state(wide), JobState::Running);
}
