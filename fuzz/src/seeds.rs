//! Seeds: for each target inputs with one message of each kind.

use crate::joined;
use cosy_model::api::{JobChange, JobField, JobFilter, JobRef, NodeAction, Request, Submission};
use cosy_model::job::{DependencyKind, FurtherComponent, MailRequest, MemoryRequest};
use cosy_model::node::{
    AttemptKey, AttemptPhase, Figures, InventoryItem, Launch, Machine, NodeOrder, NodeReport,
    NodeSelf, PrepareFailure,
};
use cosy_model::reservation::{AccountAction, ReservationSpec, StartChoice, ReservationFilter};
use cosy_model::step::{
    DownFrame, AllocationRoute, Peer, RankRun, SampledNodes, StepAnswer, StepAsk, StepCommand, StepKey, StepLayout,
    StepOrder, StepRecord, StepSpec, TaskEnd, UpFrame, TcpPair,
};
use cosy_model::workflow::{FlowEdge, FlowFilter, FlowSpec, FlowTask};
use cosy_model::{
    Amounts, ArraySpec, Attempt, Container, ContainerOptions, Dependency, DeviceUse, End, EndCause, FlowId, Gid, JobId, JobSpec, MiB,
    OsText, Program, QueueSpec, QueueState, Refusal, ReservationId, Span, StepId, Su, Time,
    TriggerEvent, TriggerId, TriggerSpec, Uid, TriggerTarget,
};
use cosy_proto::client::{ReplyFrame, RequestFrame, RequestKey};
use cosy_proto::frame;
use cosy_proto::link::{Hello, HelloReply};
use cosy_proto::peer::{PeerAnswer, PeerAsk, PeerRequest};
use cosy_proto::step::{self, Link, StepFrame};
use noded::pmix::words::{FromHelper, Setup, ToHelper};
use serde::Serialize;
use std::path::Path;

/// When the fuzzed controller's clock begins.
const NOW: Time = Time::from_secs(1_000_000);

/// Names the folder that seeds are to be written to; then nothing is fuzzed.
const DIRECTORY: &str = "COSY_FUZZ_SEEDS";

/// Writes the seeds of a target and ends, if it is asked for.
pub fn if_asked(target: &str) {
    let Some(directory) = std::env::var_os(DIRECTORY) else {
        return;
    };
    let seeds = match target {
        "local" => local(),
        "link" => link(),
        "peer" => peer(),
        "pmi" => pmi(),
        "pmix" => pmix(),
        "judge" => crate::judge::seeds(),
        "rest" => crate::rest::seeds(),
        other => panic!("{other} has no seeds"),
    };
    let directory = Path::new(&directory);
    std::fs::create_dir_all(directory).expect("the folder can be made");
    for (at, seed) in seeds.iter().enumerate() {
        std::fs::write(directory.join(format!("seed-{at:03}")), seed).expect("written");
    }
    std::process::exit(0);
}

fn packed<T: Serialize>(message: &T) -> Vec<u8> {
    let mut bytes = frame::encode(message, 1 << 20).expect("a seed is short");
    bytes.split_off(frame::HEADER)
}

fn asked(request: Request) -> Vec<u8> {
    let key = request.changes().then_some(RequestKey([7; 16]));
    packed(&RequestFrame::new(request, key))
}

fn spec(name: &str) -> JobSpec {
    let program = Program::Command {
        argv: vec![OsText::from("true")],
    };
    JobSpec {
        time_limit: Some(Span::from_secs(60)),
        ..JobSpec::plain(name, program, OsText::from("/"))
    }
}

fn submission(spec: JobSpec) -> Box<Submission> {
    Box::new(Submission {
        spec,
        script: OsText::default(),
        array: None,
    })
}

