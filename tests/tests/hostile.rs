//! Bad input: random bytes, cut frames, absurd lengths and slow writers on every socket,
//! nonsense in every option. The daemons stay as quick and as small as before.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::api::{Reply, Request};
use cosy_model::job::ArraySpec;
use cosy_model::{Container, ContainerMount, ContainerSource, OsText, RefusalCode};
use cosy_proto::client::RequestFrame;
use cosy_proto::frame;
use cosy_tests::{Chance, Client, Cluster, Options, people, run, script, system, wait};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

/// Growth of a daemon that is not a leak, in KiB.
const GROWTH: u64 = 40 << 10;

fn cluster() -> Cluster {
    Cluster::start(
        1,
        Options {
            noded: |_| "socket = \"DIR/relay.sock\"".into(),
            entry: |_| "login = true".into(),
            ..Options::default()
        },
    )
}

fn is_quick(c: &Cluster, socket: &Path) {
    let best = (0..20).map(|_| {
        let start = Instant::now();
        let reply = Client::connect(socket).and_then(|mut c| c.ask(Request::Ping));
        assert!(matches!(reply, Ok(Reply::Pong { .. })), "{reply:?}\n{}", c.logs());
        start.elapsed()
    });
    let best = best.min().unwrap();
    assert!(best < Duration::from_millis(200), "an answer takes {best:?}");
}

/// Lets a test hurt a socket, then looks at the daemons.
fn unharmed(c: &mut Cluster, hurt: impl FnOnce(&Cluster)) {
    c.run(&["csub", "--wait", "-Q", "--", "true"]).expect(0);
    let pids = [c.cosyd.pid(), c.nodes[0].pid()];
    let before = pids.map(|p| (system::resident_kib(p), system::open_files(p)));
    hurt(c);
    is_quick(c, &c.socket());
    is_quick(c, &c.dir().join("relay.sock"));
    c.run(&["csub", "--wait", "-Q", "--", "true"]).expect(0);
    assert!(c.cosyd.is_running() && c.nodes[0].is_running());
    for (pid, (kib, files)) in pids.into_iter().zip(before) {
        wait::until_true("connections are closed again", || system::open_files(pid) <= files + 8);
        let now = system::resident_kib(pid);
        eprintln!("from {kib} to {now} KiB");
        assert!(now < kib + GROWTH, "it grew from {kib} to {now} KiB");
    }
}

fn sockets(c: &Cluster) -> [std::path::PathBuf; 2] {
    [c.socket(), c.dir().join("relay.sock")]
}

fn valid() -> Vec<u8> {
    frame::encode(&RequestFrame::new(Request::Queues, None), 1 << 20).unwrap()
}

/// Bytes that are no request.
fn nonsense(chance: &mut Chance) -> Vec<u8> {
    let mut bytes = match chance.below(6) {
        0 => {
            let n = chance.below(300) as usize;
            chance.bytes(n)
        }
        // A length of that many bytes, then less.
        1 => (chance.next() as u32).to_le_bytes().to_vec(),
        2 => u32::MAX.to_le_bytes().to_vec(),
        3 => {
            // A frame of random bytes.
            let n = chance.below(2000) as usize;
            let mut whole = (n as u32).to_le_bytes().to_vec();
            whole.extend(chance.bytes(n));
            whole
        }
        4 => {
            // Deeply nested, or arrays that promise four thousand million elements.
            let byte = [0x91, 0x81, 0xdd, 0xdf, 0xc6][chance.below(5) as usize];
            let body = vec![if chance.one_in(2) { byte } else { 0xff }; 5000];
            let mut whole = 5000u32.to_le_bytes().to_vec();
            whole.push(byte);
            whole.extend(&body[1..]);
            whole
        }
        _ => {
            // A request with a few bytes changed.
            let mut whole = valid();
            for _ in 0..=chance.below(3) {
                let at = chance.below(whole.len() as u64) as usize;
                whole[at] = chance.next().to_le_bytes()[0];
            }
            whole
        }
    };
    if chance.one_in(3) {
        bytes.truncate(chance.below(bytes.len() as u64 + 1) as usize);
    }
    bytes
}

