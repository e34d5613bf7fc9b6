//! Running jobs make room for more important ones, with real daemons and programs: what they hear,
//! how they end, in Slurm's words, and that a controller that is killed meanwhile changes nothing.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::api::{HistoryEvent, Reply, Request};
use cosy_model::{JobId, JobState};
use cosy_tests::{Cluster, Options, system, wait};
use std::fs;

/// Four cores on each node. Jobs of `urgent` preempt all others.
fn cluster(nodes: usize, mode: &str, grace: &str) -> Cluster {
    let options = Options {
        policy: "heartbeat = \"1s\"\nnode_timeout = \"60s\"\ngrace = \"1s\"\n".into(),
        head: "[preemption]\nby = [\"qos\"]\n".into(),
        ..Options::default()
    };
    let c = Cluster::start(nodes, options);
    let (mode, grace) = (format!("preempt-mode={mode}"), format!("grace={grace}"));
    c.run(&["cadm", "qos", "create", "urgent", "preempt=normal"])
        .expect(0);
    c.run(&["cadm", "qos", "set", "normal", &mode, &grace])
        .expect(0);
    c
}

/// Submits a script that wants all cores of a node.
fn sbatch(c: &Cluster, qos: &str, script: &str) -> JobId {
    let file = c.work().join("job.sh");
    fs::write(&file, format!("#!/bin/bash\n{script}\n")).unwrap();
    let words = [
        "sbatch",
        "--parsable",
        "--requeue",
        "-N1",
        "-n4",
        "-t60",
        "-q",
        qos,
        "job.sh",
    ];
    JobId(c.run(&words).expect(0).out.trim().parse().unwrap())
}

/// Notes each of its runs and each SIGTERM in a file of its own. `then` follows SIGTERM; a later
/// run ends at once.
fn careful(then: &str) -> String {
    format!(
        "log=heard.$SLURM_JOB_ID\n\
         trap 'echo term >>$log; {then}' TERM\n\
         echo run ${{SLURM_RESTART_COUNT:-0}} >>$log\n\
         [ -n \"$SLURM_RESTART_COUNT\" ] && exit 0\n\
         while true; do sleep 600 & wait; done"
    )
}

fn heard(c: &Cluster, job: JobId) -> String {
    fs::read_to_string(c.work().join(format!("heard.{job}"))).unwrap_or_default()
}

/// A careful job that runs and will hear what it is told.
fn victim(c: &Cluster, then: &str) -> JobId {
    let job = sbatch(c, "normal", &careful(then));
    wait::until_true("the job has noted its run", || heard(c, job) == "run 0\n");
    c.until_state(job, JobState::Running);
    job
}

fn urgent(c: &Cluster) -> JobId {
    sbatch(c, "urgent", "exec sleep 600")
}

fn sacct(c: &Cluster, job: JobId) -> String {
    let job = job.to_string();
    let words = ["sacct", "-nPXj", &job, "-o", "jobid,state,exitcode"];
    c.run(&words).expect(0).out
}

/// With the runs that another one followed, and their scripts.
fn runs(c: &Cluster, job: JobId) -> Vec<String> {
    let job = job.to_string();
    let words = ["sacct", "-nPDj", &job, "-o", "jobid,state,exitcode"];
    let told = c.run(&words).expect(0).out;
    told.lines().map(str::to_owned).collect()
}

fn squeue(c: &Cluster, job: JobId) -> String {
    let job = job.to_string();
    let words = ["squeue", "-h", "-tall", "-j", &job, "-o", "%i %T %t"];
    c.run(&words).expect(0).out
}

fn show(c: &Cluster, job: JobId) -> String {
    let job = job.to_string();
    c.run(&["scontrol", "show", "job", &job]).expect(0).out
}

#[track_caller]
fn shows(c: &Cluster, job: JobId, wanted: &[&str]) {
    let text = show(c, job);
    let lacks = wanted.iter().find(|part| !text.contains(**part));
    assert_eq!(lacks, None, "{text}");
}

/// How often history tells that of a job.
fn events(c: &Cluster, job: JobId, word: &str) -> usize {
    let request = Request::Events {
        after: 0,
        most: 1000,
        latest: false,
    };
    let Reply::Events(events) = c.ask(request) else {
        panic!("no events");
    };
    let object = format!("job {job}");
    let such = |e: &&HistoryEvent| e.object == object && e.what == word;
    events.iter().filter(such).count()
}

