//! `cosy-bench-controllers [--rounds N] [--seconds N] [--jobs N] [--takeovers N]`: what two controllers on
//! a replicated PostgreSQL cost, and how long nobody answers when one fails.
//!
//! Submissions of waiting jobs over the protocol, from one client and from four, on SQLite and on
//! PostgreSQL with a second server that it waits for, in turn; beside them `pgbench` with one row
//! committed at a time, the floor of any answer that is on two servers. Then takeovers with a long queue
//! of jobs that each wait for all nodes: the time from the leader's end (killed, or told to hand over) to
//! the first answer of the other, as a command that knows both finds it. What fails ends the benchmark.

use cosy_client::{Caller, RetryPolicy};
use cosy_model::api::{Reply, Request};
use cosy_postgres::Server;
use cosy_tests::bench::{arguments, cpu_secs, round, spread};
use cosy_tests::cluster::Controllers;
use cosy_tests::{Client, Cluster, Options, client, command, wait};
use std::process::{Command, exit};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Nodes of each cluster, which are made up.
const NODES: u32 = 100;

struct Settings {
    rounds: usize,
    seconds: usize,
    jobs: usize,
    takeovers: usize,
}

fn main() {
    let mut settings = Settings {
        rounds: 3,
        seconds: 5,
        jobs: 100_000,
        takeovers: 5,
    };
    let usage = "cosy-bench-controllers [--rounds N] [--seconds N] [--jobs N] [--takeovers N]";
    let mut numbers = [
        ("--rounds", &mut settings.rounds),
        ("--seconds", &mut settings.seconds),
        ("--jobs", &mut settings.jobs),
        ("--takeovers", &mut settings.takeovers),
    ];
    arguments(usage, &mut numbers, None);
    if let Err(e) = measure(&settings) {
        eprintln!("cosy-bench-controllers: {e}");
        exit(1);
    }
}

/// Two servers, the second one waited for.
struct Pair {
    first: Server,
    _second: Server,
    _folder: TempDir,
}

impl Pair {
    fn start() -> Result<Self, String> {
        let text = |e: anyhow::Error| format!("{e:#}");
        let folder = cosy_postgres::own_temporary().map_err(text)?;
        let options = cosy_postgres::Options {
            settings: vec![
                "shared_buffers = '256MB'".into(),
                "max_wal_size = '4GB'".into(),
            ],
            ..Default::default()
        };
        let first = Server::start(&folder.path().join("a"), options.clone()).map_err(text)?;
        let second = first
            .follower(&folder.path().join("b"), options)
            .map_err(text)?;
        first
            .sql("ALTER SYSTEM SET synchronous_standby_names = 'b'")
            .map_err(text)?;
        first.sql("SELECT pg_reload_conf()").map_err(text)?;
        wait::until_true("the follower is waited for", || {
            let state = first.sql("SELECT sync_state FROM pg_stat_replication");
            state.is_ok_and(|state| state == "sync")
        });
        Ok(Self {
            first,
            _second: second,
            _folder: folder,
        })
    }

    fn cluster(&self) -> Cluster {
        let controllers = Controllers {
            databases: vec![self.first.connection(); 2],
            store: "durability = \"replicated\"".into(),
            ways: Vec::new(),
        };
        Cluster::start(1, options(Some(controllers)))
    }

