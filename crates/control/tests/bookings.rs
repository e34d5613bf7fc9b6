//! Random sequences of bookings, confirmations, expiries, cancellations, extensions, grants
//! and crashes: nothing is half-booked, nothing overbooked, and every sum is explained by
//! the ledger. The world around checks the controller's invariants after each event.

mod world;

use cosy_control::*;
use cosy_model::api::{Reply, Request, Submission};
use cosy_model::reservation::*;
use cosy_model::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use world::*;

const NODES: u32 = 3;
const CORES: u32 = 4;

/// A second of a core costs one SU; holds, no-shows and the window are seconds long.
fn cluster() -> ClusterConfig {
    let mut config = config(NODES, CORES);
    let account = |members: &[&str], budget| AccountConfig {
        members: members.iter().map(|m| (*m).to_owned()).collect(),
        budget,
    };
    let lab = account(&["u1000"], Some(Su::whole(500)));
    config.accounts.insert("lab".to_owned(), lab);
    let open = account(&[], None);
    config.accounts.insert("open".to_owned(), open);
    let policy = &mut config.reservations;
    policy.tariff.core_hour = Su::whole(3600);
    policy.tariff.delay_core_hour = Su::whole(3600);
    policy.notice.least_requests = 5;
    policy.notice.window = Span::from_minutes(48);
    policy.notice.curve = curve();
    policy.per_user.open = Some(6);
    policy.per_user.share_ppm = Some(700_000);
    policy.per_account = Some(Quotas {
        open: Some(7),
        share_ppm: None,
        ..Quotas::default()
    });
    policy.delay_cap = Some(Span::from_secs(60));
    policy.hold = Span::from_secs(5);
    policy.rehold = Some(Span::from_secs(10));
    policy.no_show = Some(Span::from_secs(8));
    policy.gap = Span::from_secs(5);
    policy.candidates = 20;
    config
}

/// n from 0 to 2, so that many pass and some do not.
fn curve() -> cosy_sched::notice::Curve {
    use cosy_sched::notice::{Curve, Share, WaitMultiple};
    let points = vec![
        (Share(0), WaitMultiple(0)),
        (Share::percent(60), WaitMultiple(2000)),
    ];
    Curve::new(points, Share::percent(70)).expect("points that rise")
}

