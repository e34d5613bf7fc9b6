//! One who books, gives back and uses reservations, and what the ledger must say of it.

use crate::clients::{Clients, Known};
use cosy_client::Caller;
use cosy_model::api::{Reply, Request, Submission};
use cosy_model::job::ResourceRequest;
use cosy_model::reservation::{
    AccountInfo, ReservationFilter, ReservationInfo, ReservationSpec, ReservationState, StartChoice,
};
use cosy_model::{RefusalCode, ReservationId, Span, Su, Time};
use cosy_tests::{Chance, Cluster, marked, resv, wait};
use std::collections::{BTreeMap, BTreeSet};

const ACCOUNT: &str = "lab";
const HOUR: i64 = 3_600_000;

/// What was acknowledged.
#[derive(Default)]
pub struct Booked {
    /// All reservations, and whether they were held only.
    pub made: BTreeMap<ReservationId, bool>,
    pub confirmed: BTreeSet<ReservationId>,
    pub cancelled: BTreeSet<ReservationId>,
    /// Jobs that start with reservations.
    pub jobs: BTreeMap<ReservationId, Known>,
}

fn core(start: Time, length: Span) -> ReservationSpec {
    ReservationSpec {
        name: String::new(),
        queue: Some("booked".into()),
        request: ResourceRequest::default(),
        licenses: Default::default(),
        length,
        earliest: None,
        latest_end: None,
        pick: StartChoice::At(start),
        repeat: None,
        account: Some(ACCOUNT.into()),
        max_price: None,
        sharing: Default::default(),
        comment: String::new(),
        flags: Vec::new(),
    }
}

impl Clients {
    /// Books until told to stop.
    pub fn book(&self, mut chance: Chance) -> Booked {
        let mut caller = self.caller();
        let mut all = Booked::default();
        while self.go_on() {
            let soon = Time(resv::now().0 + 3000 + chance.below(3000) as i64);
            let later = Time(resv::now().0 + HOUR * (1 + chance.below(300) as i64));
            let exit = chance.below(4) as i64;
            let (ask, hold, job) = match chance.below(4) {
                0 => (core(soon, Span::from_secs(40)), false, Some(self.short(exit))),
                1 => (core(soon, Span::from_secs(4)), false, None),
                2 => (core(later, Span(HOUR)), false, None),
                _ => (core(later, Span(HOUR)), true, None),
            };
            if let Some(made) = self.reserve(&mut caller, ask, hold, job) {
                all.made.insert(made.id, hold);
                if let Some(id) = made.job {
                    let job = Known {
                        id,
                        exit,
                        cancelled: false,
                        long: false,
                    };
                    all.jobs.insert(made.id, job);
                }
                self.confirm_or_not(&mut caller, &mut chance, &mut all, made.id);
                self.give_back(&mut caller, &mut chance, &mut all);
            }
            std::thread::sleep(std::time::Duration::from_millis(100 + chance.below(300)));
        }
        all
    }

    /// A job for a reservation.
    fn short(&self, exit: i64) -> Submission {
        let mut job = marked(&self.work, &self.marks, "0.5", exit);
        job.spec.time_limit = Some(Span::from_secs(15));
        job
    }

    fn reserve(
        &self,
        caller: &mut Caller,
        ask: ReservationSpec,
        hold: bool,
        job: Option<Submission>,
    ) -> Option<ReservationInfo> {
        let request = Request::Reserve {
            ask: Box::new(ask),
            hold,
            job: job.map(Box::new),
        };
        match self.insist(caller, request) {
            Reply::Reserved { reservations, .. } => reservations.into_iter().next(),
            // It is past by the time that somebody leads, or all is booked then.
            Reply::Refused(r) if matches!(r.code, RefusalCode::NotFree | RefusalCode::Invalid) => {
                None
            }
            other => panic!("not booked: {other:?}"),
        }
    }

    fn confirm_or_not(
        &self,
        caller: &mut Caller,
        chance: &mut Chance,
        all: &mut Booked,
        id: ReservationId,
    ) {
        if !all.made[&id] || chance.one_in(3) {
            return;
        }
        // It may have expired meanwhile.
        if let Reply::Reserved { .. } = self.insist(caller, Request::Confirm { id }) {
            all.confirmed.insert(id);
        }
    }

    fn give_back(&self, caller: &mut Caller, chance: &mut Chance, all: &mut Booked) {
        if !chance.one_in(3) {
            return;
        }
        // Those of late, since the others are over.
        let back = chance.below(all.made.len().min(8) as u64) as usize;
        let id = *all.made.keys().rev().nth(back).unwrap();
        let request = Request::CancelReservation {
            ids: vec![id],
            series: false,
        };
        if let Reply::Done { changed: 1, .. } = self.insist(caller, request) {
            all.cancelled.insert(id);
            if let Some(job) = all.jobs.get_mut(&id) {
                job.cancelled = true;
            }
        }
    }
}