/// With everything that a job can ask for.
fn rich() -> JobSpec {
    let mut all = spec("rich");
    all.queue = Some("main".into());
    all.dependencies = vec![Dependency {
        kind: DependencyKind::AfterOk,
        job: JobId(1),
        task: None,
        delay: Span::from_secs(1),
    }];
    all.request.nodes = Some(1);
    all.request.max_nodes = Some(2);
    all.request.tasks = Some(2);
    all.request.tasks_per_node = Some(2);
    all.request.memory = MemoryRequest::PerCore(MiB(10));
    all.request.gpus_per_node = 1;
    all.request.require = vec!["n1".into()];
    all.request.avoid = vec!["n[2-3]".into()];
    all.request.any_features = vec![vec!["a".into(), "b".into()]];
    all.mail = MailRequest {
        end: true,
        to: "a@b".into(),
        limit_shares: vec![50],
        ..MailRequest::default()
    };
    all.begin = Some(NOW + Span::from_secs(2));
    all.deadline = Some(NOW + Span::from_secs(600));
    all.time_min = Some(Span::from_secs(30));
    all.rlimits = [("NOFILE".into(), 10, 20)].into();
    all.end_if_never = Some(true);
    all.stdout = Some(OsText::from("/tmp/%x.%A_%a.out"));
    all.nice = 5;
    all
}

fn filter() -> JobFilter {
    JobFilter {
        ids: [1, 2, 3, 4]
            .map(|id| JobRef {
                job: JobId(id),
                task: None,
            })
            .to_vec(),
        ..JobFilter::default()
    }
}

fn slot() -> Box<ReservationSpec> {
    Box::new(ReservationSpec {
        licenses: Default::default(),
        name: "slot".into(),
        queue: None,
        request: rich().request,
        length: Span::from_secs(100),
        earliest: Some(NOW + Span::from_secs(60)),
        latest_end: Some(NOW + Span::from_secs(6000)),
        pick: StartChoice::Soonest,
        repeat: None,
        account: None,
        max_price: None,
        sharing: Default::default(),
        comment: String::new(),
        flags: Vec::new(),
    })
}

fn flow() -> Box<FlowSpec> {
    let task = |name: &str| FlowTask {
        name: name.into(),
        spec: spec(name),
        script: OsText::default(),
        estimate: Span::from_secs(20),
        estimates: Vec::new(),
        retries: 1,
    };
    let text = serde_json::json!({"name": "flow", "tasks": [], "edges": []});
    let mut flow: FlowSpec = serde_json::from_value(text).expect("a workflow");
    flow.tasks = vec![task("a"), task("b")];
    flow.edges = vec![FlowEdge {
        from: 0,
        to: 1,
        data_bytes: 1 << 20,
    }];
    Box::new(flow)
}

