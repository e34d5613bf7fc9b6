//! `scontrol`, `sacctmgr` and `sstat`, further than the sentences: reservations that change,
//! accounts that go, and what running steps use.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::{JobId, JobState};
use cosy_tests::run::{Output, TIMEOUT, finish, spawn};
use cosy_tests::shell::{read, shell_command, submit, submit_text};
use cosy_tests::{Cluster, Options, people, wait};

const QUEUES: &str = "[[queue]]\nname = \"main\"\ndefault = true\ndefault_time = \"1h\"\n\
    default_memory_per_core = \"100M\"\n";

fn cluster(nodes: usize) -> Cluster {
    let options = Options {
        queues: Some(QUEUES.to_owned()),
        ..Options::default()
    };
    Cluster::start(nodes, options)
}

/// A command line as words, blanks inside a word written as `~`.
fn run(c: &Cluster, line: &str) -> Output {
    let words: Vec<String> = line.split(' ').map(|w| w.replace('~', " ")).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    c.run(&words)
}

#[track_caller]
fn check(c: &Cluster, line: &str, code: i32, out: &str, err: &str) {
    let got = run(c, line);
    let got = (got.code, got.out.as_str(), got.err.as_str());
    assert_eq!(got, (code, out, err), "{line}");
}

fn until(c: &Cluster, line: &str, good: impl Fn(&str) -> bool) -> String {
    wait::until(line, || Some(run(c, line).out).filter(|out| good(out)))
}

#[test]
fn a_reservation_has_its_flags_and_another_end() {
    let c = cluster(2);
    let create = "scontrol create reservation reservationname=r1 starttime=now+1hour duration=60 \
                  users=root nodes=n1 flags=maint,ignore_jobs";
    check(&c, create, 0, "Reservation created: r1\n", "");
    let show = || run(&c, "scontrol show reservation r1").out;
    let text = show();
    assert!(text.contains(" Duration=01:00:00\n"), "{text}");
    assert!(text.contains(" Flags=MAINT,IGNORE_JOBS,SPEC_NODES\n"), "{text}");
    let update = "scontrol update reservationname=r1 duration=90";
    check(&c, update, 0, "Reservation updated.\n", "");
    let text = show();
    assert!(text.contains(" Duration=01:30:00\n"), "{text}");
    let update = "scontrol update reservationname=r1 duration=45";
    check(&c, update, 0, "Reservation updated.\n", "");
    let text = show();
    assert!(text.contains(" Duration=00:45:00\n"), "{text}");
    let update = "scontrol update reservationname=r1 users+=nobody";
    check(&c, update, 0, "Reservation updated.\n", "");
    let text = show();
    assert!(text.contains("Users=root,nobody "), "{text}");
    assert_eq!(run(&c, "scontrol update res=r1 users+=nosuch").code, 1);
    let early = "scontrol update reservationname=r1 endtime=now";
    assert_eq!(run(&c, early).code, 1);
    assert_eq!(show(), text);
    check(&c, "scontrol delete reservationname=r1", 0, "", "");
}

#[test]
fn what_runs_can_be_measured() {
    let c = cluster(1);
    let script = "srun -n2 sleep 600";
    let words = [
        "sbatch",
        "--parsable",
        "-n2",
        "-o",
        "/dev/null",
        "--wrap",
        script,
    ];
    let id = c.run(&words).expect(0).out.trim().to_owned();
    let look = format!("sstat -a -n -P -j {id} -o JobID,NTasks,MaxRSS,AveCPU");
    let rows = |out: &str| -> Vec<(String, String, bool)> {
        let cells = |line: &str| {
            let cells: Vec<String> = line.split('|').map(str::to_owned).collect();
            let measured = cells[2].trim_end_matches(['K', 'M']).parse::<f64>();
            (cells[0].clone(), cells[1].clone(), measured.is_ok_and(|m| m > 0.0))
        };
        out.lines().map(cells).collect()
    };
    let has = |out: &str, step: &str, tasks: &str| {
        rows(out).contains(&(format!("{id}.{step}"), tasks.to_owned(), true))
    };
    until(&c, &look, |out| has(out, "batch", "1") && has(out, "0", "2"));
    let job = JobId(id.parse().unwrap());
    run(&c, &format!("scancel {id}")).expect(0);
    assert_eq!(c.until_end(job).state, JobState::Cancelled);
}

