//! What jobs can ask for and how they end: limits, signals, stray processes, GPUs,
//! arrays, dependencies, requeue, hold, hooks, several nodes, exit codes, mail.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::api::JobRef;
use cosy_model::device::GpuRequest;
use cosy_model::job::{ArraySpec, MemoryRequest, WarnSignal};
use cosy_model::{Dependency, DependencyKind, JobId, JobState, MiB, Span};
use cosy_tests::{Cluster, Options, Row, script, system, wait};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

fn cluster(nodes: usize) -> Cluster {
    Cluster::start(nodes, Options::default())
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_default()
}

/// Waits for a file that is moved into its place whole.
fn wait_for(file: &Path) -> String {
    wait::until(&format!("{} is there", file.display()), || fs::read_to_string(file).ok())
}

fn depends(kind: DependencyKind, job: JobId) -> Dependency {
    Dependency {
        kind,
        job,
        task: None,
        delay: cosy_model::Span::ZERO,
    }
}

#[test]
fn memory_limit() {
    if !system::root_or_skip() {
        return;
    }
    let c = cluster(1);
    let eat = "dd if=/dev/zero of=/dev/null bs=400M count=1; exit $?";
    let mut submission = script(&c.work(), eat);
    submission.spec.request.memory = MemoryRequest::PerNode(MiB(60));
    let job = c.submit(&submission);
    let row = c.until_end(job);
    if c.nodes[0].log().contains("memory limits are not enforced") {
        return system::skip("there are no control groups for memory here");
    }
    assert_eq!(row.state, JobState::OutOfMemory, "{row:?}\n{}", c.logs());
    submission.spec.request.memory = MemoryRequest::PerNode(MiB(900));
    let job = c.submit(&submission);
    assert_eq!(c.until_end(job).outcome(), (JobState::Completed, 0));
    c.until_no_job_processes();
}

#[test]
fn time_limit_with_a_warning() {
    let c = cluster(1);
    let text = "trap 'echo warned >> marks' USR1\ntrap 'echo told >> marks; exit 0' TERM\n\
        echo up > marks\nwhile :; do sleep 0.1; done";
    let mut submission = script(&c.work(), text);
    submission.spec.time_limit = Some(Span::from_secs(3));
    submission.spec.warn = Some(WarnSignal {
        signal: 10,
        before: Span::from_secs(2),
        script_only: true,
    });
    let job = c.submit(&submission);
    let row = c.until_end(job);
    assert_eq!(row.state, JobState::TimedOut, "{row:?}");
    assert_eq!(read(&c.work().join("marks")), "up\nwarned\ntold\n");
    c.until_no_job_processes();
}

#[test]
fn deaf_to_the_time_limit() {
    let c = cluster(1);
    let text = "trap '' TERM\nsetsid sh -c \"trap '' TERM; sleep 1000; sleep 1000\" &\n\
        while :; do sleep 0.1; done";
    let mut submission = script(&c.work(), text);
    submission.spec.time_limit = Some(Span::from_secs(1));
    let job = c.submit(&submission);
    let row = c.until_end(job);
    assert_eq!(row.state, JobState::TimedOut, "{row:?}");
    let ran = row.end.unwrap() - row.start.unwrap();
    assert!((1000..20_000).contains(&ran), "ran for {ran} ms");
    c.until_no_job_processes();
}

/// Processes that a script leaves in other sessions, with another parent.
const STRAYS: &str = "setsid sleep 1000 &\n\
    (setsid sh -c 'sleep 1000 & exec sleep 1000' &) \n\
    (setsid sh -c '(setsid sleep 1000 &) ; exit 0' &)\n\
    nohup sleep 1000 > /dev/null 2>&1 &\n\
    env -i setsid sleep 1000 &\n";

#[test]
fn stray_processes_after_the_end() {
    let c = cluster(1);
    let job = c.submit(&script(&c.work(), &format!("{STRAYS}sleep 0.3; exit 4")));
    let row = c.until_end(job);
    assert_eq!(row.outcome(), (JobState::Failed, 4), "{row:?}");
    c.until_no_job_processes();
    no_sleepers(&c);
}

