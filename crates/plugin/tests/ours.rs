//! The plugins that come with Cosy: what their scripts say about a job, and whether
//! shellcheck finds anything in them.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::step::Wireup;
use cosy_plugin::{Environment, Plugins, Prepared, prepare};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn home() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugins")
}

fn plugins() -> Plugins {
    Plugins::new(vec![home()])
}

fn environment(more: &[(&str, &str)]) -> Environment {
    let usual = [
        ("PATH", "/usr/bin:/bin"),
        ("COSY_JOB_ID", "12"),
        ("COSY_NODES", "n[1-3]"),
        ("COSY_NODE_COUNT", "3"),
        ("COSY_TASKS", "6"),
        ("COSY_TASKS_BY_NODE", "4,2,0"),
        ("COSY_CORES_PER_TASK", "1"),
        ("COSY_CORES", "4"),
    ];
    let all = usual.iter().chain(more);
    all.map(|(n, v)| (n.into(), v.into())).collect()
}

fn value<'a>(prepared: &'a Prepared, name: &str) -> Option<&'a str> {
    prepared.variables.get(OsStr::new(name))?.to_str()
}

/// The lines of the file that a variable names.
fn file(prepared: &Prepared, name: &str) -> String {
    fs::read_to_string(value(prepared, name).unwrap()).unwrap()
}

fn check(more: &[(&str, &str)], look: impl FnOnce(&Prepared)) {
    let files = tempfile::tempdir().unwrap();
    let command = Path::new("/opt/cosy/bin/cosy");
    let prepared = prepare(&plugins(), &environment(more), files.path(), Some(command));
    assert_eq!(prepared.complaints, [""; 0]);
    look(&prepared);
}

#[test]
fn all_of_them() {
    check(&[], |prepared| {
        assert_eq!(file(prepared, "COSY_HOSTS_FILE"), "n1 4 4\nn2 2 2\nn3 0 0\n");
        let openmpi = file(prepared, "OMPI_MCA_orte_default_hostfile");
        assert_eq!(openmpi, "n1 slots=4\nn2 slots=2\n");
        assert_eq!(file(prepared, "HYDRA_HOST_FILE"), "n1:4\nn2:2\n");
        assert_eq!(file(prepared, "I_MPI_HYDRA_HOST_FILE"), "n1:4\nn2:2\n");
        let shell = home().join("cosy-rsh");
        for name in [
            "OMPI_MCA_plm_rsh_agent",
            "PRTE_MCA_plm_ssh_agent",
            "HYDRA_LAUNCHER_EXEC",
            "I_MPI_HYDRA_BOOTSTRAP_EXEC",
        ] {
            assert_eq!(value(prepared, name), shell.to_str(), "{name}");
        }
        assert_eq!(value(prepared, "COSY_COMMAND"), Some("/opt/cosy/bin/cosy"));
        assert_eq!(value(prepared, "OMPI_MCA_btl"), None);
        assert_eq!(value(prepared, "EXAMPLE_MACHINE_FILE"), None);
    });
}

#[test]
fn nodes_that_share_a_machine() {
    check(&[("COSY_MACHINE_SHARED", "1")], |prepared| {
        assert_eq!(value(prepared, "OMPI_MCA_btl"), Some("^vader"));
        assert_eq!(value(prepared, "I_MPI_PIN"), Some("off"));
    });
}

#[test]
fn several_cores_for_a_task() {
    let several = [("COSY_CORES_PER_TASK", "2"), ("COSY_CORES", "100000")];
    check(&several, |prepared| {
        let policy = "OMPI_MCA_hwloc_base_binding_policy";
        assert_eq!(value(prepared, policy), Some("none"), "cores that are not there");
    });
    let counted = Command::new("nproc").output().unwrap().stdout;
    let here = String::from_utf8(counted).unwrap();
    let here = here.trim();
    check(&[("COSY_CORES_PER_TASK", "2"), ("COSY_CORES", here)], |prepared| {
        let policy = "OMPI_MCA_rmaps_base_mapping_policy";
        assert_eq!(value(prepared, policy), Some("slot:PE=2"));
    });
}