#[derive(Clone, Debug)]
enum Step {
    Submit {
        nodes: u32,
        secs: i64,
    },
    Reserve {
        who: Who,
        ask: Wanted,
        hold: bool,
        script: bool,
    },
    Confirm(Who, usize),
    Cancel(Who, usize, bool),
    Extend(Who, usize, i64),
    Money(AccountAction),
    Pass(i64),
    Crash,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Who {
    Ann,
    Bob,
    Root,
}

impl Who {
    fn user(self) -> User {
        match self {
            Self::Ann => user(1000, "u1000"),
            Self::Bob => user(2000, "u2000"),
            Self::Root => user(0, "root"),
        }
    }
}

#[derive(Clone, Debug)]
struct Wanted {
    nodes: u32,
    /// From now.
    start_s: i64,
    length_s: i64,
    window_s: i64,
    pick: u8,
    repeats: i64,
    fits: bool,
    open: bool,
}

impl Wanted {
    fn ask(&self, now: Time) -> ReservationSpec {
        let start = now + Span::from_secs(self.start_s);
        let every = self.length_s.saturating_add(3);
        let starts = (0..self.repeats).map(|k| start + Span::from_secs(every.saturating_mul(k)));
        let kind = if self.repeats > 1 { 0 } else { self.pick };
        let window = (kind > 0).then_some(start);
        ReservationSpec {
            name: String::new(),
            queue: None,
            request: job::ResourceRequest {
                nodes: Some(self.nodes),
                exclusive: true,
                ..job::ResourceRequest::default()
            },
            length: Span::from_secs(self.length_s),
            earliest: window,
            latest_end: window.map(|w| w + Span::from_secs(self.window_s)),
            licenses: Default::default(),
            pick: match kind {
                0 => StartChoice::At(start),
                1 => StartChoice::Soonest,
                2 => StartChoice::Cheapest,
                3 => StartChoice::FinishBy,
                _ => StartChoice::Balance {
                    alpha_permille: 500,
                },
            },
            repeat: (self.repeats > 1).then(|| Repeat {
                rule: String::new(),
                starts: starts.collect(),
                as_many_as_fit: self.fits,
            }),
            account: self.open.then(|| "open".to_owned()),
            max_price: None,
            sharing: Sharing::default(),
            comment: String::new(),
            flags: Vec::new(),
        }
    }
}

fn who() -> impl Strategy<Value = Who> {
    prop_oneof![5 => Just(Who::Ann), 3 => Just(Who::Bob), 1 => Just(Who::Root)]
}

/// Mostly what could be, sometimes what no clock or calendar has.
fn secs(most: i64) -> impl Strategy<Value = i64> {
    let absurd = prop_oneof![
        Just(0),
        Just(-5),
        Just(i64::MAX),
        Just(i64::MIN),
        any::<i64>()
    ];
    prop_oneof![19 => 1..most, 1 => absurd]
}

fn wanted() -> impl Strategy<Value = Wanted> {
    let times = (secs(60), secs(25), secs(80));
    let how =
        (prop_oneof![3 => Just(0u8), 2 => 1u8..5], prop_oneof![4 => Just(1i64), 1 => 2i64..5]);
    (1..=NODES, times, how, any::<(bool, bool)>()).prop_map(|(nodes, times, how, flags)| Wanted {
        nodes,
        start_s: times.0,
        length_s: times.1,
        window_s: times.2,
        pick: how.0,
        repeats: how.1,
        fits: flags.0,
        open: flags.1,
    })
}

fn money() -> impl Strategy<Value = AccountAction> {
    let sum = || prop_oneof![4 => (0i64..200).prop_map(Su::whole), 1 => any::<i64>().prop_map(Su)];
    prop_oneof![
        sum().prop_map(AccountAction::Grant),
        sum().prop_map(AccountAction::Withdraw),
        Just(AccountAction::Remove),
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    let reserve = (who(), wanted(), any::<(bool, bool)>());
    prop_oneof![
        3 => (1..=NODES, 1i64..30).prop_map(|(nodes, secs)| Step::Submit { nodes, secs }),
        8 => reserve.prop_map(|(who, ask, (hold, script))| Step::Reserve { who, ask, hold, script }),
        4 => (who(), 0usize..6).prop_map(|(who, at)| Step::Confirm(who, at)),
        3 => (who(), 0usize..6, any::<bool>()).prop_map(|(w, at, all)| Step::Cancel(w, at, all)),
        2 => (who(), 0usize..6, secs(20)).prop_map(|(who, at, by)| Step::Extend(who, at, by)),
        1 => money().prop_map(Step::Money),
        5 => (1i64..12).prop_map(Step::Pass),
        1 => Just(Step::Crash),
    ]
}

struct Case {
    world: World,
    /// Ids that were told, newest first.
    told: Vec<ReservationId>,
}

impl Case {
    fn take(&mut self, step: &Step) {
        match step {
            Step::Pass(secs) => self.world.pass(*secs),
            Step::Crash => {
                self.world.crash();
                for n in 0..self.world.nodes.len() {
                    self.world.connect(n);
                }
                self.world.deliver_all();
            }
            Step::Submit { nodes, secs } => {
                let submission = Box::new(job(*nodes, *secs));
                self.ask(Who::Ann, Request::Submit(submission));
            }
            Step::Reserve {
                who,
                ask,
                hold,
                script,
            } => {
                let request = Request::Reserve {
                    ask: Box::new(ask.ask(self.world.now)),
                    hold: *hold,
                    job: script.then(|| Box::new(job(1, 1))),
                };
                self.ask(*who, request);
            }
            Step::Confirm(who, at) => self.confirm(*who, *at),
            Step::Cancel(who, at, series) => {
                let ids = self.told.get(*at).copied().into_iter().collect();
                let series = *series;
                self.ask(*who, Request::CancelReservation { ids, series });
            }
            Step::Extend(who, at, by) => {
                let id = self.id(*at);
                let (by, max_price) = (Span::from_secs(*by), None);
                self.ask(*who, Request::ExtendReservation { id, by, max_price });
            }
            Step::Money(action) => {
                let (name, action) = ("lab".to_owned(), action.clone());
                self.ask(Who::Root, Request::AccountControl { name, action });
            }
        }
    }

    fn id(&self, at: usize) -> ReservationId {
        self.told.get(at).copied().unwrap_or(ReservationId(999))
    }

    /// Only a hold can be confirmed, and only by its owner or an administrator.
    fn confirm(&mut self, who: Who, at: usize) {
        let id = self.id(at);
        let before = self.world.store.reservations.get(&id).cloned();
        let may = before.is_some_and(|row| {
            let own = row.uid == who.user().uid || who == Who::Root;
            own && row.state == ReservationState::Held
        });
        let reply = self.ask(who, Request::Confirm { id });
        assert_eq!(matches!(reply, Reply::Reserved { .. }), may, "{reply:?}");
    }

    /// What is refused has changed nothing.
    fn ask(&mut self, who: Who, request: Request) -> Reply {
        let before = (self.live(), self.world.store.accounts.clone());
        let text = format!("{request:?}");
        let reply = self.world.ask_as(who.user(), None, request);
        match &reply {
            Reply::Refused(refusal) => {
                assert!(!refusal.message.is_empty());
                let after = (self.live(), self.world.store.accounts.clone());
                assert_eq!(before, after, "{text}: {refusal}");
            }
            Reply::Reserved { reservations, .. } => {
                for info in reservations {
                    self.told.retain(|id| *id != info.id);
                    self.told.insert(0, info.id);
                }
            }
            _ => {}
        }
        reply
    }

    fn live(&self) -> BTreeSet<ReservationId> {
        let rows = self.world.store.reservations.values();
        rows.filter(|r| r.state.is_live()).map(|r| r.id).collect()
    }

    /// The store's rows are what its ledger says, and nodes are promised once.
    fn check(&self) {
        let store = &self.world.store;
        let mut books: BTreeMap<&str, i128> = BTreeMap::new();
        let mut paid: BTreeMap<ReservationId, (i128, i128)> = BTreeMap::new();
        for line in &store.ledger {
            let sum = i128::from(line.sum.0);
            assert!(sum > 0, "{line:?}");
            *books.entry(&line.from).or_default() -= sum;
            *books.entry(&line.to).or_default() += sum;
            if let Some(id) = line.reservation {
                let (held, charged) = paid.entry(id).or_default();
                *held += sum * (is_held(&line.to) - is_held(&line.from));
                *charged += sum * (is_income(&line.to) - is_income(&line.from));
            }
        }
        for row in store.accounts.values() {
            let book = |name: &str| books.get(name).copied().unwrap_or(0);
            let held = book(&format!("{}:held", row.name));
            assert_eq!(held, i128::from(row.held.0), "{row:?}");
            let left = row.granted.minus(row.held).minus(row.charged);
            assert_eq!(book(&row.name), i128::from(left.0), "{row:?}");
            assert!(!row.budget || left >= Su::ZERO, "{row:?}");
        }
        for row in store.reservations.values().filter(|r| r.account.is_some()) {
            let (held, charged) = paid.get(&row.id).copied().unwrap_or_default();
            assert_eq!(held, i128::from(row.held.0), "{row:?}");
            assert_eq!(charged, i128::from(row.charged.0), "{row:?}");
            let price = row.base.plus(row.extra);
            assert!(row.charged >= Su::ZERO && row.charged <= price, "{row:?}");
        }
        self.no_node_is_promised_twice();
    }

    fn no_node_is_promised_twice(&self) {
        let rows = self.world.store.reservations.values();
        let live: Vec<_> = rows.filter(|r| r.state.is_live()).collect();
        for (at, one) in live.iter().enumerate() {
            for other in &live[at + 1..] {
                if one.start < other.end && other.start < one.end {
                    let shared = |s: &ShareRow| other.shares.iter().any(|o| o.node == s.node);
                    assert!(!one.shares.iter().any(shared), "{one:?} and {other:?}");
                }
            }
        }
    }
}

fn is_held(book: &str) -> i128 {
    i128::from(book.ends_with(":held"))
}

fn is_income(book: &str) -> i128 {
    i128::from(book == "income")
}

fn job(nodes: u32, secs: i64) -> Submission {
    Submission {
        spec: JobSpec {
            request: job::ResourceRequest {
                nodes: Some(nodes),
                exclusive: true,
                ..job::ResourceRequest::default()
            },
            time_limit: Some(Span::from_secs(secs)),
            ..spec("any")
        },
        script: OsText::default(),
        array: None,
    }
}

/// What became of the reservations of a case.
fn run(steps: &[Step]) -> BTreeMap<ReservationState, usize> {
    let mut case = Case {
        world: World::new(cluster()),
        told: Vec::new(),
    };
    for step in steps {
        case.take(step);
        case.check();
    }
    // In the end everything has ended, and nothing is held for it.
    let rows = case.world.store.reservations.values();
    let last = rows.filter(|r| r.state.is_live()).map(|r| r.end).max();
    let left = last.map_or(0, |end| end.since(case.world.now).secs());
    case.world.pass(left.min(500) + 10);
    case.check();
    if left <= 500 {
        assert_eq!(case.live(), BTreeSet::new());
        for row in case.world.store.accounts.values() {
            assert_eq!(row.held, Su::ZERO, "{row:?}");
        }
    }
    let mut states = BTreeMap::new();
    for row in case.world.store.reservations.values() {
        *states.entry(row.state).or_default() += 1;
    }
    states
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_half_booked(steps in prop::collection::vec(steps(), 1..50)) {
        run(&steps);
    }
}

/// The random sequences above reach what they are for.
#[test]
fn random_sequences_reach_every_end() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let mut states: BTreeMap<ReservationState, usize> = BTreeMap::new();
    let strategy = prop::collection::vec(steps(), 40..50);
    for _ in 0..24 {
        let steps = strategy.new_tree(&mut runner).unwrap().current();
        for (state, count) in run(&steps) {
            *states.entry(state).or_default() += count;
        }
    }
    use ReservationState::{Cancelled, Ended, Expired, Unused};
    for state in [Cancelled, Ended, Expired, Unused] {
        let count = states.get(&state).copied().unwrap_or(0);
        assert!(count >= 5, "only {count} are {state}: {states:?}");
    }
}
