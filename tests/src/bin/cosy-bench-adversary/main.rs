//! `cosy-bench-adversary`: for each kind of request the worst one that the limits allow, from
//! one user on several connections, beside another user who submits all the time.
//!
//! `cosy-bench-adversary [--waiting N] [--secs N] [--memory MIB] [--only NUMBER]`: a controller of
//! its own with N waiting jobs (100,000). For each attack, of so many seconds (3), it prints
//! the other user's submissions (number, median, 99th of 100, longest, in milliseconds), the
//! adversary's requests (number, how many were refused, longest), the longest turn of the
//! controller meanwhile as others waited and as its thread was at work, the kind that was at work
//! longest in one (all out of `cadm ping -v`), and the controller's largest memory so far. With `--memory` the controller has a control group with that limit; when it
//! ends, that is said, and it is started again. Needs root, to be two users.

mod attacks;
mod bench;

use attacks::attacks;
use bench::{ARRAY, Act, Attack, Bench};
use cosy_model::api::{MeterRow, Reply, Request, TURN_BOUNDS_MS, WHOLE_TURN};
use cosy_model::{ArraySpec, JobId, limits};
use cosy_tests::bench::arguments;
use cosy_tests::memory_group::MemoryGroup;
use cosy_tests::people::{self, ANN, BOB};
use cosy_tests::{Client, Options, command, system};
use nix::libc;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::exit;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Connections of the adversary at once.
const CONNECTIONS: usize = 6;

struct Settings {
    waiting: usize,
    secs: usize,
    memory: usize,
    only: usize,
}

fn main() {
    let mut settings = Settings {
        waiting: 100_000,
        secs: 3,
        memory: 0,
        only: 0,
    };
    let usage = "cosy-bench-adversary [--waiting N] [--secs N] [--memory MIB] [--only NUMBER]";
    let mut numbers = [
        ("--waiting", &mut settings.waiting),
        ("--secs", &mut settings.secs),
        ("--memory", &mut settings.memory),
        ("--only", &mut settings.only),
    ];
    arguments(usage, &mut numbers, None);
    if !system::is_root() {
        eprintln!("cosy-bench-adversary: skipped: only root can be two users");
        return;
    }
    if let Err(e) = run(&settings) {
        eprintln!("cosy-bench-adversary: {e}");
        exit(1);
    }
}

/// This thread is that user for the sockets that it opens from now on.
fn become_user(uid: u32) {
    let same = libc::c_long::from(u32::MAX as i32);
    // SAFETY: plain system calls; without the C library's wrapper they concern this thread.
    unsafe {
        libc::syscall(libc::SYS_setresgid, same, libc::c_long::from(people::GROUP), same);
        libc::syscall(libc::SYS_setresuid, same, libc::c_long::from(uid), same);
    }
}

fn run(settings: &Settings) -> Result<(), String> {
    let mut bench = Bench::start(settings);
    println!(
        "| attack | submissions of another user | p50 ms | p99 ms | max ms | attacks | refused | longest ms | longest turn ms | at work ms | kind, at work ms | largest memory MiB |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|");
    for (at, attack) in (1..).zip(attacks(&bench)) {
        if settings.only != 0 && settings.only != at {
            continue;
        }
        bench.measure(&attack, Duration::from_secs(settings.secs as u64))?;
        if !bench.cluster.cosyd.is_running() {
            println!("| the controller has ended at: {} | | | | | | | | | | | |", attack.name);
            bench.cluster.cosyd.await_end();
            bench.cluster.start_cosyd();
            bench.limit(settings.memory);
        }
    }
    Ok(())
}

impl Bench {
    fn start(settings: &Settings) -> Self {
        let cluster = people::start(1, Options::default());
        let mut bench = Self {
            socket: cluster.socket(),
            work: cluster.work(),
            cluster,
            group: None,
            array: JobId(0),
        };
        // Nobody's node: everything waits.
        bench.cluster.nodes[0].kill();
        bench.fill(settings.waiting);
        bench.limit(settings.memory);
        bench
    }

    /// Half of the waiting jobs are single ones of the other user's, half tasks.
    fn fill(&mut self, waiting: usize) {
        let socket = self.socket.clone();
        let single = command(&self.work, &["true"]);
        let tasks = (waiting / 2).clamp(1, ARRAY as usize) as u32;
        let mut array = single.clone();
        array.array = Some(ArraySpec {
            ranges: vec![(1, tasks, 1)],
            at_once: None,
        });
        let singles = waiting - tasks as usize;
        let filled = std::thread::spawn(move || {
            become_user(BOB);
            let mut client = Client::connect(&socket).expect("the controller is there");
            let array = client.submit(&array).expect("an answer").expect("an array");
            let each = || {
                let (socket, single) = (socket.clone(), single.clone());
                std::thread::spawn(move || {
                    become_user(ANN);
                    let mut client = Client::connect(&socket).expect("the controller is there");
                    for _ in 0..singles / 8 {
                        let _ = client.submit(&single);
                    }
                })
            };
            let all: Vec<_> = (0..8).map(|_| each()).collect();
            all.into_iter().for_each(|t| t.join().expect("it fills"));
            array
        });
        self.array = filled.join().expect("it fills");
    }

