//! Money: a ledger that balances whatever happens between two bookings, answers that are
//! repeated and not done twice, budgets that hold.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::api::{Reply, Request};
use cosy_model::job::ResourceRequest;
use cosy_model::reservation::{
    AccountInfo, LedgerEntry, ReservationFilter, ReservationInfo, ReservationSpec,
    ReservationState, Sharing, StartChoice,
};
use cosy_model::{RefusalCode, ReservationId, Span, Su, Time};
use cosy_proto::client::RequestKey;
use cosy_tests::client::new_key;
use cosy_tests::people::{self, ANN, BOB};
use cosy_tests::{Chance, Client, Cluster, Options, resv, system, wait};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const KILLS: usize = 25;
const CLIENTS: usize = 3;
const HOUR: i64 = 3_600_000;
const RULES: &str = "[reservations]\nall_of = []\nholds = \"off\"\nrehold = \"off\"\n\
    hold = \"1s\"\n[reservations.per_user]\nopen = \"off\"\nshare = \"off\"\n";

fn options() -> Options {
    let names = ["a0", "a1", "a2"];
    let accounts: String = names
        .iter()
        .map(|name| format!("[account.{name}]\nbudget = 400\n"))
        .collect();
    Options {
        controller: format!("{RULES}{accounts}"),
        ..Options::default()
    }
}

/// One core for an hour, so many hours ahead.
fn core(account: &str, hours: i64) -> Request {
    let ask = ReservationSpec {
        name: String::new(),
        queue: None,
        request: ResourceRequest::default(),
        licenses: Default::default(),
        length: Span(HOUR),
        earliest: None,
        latest_end: None,
        pick: StartChoice::At(Time(resv::now().0 + hours * HOUR)),
        repeat: None,
        account: Some(account.into()),
        max_price: None,
        sharing: Sharing::default(),
        comment: String::new(),
        flags: Vec::new(),
    };
    Request::Reserve {
        ask: Box::new(ask),
        hold: false,
        job: None,
    }
}

fn held(request: Request) -> Request {
    match request {
        Request::Reserve { ask, job, .. } => Request::Reserve {
            ask,
            hold: true,
            job,
        },
        other => other,
    }
}

/// Asks with the same key until there is an answer.
fn insist(socket: &Path, request: &Request) -> Reply {
    let key = new_key();
    wait::until("the controller answers", || {
        let mut client = Client::connect(socket).ok()?;
        match client.ask_with(request.clone(), Some(key)).ok()? {
            Reply::Refused(r) if r.code == RefusalCode::Unavailable => None,
            reply => Some(reply),
        }
    })
}

/// What one client was told.
#[derive(Default)]
struct Told {
    made: Vec<ReservationId>,
    confirmed: BTreeSet<ReservationId>,
    cancelled: BTreeSet<ReservationId>,
}

/// Books, holds, confirms and cancels until told to stop.
fn client(socket: &Path, account: &str, mut chance: Chance, stop: &AtomicBool) -> Told {
    let mut told = Told::default();
    while !stop.load(Ordering::Relaxed) {
        let hours = 1 + chance.below(200) as i64;
        let booking = core(account, hours);
        let hold = chance.one_in(2);
        let request = if hold { held(booking) } else { booking };
        let id = match insist(socket, &request) {
            Reply::Reserved { reservations, .. } => reservations[0].id,
            Reply::Refused(r) if matches!(r.code, RefusalCode::NotFree | RefusalCode::Price) => {
                continue;
            }
            other => panic!("{other:?}"),
        };
        told.made.push(id);
        if hold && !chance.one_in(3) {
            // A hold of a second may have lapsed meanwhile.
            if let Reply::Reserved { .. } = insist(socket, &Request::Confirm { id }) {
                told.confirmed.insert(id);
            }
        } else if !hold {
            told.confirmed.insert(id);
        }
        let at = chance.below(told.made.len() as u64) as usize;
        if chance.one_in(3) {
            let ids = vec![told.made[at]];
            let cancel = Request::CancelReservation { ids, series: false };
            if let Reply::Done { changed: 1, .. } = insist(socket, &cancel) {
                told.cancelled.insert(told.made[at]);
            }
        }
    }
    told
}

