//! Who may see and do what: other users' jobs, access lists, limits of queues,
//! administrators, and requests that node daemons pass on.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::api::{Reply, Request};
use cosy_model::node::{NodeOrder, NodeReport, NodeSelf};
use cosy_model::{Gid, JobId, JobState, OsText, RefusalCode, Uid};
use cosy_proto::client::{ReplyFrame, RequestFrame};
use cosy_proto::frame::{self, Decoder};
use cosy_proto::link::{Hello, HelloReply};
use cosy_tests::cluster::only;
use cosy_tests::{Cluster, Options, Output, run, script, system};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::time::Duration;

const ANN: u32 = 54_321;
const BOB: u32 = 54_322;
/// An administrator whose group is denied `ops`.
const CAT: u32 = 54_323;
/// An ordinary user of that group.
const DAN: u32 = 54_324;
const GROUP: u32 = 54_300;

const USERS: &str = "root:0:0:/root:/bin/sh:0=root\n\
    ann:54321:54300:/tmp:/bin/sh:54300=users,54301=ops\n\
    bob:54322:54300:/tmp:/bin/sh:54300=users\n\
    cat:54323:54300:/tmp:/bin/sh:54300=users,54303=guests\n\
    dan:54324:54300:/tmp:/bin/sh:54300=users,54303=guests\n";

const QUEUES: &str = "[[queue]]\nname = \"main\"\ndefault = true\nnodes = \"n[1-2]\"\n\
    [[queue]]\nname = \"ops\"\nnodes = \"n[1-2]\"\n\
    [queue.access]\nusers = { bob = \"defer\" }\n\
    groups = { ops = \"prefer\", guests = \"deny\" }\nothers = \"allow\"\n\
    [[queue]]\nname = \"small\"\nnodes = \"n[1-2]\"\nmax_time = \"10m\"\nmax_nodes = 1\n\
    max_memory = \"100M\"\nmax_jobs_per_user = 2\n\
    [[queue]]\nname = \"shut\"\nnodes = \"n1\"\nstate = \"drained\"\n";

fn cluster() -> Cluster {
    let options = Options {
        head: "admins = [\"cat\"]\n".into(),
        controller: "[users]\nlookup_command = [\"DIR/lookup\"]\n".into(),
        queues: Some(QUEUES.into()),
        noded: |_| "socket = \"DIR/relayN.sock\"".into(),
        entry: |at| if at == 1 { "login = true" } else { "" }.into(),
        ..Options::default()
    };
    let mut c = Cluster::prepare(2, options);
    let dir = c.dir().display().to_string();
    for at in 1..=2 {
        let file = c.node_dir(at - 1).join("noded.toml");
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, text.replace("relayN", &format!("relay{at}"))).unwrap();
    }
    let lookup = c.dir().join("lookup");
    fs::write(c.dir().join("users"), USERS).unwrap();
    let text = format!("#!/bin/sh\ngrep \"^[^:]*:$1:\" {dir}/users || exit 2\n");
    fs::write(&lookup, text).unwrap();
    fs::set_permissions(&lookup, fs::Permissions::from_mode(0o755)).unwrap();
    c.open_commands();
    c.start_cosyd();
    (0..2).for_each(|at| c.start_noded(at));
    c.nodes.iter_mut().for_each(|n| n.await_ready());
    c
}

fn as_user(c: &Cluster, uid: u32, words: &[&str]) -> Output {
    run::run(c.command(words).uid(uid).gid(GROUP))
}

/// The same on a host where only a node daemon's socket is.
fn through(c: &Cluster, node: u32, uid: u32, words: &[&str]) -> Output {
    let socket = c.dir().join(format!("relay{node}.sock"));
    run::run(
        c.command(words)
            .uid(uid)
            .gid(GROUP)
            .env("COSY_SOCKET", socket),
    )
}

