//! Two controllers, two database servers, nodes, and the ways between them, each of which can be cut.

use crate::databases::{Databases, WHOSE};
use cosy_model::RefusalCode;
use cosy_model::api::Reply;
use cosy_tests::cluster::Controllers;
use cosy_tests::proxy::{Proxy, Target};
use cosy_tests::{Cluster, Options, client, people, system, wait};
use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;
use tempfile::TempDir;

pub const NODES: usize = 4;
pub const CONTROLLERS: usize = 2;
/// Of the leader, so that a run takes no longer than it must.
const LEASE: Duration = Duration::from_secs(2);
/// The last node is for what is booked, which waits for no job there.
const QUEUES: &str = "[[queue]]\nname = \"main\"\ndefault = true\nnodes = \"n[1-3]\"\n\
    [[queue]]\nname = \"booked\"\nnodes = \"n4\"\n";
const MONEY: &str = "[reservations]\nall_of = []\nholds = \"off\"\nrehold = \"off\"\nhold = \"2s\"\n\
    delay_cap = \"off\"\n[reservations.per_user]\nopen = \"off\"\nshare = \"off\"\n\
    [account.lab]\nbudget = 100000\n";
/// The kernel says who asks only where tests are root.
const USERS: &str = "[users]\nlookup_command = [\"DIR/lookup\"]\n";

/// Ways of each controller to the two places of servers, as files that lead to the sockets.
pub struct House {
    pub cluster: Cluster,
    pub databases: Databases,
    /// By controller and place.
    pub to_databases: Vec<Vec<Proxy>>,
    /// By node and controller.
    pub to_controllers: Vec<Vec<Proxy>>,
    links: TempDir,
    /// The highest epoch that each node was seen to know.
    epochs: Vec<u64>,
}

/// How a controller reaches the databases.
fn way((at, ways): (usize, &Vec<Proxy>)) -> String {
    let ports = [ways[0].port(), ways[1].port()];
    format!(
        "host=127.0.0.1,127.0.0.1 port={},{} user=cosy dbname=cosy options='-c {WHOSE}=c{}'",
        ports[0],
        ports[1],
        at + 1
    )
}

fn options(databases: Vec<String>) -> Options {
    let users = if system::is_root() { USERS } else { "" };
    let controllers = Controllers {
        databases,
        store: format!("lease = \"{}s\"\ndurability = \"replicated\"", LEASE.as_secs()),
        ways: Vec::new(),
    };
    Options {
        controllers: Some(controllers),
        cores: 32,
        policy: "heartbeat = \"1s\"\nnode_timeout = \"120s\"\ngrace = \"1s\"\n".into(),
        queues: Some(format!("{QUEUES}{MONEY}{users}")),
        ..Options::default()
    }
}

impl House {
    pub fn start() -> Self {
        let databases = Databases::start();
        let links = cosy_postgres::own_temporary().unwrap();
        let link = |place: usize| links.path().join(format!("place{place}"));
        let ways = |_| {
            let places = (0..2).map(|place| Proxy::to(Target::Socket(link(place))));
            places.collect::<Vec<_>>()
        };
        let to_databases: Vec<Vec<Proxy>> = (0..CONTROLLERS).map(ways).collect();
        let options = options(to_databases.iter().enumerate().map(way).collect());
        let mut cluster = match system::is_root() {
            true => people::prepare(NODES, options),
            false => Cluster::prepare(NODES, options),
        };
        let ports = cluster.controller_ports();
        let ways = |_| {
            let each = ports.iter().map(|port| Proxy::to(Target::Port(*port)));
            each.collect()
        };
        let to_controllers: Vec<Vec<Proxy>> = (0..NODES).map(ways).collect();
        cluster.reconfigure(|options| {
            let addresses = |ways: &Vec<Proxy>| {
                let ports = ways.iter().map(Proxy::port);
                ports.map(|port| format!("127.0.0.1:{port}")).collect()
            };
            if let Some(all) = &mut options.controllers {
                all.ways = to_controllers.iter().map(addresses).collect();
            }
        });
        for node in &mut cluster.nodes {
            if std::env::var_os("COSY_TEST_LOG").is_none() {
                node.args = ["--log", "info,noded::daemon=debug"].map(Into::into).into();
            }
        }
        let mut house = Self {
            cluster,
            databases,
            to_databases,
            to_controllers,
            links,
            epochs: vec![0; NODES],
        };
        house.link();
        house.cluster = house.cluster.start_prepared();
        house.databases.watch();
        house
    }

