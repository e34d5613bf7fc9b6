//! The release before beside this one: controller, node daemons and commands are replaced one after the
//! other, and what runs goes on.
//!
//! `COSY_OLD_BIN_DIR` names the folder with `cosyd`, `noded` and `cosy` of the release before.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::{JobId, JobState};
use cosy_postgres::Server;
use cosy_tests::cluster::Controllers;
use cosy_tests::run::{finish, spawn};
use cosy_tests::shell::{check, read, shell, shell_command, submit, submit_text};
use cosy_tests::{Cluster, Options, programs, run, script, system, wait};
use nix::sys::signal::Signal;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

/// The folder of the release before; otherwise says that the test is skipped.
fn old_or_skip() -> Option<PathBuf> {
    let old = programs::earlier_folder();
    if old.is_none() {
        let variable = programs::EARLIER_FOLDER_VARIABLE;
        system::skip(&format!(
            "{variable} names no folder with the programs of the release before"
        ));
    }
    old
}

/// The host of the first node is one to log in.
fn options() -> Options {
    Options {
        entry: |at| if at == 1 { "login = true\n" } else { "" }.into(),
        noded: |at| {
            if at == 1 {
                "socket = \"DIR/relay.sock\"\n"
            } else {
                ""
            }
            .into()
        },
        ..Options::default()
    }
}

/// Two nodes, all of the release before.
fn old_cluster(old: &Path) -> Cluster {
    let mut c = Cluster::prepare(2, options());
    c.cosyd.replace_program(&old.join("cosyd"));
    for node in &mut c.nodes {
        node.replace_program(&old.join("noded"));
    }
    c.link_commands(old);
    c.start_prepared()
}

/// The folder of this release.
fn new() -> &'static Path {
    programs::folder()
}

/// Stops the controller in order and starts the one of that folder.
fn replace_cosyd(c: &mut Cluster, folder: &Path) {
    c.cosyd.signal(Signal::SIGTERM);
    assert!(c.cosyd.await_end().success(), "{}", c.cosyd.last_words(10));
    c.cosyd.replace_program(&folder.join("cosyd"));
    c.start_cosyd();
    until_in_service(c);
}

/// Stops a node's daemon in order and starts the one of that folder.
fn replace_noded(c: &mut Cluster, at: usize, folder: &Path) {
    c.nodes[at].signal(Signal::SIGTERM);
    assert!(c.nodes[at].await_end().success(), "{}", c.nodes[at].last_words(10));
    c.nodes[at].replace_program(&folder.join("noded"));
    c.start_noded(at);
    c.nodes[at].await_ready();
    until_in_service(c);
}

fn until_in_service(c: &Cluster) {
    for name in ["n1", "n2"] {
        c.until_node(name, "in service", |n| {
            ["idle", "mixed", "allocated"].contains(&n.state.as_str())
        });
    }
}

/// A job whose script waits in a step of two tasks.
struct LongJob {
    id: JobId,
    name: &'static str,
}

impl LongJob {
    /// Its step ends with code 5 and itself with 7, once [`Self::let_end`] says so. It has two of a
    /// node's four cores.
    fn start(c: &Cluster, name: &'static str, options: &str) -> Self {
        let text = format!(
            "echo {name} begins\n\
             srun -n2 sh -c 'echo task $SLURM_PROCID; : > {name}.$SLURM_PROCID; {}; exit 5'\n\
             echo step ended $?\nexit 7",
            waits(name)
        );
        let id = submit_text(c, &format!("-J {name} -n2 -t 30 {options}"), &text);
        let job = Self { id, name };
        let mark = |task: u32| c.work().join(format!("{name}.{task}"));
        wait::until_true("both tasks of the step run", || mark(0).exists() && mark(1).exists());
        job
    }

