//! What a command says at a socket for steps, and several nodes with one controller.

use super::{Bench, DEADLINE};
use cosy_model::node::*;
use cosy_model::step::*;
use cosy_model::{JobId, OsText, Span, fold, limits};
use cosy_proto::frame;
use cosy_proto::keys::KeyPair;
use cosy_proto::step::{StepFrame, first, put};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Instant;

pub fn spec(argv: &[&str]) -> StepSpec {
    let command = StepCommand::Run {
        argv: argv.iter().map(|a| OsText::from(*a)).collect(),
        expand: false,
    };
    StepSpec {
        grace: Span(200),
        environment: OsText::from("PATH=/usr/bin:/bin"),
        ..StepSpec::plain(argv[0], command)
    }
}

pub fn shell(script: &str) -> StepSpec {
    spec(&["sh", "-c", script])
}

/// What came of a step.
#[derive(Debug, Default)]
pub struct Ended {
    pub output: BTreeMap<u32, String>,
    pub tasks: BTreeMap<u32, TaskEnd>,
    pub nodes: BTreeMap<u32, NodeEnd>,
    pub lost: BTreeMap<u32, String>,
}

/// A command at the socket.
pub struct Client {
    pub stream: UnixStream,
    bytes: Vec<u8>,
    pub ended: Ended,
}

impl Client {
    pub fn connect(bench: &Bench) -> Self {
        Self::at(bench.step_socket())
    }

    pub fn at(path: PathBuf) -> Self {
        Self::with(UnixStream::connect(path).unwrap())
    }

    pub fn with(stream: UnixStream) -> Self {
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        Self {
            stream,
            bytes: Vec::new(),
            ended: Ended::default(),
        }
    }

    pub fn ask(&mut self, ask: &StepAsk) {
        let bytes = frame::encode(ask, limits::FRAME_BYTES).unwrap();
        self.stream.write_all(&bytes).unwrap();
    }

    pub fn start(bench: &Bench, job: u64, spec: &StepSpec) -> Self {
        let mut client = Self::connect(bench);
        client.ask_start(job, spec);
        client
    }

    pub fn ask_start(&mut self, job: u64, spec: &StepSpec) {
        self.ask(&StepAsk::Start {
            job: JobId(job),
            spec: Box::new(spec.clone()),
        });
    }

    pub fn answer(&mut self) -> StepAnswer {
        // Exactly one frame: what follows is the supervisor's.
        let mut header = [0; frame::HEADER];
        self.stream.read_exact(&mut header).expect("an answer");
        let mut body = vec![0; u32::from_le_bytes(header) as usize];
        self.stream.read_exact(&mut body).expect("an answer");
        frame::decode(&body).unwrap()
    }

    /// The step's number and layout, once it does not wait any more.
    pub fn created(&mut self) -> (StepKey, StepLayout) {
        loop {
            match self.answer() {
                StepAnswer::Waits { .. } => {}
                StepAnswer::Created { key, layout, .. } => return (key, layout),
                other => panic!("created, not {other:?}"),
            }
        }
    }

    pub fn refused(&mut self) -> String {
        match self.answer() {
            StepAnswer::Refused(refusal) => refusal.message,
            other => panic!("refused, not {other:?}"),
        }
    }

    pub fn say(&mut self, down: DownFrame) {
        let mut bytes = Vec::new();
        put(&mut bytes, &StepFrame::Down(down)).unwrap();
        self.stream.write_all(&bytes).unwrap();
    }

    /// The next frame; `None` at the end.
    pub fn next(&mut self) -> Option<UpFrame> {
        loop {
            if let Some((frame, length)) = first(&self.bytes).unwrap() {
                self.bytes.drain(..length);
                match frame {
                    StepFrame::Up(up) => return Some(up),
                    other => panic!("{other:?} at a command"),
                }
            }
            let mut chunk = vec![0; 65536];
            match self.stream.read(&mut chunk).expect("a frame in time") {
                0 => return None,
                n => self.bytes.extend_from_slice(&chunk[..n]),
            }
        }
    }

    fn take(&mut self, up: UpFrame) {
        match up {
            UpFrame::Output { rank, bytes, .. } => {
                let text = String::from_utf8_lossy(&bytes).into_owned();
                self.ended.output.entry(rank).or_default().push_str(&text);
            }
            UpFrame::TaskEnded { rank, end } => drop(self.ended.tasks.insert(rank, end)),
            UpFrame::NodeEnded { node, end } => drop(self.ended.nodes.insert(node, end)),
            UpFrame::Lost { nodes, reason } => {
                let lost = nodes.into_iter().map(|n| (n, reason.clone()));
                self.ended.lost.extend(lost);
            }
            UpFrame::Started { .. }
            | UpFrame::StdinTaken { .. }
            | UpFrame::Gather { .. }
            | UpFrame::Display(_)
            | UpFrame::Abort { .. }
            | UpFrame::Ending { .. } => {}
        }
    }