#[test]
fn accounts_come_and_go() {
    let c = cluster(1);
    let told = run(&c, "sacctmgr show config").expect(0).out;
    assert!(told.contains("\nAccountingStorageType   = accounting_storage/cosy\n"));
    assert!(told.contains("\nSLURM_CONF ") && !told.contains("KillWait"), "{told}");
    let told = run(&c, "sacctmgr --usage").expect(0).out;
    assert!(told.contains("\n     add account                Names=, Description="), "{told}");
    run(&c, "sacctmgr -i add account physics").expect(0);
    for user in ["ann", "bob"] {
        run(&c, &format!("sacctmgr -i add user {user} account=physics")).expect(0);
    }
    let list = "sacctmgr -nP show assoc format=account,user";
    check(&c, list, 0, "root|\nphysics|\nphysics|ann\nphysics|bob\n", "");
    run(&c, "sacctmgr -i delete user ann account=physics").expect(0);
    check(&c, list, 0, "root|\nphysics|\nphysics|bob\n", "");
    run(&c, "sacctmgr -i delete account physics").expect(0);
    check(&c, list, 0, "root|\n", "");
}

/// A line of a shell whose standard error goes into the file `told`.
fn begin(c: &Cluster, line: &str) -> std::process::Child {
    spawn(&mut shell_command(c, &format!("{line} 2>told")))
}

/// Waits until the file `told` ends with that line.
fn until_told(c: &Cluster, line: &str) {
    wait::until_true(line, || read(c, "told").ends_with(&format!("{line}\n")));
}

/// Says so when it gets the signal, and is over then.
const TRAPS: &str = "trap 'echo got; exit 0' USR1\nwhile :; do sleep 0.1; done";

/// Between the start of a job and its program there is time in which a signal would hit what is
/// to become the program. Here that opens its output, a pipe, and waits for a reader.
#[test]
fn a_signal_before_the_program_runs_waits_for_it() {
    let c = cluster(1);
    let pipe = c.work().join("pipe");
    let mode = nix::sys::stat::Mode::from_bits_truncate(0o600);
    for how in ["-b", "-f"] {
        nix::unistd::mkfifo(&pipe, mode).unwrap();
        let job = submit_text(&c, "-o pipe", TRAPS);
        c.until_state(job, JobState::Running);
        let signal = format!("scancel {how} --signal=USR1 {job}");
        run(&c, &signal).expect(0);
        // The node has the signal long before that has been asked so often.
        (0..100).for_each(|_| drop(c.row(job)));
        // With -f the shell tells what became of its child, too.
        let told = std::fs::read_to_string(&pipe).unwrap();
        assert!(told.ends_with("got\n"), "{told}");
        assert_eq!(c.until_end(job).state, JobState::Completed, "{how}");
        std::fs::remove_file(&pipe).unwrap();
    }
}

#[test]
fn a_signal_is_sent_again_to_a_job_that_has_not_begun() {
    let c = cluster(1);
    let job = submit_text(&c, "-H -o out", TRAPS);
    let child = begin(&c, &format!("scancel -v -b --signal=USR1 {job}"));
    until_told(&c, "scancel: Job is in transitional state, retrying");
    run(&c, &format!("scontrol release {job}")).expect(0);
    finish(child, b"", TIMEOUT).expect(0);
    assert_eq!(c.until_end(job).state, JobState::Completed);
    assert_eq!(read(&c, "out"), "got\n");
    let sent = format!("scancel: Signal 10 to batch job {job}\n");
    assert!(read(&c, "told").starts_with(&sent), "{}", read(&c, "told"));
    // Chosen by its name, too.
    let job = submit_text(&c, "-H -o out -J late", TRAPS);
    let child = begin(&c, "scancel -v -b --signal=USR1 -n late");
    until_told(&c, "scancel: Job is in transitional state, retrying");
    run(&c, &format!("scontrol release {job}")).expect(0);
    finish(child, b"", TIMEOUT).expect(0);
    assert_eq!(c.until_end(job).state, JobState::Completed);
}

