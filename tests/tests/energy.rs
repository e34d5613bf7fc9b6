//! What the machine takes is shared among jobs by their cores. Counters and power meters are files here.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::{JobId, JobState};
use cosy_tests::terminal::lines_on;
use cosy_tests::{Cluster, Options, script, wait};
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Where a job may change it, a file like the kernel's.
const COUNTER: &str = "class/powercap/intel-rapl:0";

/// Nodes of four cores, each with one counter.
fn cluster(nodes: usize, noded: fn(usize) -> String) -> Cluster {
    let options = Options {
        noded,
        ..Options::default()
    };
    let c = Cluster::prepare(nodes, options);
    for at in 0..nodes {
        let zone = c.node_dir(at).join(COUNTER);
        fs::create_dir_all(&zone).unwrap();
        fs::write(zone.join("name"), "package-0\n").unwrap();
        fs::write(zone.join("max_energy_range_uj"), "262143328850\n").unwrap();
        fs::write(zone.join("energy_uj"), "5000\n").unwrap();
    }
    c.start_prepared()
}

fn by_counters(_: usize) -> String {
    "energy_dir = 'class'\n".to_owned()
}

fn measured_often(_: usize) -> String {
    "energy_dir = 'class'\nsample_interval = '1s'\n".to_owned()
}

fn counter(c: &Cluster, at: usize) -> PathBuf {
    c.node_dir(at).join(COUNTER).join("energy_uj")
}

/// The counter has this value from now on.
fn set(file: &Path, microjoules: u64) {
    let new = file.with_extension("new");
    fs::write(&new, format!("{microjoules}\n")).unwrap();
    fs::rename(new, file).unwrap();
}

fn joules(c: &Cluster, job: JobId) -> String {
    let words = [
        "sacct",
        "-nXPo",
        "ConsumedEnergyRaw",
        "-j",
        &job.to_string(),
    ];
    c.run(&words).expect(0).out.trim().to_owned()
}

/// Far shorter than the interval between two measurements: its beginning and its end are looked at.
#[test]
fn a_short_job_has_its_share_of_all_its_nodes() {
    let c = cluster(2, by_counters);
    let text = format!(
        "echo 8000005000 > {}\necho 40005000 > {}\n",
        counter(&c, 0).display(),
        counter(&c, 1).display()
    );
    let mut submission = script(&c.work(), &text);
    submission.spec.request.nodes = Some(2);
    submission.spec.request.tasks = Some(4);
    submission.spec.request.tasks_per_node = Some(2);
    let job = c.submit(&submission);
    c.until_end(job).expect_state(JobState::Completed);
    // Two of four cores on each: half of 8000 J and of 40 J.
    assert_eq!(joules(&c, job), "4020");
    let id = job.to_string();
    let seff = c.run(&["seff", &id]).expect(0).out;
    assert!(seff.contains("\nEnergy: 1.1 Wh (estimate: "), "{seff}");
    let words = ["sacct", "-nPo", "JobID,ConsumedEnergy", "-j", &id];
    let sacct = c.run(&words).expect(0).out;
    assert!(sacct.starts_with("1|4.02K\n1.batch|2.01K\n"), "{sacct}");
    let told = c.run(&["cosy", "efficiency", &id]).expect(0).out;
    assert!(told.contains(", an estimated 1.1 Wh, "), "{told}");
    let lines = lines_on(200, &mut c.command(&["cstat", &id]));
    assert!(
        lines
            .iter()
            .any(|line| line.contains("an estimated 1.1 Wh")),
        "{lines:#?}"
    );
    let lines = lines_on(200, &mut c.command(&["cosy", "efficiency"]));
    assert!(lines[0].ends_with("ENERGY") && lines[1].ends_with("1.1 Wh"), "{lines:#?}");
    let told = c.run(&["cosy", "efficiency", "--json", &id]).expect(0).out;
    assert!(told.contains("\"energy_joules\": 4020"), "{told}");
}

#[test]
fn jobs_share_a_node_by_their_cores() {
    let mut c = cluster(1, measured_often);
    let file = counter(&c, 0);
    let text = "while ! [ -e go ]; do sleep 0.05; done";
    let one = c.submit(&script(&c.work(), text));
    c.until_state(one, JobState::Running);
    set(&file, 100_005_000);
    let joules_of = |c: &Cluster, job| c.samples(job).devices.energy_joules();
    wait::until("it was measured", || (joules_of(&c, one) == Some(25)).then_some(()));
    let id = one.to_string();
    let sstat = c
        .run(&["sstat", "-anPo", "JobID,ConsumedEnergy", "-j", &id])
        .expect(0)
        .out;
    assert_eq!(sstat, "1.batch|25\n");
    let lines = wait::until("it was measured twice", || {
        let lines = lines_on(120, &mut c.command(&["cstat", &id]));
        lines
            .iter()
            .any(|line| line.starts_with("  energy"))
            .then_some(lines)
    });
    let line = lines
        .iter()
        .find(|line| line.starts_with("  energy"))
        .unwrap();
    assert!(line.ends_with("25 J so far, estimated from what the node takes"), "{line}");
    // A job that comes later has nothing of what was taken before.
    let mut submission = script(&c.work(), text);
    submission.spec.request.tasks = Some(2);
    let two = c.submit(&submission);
    c.until_state(two, JobState::Running);
    set(&file, 140_005_000);
    let until_both = |c: &Cluster, want: [u64; 2]| {
        wait::until("both were measured", || {
            let told = [one, two].map(|job| joules_of(c, job));
            (told == want.map(Some)).then_some(())
        });
    };
    until_both(&c, [35, 20]);
    // A daemon that was killed goes on with what was measured last, and leaves out what was taken
    // meanwhile.
    let seen = SystemTime::now();
    let kept = c.node_dir(0).join("spool/n1/use");
    wait::until("it is kept", || {
        let written = fs::metadata(&kept).and_then(|meta| meta.modified()).ok()?;
        (written > seen).then_some(())
    });
    c.nodes[0].kill();
    set(&file, 999_005_000);
    c.start_noded(0);
    wait::until("it is back", || {
        let socket = UnixStream::connect(c.steps_socket(0)).ok()?;
        drop(socket);
        (joules_of(&c, two) == Some(20)).then_some(())
    });
    set(&file, 1_039_005_000);
    until_both(&c, [45, 40]);
    fs::write(c.work().join("go"), "").unwrap();
    for (job, want) in [(one, "45"), (two, "40")] {
        c.until_end(job).expect_state(JobState::Completed);
        assert_eq!(joules(&c, job), want);
    }
}

/// Nothing is told, and nothing said again and again.
#[test]
fn nothing_is_known_where_nothing_measures() {
    let c = Cluster::start(
        1,
        Options {
            noded: |_| "energy_dir = 'nowhere'\nsample_interval = '1s'\n".to_owned(),
            ..Options::default()
        },
    );
    let job = c.submit(&script(&c.work(), "true"));
    c.until_end(job).expect_state(JobState::Completed);
    assert_eq!(joules(&c, job), "");
    let words = ["sacct", "-nPo", "ConsumedEnergy", "-j", &job.to_string()];
    assert_eq!(c.run(&words).expect(0).out, "\n0\n");
    let seff = c.run(&["seff", &job.to_string()]).expect(0).out;
    assert!(!seff.contains("Energy"), "{seff}");
    let said = "energy is not measured: ";
    assert_eq!(c.logs().matches(said).count(), 1, "{}", c.logs());
}