    /// It is as it was: the same attempt, with its step.
    fn still_runs(&self, c: &Cluster) {
        let row = c.until_state(self.id, JobState::Running);
        assert_eq!(row.attempt, 1, "{row:?}");
        let step = format!("squeue -s -h -o '%i' | grep -x {}.0", self.id);
        check(c, &step, 0, &format!("{}.0\n", self.id), "");
        // A second step in it.
        let line = format!("srun --jobid={} --overlap -n1 echo seen", self.id);
        let told = shell(c, &line);
        assert_eq!((told.code, &*told.out), (0, "seen\n"), "{}\n{}", told.err, c.logs());
    }

    fn let_end(&self, c: &Cluster) {
        fs::write(c.work().join(format!("{}.go", self.name)), "").unwrap();
    }

    /// Waits until no process of it is left.
    fn until_gone(&self, c: &Cluster) {
        let shepherd = format!("cosy:{}.1", self.id);
        wait::until_true("its processes have ended", || {
            c.shepherds().iter().all(|p| p.name != shepherd)
        });
    }

    /// Its end, its output and what accounting tells of it, with so many steps after the first.
    fn ended(&self, c: &Cluster, further: usize) {
        self.let_end(c);
        let row = c.until_end(self.id);
        assert_eq!(row.outcome(), (JobState::Failed, 7), "{row:?}\n{}", c.logs());
        assert_eq!(row.attempt, 1, "{row:?}");
        let mut lines: Vec<String> = read(c, &format!("slurm-{}.out", self.id))
            .lines()
            .map(str::to_owned)
            .collect();
        lines.retain(|line| !line.starts_with("srun: error: "));
        lines[1..3].sort();
        let begins = format!("{} begins", self.name);
        assert_eq!(lines, [&*begins, "task 0", "task 1", "step ended 5"], "{}", c.logs());
        let id = self.id;
        let mut want =
            format!("{id}|FAILED|7:0|2|1\n{id}.batch|FAILED|7:0|2|1\n{id}.0|FAILED|5:0|2|1\n");
        for step in 1..=further {
            want.push_str(&format!("{id}.{step}|COMPLETED|0:0|1|1\n"));
        }
        let line = format!("sacct -nP -j {id} -o JobID,State,ExitCode,AllocCPUS,NNodes");
        wait::until_true("accounting tells of all steps", || shell(c, &line).out == want);
    }
}

/// Jobs that wait, and a reservation.
struct Waiting {
    after: JobId,
    held: JobId,
    wide: JobId,
    array: JobId,
}

impl Waiting {
    /// One job waits for the end of `first`, one for both nodes, one for a word of its user, an array
    /// for the same.
    fn submitted(c: &Cluster, first: JobId) -> Self {
        let wrap = "--wrap 'echo ran $SLURM_JOB_ID'";
        let waiting = Self {
            after: submit(c, &format!("-J after -n1 -d afterany:{first} {wrap}")),
            held: submit(c, &format!("-J held -n1 -H {wrap}")),
            wide: submit(c, &format!("-J wide -N2 --exclusive -t 5 {wrap}")),
            array: submit(c, &format!("-J array -n1 -H -a 1-3%2 {wrap}")),
        };
        let reservation = "scontrol create reservation reservationname=course starttime=now+1day \
            duration=60 nodes=n2 users=root";
        let made = shell(c, reservation);
        assert_eq!(made.code, 0, "{made:?}");
        waiting
    }

    /// Nothing of them was forgotten: each runs when it may.
    fn run(&self, c: &Cluster) {
        check(c, &format!("scontrol release {} {}", self.held, self.array), 0, "", "");
        for (id, output) in [
            (self.after, self.after.to_string()),
            (self.held, self.held.to_string()),
            (self.wide, self.wide.to_string()),
        ] {
            let row = c.until_end(id);
            assert_eq!(row.outcome(), (JobState::Completed, 0), "{row:?}\n{}", c.logs());
            assert_eq!(read(c, &format!("slurm-{output}.out")), format!("ran {id}\n"));
        }
        let all = format!("sacct -nPX -j {} -o JobID,State", self.array);
        let want = [1, 2, 3].map(|task| format!("{}_{task}|COMPLETED\n", self.array));
        wait::until_true("all tasks of the array have ended", || {
            let told = shell(c, &all).out;
            want.iter().all(|line| told.contains(line.as_str()))
        });
    }
}

