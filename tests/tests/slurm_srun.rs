//! Options of `srun` and `salloc` about where tasks are and what is told of them: hosts one by
//! one, labels in files, processes. What is not about them is in `slurm_run.rs`.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_tests::run::{Output, run};
use cosy_tests::{Cluster, Options};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

fn cluster(nodes: usize) -> Cluster {
    Cluster::start(nodes, Options::default())
}

/// A whole line as a shell has it, with nothing on standard input.
#[track_caller]
fn shell(c: &Cluster, line: &str) -> Output {
    let path = format!("{}/bin:/usr/bin:/bin", c.dir().display());
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", line])
        .current_dir(c.work())
        .env("PATH", path)
        .env("COSY_SOCKET", c.socket());
    run(&mut command)
}

/// Runs `line`, which succeeds, and compares what it prints.
#[track_caller]
fn check(c: &Cluster, line: &str, stdout: &str) {
    let output = shell(c, line);
    assert_eq!((output.code, &*output.out), (0, stdout), "{line}\n{}", output.err);
}

#[test]
fn tasks_are_on_the_hosts_that_a_file_names() {
    let c = cluster(3);
    fs::write(c.work().join("hosts"), "n3\nn1*2 # twice\n").unwrap();
    let where_each = "srun -l printenv SLURMD_NODENAME | sort";
    let at_hosts = "0: n3\n1: n1\n2: n1\n";
    check(&c, &format!("SLURM_HOSTFILE=hosts {where_each}"), at_hosts);
    let line = "srun -l -m arbitrary -w n2,n1,n2 printenv SLURMD_NODENAME | sort";
    check(&c, line, "0: n2\n1: n1\n2: n2\n");
    let inside = format!("salloc -Q -N3 sh -c 'SLURM_HOSTFILE=hosts {where_each}'");
    let needed = "salloc -Q -N3 sh -c 'SLURM_HOSTFILE=hosts srun -n3 true'";
    assert_eq!(shell(&c, needed).code, 1, "n1 has one core");
    check(&c, &inside.replace("srun -l", "srun -O -l"), at_hosts);
    check(&c, &inside.replace("srun -l", "srun -n2 -l"), "0: n3\n1: n1\n");
    let told = "SLURM_HOSTFILE=hosts srun printenv SLURM_DISTRIBUTION | uniq";
    check(&c, told, "arbitrary\n");
    let output = shell(&c, "srun -m arbitrary true");
    assert_eq!(output.code, 1);
    let want = "srun: error: With Arbitrary distribution you need to specify a nodelist";
    assert!(output.err.starts_with(want), "{}", output.err);
    let output = shell(&c, "SLURM_HOSTFILE=hosts srun -n4 true");
    assert_eq!(output.code, 1);
    assert!(output.err.contains("has only 3"), "{}", output.err);
}

#[test]
fn named_nodes_are_among_those_of_a_step() {
    let c = cluster(3);
    let line = "salloc -Q -N3 sh -c 'srun -l -w n3 printenv SLURMD_NODENAME | sort'";
    check(&c, line, "0: n1\n1: n2\n2: n3\n");
    let line = "salloc -Q -N3 sh -c 'srun -l -N1 -w n3 printenv SLURMD_NODENAME'";
    check(&c, line, "0: n3\n");
}

#[test]
fn lines_in_files_of_tasks_have_labels() {
    let c = cluster(2);
    let program = "sh -c 'echo a; printf b; echo err >&2'";
    check(&c, &format!("srun -l -N2 -n11 -O -o l.%t {program}"), "");
    let read = |name: &str| {
        let text = fs::read_to_string(c.work().join(name)).unwrap();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines.join("|")
    };
    assert_eq!(read("l.0"), " 0: a| 0: b| 0: err");
    assert_eq!(read("l.10"), "10: a|10: b|10: err");
    check(&c, &format!("srun -l -n2 -o o.%n -e e.%t {program}"), "");
    assert_eq!(read("o.0"), "0: a|0: b|1: a|1: b");
    assert_eq!((read("e.0"), read("e.1")), ("0: err".into(), "1: err".into()));
    check(&c, "srun -l --open-mode=append -o o.%n echo c", "");
    assert_eq!(read("o.0"), "0: a|0: b|0: c|1: a|1: b");
    let output = shell(&c, "srun -l -o none/l.%t true");
    assert_ne!(output.code, 0);
    let why = "none/l.0: No such file or directory";
    assert!(output.err.contains(why), "{}", output.err);
}

