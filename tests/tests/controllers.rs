//! Several controllers on one database: whoever fails, another goes on.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::api::{Reply, Request};
use cosy_model::{JobId, JobState, Refusal, RefusalCode};
use cosy_postgres::Server;
use cosy_tests::cluster::Controllers;
use cosy_tests::run::{Watched, run};
use cosy_tests::{Client, Cluster, Options, script, system, wait};
use nix::sys::signal::Signal;
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;

/// Two controllers, a node and a database.
struct House {
    cluster: Cluster,
    server: Server,
    _folder: TempDir,
}

fn house(lease: &str) -> Option<House> {
    house_on(lease, true)
}

/// `careless`: the database does not wait for its disk.
fn house_on(lease: &str, careless: bool) -> Option<House> {
    if !system::postgres_or_skip() {
        return None;
    }
    let folder = cosy_postgres::own_temporary().unwrap();
    let options = cosy_postgres::Options {
        careless,
        ends_with_thread: true,
        ..Default::default()
    };
    let server = Server::start(&folder.path().join("a"), options).unwrap();
    let controllers = Controllers {
        databases: vec![server.connection(); 2],
        store: format!("lease = \"{lease}\""),
        ways: Vec::new(),
    };
    let options = Options {
        controllers: Some(controllers),
        ..Options::default()
    };
    Some(House {
        cluster: Cluster::start(1, options),
        server,
        _folder: folder,
    })
}

impl House {
    /// A job that runs until its file is there, and the file.
    fn held_job(&self) -> (JobId, PathBuf) {
        let go = self.cluster.work().join("go");
        let marks = self.cluster.work().join("ran");
        let text = format!(
            "echo ran >> {}; while [ ! -e {} ]; do sleep 0.05; done; exit 7",
            marks.display(),
            go.display()
        );
        let job = self.cluster.submit(&script(&self.cluster.work(), &text));
        self.cluster.until_state(job, JobState::Running);
        wait::until_true("it has begun", || marks.exists());
        (job, go)
    }

    /// The held job goes on to its end, and has run once.
    fn ends_once(&self, (job, go): (JobId, PathBuf)) {
        fs::write(go, "").unwrap();
        let row = self.cluster.until_end(job);
        assert_eq!((row.outcome(), row.attempt), ((JobState::Failed, 7), 1));
        let ran = fs::read_to_string(self.cluster.work().join("ran")).unwrap();
        assert_eq!(ran, "ran\n");
    }

    fn submits(&self) -> JobId {
        let said = self.cluster.run(&["csub", "--", "true"]).expect(0);
        let id = said.out.trim().rsplit(' ').next().unwrap();
        JobId(id.parse().unwrap())
    }
}

#[test]
fn another_controller_goes_on() {
    let Some(mut h) = house("2s") else { return };
    let first = (h.cluster.socket(), h.held_job());
    let waits = h.cluster.run(&["csub", "-H", "--", "true"]).expect(0);
    h.cluster.cosyd.kill();
    // The command has the sockets of both, and finds who leads.
    let next = h.submits();
    assert!(waits.out.contains(&(next.0 - 1).to_string()), "{} {next}", waits.out);
    h.cluster.until_leads(1);
    assert_eq!(h.cluster.until_end(next).state, JobState::Completed);
    assert_eq!(h.cluster.row(JobId(next.0 - 1)).state, JobState::Waiting);
    // The former leader comes again, and stands by.
    h.cluster.start_controller(0);
    h.cluster.cosyd.await_ready();
    h.cluster.until_stands_by(0, 1);
    let mut client = Client::connect(&first.0).unwrap();
    wait::until_true("it says who leads", || {
        let Ok(Reply::Refused(refusal)) = client.ask(Request::Ping) else {
            panic!("a standby answers");
        };
        refusal.message == "controller c1 stands by; c2 leads"
    });
    h.ends_once(first.1);
}