/// It hears SIGTERM at once and may end by itself: whatever its exit code is, it was preempted.
#[test]
fn a_job_is_cancelled_within_its_grace() {
    let c = cluster(1, "cancel", "5m");
    let job = victim(&c, "exit 7");
    let over = urgent(&c);
    c.until_state(over, JobState::Running);
    let row = c.until_end(job);
    assert_eq!(row.outcome(), (JobState::Preempted, 7));
    assert_eq!(heard(&c, job), "run 0\nterm\n");
    assert_eq!(sacct(&c, job), format!("{job}|PREEMPTED|0:0\n"));
    assert_eq!(squeue(&c, job), format!("{job} PREEMPTED PR\n"));
    shows(&c, job, &["JobState=PREEMPTED Reason=None", "Restarts=0 "]);
}

/// It hears SIGTERM, does not care, and is killed when its grace is over.
#[test]
fn who_does_not_end_is_ended() {
    let c = cluster(1, "cancel", "1s");
    let job = victim(&c, "true");
    let over = urgent(&c);
    c.until_state(over, JobState::Running);
    assert_eq!(c.until_end(job).state, JobState::Preempted);
    // It is told once more when it is killed, and may hear that.
    assert!(heard(&c, job).starts_with("run 0\nterm\n"), "{}", heard(&c, job));
    assert!(sacct(&c, job).starts_with(&format!("{job}|PREEMPTED|")), "{}", sacct(&c, job));
}

/// It goes back into the queue under its id, runs again when the other one is over, and ends as
/// its last run did.
#[test]
fn a_job_is_requeued() {
    let c = cluster(1, "requeue", "5m");
    let job = victim(&c, "exit 7");
    let over = urgent(&c);
    c.until_state(over, JobState::Running);
    let waits = c.until(job, "waiting again", |row| row.state == JobState::Waiting);
    assert_eq!((waits.id, waits.attempt), (job, 1));
    assert_eq!(squeue(&c, job), format!("{job} PENDING PD\n"));
    shows(&c, job, &["JobState=PENDING ", "Restarts=1 "]);
    assert_eq!(heard(&c, job), "run 0\nterm\n");
    c.cancel(over);
    let row = c.until_end(job);
    assert_eq!((row.outcome(), row.attempt), ((JobState::Completed, 0), 2));
    assert_eq!(heard(&c, job), "run 0\nterm\nrun 1\n");
    assert_eq!(sacct(&c, job), format!("{job}|COMPLETED|0:0\n"));
    shows(&c, job, &["JobState=COMPLETED Reason=None", "Restarts=1 "]);
    let told = [
        format!("{job}|PREEMPTED|0:0"),
        format!("{job}.batch|FAILED|7:0"),
        format!("{job}|COMPLETED|0:0"),
        format!("{job}.batch|COMPLETED|0:0"),
    ];
    assert_eq!(runs(&c, job), told);
}

/// Runs that were put back, ended and put back, and lost with their node.
#[test]
fn each_run_has_a_record() {
    let mut c = cluster(1, "requeue", "5m");
    let job = sbatch(&c, "normal", "while [ ! -e stop ]; do sleep 0.1; done");
    let id = job.to_string();
    let runs_as = |c: &Cluster, attempt: i64| {
        let what = format!("running as attempt {attempt}");
        c.until(job, &what, |row| row.attempt == attempt && row.state == JobState::Running);
    };
    runs_as(&c, 1);
    c.run(&["scontrol", "requeue", &id]).expect(0);
    c.until(job, "waiting again", |row| row.state == JobState::Waiting);
    let first = [
        format!("{job}|REQUEUED|0:0"),
        format!("{job}.batch|CANCELLED|0:15"),
    ];
    assert_eq!(runs(&c, job)[..2], first);
    assert_eq!(sacct(&c, job), format!("{job}|PENDING|0:0\n"));
    runs_as(&c, 2);
    fs::write(c.work().join("stop"), "").unwrap();
    c.until_end(job);
    fs::remove_file(c.work().join("stop")).unwrap();
    c.run(&["scontrol", "requeue", &id]).expect(0);
    runs_as(&c, 3);
    c.cosyd.kill();
    c.start_cosyd();
    runs_as(&c, 3);
    let whole: Vec<String> = runs(&c, job);
    let whole: Vec<&String> = whole
        .iter()
        .filter(|line| !line.contains("batch"))
        .collect();
    let told = [
        format!("{job}|REQUEUED|0:0"),
        format!("{job}|COMPLETED|0:0"),
        format!("{job}|RUNNING|0:0"),
    ];
    assert_eq!(whole, told.iter().collect::<Vec<_>>());
    assert_eq!(sacct(&c, job), format!("{job}|RUNNING|0:0\n"));
    c.cancel(job);
    c.until_end(job);
}