#[test]
fn other_users_jobs() {
    if !system::root_or_skip() {
        return;
    }
    let c = cluster();
    let words = [
        "csub",
        "--parsable",
        "--comment",
        "secret",
        "--",
        "sleep",
        "1000",
    ];
    let id = as_user(&c, ANN, &words).expect(0).out.trim().to_owned();
    let job = JobId(id.parse().unwrap());
    c.until_state(job, JobState::Running);
    assert!(
        as_user(&c, ANN, &["cstat", "--no-header"])
            .expect(0)
            .out
            .contains("sleep")
    );
    for words in [
        &["cstat", "--no-header"][..],
        &[
            "cstat",
            "-A",
            "--no-header",
            "--format",
            "comment,command,workdir",
        ],
        &["chist", "-A", "--no-header", "--format", "comment,command"],
    ] {
        let seen = as_user(&c, BOB, words);
        assert!(!seen.out.contains("secret") && !seen.out.contains("1000"), "{words:?}: {seen:?}");
    }
    for words in [
        &["cstat", &id][..],
        &["cstat", "--script", &id],
        &["ccancel", &id],
        &["ccancel", "--signal", "USR1", &id],
        &["cosy", "requeue", &id],
        &["cosy", "hold", &id],
        &["cosy", "change", &id, "--name", "x"],
        &["cosy", "wait", &id],
        &["chist", &id, "--format", "comment", "--no-header"],
    ] {
        let output = as_user(&c, BOB, words);
        assert!(!output.out.contains("secret"), "{words:?}: {output:?}");
        assert!(output.code != 0 || output.out.trim().is_empty(), "{words:?}: {output:?}");
    }
    as_user(&c, BOB, &["ccancel", "-u", "ann"]);
    let row = c.row(job);
    assert_eq!((row.state, row.attempt), (JobState::Running, 1), "not touched");
    // Cat is an administrator.
    as_user(&c, CAT, &["ccancel", &id]).expect(0);
    assert_eq!(c.until_end(job).state, JobState::Cancelled);
}

#[test]
fn administrators_only() {
    if !system::root_or_skip() {
        return;
    }
    let c = cluster();
    for words in [
        &["cadm", "node", "drain", "n1", "--reason", "x"][..],
        &["cadm", "node", "resume", "n1"],
        &["cadm", "node", "down", "n1", "--reason", "x"],
        &["cadm", "node", "token", "n1"],
        &["cadm", "queue", "close", "main"],
        &["cadm", "queue", "open", "main"],
        &["cadm", "reload"],
        &["cadm", "events"],
    ] {
        as_user(&c, BOB, words).expect_refusal("dministrator");
    }
    let nice = as_user(&c, BOB, &["csub", "--nice", "-5", "--", "true"]);
    assert_ne!(nice.code, 0, "{nice:?}");
    assert!(c.node_infos().iter().all(|n| n.state == "idle"));
    as_user(&c, CAT, &["cadm", "node", "drain", "n1", "--reason", "x"]).expect(0);
    as_user(&c, CAT, &["cadm", "node", "resume", "n1"]).expect(0);
}

#[test]
fn access_levels() {
    if !system::root_or_skip() {
        return;
    }
    let c = cluster();
    // Held back by a full machine, then let go: ann (prefer) before root (allow) before
    // bob (defer), whatever the order of submission.
    let full = as_user(
        &c,
        ANN,
        &[
            "csub",
            "--parsable",
            "-N",
            "2",
            "--exclusive",
            "--",
            "sleep",
            "1000",
        ],
    );
    let full = JobId(full.expect(0).out.trim().parse().unwrap());
    c.until_state(full, JobState::Running);
    let submit = |uid| {
        let words = [
            "csub",
            "--parsable",
            "-q",
            "ops",
            "-N",
            "2",
            "--exclusive",
            "-t",
            "10",
            "--",
            "true",
        ];
        let output = as_user(&c, uid, &words).expect(0);
        JobId(output.out.trim().parse().unwrap())
    };
    let (bob, root, ann) = (submit(BOB), submit(0), submit(ANN));
    let denied = as_user(&c, DAN, &["csub", "-q", "ops", "--", "true"]);
    denied.expect_refusal("ops");
    c.cancel(full);
    let starts = [ann, root, bob].map(|job| c.until_end(job).start.unwrap());
    assert!(starts[0] <= starts[1] && starts[1] <= starts[2], "{starts:?}");
    let ends = [ann, root].map(|job| c.row(job).end.unwrap());
    assert!(ends[0] <= starts[1] && ends[1] <= starts[2], "one after the other");
    as_user(&c, CAT, &["csub", "-q", "ops", "--", "true"]).expect(0);
}

