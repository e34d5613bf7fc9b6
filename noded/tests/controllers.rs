//! A node with several controllers, of which one leads.

// In a test an unwrap is an assertion.
#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use cosy_model::api::{Reply, Request};
use cosy_model::node::*;
use cosy_model::{OsText, RefusalCode, Span};
use cosy_proto::client::{ReplyFrame, RequestFrame};
use cosy_proto::frame;
use cosy_proto::keys::JoinToken;
use cosy_proto::link::{Hello, HelloReply};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::server::TlsStream;

type Link = TlsStream<TcpStream>;

/// So soon after its welcome a node must have registered with a new leader.
const SOON: Duration = Duration::from_secs(1);

const STANDBY: HelloReply = HelloReply::Standby { leader: None };

/// A node that has registered with its first controller in epoch 5, while the second stands by.
fn led_by_the_first(with: impl FnOnce(&mut Bench)) -> (Bench, TcpListener, Link) {
    let mut bench = Bench::new();
    let second = bench.another_place();
    with(&mut bench);
    bench.epoch = 5;
    bench.start();
    let parked = park(&bench, &second);
    bench.accept();
    (bench, second, parked)
}

/// The controller at that place stands by.
fn park(bench: &Bench, place: &TcpListener) -> Link {
    let (mut parked, _) = bench.accept_hello_at(place);
    bench.reply(&mut parked, &STANDBY);
    parked
}

/// The second one leads in epoch 6; gives the link of the first and the inventory.
fn takeover(bench: &mut Bench, parked: Link) -> (Link, Vec<InventoryItem>) {
    let before = bench.leave_link();
    bench.epoch = 6;
    let began = Instant::now();
    let (_, inventory) = bench.welcome(parked);
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    (before, inventory)
}

const STAYS: &str = "while ! [ -e go ]; do sleep 0.01; done; exit 6";

#[test]
fn jobs_outlive_a_takeover_and_the_old_leader_is_left() {
    let (mut bench, _second, parked) = led_by_the_first(|_| ());
    let job = bench.job(1, STAYS);
    bench.launch(&job);
    bench.wait_started(1);
    let holds = bench.allocation(3);
    bench.order(NodeOrder::Prepare(Box::new(holds)));
    bench.expect(|r| matches!(r, NodeReport::Prepared { .. }).then_some(()));
    let mut of_old = bench.job(2, "echo x > ran.2");
    of_old.allocation.node = bench.name.clone();
    let mut of_held = bench.job(3, "exit 3");
    bench.sign(&mut of_held.allocation);
    let (mut old, inventory) = takeover(&mut bench, parked);
    assert_eq!(inventory.len(), 2, "{inventory:?}");
    // What the one that was deposed says now is lost with its link.
    let bytes = frame::encode(&NodeOrder::Launch(Box::new(of_old.clone())), 1 << 20).unwrap();
    let _ = bench.runtime.block_on(async {
        use tokio::io::AsyncWriteExt;
        old.write_all(&bytes).await?;
        old.flush().await
    });
    bench.closed(old);
    let (_, hello) = bench.accept_hello();
    assert!(matches!(hello, Hello::Node { epoch: 6, .. }), "{hello:?}");
    // Nor does a ticket of it open anything new; what is held goes on with one.
    bench.launch(&of_old);
    let failure = bench.failure(2);
    assert!(
        failure
            .reason
            .contains("deposed controller (epoch 5, known is 6)"),
        "{failure:?}"
    );
    bench.launch(&of_held);
    assert_eq!(bench.ended(3).exit_code, 3);
    std::fs::write(bench.path("go"), "").unwrap();
    assert_eq!(bench.ended(1).exit_code, 6);
    assert!(!bench.path("ran.2").exists());
}

/// Orders and welcome come while the node looks elsewhere: it obeys those that it has taken up
/// before it knows of the new leader, which it tells that one, and no others.
#[test]
fn what_is_obeyed_of_the_old_leader_is_told_to_the_new_one() {
    let (mut bench, _second, mut parked) = led_by_the_first(|_| ());
    let daemon = bench.daemon().pid();
    let signal = |signal| unsafe { nix::libc::kill(daemon, signal) };
    signal(nix::libc::SIGSTOP);
    let jobs: Vec<_> = (1..=20).map(|job| bench.job(job, STAYS)).collect();
    for job in &jobs {
        bench.launch(job);
    }
    bench.reply(&mut parked, &HelloReply::welcome(6));
    let _old = bench.leave_link();
    signal(nix::libc::SIGCONT);
    bench.take_link(parked);
    let inventory = match bench.next_report() {
        NodeReport::Register { inventory, .. } => inventory,
        other => panic!("{other:?}"),
    };
    bench.figures();
    for job in &jobs {
        let key = job.allocation.key;
        let told = inventory.iter().any(|item| item.key == key);
        assert_eq!(bench.spooled(key).exists(), told, "{key}");
    }
}

