//! Leaders on a real server: who was deposed changes nothing, and a batch is carried out once whatever
//! is lost on the way.

use super::*;
use crate::store::server_tests as server;
use crate::store::sql::postgres::{Place, Settings as PlaceSettings};
use cosy_control::Record;
use cosy_model::history::{Event, EventKind, EventObject};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

fn candidate(name: &str, lease: u64) -> Candidate {
    Candidate {
        me: Identity {
            controller: name.to_owned(),
            run: format!("run of {name}"),
        },
        address: format!("{name}:1"),
        times: LeaseTimes::of(Duration::from_millis(lease)),
    }
}

/// A store in whose name the lead was taken.
fn leader(location: &Location, who: &Candidate) -> Store {
    let mut store = Store::open_at(location).unwrap();
    let seen = store.look().unwrap().row.version;
    let lead = store.take(who, seen).unwrap().unwrap();
    store.set_lead(lead);
    store
}

fn event(seq: u64) -> Record {
    Record::Happened(Event {
        seq,
        at: cosy_model::Time(1),
        kind: EventKind::Started,
        who: "controller".into(),
        object: EventObject::Job(cosy_model::JobId(seq)),
        detail: String::new(),
    })
}

fn events(location: &Location) -> Vec<u64> {
    let store = Store::open_reader(location).unwrap();
    let events = store.events(0, 100, false).unwrap();
    events.iter().map(|event| event.seq).collect()
}

#[test]
fn who_was_deposed_commits_nothing() {
    if !server::is_there() {
        return;
    }
    let location = server::database();
    let (a, b) = (candidate("a", 60_000), candidate("b", 60_000));
    let mut first = leader(&location, &a);
    first.commit(&[event(1)]).unwrap();
    // While it leads nobody else may.
    let mut other = Store::open_at(&location).unwrap();
    let seen = other.look().unwrap().row.version;
    assert!(other.take(&b, seen).unwrap().is_none());
    first.probe().unwrap();
    assert!(other.take(&b, seen).unwrap().is_none(), "the row has changed since");
    let laid_down = "UPDATE leader SET released = true, renewals = renewals + 1";
    other.sql(|c| c.execute_batch(laid_down)).unwrap();
    let mut second = leader(&location, &b);
    second.commit(&[event(2)]).unwrap();
    let refused = first.commit(&[event(3)]).unwrap_err();
    assert!(refused.is_deposed(), "{refused}");
    assert!(first.commit(&[event(3)]).unwrap_err().is_deposed(), "for good");
    // Nor does whatever else writes in its epoch.
    let fenced = first.location().clone();
    let mut beside = Store::open_at(&fenced).unwrap();
    let refused = beside.forget_some_events(cosy_model::Time(5)).unwrap_err();
    assert!(refused.is_deposed(), "{refused}");
    second.commit(&[event(4)]).unwrap();
    assert_eq!(events(&location), [1, 2, 4]);
    assert_eq!(second.look().unwrap().row.version.epoch, Epoch(2));
}

#[test]
fn a_lead_ends_with_its_lease() {
    if !server::is_there() {
        return;
    }
    let location = server::database();
    let (a, b) = (candidate("a", 300), candidate("b", 300));
    let mut first = leader(&location, &a);
    assert!(
        first
            .lead()
            .is_some_and(|l| l.leadership.may_act(clock::since_boot()))
    );
    std::thread::sleep(Duration::from_millis(400));
    assert!(
        first
            .lead()
            .is_some_and(|l| !l.leadership.may_act(clock::since_boot()))
    );
    // Nobody has taken it: it goes on.
    first.renew().unwrap();
    assert!(
        first
            .lead()
            .is_some_and(|l| l.leadership.may_act(clock::since_boot()))
    );
    std::thread::sleep(Duration::from_millis(400));
    let mut second = leader(&location, &b);
    assert!(first.renew().unwrap_err().is_deposed());
    second.release("a").unwrap();
    let look = second.look().unwrap();
    assert_eq!(
        look.row.lead,
        Held::Free {
            next: Some("a".into())
        }
    );
}

/// As the release before has made it.
const EARLIER: &str = "DROP TABLE copying, copied, restored;
    UPDATE schema_version SET version = version - 1";

