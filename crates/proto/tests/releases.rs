//! What neighbouring releases say to each other: which messages each version has, and frames
//! of every version that later ones must read.
//!
//! With a new version: `cargo test -p cosy-proto --test releases -- --ignored` writes its files
//! beside those of the versions before.

// In a test an unwrap is an assertion.
#![allow(clippy::unwrap_used)]

use cosy_model::api::{Reply, Request};
use cosy_model::node::*;
use cosy_model::step::{AllocationRoute, Peer, StepAsk, StepRecord};
use cosy_model::*;
use cosy_proto::frame::{self, Decoder};
use cosy_proto::peer::{PeerAnswer, PeerRequest};
use cosy_proto::words::{self, Received};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::fs;
use std::path::PathBuf;

/// Versions whose frames are read. The first was in no release.
const VERSIONS: [u32; 1] = [2];

fn fixture(name: &str, version: u32) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(format!("{name}-{version}"))
}

/// Every message that has a name, as a line.
fn vocabulary() -> String {
    let kinds = [
        ("order", words::names::<NodeOrder>()),
        ("report", words::names::<NodeReport>()),
        ("request", words::names::<Request>()),
        ("reply", words::names::<Reply>()),
        ("step", words::names::<StepAsk>()),
        ("wish", words::names::<PeerRequest>()),
        ("answer", words::names::<PeerAnswer>()),
    ];
    let lines = kinds.iter().flat_map(|(kind, names)| {
        assert!(!names.is_empty(), "{kind}");
        names.iter().map(move |name| format!("{kind} {name}\n"))
    });
    lines.collect()
}

#[test]
fn the_version_goes_up_with_the_messages() {
    let path = fixture("words", cosy_proto::PROTOCOL);
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == vocabulary(),
        "messages were added, renamed or taken away: raise PROTOCOL if {} was in a release, and \
         make the file anew",
        path.display()
    );
}

fn key() -> AttemptKey {
    AttemptKey {
        job: JobId(7),
        attempt: Attempt(2),
    }
}

fn allocation() -> Allocation {
    Allocation {
        key: key().into(),
        node: "n1".into(),
        nodes: "n[1-2]".into(),
        uid: Uid(1000),
        gid: Gid(100),
        groups: vec![Gid(100), Gid(27)],
        user: "ann".into(),
        home: "/home/ann".into(),
        shell: "/bin/sh".into(),
        memory: Some(MiB(512)),
        cores: vec![0, 1],
        gpus: vec![3],
        devices: [("fpga".to_owned(), vec![0])].into(),
        switches: "top.leaf1".into(),
        tasks: 2,
        limit: Span::from_secs(60),
        cores_per_task: 1,
        runs_again: true,
        warn_steps: None,
        parts: Vec::new(),
        ticket: OsText(vec![1, 2, 0xff]),
    }
}

fn launch() -> Launch {
    Launch {
        allocation: allocation(),
        program: Program::Script {
            name: "job.sh".into(),
            args: vec!["one".into()],
        },
        script: OsText::from("#!/bin/sh\n"),
        workdir: OsText::from("/home/ann"),
        stdout: OsText::from("out"),
        stderr: OsText::default(),
        stdin: OsText::default(),
        open_mode: Default::default(),
        environment: OsText::from("A=1\0B=2"),
        login_environment: false,
        umask: 0o022,
        rlimits: [("nofile".into(), 1024, 4096)].into(),
        warn: Some(job::WarnSignal {
            signal: 10,
            before: Span::from_secs(60),
            script_only: true,
        }),
        grace: Span::from_secs(30),
        dialect: Dialect::Slurm,
        container: None,
    }
}

fn peer() -> Peer {
    Peer {
        node: "n2".into(),
        address: "10.0.0.2:7000".into(),
        key: "ab".into(),
    }
}