/// All books agree with what the accounts say, and no line of the ledger is missing. Gives the number of
/// lines.
pub fn check_books(cluster: &Cluster) -> usize {
    // What is booked meanwhile is to be in both.
    let (ledger, accounts) = wait::until("a moment at which nothing is booked", || {
        let before = cluster.ledger();
        let accounts = accounts(cluster);
        (cluster.ledger().len() == before.len()).then_some((before, accounts))
    });
    let numbers: Vec<u64> = ledger.iter().map(|line| line.seq).collect();
    let whole: Vec<u64> = (1..=numbers.len() as u64).collect();
    assert_eq!(numbers, whole, "lines of the ledger are missing");
    let books = resv::books(&ledger);
    let book = |name: &str| books.get(name).copied().unwrap_or_default();
    assert_eq!(books.values().map(|sum| sum.0).sum::<i64>(), 0);
    for account in &accounts {
        assert_eq!(book(&account.name), account.available, "{account:?}");
        assert_eq!(book(&format!("{}:held", account.name)), account.held, "{account:?}");
        let parts = account.available.plus(account.held).plus(account.charged);
        assert_eq!(parts, account.granted, "{account:?}");
    }
    let sum = |part: fn(&AccountInfo) -> Su| accounts.iter().map(|a| part(a).0).sum::<i64>();
    assert_eq!(book("grants").0, -sum(|a| a.granted));
    assert_eq!(book("income").0, sum(|a| a.charged));
    ledger.len()
}

fn accounts(cluster: &Cluster) -> Vec<AccountInfo> {
    match cluster.ask(Request::Accounts { names: Vec::new() }) {
        Reply::Accounts(accounts) => accounts,
        other => panic!("no list of accounts: {other:?}"),
    }
}

/// Each reservation that was acknowledged is there as its booker left it, and the ledger has what it
/// has cost.
pub fn check(cluster: &Cluster, booked: &Booked) {
    let far = Time(resv::now().0 + HOUR / 2);
    let there = wait::until_within(2 * wait::PATIENCE, "what begins soon is over", || {
        let all = reservations(cluster);
        let is_at_rest = |r: &ReservationInfo| match r.state {
            ReservationState::Held | ReservationState::Active => false,
            ReservationState::Confirmed => r.start > far,
            ReservationState::Ended
            | ReservationState::Cancelled
            | ReservationState::Expired
            | ReservationState::Unused
            | ReservationState::Failed => true,
        };
        all.values().all(is_at_rest).then_some(all)
    });
    let ids: Vec<&ReservationId> = booked.made.keys().collect();
    assert_eq!(there.keys().collect::<Vec<_>>(), ids, "those that were acknowledged, and no other");
    let mut states: BTreeMap<&str, usize> = BTreeMap::new();
    let mut own: BTreeMap<ReservationId, Vec<_>> = BTreeMap::new();
    for line in cluster.ledger() {
        if let Some(id) = line.reservation {
            own.entry(id).or_default().push(line);
        }
    }
    for r in there.values() {
        *states.entry(r.state.word()).or_default() += 1;
        let lines = own.remove(&r.id).unwrap_or_default();
        let books = resv::books(&lines);
        let book = |name: &str| books.get(name).copied().unwrap_or_default();
        assert_eq!(book("income"), r.charged, "{r:?}\n{lines:#?}");
        assert_eq!(book(&format!("{ACCOUNT}:held")), Su::ZERO, "{r:?}\n{lines:#?}");
        assert_eq!(book(ACCOUNT), Su::ZERO.minus(r.charged), "{r:?}\n{lines:#?}");
        assert!(fits(r, booked), "{r:?}");
    }
    eprintln!("{} reservations were acknowledged: {states:?}", there.len());
}

fn reservations(cluster: &Cluster) -> BTreeMap<ReservationId, ReservationInfo> {
    let filter = ReservationFilter {
        ended: true,
        ..ReservationFilter::default()
    };
    match cluster.ask(Request::Reservations { filter }) {
        Reply::Reservations(all) => all.into_iter().map(|r| (r.id, r)).collect(),
        other => panic!("no list of reservations: {other:?}"),
    }
}

fn fits(r: &ReservationInfo, booked: &Booked) -> bool {
    let held_only = booked.made[&r.id] && !booked.confirmed.contains(&r.id);
    let cancelled = booked.cancelled.contains(&r.id);
    let whole = r.base.plus(r.extra);
    match r.state {
        ReservationState::Cancelled => cancelled,
        ReservationState::Expired => held_only && r.charged == Su::ZERO,
        ReservationState::Confirmed => !held_only && !cancelled && r.charged == whole,
        ReservationState::Ended | ReservationState::Unused => !held_only && !cancelled,
        ReservationState::Held | ReservationState::Active | ReservationState::Failed => false,
    }
}
