//! Windows of steps on the display of their command (`--x11`): a display made by the test, which
//! lets in only who shows its own cookie, and clients inside of jobs that know another one.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_proto::x11::authority::{self, DisplayName};
use cosy_tests::people::{ANN, BOB, GROUP};
use cosy_tests::run::{self, Output, Watched};
use cosy_tests::shell::shell_command;
use cosy_tests::{Cluster, Options, people, system, wait};
use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

const REAL: &[u8; 16] = b"the real cookie!";

/// What a display has seen.
#[derive(Default)]
struct Seen {
    /// Clients that have shown its cookie.
    clients: AtomicUsize,
    /// Those that are connected now.
    open: AtomicUsize,
    /// Every cookie that was shown.
    cookies: Mutex<Vec<Vec<u8>>>,
}

/// A display, and a file with its cookie.
struct Display {
    socket: PathBuf,
    authority: PathBuf,
    seen: Arc<Seen>,
}

impl Display {
    fn open(folder: &Path) -> Self {
        let socket = folder.join("display:7");
        let listener = UnixListener::bind(&socket).unwrap();
        fs::set_permissions(&socket, Permissions::from_mode(0o777)).unwrap();
        let authority = folder.join("authority");
        let mut file = Vec::new();
        let name = DisplayName {
            family: authority::LOCAL,
            address: nix::unistd::gethostname().unwrap().into_encoded_bytes(),
            number: b"7".to_vec(),
        };
        authority::put(&mut file, &name, REAL);
        fs::write(&authority, file).unwrap();
        fs::set_permissions(&authority, Permissions::from_mode(0o600)).unwrap();
        let seen = Arc::new(Seen::default());
        let of_thread = Arc::clone(&seen);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let seen = Arc::clone(&of_thread);
                std::thread::spawn(move || serve(client, &seen));
            }
        });
        Self {
            socket,
            authority,
            seen,
        }
    }

    /// Makes it the display of a command.
    fn of<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command
            .env("DISPLAY", &self.socket)
            .env("XAUTHORITY", &self.authority)
    }

    fn clients(&self) -> usize {
        self.seen.clients.load(Ordering::SeqCst)
    }

    fn open_clients(&self) -> usize {
        self.seen.open.load(Ordering::SeqCst)
    }
}

/// Lets a client in when it shows the right cookie, and sends everything back.
fn serve(mut client: UnixStream, seen: &Seen) {
    let mut words = [0; 12 + 20 + 16];
    if client.read_exact(&mut words).is_err() {
        return;
    }
    let cookie = &words[32..];
    seen.cookies.lock().unwrap().push(cookie.to_vec());
    if words[0] != b'l' || cookie != REAL {
        return;
    }
    seen.clients.fetch_add(1, Ordering::SeqCst);
    seen.open.fetch_add(1, Ordering::SeqCst);
    let _ = client.write_all(&[1, 0, 11, 0, 0, 0, 0, 0]);
    let mut buffer = vec![0; 100_000];
    while let Ok(count @ 1..) = client.read(&mut buffer) {
        if client.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    seen.open.fetch_sub(1, Ordering::SeqCst);
}

/// A cluster with a client for its jobs.
fn with_client(c: Cluster) -> Cluster {
    let client = c.dir().join("bin/x-client");
    fs::copy(env!("CARGO_BIN_EXE_cosy-x-client"), client).unwrap();
    c
}

fn cluster(nodes: usize) -> (Cluster, Display) {
    let c = with_client(Cluster::start(nodes, Options::default()));
    let display = Display::open(&c.work());
    (c, display)
}

fn shown(c: &Cluster, display: &Display, words: &[&str]) -> Output {
    run::run(display.of(&mut c.command(words)))
}

/// Files with cookies that nodes keep for programs.
fn kept_files(c: &Cluster) -> Vec<PathBuf> {
    let mut open = vec![c.node_dir(0)];
    let mut found = Vec::new();
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(next).into_iter().flatten().flatten() {
            let path = entry.path();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => open.push(path),
                _ if path.ends_with("Xauthority") => found.push(path),
                _ => {}
            }
        }
    }
    found
}

