//! Quotas with live reservations: what is at one time, and what is one long time.

use super::*;
use crate::record::ReservationRow;
use cosy_model::job::ResourceRequest;
use cosy_model::reservation::{Repeat, ReservationSpec, ReservationState, StartChoice};
use cosy_model::{AccessLevel, Gid, QueueId, Su, Uid};
use cosy_sched::appraise::Delays;
use std::sync::LazyLock;

pub(in crate::reservations) fn at(hours: i64) -> Time {
    Time::EPOCH + hours_long(hours)
}

fn hours_long(hours: i64) -> Span {
    Span::from_secs(hours * 3600)
}

fn ask(starts: &[i64], hours: i64) -> ReservationSpec {
    ReservationSpec {
        repeat: (!starts.is_empty()).then(|| Repeat {
            starts: starts.iter().map(|s| at(*s)).collect(),
            ..Repeat::default()
        }),
        ..ReservationSpec::plain(
            ResourceRequest::default(),
            hours_long(hours),
            StartChoice::At(at(0)),
        )
    }
}

fn request(starts: &[i64], hours: i64) -> ReservationRequest {
    ReservationRequest {
        ask: ask(starts, hours),
        queue: QueueId(0),
        demand: Default::default(),
        holds: Default::default(),
        level: AccessLevel::Allow,
        earliest: at(0),
        latest: at(0),
        account: None,
        stands_as: Default::default(),
    }
}

fn shares(cores: &[(u32, u32)]) -> Vec<NodeShare> {
    let share = |(node, cores): &(u32, u32)| NodeShare {
        component: 0,
        node: NodeId(*node),
        tasks: 1,
        amounts: Amounts {
            cores: *cores,
            ..Amounts::default()
        },
    };
    cores.iter().map(share).collect()
}

fn estimate(start: i64, end: i64, cores: &[(u32, u32)]) -> Estimate {
    Estimate {
        start: at(start),
        end: at(end),
        shares: Some(shares(cores)),
        leave: Vec::new(),
        lacks: None,
        before_head: false,
        availability_ppm: 0,
        by_load: false,
        base: Su::ZERO,
        extra: Su::ZERO,
        delays: Delays::default(),
    }
}

pub(in crate::reservations) fn reservation(
    start: i64,
    end: i64,
    cores: &[(u32, u32)],
) -> Reservation {
    Reservation {
        row: ReservationRow {
            id: ReservationId(1),
            series: None,
            uid: Uid(1),
            gid: Gid(1),
            user: "ann".to_owned(),
            queue: "day".to_owned(),
            account: None,
            ask: ask(&[], end - start),
            state: ReservationState::Confirmed,
            degraded: false,
            start: at(start),
            end: at(end),
            closed: None,
            shares: Vec::new(),
            made: at(0),
            hold_until: None,
            free_until: None,
            base: Su::ZERO,
            extra: Su::ZERO,
            held: Su::ZERO,
            charged: Su::ZERO,
            delays: Vec::new(),
            job: None,
            first_use: None,
            used_core_ms: 0,
            note: String::new(),
            flow: None,
            makers: Vec::new(),
        },
        shares: shares(cores),
        short: false,
        planner: None,
    }
}

fn size(nodes: &str, count: u64, of_one: u64) -> ClassSize {
    ClassSize {
        nodes: nodes.to_owned(),
        cores: count * of_one,
        of_one,
    }
}

static LICENSED: LazyLock<ClusterConfig> = LazyLock::new(|| {
    let mut config = ClusterConfig::default();
    config.licenses.set("matlab", 5);
    config
});

/// Nodes 0 to 2 are alike (10 cores each), node 3 is of another class (100 cores).
fn booked<'a>(quotas: &'a Quotas, live: &'a [Reservation]) -> Booked<'a> {
    Booked {
        parties: vec![Party {
            whose: "user ann".to_owned(),
            quotas,
            live: live.iter().collect(),
            open: live.len() as u32,
        }],
        classes: Classes {
            of: vec![0, 0, 0, 1],
            all: vec![size("n[0-2]", 3, 10), size("fat", 1, 100)],
        },
        config: &LICENSED,
    }
}

fn quotas() -> Quotas {
    Quotas {
        open: Some(2),
        share_ppm: Some(500_000),
        license_share_ppm: Some(500_000),
        longest: Some(hours_long(6)),
        ahead: None,
        notice: None,
    }
}

#[test]
fn repetitions_that_adjoin_each_other_are_one() {
    let check = |starts: &[i64], start: i64, wanted: i64| {
        let estimate = estimate(start, start + 2, &[]);
        let length = run_length(&request(starts, 2), &estimate);
        assert_eq!(length, hours_long(wanted), "{starts:?} at {start}");
    };
    check(&[], 10, 2);
    check(&[10, 12, 14, 20, 22, 40], 10, 6);
    check(&[10, 12, 14, 20, 22, 40], 12, 6);
    check(&[10, 12, 14, 20, 22, 40], 14, 6);
    check(&[10, 12, 14, 20, 22, 40], 22, 4);
    check(&[10, 12, 14, 20, 22, 40], 40, 2);
}

