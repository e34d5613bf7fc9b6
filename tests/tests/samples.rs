//! What jobs use over time: measured on their nodes, told by `cstat ID`, by nodes and by the page.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::JobState;
use cosy_tests::terminal::lines_on;
use cosy_tests::{Cluster, Options, script, wait};
use std::time::Duration;

fn cluster(noded: fn(usize) -> String) -> Cluster {
    Cluster::start(
        1,
        Options {
            noded,
            ..Options::default()
        },
    )
}

fn each_second(_: usize) -> String {
    "sample_interval = \"1s\"\n".to_owned()
}

#[test]
fn a_busy_job_is_seen_to_be_busy() {
    let c = cluster(each_second);
    // One core is busy all the time, 64 MiB are held, and a step does the same beside it.
    let text = format!(
        "PATH={}/bin:$PATH\n\
         burn() {{ x=$(head -c 67108864 /dev/zero | tr '\\0' x); while :; do :; done; }}\n\
         burn & cosy run -n 1 --overlap -- sh -c 'while :; do :; done' & wait",
        c.dir().display()
    );
    let mut submission = script(&c.work(), &text);
    submission.spec.request.tasks = Some(2);
    let job = c.submit(&submission);
    c.until_state(job, JobState::Running);
    let told = wait::until_within(Duration::from_secs(60), "both are seen", || {
        let told = c.samples(job);
        let busy = told.stretches().last()?;
        (busy.busy_cores > 0.3 && busy.memory_bytes > 64 << 20).then_some(told)
    });
    assert_eq!((told.node.as_str(), told.cores), ("n1", 2));
    assert_eq!(told.interval.ms(), 1000);
    assert!(told.peak_bytes >= 64 << 20, "{told:?}");
    let last = told.samples.last().unwrap();
    assert!(last.processes >= 3, "{last:?}");
    assert!(
        told.samples
            .windows(2)
            .all(|two| two[0].cpu_us <= two[1].cpu_us),
        "{told:?}"
    );
    let lines = lines_on(120, &mut c.command(&["cstat", &job.to_string()]));
    let starts = |start: &str| lines.iter().any(|line| line.starts_with(start));
    assert!(starts("  cores, ") && starts("  memory"), "{lines:#?}");
    let cores = lines
        .iter()
        .find(|line| line.starts_with("  cores, "))
        .unwrap();
    assert!(cores.contains(" of 2 now, ") && cores.ends_with(" at most"), "{cores}");
    // What runs now is told of the script and of the step, each of its own processes.
    let words = [
        "sstat",
        "-anPo",
        "JobID,MaxRSS,AveCPU,MaxDiskRead,TRESUsageInMax",
        "-j",
    ];
    let told = c
        .run(&[&words[..], &[&job.to_string()]].concat())
        .expect(0)
        .out;
    let lines: Vec<Vec<&str>> = told.lines().map(|line| line.split('|').collect()).collect();
    let names: Vec<&str> = lines.iter().map(|cells| cells[0]).collect();
    assert_eq!(names, [format!("{job}.batch"), format!("{job}.0")], "{told}");
    for cells in &lines {
        assert!(cells[1].ends_with(['K', 'M']) && !cells[3].is_empty(), "{told}");
        assert!(cells[4].contains(",fs/disk=") && cells[4].contains(",mem="), "{told}");
    }
    c.run(&["ccancel", &job.to_string()]).expect(0);
    c.until_state(job, JobState::Cancelled);
}

#[test]
fn a_site_may_leave_it() {
    let c = cluster(|_| "sample_interval = \"off\"\n".to_owned());
    let job = c.submit(&script(&c.work(), "sleep 600"));
    c.until_state(job, JobState::Running);
    assert_eq!(c.samples(job).samples, []);
    assert_eq!(c.samples(job).interval.ms(), 0);
    let lines = lines_on(120, &mut c.command(&["cstat", &job.to_string()]));
    assert!(!lines.iter().any(|line| line.starts_with("  cores, ")), "{lines:#?}");
}

/// The job's first node asks the others: all in short, and one in full.
#[test]
fn the_other_nodes_are_asked() {
    let options = Options {
        noded: each_second,
        ..Options::default()
    };
    let c = Cluster::start(3, options);
    let path = format!("{}/bin", c.dir().display());
    // One node has far more memory than the others, and is not the first.
    let text = format!(
        "PATH={path}:$PATH\n\
         cosy run -N 3 -n 3 -- sh -c 'if [ $COSY_NODENAME = n2 ]; then \
         x=$(head -c 134217728 /dev/zero | tr \"\\0\" x); fi; sleep 600'"
    );
    let mut submission = script(&c.work(), &text);
    submission.spec.request.nodes = Some(3);
    submission.spec.request.tasks = Some(3);
    submission.spec.request.tasks_per_node = Some(1);
    let job = c.submit(&submission);
    c.until_state(job, JobState::Running);
    let id = job.to_string();
    let line = wait::until_within(Duration::from_secs(60), "all are measured", || {
        let lines = lines_on(200, &mut c.command(&["cstat", &id]));
        let line = lines.into_iter().find(|line| line.contains("of 3 nodes"))?;
        (line.contains("n2 had most memory (1") && line.contains("was busiest")).then_some(line)
    });
    assert!(line.contains(" of 1 core)"), "{line}");
    let told = wait::until_within(Duration::from_secs(60), "it was measured twice", || {
        let told = c.run(&["cstat", &id, "--node", "n2"]).expect(0).out;
        told.contains("  memory").then_some(told)
    });
    assert!(told.starts_with(&format!("job {id} on n2\n  cores, ")), "{told}");
    let told = c.run(&["cstat", &id, "--node", "n[1-3]"]).expect(0).out;
    assert_eq!(told.matches("job ").count(), 3, "{told}");
    let refused = c.run(&["cstat", &id, "--node", "n9"]);
    let want = format!("'n9' is no node of job {id}: it has n[1-3]");
    assert!(refused.code != 0 && refused.err.contains(&want), "{refused:?}");
    c.run(&["cstat", "--json", &id, "--node", "n2"]).expect(2);
    // Whose daemon is away is left out.
    let mut c = c;
    c.nodes[2].kill();
    wait::until_within(Duration::from_secs(60), "the others are told", || {
        let lines = lines_on(200, &mut c.command(&["cstat", &id]));
        lines
            .iter()
            .any(|line| line.contains("of 2 nodes"))
            .then_some(())
    });
    c.start_noded(2);
    c.run(&["ccancel", &id]).expect(0);
    c.until_state(job, JobState::Cancelled);
}
