//! `cosy-bench-million [--tasks N] [--jobs N] [--ended N]`: what an array of a million tasks and a long
//! queue of single jobs take of memory and time, and a start of the controller with them.
//!
//! A cluster of its own with nodes that run nothing, all taken for hours. First an array is submitted,
//! held, and cancelled: these are the ended jobs in the store. Then come the array and the single jobs, all
//! of which wait. Beside each step somebody asks for one job again and again: the longest of these answers
//! is told. Memory is what the kernel counts for the controller.

use cosy_model::api::{JobField, JobFilter, JobRef, Reply, Request, Submission};
use cosy_model::{ArraySpec, JobId, Span};
use cosy_tests::bench::{arguments, cpu_secs, rss_mib};
use cosy_tests::full_cluster::{self, long_job, submit_all};
use cosy_tests::{Client, Cluster};
use std::path::Path;
use std::process::exit;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const NODES: u32 = 100;
/// Time limits of the single jobs, in minutes.
const LIMITS: [i64; 7] = [5, 10, 30, 60, 120, 240, 600];
/// Between two questions of who looks on.
const BETWEEN: Duration = Duration::from_millis(5);
/// The controller has nothing left to do when it is at work for less than a tenth of so long.
const QUIET: Duration = Duration::from_secs(1);

fn main() {
    let mut settings = Settings {
        tasks: 1_000_000,
        jobs: 200_000,
        ended: 1_000_000,
    };
    let usage = "cosy-bench-million [--tasks N] [--jobs N] [--ended N]";
    let mut numbers = [
        ("--tasks", &mut settings.tasks),
        ("--jobs", &mut settings.jobs),
        ("--ended", &mut settings.ended),
    ];
    arguments(usage, &mut numbers, None);
    if let Err(e) = measure(&settings) {
        eprintln!("cosy-bench-million: {e}");
        exit(1);
    }
}

struct Settings {
    tasks: usize,
    jobs: usize,
    ended: usize,
}

fn measure(settings: &Settings) -> Result<(), String> {
    let most = settings.tasks.max(settings.ended);
    let policy = format!("max_array_tasks = {most}\n");
    let cluster = full_cluster::start_with(NODES, &policy);
    full_cluster::fill(&cluster, (0..NODES).map(|_| 1))?;
    let mut bench = Bench { cluster };
    let Settings { tasks, jobs, ended } = settings;
    println!(
        "| {tasks} tasks, {jobs} jobs, {ended} ended jobs | took | memory | longest answer meanwhile |"
    );
    println!("|---|---|---|---|");
    let first = bench.step("submission of the array that is to end", |c| array(c, *ended, true))?;
    bench.step("its end", |c| cancel(c, first))?;
    bench.restart("start with ended jobs")?;
    let first = bench.step("submission of the array", |c| array(c, *tasks, false))?;
    bench.step("single jobs", |c| {
        let work = c.work();
        let limits = (0..*jobs).map(|n| LIMITS.get(n % LIMITS.len()).copied().unwrap_or(60));
        let jobs = limits.map(|limit| long_job(Span::from_minutes(limit), &work));
        submit_all(c, &jobs.collect::<Vec<_>>())
    })?;
    bench.step("hold of the array", |c| {
        done(
            c,
            Request::Hold {
                filter: of(first),
                as_user: false,
            },
        )
    })?;
    bench.step("release", |c| done(c, Request::Release { filter: of(first) }))?;
    bench.step("configuration read again", |c| done(c, Request::Reload))?;
    bench.restart("start with all of them")?;
    bench.step("end of the array", |c| cancel(c, first))?;
    Ok(())
}

fn array(cluster: &Cluster, tasks: usize, held: bool) -> Result<JobId, String> {
    let last = u32::try_from(tasks).map_err(|e| e.to_string())? - 1;
    let mut job: Submission = long_job(Span::from_minutes(60), &cluster.work());
    job.spec.hold = held;
    job.array = Some(ArraySpec {
        ranges: vec![(0, last, 1)],
        at_once: None,
    });
    let answer = cluster.client().submit(&job).map_err(|e| e.to_string())?;
    answer.map_err(|refusal| refusal.to_string())
}

