//! What one user or a stranger may hold of the controller: memory, connections, time. Nothing
//! that they do keeps others from being answered, and nothing makes it grow.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::api::{JobField, JobFilter, Reply, Request};
use cosy_model::job::ArraySpec;
use cosy_model::{OsText, Program, Refusal, RefusalCode};
use cosy_proto::client::RequestFrame;
use cosy_proto::frame;
use cosy_tests::memory_group::MemoryGroup;
use cosy_tests::people::{ANN, BOB, as_user};
use cosy_tests::{Client, Cluster, Options, command, people, script, system, wait};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Memory that the controller may ever take, in KiB.
const MEMORY: u64 = 512 << 10;
/// Tasks of the array that is asked for again and again.
const TASKS: u32 = 20_000;
/// Bytes of its arguments.
const ARGUMENTS: usize = 200 << 10;

/// A cluster whose controller the kernel ends when it takes more than [`MEMORY`].
struct Limited {
    cluster: Cluster,
    // Dropped last.
    _group: Option<MemoryGroup>,
}

impl std::ops::Deref for Limited {
    type Target = Cluster;
    fn deref(&self) -> &Cluster {
        &self.cluster
    }
}

fn limited() -> Limited {
    let cluster = people::start(1, Options::default());
    let group = MemoryGroup::limit(cluster.cosyd.pid(), (MEMORY >> 10) as usize);
    let told = |e| system::skip(&format!("a limit on memory ({e}): only the peak is looked at"));
    Limited {
        cluster,
        _group: group.map_err(told).ok(),
    }
}

fn connect(c: &Cluster) -> Client {
    Client::connect(&c.socket()).unwrap()
}

fn connect_as(c: &Cluster, uid: u32) -> Client {
    as_user(uid, || connect(c))
}

fn refusal(reply: Reply) -> Refusal {
    match reply {
        Reply::Refused(refusal) => refusal,
        other => panic!("not refused: {}", kind(&other)),
    }
}

/// Without what is in it.
fn kind(reply: &Reply) -> String {
    format!("{reply:?}").chars().take(60).collect()
}

/// Somebody else is served.
fn serves(c: &Cluster, uid: u32) {
    let mut client = connect_as(c, uid);
    let pong = client.ask(Request::Ping).unwrap();
    assert!(matches!(pong, Reply::Pong { .. }), "{pong:?}");
    let job = script(&c.work(), "exit 0");
    client.submit(&job).unwrap().unwrap();
}

/// An array of ANN's that has ended, with long arguments.
fn ended_array(c: &Cluster) {
    let mut job = command(&c.work(), &["true"]);
    job.spec.program = Program::Command {
        argv: vec!["true".into(), OsText(vec![b'x'; ARGUMENTS])],
    };
    job.spec.hold = true;
    job.array = Some(ArraySpec {
        ranges: vec![(1, TASKS, 1)],
        at_once: None,
    });
    let id = connect_as(c, ANN).submit(&job).unwrap().unwrap();
    c.run_as(ANN, &["ccancel", &id.to_string()]).expect(0);
}

fn history(fields: &[JobField], pages: bool) -> Request {
    Request::History {
        filter: JobFilter {
            pages,
            ..JobFilter::default()
        },
        fields: fields.to_vec(),
    }
}

#[test]
fn history_of_a_large_array_is_read_in_little_memory() {
    if !system::root_or_skip() {
        return;
    }
    let c = limited();
    ended_array(&c);
    let narrow = [JobField::Ref, JobField::Command, JobField::Name];
    // Page by page all of it comes, in the usual order.
    let table = connect_as(&c, ANN).list(history(&narrow, true)).unwrap();
    assert_eq!(table.rows, TASKS as usize);
    assert_eq!(table.text(0, JobField::Command).len(), ARGUMENTS + "true ".len());
    let name = |row: usize| {
        table
            .text(row, JobField::Ref)
            .rsplit_once('_')
            .map(|(_, t)| t.to_owned())
    };
    let order: Vec<_> = (0..table.rows).filter_map(name).collect();
    assert!(
        order
            .iter()
            .enumerate()
            .all(|(at, task)| *task == (at + 1).to_string())
    );
    // Wide and at once, by one who asks for no pages and one who does; others are served.
    let mut asking: Vec<UnixStream> = Vec::new();
    for pages in [true, false].repeat(24) {
        let ask = RequestFrame::new(history(JobField::ALL, pages), None);
        let bytes = frame::encode(&ask, 1 << 20).unwrap();
        let mut stream = as_user(ANN, || UnixStream::connect(c.socket()).unwrap());
        stream.write_all(&bytes).unwrap();
        asking.push(stream);
    }
    for _ in 0..5 {
        serves(&c, BOB);
    }
    for mut stream in asking {
        stream
            .set_read_timeout(Some(Duration::from_secs(120)))
            .unwrap();
        let mut header = [0; 4];
        stream.read_exact(&mut header).unwrap();
        assert!(u32::from_le_bytes(header) < 17 << 20);
    }
    let peak = system::peak_kib(c.cosyd.pid());
    eprintln!("at most {peak} KiB");
    assert!(peak < MEMORY, "{peak} KiB");
    serves(&c, BOB);
}

