//! Jobs that are lost with nodes: where they go, and who is told what.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::{JobId, JobState};
use cosy_tests::{Cluster, Options, system, wait};
use nix::sys::signal::Signal;
use std::fs;

/// Nodes with a health check that is due in an hour, and mail in a file.
fn cluster(nodes: usize) -> Cluster {
    let options = Options {
        policy: "heartbeat = \"1s\"\nnode_timeout = \"3s\"\nself_fencing = false\n\
                 max_requeues = 1\nmail_command = [\"DIR/mail\"]\n"
            .into(),
        noded: |_| "health_check = [\"DIR/health\"]\nhealth_interval = \"1h\"".into(),
        ..Options::default()
    };
    let c = Cluster::prepare(nodes, options);
    let dir = c.dir().to_owned();
    let ill = dir.display();
    system::program(
        &dir.join("health"),
        &format!("! [ -e {ill}/ill-$COSY_NODENAME ] || {{ echo it smokes; exit 1; }}"),
    );
    system::program(&dir.join("mail"), &format!("{{ echo \"$@\"; cat; }} >> {ill}/mails"));
    c.start_prepared()
}

/// Sleeps on n1 until it is told to go.
fn sleeper(c: &Cluster, options: &[&str]) -> JobId {
    let mut words = vec![
        "csub",
        "--parsable",
        "--prefer",
        "n1",
        "--mail-type",
        "REQUEUE",
    ];
    words.extend(options);
    let script = "touch began-$COSY_JOB_ID; while ! [ -e go ]; do sleep 0.05; done";
    words.extend(["--", "sh", "-c", script]);
    let job: u64 = c.run(&words).expect(0).out.trim().parse().unwrap();
    // Before that its process looks like its supervisor.
    let began = c.work().join(format!("began-{job}"));
    wait::until_true("the program runs", || began.exists());
    let job = JobId(job);
    assert_eq!(c.until_state(job, JobState::Running).nodes, "n1");
    job
}

fn kill_supervisor(c: &Cluster) {
    let shepherds = c.shepherds();
    assert_eq!(shepherds.len(), 1, "{shepherds:?}");
    shepherds[0].kill(Signal::SIGKILL);
}

#[test]
fn a_killed_supervisor_and_a_node_that_is_ill() {
    let c = cluster(2);
    let job = sleeper(&c, &[]);
    fs::write(c.dir().join("ill-n1"), "").unwrap();
    kill_supervisor(&c);
    // The health check is not due for an hour, and no job comes to n1 that would run it.
    let node = c.until_node("n1", "drained", |node| node.state.contains("drain"));
    assert!(node.reason.contains("it smokes"), "{node:?}");
    let again = |row: &cosy_tests::Row| row.state == JobState::Running && row.nodes == "n2";
    c.until(job, "running elsewhere", again);
    let id = job.to_string();
    let page = c.run(&["cstat", &id]).expect(0).out;
    let line = page.lines().find(|line| line.contains("failed_nodes"));
    assert!(line.is_some_and(|line| line.ends_with(" n1")), "{page}");
    let shown = c.run(&["scontrol", "show", "job", &id]).expect(0).out;
    assert!(shown.contains("ExcNodeList=n1\n"), "{shown}");
    let words = "its supervisor on node n1 was killed";
    let mails = wait::until("a mail", || fs::read_to_string(c.dir().join("mails")).ok());
    assert!(mails.contains(&format!("{words}. It does not go to n1 for a while.\n")), "{mails}");
    fs::write(c.work().join("go"), "").unwrap();
    assert_eq!(c.until_end(job).outcome(), (JobState::Completed, 0));
    let runs = c.run(&[
        "sacct",
        "-nPXD",
        "-o",
        "State,NodeList,FailedNode",
        "-j",
        &id,
    ]);
    assert_eq!(runs.expect(0).out, "NODE_FAIL|n1|n1\nCOMPLETED|n2|\n");
    let events = c.run(&["cadm", "events"]).expect(0).out;
    assert!(events.contains(words), "{events}");
}

#[test]
fn lost_too_often() {
    let mut c = cluster(2);
    let site = sleeper(&c, &[]);
    kill_supervisor(&c);
    let again = |row: &cosy_tests::Row| row.state == JobState::Running && row.nodes == "n2";
    c.until(site, "running elsewhere", again);
    let owner = sleeper(&c, &["--requeue=0"]);
    // Their nodes are lost: with one the second time, with the other once, which is once too often.
    c.lose_node(1);
    c.lose_node(0);
    let row = c.until_end(owner);
    assert_eq!(row.state, JobState::NodeFailed, "{row:?}");
    let chist = c.run(&["chist", &owner.to_string()]).expect(0).out;
    assert!(chist.contains("node n1 was lost"), "{chist}");
    c.until(site, "held", |row| row.reason == "held_losses");
    let why = c.run(&["cstat", &site.to_string()]).expect(0).out;
    assert!(why.contains("'cosy release' lets it run once more"), "{why}");
    let slurm = c.run(&["squeue", "-h", "-o", "%r", "-j", &site.to_string()]);
    assert_eq!(slurm.expect(0).out, "JobHoldMaxRequeue\n");
    c.start_noded(0);
    c.start_noded(1);
    c.run(&["cosy", "release", &site.to_string()]).expect(0);
    fs::write(c.work().join("go"), "").unwrap();
    assert_eq!(c.until_end(site).outcome(), (JobState::Completed, 0));
    for wrong in ["--requeue=often", "--requeue=-1"] {
        let told = c.run(&["csub", wrong, "--", "true"]).expect(2).err;
        assert!(told.contains("--requeue=3"), "{told}");
    }
    let told = c
        .run(&["sbatch", "--requeue=3", "--wrap", "true"])
        .expect(255)
        .err;
    assert!(told.contains("Invalid --requeue specification"), "{told}");
}