/// Also those that have stripped their environment: they still work in the directory.
fn no_sleepers(c: &Cluster) {
    let work = c.work();
    wait::until_true("no process works there", || {
        fs::read_dir("/proc").unwrap().all(|entry| {
            let cwd = fs::read_link(entry.unwrap().path().join("cwd"));
            !cwd.is_ok_and(|cwd| cwd == work)
        })
    });
}

#[test]
fn stray_processes_after_cancel() {
    let c = cluster(1);
    let text = format!("{STRAYS}: > up; wait; sleep 1000");
    let job = c.submit(&script(&c.work(), &text));
    wait_for(&c.work().join("up"));
    c.cancel(job);
    assert_eq!(c.until_end(job).state, JobState::Cancelled);
    c.until_no_job_processes();
    no_sleepers(&c);
}

#[test]
fn cancel_running_and_waiting() {
    let c = cluster(1);
    let mut long = script(&c.work(), "sleep 1000");
    long.spec.request.cores_per_task = 4;
    let first = c.submit(&long);
    let second = c.submit(&long);
    c.until_state(first, JobState::Running);
    assert_eq!(c.row(second).state, JobState::Waiting);
    c.run(&["ccancel", &second.to_string()]).expect(0);
    let row = c.until_end(second);
    assert_eq!((row.state, row.start), (JobState::Cancelled, None));
    c.run(&["ccancel", &first.to_string()]).expect(0);
    assert_eq!(c.until_end(first).state, JobState::Cancelled);
    let gone = c.run(&["ccancel", &first.to_string()]);
    assert_ne!(gone.code, 0, "it has ended: {gone:?}");
    c.until_no_job_processes();
}

#[test]
fn signal_by_command() {
    let c = cluster(1);
    let text = "trap 'echo got > got; exit 6' USR2\n: > up\nwhile :; do sleep 0.05; done";
    let job = c.submit(&script(&c.work(), text));
    wait_for(&c.work().join("up"));
    let id = job.to_string();
    c.run(&["ccancel", "--signal", "USR2", "--script-only", &id])
        .expect(0);
    assert_eq!(c.until_end(job).outcome(), (JobState::Failed, 6));
    assert_eq!(read(&c.work().join("got")), "got\n");
}

#[test]
fn ended_by_a_signal() {
    let c = cluster(1);
    let job = c.submit(&script(&c.work(), "kill -SEGV $$"));
    let row = c.until_end(job);
    assert_eq!((row.state, row.signal), (JobState::Failed, Some(11)));
}

#[test]
fn gpus() {
    let options = Options {
        noded: |_| "gpus = 3".into(),
        ..Options::default()
    };
    let c = Cluster::start(1, options);
    let text = "echo $CUDA_VISIBLE_DEVICES > gpus.$COSY_JOB_ID.new\n\
        mv gpus.$COSY_JOB_ID.new gpus.$COSY_JOB_ID\nwhile ! [ -e go ]; do sleep 0.05; done";
    let mut submission = script(&c.work(), text);
    let mut submit = |gpus| {
        submission.spec.request.gpus_per_node = gpus;
        c.submit(&submission)
    };
    let jobs = [submit(2), submit(1), submit(1)];
    let seen = |job: JobId| wait_for(&c.work().join(format!("gpus.{job}")));
    let mut all: Vec<String> = Vec::new();
    for job in &jobs[..2] {
        all.extend(seen(*job).trim().split(',').map(str::to_owned));
    }
    all.sort();
    assert_eq!(all, ["0", "1", "2"], "each GPU once");
    assert_eq!(c.row(jobs[2]).state, JobState::Waiting, "none is left");
    fs::write(c.work().join("go"), "").unwrap();
    assert_eq!(seen(jobs[2]).trim().len(), 1);
    let none = c.submit(&script(&c.work(), "echo \"${CUDA_VISIBLE_DEVICES-unset}\" > none"));
    c.until_end(none);
    let none = read(&c.work().join("none"));
    assert!(["", "unset"].contains(&none.trim()), "no GPU was asked for: {none}");
}