#[test]
fn kill_9_in_the_middle_of_bookings() {
    let mut chance = Chance::from_environment();
    let mut c = Cluster::start(2, options());
    let stop = AtomicBool::new(false);
    let socket = c.socket();
    let told: Vec<Told> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|n| {
                let (chance, socket, stop) = (chance.split(), &socket, &stop);
                scope.spawn(move || client(socket, &format!("a{n}"), chance, stop))
            })
            .collect();
        let killed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for _ in 0..KILLS {
                // A random moment, not a wait for anything.
                std::thread::sleep(Duration::from_millis(chance.below(400)));
                c.cosyd.kill();
                c.start_cosyd();
            }
        }));
        stop.store(true, Ordering::Relaxed);
        let told = clients.into_iter().map(|t| t.join().unwrap()).collect();
        killed.unwrap();
        told
    });
    let seen = wait::until("no hold is open", || {
        let seen = Seen::of(&c);
        let open = |r: &ReservationInfo| r.state == ReservationState::Held;
        (!seen.reservations.values().any(open)).then_some(seen)
    });
    seen.check();
    check_told(&seen, &told);
    // What the command tells is the same ledger.
    let lines = c
        .run(&["cadm", "account", "ledger", "--no-header"])
        .expect(0);
    assert_eq!(lines.out.lines().count(), seen.ledger.len());
}

/// Every answer was true, and there is nothing that nobody was told of.
fn check_told(seen: &Seen, told: &[Told]) {
    let made: Vec<ReservationId> = told.iter().flat_map(|t| t.made.clone()).collect();
    let ids: BTreeSet<ReservationId> = made.iter().copied().collect();
    eprintln!("{} bookings over {KILLS} kills", made.len());
    assert!(made.len() > KILLS, "too few to show anything");
    assert_eq!(ids.len(), made.len(), "an id was given out twice");
    let there: BTreeSet<ReservationId> = seen.reservations.keys().copied().collect();
    assert_eq!(there, ids, "exactly what was answered is there");
    for told in told {
        for id in &told.made {
            let r = &seen.reservations[id];
            let want = match (told.confirmed.contains(id), told.cancelled.contains(id)) {
                (_, true) => ReservationState::Cancelled,
                (true, false) => ReservationState::Confirmed,
                (false, false) => ReservationState::Expired,
            };
            assert_eq!(r.state, want, "{r:?}");
        }
    }
}

struct Seen {
    reservations: BTreeMap<ReservationId, ReservationInfo>,
    accounts: Vec<AccountInfo>,
    ledger: Vec<LedgerEntry>,
}

impl Seen {
    fn of(c: &Cluster) -> Self {
        let filter = ReservationFilter {
            ended: true,
            ..ReservationFilter::default()
        };
        let Reply::Reservations(all) = c.ask(Request::Reservations { filter }) else {
            panic!("no list of reservations");
        };
        let Reply::Accounts(accounts) = c.ask(Request::Accounts { names: Vec::new() }) else {
            panic!("no list of accounts");
        };
        Self {
            reservations: all.into_iter().map(|r| (r.id, r)).collect(),
            accounts,
            ledger: c.ledger(),
        }
    }

    /// All books agree with what the accounts say, and each reservation's lines with it.
    fn check(&self) {
        let books = resv::books(&self.ledger);
        let book = |name: &str| books.get(name).copied().unwrap_or_default();
        assert_eq!(books.values().map(|sum| sum.0).sum::<i64>(), 0);
        for account in &self.accounts {
            assert_eq!(book(&account.name), account.available, "{account:?}");
            assert_eq!(book(&format!("{}:held", account.name)), account.held);
            assert!(account.available >= Su::ZERO, "{account:?}");
        }
        for r in self.reservations.values() {
            let own = self.ledger.iter().filter(|l| l.reservation == Some(r.id));
            let own: Vec<LedgerEntry> = own.cloned().collect();
            let books = resv::books(&own);
            let book = |name: &str| books.get(name).copied().unwrap_or_default();
            let account = r.account.as_deref().unwrap();
            assert_eq!(book("income"), r.charged, "{r:?}\n{own:#?}");
            assert_eq!(book(&format!("{account}:held")), Su::ZERO, "{r:?}\n{own:#?}");
            assert_eq!(book(account), Su::ZERO.minus(r.charged), "{r:?}\n{own:#?}");
            let whole = r.base.plus(r.extra);
            let want = match r.state {
                ReservationState::Confirmed => whole,
                ReservationState::Cancelled | ReservationState::Expired => Su::ZERO,
                ReservationState::Held
                | ReservationState::Active
                | ReservationState::Ended
                | ReservationState::Unused
                | ReservationState::Failed => panic!("nothing has begun: {r:?}"),
            };
            assert_eq!(r.charged, want, "{r:?}");
        }
    }
}

