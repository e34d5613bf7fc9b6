//! `cosy-bench-resv`: how fast `cosyd` quotes and books under a long queue, and whether
//! other commands are held up meanwhile.
//!
//! `cosy-bench-resv [--nodes N] [--jobs N] [--slots N] [--reservations N] [--rounds N]`
//! starts a cluster of its own with nodes that run nothing, fills it, and speaks the
//! protocol over the controller's socket: no command is started, so that only the
//! controller is measured. The programs are those that `COSY_BIN_DIR` names.

use cosy_model::api::{Reply, Request, Submission};
use cosy_model::job::ResourceRequest;
use cosy_model::reservation::{Ask, Pick, Repeat, Sharing};
use cosy_model::{Span, Time};
use cosy_tests::{Chance, Client, Cluster, Options, script};
use std::path::PathBuf;
use std::process::exit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const MINUTE: i64 = 60_000;
const DAY: i64 = 24 * 60 * MINUTE;
/// Starts of one series.
const SERIES: usize = 400;
/// Tasks of one array.
const TASKS: usize = 20;

#[derive(Clone, Copy)]
struct Settings {
    nodes: u32,
    jobs: usize,
    slots: u32,
    reservations: usize,
    rounds: usize,
}

fn main() {
    let settings = settings();
    let options = Options {
        virtual_nodes: settings.nodes,
        cores: 1,
        queues: Some(queues(settings.nodes)),
        ..Options::default()
    };
    let cluster = Cluster::start(1, options);
    let node = format!("v1x{}", settings.nodes);
    cluster.until_node(&node, "idle", |n| n.state == "idle");
    let bench = Bench {
        socket: cluster.socket(),
        work: cluster.work(),
        settings,
    };
    if let Err(e) = bench.run() {
        eprintln!("cosy-bench-resv: {e}");
        exit(1);
    }
}

fn queues(nodes: u32) -> String {
    format!(
        "[[queue]]\nname = \"main\"\ndefault = true\nnodes = \"v1x[1-{nodes}]\"\n\
         [reservations]\nall_of = [\"notice\"]\n"
    )
}

fn settings() -> Settings {
    let mut settings = Settings {
        nodes: 430,
        jobs: 10_000,
        slots: 500,
        reservations: 0,
        rounds: 20,
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let number = args.next().and_then(|n| n.parse::<u32>().ok());
        match (arg.as_str(), number) {
            ("--nodes", Some(n)) if n > 0 => settings.nodes = n,
            ("--jobs", Some(n)) => settings.jobs = n as usize,
            ("--slots", Some(n)) if n > 0 => settings.slots = n,
            ("--reservations", Some(n)) => settings.reservations = n as usize,
            ("--rounds", Some(n)) if n > 0 => settings.rounds = n as usize,
            _ => {
                eprintln!(
                    "usage: cosy-bench-resv [--nodes N] [--jobs N] [--slots N] [--reservations N] [--rounds N]"
                );
                exit(2);
            }
        }
    }
    settings
}

type Outcome<T> = Result<T, String>;

struct Bench {
    socket: PathBuf,
    work: PathBuf,
    settings: Settings,
}

impl Bench {
    fn run(&self) -> Outcome<()> {
        let mut client = self.client()?;
        self.reserve_far_ahead(&mut client)?;
        self.fill(&mut client)?;
        let idle = self.others(None)?;
        tell("ping, nothing else going on", &idle.pings);
        tell("submission, nothing else going on", &idle.submissions);
        tell(
            "booking, nothing else going on",
            &self.bookings(&mut client)?,
        );
        let quotes = self.quotes(&mut client)?;
        tell("quote", &quotes);
        self.under_quotes()
    }

    fn client(&self) -> Outcome<Client> {
        Client::connect(&self.socket).map_err(|e| e.to_string())
    }

    /// Bookings of one node each, beginning in a month.
    fn reserve_far_ahead(&self, client: &mut Client) -> Outcome<()> {
        let mut left = self.settings.reservations;
        let mut start = now(client)?.0 + 30 * DAY;
        while left > 0 {
            let count = left.min(SERIES);
            let starts = (0..count).map(|n| Time(start + n as i64 * 15 * MINUTE));
            let starts: Vec<Time> = starts.collect();
            let mut ask = ask(1, 10 * MINUTE, Pick::At(starts[0]));
            ask.repeat = Some(Repeat {
                rule: "FREQ=MINUTELY".into(),
                starts,
                as_many_as_fit: false,
            });
            reserve(client, ask)?;
            left -= count;
            start += count as i64 * 15 * MINUTE;
        }
        println!("{} reservations made", self.settings.reservations);
        Ok(())
    }

    /// One job on all nodes, and the others behind it.
    fn fill(&self, client: &mut Client) -> Outcome<()> {
        let mut chance = Chance::new(1);
        submit(client, &self.job(self.settings.nodes, 600, 1))?;
        for _ in 0..self.settings.jobs / TASKS {
            let nodes = 1 + chance.below(u64::from(self.settings.nodes / 4).max(1)) as u32;
            let minutes = 10 + chance.below(600) as i64;
            submit(client, &self.job(nodes, minutes, TASKS))?;
        }
        println!("{} jobs wait", self.settings.jobs / TASKS * TASKS);
        Ok(())
    }

    fn job(&self, nodes: u32, minutes: i64, tasks: usize) -> Submission {
        let mut job = script(&self.work, "true");
        job.spec.request.nodes = Some(nodes);
        job.spec.request.exclusive = true;
        job.spec.time_limit = Some(Span(minutes * MINUTE));
        job.array = format!("1-{tasks}").parse().ok().filter(|_| tasks > 1);
        job
    }

