//! Node daemons among themselves, and what commands and supervisors say to them: asks,
//! tickets, orders of steps, frames of steps. The first byte of a piece says what it is.

use cosy_model::node::{Allocation, AllocationKey, NodeOrder};
use cosy_model::step::{JobPart, Peer, StepAnswer, StepAsk, StepSpec};
use cosy_model::{Attempt, Gid, JobId, MiB, Time, Uid};
use cosy_proto::client::ReplyFrame;
use cosy_proto::keys::{JoinToken, PublicKey};
use cosy_proto::lines::{Lines, Style};
use cosy_proto::link::HelloReply;
use cosy_proto::peer::{PeerAnswer, PeerAsk, PeerRequest};
use cosy_proto::step::{self, StepFrame};
use cosy_proto::ticket;
use noded::steps::{check, layout};

/// Feeds one input of the fuzzer to what nodes tell each other.
pub fn run(bytes: &[u8]) {
    for piece in crate::pieces(bytes) {
        let Some((kind, body)) = piece.split_first() else {
            continue;
        };
        match kind % 10 {
            0 => {
                if let Some(ask) = crate::message::<PeerAsk>(body) {
                    asked(ask);
                }
            }
            1 => {
                if let Some(StepAsk::Start { job, spec }) = crate::message::<StepAsk>(body) {
                    start(job, &spec);
                }
            }
            2 => drop(crate::message::<PeerAnswer>(body)),
            3 => {
                if let Some(NodeOrder::Launch(launch)) = crate::message::<NodeOrder>(body) {
                    check_ticket(&launch.allocation);
                }
            }
            4 => drop(crate::message::<HelloReply>(body)),
            5 => drop(crate::message::<StepAnswer>(body)),
            6 => text(body),
            7 => {
                let ticket = cosy_model::OsText(body.to_vec());
                let _ = ticket::verify(&ticket, &key(), Time(0));
                let _ = cosy_proto::pass::verify(&ticket, &key(), Time(0));
            }
            8 => drop(crate::message::<ReplyFrame>(body)),
            _ => frames(body),
        }
    }
}

/// Words that stand in command lines, files and messages.
fn text(body: &[u8]) {
    let text = String::from_utf8_lossy(body);
    let _ = text.parse::<JoinToken>();
    let _ = text.parse::<PublicKey>();
    if let Ok(names) = cosy_model::expand(&text) {
        let folded = cosy_model::fold(&names);
        let again = cosy_model::expand(&folded).expect("what was folded can be expanded");
        let sorted = |mut names: Vec<String>| {
            names.sort();
            names.dedup();
            names
        };
        assert_eq!(sorted(again), sorted(names));
    }
}

fn key() -> PublicKey {
    "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
        .parse()
        .expect("a key")
}

fn asked(ask: PeerAsk) {
    let _ = ticket::verify(&ask.ticket, &key(), Time(0));
    match ask.what {
        PeerRequest::Start(order) | PeerRequest::StartWithDisplay(order) => {
            start(order.key.attempt.job, &order.spec);
            if noded::steps::check::order(&order).is_ok() {
                for node in 0..order.layout.nodes.len().min(8) as u32 {
                    let ranks = order.layout.ranks_of(node);
                    assert_eq!(ranks.len(), order.layout.count_of(node) as usize);
                }
            }
        }
        PeerRequest::Resume { .. } | PeerRequest::Limit { .. } | PeerRequest::Holds { .. } | PeerRequest::Samples { .. } => {}
        PeerRequest::Command { ask, .. } => {
            if let StepAsk::Start { job, spec } | StepAsk::StartWithDisplay { job, spec } = ask {
                start(job, &spec);
            }
        }
    }
}

fn check_ticket(allocation: &Allocation) {
    let _ = ticket::check(allocation, &key(), Time(0));
}

/// The way of a step that a command asks for, up to its layout.
fn start(job: JobId, spec: &StepSpec) {
    if check::spec(spec).is_err() {
        return;
    }
    let part = |n: u32| JobPart {
        peer: Peer {
            node: format!("n{n}"),
            address: String::new(),
            key: String::new(),
        },
        tasks: 2,
        cores: 8,
        memory: Some(MiB(1000)),
        gpus: 2,
    };
    let parts: Vec<JobPart> = (1..=4).map(part).collect();
    let shape = layout::JobShape {
        job,
        parts: &parts,
        cores_per_task: 1,
    };
    let held = [layout::NodeUse {
        cores: 3,
        memory: MiB(10),
        gpus: 1,
    }; 4];
    if let Ok(placed) = layout::place(shape, &held, spec) {
        let tasks: u32 = (0..placed.layout.nodes.len() as u32)
            .map(|node| placed.layout.count_of(node))
            .sum();
        assert_eq!(tasks, placed.layout.tasks);
        let _ = check::ranks(&spec.programs, tasks);
        let _ = layout::gpus_wanted(spec, tasks);
    }
}

/// Frames between a step's command and its supervisors.
fn frames(mut body: &[u8]) {
    let mut lines = Lines::new(Style::Label(2));
    let mut out = Vec::new();
    while let Ok(Some((frame, length))) = step::first(body) {
        let mut again = Vec::new();
        step::put(&mut again, &frame).expect("what was read can be written");
        let (back, _) = step::first(&again)
            .expect("what was written can be read")
            .expect("whole");
        assert_eq!(frame, back);
        if let StepFrame::Up(cosy_model::step::UpFrame::Output {
            rank,
            stream,
            bytes,
        }) = frame
        {
            lines.feed(rank, stream, &bytes, &mut out);
        }
        body = &body[length..];
    }
}

/// What the seeds are made of.
pub fn allocation() -> Allocation {
    Allocation {
        key: AllocationKey::numbered(12, Attempt(1)),
        node: "n1".into(),
        nodes: "n[1-2]".into(),
        uid: Uid(1000),
        gid: Gid(100),
        groups: vec![Gid(100)],
        user: "u".into(),
        home: "/".into(),
        shell: "/bin/sh".into(),
        memory: None,
        cores: vec![0, 1],
        gpus: Vec::new(),
        devices: Default::default(),
        switches: String::new(),
        tasks: 1,
        limit: cosy_model::Span::from_secs(60),
        cores_per_task: 1,
        warn_steps: None,
        runs_again: false,
        parts: Vec::new(),
        ticket: cosy_model::OsText(vec![0; 80]),
    }
}
