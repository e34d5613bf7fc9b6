//! `cosy-bench-reserve [--rounds N] [--jobs N] [--reservations N] [--slots N]`: how long
//! quotes and bookings take under a long queue, and what other commands feel of it.
//!
//! Two clusters of its own, one after the other, each with 1,024 nodes that run nothing,
//! all taken for hours, and a queue of whole-node jobs: the first without reservations,
//! the second with many accepted ones. Every figure comes from whole commands as a user
//! starts them. A quote that was not answered in full, or a booking that was refused, ends
//! the benchmark: nothing is left out.

use cosy_model::api::{Reply, Request};
use cosy_model::job::ResourceRequest;
use cosy_model::reservation::{Repeat, ReservationSpec, Sharing, StartChoice};
use cosy_model::{Span, Time};
use cosy_tests::bench::arguments;
use cosy_tests::full_cluster::{self, says, says_to_nobody, submit_all, whole_nodes};
use cosy_tests::{Chance, Cluster, resv};
use std::process::{Command, exit};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

const NODES: u32 = 1024;
/// Running jobs take so many nodes each, until all are taken.
const RUNNING_NODES: u32 = 2;
/// Reservations of one series (the most that there can be), an hour apart.
const SERIES: usize = 400;
const HOUR: i64 = 3_600_000;
/// Bookings of a round.
const BOOKINGS: usize = 20;

#[derive(Clone, Copy)]
struct Settings {
    rounds: usize,
    jobs: usize,
    reservations: usize,
    slots: usize,
}

fn main() {
    let settings = settings();
    match measure_both(settings) {
        Ok(text) => print!("{text}"),
        Err(e) => {
            eprintln!("cosy-bench-reserve: {e}");
            exit(1);
        }
    }
}

fn settings() -> Settings {
    let mut settings = Settings {
        rounds: 9,
        jobs: 10_000,
        reservations: 10_000,
        slots: 500,
    };
    let usage = "cosy-bench-reserve [--rounds N] [--jobs N] [--reservations N] [--slots N]";
    let mut numbers = [
        ("--rounds", &mut settings.rounds),
        ("--jobs", &mut settings.jobs),
        ("--reservations", &mut settings.reservations),
        ("--slots", &mut settings.slots),
    ];
    arguments(usage, &mut numbers, None);
    settings
}

/// Milliseconds of each time that something was done.
type Times = Vec<f64>;

/// What was measured on one cluster.
struct Figures {
    quote: Times,
    book_near: Times,
    book_far: Times,
    cancel: Times,
    submit_idle: Times,
    explain_idle: Times,
    submit_busy: Times,
    explain_busy: Times,
    start_true: Times,
}

fn measure_both(settings: Settings) -> Result<String, String> {
    let without = measure(settings, 0)?;
    let with = measure(settings, settings.reservations)?;
    Ok(table(settings, &without, &with))
}

fn measure(settings: Settings, reservations: usize) -> Result<Figures, String> {
    let cluster = full_cluster::start(NODES);
    eprintln!("{reservations} reservations, {} jobs ...", settings.jobs);
    let start = Instant::now();
    let running = (NODES / RUNNING_NODES) as usize;
    full_cluster::fill(&cluster, std::iter::repeat_n(RUNNING_NODES, running))?;
    reserve(&cluster, reservations)?;
    eprintln!("reserved after {:.1} s", start.elapsed().as_secs_f64());
    enqueue(&cluster, settings.jobs)?;
    eprintln!("enqueued after {:.1} s", start.elapsed().as_secs_f64());
    let waiting = cluster.client().jobs(Default::default());
    let rows = waiting.map_err(|e| e.to_string())?.rows;
    if rows != settings.jobs + running {
        return Err(format!("{rows} jobs are there, not {}", settings.jobs + running));
    }
    Bench {
        cluster: &cluster,
        settings,
    }
    .run()
}

// --- the cluster

