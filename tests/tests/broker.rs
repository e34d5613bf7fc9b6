//! One user and three live clusters: the best one is booked, the same time on all of them
//! or on none, also when one is killed between the two phases.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_cli::native::broker::transport::{self, Transport};
use cosy_cli::native::broker::{
    Broker, Cluster, ClusterOutcome, Outcome, Preference, RetryTimes, Verdict, show,
};
use cosy_model::api::{Reply, Request};
use cosy_model::job::ResourceRequest;
use cosy_model::reservation::{
    AccountAction, AccountInfo, ReservationFilter, ReservationInfo, ReservationSpec,
    ReservationState, StartChoice,
};
use cosy_model::{Span, Su, Time};
use cosy_tests::cluster::Cluster as Live;
use cosy_tests::{Options, Output, run, system, wait};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tempfile::TempDir;

const NODES: u32 = 4;
/// A user without any rights.
const NOBODY: u32 = 65_534;
/// Socket of a node daemon that passes requests on.
const RELAY: &str = "relay.sock";

/// Clusters a, b and c, and the file that names them.
struct Three {
    live: Vec<Live>,
    known: Vec<Cluster>,
    dir: TempDir,
}

impl Three {
    fn start(hold: &str) -> Self {
        let options = Options {
            virtual_nodes: NODES,
            controller: format!(
                "[reservations]\nhold = \"{hold}\"\n[reservations.per_user]\nshare = 100\n"
            ),
            ..Options::default()
        };
        // To c one speaks as from a host of users: through a node daemon.
        let relayed = Options {
            noded: |_| format!("socket = \"DIR/{RELAY}\""),
            entry: |_| "login = true".into(),
            ..options.clone()
        };
        let all = [options.clone(), options, relayed];
        let live: Vec<Live> = all.into_iter().map(|o| Live::start(1, o)).collect();
        let known: Vec<Cluster> = ["a", "b", "c"]
            .into_iter()
            .zip(&live)
            .map(|(name, live)| Cluster {
                name: name.to_owned(),
                socket: match name {
                    "c" => live.dir().join(RELAY),
                    _ => live.socket(),
                },
            })
            .collect();
        let dir = tempfile::tempdir().unwrap();
        let entry =
            |c: &Cluster| format!("[cluster.{}]\nsocket = \"{}\"\n", c.name, c.socket.display());
        let text: String = known.iter().map(entry).collect();
        fs::write(dir.path().join("clusters.toml"), text).unwrap();
        Self { live, known, dir }
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("clusters.toml")
    }

    /// A command that knows all clusters, run at the first one.
    fn run(&self, words: &[&str]) -> Output {
        let mut command = self.live[0].command(words);
        run::run(command.env("COSY_CLUSTERS", self.file()))
    }

    /// The reservations of a cluster, ended ones too.
    fn reservations(&self, at: usize) -> Vec<ReservationInfo> {
        let filter = ReservationFilter {
            ended: true,
            ..ReservationFilter::default()
        };
        match self.live[at].ask(Request::Reservations { filter }) {
            Reply::Reservations(all) => all,
            other => panic!("{other:?}"),
        }
    }

    /// `confirmed` or `held,cancelled`: the states of a cluster's reservations.
    fn states(&self, at: usize) -> String {
        let all = self.reservations(at);
        let words: Vec<&str> = all.iter().map(|r| r.state.word()).collect();
        words.join(",")
    }

    /// The account of the test on a cluster.
    fn account(&self, at: usize) -> AccountInfo {
        let names = vec!["physics".to_owned()];
        match self.live[at].ask(Request::Accounts { names }) {
            Reply::Accounts(mut all) => all.remove(0),
            other => panic!("{other:?}"),
        }
    }

    /// Books on one cluster, past the broker.
    #[track_caller]
    fn take(&self, at: usize, ask: ReservationSpec) {
        let reply = self.live[at].ask(Request::Reserve {
            ask: Box::new(ask),
            hold: false,
            job: None,
        });
        assert!(matches!(reply, Reply::Reserved { .. }), "{reply:?}");
    }

    #[track_caller]
    fn check(&self, want: [&str; 3]) {
        for (at, want) in want.into_iter().enumerate() {
            assert_eq!(self.states(at), want, "cluster {}", self.known[at].name);
        }
    }
}

/// Repeats little, so that a dead cluster is given up soon.
fn broker() -> Broker<'static> {
    let transport: &'static Transport<'static> = &transport::socket;
    let retry = RetryTimes {
        total: Duration::from_millis(300),
        pause: Duration::from_millis(50),
    };
    Broker::over(transport, retry)
}

/// All nodes for an hour.
fn ask(pick: StartChoice) -> ReservationSpec {
    let request = ResourceRequest {
        nodes: Some(NODES),
        exclusive: true,
        ..ResourceRequest::default()
    };
    ReservationSpec {
        name: "all".into(),
        ..ReservationSpec::plain(request, Span::from_minutes(60), pick)
    }
}