#[test]
fn a_deposed_controller_is_refused_also_by_the_next_daemon() {
    let (mut bench, second, parked) = led_by_the_first(|_| ());
    takeover(&mut bench, parked);
    bench.daemon().kill();
    bench.start();
    let parked = park(&bench, &second);
    for _ in 0..2 {
        let (mut first, hello) = bench.accept_hello();
        assert!(matches!(hello, Hello::Node { epoch: 6, .. }), "{hello:?}");
        bench.reply(&mut first, &HelloReply::welcome(5));
        bench.closed(first);
    }
    let log = bench.log();
    assert_eq!(
        log.matches("a deposed controller (epoch 5, known is 6)")
            .count(),
        1,
        "{log}"
    );
    // The leader comes again in the same epoch, and then the first one in its turn.
    bench.welcome(parked);
    let (first, _) = bench.accept_hello();
    bench.leave_link();
    bench.epoch = 7;
    bench.welcome(first);
    let job = bench.job(1, "exit 4");
    assert_eq!(bench.run(job).exit_code, 4);
}

#[test]
fn an_epoch_that_cannot_be_kept_is_not_followed() {
    let (mut bench, second, mut parked) = led_by_the_first(|_| ());
    let in_the_way = bench.path("spool").join(&bench.name).join("epoch.new");
    std::fs::create_dir(&in_the_way).unwrap();
    bench.reply(&mut parked, &HelloReply::welcome(6));
    bench.closed(parked);
    let job = bench.job(1, "exit 4");
    assert_eq!(bench.run(job).exit_code, 4, "the old one is still obeyed");
    assert!(
        bench
            .log()
            .contains("its epoch cannot be kept in the spool"),
        "{}",
        bench.log()
    );
    std::fs::remove_dir(&in_the_way).unwrap();
    let parked = park(&bench, &second);
    takeover(&mut bench, parked);
}

/// So long a node may be alone here.
const ALONE: Span = Span::from_secs(4);

/// When the controller last counted on the node, as the node keeps it, in milliseconds.
fn sign(bench: &Bench) -> i64 {
    let file = bench.path("spool").join(&bench.name).join("contact");
    let text = wait_for("sign", || std::fs::read_to_string(&file).ok());
    text.split(' ').next().unwrap().parse().unwrap()
}

fn runs_again(bench: &mut Bench) -> i32 {
    let mut launch = bench.job(1, &format!("echo $$ > pid.1\n{STAYS}"));
    launch.allocation.runs_again = true;
    bench.launch(&launch);
    pid_in(&bench.path("pid.1"))
}

/// One that stands by is no sign: it may lead at any moment. Nor is it that a leader stops.
#[test]
fn a_node_without_a_leader_is_alone() {
    let (mut bench, _second, _parked) = led_by_the_first(|bench| bench.alone = Some(ALONE));
    let pid = runs_again(&mut bench);
    bench.order(NodeOrder::Leaving);
    bench.close();
    wait_gone(pid);
}

#[test]
fn controllers_of_which_none_is_there_give_nothing_away() {
    let (mut bench, second, parked) = led_by_the_first(|bench| bench.alone = Some(ALONE));
    let pid = runs_again(&mut bench);
    let began = sign(&bench);
    let place = bench.close();
    drop((second, parked));
    wait_for("a sign of later", || (sign(&bench) > began + ALONE.ms() + 500).then_some(()));
    assert!(alive(pid), "{}", bench.log());
    bench.open(&place);
    bench.accept();
    std::fs::write(bench.path("go"), "").unwrap();
    assert_eq!(bench.ended(1).exit_code, 6);
}

/// After a takeover the time that it may be alone counts anew.
#[test]
fn a_new_leader_is_a_sign() {
    let (mut bench, _second, parked) = led_by_the_first(|bench| bench.alone = Some(ALONE));
    let began = sign(&bench);
    bench.figures();
    takeover(&mut bench, parked);
    wait_for("a sign of later", || (sign(&bench) > began).then_some(()));
}