fn of(job: JobId) -> JobFilter {
    JobFilter {
        ids: vec![JobRef { job, task: None }],
        ..JobFilter::default()
    }
}

fn cancel(cluster: &Cluster, job: JobId) -> Result<(), String> {
    let request = Request::Cancel {
        filter: of(job),
        signal: None,
        script_only: false,
        steps_only: false,
    };
    done(cluster, request)
}

fn done(cluster: &Cluster, request: Request) -> Result<(), String> {
    match cluster.client().ask(request).map_err(|e| e.to_string())? {
        Reply::Done { .. } => Ok(()),
        other => Err(format!("{other:?}")),
    }
}

struct Bench {
    cluster: Cluster,
}

impl Bench {
    /// Does that while somebody looks on, until the controller has nothing left to do.
    fn step<T>(
        &self,
        name: &str,
        act: impl FnOnce(&Cluster) -> Result<T, String>,
    ) -> Result<T, String> {
        let over = AtomicBool::new(false);
        let socket = self.cluster.socket();
        let (got, took, settled, longest) = std::thread::scope(|scope| {
            let looking = scope.spawn(|| look_on(&socket, &over));
            let begun = Instant::now();
            let got = act(&self.cluster);
            let took = begun.elapsed();
            self.await_quiet();
            let settled = begun.elapsed().saturating_sub(QUIET);
            over.store(true, Ordering::Release);
            let longest = looking
                .join()
                .map_err(|_| "who looks on panicked".to_owned());
            (got, took, settled, longest.and_then(|longest| longest))
        });
        let (took, settled, longest) = (ms(took), ms(settled.max(took)), ms(longest?));
        self.say(
            name,
            &format!("{took:.0} ms, all of it {settled:.0} ms"),
            &format!("{longest:.0} ms"),
        );
        got
    }

    fn await_quiet(&self) {
        loop {
            let before = cpu_secs(self.cosyd());
            std::thread::sleep(QUIET);
            if cpu_secs(self.cosyd()) - before < QUIET.as_secs_f64() / 10.0 {
                return;
            }
        }
    }

    fn restart(&mut self, name: &str) -> Result<(), String> {
        self.cluster.cosyd.signal(nix::sys::signal::Signal::SIGTERM);
        let status = self.cluster.cosyd.await_end();
        if !status.success() {
            return Err(format!("cosyd: {status}"));
        }
        let begun = Instant::now();
        self.cluster.start_cosyd();
        let took = ms(begun.elapsed());
        self.await_quiet();
        self.say(name, &format!("{took:.0} ms"), "");
        Ok(())
    }

    fn say(&self, name: &str, took: &str, longest: &str) {
        let (now, most) = (rss_mib(self.cosyd()), self.peak());
        println!("| {name} | {took} | {now:.0} MiB, {most:.0} at most | {longest} |");
    }

    fn peak(&self) -> f64 {
        cosy_tests::bench::peak_mib(self.cosyd())
    }

    fn cosyd(&self) -> i32 {
        self.cluster.cosyd.pid().cast_signed()
    }
}

/// Asks for one job until it is over; how long the slowest answer took.
fn look_on(socket: &Path, over: &AtomicBool) -> Result<Duration, String> {
    let mut client = Client::connect(socket).map_err(|e| e.to_string())?;
    let mut longest = Duration::ZERO;
    while !over.load(Ordering::Acquire) {
        let begun = Instant::now();
        let request = Request::Jobs {
            filter: of(JobId(1)),
            fields: vec![JobField::Id, JobField::State],
            fold_arrays: false,
        };
        client.ask(request).map_err(|e| e.to_string())?;
        longest = longest.max(begun.elapsed());
        std::thread::sleep(BETWEEN);
    }
    Ok(longest)
}

fn ms(took: Duration) -> f64 {
    took.as_secs_f64() * 1e3
}