    /// Gives the controller a control group with a limit.
    fn limit(&mut self, mib: usize) {
        if mib == 0 {
            return;
        }
        let pid = self.cluster.cosyd.pid();
        let done = match &self.group {
            Some(group) => group.add(pid),
            None => MemoryGroup::limit(pid, mib).map(|group| self.group = Some(group)),
        };
        if let Err(e) = done {
            eprintln!("no limit on memory here: {e}");
        }
    }

    fn measure(&mut self, attack: &Attack, length: Duration) -> Result<(), String> {
        let stop = Arc::new(AtomicBool::new(false));
        let before = self.meter();
        let honest = self.honest(stop.clone());
        let attacked = Arc::new(Mutex::new(Attacked::default()));
        let attackers: Vec<_> = (0..CONNECTIONS)
            .map(|_| self.attacker(attack, stop.clone(), attacked.clone()))
            .collect();
        std::thread::sleep(length);
        stop.store(true, Ordering::Relaxed);
        let times = honest.join().map_err(|_| "the other user failed")?;
        for attacker in attackers {
            let _ = attacker.join();
        }
        let (n, p50, p99, max) = figures(times);
        let attacked = attacked.lock().map_err(|_| "an attacker failed")?;
        println!(
            "| {} | {n} | {p50:.1} | {p99:.1} | {max:.1} | {} | {} | {:.0} | {} | {} |",
            attack.name,
            attacked.count,
            attacked.refused,
            attacked.longest.as_secs_f64() * 1e3,
            longest_turn(&before, &self.meter()),
            peak_mib(
                self.cluster
                    .cosyd
                    .is_running()
                    .then(|| self.cluster.cosyd.pid())
            ),
        );
        Ok(())
    }

    /// How long things have held the controller up so far; nothing when it does not answer.
    fn meter(&self) -> Vec<MeterRow> {
        let asked = Client::connect(&self.socket).map(|mut root| root.ask(Request::Meter));
        match asked {
            Ok(Ok(Reply::Meter { kinds, .. })) => kinds,
            Ok(_) | Err(_) => Vec::new(),
        }
    }

    /// Submits jobs one after another; how long each took.
    fn honest(&self, stop: Arc<AtomicBool>) -> std::thread::JoinHandle<Vec<Duration>> {
        let socket = self.socket.clone();
        let mut job = command(&self.work, &["true"]);
        job.spec.hold = true;
        std::thread::spawn(move || {
            become_user(ANN);
            let mut times = Vec::new();
            let Ok(mut client) = Client::connect(&socket) else {
                return times;
            };
            while !stop.load(Ordering::Relaxed) {
                let start = Instant::now();
                let answer = client.submit(&job);
                times.push(start.elapsed());
                match answer {
                    Ok(_) => {}
                    Err(_) => match Client::connect(&socket) {
                        Ok(again) => client = again,
                        Err(_) => return times,
                    },
                }
                std::thread::sleep(Duration::from_millis(2));
            }
            times
        })
    }

    fn attacker(
        &self,
        attack: &Attack,
        stop: Arc<AtomicBool>,
        attacked: Arc<Mutex<Attacked>>,
    ) -> std::thread::JoinHandle<()> {
        let socket = self.socket.clone();
        let act = match &attack.act {
            Act::Ask(request) => Act::Ask(request.clone()),
            Act::Deaf(request) => Act::Deaf(request.clone()),
            Act::Bytes(bytes) => Act::Bytes(bytes.clone()),
        };
        std::thread::spawn(move || {
            become_user(BOB);
            // Connections that are kept open without being read.
            let mut kept = Vec::new();
            let mut client = None;
            while !stop.load(Ordering::Relaxed) {
                let start = Instant::now();
                let refused = match &act {
                    Act::Ask(request) => asked(&socket, &mut client, request),
                    Act::Deaf(request) => deaf(&socket, &mut kept, request),
                    Act::Bytes(bytes) => said(&socket, &mut kept, bytes),
                };
                if let Ok(mut attacked) = attacked.lock() {
                    attacked.count += 1;
                    attacked.refused += usize::from(refused);
                    attacked.longest = attacked.longest.max(start.elapsed());
                }
            }
        })
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        // Its control group can go when it has ended.
        self.cluster.cosyd.kill();
    }
}

