//! What is booked stays booked: over kills of the controller, over a new configuration,
//! and from hosts where only a node daemon's socket is. The ledger explains every sum.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::api::{Reply, Request};
use cosy_model::job::ResourceRequest;
use cosy_model::reservation::{
    AccountInfo, LedgerEntry, ReservationFilter, ReservationInfo, ReservationSpec,
    ReservationState, Sharing, StartChoice,
};
use cosy_model::{ReservationId, Span, Su, Time};
use cosy_tests::{Cluster, Options, Output, run, system};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;

const ANN: u32 = 54_321;
const BOB: u32 = 54_322;
const GROUP: u32 = 54_300;
const HOUR: i64 = 3_600_000;

const QUEUES: &str = "[[queue]]\nname = \"main\"\ndefault = true\nnodes = \"n[1-2]\"\n";
const ACCOUNTS: &str = "[account.physics]\nmembers = [\"ann\", \"root\", \"@lab\"]\nbudget = 1000\n\
    [account.free]\nmembers = [\"bob\", \"ann\"]\n";

fn options(rules: &str) -> Options {
    Options {
        queues: Some(format!("{QUEUES}[reservations]\n{rules}\n{ACCOUNTS}")),
        ..Options::default()
    }
}

fn now(c: &Cluster) -> Time {
    match c.ask(Request::Ping) {
        Reply::Pong { now, .. } => now,
        other => panic!("{other:?}"),
    }
}

/// One node for an hour, so many hours from now.
fn in_hours(c: &Cluster, hours: i64) -> ReservationSpec {
    ReservationSpec {
        name: String::new(),
        queue: None,
        request: ResourceRequest {
            nodes: Some(1),
            exclusive: true,
            ..ResourceRequest::default()
        },
        length: Span(HOUR),
        earliest: None,
        latest_end: None,
        licenses: Default::default(),
        pick: StartChoice::At(Time(now(c).0 + hours * HOUR)),
        repeat: None,
        account: Some("physics".into()),
        max_price: None,
        sharing: Sharing::default(),
        comment: String::new(),
        flags: Vec::new(),
    }
}

#[track_caller]
fn reserve(c: &Cluster, ask: ReservationSpec, hold: bool) -> ReservationInfo {
    let request = Request::Reserve {
        ask: Box::new(ask),
        hold,
        job: None,
    };
    match c.ask(request) {
        Reply::Reserved { reservations, .. } => reservations.into_iter().next().unwrap(),
        other => panic!("{other:?}"),
    }
}

#[derive(PartialEq, Debug)]
struct Seen {
    reservations: Vec<ReservationInfo>,
    accounts: Vec<AccountInfo>,
    ledger: Vec<LedgerEntry>,
}

fn seen(c: &Cluster) -> Seen {
    let filter = ReservationFilter {
        ended: true,
        ..ReservationFilter::default()
    };
    let Reply::Reservations(reservations) = c.ask(Request::Reservations { filter }) else {
        panic!("no list of reservations");
    };
    let Reply::Accounts(accounts) = c.ask(Request::Accounts { names: Vec::new() }) else {
        panic!("no list of accounts");
    };
    Seen {
        reservations,
        accounts,
        ledger: ledger(c, 2),
    }
}

/// The whole ledger, read in pages.
fn ledger(c: &Cluster, page: u32) -> Vec<LedgerEntry> {
    let mut all: Vec<LedgerEntry> = Vec::new();
    loop {
        let request = Request::Ledger {
            account: None,
            reservation: None,
            after: all.last().map_or(0, |l| l.seq),
            most: page,
        };
        match c.ask(request) {
            Reply::Ledger(lines) if lines.is_empty() => return all,
            Reply::Ledger(lines) => all.extend(lines),
            other => panic!("{other:?}"),
        }
    }
}

/// Lines have numbers without gaps, and the books that they lead to are those of accounts.
fn check_books(seen: &Seen) {
    let numbers: Vec<u64> = seen.ledger.iter().map(|l| l.seq).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    let mut books: BTreeMap<&str, i64> = BTreeMap::new();
    for line in &seen.ledger {
        assert!(line.sum > Su::ZERO, "{line:?}");
        *books.entry(&line.from).or_default() -= line.sum.0;
        *books.entry(&line.to).or_default() += line.sum.0;
    }
    let book = |name: &str| Su(books.get(name).copied().unwrap_or(0));
    for account in &seen.accounts {
        assert_eq!(book(&account.name), account.available, "{account:?}");
        assert_eq!(book(&format!("{}:held", account.name)), account.held);
    }
    let sum = |part: fn(&AccountInfo) -> Su| seen.accounts.iter().map(|a| part(a).0).sum::<i64>();
    assert_eq!(book("grants").0, -sum(|a| a.granted));
    assert_eq!(book("income").0, sum(|a| a.charged));
    let paid: i64 = seen.reservations.iter().map(|r| r.charged.0).sum();
    assert_eq!(book("income").0, paid, "every charge is for a reservation");
}