#[test]
fn limits_of_queues() {
    if !system::root_or_skip() {
        return;
    }
    let c = cluster();
    let refused = |words: &[&str], text: &str| {
        let mut all = vec!["csub"];
        all.extend(words);
        all.extend(["--", "true"]);
        as_user(&c, BOB, &all).expect_refusal(text);
    };
    refused(&["-q", "small", "-t", "11"], "small");
    refused(&["-q", "small", "-t", "5", "-N", "2"], "small");
    refused(&["-q", "small", "-t", "5", "--mem", "200M"], "small");
    refused(&["-q", "shut"], "shut");
    refused(&["-q", "nowhere"], "nowhere");
    refused(&["-N", "3"], "node");
    refused(&["--mem", "9T"], "memory");
    refused(&["--disk", "900T"], "disk");
    refused(&["--gpus", "1"], "");
    refused(&["-C", "nosuch"], "nosuch");
    refused(&["--sets", "nosuch"], "nosuch");
    refused(&["--avoid", "n[1-2]"], "");
    refused(&["--require", "n9"], "n9");
    let fine = ["csub", "-q", "small", "-t", "5", "--hold", "--", "true"];
    as_user(&c, BOB, &fine).expect(0);
    as_user(&c, BOB, &fine).expect(0);
    as_user(&c, BOB, &fine).expect_refusal("2");
    as_user(&c, ANN, &fine).expect(0);
}

#[test]
fn relays() {
    if !system::root_or_skip() {
        return;
    }
    let c = cluster();
    // A login node passes everyone on, a compute node nobody without a job there.
    let words = [
        "csub",
        "--parsable",
        "--require",
        "n2",
        "--",
        "sleep",
        "1000",
    ];
    let id = through(&c, 1, ANN, &words).expect(0).out.trim().to_owned();
    let job = JobId(id.parse().unwrap());
    assert_eq!(c.until_state(job, JobState::Running).uid, i64::from(ANN));
    through(&c, 2, BOB, &["cstat"]).expect_refusal("n2");
    through(&c, 2, BOB, &["chist"]).expect_refusal("n2");
    through(&c, 2, BOB, &["csub", "--", "true"]).expect_refusal("n2");
    assert!(
        through(&c, 2, ANN, &["cstat", "--no-header"])
            .expect(0)
            .out
            .contains(&id)
    );
    through(&c, 2, ANN, &["csub", "--wait", "-Q", "--", "true"]).expect(0);
    // Root of a compute node is not the controller's.
    let foreign = through(&c, 2, 0, &["cadm", "node", "drain", "n1", "--reason", "x"]);
    assert_ne!(foreign.code, 0, "{foreign:?}");
    let foreign = through(&c, 2, 0, &["ccancel", &id]);
    assert_ne!(foreign.code, 0, "{foreign:?}");
    assert_eq!(c.row(job).state, JobState::Running);
    through(&c, 1, ANN, &["ccancel", &id]).expect(0);
    c.until_end(job);
    let gone = through(&c, 2, ANN, &["cstat"]);
    assert_ne!(gone.code, 0, "the job has ended: {gone:?}");
    // The relay goes on after a restart of the controller.
    let mut c = c;
    c.cosyd.kill();
    c.start_cosyd();
    c.until_node("n1", "back", |n| n.state == "idle");
    through(&c, 1, BOB, &["csub", "--wait", "-Q", "--", "true"]).expect(0);
}

