//! What several tests of steps begin with.

use cosy_model::step::{JobPart, Peer, StepCommand, StepSpec};
use cosy_model::{OsText, Span};

pub fn part(node: &str, cores: u32) -> JobPart {
    JobPart {
        peer: Peer {
            node: node.to_owned(),
            address: "127.0.0.1:1".to_owned(),
            key: "00".repeat(32),
        },
        tasks: 1,
        cores,
        memory: None,
        gpus: 0,
    }
}

pub fn spec() -> StepSpec {
    let command = StepCommand::Run {
        argv: vec![OsText::from("true")],
        expand: false,
    };
    StepSpec {
        grace: Span(200),
        environment: OsText::from("PATH=/usr/bin:/bin"),
        ..StepSpec::plain("true", command)
    }
}

pub fn allocation() -> cosy_model::node::Allocation {
    cosy_model::node::Allocation {
        key: crate::spool::key_of("12.1").unwrap(),
        node: "n1".into(),
        nodes: "n1".into(),
        uid: cosy_model::Uid(1000),
        gid: cosy_model::Gid(100),
        groups: Vec::new(),
        user: "u".into(),
        home: "/".into(),
        shell: "/bin/sh".into(),
        memory: None,
        cores: vec![0, 1, 2, 3],
        gpus: Vec::new(),
        devices: Default::default(),
        switches: String::new(),
        tasks: 1,
        limit: Span::UNLIMITED,
        cores_per_task: 1,
        parts: Vec::new(),
        ticket: OsText::default(),
        warn_steps: None,
        runs_again: false,
    }
}
