//! Switches of the network: which nodes jobs get, what they and their owners are told of them.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::{JobId, JobState};
use cosy_tests::{Cluster, Options};
use std::fs;

/// Four nodes on two leaf switches under one.
fn cluster() -> Cluster {
    weighted(|_| String::new())
}

fn weighted(entry: fn(usize) -> String) -> Cluster {
    Cluster::start(
        4,
        Options {
            head: "[[switch]]\nname = \"top\"\nswitches = \"s[1-2]\"\n\
                   [[switch]]\nname = \"s1\"\nnodes = \"n[1-2]\"\n\
                   [[switch]]\nname = \"s2\"\nnodes = \"n[3-4]\"\n"
                .into(),
            entry,
            ..Options::default()
        },
    )
}

fn submitted(c: &Cluster, words: &[&str]) -> JobId {
    JobId(c.run(words).expect(0).out.trim().parse().unwrap())
}

/// A job of two whole nodes for some minutes.
const TWO_NODES: [&str; 6] = ["--exclusive", "-N2", "-t", "5", "--wrap", "true"];

fn on_two_nodes(c: &Cluster, more: &[&str]) -> JobId {
    let submit = ["sbatch", "--parsable", "-o", "/dev/null"];
    submitted(c, &[&submit, &TWO_NODES[..], more].concat())
}

/// A job that has a node of each switch for itself.
fn scattered(c: &Cluster) -> JobId {
    let words = "sbatch --parsable --exclusive -w n1,n3 -t 60 -o /dev/null --wrap";
    let words: Vec<&str> = words.split(' ').chain(["sleep 300"]).collect();
    let job = submitted(c, &words);
    c.until_state(job, JobState::Running);
    job
}

#[test]
fn nodes_on_one_switch_and_what_the_job_finds() {
    let c = cluster();
    let first = submitted(&c, &["csub", "--parsable", "--exclusive", "--", "sleep", "300"]);
    assert_eq!(c.until_state(first, JobState::Running).nodes, "n1");
    let script = "echo $SLURM_JOB_NODELIST $SLURM_TOPOLOGY_ADDR $SLURM_TOPOLOGY_ADDR_PATTERN; \
                  srun printenv SLURM_TOPOLOGY_ADDR | sort";
    let words = [
        "sbatch",
        "--parsable",
        "-N2",
        "--exclusive",
        "-o",
        "out",
        "--wrap",
        script,
    ];
    c.until_end(submitted(&c, &words));
    assert_eq!(
        fs::read_to_string(c.work().join("out")).unwrap(),
        "n[3-4] top.s2.n3 switch.switch.node\ntop.s2.n3\ntop.s2.n4\n"
    );
    // A command with a job of its own.
    let own = c.run(&[
        "srun",
        "-N2",
        "--exclusive",
        "printenv",
        "SLURM_TOPOLOGY_ADDR",
    ]);
    let mut own: Vec<String> = own.expect(0).out.lines().map(str::to_owned).collect();
    own.sort();
    assert_eq!(own, ["top.s2.n3", "top.s2.n4"]);
}

#[test]
fn a_job_waits_for_one_switch_and_its_owner_is_told() {
    let c = cluster();
    let busy = scattered(&c);
    let asked = c.run(
        &[
            &["sbatch", "--test-only"],
            &TWO_NODES[..],
            &["--switches=1@30"],
        ]
        .concat(),
    );
    let asked = asked.expect(0);
    let lines: Vec<&str> = asked.err.lines().collect();
    assert!(lines[0].contains("on nodes n[2,4] in partition"), "{asked:?}");
    assert!(lines[1].contains("nodes on one switch are free at"), "{asked:?}");
    let id = on_two_nodes(&c, &["--switches=1@30"]);
    let name = id.to_string();
    let told = c.run(&["cstat", &name]).expect(0).out;
    assert!(told.contains("no more than 1 switch for 00:"), "{told}");
    let shown = c.run(&["scontrol", "show", "job", &name]).expect(0).out;
    assert!(shown.contains("\n   Switches=1@00:30:00\n"), "{shown}");
    let cells = c.run(&[
        "squeue",
        "-h",
        "-j",
        &name,
        "-O",
        "reqswitch:3,wait4switch:6",
    ]);
    assert_eq!(cells.expect(0).out, "1  1800  \n");
    let job = format!("JobId={name}");
    for (wrong, want) in [
        ("Switches=x", "Switches"),
        ("Contiguous=maybe", "Contiguous"),
    ] {
        let said = c.run(&["scontrol", "update", &job, wrong]);
        assert_eq!(said.code, 1, "{said:?}");
        assert!(said.err.contains(want), "{said:?}");
    }
    // It is let go.
    c.run(&["scontrol", "update", &job, "Switches=0"]).expect(0);
    c.until_end(id);
    let shown = c.run(&["sacct", "-n", "-P", "-X", "-j", &name, "-o", "NodeList"]);
    assert_eq!(shown.expect(0).out, "n[2,4]\n");
    c.run(&["scancel", &busy.to_string()]).expect(0);
}

