//! Steps on real nodes: refusals, one node, many nodes, restarts in the middle.

// In a test an unwrap is an assertion.
#![allow(clippy::unwrap_used)]

mod common;

use common::steps::*;
use common::*;
use cosy_model::node::*;
use cosy_model::step::*;
use cosy_model::{EndCause, Gid, JobId, Refusal, RefusalCode, Span, Uid, limits};
use cosy_proto::frame;
use cosy_proto::keys::KeyPair;
use cosy_proto::peer::{PeerAnswer, PeerAsk, PeerRequest};
use cosy_proto::tls;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;

fn list(bench: &Bench, job: u64) -> Vec<StepInfo> {
    let mut client = Client::connect(bench);
    client.ask(&StepAsk::List { job: JobId(job) });
    match client.answer() {
        StepAnswer::Steps(steps) => steps,
        other => panic!("steps, not {other:?}"),
    }
}

/// The daemon still serves.
fn is_well(bench: &Bench, job: u64) {
    assert_eq!(list(bench, job), []);
}

// ---- what is refused

#[test]
fn what_does_not_fit_is_refused_with_figures() {
    let mut bench = Bench::started();
    let allocation = bench.cores(1, 2);
    bench.hold(&allocation);
    let check = |change: fn(&mut StepSpec), expected: &str| {
        let mut spec = spec(&["true"]);
        change(&mut spec);
        assert_eq!(Client::start(&bench, 1, &spec).refused(), expected);
    };
    let name = bench.name.clone();
    check(
        |s| s.tasks = Some(3),
        &format!("3 tasks of 1 core need 3 cores; job 1 has 2 on 1 node ({name}: 2)"),
    );
    check(
        |s| s.require = vec!["nowhere".into()],
        &format!("node nowhere is not of job 1, which has {name}"),
    );
    check(|s| s.tasks = Some(2_000_000), "2000000 tasks are more than a step may have (1000000)");
    check(
        |s| s.programs[0].ranks = vec![(0, 3)],
        "a program is for ranks 0 to 3, but the step has ranks 0 to 0",
    );
    check(|s| s.programs.clear(), "a step has 1 to 4096 programs, not 0");
    is_well(&bench, 1);
    let mut client = Client::connect(&bench);
    client.ask(&StepAsk::Signal {
        job: JobId(1),
        step: StepId(7),
        signal: 15,
    });
    assert!(client.refused().starts_with("no step 1.7 runs"));
}

/// Connects as another user: identities of threads can differ, for the kernel.
fn connect_as(uid: u32, path: std::path::PathBuf) -> UnixStream {
    std::thread::spawn(move || {
        let done = unsafe { nix::libc::syscall(nix::libc::SYS_setresuid, uid, uid, uid) };
        assert_eq!(done, 0);
        UnixStream::connect(path).unwrap()
    })
    .join()
    .unwrap()
}

#[test]
fn only_its_user_starts_steps_in_a_job() {
    if !is_root() {
        return skip("only root can be another user");
    }
    let mut bench = Bench::started();
    let mut allocation = bench.cores(1, 2);
    (allocation.uid, allocation.gid) = (Uid(4242), Gid(4242));
    allocation.groups = vec![Gid(4242)];
    bench.sign(&mut allocation);
    bench.hold(&allocation);
    let ask = |uid: u32| {
        let mut client = Client::with(connect_as(uid, bench.step_socket()));
        client.ask_start(1, &spec(&["true"]));
        client
    };
    assert_eq!(ask(4243).refused(), "job 1 belongs to uid 4242, not to uid 4243");
    assert_eq!(ask(0).refused(), "job 1 belongs to uid 4242, not to uid 0");
    // Root may look.
    is_well(&bench, 1);
}

#[test]
fn garbage_on_the_socket_does_no_harm() {
    let mut bench = Bench::started();
    let allocation = bench.cores(1, 1);
    bench.hold(&allocation);
    let long = u32::MAX.to_le_bytes();
    let wrong = [&10u32.to_le_bytes()[..], &[0xff; 10]].concat();
    for bytes in [&long[..], &wrong, b"GET / HTTP/1.1\r\n\r\n"] {
        let mut client = Client::connect(&bench);
        client.stream.write_all(bytes).unwrap();
        client.stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut rest = Vec::new();
        // A connection that is closed before everything was read is reset.
        let _ = client.stream.read_to_end(&mut rest);
        is_well(&bench, 1);
    }
    // Those who begin and say nothing more do not keep others out.
    let silent: Vec<UnixStream> = (0..100)
        .map(|_| {
            let mut stream = UnixStream::connect(bench.step_socket()).unwrap();
            stream.write_all(&100u32.to_le_bytes()).unwrap();
            stream
        })
        .collect();
    is_well(&bench, 1);
    drop(silent);
}

// ---- other nodes' daemons

struct TlsClient {
    stream: rustls::StreamOwned<rustls::ClientConnection, std::net::TcpStream>,
}

impl TlsClient {
    fn connect(peer: &Peer) -> Self {
        Self::connect_as(&KeyPair::generate().unwrap(), peer)
    }

    fn connect_as(own: &KeyPair, peer: &Peer) -> Self {
        let config = tls::client_config(own, peer.key.parse().unwrap()).unwrap();
        let connection = rustls::ClientConnection::new(config, tls::server_name()).unwrap();
        let tcp = std::net::TcpStream::connect(&peer.address).unwrap();
        tcp.set_read_timeout(Some(DEADLINE)).unwrap();
        Self {
            stream: rustls::StreamOwned::new(connection, tcp),
        }
    }