#[test]
fn random_bytes() {
    let mut chance = Chance::from_environment();
    let mut c = cluster();
    unharmed(&mut c, |c| {
        for socket in sockets(c) {
            for _ in 0..1500 {
                let mut stream = UnixStream::connect(&socket).unwrap();
                let _ = stream.write_all(&nonsense(&mut chance));
                if chance.one_in(2) {
                    let _ = stream.shutdown(std::net::Shutdown::Write);
                    stream
                        .set_read_timeout(Some(Duration::from_secs(30)))
                        .unwrap();
                    let _ = stream.read(&mut [0; 4096]);
                }
            }
        }
        for _ in 0..500 {
            let mut stream = TcpStream::connect(c.address()).unwrap();
            let mut bytes = nonsense(&mut chance);
            if chance.one_in(2) {
                // As if it were TLS.
                bytes.splice(0..0, [0x16, 3, 1, 1, 0, 1, 0, 0, 0xfc, 3, 3]);
            }
            let _ = stream.write_all(&bytes);
        }
    });
}

/// Whoever finds the port of a step's display: no display, no memory and no place is his.
#[test]
fn clients_of_displays_that_are_none() {
    let mut chance = Chance::from_environment();
    let mut c = cluster();
    unharmed(&mut c, |c| {
        let display = c.work().join("display:0");
        let listener = UnixListener::bind(&display).unwrap();
        let line = "echo $DISPLAY > named; mv named there; until [ -e go ]; do sleep 0.05; done";
        let mut command = c.command(&["srun", "--x11", "sh", "-c", line]);
        let mut srun = command.env("DISPLAY", &display).spawn().unwrap();
        let there = c.work().join("there");
        wait::until_true("the step has a display", || there.exists());
        // The command itself has looked whether somebody is there.
        listener.set_nonblocking(true).unwrap();
        assert!(listener.incoming().map_while(Result::ok).count() > 0);
        let name = fs::read_to_string(there).unwrap();
        let number = name
            .strip_prefix("localhost:")
            .unwrap()
            .strip_suffix(".0\n");
        let port = 6000 + number.unwrap().parse::<u16>().unwrap();
        let pids: Vec<u32> = c.shepherds().iter().map(|p| p.pid.unsigned_abs()).collect();
        let pids = [pids, vec![srun.id()]].concat();
        let connect = || TcpStream::connect(("127.0.0.1", port)).unwrap();
        // Those that say nothing keep some places, and go on doing so.
        let silent: Vec<TcpStream> = std::iter::repeat_with(connect).take(20).collect();
        for _ in 0..500 {
            let mut stream = connect();
            let mut bytes = nonsense(&mut chance);
            if let Some(first) = bytes.first_mut().filter(|_| chance.one_in(2)) {
                *first = if chance.one_in(2) { b'l' } else { b'B' };
            }
            let _ = stream.write_all(&bytes);
        }
        for first in [b'l', b'B', b'x'] {
            let mut stream = connect();
            let flood = vec![first; 4 << 20];
            let _ = stream.write_all(&flood);
        }
        for pid in pids {
            let kib = system::peak_kib(pid);
            assert!((1..GROWTH).contains(&kib), "it took {kib} KiB");
        }
        fs::write(c.work().join("go"), "").unwrap();
        assert!(srun.wait().unwrap().success());
        drop(silent);
        assert_eq!(listener.incoming().map_while(Result::ok).count(), 0);
    });
}

/// Where programs that let users in ask, only root does.
#[test]
fn nobody_says_who_logs_in() {
    if !system::root_or_skip() {
        return;
    }
    let mut chance = Chance::from_environment();
    let mut c = cluster();
    unharmed(&mut c, |c| {
        let socket = c.dir().join("relay.login.sock");
        let ask = || -> std::io::Result<Vec<u8>> {
            let mut stream = UnixStream::connect(&socket)?;
            stream.write_all(b"login 1 1000 newest\n")?;
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer)?;
            Ok(answer)
        };
        people::as_user(1000, ask).unwrap_err();
        fs::set_permissions(&socket, fs::Permissions::from_mode(0o666)).unwrap();
        let told = people::as_user(1000, ask);
        assert!(told.as_ref().map_or(true, Vec::is_empty), "{told:?}");
        assert_eq!(ask().unwrap(), b"none n1\nend\n");
        // Root itself says nonsense, nothing, and too much.
        for _ in 0..500 {
            let mut stream = UnixStream::connect(&socket).unwrap();
            let _ = stream.write_all(&nonsense(&mut chance));
        }
        let silent = (0..300).map(|_| UnixStream::connect(&socket).unwrap());
        let silent: Vec<UnixStream> = silent.collect();
        let mut long = UnixStream::connect(&socket).unwrap();
        while long.write_all(&[b'1'; 4096]).is_ok() {}
        drop(silent);
        wait::until_true("logins are decided again", || {
            ask().is_ok_and(|answer| answer == b"none n1\nend\n")
        });
    });
}