#[test]
fn few_switches_become_free_or_the_time_is_over() {
    let c = weighted(|n| if n == 4 { "weight = 5" } else { "" }.into());
    let busy = scattered(&c);
    let hasty = on_two_nodes(&c, &["--switches=1@0:02"]);
    let patient = on_two_nodes(&c, &["--switches=1@60"]);
    c.until_end(hasty);
    c.run(&["scancel", &busy.to_string()]).expect(0);
    c.until_end(patient);
    let nodes = |job: JobId| {
        let words = ["sacct", "-n", "-P", "-X", "-o", "NodeList", "-j"];
        c.run(&[&words[..], &[&job.to_string()]].concat())
            .expect(0)
            .out
    };
    assert_eq!(nodes(hasty), "n[2,4]\n");
    assert_eq!(nodes(patient), "n[1-2]\n");
}

#[test]
fn the_tree_and_the_weights_are_shown() {
    let c = weighted(|n| if n == 4 { "weight = 5" } else { "" }.into());
    let tree = c.run(&["scontrol", "show", "topology"]).expect(0).out;
    assert_eq!(
        tree,
        "SwitchName=top Level=1 LinkSpeed=1 Nodes=n[1-4] Switches=s[1-2]\n\
         SwitchName=s1 Level=0 LinkSpeed=1 Nodes=n[1-2]\n\
         SwitchName=s2 Level=0 LinkSpeed=1 Nodes=n[3-4]\n"
    );
    let one = c.run(&["scontrol", "show", "topology", "n3"]).expect(0).out;
    assert_eq!(one.lines().count(), 2, "{one}");
    let none = c.run(&["scontrol", "show", "topology", "n9"]);
    assert_eq!(none.code, 1);
    assert!(none.err.contains("no switch or node named n9"), "{none:?}");
    let config = c.run(&["scontrol", "show", "config"]).expect(0).out;
    assert!(config.contains("TopologyPlugin          = topology/tree\n"), "{config}");
    let node = c.run(&["scontrol", "show", "node", "n4"]).expect(0).out;
    assert!(node.contains(" Weight=5 "), "{node}");
    assert_eq!(c.run(&["sinfo", "-h", "-o", "%w"]).expect(0).out, "1-5\n");
    // The heavier one is the last to be taken.
    let script = ["--exclusive", "--wrap", "sleep 300"];
    let one = [&["sbatch", "--parsable", "-o", "/dev/null"], &script[..]].concat();
    for want in ["n1", "n2", "n3", "n4"] {
        assert_eq!(c.until_state(submitted(&c, &one), JobState::Running).nodes, want);
    }
}

#[test]
fn groups_of_nodes_on_one_switch_each() {
    let c = cluster();
    let first = submitted(&c, &["csub", "--parsable", "--exclusive", "--", "sleep", "300"]);
    assert_eq!(c.until_state(first, JobState::Running).nodes, "n1");
    let words = [
        "srun",
        "-N2",
        "--exclusive",
        "--segment=2",
        "printenv",
        "SLURMD_NODENAME",
    ];
    let mut nodes: Vec<String> = c
        .run(&words)
        .expect(0)
        .out
        .lines()
        .map(str::to_owned)
        .collect();
    nodes.sort();
    assert_eq!(nodes, ["n3", "n4"]);
    let words = [
        "sbatch",
        "--parsable",
        "-N4",
        "--exclusive",
        "--segment=2",
        "--wrap",
        "true",
    ];
    let id = submitted(&c, &words).to_string();
    let shown = c.run(&["scontrol", "show", "job", &id]).expect(0).out;
    assert!(shown.contains("\n   SegmentSize=2\n"), "{shown}");
    let wrong = c.run(&["csub", "-N", "3", "--segment", "2", "--", "true"]);
    assert_eq!(wrong.code, 1);
    assert!(wrong.err.contains("3 nodes cannot be had in segments of 2"), "{wrong:?}");
}

#[test]
fn nodes_side_by_side() {
    let c = cluster();
    let busy = scattered(&c);
    let beside = on_two_nodes(&c, &["--contiguous"]);
    c.until_state(beside, JobState::Waiting);
    c.run(&["scancel", &busy.to_string()]).expect(0);
    c.until_end(beside);
    let words = [
        "csub",
        "-N",
        "3",
        "--exclusive",
        "--contiguous",
        "--avoid",
        "n2",
        "--",
        "true",
    ];
    let never = c.run(&words);
    assert_eq!(never.code, 1);
    assert!(never.err.contains("nowhere side by side"), "{never:?}");
    let never = c.run(&[
        "csub",
        "-N",
        "3",
        "--exclusive",
        "--switches",
        "1",
        "--",
        "true",
    ]);
    assert!(never.err.contains("no switch has"), "{never:?}");
    for (wrong, want) in [
        (&["csub", "--switches", "0", "--", "true"], "is no number of switches"),
        (&["csub", "--switches", "1@x", "--", "true"], "is no time to wait for switches"),
    ] {
        let said = c.run(wrong);
        assert_eq!(said.code, 2, "{said:?}");
        assert!(said.err.contains(want), "{said:?}");
    }
}