    /// Reads until so much has come that `enough` says so.
    pub fn until(&mut self, what: &str, enough: impl Fn(&Ended) -> bool) {
        let until = Instant::now() + DEADLINE;
        while !enough(&self.ended) {
            assert!(Instant::now() < until, "no {what} in time: {:?}", self.ended);
            let up = self.next();
            let up = up.unwrap_or_else(|| panic!("ended before {what}: {:?}", self.ended));
            self.take(up);
        }
    }

    /// Everything until the connection ends.
    pub fn end(mut self) -> Ended {
        while let Some(up) = self.next() {
            self.take(up);
        }
        self.ended
    }
}

impl Bench {
    pub fn step_socket(&self) -> PathBuf {
        self.path("spool").join(&self.name).join("steps.sock")
    }

    /// Holds an allocation in which steps may run.
    pub fn hold(&mut self, allocation: &Allocation) {
        self.order(NodeOrder::Prepare(Box::new(allocation.clone())));
        let job = allocation.key;
        self.expect(|r| match r {
            NodeReport::Prepared {
                key, failure: None, ..
            } if *key == job => Some(()),
            _ => None,
        });
    }

    pub fn release(&mut self, allocation: &Allocation) {
        let (key, node) = (allocation.key, self.name.clone());
        self.order(NodeOrder::Release { key, node });
        self.expect(|r| match r {
            NodeReport::Released { key: other, .. } if *other == key => Some(()),
            _ => None,
        });
    }

    /// An allocation of so many cores on this one node.
    pub fn cores(&self, job: u64, cores: u32) -> Allocation {
        let mut allocation = self.allocation(job);
        allocation.cores = (0..cores).collect();
        self.sign(&mut allocation);
        allocation
    }

    /// Records of steps that were told, by number; they are taken at once.
    pub fn records(&mut self, job: u64, count: usize) -> Vec<StepRecord> {
        let mut all = Vec::new();
        while all.len() < count {
            let (key, before, records) = self.expect(|r| match r {
                NodeReport::Steps {
                    key,
                    before,
                    records,
                    ..
                } if key.job.0 == job => Some((*key, *before, records.clone())),
                _ => None,
            });
            let count = before + records.len() as u64;
            let node = self.name.clone();
            self.order(NodeOrder::StepsTaken { key, node, count });
            all.extend(records);
        }
        all
    }
}

/// Several nodes with the same controller's key.
pub struct Nodes {
    pub benches: Vec<Bench>,
    pub peers: Vec<Peer>,
}

impl Nodes {
    pub fn started(count: usize) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut nodes = Self {
            benches: Vec::new(),
            peers: Vec::new(),
        };
        for _ in 0..count {
            let mut bench = Bench::new();
            bench.key = KeyPair::from_pkcs8(key.pkcs8()).unwrap();
            bench.extra = "cgroup = 'memory'\n".into();
            bench.start();
            nodes.benches.push(bench);
        }
        for bench in &mut nodes.benches {
            let (described, _) = bench.accept();
            nodes.peers.push(peer(bench, &described[0]));
        }
        nodes
    }

    /// An allocation of so many cores on each node.
    pub fn allocations(&self, job: u64, cores: u32) -> Vec<Allocation> {
        let names: Vec<&str> = self.benches.iter().map(|b| &*b.name).collect();
        let parts: Vec<JobPart> = self
            .peers
            .iter()
            .map(|peer| JobPart {
                peer: peer.clone(),
                tasks: 1,
                cores,
                memory: None,
                gpus: 0,
            })
            .collect();
        let all = self.benches.iter().enumerate().map(|(at, bench)| {
            let mut allocation = bench.cores(job, cores);
            allocation.nodes = fold(&names);
            allocation.parts = if at == 0 { parts.clone() } else { Vec::new() };
            bench.sign_for(&mut allocation, self.peers[at].key.clone());
            allocation
        });
        all.collect()
    }

    pub fn hold(&mut self, allocations: &[Allocation]) {
        for (bench, allocation) in self.benches.iter_mut().zip(allocations) {
            bench.hold(allocation);
        }
    }
}

pub fn peer(bench: &Bench, described: &NodeSelf) -> Peer {
    let key = std::fs::read(bench.path("node.key")).unwrap();
    Peer {
        node: bench.name.clone(),
        address: described.listen.clone(),
        key: KeyPair::from_pkcs8(&key).unwrap().public().to_string(),
    }
}