#[test]
fn processes_of_tasks_are_told() {
    let c = cluster(1);
    let output = shell(&c, "srun --slurmd-debug=error sh -c 'echo $$; exit 3'");
    assert_eq!(output.code, 3);
    let pid = output.out.trim();
    for text in [
        "slurmstepd: debug levels are stderr='verbose', logfile='error', syslog='quiet'\n",
        "slurmstepd: starting 1 tasks\n",
        &format!("slurmstepd: task 0 ({pid}) started "),
        &format!("slurmstepd: task 0 ({pid}) exited with exit code 3.\n"),
    ] {
        assert!(output.err.contains(text), "{text}: {}", output.err);
    }
    // It stands before its program until it is let go.
    let line = "srun --debugger-test echo on 2>err & \
                until grep -q pid: err; do sleep 0.05; done; \
                p=$(sed -n 's/.*pid:\\([0-9]*\\),.*/\\1/p' err); \
                until grep -q '^State:.T' /proc/$p/status; do sleep 0.05; done; \
                echo stopped; kill -CONT $p; wait; cut -d' ' -f2,5 err";
    check(&c, line, "stopped\non\ntask:0, executable:echo\n");
}

#[test]
fn at_most_so_many_nodes() {
    let c = cluster(3);
    check(&c, "srun -N-3 true", "");
    let said = shell(&c, "srun -N3- true");
    let want = "srun: error: Maximum node count -1 is less than minimum node count 3\n";
    assert_eq!((said.code, &*said.err), (255, want));
}

#[test]
fn copies_name_steps_and_tell_what_they_do() {
    let c = cluster(2);
    fs::write(c.work().join("f"), "hello\n").unwrap();
    let line = "salloc -Q -N2 sh -c 'srun -Q sleep 600 & \
        until sbcast -vf -j$SLURM_JOB_ID.0 f g 2>told; do sleep 0.1; done; \
        sbcast -f -j $SLURM_JOB_ID.9 f g; echo $?; sbcast -f -j99999 f g; echo $?; \
        sbcast -f \"\" g; echo $?; sbcast -f f \"\"; echo $?; \
        timeout 2 sattach -vv $SLURM_JOB_ID.0 2>attached; echo $SLURM_JOB_ID; \
        scancel $SLURM_JOB_ID.0; wait'";
    let said = shell(&c, line);
    let words: Vec<&str> = said.out.split_whitespace().collect();
    let [first, second, no_source, no_destination, job] = words[..] else {
        panic!("{said:?}")
    };
    assert_eq!((first, second), ("255", "255"));
    assert_eq!((no_source, no_destination), ("1", "1"));
    for want in [
        "sbcast: error: cannot open '': No such file or directory".to_owned(),
        "sbcast: error: the destination is the name of a file\n".to_owned(),
        format!("sbcast: error: Slurm job {job}.9 lookup error: Invalid job id specified\n"),
        "sbcast: error: Slurm job 99999 lookup error: Invalid job id specified\n".to_owned(),
    ] {
        assert!(said.err.contains(&want), "{want} in {}", said.err);
    }
    let told = cosy_tests::shell::read(&c, "told");
    assert!(told.contains("sbcast: source     = f\n"), "{told}");
    assert!(told.contains("sbcast: node_list  = n[1-2]\n"), "{told}");
    let attached = cosy_tests::shell::read(&c, "attached");
    assert!(attached.contains(&format!("sattach: job ID         : {job}\n")), "{attached}");
    assert_eq!(cosy_tests::shell::read(&c, "g"), "hello\n");
}

