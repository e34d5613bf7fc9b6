//! Nodes that are switched off and on by programs of the site: here by one that asks the test, which ends
//! and starts their real daemons.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::{JobId, JobState};
use cosy_tests::{Cluster, Options, wait};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;

/// A cluster, and what its programs were called with.
struct Site {
    c: Cluster,
    calls: TempDir,
    /// Calls that were looked at.
    seen: usize,
}

/// How programs are called here: a line for each call, and the file of what is resumed.
const PROGRAM: &str = r#"#!/bin/sh
[ -e "$0.fails" ] && { echo "no machines left" >&2; exit 7; }
[ -n "$SLURM_RESUME_FILE" ] && cp "$SLURM_RESUME_FILE" "$(dirname "$0")/resume.json"
echo "$1 $2" >> "$(dirname "$0")/calls"
"#;

impl Site {
    /// So many nodes, which go off after a second, with further lines of `[power]`.
    fn start(nodes: usize, more: &str) -> Self {
        let calls = tempfile::tempdir().unwrap();
        let program = calls.path().join("program");
        fs::write(&program, PROGRAM).unwrap();
        let command = |what: &str| format!("[\"/bin/sh\", \"{}\", \"{what}\"]", program.display());
        let head = format!(
            "[power]\nsuspend_program = {}\nresume_program = {}\nresume_fail_program = {}\n{more}\n",
            command("suspend"),
            command("resume"),
            command("failed"),
        );
        let options = Options {
            head,
            ..Options::default()
        };
        Self {
            c: Cluster::start(nodes, options),
            calls,
            seen: 0,
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.calls.path().join(name)
    }

    /// The next call that is made, as `suspend n[1-3]`.
    #[track_caller]
    fn next_call(&mut self) -> String {
        let next = wait::until("a program is called", || {
            let all = fs::read_to_string(self.file("calls")).ok()?;
            all.lines().nth(self.seen).map(str::to_owned)
        });
        self.seen += 1;
        next
    }

    /// All nodes are off.
    fn await_off(&mut self) {
        let mut off = 0;
        while off < self.c.nodes.len() {
            let call = self.next_call();
            let names = call.strip_prefix("suspend ").expect("they go off");
            for name in cosy_model::expand(names).unwrap() {
                self.c.nodes[number(&name)].kill();
                off += 1;
            }
        }
        for at in 1..=off {
            self.until_state(at, "off");
        }
    }

    #[track_caller]
    fn until_state(&self, node: usize, state: &str) {
        let name = format!("n{node}");
        self.c.until_node(&name, state, |node| node.state == state);
    }

    /// Starts the daemons of nodes, given as a host list.
    fn boot(&mut self, names: &str) {
        for name in cosy_model::expand(names).unwrap() {
            self.c.start_noded(number(&name));
        }
        for name in cosy_model::expand(names).unwrap() {
            self.c.nodes[number(&name)].await_ready();
        }
    }

    fn out(&self, words: &[&str]) -> String {
        self.c.run(words).expect(0).out
    }

    fn submit(&self, words: &[&str]) -> JobId {
        let first = ["sbatch", "--parsable", "-t", "5", "-o", "out"];
        JobId(self.out(&[&first, words].concat()).trim().parse().unwrap())
    }
}

/// Of a node's name, counted from 0.
fn number(name: &str) -> usize {
    let number: usize = name.trim_start_matches('n').parse().unwrap();
    number - 1
}

const QUICK: &str = "suspend_after = \"1s\"\nsuspend_timeout = \"2s\"\nresume_timeout = \"60s\"";

#[test]
fn nodes_go_off_and_come_up_for_a_job() {
    let mut site = Site::start(3, QUICK);
    site.await_off();
    assert_eq!(site.out(&["sinfo", "-h", "-o", "%t %D"]), "idle~ 3\n");
    let shown = site.out(&["scontrol", "show", "node", "n2"]);
    assert!(shown.contains("State=IDLE+POWERED_DOWN "), "{shown}");
    let job = site.submit(&["-N2", "--exclusive", "--wrap", "srun hostname | wc -l"]);
    assert_eq!(site.next_call(), "resume n[1-2]");
    let told: Value = serde_json::from_slice(&fs::read(site.file("resume.json")).unwrap()).unwrap();
    assert_eq!(told["all_nodes_resume"], "n[1-2]");
    assert_eq!(told["jobs"][0]["job_id"], job.0);
    assert_eq!(told["jobs"][0]["partition"], "main");
    let why = site.out(&["cstat", &job.to_string()]);
    assert!(why.contains("switched off or come up"), "{why}");
    let shown = site.out(&["squeue", "-h", "-j", &job.to_string(), "-o", "%t %r"]);
    assert_eq!(shown, "PD Resources\n");
    assert_eq!(site.out(&["sinfo", "-h", "-t", "powering_up", "-o", "%N %t"]), "n[1-2] idle#\n");
    let refused = site
        .c
        .run(&["scontrol", "power", "down", "n[2-3]"])
        .expect(1);
    assert_eq!(
        refused.err,
        "slurm_update error: n2: it is on its way up: switch it off when it is there\n"
    );
    // The controller is killed meanwhile, and its successor knows.
    site.c.cosyd.kill();
    site.c.start_cosyd();
    assert_eq!(site.out(&["sinfo", "-h", "-t", "powered_down", "-o", "%N %t"]), "n3 idle~\n");
    site.boot("n[1-2]");
    let row = site.c.until_end(job).expect_state(JobState::Completed);
    assert_eq!(row.nodes, "n[1-2]");
    assert_eq!(fs::read_to_string(site.c.work().join("out")).unwrap(), "2\n");
    let told = site.out(&["cadm", "events", "--json"]);
    assert!(told.contains("powered_up") && told.contains("it is up after"), "{told}");
}

#[test]
fn administrators_switch_nodes_and_are_told_what_fails() {
    let more = "suspend_timeout = \"2s\"\nresume_timeout = \"3s\"";
    let mut site = Site::start(2, more);
    let job = site.submit(&["-w", "n1", "--wrap", "sleep 300"]);
    site.c.until_state(job, JobState::Running);
    site.out(&["scontrol", "power", "down", "n[1-2]"]);
    assert_eq!(site.next_call(), "suspend n2");
    site.c.nodes[1].kill();
    assert_eq!(site.out(&["sinfo", "-h", "-n", "n1", "-o", "%t"]), "drng!\n");
    site.until_state(2, "off");
    // It is wanted, and does not come.
    site.out(&["cadm", "node", "wake", "n2"]);
    assert_eq!(site.next_call(), "resume n2");
    let node = site
        .c
        .until_node("n2", "drained", |node| node.state == "drained");
    assert!(node.reason.contains("did not come up within"), "{}", node.reason);
    assert_eq!(site.next_call(), "failed n2");
    // The job ends, and the program fails.
    fs::write(site.file("program.fails"), "").unwrap();
    site.out(&["scancel", &job.to_string()]);
    let node = site
        .c
        .until_node("n1", "failed", |node| node.reason.contains("failed"));
    assert!(
        node.reason
            .starts_with("the suspend program failed: /bin/sh ended with exit status: 7")
            && node.reason.ends_with("no machines left"),
        "{}",
        node.reason
    );
    // Wrong words.
    let wrong = site
        .c
        .run(&["scontrol", "power", "sideways", "n1"])
        .expect(1);
    assert!(wrong.err.contains("'up' or 'down [asap|force]'"), "{}", wrong.err);
    let wrong = site.c.run(&["scontrol", "power", "up", "n9"]).expect(1);
    assert!(wrong.err.contains("Invalid node name specified"), "{}", wrong.err);
}

#[test]
fn where_nothing_is_said_of_power_nobody_switches_anything() {
    let c = Cluster::start(1, Options::default());
    let wrong = c.run(&["cadm", "node", "sleep", "n1"]);
    assert_ne!(wrong.code, 0);
    assert!(wrong.err.contains("names no suspend_program"), "{}", wrong.err);
    let wrong = c
        .run(&["scontrol", "update", "nodename=n1", "state=power_up"])
        .expect(1);
    assert!(wrong.err.contains("names no suspend_program"), "{}", wrong.err);
}