fn requests() -> Vec<Request> {
    let job = JobRef {
        job: JobId(3),
        task: Some(2),
    };
    let mut held = spec("attended");
    held.program = Program::Allocation;
    held.attended = true;
    let mut parts = spec("parts");
    parts.further_components = vec![FurtherComponent {
        name: None,
        queue: Some("other".into()),
        request: parts.request.clone(),
    }];
    let mut array = submission(spec("array"));
    array.array = Some(ArraySpec {
        ranges: vec![(1, 9, 2), (12, 12, 1)],
        at_once: Some(3),
    });
    let change = JobChange {
        name: Some("new".into()),
        queue: Some("other".into()),
        time_limit: Some(Span::from_secs(30)),
        nodes: Some(2),
        begin: Some(NOW),
        nice: Some(3),
        dependencies: Some(rich().dependencies),
        at_once: Some(1),
        ..JobChange::default()
    };
    vec![
        Request::Ping,
        Request::Submit(submission(spec("plain"))),
        Request::Submit(submission(rich())),
        Request::Submit(submission(parts)),
        Request::Submit(array),
        Request::Allocate(submission(held)),
        Request::Attend { job: JobId(4), started: true },
        Request::Finish { job: JobId(4), exit_code: 1, signal: 0 },
        Request::Entry { job: JobId(1) },
        Request::Cancel { filter: filter(), signal: None, script_only: false, steps_only: false },
        Request::Cancel { filter: filter(), signal: Some(10), script_only: true, steps_only: false },
        Request::Hold { filter: filter(), as_user: true },
        Request::Release { filter: filter() },
        Request::Requeue { filter: filter(), hold: true, special: false },
        Request::Suspend { filter: filter() },
        Request::Resume { filter: filter() },
        Request::Notify { filter: filter(), text: "hello".into() },
        Request::Top { filter: filter() },
        Request::Change { filter: filter(), change: Box::new(change) },
        Request::Jobs {
            filter: JobFilter { users: vec!["u1000".into()], ..filter() },
            fields: JobField::ALL.to_vec(),
            fold_arrays: true,
        },
        Request::Explain { job },
        Request::Wait { jobs: vec![job] },
        Request::Queues,
        Request::Nodes,
        Request::SetTrigger(Box::new(TriggerSpec {
            on: TriggerTarget::Job(JobId(1)),
            events: [TriggerEvent::Ended, TriggerEvent::TimeLimit].into(),
            offset: Span::from_secs(1),
            program: OsText::from("/bin/true"),
            permanent: false,
            environment: OsText::default(),
        })),
        Request::SetTrigger(Box::new(TriggerSpec {
            on: TriggerTarget::Nodes(vec!["n[1-3]".into()]),
            events: [TriggerEvent::Down, TriggerEvent::Idle].into(),
            offset: Span::ZERO,
            program: OsText::from("/bin/true"),
            permanent: true,
            environment: OsText::default(),
        })),
        Request::ClearTriggers { id: Some(TriggerId(1)), job: None, uid: None },
        Request::Triggers,
        Request::Settings,
        Request::NodeControl {
            nodes: vec!["n1".into()],
            action: NodeAction::Drain { reason: "why".into() },
        },
        Request::NodeControl {
            nodes: vec!["n[1-2]".into()],
            action: NodeAction::Features { names: vec!["a".into()] },
        },
        Request::UseLicense { license: "matlab".into(), in_use: 7 },
        Request::QueueControl { queue: "main".into(), state: QueueState::Stopped },
        Request::SetQueue {
            spec: Box::new(QueueSpec { name: "own".into(), ..QueueSpec::default() }),
            new: true,
            default: false,
        },
        Request::DeleteQueue { queue: "own".into() },
        Request::Quote { ask: slot(), most: Some(3), as_job: None },
        Request::Reserve { ask: slot(), hold: true, job: None },
        Request::Reserve { ask: slot(), hold: false, job: Some(submission(spec("inside"))) },
        Request::Confirm { id: ReservationId(1) },
        Request::CancelReservation { ids: vec![ReservationId(1)], series: true },
        Request::ExtendReservation { id: ReservationId(1), by: Span::from_secs(5), max_price: None },
        Request::ShortenReservation { id: ReservationId(1), end: NOW + Span::from_secs(80) },
        Request::ShareReservation { id: ReservationId(1), change: Box::default() },
        Request::AlterReservation { id: ReservationId(1), change: Box::default() },
        Request::Reservations { filter: ReservationFilter::default() },
        Request::PlanFlow { spec: flow() },
        Request::SubmitFlow { spec: flow(), hold: false },
        Request::ConfirmFlow { id: FlowId(1) },
        Request::CancelFlow { ids: vec![FlowId(1)] },
        Request::Flows { filter: FlowFilter::default() },
        Request::PlanChart { until: Some(NOW + Span::from_secs(9)), most: 10 },
        Request::Accounts { names: vec!["a".into()] },
        Request::AccountControl {
            name: "a".into(),
            action: AccountAction::Create { members: vec!["u1000".into()], budget: Some(Su(5)) },
        },
        Request::AccountControl { name: "a".into(), action: AccountAction::Grant(Su(7)) },
    ]
}