#[test]
fn every_cut_of_a_request() {
    let mut c = cluster();
    unharmed(&mut c, |c| {
        let whole = valid();
        for socket in sockets(c) {
            for cut in 0..whole.len() {
                let mut stream = UnixStream::connect(&socket).unwrap();
                stream.write_all(&whole[..cut]).unwrap();
                drop(stream);
            }
            // Byte by byte it is a request all the same.
            let mut stream = UnixStream::connect(&socket).unwrap();
            for byte in &whole {
                stream.write_all(&[*byte]).unwrap();
            }
            let mut header = [0; 4];
            stream
                .set_read_timeout(Some(Duration::from_secs(30)))
                .unwrap();
            stream.read_exact(&mut header).unwrap();
            assert!(u32::from_le_bytes(header) > 10);
        }
    });
}

/// As many connections as may be, each with half a request.
#[test]
fn thousands_of_connections() {
    let mut c = cluster();
    let (_, most) =
        nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE).unwrap();
    let want = 3000.min(most.saturating_sub(500) / 2) as usize;
    let _ = nix::sys::resource::setrlimit(
        nix::sys::resource::Resource::RLIMIT_NOFILE,
        most.min(20_000),
        most,
    );
    unharmed(&mut c, |c| {
        for socket in sockets(c) {
            let mut open = Vec::new();
            for at in 0..want {
                let Ok(mut stream) = UnixStream::connect(&socket) else {
                    break;
                };
                if at % 2 == 0 {
                    let _ = stream.write_all(&valid()[..3]);
                }
                open.push(stream);
            }
            eprintln!("{} connections to {}", open.len(), socket.display());
            assert!(open.len() > 500);
        }
        let mut open = Vec::new();
        for _ in 0..want.min(1000) {
            let Ok(stream) = TcpStream::connect(c.address()) else {
                break;
            };
            open.push(stream);
        }
        eprintln!("{} connections to {}", open.len(), c.address());
        // Commands are still answered, and the node is still heard.
        is_quick(c, &c.socket());
    });
}

#[test]
fn large_promises_are_not_believed() {
    let mut c = cluster();
    unharmed(&mut c, |c| {
        let mut held = Vec::new();
        for socket in sockets(c) {
            for _ in 0..40 {
                let mut stream = UnixStream::connect(&socket).unwrap();
                // 16 MiB are allowed; they never come.
                stream.write_all(&(16u32 << 20).to_le_bytes()).unwrap();
                stream.write_all(&[0x81; 1000]).unwrap();
                held.push(stream);
            }
        }
        let grown = system::resident_kib(c.cosyd.pid());
        assert!(grown < 300 << 10, "{grown} KiB for promises");
    });
}

#[test]
fn a_slow_writer_is_sent_away() {
    let c = cluster();
    let mut slow = sockets(&c).map(|socket| UnixStream::connect(socket).unwrap());
    for stream in &mut slow {
        stream.write_all(&valid()[..10]).unwrap();
    }
    for mut stream in slow {
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        let mut said = Vec::new();
        stream.read_to_end(&mut said).unwrap();
    }
}

#[test]
fn absurd_requests_are_refused() {
    let mut c = cluster();
    unharmed(&mut c, |c| {
        let mut submission = script(&c.work(), "exit 0");
        submission.array = Some(ArraySpec {
            ranges: vec![(1, 1_000_000, 1)],
            at_once: None,
        });
        let check = |submission: &cosy_model::api::Submission| {
            let refusal = c.client().submit(submission).unwrap().unwrap_err();
            assert_ne!(refusal.code, RefusalCode::Unavailable, "{refusal}");
            refusal.message
        };
        assert!(check(&submission).contains("1000000"));
        submission.array = Some(ArraySpec {
            ranges: vec![(0, u32::MAX, 1); 1000],
            at_once: None,
        });
        check(&submission);
        submission.array = Some(ArraySpec {
            ranges: vec![(5, 1, 0)],
            at_once: Some(0),
        });
        check(&submission);
        let mut submission = script(&c.work(), "exit 0");
        submission.script = OsText(vec![b'#'; 5 << 20]);
        check(&submission);
        let base = script(&c.work(), "exit 0");
        let variants: [fn(&mut cosy_model::JobSpec); 12] = [
            |s| s.name = "x".repeat(100_000),
            |s| s.name = "a\nb\0c".into(),
            |s| s.workdir = "relative".into(),
            |s| s.workdir = OsText(b"/a\0b".to_vec()),
            |s| s.stdout = Some(OsText(vec![b'x'; 100_000])),
            |s| s.request.nodes = Some(u32::MAX),
            |s| s.request.nodes = Some(0),
            |s| s.request.cores_per_task = 0,
            |s| s.request.cores_per_task = u32::MAX,
            |s| s.request.tasks = Some(u32::MAX),
            |s| s.environment = OsText(vec![b'x'; 3 << 20]),
            |s| s.time_limit = Some(cosy_model::Span(-5)),
        ];
        for (at, change) in variants.iter().enumerate() {
            let mut submission = base.clone();
            change(&mut submission.spec);
            match c.client().submit(&submission).unwrap() {
                Err(refusal) => assert!(!refusal.message.contains('\n'), "{refusal}"),
                Ok(job) => panic!("variant {at} became job {job}"),
            }
        }
    });
}