/// A node daemon's link, spoken by hand with that node's own key.
struct Link {
    stream: rustls::StreamOwned<rustls::ClientConnection, TcpStream>,
    /// What has come: several frames may come in one piece.
    decoder: Decoder,
}

impl Link {
    fn open(c: &Cluster, node: usize) -> Self {
        let config =
            cosy_proto::tls::client_config(&c.node_key(node), c.controller_key().public()).unwrap();
        let tls = rustls::ClientConnection::new(config, cosy_proto::tls::server_name()).unwrap();
        let tcp = TcpStream::connect(c.address()).unwrap();
        tcp.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut link = Self {
            stream: rustls::StreamOwned::new(tls, tcp),
            decoder: Decoder::new(16 << 20),
        };
        link.say(&Hello::node(0));
        let reply: Option<HelloReply> = link.next_message();
        assert!(matches!(reply, Some(HelloReply::Welcome { .. })), "{reply:?}");
        link
    }

    fn say<T: serde::Serialize>(&mut self, message: &T) {
        let bytes = frame::encode(message, 1 << 20).unwrap();
        self.stream.write_all(&bytes).unwrap();
        self.stream.flush().unwrap();
    }

    /// The next message; `None` when the link is cut.
    fn next_message<T: serde::de::DeserializeOwned>(&mut self) -> Option<T> {
        loop {
            if let Some(body) = self.decoder.next_frame().unwrap() {
                return Some(frame::decode(body).unwrap());
            }
            let mut chunk = [0; 4096];
            match self.stream.read(&mut chunk) {
                Ok(0) | Err(_) => return None,
                Ok(n) => self.decoder.push(&chunk[..n]),
            }
        }
    }

    fn register(&mut self, names: &[&str]) {
        let nodes = names.iter().map(|name| NodeSelf {
            name: (*name).into(),
            amounts: cosy_model::Amounts {
                cores: 4,
                memory: cosy_model::MiB(2048),
                ..Default::default()
            },
            boot_id: "b".into(),
            version: "0".into(),
            ..NodeSelf::default()
        });
        self.say(&NodeReport::Register {
            nodes: nodes.collect(),
            inventory: Vec::new(),
            seen: cosy_model::OsText::default(),
            clock: None,
        });
    }

    /// Asks on behalf of a user; the answer, `None` when the link is cut.
    fn relay(&mut self, node: &str, uid: u32, request: Request) -> Option<Reply> {
        self.relay_with(node, (uid, GROUP), request)
    }

    /// The same in the name of a process with that group.
    fn relay_with(
        &mut self,
        node: &str,
        (uid, gid): (u32, u32),
        request: Request,
    ) -> Option<Reply> {
        let ask = frame::encode(&RequestFrame::new(request, None), 1 << 20).unwrap();
        self.say(&NodeReport::RelayRequest {
            connection: 1,
            node: node.into(),
            uid: Uid(uid),
            gid: Gid(gid),
            frame: OsText(ask[frame::HEADER..].to_vec()),
        });
        loop {
            let order: NodeOrder = self.next_message()?;
            if let NodeOrder::RelayReply { frame: bytes, .. } = order {
                let body = &bytes.0;
                let whole: Result<ReplyFrame, _> = frame::decode(body);
                let answer = whole.or_else(|_| frame::decode(&body[frame::HEADER..]));
                return Some(answer.unwrap().reply);
            }
        }
    }
}