/// The processor with the lowest number is somebody else's.
#[test]
fn jobs_keep_off_what_is_reserved() {
    let allowed = fs::read_to_string("/proc/self/status").unwrap();
    let all = std::thread::available_parallelism().unwrap().get();
    if all < 2 {
        return system::skip("one processor: none can be reserved");
    }
    let options = Options {
        noded: |_| "reserved = { cores = 1, memory = '64M' }".into(),
        cores: 0,
        ..Options::default()
    };
    let c = Cluster::start(1, options);
    let node = &c.node_infos()[0];
    assert_eq!(node.amounts.cores as usize, all - 1);
    let text = format!(
        "PATH={}/bin:$PATH\ncosy run -n {} -l grep Cpus_allowed_list /proc/self/status > seen",
        c.dir().display(),
        all - 1
    );
    let mut submission = script(&c.work(), &text);
    submission.spec.request.tasks = Some(all as u32 - 1);
    let job = c.submit(&submission);
    c.until_end(job).expect_state(JobState::Completed);
    let list = |text: &str| {
        text.rsplit('\t')
            .next()
            .unwrap_or_default()
            .trim()
            .to_owned()
    };
    let own = allowed
        .lines()
        .find(|l| l.starts_with("Cpus_allowed_list"))
        .unwrap();
    let first = list(own).split([',', '-']).next().unwrap().to_owned();
    let seen = read(&c.work().join("seen"));
    assert_eq!(seen.lines().count(), all - 1, "{seen}");
    for line in seen.lines() {
        let numbers = cosy_model::expand(&format!("[{}]", list(line))).unwrap();
        assert!(!numbers.contains(&first), "{seen}: {first} is reserved");
    }
}

#[test]
fn gpus_by_type() {
    let options = Options {
        noded: |at| {
            let second = if at == 1 { "a" } else { "b" };
            format!(
                "[[gpu]]\ntype = 'a'\n[[gpu]]\ntype = '{second}'\n\
                 [[device]]\nname = 'fpga'\ncount = 2\n"
            )
        },
        ..Options::default()
    };
    let c = Cluster::start(2, options);
    let text = "echo $COSY_NODENAME $CUDA_VISIBLE_DEVICES $COSY_DEVICES_FPGA > gpus.$COSY_JOB_ID";
    let check = |gpus: &str, fpgas: u32, want: &str| {
        let mut submission = script(&c.work(), text);
        let asked: GpuRequest = gpus.parse().unwrap();
        let request = &mut submission.spec.request;
        (request.gpus_per_node, request.gpu_types) = (asked.count, asked.types);
        request.other_per_node.set("fpga", fpgas);
        let job = c.submit(&submission);
        c.until_end(job);
        let said = read(&c.work().join(format!("gpus.{job}")));
        assert_eq!(said.trim(), want, "{gpus}");
    };
    check("b", 0, "n2 1");
    check("a:2", 1, "n1 0,1 0");
    // Of no certain type: where all are alike.
    check("1", 2, "n1 0 0,1");
    check("a,b", 0, "n2 0,1");
}

#[test]
fn array_with_a_limit() {
    let c = cluster(2);
    let text = "echo + >> log; sleep 0.1; echo - >> log\n\
        echo $COSY_ARRAY_TASK > task.$COSY_ARRAY_TASK; exit $((COSY_ARRAY_TASK % 2))";
    let mut submission = script(&c.work(), text);
    submission.array = Some("1-9%2".parse::<ArraySpec>().unwrap());
    let job = c.submit(&submission);
    let rows = wait::until("all tasks have ended", || {
        let rows = c.rows(JobRef { job, task: None })?;
        rows.iter().all(|r| r.state.is_end()).then_some(rows)
    });
    assert_eq!(rows.len(), 9);
    let names: BTreeSet<String> = rows.iter().map(|r| r.name.clone()).collect();
    let want = (1..=9).map(|task| format!("{job}_{task}")).collect();
    assert_eq!(names, want);
    let failed = rows.iter().filter(|r| r.state == JobState::Failed).count();
    assert_eq!(failed, 5, "the odd ones");
    let (mut now, mut most) = (0, 0);
    for line in read(&c.work().join("log")).lines() {
        now += if line == "+" { 1 } else { -1 };
        most = most.max(now);
    }
    assert_eq!(most, 2, "two at once");
    assert_eq!(read(&c.work().join("task.7")), "7\n");
}