/// While it makes room it runs on, and says until when.
#[test]
fn a_job_within_its_grace_says_so() {
    let c = cluster(1, "requeue", "5m");
    let job = victim(&c, "true");
    let over = urgent(&c);
    wait::until_true("it has heard", || heard(&c, job) == "run 0\nterm\n");
    assert_eq!(squeue(&c, job), format!("{job} RUNNING R\n"));
    let text = show(&c, job);
    assert!(text.contains("JobState=RUNNING Reason=None"), "{text}");
    assert!(text.contains("PreemptTime=2"), "{text}");
    assert_eq!(squeue(&c, over), format!("{over} PENDING PD\n"));
    let id = job.to_string();
    let told = c.run(&["cosy", "job", "risk", &id]).expect(0).out;
    assert!(told.contains(&format!("makes room for job {over}: within 00:0")), "{told}");
    c.cancel(over);
    c.cancel(job);
    c.until_end(job);
}

/// A job that only notes each tenth of a second that it runs.
fn counter(c: &Cluster) -> JobId {
    let script = "while [ ! -e stop ]; do echo >>ticks.$SLURM_JOB_ID; sleep 0.1; done";
    let job = sbatch(c, "normal", script);
    wait::until_true("it counts", || ticks(c, job) > 2);
    job
}

fn ticks(c: &Cluster, job: JobId) -> usize {
    let text = fs::read_to_string(c.work().join(format!("ticks.{job}")));
    text.unwrap_or_default().lines().count()
}

/// Every process of the job is stopped, as the kernel tells.
fn stands_still(c: &Cluster, job: JobId) -> bool {
    let variable = format!("SLURM_JOB_ID={job}\0");
    let folder = c.dir().display().to_string();
    let all = system::processes_where(|words| words.have(&variable) && words.have(&folder));
    let state = |p: &system::Process| {
        let stat = fs::read_to_string(format!("/proc/{}/stat", p.pid)).unwrap_or_default();
        stat.rsplit(')')
            .next()
            .map(|rest| rest.trim_start().starts_with('T'))
    };
    let tasks = all.iter().filter(|p| !p.name.starts_with("cosy"));
    let states: Vec<_> = tasks.filter_map(state).collect();
    !states.is_empty() && states.iter().all(|stopped| *stopped)
}

/// It stands still as long as the other one runs, and then goes on where it was.
#[test]
fn a_job_is_suspended() {
    let c = cluster(1, "suspend", "0s");
    let job = counter(&c);
    let over = urgent(&c);
    c.until_state(over, JobState::Running);
    let row = c.until_state(job, JobState::Suspended);
    assert_eq!(row.attempt, 1);
    wait::until_true("it stands still", || stands_still(&c, job));
    assert_eq!(squeue(&c, job), format!("{job} SUSPENDED S\n"));
    assert_eq!(sacct(&c, job), format!("{job}|SUSPENDED|0:0\n"));
    shows(&c, job, &["JobState=SUSPENDED Reason=None", "PreemptTime=None"]);
    let before = ticks(&c, job);
    c.cancel(over);
    c.until_state(job, JobState::Running);
    wait::until_true("it counts on", || ticks(&c, job) > before);
    fs::write(c.work().join("stop"), "").unwrap();
    let row = c.until_end(job);
    assert_eq!((row.outcome(), row.attempt), ((JobState::Completed, 0), 1));
    assert_eq!(sacct(&c, job), format!("{job}|COMPLETED|0:0\n"));
}