#[test]
fn the_lead_is_handed_over() {
    let Some(h) = house("30s") else { return };
    let held = h.held_job();
    h.cluster.until_stands_by(1, 0);
    let refused = h.cluster.run(&["cadm", "takeover", "c3"]).expect(1);
    assert!(refused.err.contains("controller c3 does not stand by"), "{}", refused.err);
    h.cluster.run(&["cadm", "takeover"]).expect(0);
    h.cluster.until_leads(1);
    h.cluster.until_stands_by(0, 1);
    let said = h.cluster.run(&["cadm", "ping"]).expect(0).out;
    assert!(said.contains("c2 leads") && said.contains("c1 stands by"), "{said}");
    let said = h.cluster.run(&["scontrol", "ping"]).expect(0).out;
    assert_eq!(said, "Slurmctld(primary) at c2 is UP\nSlurmctld(backup) at c1 is UP\n");
    assert_eq!(h.cluster.until_end(h.submits()).state, JobState::Completed);
    // And back, to the one that is named.
    h.cluster.run(&["cadm", "takeover", "c1"]).expect(0);
    h.cluster.until_leads(0);
    h.ends_once(held);
}

#[test]
fn a_leader_that_was_frozen_begins_anew() {
    let Some(h) = house("2s") else { return };
    let held = h.held_job();
    h.cluster.until_stands_by(1, 0);
    h.cluster.cosyd.signal(Signal::SIGSTOP);
    h.cluster.until_leads(1);
    // A command finds the one that stands still first, and goes on to the one that leads.
    let said = h.cluster.run(&["csub", "--", "sh", "-c", "exit 3"]);
    let (out, err) = (said.out.clone(), said.err.clone());
    said.expect(0);
    assert!(err.contains("does not answer; asking the one that leads"), "{err}");
    let next = JobId(out.trim().rsplit(' ').next().unwrap().parse().unwrap());
    assert_eq!(h.cluster.until_end(next).outcome(), (JobState::Failed, 3));
    h.cluster.cosyd.signal(Signal::SIGCONT);
    h.cluster.until_begins_anew(0);
    h.cluster.until_stands_by(0, 1);
    h.ends_once(held);
}

/// A command that stays with its job leaves a leader that stands still: the next one would give the job
/// up, since nobody stays with it.
#[test]
fn who_stays_with_a_job_leaves_a_leader_that_was_frozen() {
    let Some(h) = house("2s") else { return };
    let [go, begun] = ["go", "begun"].map(|name| h.cluster.work().join(name));
    let text = format!(
        "touch {}; while [ ! -e {} ]; do sleep 0.05; done; exit 5",
        begun.display(),
        go.display()
    );
    let mut command = h.cluster.command(&["srun", "-n", "1", "sh", "-c", &text]);
    let stays = Watched::start(&mut command, &h.cluster.work());
    wait::until_true("it has begun", || begun.exists());
    h.cluster.until_stands_by(1, 0);
    h.cluster.cosyd.signal(Signal::SIGSTOP);
    h.cluster.until_leads(1);
    wait::until_true("it has left", || {
        stays
            .err()
            .contains("it does not answer, and another leads")
    });
    fs::write(go, "").unwrap();
    let said = stays.finish().expect(5);
    assert_eq!(said.err.matches("lost the controller").count(), 1, "{said:?}");
    let job = h.cluster.run(&["chist"]);
    assert!(job.out.to_lowercase().contains("failed"), "{job:?}");
    h.cluster.cosyd.signal(Signal::SIGCONT);
    h.cluster.until_begins_anew(0);
}