    fn ask(&mut self, ask: &impl serde::Serialize) -> PeerAnswer {
        let bytes = frame::encode(ask, limits::FRAME_BYTES).unwrap();
        self.stream.write_all(&bytes).unwrap();
        self.stream.flush().unwrap();
        frame::read(&mut self.stream, limits::FRAME_BYTES)
            .unwrap()
            .expect("an answer")
    }

    /// Waits for the other side to close.
    fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        let _ = self.stream.read_to_end(&mut rest);
        rest.is_empty()
    }

    fn refused(&mut self, ask: &PeerAsk) -> String {
        match self.ask(ask) {
            PeerAnswer::Refused { reason } => reason,
            PeerAnswer::Accepted => panic!("{ask:?} was accepted"),
        }
    }
}

fn peer_ask(node: &str, allocation: &Allocation, what: PeerRequest) -> PeerAsk {
    PeerAsk {
        version: cosy_proto::PROTOCOL,
        node: node.to_owned(),
        ticket: allocation.ticket.clone(),
        what,
    }
}

#[test]
fn other_nodes_need_a_good_ticket() {
    let mut nodes = Nodes::started(1);
    let allocation = nodes.benches[0].cores(1, 1);
    nodes.benches[0].hold(&allocation);
    let (name, peer) = (nodes.benches[0].name.clone(), nodes.peers[0].clone());
    let step = StepId(0);
    let attempt = allocation.key.job().unwrap();
    let resume = PeerRequest::Resume {
        key: StepKey { attempt, step },
    };
    // Whoever has no good ticket is told so and sent away.
    let stranger = |ask: &PeerAsk| {
        let mut client = TlsClient::connect(&peer);
        let text = client.refused(ask);
        assert!(client.is_closed(), "{text}");
        text
    };
    let mut forged = peer_ask(&name, &allocation, resume.clone());
    forged.ticket.0[3] ^= 1;
    let text = "the allocation's ticket is not signed by this cluster's controller";
    assert_eq!(stranger(&forged), text);
    let other = peer_ask("other", &allocation, resume.clone());
    assert_eq!(stranger(&other), format!("this is node {name}, not other"));
    let mut foreign = nodes.benches[0].cores(2, 1);
    foreign.nodes = "elsewhere".into();
    nodes.benches[0].sign(&mut foreign);
    let mut wanted = peer_ask(&name, &foreign, resume.clone());
    assert_eq!(stranger(&wanted), "the allocation's ticket is for another job");
    if let PeerRequest::Resume { key } = &mut wanted.what {
        key.attempt = foreign.key.job().unwrap();
    }
    assert_eq!(stranger(&wanted), "the allocation's ticket is for another node");
    let holder = KeyPair::generate().unwrap();
    let mut held = allocation.clone();
    nodes.benches[0].sign_for(&mut held, holder.public().to_string());
    let held = peer_ask(&name, &held, resume.clone());
    assert_eq!(stranger(&held), "the allocation's ticket was given to another host");
    let text = "step 1.0 does not run there (any more)";
    assert_eq!(TlsClient::connect_as(&holder, &peer).refused(&held), text);
    // The connection is good for more.
    let mut client = TlsClient::connect(&peer);
    let good = peer_ask(&name, &allocation, resume);
    assert_eq!(client.refused(&good), "step 1.0 does not run there (any more)");
    let command = PeerRequest::Command {
        uid: Uid(allocation.uid.0 + 1),
        gid: Gid(1),
        ask: StepAsk::List { job: JobId(1) },
    };
    let text = client.refused(&peer_ask(&name, &allocation, command));
    assert!(text.starts_with("the allocation's ticket is uid "), "{text}");
    is_well(&nodes.benches[0], 1);
}

/// A step of one task on that node alone.
fn one_task(key: StepKey, spec: StepSpec, peer: &Peer) -> StepOrder {
    StepOrder {
        key,
        spec,
        layout: StepLayout {
            nodes: vec![peer.node.clone()],
            ranks: vec![vec![RankRun {
                first: 0,
                count: 1,
                stride: 1,
            }]],
            tasks: 1,
            cores_per_task: 1,
        },
        tree: vec![0],
        peers: vec![peer.clone()],
    }
}

#[test]
fn orders_that_are_none_are_refused() {
    let mut nodes = Nodes::started(1);
    let allocation = nodes.benches[0].cores(1, 1);
    nodes.benches[0].hold(&allocation);
    let (name, peer) = (nodes.benches[0].name.clone(), nodes.peers[0].clone());
    let key = StepKey {
        attempt: allocation.key.job().unwrap(),
        step: StepId(0),
    };
    let good = one_task(key, spec(&["true"]), &peer);
    let mut client = TlsClient::connect(&peer);
    let mut check = |change: &dyn Fn(&mut StepOrder), expected: &str| {
        let mut order = good.clone();
        change(&mut order);
        let ask = peer_ask(&name, &allocation, PeerRequest::Start(Box::new(order)));
        let text = client.refused(&ask);
        assert!(text.contains(expected), "{text}");
    };
    check(&|o| o.tree = vec![0, 7], "addresses do not fit the tree");
    check(&|o| o.tree = vec![7], "not in the layout");
    check(&|o| o.layout.tasks = u32::MAX, "too large");
    check(&|o| o.layout.ranks[0][0].count = u32::MAX, "beyond the last");
    check(
        &|o| (o.layout.ranks[0][0].count, o.layout.ranks[0][0].stride) = (2, u32::MAX),
        "beyond the last",
    );
    check(&|o| o.layout.cores_per_task = u32::MAX, "needs 4294967295 cores here");
    check(&|o| o.layout.nodes = vec!["other".into()], "an address of another one");
    check(&|o| o.spec.programs.clear(), "a step has 1 to 4096 programs");
    is_well(&nodes.benches[0], 1);
}