fn ask(stream: &mut UnixStream) {
    frame::write(stream, &RequestFrame::new(Request::Ping, None), 1 << 20).unwrap();
}

fn relayed(bench: &mut Bench) -> u64 {
    bench.expect(|r| match r {
        NodeReport::RelayRequest { connection, .. } => Some(*connection),
        _ => None,
    })
}

#[test]
fn commands_follow_the_leader() {
    let (mut bench, _second, parked) =
        led_by_the_first(|bench| bench.extra = "socket = 'relay.sock'\n".into());
    let path = bench.path("relay.sock");
    let connect = || {
        let stream = UnixStream::connect(&path).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream
    };
    let mut waits = connect();
    ask(&mut waits);
    let of_old = relayed(&mut bench);
    takeover(&mut bench, parked);
    let answer: Option<ReplyFrame> = frame::read(&mut waits, 1 << 20).unwrap();
    assert_eq!(answer, None, "it is to ask again");
    let mut again = connect();
    ask(&mut again);
    let connection = relayed(&mut bench);
    assert_ne!(connection, of_old);
    let body = frame::encode(&ReplyFrame::new(Reply::Said("here".into())), 1 << 20).unwrap();
    let frame = OsText(body[frame::HEADER..].to_vec());
    bench.order(NodeOrder::RelayReply { connection, frame });
    let answer: Option<ReplyFrame> = frame::read(&mut again, 1 << 20).unwrap();
    assert_eq!(answer.unwrap().reply, Reply::Said("here".into()));
    // No one leads now: the command may wait for the next.
    bench.hang_up();
    let told = wait_for("refusal", || {
        let mut stream = connect();
        ask(&mut stream);
        let answer: Option<ReplyFrame> = frame::read(&mut stream, 1 << 20).ok()?;
        match answer?.reply {
            Reply::Refused(refusal) => Some(refusal),
            other => panic!("{other:?}"),
        }
    });
    assert_eq!(told.code, RefusalCode::Standby, "{told}");
    assert!(told.message.contains(&bench.address()), "{told}");
}

#[test]
fn virtual_nodes_follow_the_leader() {
    let with = |bench: &mut Bench| bench.args = ["--virtual", "2"].map(Into::into).to_vec();
    let (mut bench, second, parked) = led_by_the_first(with);
    let node = format!("{}1", bench.name);
    let job = |bench: &Bench, number| {
        let mut launch = bench.job(number, "");
        (launch.allocation.node, launch.allocation.nodes) = (node.clone(), node.clone());
        bench.sign(&mut launch.allocation);
        launch
    };
    let of_old = job(&bench, 1);
    let (old, _) = takeover(&mut bench, parked);
    bench.closed(old);
    bench.launch(&of_old);
    assert!(bench.failure(1).reason.contains("deposed"));
    let of_new = job(&bench, 2);
    bench.launch(&of_new);
    bench.wait_started(2);
    bench.daemon().kill();
    bench.start();
    let (mut first, hello) = bench.accept_hello();
    assert!(matches!(hello, Hello::Node { epoch: 6, .. }), "{hello:?}");
    bench.reply(&mut first, &HelloReply::welcome(5));
    bench.closed(first);
    park(&bench, &second);
}

#[test]
fn a_host_joins_through_the_leader() {
    let mut bench = Bench::new();
    let second = bench.another_place();
    let token = JoinToken {
        controller: bench.key.public(),
        secret: cosy_proto::keys::random_hex(16).unwrap(),
    };
    let token_file = bench.path("token");
    std::fs::write(&token_file, token.to_string()).unwrap();
    let mut join = Command::new(NODED)
        .args(["join", "--controller", &bench.address()])
        .args([
            "--controller",
            &bench.others[0],
            "--name",
            "new",
            "--config",
        ])
        .arg(bench.path("joined.toml"))
        .arg("--key")
        .arg(bench.path("new.key"))
        .arg("--token-file")
        .arg(token_file)
        .spawn()
        .unwrap();
    let (mut first, _) = bench.accept_hello();
    bench.reply(&mut first, &STANDBY);
    let (mut leader, hello) = bench.accept_hello_at(&second);
    assert!(matches!(hello, Hello::Join { .. }), "{hello:?}");
    let cluster = "lab".into();
    bench.reply(&mut leader, &HelloReply::Joined { cluster });
    assert!(join.wait().unwrap().success());
    let config = noded::config::read(&bench.path("joined.toml")).unwrap();
    assert_eq!(config.controllers, [bench.address(), bench.others[0].clone()]);
}