/// What commands say of what waits and what is reserved.
fn told(c: &Cluster) -> String {
    let line = "squeue -ah -o '%i %j %t %u %D %C %l %E %V'; scontrol show reservation; \
        sacct -nPX -o JobID,JobName,State,Submit,Start";
    let output = shell(c, line);
    assert_eq!(output.code, 0, "{output:?}");
    output.out
}

/// A command that somebody has running, and its end.
struct Session {
    command: Child,
    name: &'static str,
}

impl Session {
    /// `salloc` with a step, and another one later.
    fn allocation(c: &Cluster, name: &'static str, node: &str) -> Self {
        let inside = format!("srun echo first; {}; srun echo last; exit 3", waits(name));
        Self::open(c, name, &format!("salloc -Q -n1 -t10 -w {node} sh -c '{inside}'"))
    }

    /// `srun` with a job of its own.
    fn step(c: &Cluster, name: &'static str, node: &str) -> Self {
        let inside = format!("echo first; {}; echo last; exit 3", waits(name));
        Self::open(c, name, &format!("srun -n1 -t10 -w {node} sh -c '{inside}'"))
    }

    fn open(c: &Cluster, name: &'static str, line: &str) -> Self {
        let command = spawn(&mut shell_command(c, line));
        wait::until_true("the session is open", || c.work().join(name).exists());
        Self { command, name }
    }

    fn goes_on_to_its_end(self, c: &Cluster) {
        fs::write(c.work().join(format!("{}.go", self.name)), "").unwrap();
        let output = finish(self.command, b"", run::TIMEOUT);
        let got = (output.code, &*output.out);
        assert_eq!(got, (3, "first\nlast\n"), "{}: {}\n{}", self.name, output.err, c.logs());
    }
}

/// Words of a shell that tell that they are reached, and wait.
fn waits(name: &str) -> String {
    format!(": > {name}; while ! [ -e {name}.go ]; do sleep 0.05; done")
}

/// New jobs, steps and allocations, on each node and on both.
fn everything_runs(c: &Cluster) {
    // Shorter than the day until the reservation.
    for nodes in ["-t5 -n1 -w n1", "-t5 -n1 -w n2", "-t5 -N2 -n2"] {
        let tasks = match nodes.contains("-N2") {
            true => "0: n1\n1: n2\n",
            false => &format!("0: {}\n", nodes.rsplit(' ').next().unwrap()),
        };
        let step = "srun -l printenv SLURMD_NODENAME";
        let words = step.replace("srun", &format!("srun {nodes}"));
        check(c, &format!("({words}) | sort"), 0, tasks, "");
        let inside = format!("salloc -Q {nodes} sh -c '{step} | sort'");
        check(c, &inside, 0, tasks, "");
        let id = submit(c, &format!("{nodes} -o job.out --wrap '{step} | sort; exit 4'"));
        let row = c.until_end(id);
        assert_eq!(row.outcome(), (JobState::Failed, 4), "{row:?}\n{}", c.logs());
        assert_eq!(read(c, "job.out"), tasks, "{}", c.logs());
    }
    let relay = format!("COSY_SOCKET={}/relay.sock", c.dir().display());
    check(c, &format!("{relay} srun -t5 -n1 -w n2 printenv SLURMD_NODENAME"), 0, "n2\n", "");
    commands_work(c);
}