#[test]
fn reports_of_a_later_release_are_passed_over() {
    let mut c = Cluster::start(2, Options::default());
    c.nodes[1].kill(); // it would come back and take the link over
    let mut link = Link::open(&c, 1);
    link.register(&["n2"]);
    c.until_node("n2", "registered", |n| n.version == "0");
    let later = std::collections::BTreeMap::from([("tide", [1, 2])]);
    link.say(&later);
    link.say(&"ebb");
    link.say(&later);
    let answer = link.relay("n2", 0, Request::Ping);
    assert!(answer.is_some(), "the link goes on");
    let log = c.cosyd.log();
    assert_eq!(log.matches("report 'tide' is not known").count(), 1, "{log}");
    // What is no message at all ends the link.
    link.say(&7);
    assert_eq!(link.relay("n2", 0, Request::Ping), None);
}

#[test]
fn a_node_speaks_only_for_itself() {
    if !system::root_or_skip() {
        return;
    }
    let mut c = cluster();
    let job = c.submit(&{
        let mut s = script(&c.work(), "sleep 1000");
        s.spec.request.require = vec!["n1".into()];
        s
    });
    c.until_state(job, JobState::Running);
    // Somebody has taken n2's host over, with its key.
    c.nodes[1].kill();
    let mut link = Link::open(&c, 1);
    link.register(&["n1", "n2"]);
    c.until_node("n2", "registered", |n| n.version == "0" || n.state != "idle");
    // n1 is a login node: in its name everyone's requests would be answered.
    for node in ["n1", "n2", "nobody", ""] {
        let cancel = Request::Cancel {
            filter: only(job),
            signal: None,
            script_only: false,
            steps_only: false,
        };
        for request in [Request::Ping, cancel] {
            match link.relay(node, 0, request.clone()) {
                Some(Reply::Refused(r)) => assert_eq!(r.code, RefusalCode::Forbidden, "{r:?}"),
                Some(other) => panic!("for {node:?}: {request:?}: {other:?}"),
                None => link = Link::open(&c, 1),
            }
        }
    }
    // Nor does its word about another node's job count.
    let end = cosy_model::End {
        cause: cosy_model::EndCause::Exited,
        exit_code: 0,
        signal: 0,
        start: None,
        end: cosy_model::Time(0),
        user_cpu_us: 0,
        system_cpu_us: 0,
        peak_memory_bytes: 0,
        devices: cosy_model::DeviceUse::default(),
    };
    let key = cosy_model::node::AttemptKey {
        job,
        attempt: cosy_model::Attempt(1),
    };
    link.say(&NodeReport::Ended {
        key: key.into(),
        node: "n1".into(),
        end,
        drain: Some("boo".into()),
    });
    let _ = link.relay("n2", 0, Request::Ping);
    assert_eq!(c.row(job).state, JobState::Running);
    let n1 = c.until_node("n1", "there", |_| true);
    assert!(!n1.state.contains("drain"), "{n1:?}");
    c.start_noded(1);
}

/// A group that the directory gives nobody here: of the file with the passwords.
const SHADOW: u32 = 42;

#[test]
fn a_stolen_key_gives_no_group_and_nothing_that_jobs_do_not_need() {
    if !system::root_or_skip() {
        return;
    }
    let mut c = cluster();
    let words = [
        "csub",
        "--parsable",
        "--require",
        "n2",
        "--",
        "sleep",
        "1000",
    ];
    let id = as_user(&c, ANN, &words).expect(0).out.trim().to_owned();
    let job = JobId(id.parse().unwrap());
    c.until_state(job, JobState::Running);
    // Somebody has taken n2's host over, with its key.
    c.nodes[1].kill();
    let mut link = Link::open(&c, 1);
    link.register(&["n2"]);
    c.until_node("n2", "registered", |n| n.version == "0");
    let submit = || {
        let mut submission = script(&c.work(), "cat /etc/shadow > stolen");
        submission.spec.request.require = vec!["n1".into()];
        Request::Submit(Box::new(submission))
    };
    let mut ask = |who, request| link.relay_with("n2", who, request).expect("an answer");
    match ask((ANN, SHADOW), submit()) {
        Reply::Refused(r) => {
            assert_eq!(r.code, RefusalCode::Forbidden, "{r}");
            assert!(r.message.contains("group 42 for user ann"), "{r}");
        }
        other => panic!("taken: {other:?}"),
    }
    let script = Request::Script {
        job: cosy_model::api::JobRef { job, task: None },
    };
    for (who, request) in [
        ((ANN, SHADOW), Request::Ping),
        ((ANN, GROUP), script),
        ((0, 0), Request::Ping),
        ((BOB, GROUP), submit()),
    ] {
        match ask(who, request.clone()) {
            Reply::Refused(r) => assert_eq!(r.code, RefusalCode::Forbidden, "{r}"),
            other => panic!("{who:?} {request:?}: {other:?}"),
        }
    }
    let taken = ask((ANN, GROUP), submit());
    assert!(matches!(taken, Reply::Submitted { .. }), "{taken:?}");
    assert!(!c.work().join("stolen").exists());
}