/// Each request alone, as a user and as root, and some that follow each other.
fn local() -> Vec<Vec<u8>> {
    let all = requests();
    let with = |flags: u8, requests: Vec<Request>| {
        let pieces: Vec<Vec<u8>> = requests.into_iter().map(asked).collect();
        [vec![flags], joined(&pieces)].concat()
    };
    let mut seeds: Vec<Vec<u8>> = all.iter().map(|r| with(0, vec![r.clone()])).collect();
    let root = all.iter().filter(|r| r.changes());
    seeds.extend(root.map(|r| with(11, vec![r.clone()])));
    seeds.extend(all.chunks(5).map(|some| with(8, some.to_vec())));
    seeds
}

fn key() -> AttemptKey {
    AttemptKey {
        job: JobId(1),
        attempt: Attempt(1),
    }
}

fn ended() -> End {
    End {
        start: Some(NOW),
        exit_code: 1,
        ..End::never_ran(EndCause::Exited, NOW + Span::from_secs(3))
    }
}

fn reports() -> Vec<NodeReport> {
    let node = || "n1".to_owned();
    vec![
        NodeReport::Register {
            nodes: vec![NodeSelf {
                name: node(),
                amounts: Amounts {
                    cores: 4,
                    memory: MiB(16_000),
                    disk: MiB(1000),
                    gpus: 2,
                    ..Amounts::default()
                },
                gpu_types: vec!["a".into(), "b".into()],
                shards: Vec::new(),
                devices: vec!["fpga".into()],
                features: vec!["fast".into()],
                boot_id: "1".into(),
                version: "0".into(),
                only_uid: None,
                listen: "127.0.0.1:7818".into(),
                step_socket: "/run/s".into(),
                machine: Machine::default(),
            }],
            inventory: vec![InventoryItem {
                key: key().into(),
                node: node(),
                phase: AttemptPhase::Running { since: NOW, ran: None },
            }],
            seen: OsText(vec![7; 104]),
            clock: Some(NOW),
        },
        NodeReport::Heartbeat,
        NodeReport::Figures(Figures { load_hundredths: Some(50), free_memory: Some(MiB(5)), number: 1, clock: None }),
        NodeReport::Prepared { key: key().into(), node: node(), failure: None },
        NodeReport::Prepared {
            key: key().into(),
            node: node(),
            failure: Some(PrepareFailure { reason: "no".into(), drain: true }),
        },
        NodeReport::Started { key: key().into(), node: node(), at: NOW },
        NodeReport::Ended { key: key().into(), node: node(), end: ended(), drain: None },
        NodeReport::Released { key: key().into(), node: node(), drain: Some("bad".into()), devices: DeviceUse { energy_uj: Some(7), ..DeviceUse::default() } },
        NodeReport::Steps {
            key: key(),
            node: node(),
            before: 0,
            records: vec![StepRecord {
                step: StepId(0),
                name: "s".into(),
                nodes: "n1".into(),
                tasks: 1,
                cores: 1,
                end: ended(),
            }],
        },
        NodeReport::AskPassage { number: 1, uid: Uid(1000), job: JobId(1) },
        NodeReport::Health { node: node(), problem: Some("hot".into()) },
        NodeReport::RelayRequest {
            connection: 1,
            node: node(),
            uid: Uid(1000),
            gid: Gid(1000),
            frame: OsText(asked(Request::Submit(submission(spec("relayed"))))),
        },
        NodeReport::RelayClosed { connection: 1 },
    ]
}

fn link() -> Vec<Vec<u8>> {
    let node = packed(&Hello::node(7));
    let join = packed(&Hello::Join {
        version: 1,
        node: "n1".into(),
        token: "t".into(),
    });
    let reports = reports();
    let with = |hello: &Vec<u8>, some: &[NodeReport]| {
        let mut pieces = vec![hello.clone()];
        pieces.extend(some.iter().map(packed));
        [vec![0], joined(&pieces)].concat()
    };
    let mut seeds: Vec<Vec<u8>> = reports
        .iter()
        .map(|r| with(&node, &[reports[0].clone(), r.clone()]))
        .collect();
    seeds.push(with(&join, &reports[..1]));
    seeds.push(with(&node, &reports));
    seeds
}

