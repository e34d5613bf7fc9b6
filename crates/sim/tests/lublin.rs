//! The model of Lublin and Feitelson against its published parameters: what a large sample
//! must look like, computed here from the distributions by other means than the model's.
//! Samples are seeded and tolerances are five standard errors.

use cosy_model::{Span, Time};
use cosy_sim::models::lublin::{JobKind, Settings, generate};
use cosy_sim::workload::{Job, Workload};
use std::collections::BTreeMap;
use std::str::FromStr;

const JOBS: usize = 40_000;
const SIGMAS: f64 = 5.0;

/// The parameters of one kind, for 128 nodes.
struct Published {
    kind: JobKind,
    serial: f64,
    power_of_two: f64,
    /// Low, middle and high logarithm of sizes; the probability below the middle.
    sizes: [f64; 4],
    /// Shape and scale of short and of long runs.
    runs: [(f64, f64); 2],
    short_by_nodes: (f64, f64),
    gaps: (f64, f64),
    /// Time of day in hours, on average from 05:00 on (by the gamma distribution with
    /// mpmath).
    mean_hour: f64,
}

const PUBLISHED: [Published; 3] = [
    Published {
        kind: JobKind::Batch,
        serial: 0.2927,
        power_of_two: 0.6686,
        sizes: [1.2, 5.0, 7.0, 0.875],
        runs: [(6.57, 0.823), (639.1, 0.0156)],
        short_by_nodes: (-0.003, 0.6986),
        gaps: (6.0415 * 1.0519, 0.8531),
        mean_hour: 15.361_740_546_898,
    },
    Published {
        kind: JobKind::Interactive,
        serial: 0.1541,
        power_of_two: 0.625,
        sizes: [1.0, 3.0, 5.5, 0.705],
        runs: [(3.8351, 0.6605), (7.073, 0.6856)],
        short_by_nodes: (-0.0118, 0.9156),
        gaps: (6.5510 * 0.9797, 0.6621),
        mean_hour: 15.794_015_948_299,
    },
    Published {
        kind: JobKind::Typeless,
        serial: 0.244,
        power_of_two: 0.576,
        sizes: [0.8, 4.5, 7.0, 0.86],
        runs: [(4.2, 0.94), (312.0, 0.03)],
        short_by_nodes: (-0.0054, 0.78),
        gaps: (10.2303 * 1.0225, 0.4871),
        mean_hour: 15.606_750_531_902,
    },
];

fn sample(kind: JobKind) -> Workload {
    generate(&Settings {
        nodes: 128,
        jobs: JOBS,
        kind,
        ..Settings::default()
    })
}

fn check_probability(what: &str, found: usize, of: usize, expected: f64) {
    let part = found as f64 / of as f64;
    let error = (expected * (1.0 - expected) / of as f64).sqrt();
    assert!((part - expected).abs() < SIGMAS * error, "{what}: {part} {expected}");
}

fn check_mean(what: &str, values: &[f64], expected: f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let error = (squares / count / count).sqrt();
    assert!((mean - expected).abs() < SIGMAS * error, "{what}: {mean} {expected} ± {error}");
}

impl Published {
    /// How likely a two-stage uniform logarithm is below `x`.
    fn size_below(&self, x: f64) -> f64 {
        let [low, middle, high, below] = self.sizes;
        let part = |from: f64, to: f64| ((x - from) / (to - from)).clamp(0.0, 1.0);
        below * part(low, middle) + (1.0 - below) * part(middle, high)
    }

    /// How likely a size is a power of two above one, drawn as such or by chance.
    fn power_above_one(&self) -> f64 {
        let bounds = |exponent: i32| {
            let size = f64::from(exponent).exp2();
            self.size_below((size + 0.5).log2()) - self.size_below((size - 0.5).log2())
        };
        let by_chance: f64 = (1..8).map(bounds).sum();
        // A rounded logarithm below 0.5 would be one node; all begin above.
        self.power_of_two + (1.0 - self.serial - self.power_of_two) * by_chance
    }