/// Jobs of 1 to 128 nodes and up to ten hours.
fn enqueue(cluster: &Cluster, count: usize) -> Result<(), String> {
    let mut chance = Chance::new(1);
    let work = cluster.work();
    let jobs = (0..count).map(|_| {
        let nodes = 1 + u32::try_from(chance.below(128)).unwrap_or(0);
        let secs = 1 + i64::try_from(chance.below(36_000)).unwrap_or(0);
        whole_nodes(nodes, Span::from_secs(secs), &work)
    });
    submit_all(cluster, &jobs.collect::<Vec<_>>())
}

/// One node for 50 minutes each, in series behind the running jobs.
fn reserve(cluster: &Cluster, count: usize) -> Result<(), String> {
    let mut left = count;
    let from = resv::now() + Span(24 * HOUR);
    while left > 0 {
        let starts = (0..left.min(SERIES) as i64).map(|n| from + Span(n * HOUR));
        let ask = series(starts.collect());
        let request = Request::Reserve {
            ask: Box::new(ask),
            hold: false,
            job: None,
        };
        match cluster.ask(request) {
            Reply::Reserved { reservations, .. } if !reservations.is_empty() => {
                left = left.saturating_sub(reservations.len());
            }
            other => return Err(format!("not reserved: {other:?}")),
        }
    }
    Ok(())
}

fn series(starts: Vec<Time>) -> ReservationSpec {
    ReservationSpec {
        name: String::new(),
        queue: None,
        request: ResourceRequest {
            nodes: Some(1),
            exclusive: true,
            ..ResourceRequest::default()
        },
        length: Span::from_minutes(50),
        earliest: None,
        latest_end: None,
        licenses: Default::default(),
        pick: StartChoice::At(starts.first().copied().unwrap_or_default()),
        repeat: Some(Repeat {
            rule: "FREQ=HOURLY".into(),
            starts,
            as_many_as_fit: false,
        }),
        account: None,
        max_price: None,
        sharing: Sharing::default(),
        comment: String::new(),
        flags: Vec::new(),
    }
}

// --- what is measured

struct Bench<'a> {
    cluster: &'a Cluster,
    settings: Settings,
}

impl Bench<'_> {
    fn run(&self) -> Result<Figures, String> {
        let rounds = self.settings.rounds;
        let first = repeat(1, |_| self.quote())?;
        eprintln!("the first quote took {:.0} ms", quantile(&first, 100));
        let start_true = repeat(200, |_| {
            let status = Command::new("/bin/true").status();
            status.map(|_| ()).map_err(|e| e.to_string())
        })?;
        let submit_idle = repeat(200, |_| self.submit())?;
        let explain_idle = repeat(200, |_| self.explain())?;
        let (book_near, cancel) = self.bookings(1)?;
        let (book_far, _) = self.bookings(24 * 100)?;
        eprintln!("{} bookings made and given back", 2 * BOOKINGS);
        let quiet = AtomicBool::new(false);
        let (quote, busy) = std::thread::scope(|scope| {
            let others = scope.spawn(|| self.others(&quiet));
            let quote = repeat(rounds, |_| self.quote());
            quiet.store(true, Ordering::Relaxed);
            (quote, others.join())
        });
        let (submit_busy, explain_busy) = busy.map_err(|_| "a thread panicked")??;
        Ok(Figures {
            quote: quote?,
            book_near,
            book_far,
            cancel,
            submit_idle,
            explain_idle,
            submit_busy,
            explain_busy,
            start_true,
        })
    }

    /// Other commands, while quotes are worked out.
    fn others(&self, quiet: &AtomicBool) -> Result<(Times, Times), String> {
        let (mut submits, mut explains) = (Times::new(), Times::new());
        while !quiet.load(Ordering::Relaxed) {
            submits.extend(repeat(1, |_| self.submit())?);
            explains.extend(repeat(1, |_| self.explain())?);
        }
        Ok((submits, explains))
    }

    fn done(&self, words: &[&str]) -> Result<String, String> {
        says(self.cluster, words)
    }

    fn quote(&self) -> Result<(), String> {
        let slots = self.settings.slots.to_string();
        let words = [
            "cresv",
            "quote",
            "-N",
            "64",
            "--exclusive",
            "-t",
            "2h",
            "--from",
            "now+1h",
            "--until",
            "now+60d",
            "--most",
            &slots,
            "--json",
        ];
        let answer = says_to_nobody(self.cluster, &words)?;
        let found = answer.matches("\"feasible\":").count();
        if found * 10 < self.settings.slots * 9 {
            return Err(format!("a quote has {found} slots, not {slots}"));
        }
        Ok(())
    }

    fn submit(&self) -> Result<(), String> {
        self.done(&["csub", "-H", "-Q", "--", "true"]).map(|_| ())
    }

    fn explain(&self) -> Result<(), String> {
        self.done(&["cstat", "1"]).map(|_| ())
    }

    /// Bookings of one node, so many hours ahead and more, and that they are given back.
    fn bookings(&self, hours: usize) -> Result<(Times, Times), String> {
        let mut ids = Vec::new();
        let booked = repeat(BOOKINGS, |n| {
            let at = format!("now+{}h", 24 * 20 + hours + n);
            let words = [
                "cresv",
                "book",
                "-N",
                "1",
                "--exclusive",
                "-t",
                "1h",
                "--at",
                &at,
                "--parsable",
            ];
            ids.push(self.done(&words)?.trim().to_owned());
            Ok(())
        })?;
        let cancelled =
            repeat(ids.len(), |n| self.done(&["cresv", "cancel", &ids[n]]).map(|_| ()))?;
        Ok((booked, cancelled))
    }
}