#[test]
fn garbage_on_the_port_does_no_harm() {
    let mut nodes = Nodes::started(1);
    let allocation = nodes.benches[0].cores(1, 1);
    nodes.benches[0].hold(&allocation);
    let peer = nodes.peers[0].clone();
    for bytes in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &[0x16, 3, 1, 0xff, 0xff],
        &[0; 70_000],
    ] {
        let mut tcp = std::net::TcpStream::connect(&peer.address).unwrap();
        let _ = tcp.write_all(bytes);
    }
    // Also from somebody who speaks TLS.
    let mut client = TlsClient::connect(&peer);
    client.stream.write_all(&u32::MAX.to_le_bytes()).unwrap();
    client.stream.flush().unwrap();
    let mut rest = Vec::new();
    let _ = client.stream.read_to_end(&mut rest);
    assert_eq!(rest, b"");
    // Those who begin and say nothing more do not keep others out.
    let silent: Vec<_> = (0..60)
        .map(|_| std::net::TcpStream::connect(&peer.address).unwrap())
        .collect();
    is_well(&nodes.benches[0], 1);
    drop(silent);
    assert!(TlsClient::connect(&peer).stream.conn.is_handshaking());
}

#[test]
fn silent_connections_keep_no_peer_out() {
    let mut nodes = Nodes::started(1);
    let allocation = nodes.benches[0].cores(1, 1);
    nodes.benches[0].hold(&allocation);
    let (name, peer) = (nodes.benches[0].name.clone(), nodes.peers[0].clone());
    let attempt = allocation.key.job().unwrap();
    let key = StepKey {
        attempt,
        step: StepId(0),
    };
    let good = peer_ask(&name, &allocation, PeerRequest::Resume { key });
    let answered = |client: &mut TlsClient| {
        let text = client.refused(&good);
        assert_eq!(text, "step 1.0 does not run there (any more)");
    };
    let mut known = TlsClient::connect(&peer);
    answered(&mut known);
    // Some that only connect, some that shake hands with a key of their own and say no more,
    // some that begin a large ask.
    let plain: Vec<_> = (0..2 * limits::UNPROVEN_PEERS)
        .map(|_| std::net::TcpStream::connect(&peer.address).unwrap())
        .collect();
    answered(&mut TlsClient::connect(&peer));
    let begun: Vec<TlsClient> = (0..limits::UNPROVEN_PEERS_OF_ADDRESS + 8)
        .map(|_| {
            let mut client = TlsClient::connect(&peer);
            let length = (limits::FRAME_BYTES as u32).to_le_bytes();
            client.stream.write_all(&length).unwrap();
            client.stream.flush().unwrap();
            client
        })
        .collect();
    answered(&mut TlsClient::connect(&peer));
    answered(&mut known);
    // They have been sent away, the first ones first.
    let mut first = &plain[0];
    first.set_read_timeout(Some(DEADLINE)).unwrap();
    assert!(matches!(first.read(&mut [0; 1]), Ok(0) | Err(_)));
    is_well(&nodes.benches[0], 1);
    drop((plain, begun));
}

#[test]
fn a_revoked_key_is_cut_off() {
    let mut nodes = Nodes::started(1);
    let allocation = nodes.benches[0].cores(1, 1);
    nodes.benches[0].hold(&allocation);
    let (name, peer) = (nodes.benches[0].name.clone(), nodes.peers[0].clone());
    let key = StepKey {
        attempt: allocation.key.job().unwrap(),
        step: StepId(0),
    };
    let good = peer_ask(&name, &allocation, PeerRequest::Resume { key });
    let thief = KeyPair::generate().unwrap();
    let mut open = TlsClient::connect_as(&thief, &peer);
    open.refused(&good);
    nodes.benches[0].order(NodeOrder::Welcome {
        cluster: "test".into(),
        heartbeat: cosy_model::Span::from_secs(1),
        unknown: Vec::new(),
        revoked: vec![thief.public().to_string()],
        alone: None,
        now: None,
    });
    assert!(open.is_closed(), "what was open is cut");
    let again = |nodes: &Nodes| {
        let mut client = TlsClient::connect_as(&thief, &nodes.peers[0]);
        let bytes = frame::encode(&good, limits::FRAME_BYTES).unwrap();
        let _ = client.stream.write_all(&bytes);
        let _ = client.stream.flush();
        assert!(client.is_closed(), "no word to a revoked key");
    };
    again(&nodes);
    // Also after a restart, before the controller is heard.
    nodes.benches[0].daemon().kill();
    nodes.benches[0].start();
    let (described, _) = nodes.benches[0].accept();
    nodes.peers[0] = steps::peer(&nodes.benches[0], &described[0]);
    again(&nodes);
    TlsClient::connect(&nodes.peers[0]).refused(&good);
}

// ---- jobs elsewhere

