//! `cosy-sim generate --dag` and `cosy-sim experiment workflow`: files, tables, errors.
#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_sim::dag::{GraphKind, GraphSettings, graph_file};
use std::process::{Command, Output};

fn run(options: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cosy-sim"));
    command.args(options.split_whitespace()).output().unwrap()
}

fn told(options: &str) -> String {
    let output = run(options);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{options}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

fn refused(options: &str, words: &str) {
    let output = run(options);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && error.contains(words), "{options}: {error}");
    assert!(output.stdout.is_empty());
}

#[test]
fn graphs_read_as_they_are_drawn() {
    for kind in GraphKind::ALL {
        let word = kind.word();
        let text = told(&format!("generate --dag {word} --seed 5"));
        assert_eq!(graph_file::read(&text).unwrap(), GraphSettings::usual(kind, 5).generate());
        assert!(text.contains(&format!("\"--dag {word} --tasks ")), "{text}");
    }
    let text = told("generate --dag laplace --tasks 30 --machines 3 --ccr 0.5 --seed 2");
    let graph = graph_file::read(&text).unwrap();
    assert_eq!((graph.count(), graph.unit_us.len()), (25, 3));
    assert!(text.contains("--dag laplace --tasks 30 --machines 3 --seed 2 --ccr 0.5"));
}

#[test]
fn refused_options() {
    refused("generate --dag tree", "montage, forkjoin, fft, laplace, random");
    refused("generate --dag fft --tasks 11", "12..=100000");
    refused("generate --dag fft --ccr 101", "from 0 to 100");
    refused("generate --dag fft --jobs 3", "cannot be used with");
    refused("generate --dag fft --nodes 3", "cannot be used with");
    refused("generate --model cirne --nodes 4 --tasks 60", "cannot be used with");
    refused("experiment workflow --dag-file /nowhere", "/nowhere: cannot be read");
    refused("experiment workflow --runs 0", "1..=10000");
}

#[test]
fn one_graph_in_all_ways() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.json");
    std::fs::write(&path, told("generate --dag montage --seed 1")).unwrap();
    let path = path.to_str().unwrap();
    let text = told(&format!("experiment workflow --dag-file {path}"));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2 + 2 + 6, "{text}");
    assert!(lines[9].starts_with("| cp_even_percent | "), "{text}");
    let text = told(&format!("experiment workflow --dag-file {path} --deadline 10s"));
    assert_eq!(text.matches("too late").count(), 8 * 4, "{text}");
    std::fs::write(path, "{\n\"format\": 1}").unwrap();
    refused(&format!("experiment workflow --dag-file {path}"), "line 2");
}

/// All tables, and statements with figures; the same again with the same seed.
#[test]
fn the_experiment() {
    let all = |options: &str| -> serde_json::Value {
        let text = told(&format!("experiment workflow --runs 2 --json - {options}"));
        serde_json::from_str(&text).unwrap()
    };
    let first = all("--seed 3");
    for cell in first["fixed"]["kinds"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|k| k[1].as_array())
    {
        let late = |cell: &serde_json::Value| cell["in_time"] == 0;
        assert!(cell.iter().all(|cell| late(cell) == (cell["alpha"] == 0.0)));
    }
    let kinds = first["alike"]["kinds"].as_array().unwrap();
    assert_eq!(kinds.len(), 5);
    for cell in kinds.iter().flat_map(|kind| kind[1].as_array().unwrap()) {
        assert!(cell["alpha"].as_f64().unwrap() > 0.0);
        for shares in cell["shares"].as_array().unwrap() {
            let of = |name: &str| shares[name].as_f64().unwrap();
            assert!(of("min") <= of("avg") && of("avg") <= of("max"), "{shares}");
        }
    }
    for rows in first["in_slots"].as_array().unwrap() {
        assert_eq!(rows.as_array().unwrap().len(), 7);
    }
    let claims = first["claims"].as_array().unwrap();
    let claims: Vec<usize> = claims
        .iter()
        .map(|c| c["claims"].as_array().unwrap().len())
        .collect();
    assert_eq!(claims, [10, 10, 4, 4, 2]);
    let again = all("--seed 3");
    for table in ["fixed", "alike", "in_slots", "early"] {
        assert_eq!(first[table], again[table]);
        assert_ne!(first[table], all("--seed 4")[table]);
    }
}