fn orders() -> Vec<NodeOrder> {
    let (key, node) = (key(), "n1".to_owned());
    vec![
        NodeOrder::Welcome {
            cluster: "c".into(),
            heartbeat: Span::from_secs(5),
            unknown: vec!["x".into()],
            revoked: vec!["ab".into()],
            alone: Some(Span::from_secs(60)),
            now: Some(Time(1000)),
        },
        NodeOrder::Heard {
            number: 3,
            mark: OsText(vec![0; 72]),
        },
        NodeOrder::Leaving,
        NodeOrder::Prepare(Box::new(allocation())),
        NodeOrder::Launch(Box::new(launch())),
        NodeOrder::Kill {
            key: key.into(),
            node: node.clone(),
            cause: KillCause::TimeLimit,
            preempted: false,
        },
        NodeOrder::Signal {
            key,
            node: node.clone(),
            signal: 10,
            script_only: true,
            steps_only: false,
        },
        NodeOrder::Note {
            key,
            node: node.clone(),
            text: "note".into(),
        },
        NodeOrder::Suspend {
            key,
            node: node.clone(),
        },
        NodeOrder::Resume {
            key,
            node: node.clone(),
        },
        NodeOrder::Limit {
            key,
            node: node.clone(),
            limit: Span::from_secs(90),
        },
        NodeOrder::Release {
            key: key.into(),
            node: node.clone(),
        },
        NodeOrder::Forget {
            key: key.into(),
            node: node.clone(),
        },
        NodeOrder::StepsTaken {
            key,
            node: node.clone(),
            count: 4,
        },
        NodeOrder::Passage {
            number: 9,
            passage: Ok(Box::new(AllocationRoute {
                key,
                uid: Uid(1000),
                gid: Gid(100),
                first: peer(),
                ticket: OsText(vec![1]),
            })),
        },
        NodeOrder::Moved { node, peer: peer() },
        NodeOrder::RelayReply {
            connection: 5,
            frame: OsText(vec![0x80]),
        },
    ]
}

fn end() -> End {
    End {
        exit_code: 3,
        start: Some(Time(1000)),
        user_cpu_us: 10,
        ..End::never_ran(EndCause::Exited, Time(2000))
    }
}

fn itself() -> NodeSelf {
    NodeSelf {
        name: "n1".into(),
        amounts: Amounts {
            cores: 4,
            memory: MiB(2048),
            ..Amounts::default()
        },
        gpu_types: vec!["a100".into()],
        shards: Vec::new(),
        devices: vec!["fpga".into()],
        features: vec!["fast".into()],
        boot_id: "b".into(),
        version: "0.1.0".into(),
        only_uid: None,
        listen: ":7000".into(),
        step_socket: "/run/cosy/steps".into(),
        machine: Machine {
            host: "h".into(),
            load_hundredths: Some(12),
            ..Machine::default()
        },
    }
}

fn reports() -> Vec<NodeReport> {
    let (key, node) = (key(), "n1".to_owned());
    let held = |phase| InventoryItem {
        key: key.into(),
        node: "n1".into(),
        phase,
    };
    vec![
        NodeReport::Register {
            nodes: vec![itself()],
            inventory: vec![
                held(AttemptPhase::Prepared),
                held(AttemptPhase::Running {
                    since: Time(1000),
                    ran: None,
                }),
                held(AttemptPhase::Ended(end())),
            ],
            seen: OsText(vec![0; 72]),
            clock: Some(Time(1000)),
        },
        NodeReport::Heartbeat,
        NodeReport::Figures(Figures {
            load_hundredths: Some(1),
            free_memory: Some(MiB(1)),
            number: 2,
            clock: Some(Time(1000)),
        }),
        NodeReport::Prepared {
            key: key.into(),
            node: node.clone(),
            failure: Some(PrepareFailure {
                reason: "prolog".into(),
                drain: true,
            }),
        },
        NodeReport::Started {
            key: key.into(),
            node: node.clone(),
            at: Time(1000),
        },
        NodeReport::Ended {
            key: key.into(),
            node: node.clone(),
            end: end(),
            drain: None,
        },
        NodeReport::Released {
            key: key.into(),
            node: node.clone(),
            drain: Some("epilog".into()),
            devices: DeviceUse::default(),
        },
        NodeReport::Steps {
            key,
            node: node.clone(),
            before: 1,
            records: vec![StepRecord {
                step: StepId::default(),
                name: "hostname".into(),
                nodes: "n1".into(),
                tasks: 2,
                cores: 2,
                end: end(),
            }],
        },
        NodeReport::AskPassage {
            number: 9,
            uid: Uid(1000),
            job: JobId(7),
        },
        NodeReport::Health {
            node: node.clone(),
            problem: Some("disk".into()),
        },
        NodeReport::RelayRequest {
            connection: 5,
            node,
            uid: Uid(1000),
            gid: Gid(100),
            frame: OsText(vec![0x80]),
        },
        NodeReport::RelayClosed { connection: 5 },
    ]
}