/// Commands of three kinds, a megabyte in both directions and more, and a cookie that never leaves
/// this side.
#[test]
fn clients_reach_the_display_of_their_command() {
    let (c, display) = cluster(1);
    for words in [
        &["srun", "--x11", "x-client", "3000000"][..],
        &["cosy", "run", "--x11", "x-client", "3000000"],
        &["cosy", "run", "--x11=first", "--pty", "x-client", "3000000"],
    ] {
        let told = shown(&c, &display, words).expect(0);
        assert_eq!(told.out.trim(), "1 clients: 3000000 bytes each", "{}", told.err);
    }
    assert_eq!(display.clients(), 3);
    let environment = shown(&c, &display, &["srun", "--x11", "sh", "-c", "env; xxd $XAUTHORITY"]);
    let real = String::from_utf8_lossy(REAL);
    let own = display.authority.display().to_string();
    assert!(environment.out.contains("DISPLAY=localhost:"), "{}", environment.out);
    assert!(!environment.out.contains(&*real) && !environment.out.contains(&own));
    // Without the option variables are what they were.
    let plain = shown(&c, &display, &["srun", "printenv", "DISPLAY"]).expect(0);
    assert_eq!(plain.out.trim(), display.socket.display().to_string());
    assert!(kept_files(&c).is_empty());
}

/// Input, output and windows share one stream, and none of them holds up the others.
#[test]
fn many_clients_at_once_beside_output() {
    let (c, display) = cluster(1);
    let script =
        "x-client 400000 --clients 60 & head -c 5000000 /dev/zero; wait $! && echo done >&2";
    let told = shown(&c, &display, &["srun", "--x11", "sh", "-c", script]).expect(0);
    let (zeros, said) = told.out.split_at(told.out.find('6').unwrap());
    assert_eq!((zeros.len(), said.trim()), (5_000_000, "60 clients: 400000 bytes each"));
    assert_eq!((told.err.trim(), display.clients()), ("done", 60));
    wait::until_true("the display is left alone", || display.open_clients() == 0);
}

/// More than are allowed are turned away, and those before them go on.
#[test]
fn clients_are_limited() {
    let (c, display) = cluster(1);
    let line = "x-client 10 --clients 64 --until go > held & \
                until grep -q 64 held; do sleep 0.05; done; x-client 10; echo $?; touch go; \
                wait $! && cat held";
    let told = shown(&c, &display, &["srun", "--x11", "sh", "-c", line]).expect(0);
    assert_eq!(told.out, "1\n64 clients: 10 bytes each\n", "{}", told.err);
}

#[test]
fn who_shows_another_cookie_gets_nothing() {
    let (c, display) = cluster(1);
    let line = "x-client 10 --no-cookie; echo $?";
    let told = shown(&c, &display, &["srun", "--x11", "sh", "-c", line]).expect(0);
    assert_eq!(told.out, "1\n");
    assert!(told.err.contains("refused: it does not show the cookie"), "{}", told.err);
    assert!(told.err.contains("srun: an X client on n1 was refused"), "{}", told.err);
    assert!(display.seen.cookies.lock().unwrap().is_empty(), "the display was connected to");
}

#[test]
fn without_a_display_nothing_is_started() {
    let (c, display) = cluster(1);
    let run = |words: &[&str], name: &str| {
        let mut command = c.command(words);
        run::run(display.of(&mut command).env("DISPLAY", name))
    };
    for program in ["srun", "salloc"] {
        let told = run(&[program, "--x11", "touch", "ran"], "");
        let text =
            format!("{program}: error: No DISPLAY variable set, cannot setup x11 forwarding.\n");
        assert_eq!((told.code, told.err), (1, text));
    }
    run(&["cosy", "run", "--x11", "touch", "ran"], "").expect_refusal("DISPLAY is not set");
    run(&["calloc", "--x11", "touch", "ran"], "").expect_refusal("DISPLAY is not set");
    run(&["cosy", "run", "--x11", "touch", "ran"], "nothing").expect_refusal("names no display");
    let nobody = run(&["srun", "--x11", "touch", "ran"], "/nowhere:1");
    assert!(
        nobody
            .err
            .contains("cannot connect to the display '/nowhere:1'"),
        "{}",
        nobody.err
    );
    run(&["cosy", "run", "--x11=some", "true"], ":0").expect(2);
    let wrong = run(&["srun", "--x11=some", "true"], ":0").expect(1);
    assert!(wrong.err.contains("Invalid --x11 argument: all, first"), "{}", wrong.err);
    let script = run(&["sbatch", "--x11", "--wrap=true"], ":0");
    assert!(script.code != 0 && script.err.contains("srun --x11"), "{}", script.err);
    assert!(!c.work().join("ran").exists());
    assert_eq!(c.run(&["chist", "--noheader"]).out, "");
}