fn repeat(times: usize, mut act: impl FnMut(usize) -> Result<(), String>) -> Result<Times, String> {
    (0..times)
        .map(|n| {
            let start = Instant::now();
            act(n)?;
            Ok(start.elapsed().as_secs_f64() * 1e3)
        })
        .collect()
}

// --- what is told

/// The value that `per_cent` of the times are not above.
fn quantile(times: &Times, per_cent: usize) -> f64 {
    let mut sorted = times.clone();
    sorted.sort_by(f64::total_cmp);
    let at = (sorted.len() * per_cent).div_ceil(100).max(1) - 1;
    sorted.get(at).copied().unwrap_or(f64::NAN)
}

fn table(settings: Settings, without: &Figures, with: &Figures) -> String {
    type Of = fn(&Figures) -> &Times;
    let rows: [(&str, Of); 9] = [
        ("quote", |f| &f.quote),
        ("book, 20 days ahead", |f| &f.book_near),
        ("book, 120 days ahead", |f| &f.book_far),
        ("cancel", |f| &f.cancel),
        ("submit (held)", |f| &f.submit_idle),
        ("submit, while quotes run", |f| &f.submit_busy),
        ("explain a job", |f| &f.explain_idle),
        ("explain a job, while quotes run", |f| &f.explain_busy),
        ("floor: starting a program (true)", |f| &f.start_true),
    ];
    let mut text = format!(
        "{} waiting jobs, quotes of {} slots; ms: median, 99 of 100 within, worst (times)\n\n\
         | whole command | no reservations | {} reservations | ratio of medians |\n|---|---|---|---|\n",
        settings.jobs, settings.slots, settings.reservations
    );
    for (name, of) in rows {
        let show = |t: &Times| {
            format!(
                "{:.2}, {:.2}, {:.2} ({})",
                quantile(t, 50),
                quantile(t, 99),
                quantile(t, 100),
                t.len()
            )
        };
        let ratio = quantile(of(with), 50) / quantile(of(without), 50);
        text.push_str(&format!(
            "| {name} | {} | {} | {ratio:.2} |\n",
            show(of(without)),
            show(of(with))
        ));
    }
    text
}