#[test]
fn over_kills_of_the_controller() {
    let mut c = Cluster::start(2, options("all_of = []\nholds = 9\nper_user.open = 'off'"));
    let booked = reserve(&c, in_hours(&c, 1), false);
    let held = reserve(&c, in_hours(&c, 3), true);
    let gone = reserve(&c, in_hours(&c, 5), false);
    let ids = vec![gone.id];
    let cancelled = c.ask(Request::CancelReservation { ids, series: false });
    assert!(matches!(cancelled, Reply::Done { changed: 1, .. }), "{cancelled:?}");
    assert_eq!(booked.state, ReservationState::Confirmed);
    assert_eq!((booked.base, booked.cores), (Su::whole(4), 4));
    let before = seen(&c);
    check_books(&before);
    assert_eq!(before.reservations.len(), 3);
    for _ in 0..3 {
        c.cosyd.kill();
        c.start_cosyd();
        assert_eq!(seen(&c), before);
    }
    let confirmed = c.ask(Request::Confirm { id: held.id });
    assert!(matches!(confirmed, Reply::Reserved { .. }), "{confirmed:?}");
    let again = c.ask(Request::Confirm { id: held.id });
    assert!(matches!(again, Reply::Refused(_)), "{again:?}");
    c.cosyd.kill();
    c.start_cosyd();
    for name in ["n1", "n2"] {
        c.until_node(name, "idle", |n| n.state == "idle");
    }
    let next = reserve(&c, in_hours(&c, 7), false);
    assert_eq!(next.id, ReservationId(gone.id.0 + 1), "an id is never given out again");
    let after = seen(&c);
    check_books(&after);
    assert_eq!(after.ledger[..before.ledger.len()], before.ledger);
    let physics = after.accounts.iter().find(|a| a.name == "physics").unwrap();
    assert_eq!((physics.charged, physics.held), (Su::whole(12), Su::ZERO));
}

/// A cluster whose n1 is a login host, with users of its own.
fn with_users(rules: &str) -> Cluster {
    let options = Options {
        controller: "[users]\nlookup_command = [\"DIR/lookup\"]\n".into(),
        noded: |at| {
            let name = if at == 1 { "login" } else { "compute" };
            format!("socket = \"DIR/{name}.sock\"")
        },
        entry: |at| if at == 1 { "login = true" } else { "" }.into(),
        ..options(rules)
    };
    let mut c = Cluster::prepare(2, options);
    let lookup = c.dir().join("lookup");
    let text = "#!/bin/sh\ncase $1 in\n0) echo root:0:0:/root:/bin/sh:0=root ;;\n\
        54321) echo ann:54321:54300:/tmp:/bin/sh:54300=users ;;\n\
        54322) echo bob:54322:54300:/tmp:/bin/sh:54300=users ;;\n*) exit 2 ;;\nesac\n";
    fs::write(&lookup, text).unwrap();
    fs::set_permissions(&lookup, fs::Permissions::from_mode(0o755)).unwrap();
    c.open_commands();
    c.start_cosyd();
    (0..2).for_each(|at| c.start_noded(at));
    c.nodes.iter_mut().for_each(|n| n.await_ready());
    c
}

fn as_user(c: &Cluster, uid: u32, words: &[&str]) -> Output {
    run::run(c.command(words).uid(uid).gid(GROUP))
}

/// The same where only a node daemon's socket is.
fn through(c: &Cluster, host: &str, uid: u32, words: &[&str]) -> Output {
    let socket = c.dir().join(format!("{host}.sock"));
    let mut command = c.command(words);
    run::run(command.uid(uid).gid(GROUP).env("COSY_SOCKET", socket))
}

const BOOK: [&str; 10] = [
    "cosy",
    "resv",
    "book",
    "-N",
    "1",
    "-t",
    "10",
    "--parsable",
    "--at",
    "now+1h",
];

#[test]
fn rules_follow_a_new_configuration() {
    if !system::root_or_skip() {
        return;
    }
    let mut c = with_users("all_of = []");
    as_user(&c, ANN, &BOOK).expect(0);
    let rules = |c: &mut Cluster, rules: &str| {
        let queues = options(rules).queues;
        c.reconfigure(|o| o.queues = queues);
        c.run(&["cadm", "reload"])
    };
    rules(&mut c, "policy = \"centre-96h\"").expect(0);
    as_user(&c, ANN, &BOOK).expect_refusal("at least 4-00:00:00 ahead");
    rules(&mut c, "enabled = \"never\"").expect_refusal("cosy.toml:");
    as_user(&c, ANN, &BOOK).expect_refusal("at least 4-00:00:00 ahead");
    rules(&mut c, "all_of = []\n[reservations.user.ann]\nopen = 1").expect(0);
    as_user(&c, ANN, &BOOK).expect_refusal("user ann has 1 open reservations and may have 1");
    as_user(&c, BOB, &BOOK).expect(0);
}

#[test]
fn from_other_hosts() {
    if !system::root_or_skip() {
        return;
    }
    let c = with_users("all_of = []");
    let id = through(&c, "login", ANN, &BOOK).expect(0).out;
    let id = id.trim();
    let compute = through(&c, "compute", ANN, &BOOK);
    assert_ne!(compute.code, 0, "ann has no job there: {compute:?}");
    let cancel = ["cosy", "resv", "cancel", id];
    let bobs = through(&c, "login", BOB, &cancel);
    assert_ne!(bobs.code, 0, "{bobs:?}");
    let ledger = ["cosy", "adm", "account", "ledger", "--no-header"];
    let all = ["--account", "physics"];
    let lines =
        |host: &str, uid: u32, more: &[&str]| through(&c, host, uid, &[&ledger, more].concat());
    // Ann booked for 'free', the first account that she may charge, and is a member of
    // 'physics', which was granted its budget.
    assert_eq!(lines("login", ANN, &all).expect(0).out.lines().count(), 1);
    assert_eq!(lines("login", ANN, &[]).expect(0).out.lines().count(), 3);
    assert_eq!(lines("login", BOB, &[]).expect(0).out.lines().count(), 2);
    lines("login", BOB, &all).expect_refusal("there is no account 'physics'");
    assert_ne!(lines("compute", ANN, &[]).code, 0);
    through(&c, "login", ANN, &cancel).expect(0);
    // What was charged came back.
    assert_eq!(lines("login", BOB, &[]).expect(0).out.lines().count(), 3);
}