/// Administrators are told of a database that keeps less than before, users of one that is away.
#[test]
fn a_database_that_is_weaker_or_away_is_told_of() {
    let Some(mut h) = house_on("2s", false) else {
        return;
    };
    let until_told = |what: &str| {
        wait::until_true(what, || h.cluster.run(&["cadm", "events"]).out.contains(what));
    };
    for (set, told) in [
        ("SET fsync = off", "store degraded the database has fsync = off"),
        ("RESET fsync", "store repaired"),
    ] {
        h.server.sql(&format!("ALTER SYSTEM {set}")).unwrap();
        h.server.sql("SELECT pg_reload_conf()").unwrap();
        until_told(told);
    }
    h.server.kill();
    let mut submits = h.cluster.command(&["csub", "--", "true"]);
    let waits = Watched::start(&mut submits, &h.cluster.work());
    let silent = "the database has not answered for ";
    wait::until_true("the log says so", || h.cluster.cosyd.log().contains(silent));
    let mut ping = h.cluster.command(&["cadm", "ping"]);
    let pinged = run(ping.env("COSY_SOCKET", h.cluster.socket())).expect(3);
    assert!(pinged.err.contains(silent), "{pinged:?}");
    wait::until_true("who waits is told", || {
        let told = waits.err();
        told.contains(silent) && told.contains("still waiting")
    });
    h.server.start_again().unwrap();
    let said = waits.finish().expect(0);
    assert!(said.out.starts_with("Submitted job"), "{said:?}");
    assert_eq!(said.err.matches("still waiting").count(), 1, "{said:?}");
    wait::until_true("the log says that it is back", || {
        h.cluster.cosyd.log().contains("the database answers again")
    });
}

/// As after the database was begun anew: the node has obeyed somebody of a later epoch.
#[test]
fn a_node_that_knows_of_a_later_epoch_is_told_of() {
    let Some(mut h) = house("30s") else { return };
    let file = h.cluster.node_dir(0).join("spool/n1/epoch");
    wait::until_true("it has an epoch", || file.exists());
    h.cluster.nodes[0].kill();
    fs::write(&file, "99\n").unwrap();
    h.cluster.start_noded(0);
    let said = [
        "has obeyed a controller of epoch 99, and this one leads in epoch 1",
        "it is an older copy, or was begun anew",
    ];
    wait::until_true("the log says so", || {
        let log = h.cluster.cosyd.log();
        said.iter().all(|said| log.contains(said))
    });
    h.cluster.nodes[0].kill();
    fs::remove_file(&file).unwrap();
    h.cluster.start_noded(0);
    h.cluster.nodes[0].await_ready();
    assert_eq!(h.cluster.until_end(h.submits()).state, JobState::Completed);
    let log = h.cluster.cosyd.log();
    assert!(said.iter().all(|said| log.matches(said).count() == 1), "once");
}

#[test]
fn who_stands_by_answers_whoever_accepts_an_old_answer() {
    // Nobody takes the lead meanwhile.
    let Some(mut h) = house("60s") else { return };
    let held = h.held_job();
    h.cluster.until_stands_by(1, 0);
    let waits = h.cluster.run(&["csub", "-H", "--", "true"]).expect(0).out;
    let waits = waits.trim().rsplit(' ').next().unwrap();
    let said = h.cluster.run(&["cstat", "--stale-ok", "-A"]).expect(0);
    assert_eq!(said.err, "", "the leader is there");
    wait::until_true("the start is in the database", || {
        let started = "SELECT COUNT(*) FROM jobs WHERE start IS NOT NULL";
        h.server.sql(started).unwrap() == "1"
    });
    h.cluster.cosyd.kill();
    let list = [
        "cstat",
        "--stale-ok",
        "-A",
        "--no-header",
        "--format",
        "id,state",
    ];
    let said = h.cluster.run(&list).expect(0);
    let notice = "cstat: no controller leads; one that stands by answers, as of ";
    assert!(said.err.starts_with(notice) && said.err.lines().count() == 1, "{}", said.err);
    let has = |job: &str, state: &str| {
        let words = |line: &str| line.split_whitespace().eq([job, state]);
        assert!(said.out.lines().any(words), "{job} {state}: {}", said.out);
    };
    has(&held.0.to_string(), "running");
    has(waits, "waiting");
    // Slurm's commands, by the variable.
    let mut command = h.cluster.command(&["squeue", "-h", "-o", "%i %T"]);
    let said = run(command.env("COSY_STALE_OK", "1")).expect(0);
    assert!(said.out.contains(&format!("{} RUNNING\n", held.0)), "{}", said.out);
    // What changes something, and what only the leader knows, is not answered.
    for request in [Request::Nodes, Request::Ping, Request::Reload] {
        let mut client = Client::connect(&h.cluster.sockets()[1]).unwrap();
        client.send_stale(request).unwrap();
        let answer = client.receive().unwrap();
        let refused = |refusal: &Refusal| refusal.code == RefusalCode::Standby;
        assert!(matches!(&answer, Reply::Refused(why) if refused(why)), "{answer:?}");
    }
    h.server.sql("UPDATE leader SET released = true").unwrap();
    h.cluster.until_leads(1);
    h.ends_once(held);
}