#[test]
fn dependencies() {
    let c = cluster(1);
    let good =
        c.submit(&script(&c.work(), "while ! [ -e go ]; do sleep 0.05; done; echo a >> log"));
    let after = |kind, on, text: &str| {
        let mut submission = script(&c.work(), text);
        submission.spec.dependencies = vec![depends(kind, on)];
        c.submit(&submission)
    };
    let ok = after(DependencyKind::AfterOk, good, "echo b >> log; exit 1");
    let not_ok = after(DependencyKind::AfterNotOk, ok, "echo c >> log");
    let any = after(DependencyKind::AfterAny, not_ok, "echo d >> log");
    let never = after(DependencyKind::AfterNotOk, good, "echo never >> log");
    let row = c.row(ok);
    assert_eq!((row.state, row.reason.as_str()), (JobState::Waiting, "dependency"));
    fs::write(c.work().join("go"), "").unwrap();
    assert_eq!(c.until_end(any).state, JobState::Completed);
    assert_eq!(read(&c.work().join("log")), "a\nb\nc\nd\n");
    let row = c.until(never, "never", |r| r.reason == "dependency_never" || r.state.is_end());
    assert_ne!(row.state, JobState::Completed);
    // Long ended jobs count too.
    let late = after(DependencyKind::AfterOk, good, "exit 0");
    assert_eq!(c.until_end(late).state, JobState::Completed);
}

#[test]
fn singleton() {
    let c = cluster(1);
    let mut submission = script(&c.work(), "echo + >> log; sleep 0.1; echo - >> log");
    submission.spec.dependencies = vec![depends(DependencyKind::Singleton, JobId(0))];
    let jobs: Vec<JobId> = (0..4).map(|_| c.submit(&submission)).collect();
    for job in jobs {
        assert_eq!(c.until_end(job).state, JobState::Completed);
    }
    assert_eq!(read(&c.work().join("log")), "+\n-\n".repeat(4));
}

#[test]
fn requeue() {
    let c = cluster(1);
    let text = "echo $COSY_JOB_ATTEMPT >> log; [ $COSY_JOB_ATTEMPT = 2 ] && exit 0; sleep 1000";
    let job = c.submit(&script(&c.work(), text));
    wait::until_true("it runs", || read(&c.work().join("log")) == "1\n");
    c.run(&["cosy", "requeue", &job.to_string()]).expect(0);
    let row = c.until_end(job);
    assert_eq!((row.outcome(), row.attempt), ((JobState::Completed, 0), 2));
    assert_eq!(read(&c.work().join("log")), "1\n2\n");
    c.until_no_job_processes();
}

#[test]
fn hold_change_release() {
    let c = cluster(2);
    let mut submission = script(&c.work(), "echo $COSY_JOB_NAME $COSY_NODE_COUNT > seen");
    submission.spec.hold = true;
    let job = c.submit(&submission);
    let id = job.to_string();
    let row = c.row(job);
    assert_eq!((row.state, row.reason.as_str()), (JobState::Waiting, "held_by_user"));
    c.run(&["cosy", "change", &id, "--name", "other", "--nodes", "2"])
        .expect(0);
    c.run(&["cosy", "release", &id]).expect(0);
    assert_eq!(c.until_end(job).state, JobState::Completed);
    assert_eq!(read(&c.work().join("seen")), "other 2\n");
    c.run(&["cosy", "change", &id, "--name", "late"])
        .expect_refusal("");
    let mut full = script(&c.work(), "sleep 1000");
    full.spec.request.nodes = Some(2);
    full.spec.request.exclusive = true;
    let running = c.submit(&full);
    let waiting = c.submit(&submission_without_hold(&c));
    c.until_state(running, JobState::Running);
    c.run(&["cosy", "hold", &waiting.to_string()]).expect(0);
    c.cancel(running);
    c.until_end(running);
    assert_eq!(c.row(waiting).reason, "held_by_user");
    c.run(&["cosy", "release", &waiting.to_string()]).expect(0);
    assert_eq!(c.until_end(waiting).state, JobState::Completed);
}