/// Commands that look on, change and end.
fn commands_work(c: &Cluster) {
    check(c, "sinfo -h -o '%D %P'", 0, "2 main*\n", "");
    let id = submit(c, "-J looked -H -n1 -t 5 --wrap 'exit 0'");
    check(
        c,
        &format!("squeue -h -j {id} -o '%i %j %T %r'"),
        0,
        &format!("{id} looked PENDING JobHeldUser\n"),
        "",
    );
    check(c, &format!("scontrol update jobid={id} name=changed"), 0, "", "");
    check(c, &format!("squeue -h -j {id} -o %j"), 0, "changed\n", "");
    check(c, &format!("scancel {id}"), 0, "", "");
    assert_eq!(c.until_end(id).state, JobState::Cancelled);
    let runs = submit(c, "-n1 -t5 --wrap 'sleep 1000'");
    c.until_state(runs, JobState::Running);
    for line in [
        "cstat",
        "chist",
        "sacct",
        "squeue --json",
        "scontrol show nodes",
        "sinfo --json",
        "cresv list",
        "scontrol ping",
        "cadm ping",
        "cadm events",
        "sacctmgr -n show cluster",
        "sshare",
        "sdiag",
    ] {
        let output = shell(c, line);
        assert_eq!(output.code, 0, "{line}: {output:?}");
    }
    check(c, &format!("scancel {runs}"), 0, "", "");
    assert_eq!(c.until_end(runs).state, JobState::Cancelled);
}

#[test]
fn the_controller_first_then_the_nodes_then_the_commands() {
    let Some(old) = old_or_skip() else { return };
    let mut c = old_cluster(&old);
    let (long, longer) =
        (LongJob::start(&c, "long", "-w n1"), LongJob::start(&c, "longer", "-w n2"));
    let session = Session::allocation(&c, "session", "n1");
    let step = Session::step(&c, "step", "n2");
    let waiting = Waiting::submitted(&c, long.id);
    let before = told(&c);

    replace_cosyd(&mut c, new());
    assert_eq!(told(&c), before);
    long.still_runs(&c);
    longer.still_runs(&c);
    session.goes_on_to_its_end(&c);
    step.goes_on_to_its_end(&c);
    long.ended(&c, 1);

    let session = Session::allocation(&c, "session2", "n2");
    replace_noded(&mut c, 1, new());
    session.goes_on_to_its_end(&c);
    longer.still_runs(&c);
    longer.ended(&c, 2);
    waiting.run(&c);
    // One node of either release, and commands of the one before.
    everything_runs(&c);
    c.link_commands(new());
    everything_runs(&c);

    let last = LongJob::start(&c, "last", "-w n1");
    replace_noded(&mut c, 0, new());
    last.still_runs(&c);
    last.ended(&c, 1);
    everything_runs(&c);
}

#[test]
fn nodes_before_their_controller() {
    let Some(old) = old_or_skip() else { return };
    let mut c = old_cluster(&old);
    let (long, longer) =
        (LongJob::start(&c, "long", "-w n1"), LongJob::start(&c, "longer", "-w n2"));
    let session = Session::allocation(&c, "session", "n1");
    replace_noded(&mut c, 0, new());
    session.goes_on_to_its_end(&c);
    long.still_runs(&c);
    everything_runs(&c);
    replace_noded(&mut c, 1, new());
    longer.still_runs(&c);
    long.ended(&c, 1);
    everything_runs(&c);
    c.link_commands(new());
    everything_runs(&c);
    // And back again: a daemon that was not what it promised.
    replace_noded(&mut c, 1, &old);
    longer.still_runs(&c);
    replace_cosyd(&mut c, new());
    longer.still_runs(&c);
    longer.ended(&c, 3);
    everything_runs(&c);
}

/// Ends are not lost that come while nobody is there to hear of them.
#[test]
fn jobs_that_end_while_a_daemon_is_replaced() {
    let Some(old) = old_or_skip() else { return };
    let mut c = old_cluster(&old);
    let without_controller = LongJob::start(&c, "first", "-w n1");
    let without_node = LongJob::start(&c, "second", "-w n2");
    c.cosyd.signal(Signal::SIGTERM);
    assert!(c.cosyd.await_end().success());
    without_controller.let_end(&c);
    without_controller.until_gone(&c);
    c.nodes[1].signal(Signal::SIGTERM);
    assert!(c.nodes[1].await_end().success());
    without_node.let_end(&c);
    without_node.until_gone(&c);
    c.nodes[1].replace_program(&new().join("noded"));
    c.start_noded(1);
    c.cosyd.replace_program(&new().join("cosyd"));
    c.start_cosyd();
    until_in_service(&c);
    without_controller.ended(&c, 0);
    without_node.ended(&c, 0);
}