#[test]
fn what_a_server_keeps_decides_whether_a_controller_starts() {
    let Some(mut h) = house("2s") else { return };
    h.cluster.cosyd.kill();
    let file = h.cluster.dir().join("cosy.toml");
    let text = fs::read_to_string(&file).unwrap();
    let asks = text.replace("lease = \"2s\"", "durability = \"replicated\"");
    fs::write(&file, asks).unwrap();
    h.cluster.start_controller(0);
    assert!(!h.cluster.cosyd.try_ready());
    let said = h.cluster.cosyd.last_words(5);
    assert!(
        said.contains("durability = \"replicated\" asks for fsync = on and full_page_writes = on"),
        "{said}"
    );
    assert!(h.server.sql("SELECT count(*) FROM leader").unwrap() == "1");
}

/// A controller of the earlier release neither takes the lead nor starts there.
#[test]
fn a_later_release_has_changed_the_tables() {
    let Some(mut h) = house("2s") else { return };
    let held = h.held_job();
    h.cluster.until_stands_by(1, 0);
    let sql = |text: &str| h.server.sql(text).unwrap();
    sql("UPDATE schema_version SET version = version + 1");
    let leads = "SELECT epoch, holder FROM leader";
    let before = sql(leads);
    h.cluster.cosyd.kill();
    let why = "a later one has made it, and this one leaves it alone";
    wait::until_true("the other one says why it stands by", || {
        h.cluster.others[0].log().contains(why)
    });
    h.cluster.start_controller(0);
    assert!(!h.cluster.cosyd.try_ready());
    assert!(!h.cluster.cosyd.await_end().success());
    let said = h.cluster.cosyd.last_words(2);
    assert!(said.contains(why), "{said}");
    assert_eq!(sql(leads), before);
    sql("UPDATE schema_version SET version = version - 1");
    h.cluster.until_leads(1);
    h.ends_once(held);
}

/// The new controller waits until the one of the earlier release has ended.
#[test]
fn the_tables_are_changed_when_the_leader_has_ended() {
    let Some(mut h) = house("2s") else { return };
    let held = h.held_job();
    h.cluster.others[0].kill();
    let earlier = "DROP TABLE copying, copied, restored;
        UPDATE schema_version SET version = version - 1";
    h.server.sql(earlier).unwrap();
    h.cluster.start_controller(1);
    wait::until_true("it says what it waits for", || {
        let why = "its tables are of an earlier release, and controller c1 leads with them";
        h.cluster.others[0].log().contains(why)
    });
    // Nothing has happened to the one that leads.
    assert_eq!(h.cluster.until_end(h.submits()).state, JobState::Completed);
    h.cluster.cosyd.signal(Signal::SIGTERM);
    assert!(h.cluster.cosyd.await_end().success());
    h.cluster.until_leads(1);
    assert_eq!(h.server.sql("SELECT count(*) FROM copying").unwrap(), "0");
    h.ends_once(held);
}
