//! Controllers, a database and nodes in schedules from seeds, with clocks that drift and jump,
//! pauses, crashes, failovers, and messages that are lost, late or doubled.
//!
//! `COSY_SCHEDULES=N` plays more of them, `COSY_SEED=N` one alone, with `COSY_TELL=1` telling
//! what happens in it. A failing seed is printed with the command that repeats it.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)] // seeds come from the environment

mod checks;
mod controller;
mod database;
mod dice;
mod mutation;
mod node;
mod schedule;
mod serving;
mod stage;

use checks::Tally;
use mutation::Mutation;

/// Schedules of one run.
const SCHEDULES: u64 = 5000;
/// Within so many schedules each mutation is found.
const FOUND_WITHIN: u64 = 20_000;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().expect("a number in the environment"))
}

fn play(seed: u64) -> Tally {
    let tell = number("COSY_TELL").is_some();
    schedule::run(seed, None, tell).unwrap_or_else(|violation| {
        panic!(
            "{violation}\nrepeat with: COSY_SEED={seed} COSY_TELL=1 \
             cargo test -p cosy-lease --test simulation no_schedule"
        )
    })
}

#[test]
fn no_schedule_breaks_a_rule() {
    if let Some(seed) = number("COSY_SEED") {
        println!("{:#?}", play(seed));
        return;
    }
    let schedules = number("COSY_SCHEDULES").unwrap_or(SCHEDULES);
    let mut seen = Tally::default();
    for seed in 0..schedules {
        seen.add(&play(seed));
    }
    println!("{schedules} schedules: {seen:#?}");
    for (what, times) in seen.figures() {
        assert!(times > schedules / 100, "{what}: only {times} times");
    }
}

#[test]
fn what_is_broken_on_purpose_is_found() {
    for (mutation, rules) in Mutation::ALL {
        let broken = |seed| schedule::run(seed, Some(mutation), false).err();
        let found = (0..FOUND_WITHIN).find_map(|seed| {
            let violation = broken(seed).filter(|v| rules.contains(&v.rule))?;
            Some((seed, violation))
        });
        let (seed, violation) = found.unwrap_or_else(|| panic!("{mutation:?} was not found"));
        println!("{mutation:?} by schedule {seed}: {violation}");
    }
}