fn in_minutes(n: i64) -> Time {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Time::from_secs(i64::try_from(now.as_secs()).unwrap()) + Span::from_minutes(n)
}

/// As soon as possible from then on, within three hours.
fn soonest(from: Time) -> ReservationSpec {
    ReservationSpec {
        earliest: Some(from),
        latest_end: Some(from + Span::from_minutes(180)),
        ..ask(StartChoice::Soonest)
    }
}

fn start_of(result: &ClusterOutcome) -> Time {
    match result {
        ClusterOutcome::Booked(all) | ClusterOutcome::Held(all) => all[0].start,
        other => panic!("nothing is there: {other:?}"),
    }
}

#[track_caller]
fn done(outcome: &Outcome) {
    assert_eq!(outcome.verdict, Verdict::Done, "{outcome:?}");
}

#[test]
fn the_best_of_three_is_booked_and_a_refusal_falls_to_the_next() {
    let three = Three::start("5m");
    let broker = broker();
    // a is taken for the first two hours, b for 50 minutes.
    let from = in_minutes(120);
    for (at, minutes) in [(0, 120), (1, 50)] {
        let taken = ReservationSpec {
            length: Span::from_minutes(minutes),
            ..ask(StartChoice::At(from))
        };
        three.take(at, taken);
    }
    let soonest = soonest(from);
    let quotes = broker.quote(&three.known, &soonest, None);
    assert!(quotes.iter().all(|(_, q)| q.is_ok()), "{quotes:?}");
    let book = || broker.book_best(&three.known, &soonest, Preference::Soonest, false, None);
    let first = book();
    done(&first);
    assert_eq!(first.results[0].cluster.name, "c");
    assert_eq!(start_of(&first.results[0].outcome), from);
    // Now c is taken too, for an hour: b comes next.
    let second = book();
    done(&second);
    assert_eq!(second.results[0].cluster.name, "b");
    assert_eq!(start_of(&second.results[0].outcome), from + Span::from_minutes(50));
    three.check(["confirmed", "confirmed,confirmed", "confirmed"]);
    // A dead one is told of, the others serve: b again, behind what it has.
    let mut three = three;
    three.live[2].cosyd.kill();
    let third = broker.book_best(&three.known, &soonest, Preference::Soonest, true, None);
    done(&third);
    assert_eq!(third.tried[0].cluster, "c");
    assert_eq!(third.results[0].cluster.name, "b");
    assert_eq!(start_of(&third.results[0].outcome), from + Span::from_minutes(110));
}

#[test]
fn all_or_none_on_three() {
    let three = Three::start("5m");
    let broker = broker();
    let soonest = soonest(in_minutes(120));
    let book =
        |ask: &ReservationSpec| broker.book_all(&three.known, ask, Preference::Soonest, None);
    let all = book(&soonest);
    done(&all);
    three.check(["confirmed", "confirmed", "confirmed"]);
    let starts: Vec<Time> = all.results.iter().map(|p| start_of(&p.outcome)).collect();
    assert!(starts.iter().all(|s| *s == starts[0]), "{starts:?}");
    // The same time again is refused everywhere, and nothing is left.
    let again = book(&ask(StartChoice::At(starts[0])));
    assert_eq!(again.verdict, Verdict::Nothing, "{again:?}");
    three.check(["confirmed", "confirmed", "confirmed"]);
    // Only b is taken an hour later: what a and c held is given back.
    let later = ask(StartChoice::At(starts[0] + Span::from_minutes(60)));
    three.take(1, later.clone());
    let partly = book(&later);
    assert_eq!(partly.verdict, Verdict::Nothing, "{partly:?}");
    three.check([
        "confirmed,cancelled",
        "confirmed,confirmed",
        "confirmed,cancelled",
    ]);
    // In a window that begins there a start is found that all can offer.
    let next = ReservationSpec {
        earliest: Some(starts[0]),
        latest_end: Some(starts[0] + Span::from_minutes(300)),
        ..ask(StartChoice::Soonest)
    };
    let found = book(&next);
    done(&found);
    for result in &found.results {
        let start = start_of(&result.outcome);
        assert!(start >= starts[0] + Span::from_minutes(120), "{start:?}");
        assert_eq!(start, start_of(&found.results[0].outcome));
    }
}