/// What an allocation asks for is for all steps from its shell, on whichever node, and for nobody
/// else.
#[test]
fn steps_of_an_allocation_inherit_it() {
    let (c, display) = cluster(3);
    let line = "srun x-client 100000; srun -N1 -n1 --relative 1 x-client 20; env -u SLURM_JOB_ID \
                -u COSY_JOB_ID COSY_X11=1:all srun --overlap printenv XAUTHORITY";
    let told = shown(&c, &display, &["salloc", "-N2", "--x11", "sh", "-c", line]);
    assert!(told.out.contains("1 clients: 20 bytes each"), "{told:?}");
    assert_eq!(told.out.matches("1 clients: 100000 bytes each").count(), 2, "{told:?}");
    assert!(
        told.out
            .ends_with(&format!("{}\n", display.authority.display())),
        "{told:?}"
    );
    let line = "cosy run x-client 100000 && cosy run --x11=last -N2 sh -c \
                'test -e \"$XAUTHORITY\" -a $COSY_NODENAME = n2 && x-client 20'; true";
    let told = shown(&c, &display, &["calloc", "-N2", "--x11", "sh", "-c", line]).expect(0);
    assert_eq!(told.out.matches("100000 bytes each").count(), 2, "{told:?}");
    assert_eq!(told.out.matches("20 bytes each").count(), 1, "{told:?}");
    // The file with the cookie goes with its step, not with the job.
    let line =
        format!("srun sh -c 'test -e $XAUTHORITY'; find {} -name Xauthority", c.dir().display());
    let told = shown(&c, &display, &["salloc", "-Q", "-N2", "--x11", "sh", "-c", &line]).expect(0);
    assert_eq!((&*told.out, &*told.err), ("", ""));
    // A command in a step finds the step's display: it goes through both.
    let line = "srun --overlap --x11 x-client 300000";
    let told = shown(&c, &display, &["srun", "--x11", "sh", "-c", line]).expect(0);
    assert!(told.out.contains("1 clients: 300000 bytes each"), "{told:?}");
}

/// The file is the user's alone, the port tells others nothing, and both go with the step.
#[test]
fn an_ordinary_user_has_it_alone() {
    if !system::root_or_skip() {
        return;
    }
    let c = with_client(people::start(1, Options::default()));
    fs::set_permissions(c.work(), Permissions::from_mode(0o777)).unwrap();
    let display = Display::open(&c.work());
    chown(&display.authority, Some(ANN), Some(GROUP)).unwrap();
    let line = "stat -c '%a %u' $XAUTHORITY $(dirname $XAUTHORITY); echo $DISPLAY $XAUTHORITY; \
                x-client 100000 && touch there; while ! [ -e go ]; do sleep 0.05; done";
    let mut command = c.command(&["srun", "--x11", "sh", "-c", line]);
    let watched = Watched::start(display.of(&mut command).uid(ANN).gid(GROUP), &c.work());
    wait::until_true("ann's client was let in", || c.work().join("there").exists());
    let out = watched.out();
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines[..2], [format!("600 {ANN}"), format!("700 {ANN}")]);
    let (name, file) = lines[2].split_once(' ').unwrap();
    let bob = |line: &str| run::run(shell_command(&c, line).uid(BOB).gid(GROUP));
    assert_ne!(bob(&format!("cat {file}")).code, 0);
    assert_eq!(kept_files(&c), [Path::new(file)]);
    // Bob finds the port, but has no cookie.
    let port: u16 = name["localhost:".len()..name.len() - 2].parse().unwrap();
    let mut stranger = TcpStream::connect(("127.0.0.1", 6000 + port)).unwrap();
    stranger.write_all(b"l\0\x0b\0\0\0\0\0\0\0\0\0").unwrap();
    let mut answer = Vec::new();
    stranger.read_to_end(&mut answer).unwrap();
    assert_eq!(answer[0], 0, "{answer:?}");
    assert_eq!(display.clients(), 1);
    fs::write(c.work().join("go"), "").unwrap();
    watched.finish().expect(0);
    assert!(kept_files(&c).is_empty());
    assert!(TcpStream::connect(("127.0.0.1", 6000 + port)).is_err(), "somebody listens still");
}

/// A supervisor that is killed leaves nothing behind either.
#[test]
fn nothing_is_left_of_a_step_that_is_lost() {
    if !system::root_or_skip() {
        return;
    }
    let (c, display) = cluster(1);
    let line = "touch there; sleep 1000";
    let mut command = c.command(&["srun", "--x11", "sh", "-c", line]);
    let watched = Watched::start(display.of(&mut command), &c.work());
    wait::until_true("the step runs", || c.work().join("there").exists());
    assert_eq!(kept_files(&c).len(), 1);
    for process in c.shepherds() {
        process.kill(nix::sys::signal::Signal::SIGKILL);
    }
    assert_ne!(watched.finish().code, 0);
    wait::until_true("the file is gone", || kept_files(&c).is_empty());
}
