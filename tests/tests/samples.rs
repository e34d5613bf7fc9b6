//! What jobs use over time: measured on their nodes, told by `cstat ID`, by nodes and by the page.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::step::{JobSamples, StepAnswer, StepAsk};
use cosy_model::{JobId, JobState};
use cosy_proto::frame;
use cosy_tests::terminal::lines_on;
use cosy_tests::{Cluster, Options, script, wait};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Bytes of an answer.
const FRAME_BYTES: usize = 1 << 20;

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

/// What the node says of a job.
fn samples(c: &Cluster, job: JobId) -> JobSamples {
    let mut stream = UnixStream::connect(c.node_dir(0).join("spool/n1/steps.sock")).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    frame::write(&mut stream, &StepAsk::Samples { job }, FRAME_BYTES).unwrap();
    match frame::read(&mut stream, FRAME_BYTES).unwrap() {
        Some(StepAnswer::Samples(samples)) => samples,
        other => panic!("{other:?}"),
    }
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
        let told = samples(&c, job);
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
    c.run(&["ccancel", &job.to_string()]).expect(0);
    c.until_state(job, JobState::Cancelled);
}

#[test]
fn a_site_may_leave_it() {
    let c = cluster(|_| "sample_interval = \"off\"\n".to_owned());
    let job = c.submit(&script(&c.work(), "sleep 600"));
    c.until_state(job, JobState::Running);
    assert_eq!(samples(&c, job).samples, []);
    assert_eq!(samples(&c, job).interval.ms(), 0);
    let lines = lines_on(120, &mut c.command(&["cstat", &job.to_string()]));
    assert!(!lines.iter().any(|line| line.starts_with("  cores, ")), "{lines:#?}");
}