#[test]
fn one_is_killed_between_the_phases() {
    let mut three = Three::start("20s");
    let broker = broker();
    for live in &three.live {
        live.ask(Request::AccountControl {
            name: "physics".into(),
            action: AccountAction::Create {
                members: Vec::new(),
                budget: Some(Su::whole(100)),
            },
        });
    }
    let soonest = ReservationSpec {
        account: Some("physics".into()),
        ..soonest(in_minutes(120))
    };
    let held = broker.hold_all(&three.known, &soonest, Preference::Soonest, None);
    let held = held.unwrap();
    three.check(["held", "held", "held"]);
    // All nodes with all their cores for an hour, at 1 SU for each.
    let price = held[0].reservations[0].base;
    assert!(price > Su::ZERO, "{held:?}");
    for at in 0..3 {
        assert_eq!(three.account(at).held, price);
    }
    three.live[2].cosyd.kill();
    let outcome = broker.confirm_all(held);
    assert_eq!(outcome.verdict, Verdict::Leftover, "{outcome:?}");
    assert!(matches!(outcome.results[0].outcome, ClusterOutcome::GivenBack(_)), "{outcome:?}");
    assert!(matches!(outcome.results[1].outcome, ClusterOutcome::GivenBack(_)), "{outcome:?}");
    let ClusterOutcome::Left { lapses, .. } = &outcome.results[2].outcome else {
        panic!("{outcome:?}")
    };
    assert!(lapses.is_some());
    let text = show::outcome(&outcome, &cosy_cli::times::now());
    let socket = three.known[2].socket.display().to_string();
    assert!(text.contains(&format!("COSY_SOCKET={socket} cresv cancel 1")), "{text}");
    // It comes back: the hold is still there, unconfirmed, and lapses by itself.
    three.live[2].start_cosyd();
    wait::until("the hold that nobody confirmed has lapsed", || {
        let all = three.reservations(2);
        (all[0].state == ReservationState::Expired).then_some(())
    });
    three.check(["cancelled", "cancelled", "expired"]);
    // Giving back cost nothing.
    for at in 0..3 {
        assert_eq!(three.reservations(at)[0].charged, Su::ZERO);
        let account = three.account(at);
        assert_eq!(account.available, Su::whole(100), "{account:?}");
        assert_eq!((account.held, account.charged), (Su::ZERO, Su::ZERO));
    }
}

#[test]
fn a_cluster_that_is_away_for_a_moment_is_confirmed_all_the_same() {
    let mut three = Three::start("5m");
    let transport: &'static Transport<'static> = &transport::socket;
    let retry = RetryTimes {
        total: Duration::from_secs(60),
        pause: Duration::from_millis(50),
    };
    let broker = Broker::over(transport, retry);
    let soonest = soonest(in_minutes(120));
    let held = broker.hold_all(&three.known, &soonest, Preference::Soonest, None);
    let held = held.unwrap();
    three.live[1].cosyd.kill();
    let outcome = std::thread::scope(|scope| {
        let confirming = scope.spawn(|| broker.confirm_all(held));
        three.live[1].start_cosyd();
        confirming.join().unwrap()
    });
    done(&outcome);
    three.check(["confirmed", "confirmed", "confirmed"]);
}

#[test]
fn the_commands_know_several_clusters() {
    let three = Three::start("5m");
    let line = [
        "cresv",
        "book",
        "--clusters",
        "a,b,c",
        "--all",
        "-N",
        "4",
        "--exclusive",
    ];
    let when = ["--time", "1:00:00", "--from", "now+2h", "--until", "now+5h"];
    let booked = three.run(&[&line[..], &when].concat());
    booked.expect(0);
    three.check(["confirmed", "confirmed", "confirmed"]);
    let at_once = [
        "cresv",
        "book",
        "--clusters",
        "b,c",
        "-N",
        "4",
        "--exclusive",
        "-t",
        "1h",
    ];
    let before = in_minutes(0);
    let booked = three
        .run(&[&at_once[..], &["--soonest"]].concat())
        .expect(0);
    assert!(booked.out.contains("Booked on cluster b"), "{booked:?}");
    // At once, not at some candidate hours ahead.
    let first = three.reservations(1).iter().map(|r| r.start).min().unwrap();
    let soon = before + Span::from_minutes(30);
    assert!(first >= before && first < soon, "{booked:?}");
    let unknown = three.run(&["cresv", "quote", "--clusters", "a,z", "-N", "1", "-t", "1h"]);
    unknown.expect_refusal("there is no cluster 'z'");
}

#[test]
fn an_ordinary_user_books_on_all() {
    if !system::root_or_skip() {
        return;
    }
    let three = Three::start("5m");
    three.live[0].open_commands();
    fs::set_permissions(three.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let run = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let mut command = three.live[0].command(&words);
        run::run(
            command
                .env("COSY_CLUSTERS", three.file())
                .uid(NOBODY)
                .gid(NOBODY),
        )
    };
    let book = "cresv book --clusters a,b,c --all -N 4 --exclusive -t 1h --soonest --from now+2h";
    run(book).expect(0);
    run(book).expect(0);
    three.check([
        "confirmed,confirmed",
        "confirmed,confirmed",
        "confirmed,confirmed",
    ]);
    // Two open reservations are all that one may have.
    let third = run(book);
    assert_eq!(third.code, 1, "{third:?}");
    assert!(third.err.contains("quota: "), "{third:?}");
    assert!(
        third
            .err
            .contains("Nothing was booked, nothing is left anywhere"),
        "{third:?}"
    );
    three.check([
        "confirmed,confirmed",
        "confirmed,confirmed",
        "confirmed,confirmed",
    ]);
    assert!(three.reservations(2).iter().all(|r| r.uid.0 == NOBODY));
}
