//! What is told of a database, and what is looked at where a node knows of a later epoch.

use super::*;
use crate::store::lead::Candidate;
use crate::store::server_tests as server;
use cosy_lease::{Identity, LeaseTimes};

fn settings(names: &str, fsync: &str) -> Settings {
    Settings {
        standby_names: names.into(),
        fsync: fsync.into(),
        full_page_writes: "on".into(),
        standbys: 0,
    }
}

#[test]
fn a_database_that_does_not_answer_is_told_of() {
    let standing = Standing::default();
    assert!(standing.silence().is_none());
    standing.waits();
    assert!(standing.silence().is_none() && !standing.look(), "not yet");
    standing.state().waits_since = Instant::now().checked_sub(SILENT);
    // The writer says so again and again.
    standing.waits();
    let said = standing.silence().expect("it is silent");
    assert_eq!(said.code, RefusalCode::Unavailable);
    assert!(
        said.message
            .starts_with("the database has not answered for "),
        "{said}"
    );
    assert!(standing.look() && !standing.look(), "once");
    standing.answered();
    assert!(standing.silence().is_none());
    assert!(standing.look() && !standing.look(), "once");
}

#[test]
fn what_is_weaker_than_it_was_is_told_once() {
    let standing = Standing::default();
    let mut best = settings("b", "on");
    let mut judge = |names, fsync| {
        let settings = settings(names, fsync);
        let weak = weakness(&settings, Durability::Local, &best);
        best.take_better(&settings);
        standing.judged(weak)
    };
    assert!(judge("b", "on").is_none());
    let Some(Event::StoreJudged { weak: Some(why) }) = judge("", "on") else {
        panic!("it is told");
    };
    assert!(why.contains("synchronous_standby_names is empty"), "{why}");
    assert!(judge("", "on").is_none(), "once");
    assert!(
        matches!(judge("b", "off"), Some(Event::StoreJudged { weak: Some(why) }) if why.contains("fsync"))
    );
    assert!(matches!(judge("b", "on"), Some(Event::StoreJudged { weak: None })));
}

#[test]
fn an_epoch_that_a_node_knows_is_looked_into_once() {
    let standing = Standing::default();
    standing.knows_later("node n1", 7, 3);
    assert_eq!(standing.wait_for_doubt(Duration::ZERO), Some(7));
    standing.knows_later("node n1", 7, 3);
    assert_eq!(standing.wait_for_doubt(Duration::ZERO), None);
    standing.knows_later("node n2", 7, 3);
    assert_eq!(standing.wait_for_doubt(Duration::ZERO), Some(7));
}

/// A leader in its own name.
fn leader(location: &Location, name: &str) -> (Store, u64) {
    let who = Candidate {
        me: Identity {
            controller: name.into(),
            run: format!("run of {name}"),
        },
        address: format!("{name}:1"),
        times: LeaseTimes::of(Duration::from_secs(600)),
    };
    let mut store = Store::open_at(location).expect("a store");
    let seen = store.look().expect("a row").row.version;
    let lead = store
        .take(&who, seen)
        .expect("an answer")
        .expect("it is free");
    let epoch = lead.leadership.epoch().0;
    store.set_lead(lead);
    (store, epoch)
}

/// A leader whose settings and row are looked at all the time, on a real server.
#[test]
fn a_running_leader_sees_what_the_server_keeps_and_who_leads() {
    if !server::is_there() {
        return;
    }
    let location = server::database();
    let set = |text: &str| {
        server::sql(&format!("ALTER SYSTEM SET {text}"));
        server::sql("SELECT pg_reload_conf()");
        let (name, value) = text.split_once(" = ").expect("a setting");
        // A session that begins now has it, and those that are there are told before.
        while server::sql(&format!("SHOW {name}")) != value.trim_matches('\'') {
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    set("fsync = on");
    set("full_page_writes = on");
    let (mut store, epoch) = leader(&location, "a");
    let (core, mut told) = mpsc::channel(16);
    let (end, mut ends) = mpsc::channel(4);
    let watch = Watch {
        location: store.location().clone(),
        durability: Durability::Local,
        epoch,
        every: Duration::from_millis(20),
        core,
        end,
    };
    let standing = Arc::<Standing>::default();
    standing.start("leads", watch).expect("threads");
    let mut next = || match told.blocking_recv() {
        Some(Input::Event(event)) => match *event {
            Event::StoreJudged { weak } => weak,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    };
    // Until it has been seen as it should be, nothing is weaker than that.
    while standing.state().seen == 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    set("fsync = off");
    assert!(next().expect("it is weaker").contains("fsync = off"));
    set("fsync = on");
    assert_eq!(next(), None);
    // Readers wait for nobody, so a standby that is not there does no harm here.
    set("synchronous_standby_names = 'b'");
    let seen = standing.state().seen;
    while standing.state().seen < seen + 2 {
        std::thread::sleep(Duration::from_millis(5));
    }
    set("synchronous_standby_names = ''");
    assert!(next().expect("it is weaker").contains("no second one"));
    // The row says that this one leads: a database that was begun anew, say.
    standing.knows_later("node n1", epoch + 5, epoch);
    let seen = standing.state().seen;
    while standing.state().seen < seen + 2 {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(ends.try_recv().is_err());
    store.release("").expect("it is laid down");
    let (_other, later) = leader(&location, "b");
    standing.knows_later("node n1", later, epoch);
    assert_eq!(ends.blocking_recv(), Some(End::Deposed));
}