#[test]
fn files_that_are_no_scripts() {
    let c = cluster();
    let file = |name: &str, bytes: &[u8]| {
        fs::write(c.work().join(name), bytes).unwrap();
        name.to_owned()
    };
    let start = Instant::now();
    let huge = fs::File::create(c.work().join("huge")).unwrap();
    huge.set_len(100 << 20).unwrap();
    for (name, text) in [
        ("huge".to_owned(), "huge"),
        (file("empty", b""), "empty"),
        (file("binary", b"\x7fELF\x02\x01\0\0\0"), "binary"),
        (file("nul", b"#!/bin/sh\necho \0\n"), "nul"),
        ("missing".to_owned(), "missing"),
        (".".to_owned(), "."),
        (file("bad-directive", b"#!/bin/sh\n#COSY --nodes lots\n"), "nodes"),
        (file("odd-directive", b"#!/bin/sh\n#COSY --noodles 1\n"), "noodles"),
    ] {
        c.run(&["csub", &name]).expect_refusal(text);
    }
    let large = vec![b'#'; 100 << 20];
    let output = run::run_with(&mut c.command(&["csub"]), &large);
    assert_ne!(output.code, 0);
    assert_eq!(output.err.lines().count(), 1, "{}", output.err);
    assert!(start.elapsed() < Duration::from_secs(60));
    assert_eq!(c.client().jobs(Default::default()).unwrap().rows, 0);
}

/// The options that take a value, out of a command's help.
fn options(c: &Cluster, words: &[&str]) -> Vec<String> {
    let mut all = words.to_vec();
    all.push("--help");
    let help = c.run(&all).expect(0).out;
    let lines = help
        .lines()
        .filter_map(|l| l.trim_start().split("  ").next());
    lines
        .filter(|l| l.starts_with('-') && l.contains('<'))
        .filter_map(|l| l.split([' ', ',']).find(|w| w.starts_with("--")))
        .map(|w| w.split('[').next().unwrap().to_owned())
        .collect()
}

#[test]
fn nonsense_in_every_option() {
    let c = cluster();
    // Texts that say anything are no nonsense; neither are times to look back from.
    let free = [
        "--comment",
        "--name",
        "--account",
        "--qos",
        "--output",
        "--error",
        "--input",
        "--env",
        "--mail-user",
        "--reason",
        "--user",
        "--chdir",
        // Names of files.
        "--container",
        "--container-save",
    ];
    let nonsense = [
        "",
        "\u{1}\u{2}",
        "-1",
        "99999999999999999999999",
        "n[1-1000000000]",
        "a b\tc",
        "%%%",
        "é☃",
    ];
    let commands: [&[&str]; 8] = [
        &["csub"],
        &["cstat"],
        &["ccancel"],
        &["chist"],
        &["cosy", "change"],
        &["cadm", "node", "drain"],
        &["cadm", "node", "token"],
        &["cadm", "events"],
    ];
    let mut tried = 0;
    for command in commands {
        for option in options(&c, command) {
            for value in nonsense {
                let given = format!("{option}={value}");
                let mut words = command.to_vec();
                words.push(&given);
                match command {
                    ["csub"] => words.extend(["--hold", "--", "true"]),
                    ["cosy", "change"] => words.push("4711"),
                    ["cadm", "node", ..] => words.push("n1"),
                    _ => {}
                }
                let output = c.run(&words);
                tried += 1;
                assert!(output.code < 100, "{words:?}: {output:?}");
                assert!(output.err.lines().count() <= 1, "{words:?}: {output:?}");
                let said = output.err.to_lowercase();
                assert!(!said.contains("panicked"), "{words:?}: {output:?}");
                let must_fail = command == ["csub"]
                    && !free.contains(&option.as_str())
                    && ["\u{1}\u{2}", "%%%", "a b\tc", "é☃"].contains(&value);
                assert!(!must_fail || output.code != 0, "accepted: {words:?}: {output:?}");
                assert!(
                    output.code == 0 || output.err.lines().count() == 1,
                    "{words:?}: {output:?}"
                );
            }
        }
    }
    eprintln!("{tried} command lines");
    assert!(tried > 200);
    is_quick(&c, &c.socket());
}