#[test]
fn a_job_is_spread_over_many_nodes() {
    let c = cluster(3);
    check(&c, "srun -n2 --spread-job printenv SLURM_NNODES | uniq", "2\n");
    let line = "srun -N1-2 -n9 -O --spread-job printenv SLURM_NNODES | uniq";
    check(&c, line, "2\n");
}

#[test]
fn tasks_tell_what_they_are_bound_to() {
    let c = cluster(1);
    let output = shell(&c, "srun --cpu-bind=verbose sh -c 'echo $$'");
    let pid = output.out.trim();
    let want = format!("- n1, task  0  0 [{pid}]: mask 0x");
    assert!(output.err.starts_with("cpu-bind="), "{}", output.err);
    assert!(output.err.contains(&want), "{want}: {}", output.err);
    let output = shell(&c, "srun --cpu-bind=foo true");
    let want = "srun: error: unrecognized --cpu-bind argument \"foo\"\n\
                srun: fatal: Failed to parse --cpu-bind= values.\n";
    assert_eq!((output.code, &*output.err), (1, want));
}

#[test]
fn lists_of_programs_that_are_wrong() {
    let c = cluster(1);
    fs::write(c.work().join("list"), "0 echo a\n2 echo b\n").unwrap();
    let output = shell(&c, "srun -n3 -O --multi-prog list");
    let want = "srun: error: Configuration file list invalid, no record for task id 1\n";
    assert_eq!((output.code, &*output.err), (1, want));
    let output = shell(&c, "srun -n2 -O --multi-prog list");
    let want = "srun: error: Invalid task id, 2 >= ntasks\n\
                srun: error: Line 2 of configuration file list invalid\n";
    assert_eq!((output.code, &*output.err), (1, want));
    let output = shell(&c, "srun -n2 -O --multi-prog nosuch");
    let want = "srun: error: Could not open multi_prog config file nosuch\n";
    assert_eq!((output.code, &*output.err), (1, want));
}

/// The step runs the copy, which is made on each of its nodes before.
#[test]
fn a_program_is_copied_to_the_nodes() {
    let c = cluster(2);
    let program = "#!/bin/sh\necho \"$0 $SLURM_PROCID\"\n";
    let file = c.work().join("prog");
    fs::write(&file, program).unwrap();
    // Not a program yet.
    let output = shell(&c, "srun --bcast=copy ./prog");
    assert_ne!(output.code, 0);
    assert!(output.err.contains("Can not execute ./prog"), "{}", output.err);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o750)).unwrap();
    let copy = c.work().join("copy").display().to_string();
    check(&c, "srun -Q --bcast=copy ./prog", &format!("{copy} 0\n"));
    assert_eq!(fs::read_to_string(&copy).unwrap(), program);
    assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o750);
    // In a job that is there, by a variable, into a folder, on two nodes.
    let made = "ls | grep -c '^slurm_bcast_'";
    let line = "salloc -Q -N2 sh -c 'SLURM_BCAST=./ srun -N2 ./prog | cut -d\" \" -f2 | sort'";
    check(&c, line, "0\n1\n");
    check(&c, made, "1\n");
    for (options, want) in [
        ("--bcast=no/such/folder", "The program is not on all nodes"),
        ("--bcast --send-libs", "LD_LIBRARY_PATH"),
        ("--bcast --multi-prog", "--multi-prog"),
    ] {
        let output = shell(&c, &format!("srun {options} ./prog"));
        assert_ne!(output.code, 0, "{options}");
        assert!(output.err.contains(want), "{options}: {}", output.err);
        assert!(!output.out.contains("prog"), "nothing ran: {}", output.out);
    }
}