/// A script that goes on at the same size: its first step fails with the node, the next one has
/// the spare.
#[test]
fn a_spare_node() {
    let mut c = cluster(4);
    let script = "echo $COSY_NODES $COSY_TASKS $COSY_SPARES > seen\n\
        cosy run sh -c 'touch on-$COSY_NODENAME; while ! [ -e go ]; do sleep 0.05; done'\n\
        echo $? > first\n\
        while ! [ -e lost ]; do sleep 0.05; done\n\
        cosy run sh -c 'touch again-$COSY_NODENAME'\n";
    fs::write(c.work().join("job"), format!("#!/bin/sh\n{script}")).unwrap();
    let words = [
        "csub",
        "--parsable",
        "--nodes",
        "2",
        "--tasks",
        "2",
        "--spares",
        "1",
    ];
    let words: Vec<&str> = words
        .into_iter()
        .chain(["--exclusive", "-o", "out", "job"])
        .collect();
    let job: u64 = c.run(&words).expect(0).out.trim().parse().unwrap();
    let job = JobId(job);
    let there = |name: &str| c.work().join(name).exists();
    wait::until_true("both tasks run", || there("on-n1") && there("on-n2"));
    assert!(!there("on-n3"));
    assert_eq!(fs::read_to_string(c.work().join("seen")).unwrap(), "n[1-2] 2 1\n");
    c.lose_node(1);
    let row = c.until(job, "on other nodes", |row| row.nodes == "n[1,3]");
    assert_eq!(row.state, JobState::Running);
    let code = wait::until("the first step is over", || {
        fs::read_to_string(c.work().join("first"))
            .ok()
            .filter(|text| text.ends_with('\n'))
    });
    assert_ne!(code, "0\n");
    fs::write(c.work().join("lost"), "").unwrap();
    assert_eq!(c.until_end(job).outcome(), (JobState::Completed, 0));
    assert!(c.work().join("again-n1").exists() && c.work().join("again-n3").exists());
    let told = "node n2 was lost; a spare one takes its place, the job goes on with n[1,3]";
    let out = fs::read_to_string(c.work().join("out")).unwrap();
    assert!(out.contains(told), "{out}");
    let events = c.run(&["cadm", "events"]).expect(0).out;
    assert!(events.contains(told), "{events}");
    let wrong = c
        .run(&["csub", "--spares", "1", "--", "true"])
        .expect(1)
        .err;
    assert!(wrong.contains("--spares needs --nodes"), "{wrong}");
    let wrong = c.run(&["csub", "--spares", "1", "-N", "2", "-n", "3", "--", "true"]);
    assert!(
        wrong
            .expect(1)
            .err
            .contains("3 tasks cannot be shared out evenly over 2 nodes")
    );
}

/// Slurm's way: more nodes than are needed, and a script that goes on without one.
#[test]
fn what_is_left_with_sbatch() {
    let mut c = cluster(3);
    let script = "#!/bin/sh\n#SBATCH -N3 --no-kill --exclusive -o out\n\
        srun -N2 -n2 sh -c 'touch on-$SLURMD_NODENAME; while ! [ -e go ]; do sleep 0.05; done'\n\
        while ! [ -e lost ]; do sleep 0.05; done\n\
        srun -N2 -n2 sh -c 'touch again-$SLURMD_NODENAME'\n";
    fs::write(c.work().join("job"), script).unwrap();
    let job: u64 = c
        .run(&["sbatch", "--parsable", "job"])
        .expect(0)
        .out
        .trim()
        .parse()
        .unwrap();
    let job = JobId(job);
    let there = |name: &str| c.work().join(name).exists();
    wait::until_true("both tasks run", || there("on-n1") && there("on-n2"));
    c.lose_node(1);
    c.until(job, "on other nodes", |row| row.nodes == "n[1,3]");
    fs::write(c.work().join("lost"), "").unwrap();
    assert_eq!(c.until_end(job).outcome(), (JobState::Completed, 0));
    assert!(c.work().join("again-n1").exists() && c.work().join("again-n3").exists());
}