#[test]
fn jobs_have_only_groups_of_the_directory() {
    if !system::root_or_skip() {
        return;
    }
    let c = cluster();
    let submit = |socket: &Path, gid: u32| {
        let words = [
            "csub",
            "--wait",
            "--",
            "sh",
            "-c",
            "id -g; id -G; echo $COSY_JOB_GID",
        ];
        let mut command = c.command(&words);
        command.uid(ANN).gid(gid).env("COSY_SOCKET", socket);
        run::run(&mut command)
    };
    let output = || {
        let last = fs::read_dir(c.work())
            .unwrap()
            .map(|e| e.unwrap().path())
            .max();
        fs::read_to_string(last.unwrap()).unwrap()
    };
    let (local, login) = (c.socket(), c.dir().join("relay1.sock"));
    submit(&login, SHADOW).expect_refusal("group 42 for user ann");
    submit(&login, GROUP + 1).expect(0);
    assert_eq!(output(), "54301\n54301 54300\n54301\n");
    let told = submit(&local, SHADOW).expect(0);
    assert!(told.err.contains("group 42: it runs with group 54300"), "{told:?}");
    assert_eq!(output(), "54300\n54300 54301\n54300\n");
}

#[test]
fn whose_requests_are_passed_on() {
    if !system::root_or_skip() {
        return;
    }
    let mut c = cluster();
    let relay = |c: &mut Cluster, login: &str, compute: &str| {
        let file = c.dir().join("cosy.toml");
        let text = fs::read_to_string(&file).unwrap();
        let kept = text.lines().filter(|line| !line.starts_with("relay = "));
        let text: String = kept
            .map(|line| {
                let more = match line {
                    "names = \"n1\"" => login,
                    "names = \"n2\"" => compute,
                    _ => return format!("{line}\n"),
                };
                format!("{line}\nrelay = {more}\n")
            })
            .collect();
        fs::write(&file, text).unwrap();
        c.run(&["cadm", "reload"]).expect(0);
    };
    let words = [
        "csub",
        "--parsable",
        "--require",
        "n2",
        "--",
        "sleep",
        "1000",
    ];
    let id = as_user(&c, ANN, &words).expect(0).out.trim().to_owned();
    c.until_state(JobId(id.parse().unwrap()), JobState::Running);
    let asks = |c: &Cluster, n, uid| through(c, n, uid, &["cstat"]).code;
    relay(&mut c, "[\"bob\", \"@ops\"]", "\"none\"");
    through(&c, 1, CAT, &["cstat"]).expect_refusal("'relay'");
    through(&c, 2, ANN, &["cstat"]).expect_refusal("'relay'");
    assert_eq!((asks(&c, 1, BOB), asks(&c, 1, ANN)), (0, 0));
    relay(&mut c, "\"users\"", "\"all\"");
    through(&c, 1, 0, &["cstat"]).expect_refusal("'relay'");
    let resume = ["cadm", "node", "resume", "n1"];
    through(&c, 1, CAT, &resume).expect_refusal("dministrator");
    as_user(&c, CAT, &resume).expect(0);
    assert_eq!((asks(&c, 1, CAT), asks(&c, 2, ANN)), (0, 0));
}