fn step_spec() -> StepSpec {
    let command = StepCommand::Run {
        argv: vec![OsText::from("true")],
        expand: false,
    };
    StepSpec {
        nodes: Some(2),
        tasks: Some(4),
        cores_per_task: Some(2),
        gpus_per_task: 1,
        memory: Some(MiB(10)),
        require: vec!["n1".into()],
        avoid: vec!["n4".into()],
        places: vec![("n1".into(), 2)],
        rlimits: [("NOFILE".into(), 1, 2)].into(),
        grace: Span(200),
        ..StepSpec::plain("s", command)
    }
}

fn layout() -> StepLayout {
    let run = |first| RankRun {
        first,
        count: 2,
        stride: 1,
    };
    StepLayout {
        nodes: vec!["n1".into(), "n2".into()],
        ranks: vec![vec![run(0)], vec![run(2)]],
        tasks: 4,
        cores_per_task: 1,
    }
}

fn at(node: &str) -> Peer {
    Peer {
        node: node.into(),
        address: "127.0.0.1:1".into(),
        key: "00".repeat(32),
    }
}

fn container() -> Option<Container> {
    let mut options = ContainerOptions::default();
    let said = [("container-image", "a#b:1"), ("container-mounts", "/a:/b:ro,/c")];
    for (option, value) in said {
        options.apply(option, value).ok()?;
    }
    options.container().ok()?
}