#[test]
fn a_command_is_shown_the_way_to_its_job() {
    let mut nodes = Nodes::started(2);
    let allocations = nodes.allocations(5, 1);
    let one = &allocations[..1];
    nodes.hold(one);
    let mut client = Client::connect(&nodes.benches[1]);
    client.ask(&StepAsk::List { job: JobId(5) });
    let next_question = |bench: &mut Bench| {
        bench.expect(|r| match r {
            NodeReport::AskPassage { number, uid, job } if job.0 == 5 => Some((*number, *uid)),
            _ => None,
        })
    };
    let (number, uid) = next_question(&mut nodes.benches[1]);
    let mut for_that_host = one[0].clone();
    let holder = nodes.peers[1].key.clone();
    nodes.benches[0].sign_for(&mut for_that_host, holder);
    let passage = AllocationRoute {
        key: one[0].key.job().unwrap(),
        uid,
        gid: one[0].gid,
        first: nodes.peers[0].clone(),
        ticket: for_that_host.ticket,
    };
    nodes.benches[1].order(NodeOrder::Passage {
        number,
        passage: Ok(Box::new(passage)),
    });
    assert!(matches!(client.answer(), StepAnswer::Steps(steps) if steps.is_empty()));
    let mut client = Client::connect(&nodes.benches[1]);
    client.ask(&StepAsk::List { job: JobId(5) });
    let (number, _) = next_question(&mut nodes.benches[1]);
    let refusal = Refusal::new(RefusalCode::NotFound, "no such job");
    nodes.benches[1].order(NodeOrder::Passage {
        number,
        passage: Err(refusal),
    });
    assert_eq!(client.refused(), "no such job");
}

#[test]
fn virtual_nodes_run_no_steps() {
    let mut bench = Bench::new();
    bench.args = vec!["--virtual".into(), "2".into()];
    let socket = bench.path("steps.sock");
    bench.extra = "step_socket = 'steps.sock'\n".into();
    bench.start();
    let (described, _) = bench.accept();
    assert_eq!(described[0].listen, "");
    let mut client = Client::at(socket);
    client.ask_start(1, &spec(&["true"]));
    assert!(client.refused().contains("virtual"));
}

// ---- steps on one node

#[test]
fn one_step_on_one_node() {
    let mut bench = Bench::started();
    let allocation = bench.cores(1, 4);
    bench.hold(&allocation);
    let mut spec = shell("echo $COSY_TASK_RANK of $COSY_STEP_TASKS; exit $COSY_TASK_RANK");
    spec.tasks = Some(3);
    let mut client = Client::start(&bench, 1, &spec);
    let (key, layout) = client.created();
    assert_eq!((key.attempt.into(), key.step), (allocation.key, StepId(0)));
    assert_eq!(layout.nodes, [bench.name.clone()]);
    let ended = client.end();
    for rank in 0..3 {
        assert_eq!(ended.output[&rank], format!("{rank} of 3\n"));
        assert_eq!(ended.tasks[&rank].exit_code, rank as i32);
    }
    assert_eq!(ended.nodes.len(), 1);
    let records = bench.records(1, 1);
    assert_eq!((records[0].tasks, records[0].cores), (3, 3));
    assert_eq!((records[0].end.exit_code, &*records[0].name), (2, "sh"));
    is_well(&bench, 1);
    bench.release(&allocation);
    assert!(!bench.spooled(allocation.key).exists());
}

#[test]
fn a_step_waits_for_what_another_holds() {
    let mut bench = Bench::started();
    let allocation = bench.cores(1, 2);
    bench.hold(&allocation);
    let path = bench.path("go");
    let script = format!("while ! [ -e {} ]; do sleep 0.01; done", path.display());
    let mut first = Client::start(&bench, 1, &shell(&script));
    first.created();
    let mut wide = spec(&["true"]);
    wide.tasks = Some(2);
    let mut second = Client::start(&bench, 1, &wide);
    match second.answer() {
        StepAnswer::Waits { reason } => {
            assert_eq!(reason, "other steps of job 1 hold 1 of its 2 cores");
        }
        other => panic!("{other:?}"),
    }
    // A narrow one would fit, but comes later.
    let mut third = Client::start(&bench, 1, &spec(&["true"]));
    assert!(matches!(third.answer(), StepAnswer::Waits { .. }));
    // One that overlaps and one without patience do not wait.
    let mut beside = spec(&["true"]);
    beside.overlap = true;
    let mut over = Client::start(&bench, 1, &beside);
    over.created();
    over.end();
    let mut impatient = wide.clone();
    impatient.patience = Some(Span::ZERO);
    let text = Client::start(&bench, 1, &impatient).refused();
    assert!(text.contains("hold 1 of its 2 cores"), "{text}");
    impatient.patience = Some(Span(50));
    let mut impatient = Client::start(&bench, 1, &impatient);
    assert!(matches!(impatient.answer(), StepAnswer::Waits { .. }));
    assert!(impatient.refused().contains("still hold"));
    // One whose command goes is forgotten.
    let steps = list(&bench, 1);
    assert_eq!(steps.iter().filter(|s| s.start.is_none()).count(), 2);
    drop(third);
    wait_for("forgetting", || {
        let waiting = list(&bench, 1).into_iter().filter(|s| s.start.is_none());
        (waiting.count() == 1).then_some(())
    });
    std::fs::write(path, "").unwrap();
    assert!(first.end().tasks[&0].exit_code == 0);
    second.created();
    assert_eq!(second.end().tasks.len(), 2);
}