#[test]
fn a_key_that_nobody_knows() {
    let c = Cluster::start(1, Options::default());
    cosy_tests::cluster::new_key(&c.dir().join("other.key"));
    let bytes = fs::read(c.dir().join("other.key")).unwrap();
    let pair = cosy_proto::keys::KeyPair::from_pkcs8(&bytes).unwrap();
    let config = cosy_proto::tls::client_config(&pair, c.controller_key().public()).unwrap();
    let tls = rustls::ClientConnection::new(config, cosy_proto::tls::server_name()).unwrap();
    let tcp = TcpStream::connect(c.address()).unwrap();
    tcp.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut stream = rustls::StreamOwned::new(tls, tcp);
    let hello = Hello::node(0);
    stream
        .write_all(&frame::encode(&hello, 4096).unwrap())
        .unwrap();
    let reply: Option<HelloReply> = frame::read(&mut stream, 1 << 20).unwrap();
    assert!(matches!(reply, Some(HelloReply::Refused { .. })), "{reply:?}");
}

#[test]
fn the_socket_is_for_everyone_and_the_state_for_nobody() {
    let c = Cluster::start(1, Options::default());
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&c.socket()), 0o666);
    for name in ["cosy.db", "cosy.db-wal"] {
        assert_eq!(mode(&c.state_dir().join(name)) & 0o077, 0, "{name}");
    }
    // What was there and open to others is closed.
    let mut c = c;
    c.cosyd.kill();
    let open = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    open(&c.state_dir(), 0o777);
    open(&c.state_dir().join("cosy.db"), 0o644);
    c.start_cosyd();
    assert_eq!(mode(&c.state_dir()), 0o700);
    assert_eq!(mode(&c.state_dir().join("cosy.db")), 0o600);
    assert!(c.cosyd.log().contains("was open to others (mode 777)"));
    // A private key that others can read is refused.
    c.cosyd.kill();
    let key = c.dir().join("cosyd.key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    c.start_cosyd_only();
    assert!(!c.cosyd.try_ready());
    c.cosyd.await_end();
    assert!(c.cosyd.last_words(3).contains("read by others"), "{}", c.cosyd.log());
}

/// With `visibility = "all"` history tells of ended jobs of others what the list of ended jobs
/// tells: whose, and how they stand; not what their users have written, nor how they came out.
#[test]
fn everybody_is_told_the_same_of_ended_jobs_by_list_and_history() {
    if !system::root_or_skip() {
        return;
    }
    let c = cluster();
    let file = c.dir().join("cosy.toml");
    let text = fs::read_to_string(&file).unwrap();
    let changed = text.replacen("[policy]\n", "[policy]\nvisibility = \"all\"\n", 1);
    fs::write(&file, changed).unwrap();
    c.run(&["cadm", "reload"]).expect(0);
    let words = [
        "csub", "--wait", "-Q", "-J", "secret", "--", "sh", "-c", "exit 3",
    ];
    as_user(&c, ANN, &words).expect(3);
    let format = ["--no-header", "--format", "id,user,state,exit_code,name"];
    for list in [
        &["cstat", "-A", "-E"][..],
        &["chist", "-A"],
        &["chist", "1"],
    ] {
        let out = as_user(&c, BOB, &[list, &format].concat()).expect(0).out;
        let words: Vec<&str> = out.split_whitespace().collect();
        assert_eq!(words, ["1", "ann", "failed"], "{list:?}");
        let own = as_user(&c, ANN, &[list, &format].concat()).expect(0).out;
        assert!(own.contains("secret"), "{own}");
    }
    // What is not told cannot be asked for.
    let named = as_user(&c, BOB, &["chist", "-A", "-n", "secret", "--no-header"]);
    assert_eq!(named.expect(0).out, "");
}