fn submission_without_hold(c: &Cluster) -> cosy_model::api::Submission {
    script(&c.work(), "exit 0")
}

#[test]
fn a_failing_prolog_drains_the_node() {
    let options = Options {
        noded: |at| match at {
            1 => "prolog = [\"DIR/prolog\"]".into(),
            _ => String::new(),
        },
        ..Options::default()
    };
    let mut c = Cluster::prepare(2, options);
    system::program(&c.dir().join("prolog"), "echo the disk is on fire >&2; exit 1");
    c.start_cosyd();
    (0..2).for_each(|at| c.start_noded(at));
    c.nodes.iter_mut().for_each(|n| n.await_ready());
    let mut submission = script(&c.work(), "echo $COSY_JOB_ATTEMPT > seen");
    submission.spec.request.prefer = vec!["n1".into()];
    let job = c.submit(&submission);
    let row = c.until_end(job);
    assert_eq!(row.outcome(), (JobState::Completed, 0), "{row:?}");
    assert_eq!(row.nodes, "n2", "it went elsewhere");
    let node = c.until_node("n1", "drained", |n| n.state.contains("drain"));
    assert!(node.reason.contains("prolog"), "{node:?}");
    system::program(&c.dir().join("prolog"), "exit 0");
    c.run(&["cadm", "node", "resume", "n1"]).expect(0);
    let job = c.submit(&submission);
    assert_eq!(c.until_end(job).nodes, "n1");
}

#[test]
fn epilog_and_health_check() {
    let options = Options {
        noded: |_| {
            "epilog = [\"DIR/epilog\"]\nhealth_check = [\"DIR/health\"]\nhealth_interval = \"1s\""
                .into()
        },
        ..Options::default()
    };
    let mut c = Cluster::prepare(1, options);
    let dir = c.dir().to_owned();
    system::program(
        &dir.join("epilog"),
        &format!("echo $COSY_JOB_ID >> {}/epilogs", dir.display()),
    );
    system::program(&dir.join("health"), &format!("! [ -e {}/ill ]", dir.display()));
    c.start_cosyd();
    c.start_noded(0);
    c.nodes[0].await_ready();
    let job = c.submit(&script(&c.work(), "exit 0"));
    c.until_end(job);
    wait::until_true("the epilog has run", || read(&dir.join("epilogs")) == format!("{job}\n"));
    fs::write(dir.join("ill"), "").unwrap();
    let node = c.until_node("n1", "drained", |n| n.state.contains("drain"));
    assert!(node.reason.contains("health"), "{node:?}");
    fs::remove_file(dir.join("ill")).unwrap();
    c.run(&["cadm", "node", "resume", "n1"]).expect(0);
    let job = c.submit(&script(&c.work(), "exit 0"));
    assert_eq!(c.until_end(job).state, JobState::Completed);
}

#[test]
fn several_nodes() {
    let c = cluster(3);
    let text = "echo $COSY_NODES $COSY_NODE_COUNT $COSY_TASKS > seen; while ! [ -e go ]; do sleep 0.05; done";
    let mut submission = script(&c.work(), text);
    submission.spec.request.nodes = Some(3);
    submission.spec.request.tasks = Some(6);
    submission.spec.request.exclusive = true;
    let job = c.submit(&submission);
    c.until_state(job, JobState::Running);
    let next = c.submit(&submission_without_hold(&c));
    assert!(c.node_infos().iter().all(|n| n.jobs == 1));
    assert_eq!(c.row(next).state, JobState::Waiting);
    fs::write(c.work().join("go"), "").unwrap();
    assert_eq!(c.until_end(job).nodes, "n[1-3]");
    assert_eq!(read(&c.work().join("seen")), "n[1-3] 3 6\n");
    assert_eq!(c.until_end(next).state, JobState::Completed);
}