#[test]
fn what_there_is_not_is_refused_with_the_reason() {
    let c = cluster(1);
    let counted =
        "slurm_reset_statistics: what is told is counted since midnight: it cannot begin anew\n";
    check(&c, "sdiag --reset", 1, "", counted);
    let mut command = c.command(&["sdiag", "-r"]);
    let out = cosy_tests::run::run(command.env("COSY_AS_USER", "1"));
    assert_ne!(out.code, 0, "{out:?}");
    assert_eq!(out.err, "slurm_reset_statistics: Access/permission denied\n");
    let none = "scontrol: error: show slurmd: there is no slurmd here; what a node has and does, \
                scontrol show node and the log of its noded tell\n";
    check(&c, "scontrol show slurmd", 1, "", none);
}

#[test]
fn scancel_names_the_jobs_that_it_chooses() {
    let c = cluster(2);
    let same = |words: &str| submit(&c, &format!("-o /dev/null -J same {words}"));
    let one = same("-w n1 --wrap 'sleep 1000'");
    let two = same("-w n2 --wrap 'sleep 1000'");
    let held = same("-H -a 1-3 --wrap true");
    c.until_state(one, JobState::Running);
    c.until_state(two, JobState::Running);
    let terminating = |job: &str| format!("scancel: Terminating job {job}\n");
    let told = terminating(&two.to_string());
    check(&c, "scancel -v -n same -w n2", 0, "", &told);
    let none = "scancel: error: No active jobs match ALL job filters, including: \
                job_name=other nodelist=n1 \n";
    check(&c, "scancel -v -n other -w n1", 0, "", none);
    let signal = format!("scancel: Signal 10 to batch job {one}\n");
    check(&c, "scancel -v -b -s USR1 -n same -w n1", 0, "", &signal);
    c.until_end(one);
    let told = terminating(&format!("{held}_[1-3]"));
    check(&c, "scancel -v -n same", 0, "", &told);
    check(&c, "scancel -n same", 0, "", "");
}

#[test]
fn a_signal_for_the_script_or_a_step_waits_for_its_job() {
    let c = cluster(1);
    let job = submit_text(&c, "-H -o out", TRAPS);
    let child = begin(&c, &format!("scancel -v --signal=USR1 {job}.batch"));
    until_told(&c, "scancel: Job is in transitional state, retrying");
    run(&c, &format!("scontrol release {job}")).expect(0);
    finish(child, b"", TIMEOUT).expect(0);
    assert_eq!(c.until_end(job).state, JobState::Completed);
    assert_eq!(read(&c, "out"), "got\n");
    // A step that is not there when its job runs is none: that is said at once.
    let job = submit_text(&c, "-H -o out", TRAPS);
    let child = begin(&c, &format!("scancel -v --signal=USR1 {job}.0"));
    until_told(&c, "scancel: Job is in transitional state, retrying");
    run(&c, &format!("scontrol release {job}")).expect(0);
    finish(child, b"", TIMEOUT).expect(1);
    let why = format!("Kill job error on job step id {job}.0: Invalid job id specified\n");
    assert!(read(&c, "told").ends_with(&why), "{}", read(&c, "told"));
    run(&c, &format!("scancel {job}")).expect(0);
}