#[test]
fn slots_keep_to_quotas() {
    let quotas = quotas();
    let live = [
        reservation(10, 12, &[(0, 5), (1, 5), (3, 100)]),
        reservation(12, 14, &[(2, 5)]),
    ];
    let check = |live: &[Reservation], slot: Estimate, repeat: &[i64], wanted: Result<(), &str>| {
        let got = booked(&quotas, live).check(at(0), &request(repeat, 2), &slot);
        assert_eq!(got.map_err(|r| r.message), wanted.map_err(str::to_owned));
    };
    check(&live[..1], estimate(10, 16, &[(2, 5)]), &[], Ok(()));
    check(&live[..1], estimate(12, 16, &[(2, 10), (0, 5)]), &[], Ok(()));
    check(
        &live[..1],
        estimate(11, 12, &[(2, 6)]),
        &[],
        Err(
            "quota: user ann would have 53.3333 % of the nodes of one kind (n[0-2]) booked at one time and may have 50 %",
        ),
    );
    check(
        &live[..1],
        estimate(0, 7, &[]),
        &[],
        Err("quota: the reservation is 07:00:00 long, user ann may reserve 06:00:00 at once"),
    );
    check(
        &live[..1],
        estimate(20, 22, &[]),
        &[20, 22, 24, 26],
        Err("quota: the reservation is 08:00:00 long, user ann may reserve 06:00:00 at once"),
    );
    check(
        &live,
        estimate(20, 22, &[]),
        &[],
        Err(
            "quota: user ann has 2 open reservations and may have 2: cancel one or wait until one has ended",
        ),
    );
}

/// What is not at the same time does not add up.
#[test]
fn the_peak_counts() {
    let quotas = quotas();
    let live = [
        reservation(10, 12, &[(0, 5)]),
        reservation(12, 14, &[(0, 4), (1, 4)]),
        reservation(13, 20, &[(1, 1), (3, 9)]),
        reservation(20, 30, &[(0, 10)]),
    ];
    let live: Vec<&Reservation> = live.iter().collect();
    let check = |start, end, class, wanted| {
        let booked = booked(&quotas, &[]);
        let peak = peak(&live, (at(start), at(end)), |r| booked.cores_in(&r.shares, class));
        assert_eq!(peak, wanted, "{start} to {end}");
    };
    check(0, 10, 0, 0);
    check(0, 13, 0, 8);
    check(0, 14, 0, 9);
    check(13, 20, 0, 9);
    check(14, 20, 0, 1);
    check(0, 40, 0, 10);
    check(0, 40, 1, 9);
}

/// Licences count as they are kept at one time, and a single one always may be.
#[test]
fn licences_keep_to_quotas() {
    let quotas = Quotas {
        open: None,
        ..quotas()
    };
    let keeping = |start, end, count| {
        let mut booking = reservation(start, end, &[]);
        booking.row.ask.licenses.set("matlab", count);
        booking
    };
    let live = [keeping(10, 12, 1), keeping(12, 14, 2)];
    let check = |quotas: &Quotas, (start, end), count, wanted: Result<(), &str>| {
        let mut asked = request(&[], 2);
        asked.ask.licenses.set("matlab", count);
        let got = booked(quotas, &live).check(at(0), &asked, &estimate(start, end, &[]));
        assert_eq!(got.map_err(|r| r.message), wanted.map_err(str::to_owned), "{count}");
    };
    // Half of five are two.
    check(&quotas, (14, 16), 2, Ok(()));
    check(&quotas, (10, 12), 1, Ok(()));
    let told = "quota: user ann would have 3 of the 5 licences 'matlab' booked at one time and may have 2: 50 % of them";
    check(&quotas, (11, 13), 1, Err(told));
    check(&quotas, (14, 16), 3, Err(told));
    let few = |share| Quotas {
        license_share_ppm: share,
        ..quotas.clone()
    };
    check(&few(Some(10_000)), (14, 16), 1, Ok(()));
    let told = "quota: user ann would have 1 of the 5 licences 'matlab' booked at one time and may have 0: 0 % of them";
    check(&few(Some(0)), (14, 16), 1, Err(told));
    check(&few(None), (10, 14), 5, Ok(()));
}

#[test]
fn longer_ones_count_once_and_as_a_whole() {
    let quotas = quotas();
    let live = [
        reservation(10, 12, &[(0, 10)]),
        reservation(13, 20, &[(1, 4)]),
    ];
    let booked = booked(&quotas, &live);
    let check = |end, cores, wanted: Result<(), &str>| {
        let slot = estimate(12, end, &[(0, cores)]);
        let got = booked.check_longer(at(11), &request(&[], 2), &slot, at(10));
        assert_eq!(got.map_err(|r| r.message), wanted.map_err(str::to_owned));
    };
    check(13, 10, Ok(()));
    check(16, 10, Ok(()));
    check(
        16,
        12,
        Err(
            "quota: user ann would have 53.3333 % of the nodes of one kind (n[0-2]) booked at one time and may have 50 %",
        ),
    );
    check(
        17,
        10,
        Err("quota: the reservation is 07:00:00 long, user ann may reserve 06:00:00 at once"),
    );
}

/// The default of 20 % on three nodes that are alike: one of them whole, whoever else has
/// booked, but no second one at the same time.
#[test]
fn a_small_cluster_has_one_node_for_everybody() {
    let quotas = Quotas::default();
    let live = [reservation(10, 12, &[(0, 10)])];
    let check = |live: &[Reservation], slot: Estimate, wanted: Result<(), &str>| {
        let got = booked(&quotas, live).check(at(0), &request(&[], 2), &slot);
        assert_eq!(got.map_err(|r| r.message), wanted.map_err(str::to_owned));
    };
    check(&[], estimate(10, 12, &[(1, 10)]), Ok(()));
    check(&[], estimate(10, 12, &[(3, 100)]), Ok(()));
    check(&live, estimate(12, 14, &[(1, 10)]), Ok(()));
    check(
        &live,
        estimate(11, 13, &[(1, 1)]),
        Err(
            "quota: user ann would have 36.6666 % of the nodes of one kind (n[0-2]) booked at one time and may have 33.3333 %, which is one whole node",
        ),
    );
}
