//! Help, manual pages and completions of the program.

#![allow(clippy::unwrap_used)] // tests

use std::process::Command;

fn told(args: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cosy-sim"));
    let output = command.args(args).output().unwrap();
    assert!(output.status.success(), "{args:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn every_command_has_help_and_a_page() {
    let dir = tempfile::tempdir().unwrap();
    let man = dir.path().join("man");
    told(&["pages", "man", man.to_str().unwrap()]);
    let check = |command: &str, words: &str| {
        assert!(told(&[command, "--help"]).contains(words), "{command}");
        let page = std::fs::read_to_string(man.join(format!("cosy-sim-{command}.1"))).unwrap();
        let call = format!("cosy\\-sim {command}");
        assert!(page.contains(".SH SYNOPSIS") && page.contains(&call), "{page}");
    };
    check("run", "--gantt <OUT.svg>");
    check("try", "--against <POLICY>");
    check("generate", "--model <MODEL>");
    check("experiment", "cosy");
    check("calibrate", "--choices <N>");
    let page = std::fs::read_to_string(man.join("cosy-sim.1")).unwrap();
    assert!(page.contains("history"), "{page}");
    assert_eq!(std::fs::read_dir(man).unwrap().count(), 6);
}

#[test]
fn completions_of_three_shells() {
    let dir = tempfile::tempdir().unwrap();
    told(&["pages", "completions", dir.path().to_str().unwrap()]);
    for file in ["bash/cosy-sim.bash", "zsh/_cosy-sim", "fish/cosy-sim.fish"] {
        let text = std::fs::read_to_string(dir.path().join(file)).unwrap();
        assert!(text.contains("utilisation"), "{file}");
    }
}