/// One answer names 200 of those that could not take it.
#[test]
fn a_signal_for_many_reaches_each_of_them_once() {
    let c = cluster(1);
    let trap = "trap 'echo got' USR1\nwhile [ ! -e over ]; do sleep 0.1; done";
    let array = submit_text(&c, "-H -a 1-300 -o out.%a", trap);
    run(&c, &format!("scontrol release {array}_7")).expect(0);
    wait::until_true("one runs", || {
        run(&c, &format!("squeue -hr -t R -j {array} -o %K")).out == "7\n"
    });
    let child = begin(&c, &format!("scancel -v -b --signal=USR1 {array}"));
    until_told(&c, "scancel: Job is in transitional state, retrying");
    wait::until_true("the first", || read(&c, "out.7") == "got\n");
    run(&c, &format!("scontrol release {array}_20")).expect(0);
    wait::until_true("a late one", || read(&c, "out.20") == "got\n");
    run(&c, &format!("scancel -t PENDING {array}")).expect(0);
    // Nobody waits any more.
    finish(child, b"", TIMEOUT).expect(0);
    std::fs::write(c.work().join("over"), "").unwrap();
    wait::until_true("their ends", || run(&c, "squeue -h").out.is_empty());
    for task in ["7", "20"] {
        assert_eq!(read(&c, &format!("out.{task}")), "got\n", "{task}");
    }
}

#[test]
fn without_a_controller_sbatch_waits_for_it() {
    let mut c = cluster(1);
    c.cosyd.signal(nix::sys::signal::Signal::SIGTERM);
    c.cosyd.await_end();
    let child = begin(&c, "sbatch -H --parsable -o /dev/null --wrap true");
    let told = "sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying";
    until_told(&c, told);
    c.start_cosyd();
    let output = finish(child, b"", TIMEOUT).expect(0);
    let job = JobId(output.out.trim().parse().unwrap());
    assert_eq!(c.row(job).state, JobState::Waiting);
    assert_eq!(read(&c, "told"), format!("{told}\n"), "it is said once");
}

#[test]
fn priorities_have_rules() {
    if !cosy_tests::system::root_or_skip() {
        return;
    }
    let c = people::start(1, Options::default());
    let root = |line: &str| run(&c, line);
    let as_ann = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        c.run_as(people::ANN, &words)
    };
    let submit = |line: &str| {
        let got = as_ann(&format!("sbatch --parsable -o /dev/null {line}")).expect(0);
        JobId(got.out.trim().parse().unwrap())
    };
    std::fs::write(c.work().join("sleep.sh"), "#!/bin/sh\nexec sleep 600\n").unwrap();
    let held = submit("-H --wrap true");
    let waits = submit("--begin=now+1hour --wrap true");
    let runs = submit("sleep.sh");
    c.until_state(runs, JobState::Running);
    let check = |got: Output, err: &str| {
        let code = i32::from(!err.is_empty());
        assert_eq!((got.code, got.err.as_str()), (code, err));
    };
    let change = |job: JobId, to: &str| format!("scontrol update jobid={job} {to}");
    let in_hold =
        |job: JobId| format!("Job is in held state, pending scheduler release for job {job}\n");
    let nice = |job: JobId| {
        format!("Changes to job priority are not persistent, change nice instead for job {job}\n")
    };
    check(root(&change(held, "Priority=5")), &in_hold(held));
    check(as_ann(&change(held, "Priority=5")), &in_hold(held));
    assert_eq!(c.row(held).reason, "held_by_user");
    check(root(&change(runs, "Priority=5")), "");
    check(root(&change(runs, "Priority=0")), "");
    check(root(&change(runs, "Nice=5")), "");
    check(as_ann(&change(runs, "Priority=5")), &nice(runs));
    check(as_ann(&change(runs, "Priority=0")), "");
    assert_eq!(c.row(runs).state, JobState::Running);
    check(as_ann(&change(waits, "Priority=5")), &nice(waits));
    check(root(&change(waits, "Priority=5")), "");
    assert!(
        root(&format!("scontrol show job {waits}"))
            .out
            .contains("\n   Priority=5 ")
    );
    check(as_ann(&change(waits, "Priority=0")), "");
    check(as_ann(&change(waits, "Priority=5")), &in_hold(waits));
}