fn packed<T: Serialize>(messages: &[T]) -> Vec<u8> {
    let frames = messages.iter().map(|m| frame::encode(m, 1 << 20).unwrap());
    frames.flatten().collect()
}

#[test]
#[ignore = "makes the files of a new version"]
fn make_fixtures() {
    let version = cosy_proto::PROTOCOL;
    fs::write(fixture("words", version), vocabulary()).unwrap();
    fs::write(fixture("orders", version), packed(&orders())).unwrap();
    fs::write(fixture("reports", version), packed(&reports())).unwrap();
}

/// The messages of a file, each with its name. Each is understood, and each kind is there.
fn read<T: DeserializeOwned + Debug>(kind: &str, version: u32) -> Vec<T> {
    let mut decoder = Decoder::new(1 << 20);
    decoder.push(&fs::read(fixture(&format!("{kind}s"), version)).unwrap());
    let mut names = BTreeSet::new();
    let mut all = Vec::new();
    while let Some(body) = decoder.next_frame().unwrap() {
        names.insert(words::name_of(body).unwrap().to_owned());
        match words::hear::<T>(body).unwrap() {
            Received::Message(message) => all.push(message),
            Received::Foreign { name, why } => panic!("version {version}, {kind} {name}: {why}"),
        }
    }
    assert!(decoder.is_empty());
    let had = fs::read_to_string(fixture("words", version)).unwrap();
    let of_kind = had.lines().filter_map(|line| line.strip_prefix(kind));
    let had: BTreeSet<String> = of_kind.map(|name| name.trim().to_owned()).collect();
    assert_eq!(names, had, "version {version}");
    all
}

#[test]
fn earlier_versions_are_understood() {
    for version in VERSIONS {
        let orders = read::<NodeOrder>("order", version);
        let reports = read::<NodeReport>("report", version);
        let Some(NodeOrder::Launch(launch)) =
            orders.iter().find(|o| matches!(o, NodeOrder::Launch(_)))
        else {
            panic!("no launch");
        };
        assert_eq!(launch.allocation.nodes, "n[1-2]");
        assert_eq!(launch.environment, OsText::from("A=1\0B=2"));
        let Some(NodeReport::Register {
            nodes, inventory, ..
        }) = reports.first()
        else {
            panic!("{reports:?}");
        };
        assert_eq!((nodes[0].amounts.cores, inventory.len()), (4, 3));
    }
}

/// Daemons of other releases know the program of a trigger by a number that no job has, in the
/// field of the job.
#[test]
fn programs_of_triggers_have_numbers_of_jobs() {
    let attempt = Attempt(2);
    let check = |key: AllocationKey, number| {
        let before = AttemptKey {
            job: JobId(number),
            attempt,
        };
        let bytes = frame::encode(&before, 100).unwrap();
        assert_eq!(frame::encode(&key, 100).unwrap(), bytes);
        let back: AllocationKey = frame::decode(&bytes[frame::HEADER..]).unwrap();
        assert_eq!(back, key);
    };
    check(key().into(), 7);
    let trigger = TriggerId(3);
    check(ProgramKey { trigger, attempt }.into(), (1 << 48) + 3);
}