#[test]
fn steps_in_a_row_never_wait_and_are_counted_on() {
    let mut bench = Bench::started();
    let allocation = bench.cores(1, 1);
    bench.hold(&allocation);
    for number in 0..50 {
        let mut client = Client::start(&bench, 1, &spec(&["true"]));
        match client.answer() {
            StepAnswer::Created { key, .. } => assert_eq!(key.step, StepId(number)),
            other => panic!("{other:?}"),
        }
        assert_eq!(client.end().tasks[&0].exit_code, 0);
    }
    assert_eq!(bench.records(1, 50).len(), 50);
    bench.daemon().kill();
    bench.start();
    bench.accept();
    let mut client = Client::start(&bench, 1, &spec(&["true"]));
    assert_eq!(client.created().0.step, StepId(50));
}

#[test]
fn the_end_of_a_job_ends_its_steps_and_tells_them_first() {
    let mut bench = Bench::started();
    let job = bench.job(1, "echo $$ > pid; while ! [ -e go ]; do sleep 0.01; done");
    bench.launch(&job);
    pid_in(&bench.path("pid"));
    let file = bench.path("step.pid");
    let script = format!("trap '' TERM; echo $$ > {}; sleep 1000", file.display());
    let mut client = Client::start(&bench, 1, &shell(&script));
    client.created();
    let pid = pid_in(&file);
    std::fs::write(bench.path("go"), "").unwrap();
    assert_eq!(bench.ended(1).cause, EndCause::Exited);
    assert!(!alive(pid));
    let records = bench.backlog.iter().find_map(|r| match r {
        NodeReport::Steps { records, .. } => Some(records.clone()),
        _ => None,
    });
    assert_eq!(records.expect("told before the end")[0].end.signal, 9);
    bench.forget(job.allocation.key);
}

#[test]
fn a_held_allocation_that_is_killed_ends_its_steps() {
    let mut bench = Bench::started();
    let allocation = bench.cores(1, 1);
    bench.hold(&allocation);
    let mut client = Client::start(&bench, 1, &spec(&["sleep", "1000"]));
    client.created();
    let key = allocation.key;
    let node = bench.name.clone();
    let cause = KillCause::Cancelled;
    bench.order(NodeOrder::Kill {
        key,
        node,
        cause,
        preempted: false,
    });
    let ended = client.end();
    assert_eq!(ended.tasks[&0].signal, 15);
    assert_eq!(bench.ended(1).cause, EndCause::Cancelled);
    let text = Client::start(&bench, 1, &spec(&["true"])).refused();
    assert_eq!(text, "job 1 is ending: no more steps start in it");
    bench.forget(key);
}

#[test]
fn a_killed_supervisor_is_cleaned_up_after() {
    let mut bench = Bench::started();
    let allocation = bench.cores(1, 1);
    bench.hold(&allocation);
    let file = bench.path("pid");
    let script = format!("echo $$ > {}; sleep 1000", file.display());
    let mut client = Client::start(&bench, 1, &shell(&script));
    client.created();
    let pid = pid_in(&file);
    let directory = bench.spooled(allocation.key).join("s.0");
    let launch = noded::spool::open_launch(&directory).unwrap();
    let supervisor = noded::sys::lock_holder(&launch).unwrap().unwrap();
    noded::sys::kill(supervisor, 9).unwrap();
    assert_eq!(client.end().nodes.len(), 0);
    let records = bench.records(1, 1);
    assert_eq!(records[0].end.cause, EndCause::SupervisorLost);
    assert!(!alive(pid));
    // Its share is free again.
    let mut client = Client::start(&bench, 1, &spec(&["true"]));
    client.created();
    assert_eq!(client.end().tasks[&0].exit_code, 0);
}

#[test]
fn a_step_outlives_its_daemon() {
    let mut bench = Bench::started();
    let allocation = bench.cores(1, 2);
    bench.hold(&allocation);
    let go = bench.path("go");
    let script =
        format!("echo one; while ! [ -e {} ]; do sleep 0.01; done; echo two; exit 5", go.display());
    let mut client = Client::start(&bench, 1, &shell(&script));
    client.created();
    client.until("output", |e| e.output.get(&0).is_some_and(|o| o == "one\n"));
    bench.daemon().kill();
    bench.start();
    let (_, inventory) = bench.accept();
    assert_eq!(inventory[0].phase, AttemptPhase::Prepared);
    // What it holds is still held.
    let mut wide = spec(&["true"]);
    (wide.tasks, wide.patience) = (Some(2), Some(Span::ZERO));
    let text = Client::start(&bench, 1, &wide).refused();
    assert!(text.contains("hold 1 of its 2 cores"), "{text}");
    std::fs::write(go, "").unwrap();
    let ended = client.end();
    assert_eq!(ended.output[&0], "one\ntwo\n");
    assert_eq!(ended.tasks[&0].exit_code, 5);
    assert_eq!(bench.records(1, 1)[0].end.exit_code, 5);
}

/// A date that this machine has seen: half of the time that it has run, at most an hour. For one
/// before that the daemon counts from now.
fn some_time() -> Span {
    let uptime = std::fs::read_to_string("/proc/uptime").unwrap();
    let seconds: f64 = uptime.split(' ').next().unwrap().parse().unwrap();
    Span::from_secs((seconds / 2.0) as i64).min(Span::from_minutes(60))
}

