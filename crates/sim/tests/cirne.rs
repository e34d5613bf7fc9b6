//! The model of Cirne and Berman against what is published of it.
//!
//! Seeded. Tolerances are four standard errors of the sample, or, where the model has no
//! noise (arrivals), what the cut at the ends of the sample makes.

use cosy_model::Time;
use cosy_sim::models::cirne::{Arrival, Settings, generate};
use cosy_sim::workload::Job;

const JOBS: usize = 20_000;
const DAY_SECS: f64 = 86_400.0;

fn drawn(seed: u64) -> Vec<Job> {
    let settings = Settings {
        jobs: JOBS,
        seed,
        ..Settings::default()
    };
    generate(&settings).jobs
}

/// Demands that the mean of `values` is `published`, but for what chance does and for the
/// last digit that was published.
fn check_mean(what: &str, values: impl Iterator<Item = f64> + Clone, published: f64, digit: f64) {
    let count = values.clone().count() as f64;
    let mean = values.clone().sum::<f64>() / count;
    let variance = values.map(|v| (v - mean).powi(2)).sum::<f64>() / count;
    let tolerance = 4.0 * (variance / count).sqrt() + digit;
    assert!(
        (mean - published).abs() <= tolerance,
        "{what}: {mean}, published {published}, tolerance {tolerance}"
    );
}

fn share(jobs: &[Job], of: impl Fn(&Job) -> bool + Clone) -> impl Iterator<Item = f64> + Clone {
    jobs.iter().map(move |job| f64::from(u8::from(of(job))))
}

fn days(jobs: &[Job]) -> f64 {
    let (first, last) = (jobs[0].submit, jobs[jobs.len() - 1].submit);
    last.since(first).secs() as f64 / DAY_SECS
}

#[test]
fn sizes_are_as_published() {
    for seed in 1..=2 {
        let jobs = drawn(seed);
        check_mean("serial", share(&jobs, |j| j.processors == 1), 0.20, 0.0);
        let sizes = jobs.iter().map(|job| f64::from(job.processors));
        check_mean("size", sizes, 18.1, 0.05);
        // Up to 102 are drawn; three in four are rounded to a power of two, 128 at most,
        // which ends at the machine.
        let sizes = jobs.iter().map(|job| job.processors);
        let largest = sizes.clone().filter(|n| !n.is_power_of_two() && *n < 120);
        assert_eq!((largest.max(), sizes.max()), (Some(102), Some(120)));
    }
}

#[test]
fn sizes_end_at_the_machine() {
    for nodes in [1, 3, 32, 64] {
        let settings = Settings {
            nodes,
            ..Settings::default()
        };
        let jobs = generate(&settings).jobs;
        let largest = jobs.iter().map(|job| job.processors).max();
        assert_eq!(largest, Some(nodes));
    }
}

#[test]
fn requested_times_are_as_published() {
    for seed in 1..=2 {
        let jobs = drawn(seed);
        let requested = jobs.iter().map(|job| job.limit.secs() as f64);
        check_mean("requested", requested, 26_700.0, 50.0);
        let secs = jobs.iter().map(|job| job.limit.secs());
        let (least, most) = (secs.clone().min().unwrap(), secs.max().unwrap());
        assert!((181..=200).contains(&least), "{least}");
        assert!((184_000..=185_364).contains(&most), "{most}");
    }
}

#[test]
fn accuracies_are_as_published() {
    for seed in 1..=2 {
        let jobs = drawn(seed);
        // Run times are rounded up to whole seconds.
        let accuracy = jobs
            .iter()
            .map(|job| job.run.secs() as f64 / job.limit.secs() as f64);
        check_mean("accuracy", accuracy, 0.313, 0.001);
        check_mean("exact", share(&jobs, |j| j.run == j.limit), 0.088, 0.001);
    }
}

#[test]
fn cancellations_are_as_published_and_can_be_left_out() {
    for seed in 1..=2 {
        let mut jobs = drawn(seed);
        let cancelled = share(&jobs, |j| j.cancel.is_some());
        check_mean("cancelled", cancelled, 0.15, 0.0);
        for job in &jobs {
            let lag = job.cancel.map(|cancel| cancel.since(job.submit).secs());
            assert!(lag.is_none_or(|secs| (30..=1_310_000).contains(&secs)));
        }
        let settings = Settings {
            jobs: JOBS,
            seed,
            cancellations: false,
            ..Settings::default()
        };
        jobs.iter_mut().for_each(|job| job.cancel = None);
        assert_eq!(generate(&settings).jobs, jobs);
    }
}

#[test]
fn jobs_per_day_are_as_published() {
    let rates = [97.5, 227.4, 37.8, 105.0];
    for (arrival, per_day) in Arrival::ALL.into_iter().zip(rates) {
        let fitted = arrival.fitted_nodes();
        for (load, nodes, times) in [
            (1.0, fitted, 1.0),
            (1.0, 2 * fitted, 2.0),
            (0.5, fitted, 0.5),
        ] {
            let settings = Settings {
                nodes,
                load,
                arrival,
                jobs: (per_day * 100.0) as usize,
                ..Settings::default()
            };
            let jobs = generate(&settings).jobs;
            let got = (jobs.len() - 1) as f64 / days(&jobs);
            let off = (got / (per_day * times) - 1.0).abs();
            assert!(off < 0.01, "{arrival} at {load}: {got}, published {per_day}");
        }
    }
}

#[test]
fn the_day_at_argonne_is_as_published() {
    let published = [
        3.25, 3.39, 3.20, 3.22, 2.76, 2.20, 2.33, 3.38, 4.85, 5.96, 6.16, 5.58, 4.81, 4.60, 5.22,
        6.26, 6.82, 6.14, 4.28, 2.40, 1.98, 3.13, 3.49, 2.08,
    ];
    let jobs = generate(&Settings {
        jobs: 48_750,
        ..Settings::default()
    })
    .jobs;
    let mut hours = [0.0; 24];
    for job in &jobs {
        let hour = job.submit.secs().rem_euclid(86_400) / 3600;
        hours[hour as usize] += 1.0 / days(&jobs);
    }
    for (hour, (got, wanted)) in hours.iter().zip(published).enumerate() {
        assert!((got - wanted).abs() < 0.02, "{hour} h: {got}, published {wanted}");
    }
}

#[test]
fn jobs_come_in_order_and_begin_at_any_time_of_day() {
    let mut quarters = [0; 4];
    for seed in 0..100 {
        let settings = Settings {
            seed,
            jobs: 100,
            ..Settings::default()
        };
        let jobs = generate(&settings).jobs;
        assert!(jobs.is_sorted_by_key(|job| (job.submit, job.id)));
        assert_eq!(generate(&settings).jobs, jobs);
        let first = jobs[0].submit;
        assert!(first >= Time(0) && first.secs() < 2 * 86_400);
        quarters[(first.secs() % 86_400 / 21_600) as usize] += 1;
    }
    // 25 in each, with a standard deviation of 4.3.
    assert!(quarters.iter().all(|n| (8..=42).contains(n)), "{quarters:?}");
}