#[test]
fn one_by_its_name() {
    check(&[("COSY_MPI", "mpich")], |prepared| {
        assert!(value(prepared, "HYDRA_HOST_FILE").is_some());
        assert_eq!(value(prepared, "OMPI_MCA_plm"), None);
    });
    check(&[("COSY_MPI", "example")], |prepared| {
        let machines = file(prepared, "EXAMPLE_MACHINE_FILE");
        assert_eq!(machines, "n1\nn1\nn1\nn1\nn2\nn2\n");
    });
}

#[test]
fn how_tasks_find_each_other() {
    for (name, expected) in [
        ("openmpi", Wireup::Pmix),
        ("mpich", Wireup::Pmi),
        ("intelmpi", Wireup::Pmi),
        ("none", Wireup::None),
        ("example", Wireup::None),
    ] {
        let plugin = plugins().named(name).unwrap();
        assert_eq!(plugin.wireup().unwrap(), expected, "{name}");
    }
    let known = |name: &str, library: &str| {
        let libraries = plugins().named(name).unwrap().libraries().unwrap();
        assert!(libraries.iter().any(|l| l == library), "{name} {library}");
    };
    known("openmpi", "libmpi.so.40");
    known("mpich", "libmpich.so.12");
    known("intelmpi", "libmpi.so.12");
}

/// What `cosy-rsh` makes of the ways in which rsh and ssh are called: the words of its call
/// of `cosy` from the node's name on.
fn rsh(args: &[&str], expected: Result<(&str, &str), &str>) {
    let output = Command::new(home().join("cosy-rsh"))
        .args(args)
        .env("COSY_JOB_ID", "12")
        .env("COSY_COMMAND", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cosy"))
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    match expected {
        Ok((host, command)) => {
            let words: Vec<&str> = out.lines().collect();
            let after = |word: &str| words[words.iter().position(|w| *w == word).unwrap() + 1];
            assert_eq!((words[0], after("--require")), ("run", host), "{args:?}");
            assert_eq!(words[words.len() - 3..], ["/bin/sh", "-c", command], "{args:?}");
        }
        Err(part) => {
            assert_eq!(output.status.code(), Some(255), "{args:?}");
            assert!(err.contains(part), "{args:?}: {err}");
        }
    }
}

#[test]
fn in_place_of_rsh() {
    rsh(&["n2", "orted", "-mca", "ess", "\"env\""], Ok(("n2", "orted -mca ess \"env\"")));
    rsh(&["n2", "cd '/a b' && ls -l"], Ok(("n2", "cd '/a b' && ls -l")));
    rsh(&["-x", "-l", "ann", "n2", "true"], Ok(("n2", "true")));
    rsh(&["-n", "ann@n2", "true", "-l", "x"], Ok(("n2", "true -l x")));
    rsh(&["-o", "BatchMode=yes", "n2", "proxy", "--port=h:1"], Ok(("n2", "proxy --port=h:1")));
    rsh(&["n2"], Err("usage"));
    rsh(&[], Err("usage"));
    rsh(&["-l"], Err("usage"));
}

#[test]
fn no_step_outside_a_job() {
    let output = Command::new(home().join("cosy-rsh"))
        .args(["n2", "true"])
        .env_remove("COSY_JOB_ID")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(255));
    assert!(String::from_utf8_lossy(&output.stderr).contains("not inside a job"));
}

/// Every shell script here, by its first line.
fn scripts(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            scripts(&path, found);
        } else if fs::read(&path).unwrap().starts_with(b"#!/bin/sh") {
            found.push(path);
        }
    }
}

#[test]
fn shellcheck_finds_nothing() {
    let mut found = Vec::new();
    scripts(&home(), &mut found);
    assert!(found.len() >= 6, "{found:?}");
    match Command::new("shellcheck").args(&found).output() {
        Err(e) => println!("skipped: shellcheck is not there: {e}"),
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success(), "{text}");
        }
    }
}