/// The limit of a step in an allocation of twice that time, once its daemon was started anew and what
/// it kept says that it began that much earlier; by the date alone, or where somebody set the clock.
fn limit_after(time: Span, date_alone: bool) -> Span {
    let mut bench = Bench::started();
    let mut allocation = bench.cores(1, 1);
    allocation.limit = time + time;
    bench.sign(&mut allocation);
    bench.hold(&allocation);
    bench.daemon().kill();
    // As if it had been ready for that long.
    let launch = bench.spooled(allocation.key).join("launch");
    let mut options = std::fs::OpenOptions::new();
    let file = options.read(true).write(true).open(launch).unwrap();
    let mut ready = [0; 8];
    file.read_exact_at(&mut ready, 16).unwrap();
    let earlier = i64::from_le_bytes(ready) - time.ms();
    assert!(earlier > 0, "since when it is ready is kept");
    file.write_all_at(&earlier.to_le_bytes(), 16).unwrap();
    if date_alone {
        // As earlier releases wrote it.
        file.write_all_at(&[0; 7], 9).unwrap();
    }
    bench.start();
    bench.accept();
    let mut client = Client::start(&bench, 1, &spec(&["true"]));
    match client.answer() {
        StepAnswer::Created { limit, .. } => limit,
        other => panic!("created, not {other:?}"),
    }
}

#[test]
fn a_held_allocation_does_not_begin_anew_with_its_daemon() {
    let time = some_time();
    let limit = limit_after(time, true);
    assert!(limit <= time, "{limit}");
}

#[test]
fn a_clock_that_is_set_leaves_an_allocation_its_time() {
    let time = some_time();
    let limit = limit_after(time, false);
    assert!(limit > time, "{limit}");
}

/// What is kept of a running step is damaged while the daemon is dead: the step is ended, and what
/// it held is free.
#[test]
fn a_step_that_cannot_be_read_is_ended() {
    for damage in ["flipped", "empty", "gone"] {
        let mut bench = Bench::started();
        let allocation = bench.cores(1, 1);
        bench.hold(&allocation);
        let file = bench.path("pid");
        let script = format!("echo $$ > {}; sleep 1000", file.display());
        let mut client = Client::start(&bench, 1, &shell(&script));
        client.created();
        let pid = pid_in(&file);
        let launch = bench.spooled(allocation.key).join("s.0/launch");
        bench.daemon().kill();
        let options = || {
            let mut options = std::fs::OpenOptions::new();
            options.read(true).write(true).open(&launch).unwrap()
        };
        match damage {
            "flipped" => {
                let (file, mut byte) = (options(), [0]);
                file.read_exact_at(&mut byte, 40).unwrap();
                file.write_all_at(&[byte[0] ^ 0x20], 40).unwrap();
            }
            "empty" => options().set_len(0).unwrap(),
            _ => std::fs::remove_file(&launch).unwrap(),
        }
        bench.start();
        bench.accept();
        wait_gone(pid);
        client.end();
        let record = &bench.records(1, 1)[0];
        assert_eq!(record.step, StepId(0), "{damage}");
        assert_eq!(record.end.cause, EndCause::SupervisorLost, "{damage}");
        let mut client = Client::start(&bench, 1, &spec(&["true"]));
        let (key, _) = client.created();
        assert_eq!(key.step, StepId(1), "{damage}");
        assert_eq!(client.end().tasks[&0].exit_code, 0, "{damage}");
    }
}

// ---- steps on many nodes

#[test]
fn four_nodes() {
    let mut nodes = Nodes::started(4);
    let allocations = nodes.allocations(1, 2);
    nodes.hold(&allocations);
    let mut spec = shell("echo $COSY_NODENAME; exit $COSY_TASK_RANK");
    spec.tasks = Some(8);
    for _ in 0..3 {
        let mut client = Client::start(&nodes.benches[0], 1, &spec);
        let (_, layout) = client.created();
        assert_eq!(layout.nodes.len(), 4);
        let ended = client.end();
        for rank in 0..8 {
            let name = &nodes.benches[rank as usize / 2].name;
            assert_eq!(ended.output[&rank], format!("{name}\n"));
            assert_eq!(ended.tasks[&rank].exit_code, rank as i32);
        }
        assert_eq!((ended.nodes.len(), ended.lost.len()), (4, 0));
    }
    let records = nodes.benches[0].records(1, 3);
    assert_eq!((records[0].tasks, records[0].end.exit_code), (8, 7));
    // A step that leaves the first node out goes through it.
    spec.tasks = Some(2);
    spec.avoid = vec![nodes.benches[0].name.clone()];
    let mut client = Client::start(&nodes.benches[0], 1, &spec);
    client.created();
    let ended = client.end();
    assert_eq!(ended.output[&0], format!("{}\n", nodes.benches[1].name));
    for (bench, allocation) in nodes.benches.iter_mut().zip(&allocations) {
        bench.release(allocation);
        assert!(!bench.spooled(allocation.key).exists());
    }
}

