//! `scontrol`, `sacctmgr` and `sstat`, further than the sentences: reservations that change,
//! accounts that go, and what running steps use.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::{JobId, JobState};
use cosy_tests::run::Output;
use cosy_tests::{Cluster, Options, wait};

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
    assert!(
        text.contains(" Flags=MAINT,IGNORE_JOBS,SPEC_NODES\n"),
        "{text}"
    );
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
            (
                cells[0].clone(),
                cells[1].clone(),
                measured.is_ok_and(|m| m > 0.0),
            )
        };
        out.lines().map(cells).collect()
    };
    let has = |out: &str, step: &str, tasks: &str| {
        rows(out).contains(&(format!("{id}.{step}"), tasks.to_owned(), true))
    };
    until(&c, &look, |out| {
        has(out, "batch", "1") && has(out, "0", "2")
    });
    let job = JobId(id.parse().unwrap());
    run(&c, &format!("scancel {id}")).expect(0);
    assert_eq!(c.until_end(job).state, JobState::Cancelled);
}

#[test]
fn accounts_come_and_go() {
    let c = cluster(1);
    let told = run(&c, "sacctmgr show config").expect(0).out;
    assert!(told.contains("\nAccountingStorageType   = accounting_storage/none\n"));
    assert!(
        told.contains("\nSLURM_CONF ") && !told.contains("KillWait"),
        "{told}"
    );
    let told = run(&c, "sacctmgr --usage").expect(0).out;
    assert!(
        told.contains("\n     add account                Names=\n"),
        "{told}"
    );
    run(&c, "sacctmgr -i add account physics").expect(0);
    for user in ["ann", "bob"] {
        run(&c, &format!("sacctmgr -i add user {user} account=physics")).expect(0);
    }
    let list = "sacctmgr -nP show assoc format=account,user";
    check(&c, list, 0, "physics|\nphysics|ann\nphysics|bob\n", "");
    run(&c, "sacctmgr -i delete user ann account=physics").expect(0);
    check(&c, list, 0, "physics|\nphysics|bob\n", "");
    run(&c, "sacctmgr -i delete account physics").expect(0);
    check(&c, list, 0, "", "");
}