#[test]
fn nonsense_instead_of_words() {
    let c = cluster();
    for words in [
        &["csub", "--no-such-option"][..],
        &["csub", "-a", "1-1000000", "--", "true"],
        &["csub", "--avoid", "n[1-1000000000]", "--", "true"],
        &["csub", "-d", "afterok:999999", "--", "true"],
        &["csub", "-d", "nonsense", "--", "true"],
        &["csub", "--begin", "nevermore", "--", "true"],
        &["csub", "--"],
        &["cstat", "999999"],
        &["cstat", "nonsense"],
        &["cstat", "-s", "sleepy"],
        &["cstat", "--format", "nonsense"],
        &["ccancel"],
        &["ccancel", "-5"],
        &["ccancel", "12_[3-1]"],
        &["ccancel", "1_[1-99999999999]"],
        &["ccancel", "999999"],
        &["ccancel", "--signal", "SIGNONSENSE", "1"],
        &["cosy"],
        &["cosy", "nonsense"],
        &["cosy", "wait", "0"],
        &["cosy", "hold"],
        &["cosy", "release", "x"],
        &["cadm"],
        &["cadm", "nonsense"],
        &["cadm", "node", "drain", "n9", "--reason", "x"],
        &["cadm", "node", "drain", "n[1-1000000000]", "--reason", "x"],
        &["cadm", "queue", "close", "nowhere"],
    ] {
        let output = c.run(words);
        assert_ne!(output.code, 0, "{words:?}: {output:?}");
        assert!(output.code < 100, "{words:?}: {output:?}");
        let lines = output.err.lines().count();
        assert!(lines + output.out.lines().count() >= 1, "{words:?}: {output:?}");
        // Those without any word print how they are used.
        assert!(lines == 1 || words.len() == 1, "{words:?}: {output:?}");
    }
}

/// What `csub` refuses, asked for without it.
#[test]
fn containers_that_would_be_something_else() {
    let mut c = cluster();
    unharmed(&mut c, |c| {
        let image = |image: &str| Container {
            source: ContainerSource::Image(image.to_owned()),
            mounts: Vec::new(),
            workdir: None,
            name: None,
            save: None,
            mount_home: None,
            remap_root: None,
            entrypoint: false,
            writable: false,
            env: Vec::new(),
        };
        let check = |container: Container| {
            let mut submission = script(&c.work(), "exit 0");
            submission.spec.container = Some(Box::new(container));
            let refusal = c.client().submit(&submission).unwrap().unwrap_err();
            assert_eq!(refusal.code, RefusalCode::Invalid, "{refusal}");
            assert!(refusal.message.len() < 400 && !refusal.message.contains('\n'), "{refusal}");
        };
        for name in [
            "--privileged",
            "-v/:/host",
            "a\nb",
            "a\0b",
            "$(id)",
            "a b",
            "",
        ] {
            check(image(name));
        }
        check(image(&"a".repeat(1 << 20)));
        let mount = |source: &str, target: &str, flag: &str| ContainerMount {
            source: source.to_owned(),
            target: target.to_owned(),
            flags: vec![flag.to_owned()],
        };
        let mounts = |mounts: Vec<ContainerMount>| Container {
            mounts,
            ..image("x")
        };
        check(mounts(vec![mount("/x", "/y", "ro"); 10_000]));
        for (source, target, flag) in [
            ("/x,upperdir=/etc", "/y", "ro"),
            ("/x:/etc", "/y", "ro"),
            ("/x\n/etc:/etc:", "/y", "ro"),
            ("--privileged", "/y", "ro"),
            ("/x", "y", "ro"),
            ("/x", "/y", "ro\n/etc:/etc:"),
            ("/x", "/y", "suid"),
        ] {
            check(mounts(vec![mount(source, target, flag)]));
        }
        check(mounts(vec![mount(&format!("/{}", "x".repeat(4000)), "/y", "ro"); 64]));
        let name = Some("../../etc".to_owned());
        check(Container { name, ..image("x") });
        let env = vec!["A=$(id)".to_owned()];
        check(Container { env, ..image("x") });
        let workdir = Some("/a\n/b".to_owned());
        check(Container {
            workdir,
            ..image("x")
        });
        let source = ContainerSource::Named;
        check(Container {
            source,
            ..image("x")
        });
    });
}
