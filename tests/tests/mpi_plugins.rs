//! MPI plugins of jobs: what they add to the environment, as whom they run, what becomes
//! of their files; and what the front end for implicit scheduling takes.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::{JobState, Span};
use cosy_tests::mpi::Mpi;
use cosy_tests::mpi_jobs::{Innocent, node, options, read, story, submit, until_nothing_is_left};
use cosy_tests::run::run;
use cosy_tests::{Cluster, Options, people, system};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

/// What plugins say is in the job's environment and their files are there while it runs;
/// what is wrong with one is told, and ends nothing.
#[test]
fn variables_of_a_batch_job() {
    let own = |n: usize| node(n).replace("plugins = [", "plugins = [\"DIR/site\", ");
    let c = Cluster::prepare(
        2,
        Options {
            noded: own,
            ..options()
        },
    );
    site_plugin(&c, "broken", "echo nonsense");
    site_plugin(&c, "mpich", "echo HYDRA_HOST_FILE=site");
    let c = c.start_prepared();
    let text = "env | grep -c ^COSY_STEP_SOCKET=; cat \"$OMPI_MCA_orte_default_hostfile\"\n\
        echo $HYDRA_HOST_FILE $COSY_MACHINE_SHARED\nbasename \"$COSY_REMOTE_SHELL\"";
    let job = submit(&c, 2, 4, text, Span::from_minutes(5));
    assert_eq!(c.until_end(job).outcome(), (JobState::Completed, 0), "{}", story(&c));
    assert_eq!(read(&c, "out"), "1\nn1 slots=2\nn2 slots=2\nsite 1\ncosy-rsh\n");
    let err = read(&c, "err");
    let said = "cosy: MPI plugin broken: ";
    assert!(err.starts_with(said) && err.ends_with("is not NAME=value: 'nonsense'\n"), "{err}");
    until_nothing_is_left(&c, &[]);
    // A step without a job around it knows of its node what a job knows.
    let step = c.run(&["cosy", "run", "sh", "-c", "echo $COSY_MACHINE_SHARED"]);
    assert_eq!(step.expect(0).out, "1\n");
    let alone = submit(&c, 1, 1, "echo ${OMPI_MCA_plm-none}", Span::from_minutes(5));
    assert_eq!(c.until_end(alone).outcome(), (JobState::Completed, 0));
    assert_eq!(read(&c, "out"), "none\n", "one task needs no plugins");
}

/// Scripts run as the job's user, who alone can look at their files.
#[test]
fn plugins_run_as_the_user() {
    if !system::root_or_skip() {
        return;
    }
    let site = |_: usize| "plugins = [\"DIR/site\"]\ncgroup = \"memory\"\n".to_owned();
    let c = people::start(
        2,
        Options {
            noded: site,
            ..options()
        },
    );
    let text = "mkdir -p a/b/c; echo \"SEEN=$(id -u) $(stat -c '%u %a' .)\"";
    site_plugin(&c, "look", text);
    let words = [
        "csub", "--wait", "--quiet", "-N", "2", "-o", "seen", "--", "sh", "-c",
    ];
    let ann = c.run_as(people::ANN, &[&words[..], &["echo $SEEN"]].concat());
    ann.expect(0);
    assert_eq!(read(&c, "seen"), format!("{0} {0} 700\n", people::ANN));
    until_nothing_is_left(&c, &[]);
}

fn site_plugin(c: &Cluster, name: &str, text: &str) {
    let home = c.dir().join("site").join(name);
    fs::create_dir_all(&home).unwrap();
    fs::write(home.join("job"), format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(home.join("job"), Permissions::from_mode(0o755)).unwrap();
}

/// What the front end does before it asks anybody.
#[test]
fn what_the_front_end_takes() {
    if Mpi::OpenMpi.programs_or_skip().is_none() {
        return;
    }
    let c = Cluster::prepare(1, options());
    let folder = c.work();
    let user = Innocent {
        cluster: &c,
        folder: &folder,
        mpi: Mpi::OpenMpi,
    };
    user.run(&["-H", "n1", "-n", "2", "true"])
        .expect_refusal("the batch system chooses the nodes");
    user.run(&["true"]).expect_refusal("say how many tasks");
    user.run(&["-n", "many", "true"])
        .expect_refusal("-n wants a number");
    let version = user.run(&["--version"]).expect(0);
    assert!(version.out.contains("Open MPI") || version.out.contains("OpenRTE"), "{version:?}");
    let inside = run(user
        .command(&["-n", "1", "echo", "here"])
        .env("COSY_JOB_ID", "1"));
    assert_eq!(inside.expect(0).out, "here\n");
}