    /// The places lead to the servers that are there now.
    pub fn link(&self) {
        for place in 0..2 {
            let (new, path) =
                (self.links.path().join("new"), self.links.path().join(format!("place{place}")));
            std::os::unix::fs::symlink(self.databases.socket(place), &new).unwrap();
            fs::rename(new, path).unwrap();
        }
    }

    /// Waits until a controller leads and answers; which one (counted from 0).
    pub fn leader(&self) -> usize {
        wait::until("a controller leads", || {
            self.cluster
                .sockets()
                .iter()
                .position(|socket| client::leads(socket))
        })
    }

    /// Waits until one leads and the others stand by.
    pub fn until_all_are_there(&mut self) {
        for at in 0..CONTROLLERS {
            self.cluster.controller(at).await_ready();
        }
        wait::until_true("one leads and one stands by", || {
            let answers: Vec<Reply> = self
                .cluster
                .sockets()
                .iter()
                .filter_map(|socket| client::pong(socket))
                .collect();
            let leads = |reply: &&Reply| matches!(reply, Reply::Pong { .. });
            let stands_by = |reply: &&Reply| matches!(reply, Reply::Refused(r) if r.code == RefusalCode::Standby);
            answers.iter().filter(leads).count() == 1
                && answers.iter().filter(stands_by).count() == CONTROLLERS - 1
        });
    }

    /// What nodes know of epochs never falls, and is none that there was not.
    pub fn look_at_epochs(&mut self) {
        let last = self.databases.epoch();
        for at in 0..NODES {
            let known = self.known_epoch(at);
            let range = self.epochs[at]..=last;
            assert!(range.contains(&known), "n{} knows epoch {known}, not of {range:?}", at + 1);
            self.epochs[at] = known;
        }
    }

    fn known_epoch(&self, at: usize) -> u64 {
        let file = format!("spool/n{}/epoch", at + 1);
        let text = fs::read_to_string(self.cluster.node_dir(at).join(file));
        text.map_or(0, |text| text.trim().parse().unwrap())
    }

    /// All nodes have come to know the last epoch; none has obeyed an order of an older one than it
    /// knew. How many orders were obeyed, by epoch.
    pub fn check_epochs(&mut self) -> BTreeMap<u64, usize> {
        let last = self.databases.epoch();
        wait::until_true("all nodes know who leads", || {
            (0..NODES).all(|at| self.known_epoch(at) == last)
        });
        self.look_at_epochs();
        let mut all = BTreeMap::new();
        for (at, node) in self.cluster.nodes.iter().enumerate() {
            for (epoch, orders) in obeyed(&node.log(), at + 1) {
                *all.entry(epoch).or_default() += orders;
            }
        }
        all
    }
}

/// What a node's log says of the orders that it has obeyed, by epoch; their epochs do not fall.
fn obeyed(log: &str, number: usize) -> Vec<(u64, usize)> {
    let mut known = 0;
    let mut all = Vec::new();
    for line in log.lines() {
        if let Some((_, rest)) = line.split_once(" leads (epoch ") {
            known = known.max(rest.trim_end_matches(')').parse().unwrap());
        }
        let Some((_, obeys)) = line.split_once(" obeys ") else {
            continue;
        };
        let (orders, epoch) = obeys.split_once(" orders of epoch ").unwrap();
        let epoch: u64 = epoch.parse().unwrap();
        assert!(epoch >= known, "n{number} knew epoch {known}: {line}");
        known = epoch;
        all.push((epoch, orders.parse().unwrap()));
    }
    all
}