    fn quotes(&self, client: &mut Client) -> Outcome<Vec<Duration>> {
        let mut times = Vec::new();
        let mut slots = 0;
        for _ in 0..self.settings.rounds {
            let begin = Instant::now();
            slots = quote(client, self.settings.slots)?;
            times.push(begin.elapsed());
        }
        println!("a quote has {slots} slots");
        Ok(times)
    }

    fn bookings(&self, client: &mut Client) -> Outcome<Vec<Duration>> {
        let start = now(client)?.0 + 20 * DAY;
        let mut times = Vec::new();
        for n in 0..self.settings.rounds as i64 {
            let ask = ask(4, 10 * MINUTE, Pick::At(Time(start + n * 20 * MINUTE)));
            let begin = Instant::now();
            let id = reserve(client, ask)?;
            times.push(begin.elapsed());
            cancel(client, id)?;
        }
        Ok(times)
    }

    /// The same while quotes follow each other.
    fn under_quotes(&self) -> Outcome<()> {
        let stop = Arc::new(AtomicBool::new(false));
        let quoting = {
            let (stop, mut client, slots) = (stop.clone(), self.client()?, self.settings.slots);
            std::thread::spawn(move || {
                let mut count = 0;
                while !stop.load(Ordering::Relaxed) && quote(&mut client, slots).is_ok() {
                    count += 1;
                }
                count
            })
        };
        let others = self.others(Some(Duration::from_secs(10)));
        let bookings = self.client().and_then(|mut c| self.bookings(&mut c));
        stop.store(true, Ordering::Relaxed);
        let quotes = quoting.join().map_err(|_| "the quotes have failed")?;
        let others = others?;
        println!("{quotes} quotes were answered beside what follows");
        tell("ping, beside quotes", &others.pings);
        tell("submission, beside quotes", &others.submissions);
        tell("booking, beside quotes", &bookings?);
        Ok(())
    }

    /// Pings and submissions, for a while or so many.
    fn others(&self, during: Option<Duration>) -> Outcome<Others> {
        let mut client = self.client()?;
        let mut others = Others::default();
        let begin = Instant::now();
        let mut held = self.job(1, 10, 1);
        held.spec.hold = true;
        loop {
            let at = Instant::now();
            now(&mut client)?;
            others.pings.push(at.elapsed());
            let at = Instant::now();
            submit(&mut client, &held)?;
            others.submissions.push(at.elapsed());
            let enough = match during {
                Some(during) => begin.elapsed() >= during,
                None => others.pings.len() >= 300,
            };
            if enough {
                return Ok(others);
            }
        }
    }
}

#[derive(Default)]
struct Others {
    pings: Vec<Duration>,
    submissions: Vec<Duration>,
}

fn ask(nodes: u32, length: i64, pick: Pick) -> Ask {
    Ask {
        name: String::new(),
        queue: None,
        request: ResourceRequest {
            nodes: Some(nodes),
            exclusive: true,
            ..ResourceRequest::default()
        },
        length: Span(length),
        earliest: None,
        latest_end: None,
        pick,
        repeat: None,
        account: None,
        max_price: None,
        sharing: Sharing::default(),
        comment: String::new(),
    }
}

fn answer(client: &mut Client, request: Request) -> Outcome<Reply> {
    match client.ask(request).map_err(|e| e.to_string())? {
        Reply::Refused(refusal) => Err(refusal.to_string()),
        reply => Ok(reply),
    }
}

fn now(client: &mut Client) -> Outcome<Time> {
    match answer(client, Request::Ping)? {
        Reply::Pong { now, .. } => Ok(now),
        other => Err(format!("no answer to a ping: {other:?}")),
    }
}

fn submit(client: &mut Client, job: &Submission) -> Outcome<()> {
    answer(client, Request::Submit(Box::new(job.clone()))).map(drop)
}

fn reserve(client: &mut Client, ask: Ask) -> Outcome<cosy_model::ReservationId> {
    let request = Request::Reserve {
        ask: Box::new(ask),
        hold: false,
        job: None,
    };
    match answer(client, request)? {
        Reply::Reserved { reservations, .. } => {
            let first = reservations.first().map(|r| r.id);
            first.ok_or_else(|| "nothing was reserved".into())
        }
        other => Err(format!("no answer to a booking: {other:?}")),
    }
}

fn cancel(client: &mut Client, id: cosy_model::ReservationId) -> Outcome<()> {
    let ids = vec![id];
    answer(client, Request::CancelReservation { ids, series: false }).map(drop)
}

/// The number of slots; the window is the fortnight to come.
fn quote(client: &mut Client, slots: u32) -> Outcome<usize> {
    let mut ask = ask(16, 60 * MINUTE, Pick::Cheapest);
    ask.latest_end = Some(Time(now(client)?.0 + 14 * DAY));
    let request = Request::Quote {
        ask: Box::new(ask),
        most: Some(slots),
    };
    match answer(client, request)? {
        Reply::Quote(quote) => Ok(quote.slots.len()),
        other => Err(format!("no answer to a quote: {other:?}")),
    }
}

/// Median, 99th of a hundred, and most.
fn tell(what: &str, times: &[Duration]) {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let at = |part: usize| {
        let place = (sorted.len() * part / 100).min(sorted.len().saturating_sub(1));
        sorted.get(place).map_or(0.0, |t| t.as_secs_f64() * 1e3)
    };
    println!(
        "{what:<36} {:>6} times: median {:>9.2} ms, p99 {:>9.2} ms, most {:>9.2} ms",
        sorted.len(),
        at(50),
        at(99),
        at(100)
    );
}