#[test]
fn exit_codes_of_wait() {
    let c = cluster(1);
    let check = |words: &[&str], code| {
        let mut all = vec!["csub", "--wait", "-Q"];
        all.extend(words);
        c.run(&all).expect(code);
    };
    check(&["--", "true"], 0);
    check(&["--", "sh", "-c", "exit 77"], 77);
    check(&["--", "sh", "-c", "kill -KILL $$"], 137);
    check(&["-t", "1s", "--", "sleep", "100"], 143);
    check(&["-a", "1-3", "--", "sh", "-c", "exit $COSY_ARRAY_TASK"], 3);
    let row: Vec<Row> = c
        .rows(JobRef {
            job: JobId(2),
            task: None,
        })
        .unwrap();
    assert_eq!(row[0].exit_code, Some(77));
    let job = c.submit(&script(&c.work(), "exit 11"));
    c.run(&["cosy", "wait", "-Q", &job.to_string()]).expect(11);
}

#[test]
fn output_files_and_script() {
    let c = cluster(1);
    fs::write(c.work().join("in"), "from a file\n").unwrap();
    fs::write(
        c.work().join("job.sh"),
        "#!/bin/sh\n#COSY --name patterns -t 5\n#COSY -o out.%x.%j -e err.%u.%j\n\
         cat; echo \"$@\"; echo oops >&2\n",
    )
    .unwrap();
    c.run(&["csub", "--wait", "-i", "in", "job.sh", "a b", "c"])
        .expect(0);
    assert_eq!(read(&c.work().join("out.patterns.1")), "from a file\na b c\n");
    let user = nix::unistd::User::from_uid(nix::unistd::Uid::effective());
    let user = user.unwrap().map_or("0".into(), |u| u.name);
    assert_eq!(read(&c.work().join(format!("err.{user}.1"))), "oops\n");
    let kept = c.run(&["cstat", "--script", "1"]).expect(0);
    assert_eq!(kept.out, read(&c.work().join("job.sh")), "the script is kept");
    let job =
        cosy_tests::run::run_with(&mut c.command(&["csub", "--wait"]), b"#!/bin/sh\necho piped\n");
    job.expect(0);
    assert_eq!(read(&c.work().join("cosy-2.out")), "piped\n");
}

#[test]
fn begin_time_and_history() {
    let c = cluster(1);
    let before = std::time::Instant::now();
    c.run(&["csub", "--wait", "-Q", "--begin", "now+1s", "--", "true"])
        .expect(0);
    assert!(before.elapsed().as_millis() >= 900, "not before its time");
    let listed = c
        .run(&["chist", "--no-header", "--format", "id,state,exit_code"])
        .expect(0);
    let words: Vec<&str> = listed.out.split_whitespace().collect();
    assert_eq!(words, ["1", "completed", "0"]);
}

#[test]
fn tasks_that_ended_alike_share_a_line() {
    let c = cluster(1);
    let script = b"#!/bin/sh\ntest $COSY_ARRAY_TASK != 3 || exit 5\n";
    let words = ["csub", "--wait", "-Q", "-o", "/dev/null", "--array", "1-4"];
    cosy_tests::run::run_with(&mut c.command(&words), script).expect(5);
    let ids = |words: &[&str]| {
        let listed = c.run(words).expect(0).out;
        let first = |line: &str| line.split_whitespace().next().map(str::to_owned);
        let mut ids: Vec<String> = listed.lines().filter_map(first).collect();
        ids.sort_unstable();
        ids
    };
    let folded = ["1_3", "1_[1-2,4]"];
    assert_eq!(ids(&["chist", "--no-header"]), folded);
    assert_eq!(ids(&["cstat", "-E", "--no-header"]), folded);
    let each = ["1_1", "1_2", "1_3", "1_4"];
    assert_eq!(ids(&["chist", "--no-header", "--array"]), each);
    assert_eq!(ids(&["cstat", "-E", "--no-header", "--array"]), each);
    assert_eq!(ids(&["chist", "--no-header", "--format", "ref"]), each);
    assert_eq!(ids(&["cstat", "-E", "--no-header", "--format", "ref"]), each);
    // Of what is not there it is said, and the exit code tells.
    let none = c.run(&["chist", "99999"]);
    let why = "chist: none of these is in history: 'cstat ID' shows a job that has not ended\n";
    assert_eq!((none.code, none.err.as_str()), (1, why));
    let none = c.run(&["chist", "--steps", "99999"]);
    assert_ne!(none.code, 0, "{none:?}");
    assert_ne!(none.err, "", "{none:?}");
}