#[test]
fn repeated_after_a_restart() {
    let mut c = Cluster::start(1, options());
    let key = new_key();
    let ask_again = |c: &Cluster, request: &Request, key: RequestKey| {
        c.client().ask_with(request.clone(), Some(key)).unwrap()
    };
    let only = |reply: Reply| match reply {
        Reply::Reserved { reservations, .. } => reservations.into_iter().next().unwrap(),
        other => panic!("{other:?}"),
    };
    let request = core("a0", 5);
    let made = only(ask_again(&c, &request, key));
    let longer = Request::ExtendReservation {
        id: made.id,
        by: Span(HOUR),
        max_price: None,
    };
    let longer_key = new_key();
    let extended = only(ask_again(&c, &longer, longer_key));
    let ids = vec![made.id];
    let cancel = Request::CancelReservation { ids, series: false };
    let cancel_key = new_key();
    let done = |reply: Reply| matches!(reply, Reply::Done { changed: 1, .. });
    for _ in 0..2 {
        c.cosyd.kill();
        c.start_cosyd();
        let before = c.ledger();
        assert_eq!(only(ask_again(&c, &request, key)).id, made.id);
        let again = only(ask_again(&c, &longer, longer_key));
        assert_eq!((again.id, again.end), (extended.id, extended.end));
        assert_eq!(c.ledger(), before, "nothing was charged twice");
    }
    assert!(done(ask_again(&c, &cancel, cancel_key)));
    let before = c.ledger();
    c.cosyd.kill();
    c.start_cosyd();
    assert!(done(ask_again(&c, &cancel, cancel_key)));
    assert_eq!(c.ledger(), before, "nothing was given back twice");
    assert_eq!(Seen::of(&c).reservations.len(), 1);
    // A new key is a new request; nodes that are not back yet are not counted on.
    c.until_node("n1", "back", |n| n.state == "idle");
    let next = only(ask_again(&c, &request, new_key()));
    assert_ne!(next.id, made.id);
}

#[test]
fn budgets_hold() {
    if !system::root_or_skip() {
        return;
    }
    let options = Options {
        controller: RULES.into(),
        ..Options::default()
    };
    let c = people::start(1, options);
    let account = |line: &str| {
        let words: Vec<&str> = ["cadm", "account"]
            .into_iter()
            .chain(line.split(' '))
            .collect();
        c.run(&words)
    };
    account("create lab --members ann --budget 10").expect(0);
    let words = |how: &'static str, at: &'static str, length: &'static str| {
        [
            "cresv",
            how,
            "-N",
            "1",
            "--exclusive",
            "--at",
            at,
            "-t",
            length,
            "--parsable",
        ]
    };
    // Four cores for two hours are 8 SU; what is held cannot be spent again.
    let first = c.run_as(ANN, &words("hold", "now+1h", "2h")).id();
    c.run_as(ANN, &words("book", "now+4h", "1h"))
        .expect_refusal("the account has 2 SU left");
    account("remove lab").expect_refusal("live reservations are charged");
    account("withdraw lab 3").expect_refusal("2 SU left");
    // The hold lapses and gives its sum back.
    c.until_resv_state(first, ReservationState::Expired);
    let second = c.run_as(ANN, &words("book", "now+4h", "1h")).id();
    assert_eq!(c.reservation(second).charged, Su::whole(4));
    c.run_as(BOB, &words("book", "now+6h", "1h"))
        .expect_refusal("bob may charge none");
    let other = [&words("book", "now+6h", "1h")[..], &["-A", "lab"]].concat();
    c.run_as(BOB, &other)
        .expect_refusal("bob is no member of account lab");
    c.run_as(BOB, &["cadm", "account", "grant", "lab", "1000"])
        .expect_refusal("dministrator");
    account("grant lab 99999999999999").expect(2);
    let id = second.to_string();
    c.run_as(ANN, &["cresv", "extend", &id, "--by", "2h"])
        .expect_refusal("6 SU left");
    c.run_as(ANN, &["cresv", "cancel", &id]).expect(0);
    let seen = Seen::of(&c);
    seen.check();
    assert_eq!(seen.accounts[0].available, Su::whole(10));
    let cost = c
        .run_as(ANN, &["cresv", "list", "--ended", "--cost", "--no-header"])
        .expect(0);
    assert_eq!(cost.out.lines().count(), 3, "two and their sum: {cost:?}");
}