    /// The mean logarithm of runs on `nodes` nodes, none above 12.
    fn run_ln(&self, nodes: u32) -> f64 {
        let short = self.short_by_nodes.0 * f64::from(nodes) + self.short_by_nodes.1;
        let short = short.clamp(0.0, 1.0);
        let [kept_short, sum_short] = bounded_moments(self.runs[0], 12.0, |x| x);
        let [kept_long, sum_long] = bounded_moments(self.runs[1], 12.0, |x| x);
        (short * sum_short + (1.0 - short) * sum_long)
            / (short * kept_short + (1.0 - short) * kept_long)
    }
}

/// Of a gamma distribution: how much of it is below `most`, and the integral of `f` there
/// (midpoint rule, normalised by the integral of the density itself).
fn bounded_moments((shape, scale): (f64, f64), most: f64, f: fn(f64) -> f64) -> [f64; 2] {
    let step = 1e-3;
    let peak = (shape - 1.0) * scale;
    let density = |x: f64| ((shape - 1.0) * (x / peak).ln() - (x - peak) / scale).exp();
    let (mut all, mut kept, mut sum) = (0.0, 0.0, 0.0);
    for at in 0..100_000 {
        let x = (f64::from(at) + 0.5) * step;
        let part = density(x);
        all += part;
        if x <= most {
            kept += part;
            sum += part * f(x);
        }
    }
    [kept / all, sum / all]
}

#[test]
fn sizes() {
    for published in &PUBLISHED {
        let jobs = sample(published.kind).jobs;
        let count = |is: fn(u32) -> bool| jobs.iter().filter(|job| is(job.processors)).count();
        let kind = published.kind.name();
        // Sizes that are rounded to one node: only typeless logarithms begin low enough.
        let odd = 1.0 - published.serial - published.power_of_two;
        let one = published.serial + odd * published.size_below(1.5f64.log2());
        check_probability(kind, count(|nodes| nodes == 1), JOBS, one);
        let power = published.power_above_one();
        let found = count(|nodes| nodes > 1 && nodes.is_power_of_two());
        check_probability(kind, found, JOBS, power);
        assert!(jobs.iter().all(|job| (1..=128).contains(&job.processors)));
    }
}

#[test]
fn run_times() {
    for published in &PUBLISHED {
        let jobs = sample(published.kind).jobs;
        let by_nodes: Vec<f64> = (0..=128).map(|nodes| published.run_ln(nodes)).collect();
        // Run times are cut to seconds: half a second more is their mean.
        let run_ln = |job: &Job| (job.run.0 as f64 / 1000.0 + 0.5).ln();
        let off: Vec<f64> = jobs
            .iter()
            .map(|job| run_ln(job) - by_nodes[job.processors as usize])
            .collect();
        check_mean(published.kind.name(), &off, 0.0);
        let longest = Span::from_secs(162_754);
        assert!(
            jobs.iter()
                .all(|job| job.run >= Span(1000) && job.run <= longest)
        );
    }
}

/// Jobs a day are those of the gaps' distribution, and the load divides the gaps.
#[test]
fn arrivals() {
    for published in &PUBLISHED {
        let [kept, secs] = bounded_moments(published.gaps, 13.0, f64::exp);
        let [_, squares] = bounded_moments(published.gaps, 13.0, |x| (2.0 * x).exp());
        let mean_secs = secs / kept;
        let error = ((squares / kept - mean_secs.powi(2)) / JOBS as f64).sqrt();
        for load in [1.0, 2.0] {
            let jobs = generate(&Settings {
                jobs: JOBS,
                kind: published.kind,
                load,
                ..Settings::default()
            })
            .jobs;
            let last_secs = jobs[JOBS - 1].submit.secs() as f64;
            let found = last_secs / JOBS as f64 * load;
            let off = (found - mean_secs).abs();
            assert!(off < SIGMAS * error, "{}: {found} {mean_secs} {error}", published.kind);
        }
    }
}

