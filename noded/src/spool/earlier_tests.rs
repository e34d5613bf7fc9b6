//! What nodes of earlier releases kept of attempts in the middle of their work: every record is read
//! with all that is in it.
//!
//! `tests/tools/make-state.py` makes them. The directories of five nodes hold attempts that had just
//! come, were held, ran, had ended while there was no controller, steps, and a trigger's program.

use super::{HEADER, LAUNCH, OUTCOME, Outcome, Phase, Work, key_of, read_launch, read_outcome};
use crate::steps::{self, StepOutcome, StepTask};
use cosy_kept::lost_fields;
use cosy_model::{EndCause, Time};
use serde::{Serialize, de::DeserializeOwned};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

const STATES: [&str; 1] = ["state-0.1.0-schema-12"];

/// Where a launch file says how far its attempt got.
const PHASE: usize = 8;
/// Where it has the date on the clock on the wall.
const DATE: usize = 16;

/// Directories of attempts and, below them, of steps.
fn directories(state: &str) -> Vec<PathBuf> {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures");
    let below = |path: &Path| -> Vec<PathBuf> {
        let mut found: Vec<_> = fs::read_dir(path)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.is_dir())
            .collect();
        found.sort();
        found
    };
    let nodes = below(&all.join(state));
    let attempts: Vec<_> = nodes.iter().flat_map(|node| below(node)).collect();
    let steps: Vec<_> = attempts.iter().flat_map(|attempt| below(attempt)).collect();
    [attempts, steps].concat()
}

fn name(directory: &Path) -> &str {
    directory.file_name().unwrap().to_str().unwrap()
}

fn is_step(directory: &Path) -> bool {
    steps::step_of(name(directory)).is_some()
}

/// What of the file is lost when its record, which begins there, is read.
fn lost_of<T: Serialize + DeserializeOwned>(file: &Path, from: usize) -> Vec<String> {
    let bytes = fs::read(file).unwrap();
    lost_fields::<T>(super::records::unseal(&bytes, from).expect("a whole file"))
}

#[test]
fn every_record_of_an_earlier_release_is_read_whole() {
    let mut all = BTreeSet::new();
    for directory in STATES.into_iter().flat_map(directories) {
        let launch = directory.join(LAUNCH);
        let outcome = Some(directory.join(OUTCOME)).filter(|file| file.exists());
        all.extend(match is_step(&directory) {
            true => lost_of::<StepTask>(&launch, HEADER),
            false => lost_of::<Work>(&launch, HEADER),
        });
        all.extend(
            outcome
                .into_iter()
                .flat_map(|file| match is_step(&directory) {
                    true => lost_of::<StepOutcome>(&file, 0),
                    false => lost_of::<Outcome>(&file, 0),
                }),
        );
    }
    assert!(all.is_empty(), "lost: {all:#?}");
}

/// A node keeps the end of a step only until it has told it, so no state above has one. This one
/// was written by release 0.1.0.
#[test]
fn the_end_of_a_step_of_an_earlier_release_is_read_whole() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures");
    let directory = fixtures.join("step-outcome-0.1.0");
    assert_eq!(lost_of::<StepOutcome>(&directory.join(OUTCOME), 0), [""; 0]);
    let kept = read_outcome::<StepOutcome>(&directory).expect("a whole outcome");
    let whole = kept.whole.expect("it is of the step's first node");
    assert_eq!((kept.end.end.cause, kept.end.starved), (EndCause::OutOfMemory, 2));
    assert_eq!((whole.name.as_str(), whole.end.cause), ("solver", EndCause::NodeLost));
    assert_eq!(kept.tasks.len(), 1);
}

#[test]
fn how_far_attempts_of_an_earlier_release_got_is_known() {
    let copies = tempfile::tempdir().unwrap();
    for state in STATES {
        let mut phases = Vec::new();
        for directory in directories(state).into_iter().filter(|d| !is_step(d)) {
            let mut bytes = fs::read(directory.join(LAUNCH)).unwrap();
            // As before this machine ran: the date is what it says then.
            bytes[PHASE + 1..DATE].fill(0);
            let copy = copies.path().join(LAUNCH);
            fs::write(&copy, &bytes).unwrap();
            let kept = read_launch::<Work>(&File::open(&copy).unwrap()).unwrap();
            assert_eq!(kept.phase as u8, bytes[PHASE]);
            let date = i64::from_le_bytes(*bytes[DATE..].first_chunk().unwrap());
            assert_eq!(kept.start, Time(date));
            let allocation = kept.work.allocation();
            assert_eq!(key_of(name(&directory)), Some(allocation.key));
            phases.push((kept.phase, matches!(kept.work, Work::Hold(_))));
        }
        for wanted in [
            (Phase::Received, false),
            (Phase::Prepared, true),
            (Phase::Started, false),
        ] {
            assert!(phases.contains(&wanted), "{wanted:?} is in none: {phases:?}");
        }
    }
}

#[test]
fn ends_that_nobody_was_told_are_read() {
    for state in STATES {
        let ends: Vec<Outcome> = directories(state)
            .iter()
            .filter(|directory| !is_step(directory))
            .filter_map(|directory| read_outcome(directory))
            .collect();
        let known: Vec<_> = ends
            .iter()
            .map(|o| (o.end.cause.clone(), o.end.exit_code))
            .collect();
        assert_eq!(known, [(EndCause::Exited, 4), (EndCause::Exited, 4)]);
        assert!(directories(state).iter().any(|d| is_step(d)));
        // Numbers above those of all jobs are programs of triggers.
        let high = |d: &PathBuf| key_of(name(d)).is_some_and(|key| key.job().is_none());
        assert!(directories(state).iter().any(high));
    }
}