/// It knows no epochs, and one controller alone.
#[test]
fn a_node_of_before_at_several_controllers() {
    let Some(old) = old_or_skip() else { return };
    if !system::postgres_or_skip() {
        return;
    }
    let folder = cosy_postgres::own_temporary().unwrap();
    let careless = cosy_postgres::Options {
        careless: true,
        ends_with_thread: true,
        ..Default::default()
    };
    let server = Server::start(&folder.path().join("a"), careless).unwrap();
    let controllers = Controllers {
        databases: vec![server.connection(); 2],
        store: "lease = \"2s\"".into(),
        ways: Vec::new(),
    };
    let mut c = Cluster::prepare(
        2,
        Options {
            controllers: Some(controllers),
            ..options()
        },
    );
    let file = c.node_dir(0).join("noded.toml");
    let text = fs::read_to_string(&file).unwrap();
    let both = text
        .lines()
        .find(|l| l.starts_with("controllers = "))
        .unwrap();
    fs::write(&file, text.replace(both, &format!("controller = \"{}\"", c.address()))).unwrap();
    c.nodes[0].replace_program(&old.join("noded"));
    let mut c = c.start_prepared();
    everything_runs(&c);
    let long = LongJob::start(&c, "long", "-w n1");
    c.write_config();
    replace_noded(&mut c, 0, new());
    long.still_runs(&c);
    c.cosyd.kill();
    let next = c.submit(&script(&c.work(), "exit 3"));
    assert_eq!(c.until_end(next).outcome(), (JobState::Failed, 3));
    long.let_end(&c);
    let row = c.until_end(long.id);
    assert_eq!((row.outcome(), row.attempt), ((JobState::Failed, 7), 1), "{row:?}");
}

/// A command that came with this release, at a controller of the one before.
#[test]
fn a_request_that_the_controller_does_not_know() {
    let Some(old) = old_or_skip() else { return };
    let c = old_cluster(&old);
    c.link_commands(new());
    let refused = shell(&c, "cadm takeover");
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.err.contains("hand_over"), "{refused:?}");
}

#[test]
fn the_controller_of_before_refuses_the_newer_store() {
    let Some(old) = old_or_skip() else { return };
    let mut c = old_cluster(&old);
    let long = LongJob::start(&c, "long", "-w n1");
    let waiting = Waiting::submitted(&c, long.id);
    replace_cosyd(&mut c, new());
    let before = told(&c);
    c.cosyd.signal(Signal::SIGTERM);
    assert!(c.cosyd.await_end().success());
    let kept = content(&c.state_dir());
    c.cosyd.replace_program(&old.join("cosyd"));
    c.start_cosyd_only();
    assert!(!c.cosyd.await_end().success());
    let said = c.cosyd.last_words(3);
    assert!(said.contains("the database has schema "), "{said}");
    assert!(said.contains("; this release knows up to "), "{said}");
    assert!(content(&c.state_dir()) == kept, "something was changed");

    c.cosyd.replace_program(&new().join("cosyd"));
    c.start_cosyd();
    until_in_service(&c);
    assert_eq!(told(&c), before);
    long.still_runs(&c);
    long.ended(&c, 1);
    waiting.run(&c);
}

/// The text of every table and row of the store while nobody has it open.
fn content(folder: &Path) -> String {
    // The refused program may well have moved the log into the database: the rows count.
    let dump = "import sqlite3, sys\nc = sqlite3.connect(sys.argv[1])\n\
        print(c.execute('PRAGMA user_version').fetchone())\nprint(*c.iterdump(), sep='\\n')";
    let mut python = Command::new("python3");
    let told = run::run(python.args(["-c", dump]).arg(folder.join("cosy.db"))).expect(0);
    told.out
}