/// The controller is killed as soon as somebody has to make room, and again when the other one
/// runs: nobody else has to go, and who had to goes once.
#[test]
fn a_controller_that_is_killed_preempts_nobody_twice() {
    for mode in ["cancel", "requeue", "suspend"] {
        let mut c = cluster(2, mode, "2s");
        let jobs = [victim(&c, "true"), victim(&c, "true")];
        let over = urgent(&c);
        c.cosyd.kill();
        c.start_cosyd();
        c.until_state(over, JobState::Running);
        c.cosyd.kill();
        c.start_cosyd();
        let gone = |job: &&JobId| events(&c, **job, "preempted") > 0;
        let gone: Vec<JobId> = jobs.iter().filter(gone).copied().collect();
        let [job] = gone[..] else {
            panic!("{mode}: {gone:?}\n{}", c.logs());
        };
        let other = jobs[usize::from(jobs[0] == job)];
        assert_eq!(events(&c, job, "preempted"), 1, "{mode}");
        assert_eq!(c.until_state(other, JobState::Running).attempt, 1, "{mode}");
        assert_eq!(heard(&c, other), "run 0\n", "{mode}");
        c.until_state(over, JobState::Running);
        let (state, ends) = match mode {
            "cancel" => (JobState::Preempted, JobState::Preempted),
            "requeue" => (JobState::Waiting, JobState::Completed),
            _ => (JobState::Suspended, JobState::Cancelled),
        };
        c.until_state(job, state);
        c.cancel(over);
        c.until_end(over);
        if mode == "suspend" {
            c.until_state(job, JobState::Running);
            c.cancel(job);
        }
        let row = c.until_end(job);
        assert_eq!(row.state, ends, "{mode}");
        assert_eq!(row.attempt, 1 + i64::from(mode == "requeue"), "{mode}");
        assert_eq!(events(&c, job, "preempted"), 1, "{mode}");
        c.cancel(other);
        c.until_end(other);
    }
}

/// A reservation names whom it makes leave, also when the controller is killed before that job is told;
/// it begins on a node that is clear, and the job waits again.
#[test]
fn a_reservation_preempts() {
    let rules = "[reservations]\nall_of = []\npreempt = true\n";
    let options = Options {
        policy: "heartbeat = \"1s\"\nnode_timeout = \"60s\"\ngrace = \"1s\"\n".into(),
        head: format!("[preemption]\nby = [\"qos\"]\n{rules}"),
        ..Options::default()
    };
    let mut c = Cluster::start(1, options);
    c.run(&["cadm", "qos", "create", "spare", "grace=2s"])
        .expect(0);
    c.run(&["cadm", "qos", "set", "normal", "preempt=spare"])
        .expect(0);
    let job = sbatch(&c, "spare", &careful("exit 3"));
    wait::until_true("the job has noted its run", || heard(&c, job) == "run 0\n");
    c.until_state(job, JobState::Running);
    let slot = ["-N1", "--exclusive", "-t", "20s", "--at", "now+10s"];
    let quoted = c.run(&[&["cresv", "quote"][..], &slot].concat());
    let line = format!("Running jobs make room for it: {job} of ");
    assert!(quoted.expect(0).out.contains(&line));
    fs::write(c.work().join("begin.sh"), "#!/bin/sh\ndate +%s%N > began\n").unwrap();
    let booked = c.run(&[&["cresv", "book"][..], &slot, &["begin.sh"]].concat());
    let told = booked.expect(0).out;
    assert!(told.contains(&line), "{told}");
    c.cosyd.kill();
    c.start_cosyd();
    let id = cosy_model::ReservationId(1);
    let made = c.reservation(id);
    assert_eq!(made.preempts.iter().map(|one| one.job).collect::<Vec<_>>(), [job]);
    assert_eq!(heard(&c, job), "run 0\n");
    let mine = c.attached(id);
    assert_eq!(c.until_end(mine).state, JobState::Completed);
    let began = cosy_tests::resv::written_time(&c.work().join("began")).unwrap();
    let late = began.0 - made.start.0;
    assert!((0..5000).contains(&late), "{late} ms late");
    assert_eq!(heard(&c, job).lines().take(2).collect::<Vec<_>>(), ["run 0", "term"]);
    let row = c.until_end(job);
    assert_eq!((row.state, row.attempt), (JobState::Completed, 2), "{row:?}");
    assert_eq!(runs(&c, job)[0], format!("{job}|PREEMPTED|0:0"));
    assert_eq!(events(&c, job, "preempted"), 1);
}