fn peer() -> Vec<Vec<u8>> {
    let step = StepKey {
        attempt: key(),
        step: StepId(0),
    };
    let order = StepOrder {
        key: step,
        spec: step_spec(),
        layout: layout(),
        tree: vec![0, 1],
        peers: vec![at("n1"), at("n2")],
    };
    let connection = TcpPair {
        from: ([10, 0, 0, 2], 40_000).into(),
        to: ([10, 0, 0, 1], 22).into(),
    };
    let asks = [
        StepAsk::Start { job: JobId(1), spec: Box::new(step_spec()) },
        StepAsk::StartWithDisplay { job: JobId(1), spec: Box::new(step_spec()) },
        StepAsk::Attach { job: JobId(1), step: StepId(0) },
        StepAsk::List { job: JobId(1) },
        StepAsk::Usage { job: JobId(1) },
        StepAsk::Samples { job: JobId(1), of: SampledNodes::One("n2".into()) },
        StepAsk::Signal { job: JobId(1), step: StepId(0), signal: 2 },
        StepAsk::Limit { job: JobId(1), step: Some(StepId(0)), limit: Span::from_secs(60) },
        StepAsk::Holds { job: JobId(1), connection },
    ];
    let mut pieces: Vec<Vec<u8>> = Vec::new();
    let mut add = |kind: u8, bytes: Vec<u8>| pieces.push([vec![kind], bytes].concat());
    for what in [
        PeerRequest::StartWithDisplay(Box::new(order.clone())),
        PeerRequest::Start(Box::new(order)),
        PeerRequest::Resume { key: step },
        PeerRequest::Limit { key: step, limit: Span::from_secs(60) },
        PeerRequest::Holds { attempt: step.attempt, connection },
        PeerRequest::Samples { attempt: step.attempt },
        PeerRequest::Command { uid: Uid(1000), gid: Gid(100), ask: asks[0].clone() },
    ] {
        let ask = PeerAsk {
            version: 1,
            node: "n1".into(),
            ticket: OsText(vec![1; 70]),
            what,
        };
        add(0, packed(&ask));
    }
    for ask in &asks {
        add(1, packed(ask));
    }
    add(2, packed(&PeerAnswer::Refused { reason: "no".into() }));
    let allocation = crate::peer::allocation();
    let launch = Launch {
        allocation: allocation.clone(),
        program: spec("x").program,
        script: OsText::from("#!/bin/sh\n"),
        workdir: OsText::from("/"),
        stdout: OsText::from("/o"),
        stderr: OsText::from("/o"),
        stdin: OsText::from("/dev/null"),
        open_mode: Default::default(),
        environment: OsText::from("A=1\0B=2"),
        login_environment: false,
        umask: 18,
        rlimits: Default::default(),
        warn: None,
        grace: Span(100),
        dialect: Default::default(),
        container: container().map(Box::new),
    };
    let passage = AllocationRoute {
        key: key(),
        uid: Uid(1),
        gid: Gid(1),
        first: at("n1"),
        ticket: OsText::default(),
    };
    for order in [
        NodeOrder::Launch(Box::new(launch)),
        NodeOrder::Prepare(Box::new(allocation)),
        NodeOrder::Passage { number: 1, passage: Ok(Box::new(passage)) },
        NodeOrder::RelayReply { connection: 1, frame: OsText(vec![1]) },
        NodeOrder::Moved { node: "n1".into(), peer: at("n1") },
    ] {
        add(3, packed(&order));
    }
    add(4, packed(&HelloReply::welcome(7)));
    add(4, packed(&HelloReply::Standby { leader: Some("a:1".into()) }));
    add(
        5,
        packed(&StepAnswer::Created {
            key: step,
            layout: layout(),
            limit: Span(5),
        }),
    );
    for text in ["n[1-3,7-9]x,m[001-010],a", "n[1-2]r[1-3]"] {
        add(6, text.into());
    }
    add(7, vec![0; 80]);
    add(8, packed(&ReplyFrame::new(cosy_model::api::Reply::Refused(Refusal::invalid("x")))));
    let mut frames = Vec::new();
    for frame in [
        StepFrame::Up(UpFrame::Output {
            rank: 1,
            stream: cosy_model::step::Stream::Output,
            bytes: b"a\nb".to_vec(),
        }),
        StepFrame::Up(UpFrame::TaskEnded {
            rank: 0,
            end: TaskEnd {
                exit_code: 0,
                signal: 9,
                failure: Some("x".into()),
            },
        }),
        StepFrame::Up(UpFrame::Gather { round: 1, parts: vec![(0, OsText(vec![1]))] }),
        StepFrame::Up(UpFrame::Lost { nodes: vec![1], reason: "x".into() }),
        StepFrame::Down(DownFrame::Stdin { bytes: vec![1] }),
        StepFrame::Down(DownFrame::Spread { round: 1, parts: vec![(0, OsText(vec![1]))] }),
        StepFrame::Down(DownFrame::Signal { signal: 2 }),
        StepFrame::Link(Link::Resume(4)),
    ] {
        step::put(&mut frames, &frame).expect("short");
    }
    add(9, frames);
    pieces.into_iter().map(|piece| joined(&[piece])).collect()
}

