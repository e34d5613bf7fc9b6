//! scratch
#![allow(missing_docs, clippy::unwrap_used)]
use cosy_model::{Span, Time};
use cosy_sched::Policy;
use cosy_sim::replay::{Machine, Options, replay};
use cosy_sim::workload::{Job, Workload};
fn main() {
    let mut args = std::env::args().skip(1);
    let file = args.next().unwrap();
    let nodes: u32 = args.next().unwrap().parse().unwrap();
    let cores: u32 = args.next().unwrap_or("1".into()).parse().unwrap();
    let policy = match args.next().as_deref() {
        Some("fcfs") => Policy::FCFS,
        Some("cons") => Policy::CONSERVATIVE,
        _ => Policy::EASY,
    };
    let rounds: u32 = args.next().unwrap_or("5".into()).parse().unwrap();
    let mut w = Workload::default();
    for (i, l) in std::fs::read_to_string(file).unwrap().lines().enumerate() {
        let f: Vec<i64> = l.split(' ').map(|x| x.parse().unwrap()).collect();
        w.jobs.push(Job {
            id: i as u64,
            submit: Time(f[0]),
            run: Span(f[1]),
            limit: Span(f[2]),
            processors: f[3] as u32,
            ..w.jobs.first().cloned().unwrap_or(Job {
                id: 0,
                submit: Time(0),
                run: Span(0),
                limit: Span(0),
                processors: 0,
                nodes: None,
                cancel: None, recorded_wait: None,
                user: 0,
                account: 0,
                queue: 0,
            })
        });
    }
    w.jobs.sort_by_key(|j| j.submit);
    for _ in 0..rounds {
        let t = std::time::Instant::now();
        let r = replay(Machine { nodes, cores }, policy, &w, Options::default());
        let took = t.elapsed();
        let (mut wait, mut n, mut back, mut end) = (0i128, 0, 0, Time(0));
        for (j, ran) in w.jobs.iter().zip(&r.ran) {
            if let Some(ran) = ran {
                wait += i128::from(ran.start.since(j.submit).0);
                n += 1;
                back += u32::from(ran.backfilled);
                end = end.max(ran.end);
            }
        }
        println!(
            "{took:.1?} {:.0} jobs/s, n {n}, mean wait {:.3}, backfilled {back}, makespan {} {}",
            n as f64 / took.as_secs_f64(),
            wait as f64 / n as f64 / 1000.0,
            (end.0 - w.jobs[0].submit.0) / 1000,
            end.0 / 1000
        );
    }
}