/// What became of the attacks.
#[derive(Default)]
struct Attacked {
    count: usize,
    refused: usize,
    longest: Duration,
}

fn asked(socket: &Path, client: &mut Option<Client>, request: &Request) -> bool {
    if client.is_none() {
        *client = Client::connect(socket).ok();
    }
    let answer = client.as_mut().map(|client| client.ask(request.clone()));
    match answer {
        Some(Ok(Reply::Refused(_))) => true,
        Some(Ok(_)) => false,
        Some(Err(_)) | None => {
            *client = None;
            std::thread::sleep(Duration::from_millis(5));
            true
        }
    }
}

/// Many connections that ask for much and read nothing.
fn deaf(socket: &Path, kept: &mut Vec<UnixStream>, request: &Request) -> bool {
    let ask = cosy_proto::client::RequestFrame::new(request.clone(), None);
    let bytes = cosy_proto::frame::encode(&ask, limits::FRAME_BYTES).unwrap_or_default();
    std::thread::sleep(Duration::from_millis(20));
    said(socket, kept, &bytes)
}

fn said(socket: &Path, kept: &mut Vec<UnixStream>, bytes: &[u8]) -> bool {
    if kept.len() >= 100 {
        kept.clear();
    }
    let Ok(mut stream) = UnixStream::connect(socket) else {
        return true;
    };
    let _ = stream.set_write_timeout(Some(Duration::from_secs(2)));
    let done = stream.write_all(bytes).is_ok();
    let _ = stream.set_nonblocking(true);
    let refused = matches!(stream.read(&mut [0; 1]), Ok(0));
    kept.push(stream);
    !done || refused
}

/// Number, median, 99th of 100, longest, in milliseconds.
fn figures(mut times: Vec<Duration>) -> (usize, f64, f64, f64) {
    times.sort_unstable();
    let n = times.len();
    let at = |part: usize| {
        let time = times.get((n * part / 100).min(n.saturating_sub(1)));
        time.map_or(f64::NAN, |t| t.as_secs_f64() * 1e3)
    };
    (n, at(50), at(99), at(100))
}

/// The longest turn between two looks at the meter: waited, at work, and which kind was at work
/// longest in one.
fn longest_turn(before: &[MeterRow], after: &[MeterRow]) -> String {
    let between = |row: &MeterRow, read: fn(&MeterRow) -> (&[u64], u64)| {
        let old = before.iter().find(|old| old.kind == row.kind);
        longest(old.map_or((&[][..], 0), read), read(row))
    };
    let wall = |row: &MeterRow| between(row, |r| (&r.turn_counts[..], r.longest_turn_us));
    let cpu = |row: &MeterRow| between(row, |r| (&r.cpu_counts[..], r.longest_cpu_us));
    let text = |of: Option<(u64, String)>| of.map_or_else(|| "-".to_owned(), |(_, text)| text);
    let all = after.iter().find(|row| row.kind == WHOLE_TURN);
    let kinds = after.iter().filter(|row| row.kind != WHOLE_TURN);
    let kind = kinds.filter_map(|row| Some((cpu(row)?, &row.kind))).max();
    let kind = kind.map(|((_, text), kind)| format!("{kind} {text}"));
    format!(
        "{} | {} | {}",
        text(all.and_then(wall)),
        text(all.and_then(cpu)),
        kind.unwrap_or_default()
    )
}

/// The longest of what has come to the counts since, with its text: the time in milliseconds
/// where it is the longest since the start, else the bounds that it lies between.
fn longest(old: (&[u64], u64), new: (&[u64], u64)) -> Option<(u64, String)> {
    let had = |at: usize| old.0.get(at).copied().unwrap_or(0);
    let last = (0..new.0.len()).rfind(|at| new.0[*at] > had(*at))?;
    if new.1 > old.1 {
        return Some((new.1, format!("{:.1}", new.1 as f64 / 1e3)));
    }
    let bound = |at: usize| TURN_BOUNDS_MS.get(at).copied();
    let from = last.checked_sub(1).and_then(bound).unwrap_or(0);
    let text = bound(last).map_or(format!("> {from}"), |to| format!("{from}-{to}"));
    Some((from * 1000, text))
}

/// Largest resident memory so far, in MiB.
fn peak_mib(pid: Option<u32>) -> String {
    let status = pid.and_then(|pid| fs::read_to_string(format!("/proc/{pid}/status")).ok());
    let line = status.as_deref().unwrap_or_default().lines();
    let kib = line
        .filter_map(|l| l.strip_prefix("VmHWM:"))
        .find_map(|l| l.split_whitespace().next()?.parse::<u64>().ok());
    kib.map_or_else(|| "-".to_owned(), |kib| (kib >> 10).to_string())
}