#[test]
fn a_step_on_two_nodes_outlives_each_of_its_daemons() {
    for restarted in [0, 1] {
        let mut nodes = Nodes::started(2);
        let allocations = nodes.allocations(1, 1);
        nodes.hold(&allocations);
        let go = nodes.benches[0].path("go");
        let script = format!(
            "echo one; n=0; while ! [ -e {} ]; do sleep 0.01; done; \
             while [ $n -lt 1000 ]; do n=$((n+1)); echo $n; done; exit $((3 + COSY_TASK_RANK))",
            go.display()
        );
        let mut spec = shell(&script);
        spec.tasks = Some(2);
        let mut client = Client::start(&nodes.benches[0], 1, &spec);
        client.created();
        client.until("output", |e| e.output.values().filter(|o| *o == "one\n").count() == 2);
        let bench = &mut nodes.benches[restarted];
        bench.daemon().kill();
        bench.start();
        let (described, _) = bench.accept();
        assert_eq!(described[0].listen, nodes.peers[restarted].address);
        std::fs::write(go, "").unwrap();
        let ended = client.end();
        assert_eq!(ended.lost, std::collections::BTreeMap::new(), "{restarted}");
        let numbers: String = (1..=1000).map(|n| format!("{n}\n")).collect();
        for rank in 0..2 {
            let whole = format!("one\n{numbers}");
            let same = ended.output[&rank]
                .bytes()
                .zip(whole.bytes())
                .take_while(|(a, b)| a == b);
            let (same, length) = (same.count(), ended.output[&rank].len());
            assert!(
                length == whole.len() && same == length,
                "rank {rank}: {length} bytes, the first {same} right, of {}",
                whole.len()
            );
            assert_eq!(ended.tasks[&rank].exit_code, 3 + rank as i32);
        }
        assert_eq!((ended.nodes.len(), ended.lost.len()), (2, 0));
    }
}

#[test]
fn signals_and_orders_reach_all_nodes_of_a_step() {
    let mut nodes = Nodes::started(2);
    let allocations = nodes.allocations(1, 1);
    nodes.hold(&allocations);
    let mut spec =
        shell("trap 'echo usr1' USR1; trap 'exit 9' TERM; echo up; while :; do sleep 0.01; done");
    spec.tasks = Some(2);
    let mut client = Client::start(&nodes.benches[0], 1, &spec);
    client.created();
    let all = |text: &'static str| {
        move |e: &Ended| e.output.values().filter(|o| o.contains(text)).count() == 2
    };
    client.until("both", all("up\n"));
    let signal = |signal| {
        let mut other = Client::connect(&nodes.benches[0]);
        let (job, step) = (JobId(1), StepId(0));
        other.ask(&StepAsk::Signal { job, step, signal });
        assert_eq!(other.answer(), StepAnswer::Done);
    };
    signal(nix::libc::SIGUSR1);
    client.until("both", all("usr1\n"));
    // Who looks on sees what was and what comes.
    let mut watcher = Client::connect(&nodes.benches[0]);
    watcher.ask(&StepAsk::Attach {
        job: JobId(1),
        step: StepId(0),
    });
    watcher.created();
    watcher.until("both", all("usr1\n"));
    signal(0);
    let ended = client.end();
    assert!(ended.tasks.values().all(|t| t.exit_code == 9), "{ended:?}");
    assert_eq!((ended.tasks.len(), ended.nodes.len()), (2, 2));
    assert_eq!(watcher.end().tasks.len(), 2);
    let records = nodes.benches[0].records(1, 1);
    assert_eq!(records[0].end.cause, EndCause::Cancelled);
}

/// What is answered when running steps of job 1 are given another limit.
fn limit(bench: &Bench, step: Option<u32>, limit: Span) -> StepAnswer {
    let mut client = Client::connect(bench);
    client.ask(&StepAsk::Limit {
        job: JobId(1),
        step: step.map(StepId),
        limit,
    });
    client.answer()
}

#[test]
fn another_limit_reaches_all_nodes_of_a_step() {
    let mut nodes = Nodes::started(3);
    let allocations = nodes.allocations(1, 2);
    nodes.hold(&allocations);
    let hour = Span::from_minutes(60);
    let start = |tasks: u32, own: Option<Span>| {
        let mut spec = shell("echo up; exec sleep 1000");
        (spec.tasks, spec.nodes, spec.time_limit) = (Some(tasks), Some(tasks), own);
        let mut client = Client::start(&nodes.benches[0], 1, &spec);
        client.created();
        client.until("all", |e| e.output.len() == tasks as usize);
        client
    };
    let wide = start(3, Some(hour));
    let narrow = start(1, None);
    let shown = |bench: &Bench| -> Vec<Option<Span>> {
        let mut all = list(bench, 1);
        all.sort_by_key(|info| info.key.step);
        all.iter().map(|info| info.time_limit).collect()
    };
    let half = Span::from_minutes(30);
    assert_eq!(limit(&nodes.benches[0], Some(0), half), StepAnswer::Done);
    assert_eq!(shown(&nodes.benches[0]), [Some(half), None]);
    let refused = |step: Option<u32>, span: Span| match limit(&nodes.benches[0], step, span) {
        StepAnswer::Refused(refusal) => (refusal.code, refusal.message),
        other => panic!("refused, not {other:?}"),
    };
    let (code, why) = refused(Some(7), half);
    assert_eq!(code, RefusalCode::NotFound);
    assert!(why.starts_with("no step 1.7 runs; "), "{why}");
    assert_eq!(refused(None, Span::ZERO).0, RefusalCode::Invalid);
    // A daemon that is started again knows it.
    nodes.benches[0].daemon().kill();
    nodes.benches[0].start();
    nodes.benches[0].accept();
    assert_eq!(shown(&nodes.benches[0]), [Some(half), None]);
    // Each node ends its part itself, for that reason.
    assert_eq!(limit(&nodes.benches[0], None, Span(1)), StepAnswer::Done);
    for (client, count) in [(wide, 3), (narrow, 1)] {
        let ended = client.end();
        let causes = ended.nodes.values().map(|node| &node.end.cause);
        let causes: Vec<&EndCause> = causes.collect();
        assert_eq!(causes, vec![&EndCause::TimeLimit; count]);
    }
    for record in nodes.benches[0].records(1, 2) {
        assert_eq!(record.end.cause, EndCause::TimeLimit);
    }
}