#[test]
fn answers_that_nobody_takes_are_bounded() {
    if !system::root_or_skip() {
        return;
    }
    let c = limited();
    ended_array(&c);
    let mut job = script(&c.work(), "exit 0");
    job.spec.hold = true;
    job.array = "1-20000".parse().ok();
    connect_as(&c, ANN).submit(&job).unwrap().unwrap();
    let wide = |filter: JobFilter| Request::Jobs {
        filter,
        fields: JobField::ALL.to_vec(),
        fold_arrays: false,
    };
    let mut held = Vec::new();
    for n in 0..200 {
        let pages = JobFilter {
            pages: true,
            ..JobFilter::default()
        };
        let request = match n % 2 {
            0 => history(JobField::ALL, true),
            _ => wide(pages),
        };
        let bytes = frame::encode(&RequestFrame::new(request, None), 1 << 20).unwrap();
        let mut stream = as_user(ANN, || UnixStream::connect(c.socket()).unwrap());
        // As much as goes in; nothing is read.
        for _ in 0..10 {
            let _ = stream.write_all(&bytes);
        }
        held.push(stream);
    }
    for _ in 0..5 {
        serves(&c, BOB);
    }
    // Who waits in vain is refused by name, in its own turn.
    wait::until("an answer is refused", || {
        let Reply::Meter { budgets, .. } = connect(&c).ask(Request::Meter).unwrap() else {
            panic!("no figures");
        };
        let answers = budgets.iter().find(|b| b.what.contains("answers")).unwrap();
        assert!(answers.used <= answers.in_all, "{answers:?}");
        (answers.refused > 0 && answers.peak > answers.per_user / 2).then_some(())
    });
    let peak = system::peak_kib(c.cosyd.pid());
    eprintln!("at most {peak} KiB");
    assert!(peak < MEMORY, "{peak} KiB");
    serves(&c, BOB);
}

#[test]
fn requests_that_hold_too_much_are_refused() {
    if !system::root_or_skip() {
        return;
    }
    let c = limited();
    let ask = |request: Request| refusal(connect_as(&c, ANN).ask(request).unwrap());
    let users = |n: usize| JobFilter {
        users: vec!["x".into(); n],
        ..JobFilter::default()
    };
    let list = |filter, fields| Request::Jobs {
        filter,
        fields,
        fold_arrays: true,
    };
    let said = ask(list(users(500_000), vec![JobField::Id]));
    assert!(said.message.contains("500000 users"), "{said}");
    let said = ask(list(users(0), vec![JobField::Command; 30_000]));
    assert!(said.message.contains("30000 columns"), "{said}");
    let said = ask(Request::Hold {
        filter: users(100_000),
        as_user: false,
    });
    assert!(said.message.contains("users"), "{said}");
    // 16 MB of nothing are a thousand million bytes in memory: nobody counts them to the end.
    let nothing = JobFilter {
        users: vec![String::new(); 15 << 20],
        ..JobFilter::default()
    };
    let said = ask(list(nothing, Vec::new()));
    assert_eq!(said.code, RefusalCode::TooMany);
    assert!(said.message.contains("1500000 values"), "{said}");
    let peak = system::peak_kib(c.cosyd.pid());
    assert!(peak < MEMORY / 4, "{peak} KiB");
    serves(&c, BOB);
}

#[test]
fn strangers_that_only_sit_there_do_not_keep_nodes_away() {
    let mut c = Cluster::start(1, Options::default());
    c.nodes[0].kill();
    let mut held = Vec::new();
    for _ in 0..600 {
        held.push(TcpStream::connect(c.address()).unwrap());
    }
    c.start_noded(0);
    c.nodes[0].await_ready();
    c.run(&["csub", "--wait", "-Q", "--", "true"]).expect(0);
    // They are still there, as far as they know.
    assert_eq!(held.len(), 600);
}

#[test]
fn a_user_has_only_so_many_connections() {
    if !system::root_or_skip() {
        return;
    }
    let options = Options {
        controller: "connections_per_user = 20\n".into(),
        ..Options::default()
    };
    let c = connections(options);
    let mut held: Vec<Client> = (0..20).map(|_| connect_as(&c, ANN)).collect();
    for client in &mut held {
        assert!(matches!(client.ask(Request::Ping), Ok(Reply::Pong { .. })));
    }
    let said = refusal(connect_as(&c, ANN).ask(Request::Ping).unwrap());
    assert!(said.message.contains("user 54321 has 20 connections"), "{said}");
    // Others and administrators have theirs.
    serves(&c, BOB);
    assert!(matches!(connect(&c).ask(Request::Ping), Ok(Reply::Pong { .. })));
    drop(held);
    wait::until_true("a connection is free", || {
        matches!(connect_as(&c, ANN).ask(Request::Ping), Ok(Reply::Pong { .. }))
    });
}

/// A cluster whose lines of `[controller]` come before the table of users.
fn connections(options: Options) -> Cluster {
    let own = options.controller.clone();
    let mut cluster = people::prepare(1, options);
    cluster.reconfigure(|o| {
        o.controller = format!("{own}[users]\nlookup_command = [\"DIR/lookup\"]\n")
    });
    cluster.start_cosyd();
    cluster
}

#[test]
fn the_meter_tells_what_took_how_long() {
    if !system::root_or_skip() {
        return;
    }
    let c = people::start(1, Options::default());
    serves(&c, ANN);
    connect_as(&c, ANN).history(JobFilter::default()).unwrap();
    let told = c.run(&["cadm", "ping", "-v"]).expect(0).out;
    for word in [
        "KIND",
        "CPU MS",
        "whole turn",
        "submit",
        "history",
        "connections",
        "54321",
    ] {
        assert!(told.contains(word), "{told}");
    }
    // Whose the longest was is for administrators.
    let told = c.run_as(ANN, &["cadm", "ping", "-v"]).expect(0).out;
    assert!(told.contains("submit") && !told.contains("54321"), "{told}");
    let told = c
        .run(&["cadm", "ping", "--verbose", "--json"])
        .expect(0)
        .out;
    for word in ["longest_turn_us", "longest_cpu_us", "cpu_counts", "budgets"] {
        assert!(told.contains(&format!("\"{word}\"")), "{told}");
    }
}