    /// Transactions in a second, and the mean of one, with so many clients that commit a row each.
    fn floor(&self, clients: usize, seconds: usize) -> Result<(f64, f64), String> {
        let script = self.first.directory().join("one-row.sql");
        let text = "INSERT INTO floor (n) VALUES (1);\n";
        std::fs::write(&script, text).map_err(|e| e.to_string())?;
        let made = "CREATE TABLE IF NOT EXISTS floor (id BIGSERIAL PRIMARY KEY, n BIGINT)";
        self.first.sql(made).map_err(|e| format!("{e:#}"))?;
        let folder = cosy_postgres::programs().ok_or("no PostgreSQL")?;
        let mut pgbench = Command::new(folder.join("pgbench"));
        pgbench.args([
            "--no-vacuum",
            "--protocol=prepared",
            "-c",
            &clients.to_string(),
        ]);
        pgbench.args(["-j", &clients.to_string(), "-T", &seconds.to_string(), "-f"]);
        pgbench
            .arg(&script)
            .args(["-h"])
            .arg(self.first.directory());
        pgbench.args(["-U", "cosy", "cosy"]);
        let said = pgbench.output().map_err(|e| format!("pgbench: {e}"))?;
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        let find = |before: &str| {
            let line = said.lines().find(|line| line.starts_with(before))?;
            line.split(" = ")
                .nth(1)?
                .split(' ')
                .next()?
                .parse::<f64>()
                .ok()
        };
        let (rate, mean) = (find("tps"), find("latency average"));
        Ok((rate.ok_or("pgbench says no tps")?, mean.ok_or("pgbench says no latency")?))
    }
}

fn options(controllers: Option<Controllers>) -> Options {
    Options {
        virtual_nodes: NODES,
        cores: 1,
        controllers,
        queues: Some("[[queue]]\nname = \"main\"\ndefault = true\n".into()),
        ..Options::default()
    }
}

/// What one measurement of submissions gives.
struct Submitted {
    rate: f64,
    /// In milliseconds, ascending.
    took: Vec<f64>,
    cpu_ms: f64,
}

/// Clients that submit one job after the other for a while.
fn submissions(cluster: &Cluster, clients: usize, seconds: usize) -> Result<Submitted, String> {
    let mut job = command(&cluster.work(), &["true"]);
    job.spec.hold = true;
    let before = cpu_secs(cluster.cosyd.pid().cast_signed());
    let begun = Instant::now();
    let until = begun + Duration::from_secs(seconds as u64);
    let took: Vec<Vec<f64>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..clients)
            .map(|_| {
                let (mut client, job) = (cluster.client(), &job);
                scope.spawn(move || {
                    let mut took = Vec::new();
                    while Instant::now() < until {
                        let asked = Instant::now();
                        match client.submit(job) {
                            Ok(Ok(_)) => took.push(asked.elapsed().as_secs_f64() * 1000.0),
                            Ok(Err(refusal)) => return Err(refusal.to_string()),
                            Err(e) => return Err(e.to_string()),
                        }
                    }
                    Ok(took)
                })
            })
            .collect();
        let joined = threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| "a client".to_owned())?);
        joined.collect::<Result<_, String>>()
    })?;
    let wall = begun.elapsed().as_secs_f64();
    let mut took = took.concat();
    took.sort_by(f64::total_cmp);
    let cpu = cpu_secs(cluster.cosyd.pid().cast_signed()) - before;
    Ok(Submitted {
        rate: took.len() as f64 / wall,
        cpu_ms: cpu * 1000.0 / took.len().max(1) as f64,
        took,
    })
}

fn measure(settings: &Settings) -> Result<(), String> {
    let pair = Pair::start()?;
    println!(
        "| submissions | SQLite a second | PostgreSQL, two servers | ratio | p50 p99 ms | floor p50 ms | CPU ms SQLite, PostgreSQL |"
    );
    println!("|---|---|---|---|---|---|---|");
    {
        let (file, server) = (Cluster::start(1, options(None)), pair.cluster());
        for clients in [1, 4] {
            let (mut of_file, mut of_server) = (Vec::new(), Vec::new());
            let mut floors = Vec::new();
            for _ in 0..settings.rounds {
                of_file.push(submissions(&file, clients, settings.seconds)?);
                of_server.push(submissions(&server, clients, settings.seconds)?);
                floors.push(pair.floor(clients, settings.seconds.min(3))?);
            }
            let median = |all: &[Submitted], of: fn(&Submitted) -> f64| {
                spread(&all.iter().map(of).collect::<Vec<_>>()).1
            };
            let part = |all: &Submitted, of: f64| {
                let last = all.took.len().saturating_sub(1) as f64;
                all.took.get((last * of) as usize).copied().unwrap_or(0.0)
            };
            let (a, b) = (median(&of_file, |s| s.rate), median(&of_server, |s| s.rate));
            let p50 = spread(&of_server.iter().map(|s| part(s, 0.5)).collect::<Vec<_>>()).1;
            let p99 = spread(&of_server.iter().map(|s| part(s, 0.99)).collect::<Vec<_>>()).1;
            let floor = spread(&floors.iter().map(|(_, mean)| *mean).collect::<Vec<_>>()).1;
            println!(
                "| {clients} clients | {} | {} | {} | {} {} | {} | {}, {} |",
                round(a),
                round(b),
                round(b / a),
                round(p50),
                round(p99),
                round(floor),
                round(median(&of_file, |s| s.cpu_ms)),
                round(median(&of_server, |s| s.cpu_ms)),
            );
        }
    }
    takeovers(&pair, settings)
}

