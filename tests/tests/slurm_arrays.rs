//! Arrays in Slurm's words: which task has which id, and who cancelled what.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::{JobId, JobState};
use cosy_tests::people::{self, ANN};
use cosy_tests::{Cluster, Options, system, wait};
use std::fs;

const QUEUES: &str = "[[queue]]\nname = \"main\"\ndefault = true\ndefault_time = \"1h\"\n\
    default_memory_per_core = \"100M\"\n";

fn cluster() -> Cluster {
    let options = Options {
        queues: Some(QUEUES.to_owned()),
        ..Options::default()
    };
    Cluster::start(1, options)
}

#[track_caller]
fn submit(c: &Cluster, line: &[&str]) -> u64 {
    let words = [&["sbatch", "--parsable"], line].concat();
    c.run(&words).expect(0).out.trim().parse().unwrap()
}

fn out(c: &Cluster, line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    c.run(&words).expect(0).out
}

fn until(c: &Cluster, line: &str, want: &str) {
    wait::until(&format!("{line}: {want}"), || (out(c, line) == want).then_some(()));
}

#[test]
fn the_last_task_has_the_id_of_the_array() {
    let c = cluster();
    let wrap = "echo $SLURM_JOB_ID $SLURM_ARRAY_JOB_ID > t$SLURM_ARRAY_TASK_ID";
    let id = submit(&c, &["-a", "0-2,7", "-o", "/dev/null", "--wrap", wrap]);
    until(
        &c,
        &format!("sacct -X -n -P -j {id} -o JobID,JobIDRaw,State"),
        &format!(
            "{id}_0|{}|COMPLETED\n{id}_1|{}|COMPLETED\n{id}_2|{}|COMPLETED\n{id}_7|{id}|COMPLETED\n",
            id + 1,
            id + 2,
            id + 3
        ),
    );
    for (task, raw) in [(0, id + 1), (1, id + 2), (2, id + 3), (7, id)] {
        let text = std::fs::read_to_string(c.work().join(format!("t{task}"))).unwrap();
        assert_eq!(text, format!("{raw} {id}\n"));
    }
    let next = submit(&c, &["-o", "/dev/null", "--wrap", "true"]);
    assert_eq!(next, id + 4);
}

#[test]
fn tasks_start_in_the_order_of_their_indices() {
    let c = cluster();
    let options = ["-a", "1-3%1", "-o", "/dev/null", "--wrap", "sleep 600"];
    let id = submit(&c, &options);
    let look = format!("squeue -h -r -j {id} -o %i|%A|%t");
    // Tasks that wait share the id of the array.
    let begun = format!("{id}_2|{id}|PD\n{id}_3|{id}|PD\n{id}_1|{}|R\n", id + 1);
    until(&c, &look, &begun);
    let rest = format!("squeue -h -t PD -j {id} -o %i|%A|%F|%K");
    assert_eq!(out(&c, &rest), format!("{id}_[2-3%1]|{id}|{id}|2-3%1\n"));
    let shown = out(&c, &format!("scontrol show job {}", id + 1));
    let begins = format!("JobId={} ArrayJobId={id} ArrayTaskId=1 ", id + 1);
    assert!(shown.starts_with(&begins), "{shown}");
    out(&c, &format!("scancel {id}_1"));
    until(&c, &format!("squeue -h -t R -j {id} -o %i|%A"), &format!("{id}_2|{}\n", id + 2));
    out(&c, &format!("scancel {id}"));
    until(
        &c,
        &format!("sacct -X -n -P -j {id} -o JobID,State"),
        &format!("{id}_1|CANCELLED by 0\n{id}_2|CANCELLED by 0\n{id}_3|CANCELLED by 0\n"),
    );
}

#[test]
fn who_cancelled_is_told() {
    if !system::is_root() {
        return system::skip("who cancelled: needs root for a second user");
    }
    let options = Options {
        queues: Some(QUEUES.to_owned()),
        ..Options::default()
    };
    let c = people::start(1, options);
    let words = |wrap: &'static str| ["sbatch", "--parsable", "-o", "/dev/null", "--wrap", wrap];
    let job = |wrap| -> JobId {
        let said = c.run_as(ANN, &words(wrap)).expect(0).out;
        JobId(said.trim().parse().unwrap())
    };
    let (own, other) = (job("sleep 600"), job("sleep 600"));
    for job in [own, other] {
        c.until_state(job, JobState::Running);
    }
    c.run_as(ANN, &["scancel", &own.to_string()]).expect(0);
    c.run(&["scancel", &other.to_string()]).expect(0);
    for (job, who) in [(own, ANN), (other, 0)] {
        assert_eq!(c.until_end(job).state, JobState::Cancelled);
        assert_eq!(
            out(&c, &format!("sacct -X -n -P -j {job} -o State")),
            format!("CANCELLED by {who}\n")
        );
    }
}

#[test]
fn requeued_tasks_have_lines_of_their_own() {
    let c = cluster();
    fs::write(c.work().join("sleep.sh"), "#!/bin/sh\nexec sleep 600\n").unwrap();
    let id = submit(&c, &["-a", "1-6", "-o", "/dev/null", "sleep.sh"]);
    let all = format!("squeue -h -j {id} -o %i|%t");
    wait::until_true("four run", || {
        let lines = out(&c, &all);
        lines.matches("|R\n").count() == 4 && lines.contains(&format!("{id}_[5-6]|PD\n"))
    });
    out(&c, &format!("scontrol requeuehold {id}_1,{id}_2"));
    wait::until_true("both wait again", || {
        let lines = out(&c, &all);
        let waits = |task: u32| lines.contains(&format!("{id}_{task}|PD\n"));
        waits(1) && waits(2)
    });
}

#[test]
fn a_task_that_never_began_is_not_found() {
    let c = cluster();
    let id = submit(&c, &["-H", "-a", "1-9", "-o", "/dev/null", "--wrap", "true"]);
    out(&c, &format!("scancel {id}_7"));
    let show = ["scontrol", "show", "job", &format!("{id}_7")];
    wait::until_true("it has gone", || c.run(&show).code == 1);
    let told = format!("Job {id}_7 not found\n");
    assert_eq!(c.run(&show).out, told);
    let others = format!("{id}_[1-6,8-9]\n");
    assert_eq!(out(&c, &format!("squeue -h -j {id} -o %i")), others);
    assert_eq!(out(&c, &format!("squeue -h -j {id}_7 -o %i")), "");
    assert_eq!(out(&c, &format!("scancel {id}_7")), "");
}