#[test]
fn a_limit_that_a_node_does_not_get_is_told() {
    let mut nodes = Nodes::started(2);
    let allocations = nodes.allocations(1, 1);
    nodes.hold(&allocations);
    let mut spec = shell("echo up; exec sleep 1000");
    spec.tasks = Some(2);
    let mut client = Client::start(&nodes.benches[0], 1, &spec);
    client.created();
    client.until("both", |e| e.output.len() == 2);
    nodes.benches[1].daemon().kill();
    let hour = Span::from_minutes(60);
    let why = match limit(&nodes.benches[0], Some(0), hour) {
        StepAnswer::Refused(refusal) => refusal.message,
        other => panic!("refused, not {other:?}"),
    };
    let name = &nodes.benches[1].name;
    let begin = format!("the limit was not changed on all nodes: node {name} (");
    assert!(why.starts_with(&begin), "{why}");
    assert_eq!(list(&nodes.benches[0], 1)[0].time_limit, Some(hour));
    nodes.benches[1].start();
    nodes.benches[1].accept();
    assert_eq!(limit(&nodes.benches[0], Some(0), Span(1)), StepAnswer::Done);
    assert_eq!(client.end().nodes.len(), 2);
}

#[test]
fn a_limit_may_come_before_its_part_of_the_step() {
    let mut nodes = Nodes::started(1);
    let allocation = nodes.benches[0].cores(1, 1);
    nodes.benches[0].hold(&allocation);
    let (name, peer) = (nodes.benches[0].name.clone(), nodes.peers[0].clone());
    let key = StepKey {
        attempt: allocation.key.job().unwrap(),
        step: StepId(0),
    };
    let say = |what: PeerRequest| peer_ask(&name, &allocation, what);
    let mut early = TlsClient::connect(&peer);
    let span = Span(1);
    assert_eq!(early.ask(&say(PeerRequest::Limit { key, limit: span })), PeerAnswer::Accepted);
    let order = one_task(key, shell("sleep 1000"), &peer);
    let mut part = TlsClient::connect(&peer);
    let start = say(PeerRequest::Start(Box::new(order)));
    assert_eq!(part.ask(&start), PeerAnswer::Accepted);
    let records = nodes.benches[0].records(1, 1);
    assert_eq!(records[0].end.cause, EndCause::TimeLimit);
}

/// Whose a connection is, is told to who shows a ticket of that very attempt.
#[test]
fn other_nodes_ask_about_connections_of_their_own_jobs() {
    let mut nodes = Nodes::started(1);
    let [one, other] = [1, 2].map(|job| {
        let allocation = nodes.benches[0].cores(job, 1);
        nodes.benches[0].hold(&allocation);
        allocation
    });
    let (name, peer) = (nodes.benches[0].name.clone(), nodes.peers[0].clone());
    let ask = |shown: &Allocation, about: &Allocation| {
        let what = PeerRequest::Holds {
            attempt: about.key.job().unwrap(),
            connection: TcpPair {
                from: ([127, 0, 0, 1], 1).into(),
                to: ([127, 0, 0, 1], 2).into(),
            },
        };
        TlsClient::connect(&peer).ask(&peer_ask(&name, shown, what))
    };
    assert_eq!(ask(&one, &one), PeerAnswer::Accepted);
    assert!(matches!(ask(&one, &other), PeerAnswer::Refused { .. }));
}

/// A node of a release that knows no other limits says so, and what it was asked.
#[test]
fn what_another_release_asks_is_refused_by_name() {
    #[derive(serde::Serialize)]
    struct Later {
        version: u32,
        node: String,
        ticket: cosy_model::OsText,
        what: std::collections::BTreeMap<&'static str, u32>,
    }
    let mut nodes = Nodes::started(1);
    let allocation = nodes.benches[0].cores(1, 1);
    nodes.benches[0].hold(&allocation);
    let ask = Later {
        version: cosy_proto::PROTOCOL,
        node: nodes.benches[0].name.clone(),
        ticket: allocation.ticket.clone(),
        what: [("dance", 1)].into(),
    };
    let PeerAnswer::Refused { reason } = TlsClient::connect(&nodes.peers[0]).ask(&ask) else {
        panic!("it was accepted");
    };
    let begin = "what the other node asks is not understood here: ";
    assert!(reason.starts_with(begin) && reason.contains("dance"), "{reason}");
    is_well(&nodes.benches[0], 1);
}

#[test]
fn a_node_that_cannot_be_reached_is_lost() {
    let mut nodes = Nodes::started(2);
    let mut allocations = nodes.allocations(1, 1);
    // Somebody listened there once.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    allocations[0].parts[1].peer.address = port.local_addr().unwrap().to_string();
    drop(port);
    nodes.hold(&allocations);
    let mut spec = spec(&["true"]);
    spec.tasks = Some(2);
    let mut client = Client::start(&nodes.benches[0], 1, &spec);
    client.created();
    client.until("loss", |e| !e.lost.is_empty() && !e.nodes.is_empty());
    let reason = client.ended.lost[&1].clone();
    assert!(reason.contains(&nodes.benches[1].name), "{reason}");
    assert!(reason.contains("refused"), "{reason}");
}