/// The mean hour of submissions from 05:00 on is that of the published daily cycle, between
/// 15 and 16 h. Days are the independent units: submissions come in bursts.
#[test]
fn daily_cycle() {
    const DAY_SECS: i64 = 86_400;
    const BEGIN_SECS: i64 = 5 * 3600;
    for published in &PUBLISHED {
        let jobs = sample(published.kind).jobs;
        let mut days: BTreeMap<i64, f64> = BTreeMap::new();
        let (mut at_night, mut by_day) = (0, 0);
        for job in &jobs {
            let secs = job.submit.secs() - BEGIN_SECS;
            let in_day_secs = secs.rem_euclid(DAY_SECS) + BEGIN_SECS;
            let hour = in_day_secs as f64 / 3600.0;
            *days.entry(secs.div_euclid(DAY_SECS)).or_default() += hour - published.mean_hour;
            at_night += usize::from((26.0..29.0).contains(&hour));
            by_day += usize::from((12.0..15.0).contains(&hour));
        }
        let off = days.values().sum::<f64>() / JOBS as f64;
        let error = days.values().map(|day| day * day).sum::<f64>().sqrt() / JOBS as f64;
        let kind = published.kind.name();
        assert!(off.abs() < SIGMAS * error && error < 0.15, "{kind}: {off} ± {error}");
        assert!(by_day > 2 * at_night, "{kind}: {by_day} {at_night}");
    }
}

/// Jobs use ln 6 / 5 of their limit on average, and never more than all of it.
#[test]
fn limits() {
    let jobs = sample(JobKind::Both).jobs;
    let used = |job: &Job| job.run.0 as f64 / job.limit.0 as f64;
    let long: Vec<f64> = jobs
        .iter()
        .filter(|job| job.run >= Span::from_secs(1000))
        .map(used)
        .collect();
    check_mean("used", &long, 6f64.ln() / 5.0);
    for job in &jobs {
        assert!(job.limit >= job.run && job.limit.0 <= 6 * job.run.0);
    }
}

#[test]
fn both_kinds_are_the_single_ones_merged() {
    let single = |kind| {
        let jobs = sample(kind).jobs.into_iter();
        jobs.map(|job| Job { id: 0, ..job }).collect::<Vec<Job>>()
    };
    let both = single(JobKind::Both);
    assert!(both.is_sorted_by_key(|job| job.submit));
    for (queue, alone) in [
        (1, single(JobKind::Batch)),
        (2, single(JobKind::Interactive)),
    ] {
        let part: Vec<&Job> = both.iter().filter(|job| job.queue == queue).collect();
        assert!(part.len() > 1000);
        assert!(
            part.iter()
                .zip(&alone)
                .all(|(merged, alone)| *merged == alone)
        );
    }
}

#[test]
fn same_seed_same_jobs() {
    let settings = |seed| Settings {
        seed,
        ..Settings::default()
    };
    assert_eq!(generate(&settings(5)), generate(&settings(5)));
    assert_ne!(generate(&settings(5)).jobs, generate(&settings(6)).jobs);
}

#[test]
fn absurd_settings_end_and_stay_in_bounds() {
    for (nodes, load) in [
        (0, f64::NAN),
        (1, 0.0),
        (3, -1.0),
        (u32::MAX, f64::INFINITY),
    ] {
        for kind in JobKind::ALL {
            let settings = Settings {
                nodes,
                load,
                kind,
                jobs: 500,
                seed: u64::MAX,
            };
            let workload = generate(&settings);
            assert_eq!(workload.jobs.len(), 500);
            for job in &workload.jobs {
                assert!(job.processors >= 1 && job.processors <= nodes.max(1));
                assert!(job.submit >= Time::EPOCH && job.run > Span::ZERO);
            }
        }
    }
    assert!(
        generate(&Settings {
            jobs: 0,
            ..Settings::default()
        })
        .jobs
        .is_empty()
    );
}

#[test]
fn names_of_kinds_are_read_and_written() {
    for kind in JobKind::ALL {
        assert_eq!(JobKind::from_str(&kind.to_string()), Ok(kind));
    }
    let error = JobKind::from_str("Batch").unwrap_err().to_string();
    assert!(error.contains("`Batch`") && error.contains("typeless"), "{error}");
}