/// A program that is not there: said by who waits and in history, and no exit code that looks as
/// if all had gone well.
#[test]
fn a_job_that_cannot_be_launched_says_why() {
    let c = cluster(1);
    let waited = c.run(&["csub", "--wait", "--", "no-such-command"]);
    assert_ne!(waited.code, 0, "{waited:?}");
    assert!(waited.err.contains("no-such-command"), "{waited:?}");
    let quiet = c.run(&["csub", "--wait", "-Q", "--", "no-such-command"]);
    assert_eq!(quiet.err, "", "{quiet:?}");
    let listed = c.run(&["chist", "--no-header", "1"]).expect(0).out;
    assert!(listed.contains("launch_failed"), "{listed}");
    assert!(listed.contains("no-such-command:"), "{listed}");
    let words: Vec<&str> = listed.split_whitespace().collect();
    assert!(!words.contains(&"0"), "no exit code: {listed}");
}

#[test]
fn lines_for_other_batch_systems_are_told() {
    let c = cluster(1);
    let script = c.work().join("job.sh");
    fs::write(&script, "#!/bin/sh\n#SBATCH --nodes=4\ntrue\n").unwrap();
    let out = c.run(&["csub", "--hold", "job.sh"]).expect(0);
    assert!(out.err.contains("line 2") && out.err.contains("#SBATCH"), "{out:?}");
    let out = c.run(&["csub", "--hold", "-Q", "job.sh"]).expect(0);
    assert_eq!(out.err, "");
}

#[test]
fn mail_command() {
    let options = Options {
        policy: "heartbeat = \"1s\"\nmail_command = [\"DIR/mail\", \"first\"]\n".into(),
        ..Options::default()
    };
    let mut c = Cluster::prepare(1, options);
    let dir = c.dir().to_owned();
    system::program(&dir.join("mail"), &format!("echo \"$1|$2|$3\" >> {}/mails", dir.display()));
    c.start_cosyd();
    c.start_noded(0);
    c.nodes[0].await_ready();
    c.run(&[
        "csub",
        "--wait",
        "--mail-type",
        "END",
        "--mail-user",
        "a@b",
        "--name",
        "x y",
        "--",
        "sh",
        "-c",
        "exit 3",
    ])
    .expect(3);
    let mail = wait::until("the mail is sent", || {
        Some(read(&dir.join("mails"))).filter(|m| m.ends_with('\n'))
    });
    let parts: Vec<&str> = mail.trim().split('|').collect();
    assert_eq!(&parts[..2], ["first", "a@b"]);
    assert!(parts[2].contains("x y") && parts[2].contains("exit code 3"), "{mail}");
    c.run(&["csub", "--wait", "-Q", "--mail-type", "FAIL", "--", "true"])
        .expect(0);
    assert_eq!(read(&dir.join("mails")).lines().count(), 1, "it did not fail");
}

/// They are written one at a time; commands that submit them side by side are all answered.
#[test]
fn large_scripts_are_all_taken() {
    let c = cluster(1);
    let comment = format!("exit 3\n#{}\n", "x".repeat(600 << 10));
    let large = script(&c.work(), &comment);
    let submit = || {
        let mut client = c.client();
        let mut one = || client.submit(&large).unwrap().unwrap();
        [one(), one(), one()]
    };
    let jobs: Vec<JobId> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..4).map(|_| scope.spawn(submit)).collect();
        all.into_iter().flat_map(|t| t.join().unwrap()).collect()
    });
    assert_eq!(jobs.iter().collect::<BTreeSet<_>>().len(), 12);
    for job in jobs {
        assert_eq!(c.until_end(job).outcome(), (JobState::Failed, 3));
    }
}