fn pmi() -> Vec<Vec<u8>> {
    const HEARD: u8 = 0x20;
    const SPREAD: u8 = 0x10;
    let said = |rank: u8, text: &str| [vec![HEARD | rank], text.as_bytes().to_vec()].concat();
    let two = |rank: u8, body: &str| said(rank, &format!("{:>6}{body}", body.len()));
    let one = |lines: &[&str]| {
        let mut pieces = vec![said(0, "cmd=init pmi_version=1 pmi_subversion=1\n")];
        pieces.extend(lines.iter().map(|line| said(0, &format!("{line}\n"))));
        joined(&pieces)
    };
    let second = |bodies: &[&str]| {
        let mut pieces = vec![said(0, "cmd=init pmi_version=2 pmi_subversion=0\n")];
        pieces.extend(bodies.iter().map(|body| two(0, body)));
        joined(&pieces)
    };
    let together = |barrier: &str| {
        let mut pieces: Vec<Vec<u8>> = (0..4)
            .map(|r| said(r, "cmd=init pmi_version=1 pmi_subversion=1\n"))
            .collect();
        pieces.push(said(1, "cmd=put kvsname=cosy-12.0 key=k value=v\n"));
        pieces.extend((0..4).map(|r| said(r, barrier)));
        pieces.push(said(3, "cmd=get kvsname=cosy-12.0 key=k\n"));
        joined(&pieces)
    };
    let share = [vec![SPREAD], vec![0, 1, 0, 1, 0, b'k', b'v', 1, 1, 0, 1, 0, b'n', b'p']].concat();
    vec![
        one(&["cmd=get_maxes", "cmd=get_appnum", "cmd=get_universe_size", "cmd=get_my_kvsname"]),
        one(&[
            "cmd=put kvsname=cosy-12.0 key=a value=b c",
            "cmd=get kvsname=cosy-12.0 key=a",
            "cmd=getbyidx kvsname=cosy-12.0 idx=0",
            "cmd=get kvsname=cosy-12.0 key=PMI_process_mapping",
        ]),
        one(&[
            "cmd=publish_name service=s port=p",
            "cmd=lookup_name service=s",
            "cmd=unpublish_name service=s",
            "cmd=barrier_in",
        ]),
        one(&["mcmd=spawn\nnprocs=1\nexecname=a\ntotspawns=1\nendcmd"]),
        one(&["cmd=abort exitcode=3", "cmd=finalize"]),
        second(&["cmd=fullinit;pmijobid=1;pmirank=0;threaded=FALSE;", "cmd=job-getid;thrid=1;"]),
        second(&[
            "cmd=kvs-put;key=k;value=a;;b;",
            "cmd=kvs-get;jobid=cosy-12.0;srcid=-1;key=k;",
            "cmd=kvs-fence;",
        ]),
        second(&[
            "cmd=info-putnodeattr;key=k;value=v;",
            "cmd=info-getnodeattr;key=k;wait=TRUE;",
            "cmd=info-getjobattr;key=PMI_process_mapping;",
        ]),
        second(&[
            "cmd=name-publish;name=n;port=p;",
            "cmd=name-lookup;name=n;",
            "cmd=name-unpublish;name=n;",
            "cmd=spawn;ncmds=1;",
            "cmd=job-connect;jobid=1;",
            "cmd=abort;isworld=TRUE;msg=x;",
            "cmd=finalize;",
        ]),
        together("cmd=barrier_in\n"),
        joined(&[said(0, "cmd=init pmi_version=1 pmi_subversion=1\n"), share, vec![0]]),
    ]
}

fn pmix() -> Vec<Vec<u8>> {
    let from = |message: FromHelper| joined(&[[vec![0], packed(&message)].concat()]);
    let to = |message: ToHelper| joined(&[[vec![1], packed(&message)].concat()]);
    let setup = Setup {
        namespace: "cosy-1".into(),
        job: "12.0".into(),
        layout: layout(),
        node: 0,
        programs: vec![vec![(0, 1)], vec![(2, 3)]],
        directory: OsText::from("/tmp/d"),
        library: OsText::from("libpmix.so.2"),
    };
    vec![
        from(FromHelper::Ready { variables: vec![(0, vec![OsText::from("A=1")])] }),
        from(FromHelper::Joined { rank: 1 }),
        from(FromHelper::Left { rank: 1 }),
        from(FromHelper::Contribute { bytes: OsText(vec![1, 2]) }),
        from(FromHelper::Abort { rank: 1, code: 2, reason: "x".into() }),
        from(FromHelper::Failed { reason: "x".into() }),
        to(ToHelper::Setup(Box::new(setup))),
        to(ToHelper::Spread { parts: vec![(0, OsText(vec![1]))] }),
    ]
}