/// Until somebody answers again.
fn until_answered(caller: &mut Caller, begun: Instant) -> Result<f64, String> {
    match caller.ask(Request::Ping) {
        Ok(Reply::Pong { .. }) => Ok(begun.elapsed().as_secs_f64() * 1000.0),
        Ok(other) => Err(format!("{other:?}")),
        Err(e) => Err(e.to_string()),
    }
}

fn takeovers(pair: &Pair, settings: &Settings) -> Result<(), String> {
    pair.first
        .sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
        .map_err(|e| format!("{e:#}"))?;
    let mut cluster = pair.cluster();
    fill(&cluster, settings.jobs)?;
    println!("\n| takeovers with {} waiting jobs | min | median | max, ms |", settings.jobs);
    println!("|---|---|---|---|");
    let sockets = cluster.sockets();
    let caller = || Caller::of_sockets(sockets.clone(), RetryPolicy::default(), |_| {});
    for planned in [true, false] {
        let mut took = Vec::new();
        for _ in 0..settings.takeovers {
            std::thread::sleep(Duration::from_secs(3));
            let leader = leader(&cluster)?;
            let mut caller = caller();
            let begun = if planned {
                let mut admin = Client::connect(&sockets[leader]).map_err(|e| e.to_string())?;
                let begun = Instant::now();
                match admin.ask(Request::HandOver { to: None }) {
                    Ok(Reply::Controllers(_)) => begun,
                    other => return Err(format!("{other:?}")),
                }
            } else {
                cluster.controller(leader).kill();
                Instant::now()
            };
            // Only the other one, so that no answer of the former leader counts.
            cluster.until_leads(1 - leader);
            took.push(begun.elapsed().as_secs_f64() * 1000.0);
            until_answered(&mut caller, begun)?;
            if !planned {
                cluster.start_controller(leader);
                cluster.controller(leader).await_ready();
            }
        }
        let (min, median, max) = spread(&took);
        let name = if planned {
            "handed over"
        } else {
            "killed, lease 3 s"
        };
        println!("| {name} | {} | {} | {} |", round(min), round(median), round(max));
    }
    Ok(())
}

fn leader(cluster: &Cluster) -> Result<usize, String> {
    let mut sockets = cluster.sockets().into_iter();
    sockets
        .position(|socket| client::leads(&socket))
        .ok_or_else(|| "nobody leads".to_owned())
}

fn fill(cluster: &Cluster, jobs: usize) -> Result<(), String> {
    // The first one has all nodes; the others wait for them.
    let mut job = command(&cluster.work(), &["true"]);
    job.spec.request.nodes = Some(NODES);
    job.spec.environment = "COSY_VIRTUAL_SECONDS=1000000".into();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|part| {
                let (mut client, job) = (cluster.client(), &job);
                scope.spawn(move || {
                    for _ in (part..jobs).step_by(8) {
                        match client.submit(job) {
                            Ok(Ok(_)) => {}
                            Ok(Err(refusal)) => return Err(refusal.to_string()),
                            Err(e) => return Err(e.to_string()),
                        }
                    }
                    Ok(())
                })
            })
            .collect();
        let mut joined = threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| "a client".to_owned())?);
        joined.try_for_each(|done| done)
    })
}