#[test]
fn tables_are_changed_while_nobody_leads() {
    if !server::is_there() {
        return;
    }
    let location = server::database();
    let mut first = leader(&location, &candidate("a", 60_000));
    let do_sql = |text: &str| {
        let other = Store::connect(&location, true).unwrap();
        other.sql(|c| c.execute_batch(text)).unwrap();
    };
    do_sql(EARLIER);
    let refused = Store::open_at(&location).map(drop).unwrap_err().to_string();
    assert!(refused.contains("controller a leads with them"), "{refused}");
    first.commit(&[event(1)]).unwrap();
    // Its lease is over, and it does not know that yet.
    do_sql("UPDATE leader SET until = 'epoch'");
    let second = Store::open_at(&location).unwrap();
    second.is_no_later_one().unwrap();
    assert!(first.commit(&[event(2)]).unwrap_err().is_deposed());
    let mut second = leader(&location, &candidate("b", 60_000));
    second.commit(&[event(3)]).unwrap();
    assert_eq!(events(&location), [1, 3]);
    // One that was laid down in order is nobody's.
    second.release("").unwrap();
    do_sql(EARLIER);
    leader(&location, &candidate("b", 60_000));
}

#[test]
fn a_later_release_has_changed_the_tables_meanwhile() {
    if !server::is_there() {
        return;
    }
    let location = server::database();
    let store = Store::open_at(&location).unwrap();
    store.is_no_later_one().unwrap();
    let later = "UPDATE schema_version SET version = version + 1";
    store.sql(|c| c.execute_batch(later)).unwrap();
    let refused = store.is_no_later_one().unwrap_err();
    assert!(matches!(refused, StoreError::TooNew { .. }), "{refused}");
    assert!(Store::open_at(&location).is_err());
}

/// A way to the server that swallows its answer when it is told to, and breaks.
struct Way {
    port: u16,
    swallows: Arc<AtomicBool>,
    broken: Arc<AtomicUsize>,
}

impl Way {
    fn to(socket: PathBuf) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (swallows, broken) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let (own, count) = (swallows.clone(), broken.clone());
        std::thread::spawn(move || {
            for here in listener.incoming() {
                let (here, there) = (here.unwrap(), UnixStream::connect(&socket).unwrap());
                let (back, forth) = (here.try_clone().unwrap(), there.try_clone().unwrap());
                let (own, count) = (own.clone(), count.clone());
                std::thread::spawn(move || forward(here, forth));
                std::thread::spawn(move || answers(there, back, &own, &count));
            }
        });
        Self {
            port,
            swallows,
            broken,
        }
    }
}

fn forward(mut from: TcpStream, mut to: UnixStream) {
    let mut bytes = [0; 4096];
    while let Ok(n @ 1..) = from.read(&mut bytes) {
        if to.write_all(&bytes[..n]).is_err() {
            return;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
}

fn answers(mut from: UnixStream, mut to: TcpStream, swallows: &AtomicBool, broken: &AtomicUsize) {
    let mut bytes = [0; 4096];
    while let Ok(n @ 1..) = from.read(&mut bytes) {
        if swallows.swap(false, Ordering::SeqCst) {
            broken.fetch_add(1, Ordering::SeqCst);
            break;
        }
        if to.write_all(&bytes[..n]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
}

#[test]
fn a_batch_whose_answer_was_lost_is_there_once() {
    if !server::is_there() {
        return;
    }
    let location = server::database();
    let way = Way::to(server::socket());
    let through = PlaceSettings {
        connection: format!(
            "host=127.0.0.1 port={} user=cosy dbname={}",
            way.port,
            server::latest_database()
        ),
        ..PlaceSettings::default()
    };
    let through = Location::Postgres {
        place: Place::of(&through).unwrap(),
        fence: None,
    };
    let mut leads = leader(&through, &candidate("a", 60_000));
    leads.commit(&[event(1)]).unwrap();
    for seq in 2..6 {
        way.swallows.store(true, Ordering::SeqCst);
        // The server carries it out, and nobody hears of it.
        leads.commit(&[event(seq)]).unwrap();
        assert_eq!(way.broken.load(Ordering::SeqCst), usize::try_from(seq).unwrap() - 1);
        assert_eq!(events(&location).last(), Some(&seq));
    }
    // The connection ends before anything is sent: it is sent again.
    let other = Store::open_at(&location).unwrap();
    let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()";
    other
        .sql(|c| c.query_row(end, params![], |r| r.get::<i64>(0)))
        .unwrap();
    leads.commit(&[event(6)]).unwrap();
    assert_eq!(events(&location), [1, 2, 3, 4, 5, 6]);
}
