//! Every rule with the figures in its messages, how rules combine, quotas, and that
//! splitting a booking gains nothing.

use super::endless::EndlessJobs;
use super::judge::{Request, Slot, judge, rule_lines, with_hint};
use super::notice::{Together, earliest_by_notice};
use super::quota::{ClassShare, QuotaFacts, check_quotas, quotas_of};
use crate::config::{NoticePolicy, Quotas, ReservationPolicy, Weigh};
use cosy_model::reservation::Rule;
use cosy_model::{JobId, Refusal, RefusalCode, Span, Su, Time};
use cosy_sched::notice::Share;
use proptest::prelude::*;

/// 2026-11-21T12:00:00Z.
const NOW: Time = Time(1_795_262_400_000);
const MINUTE: Span = Span::from_minutes(1);

fn at(minutes: i64) -> Time {
    NOW + Span::from_minutes(minutes)
}

/// COSY as in the paper.
fn academic() -> ReservationPolicy {
    ReservationPolicy {
        notice: NoticePolicy {
            weigh: Weigh::Counts,
            predicted_wait: false,
            together: false,
            ..NoticePolicy::default()
        },
        delay_cap: None,
        ..ReservationPolicy::default()
    }
}

fn rules(all_of: &[Rule], any_of: &[Rule]) -> ReservationPolicy {
    ReservationPolicy {
        all_of: all_of.to_vec(),
        any_of: any_of.to_vec(),
        ..academic()
    }
}

/// 5 % reservations and 40 minutes' mean wait: COSY asks for 80 minutes.
fn request(policy: &ReservationPolicy) -> Request<'_> {
    Request {
        policy,
        now: NOW,
        admin: false,
        share: Some(Share(500)),
        mean_wait: Span::from_minutes(40),
        plain_wait: Some(Span::from_minutes(100)),
        load_end: at(300),
        together: &[],
        budget: None,
        max_price: None,
        endless: EndlessJobs::default(),
    }
}

/// One hour, two hours ahead, with nothing against it.
fn slot() -> Slot {
    Slot {
        start: at(120),
        end: at(180),
        feasible: true,
        lacks: None,
        availability_ppm: 900_000,
        by_load: true,
        price: Su::whole(10),
        worst_delay: None,
    }
}

fn verdict(request: &Request<'_>, slot: &Slot) -> Result<(), String> {
    judge(request, slot).map_err(|refusal| refusal.message)
}

fn check(request: &Request<'_>, slot: &Slot, wanted: Result<(), &str>) {
    assert_eq!(verdict(request, slot), wanted.map_err(str::to_owned));
}

#[test]
fn notice_as_in_cosy() {
    let policy = academic();
    let check = |share: Option<u32>, wait: i64, start: i64, wanted: Result<(), &str>| {
        let request = Request {
            share: share.map(Share),
            mean_wait: Span::from_minutes(wait),
            ..request(&policy)
        };
        let start = Slot {
            start: at(start),
            end: at(start + 60),
            ..slot()
        };
        check(&request, &start, wanted);
    };
    check(Some(0), 40, 40, Ok(()));
    check(Some(500), 40, 80, Ok(()));
    check(Some(1500), 40, 160, Ok(()));
    check(Some(1500), 0, 0, Ok(()));
    // Too few requests to tell: n is as at the curve's begin.
    check(None, 40, 40, Ok(()));
    check(
        Some(500),
        40,
        79,
        Err(
            "notice: the start 2026-11-21T13:19:00Z is 01:19:00 ahead and must be 01:20:00 ahead, 2 times as long as jobs wait on average (40 min), because reservations are 5 % of requests: from 2026-11-21T13:20:00Z on it would be accepted",
        ),
    );
    check(
        None,
        40,
        39,
        Err(
            "notice: the start 2026-11-21T12:39:00Z is 00:39:00 ahead and must be 00:40:00 ahead, as long as jobs wait on average (40 min): from 2026-11-21T12:40:00Z on it would be accepted",
        ),
    );
    check(
        Some(1501),
        0,
        10_000,
        Err(
            "notice: reservations are 15.01 % of requests, and above 15 % no reservation is accepted until the share has fallen (it is taken over the last 7 d)",
        ),
    );
}

#[test]
fn notice_covers_the_predicted_wait() {
    let policy = ReservationPolicy {
        notice: NoticePolicy::default(),
        ..academic()
    };
    let ninety = Slot {
        start: at(90),
        ..slot()
    };
    check(&request(&policy), &slot(), Ok(()));
    check(
        &request(&policy),
        &ninety,
        Err(
            "notice: the start 2026-11-21T13:30:00Z is 01:30:00 ahead and must be 01:40:00 ahead, as long as such a job would wait in the queue now: from 2026-11-21T13:40:00Z on it would be accepted",
        ),
    );
    // What cannot be predicted, or is less than by the mean, does not count.
    for plain_wait in [None, Some(Span::ZERO), Some(Span::from_minutes(80))] {
        let request = Request {
            plain_wait,
            ..request(&policy)
        };
        check(&request, &ninety, Ok(()));
    }
}

#[test]
fn notice_of_bookings_that_touch_each_other() {
    let policy = ReservationPolicy {
        notice: NoticePolicy::default(),
        ..academic()
    };
    let off = academic();
    let check = |policy, from, until, made, wait: Option<i64>, wanted: Result<(), &str>| {
        let group = [Together {
            from: at(from),
            until: at(until),
            made: at(made),
            wait: wait.map(Span::from_minutes),
        }];
        let request = Request {
            together: &group,
            ..request(policy)
        };
        check(&request, &slot(), wanted);
    };
    // The slot is from 120 to 180, asked for 120 ahead.
    let refused = "notice: together with this account's bookings from 2026-11-21T13:00:00Z to 2026-11-21T14:00:00Z, which the slot overlaps or adjoins, it is 02:00:00 ahead and must be 02:01:00 ahead, as long as such a job would wait in the queue now: leave time between them or start later";
    check(&policy, 60, 120, -500, Some(121), Err(refused));
    check(&off, 60, 120, -500, Some(121), Ok(()));
    check(&policy, 60, 120, -500, Some(120), Ok(()));
    check(&policy, 60, 120, -500, None, Ok(()));
    check(&policy, 60, 119, -500, Some(121), Ok(())); // time between them
    check(&policy, 181, 300, -500, Some(121), Ok(()));
    let refused = refused
        .replace("13:00:00Z", "12:30:00Z")
        .replace("02:00:00 ahead", "00:40:00 ahead")
        .replace("02:01:00", "00:41:00");
    check(&policy, 30, 120, -10, Some(41), Err(&refused));
    check(&policy, 30, 120, -11, Some(41), Ok(()));
    // One that begins later: the joint booking begins with the slot, asked for now.
    check(&policy, 180, 300, 0, Some(120), Ok(()));
    check(
        &policy,
        180,
        300,
        0,
        Some(121),
        Err(&refused
            .replace("12:30:00Z to 2026-11-21T14:00:00Z", "15:00:00Z to 2026-11-21T17:00:00Z")
            .replace("00:40:00", "02:00:00")
            .replace("00:41:00", "02:01:00")),
    );
}

#[test]
fn a_slot_at_once_is_not_past_while_its_figures_are_worked_out() {
    let policy = rules(&[], &[]);
    let check = |late: Span, fine: bool| {
        let (request, mut slot) = (request(&policy), slot());
        slot.start = NOW - late;
        assert_eq!(judge(&request, &slot).is_ok(), fine, "{late}");
    };
    check(Span::ZERO, true);
    check(Span(2), true);
    check(Span::from_secs(11), false);
}

#[test]
fn hard_conditions_in_their_order() {
    let policy = ReservationPolicy {
        delay_cap: Some(Span::from_minutes(240)),
        ..rules(&[Rule::WhatIf], &[])
    };
    let off = ReservationPolicy {
        enabled: false,
        ..policy.clone()
    };
    let cap = Some((JobId(9), Span::from_minutes(241)));
    type Tweak = fn(&mut Request<'_>, &mut Slot);
    let check = |tweak: Tweak, code, user: &str, admin: Result<(), &str>| {
        for is_admin in [false, true] {
            let (mut request, mut slot) = (request(&policy), slot());
            (request.admin, slot.worst_delay, slot.availability_ppm) = (is_admin, cap, 0);
            tweak(&mut request, &mut slot);
            let wanted = if is_admin { admin } else { Err(user) };
            self::check(&request, &slot, wanted);
            let refusal = judge(&request, &slot).err();
            assert!(refusal.is_none_or(|r| r.code == code));
        }
    };
    let past = "the start 2026-11-21T11:59:00Z is in the past: it is 2026-11-21T12:00:00Z now";
    let tweak: Tweak = |_, s| (s.start, s.feasible) = (at(-1), false);
    check(tweak, RefusalCode::Invalid, past, Err(past));
    let busy = "not enough nodes are free from 2026-11-21T14:00:00Z to 2026-11-21T15:00:00Z: running jobs, accepted reservations or nodes out of service are in the way";
    let tweak: Tweak = |r, s| (r.max_price, s.feasible) = (Some(Su::ZERO), false);
    check(tweak, RefusalCode::NotFree, busy, Err(busy));
    let endless =
        format!("{busy}; job 7 has no time limit, so that nobody knows when its nodes come free");
    let tweak: Tweak = |r, s| (r.endless.seen, s.feasible) = (vec!["7".into()], false);
    check(tweak, RefusalCode::NotFree, &endless, Err(&endless));
    let dear = "price: the start 2026-11-21T14:00:00Z costs 10 SU, at most 9.5 SU were allowed";
    let tweak: Tweak = |r, _| (r.max_price, r.budget) = (Some(Su(9_500_000)), Some(Su::ZERO));
    check(tweak, RefusalCode::Price, dear, Err(dear));
    let poor = "price: the start 2026-11-21T14:00:00Z costs 10 SU, and the account has 9 SU left";
    let tweak: Tweak = |r, _| r.budget = Some(Su::whole(9));
    check(tweak, RefusalCode::Price, poor, Err(poor));
    let capped = "delay cap: with the start 2026-11-21T14:00:00Z a waiting job would be pushed back by reservations by 04:01:00 in all, 04:00:00 at most are allowed";
    check(|_, _| (), RefusalCode::Admission, capped, Ok(()));
    let rule = "what-if: the start 2026-11-21T14:00:00Z would delay the first waiting job";
    let tweak: Tweak = |_, s| s.worst_delay = Some((JobId(9), Span::from_minutes(240)));
    check(tweak, RefusalCode::Admission, rule, Ok(()));

    let refused = judge(&request(&off), &slot()).unwrap_err();
    assert_eq!(refused.code, RefusalCode::Forbidden);
    let admin = Request {
        admin: true,
        ..request(&off)
    };
    self::check(&admin, &slot(), Ok(()));
}

#[test]
fn how_rules_combine() {
    use Rule::{Load, Notice, Price, WhatIf};
    let near = Slot {
        start: at(79),
        availability_ppm: 899_999,
        by_load: false,
        ..slot()
    };
    let notice = "notice: the start 2026-11-21T13:19:00Z is 01:19:00 ahead and must be 01:20:00 ahead, 2 times as long as jobs wait on average (40 min), because reservations are 5 % of requests: from 2026-11-21T13:20:00Z on it would be accepted";
    let what_if = "what-if: the start 2026-11-21T13:19:00Z would slow the waiting jobs down too much, to 89.9999 % of what is possible: 90 % are needed";
    let load = "load: the start 2026-11-21T13:19:00Z is before the end of present work, 2026-11-21T17:00:00Z";
    let check = |all_of: &[Rule], any_of: &[Rule], refused: &[&str]| {
        let policy = rules(all_of, any_of);
        check(&request(&policy), &slot(), Ok(()));
        let message = refused.join("; ");
        let wanted = if refused.is_empty() {
            Ok(())
        } else {
            Err(message.as_str())
        };
        self::check(&request(&policy), &near, wanted);
    };
    check(&[], &[], &[]);
    check(&[Price], &[Price], &[]);
    check(&[Notice], &[], &[notice]);
    check(&[WhatIf, Notice, Load], &[], &[what_if, notice, load]);
    check(&[], &[Notice], &[notice]);
    check(&[], &[Load, Notice, WhatIf], &[load, notice, what_if]);
    check(&[], &[Notice, Price], &[]);
    check(&[Price], &[Notice, Load], &[notice, load]);
    check(&[Load], &[Notice, Price], &[load]);
}

#[test]
fn the_earliest_start_by_notice() {
    let policy = academic();
    let none = rules(&[Rule::WhatIf], &[Rule::Price]);
    let any = rules(&[], &[Rule::Price, Rule::Notice]);
    let told = |request: Request<'_>| earliest_by_notice(&request).map_err(|r| r.message);
    assert_eq!(told(request(&policy)), Ok(Some(at(80))));
    assert_eq!(told(request(&any)), Ok(Some(at(80))));
    assert_eq!(told(request(&none)), Ok(None));
    let admin = Request {
        admin: true,
        ..request(&policy)
    };
    assert_eq!(told(admin), Ok(None));
    let full = Request {
        share: Some(Share(1600)),
        ..request(&policy)
    };
    let message = told(full).unwrap_err();
    assert!(message.starts_with("notice: reservations are 16 % of requests, and above 15 %"));
    let defaults = ReservationPolicy::default();
    assert_eq!(told(request(&defaults)), Ok(Some(at(100))));
}

#[test]
fn rules_in_lines() {
    use Rule::{Load, Notice, Price, WhatIf};
    let check = |policy: &ReservationPolicy, tweak: fn(&mut Request<'_>), wanted: &[&str]| {
        let mut request = request(policy);
        tweak(&mut request);
        assert_eq!(rule_lines(&request), wanted);
    };
    check(
        &academic(),
        |r| (r.share, r.mean_wait) = (Some(Share(320)), Span::from_secs(2470)),
        &[
            "notice: a start must be at least 1 h 8 min ahead, 1.64 times as long as jobs wait on average (41 min 10 s), because reservations are 3.2 % of requests",
        ],
    );
    check(
        &academic(),
        |r| r.share = None,
        &[
            "notice: a start must be at least 40 min ahead, as long as jobs wait on average (40 min)",
        ],
    );
    let full = "notice: reservations are 15.5 % of requests, and above 15 % no reservation is accepted until the share has fallen (it is taken over the last 7 d)";
    check(&academic(), |r| r.share = Some(Share(1550)), &[full]);
    check(
        &ReservationPolicy::default(),
        |_| (),
        &[
            "notice: a start must be at least 1 h 40 min ahead, as long as such a job would wait in the queue now",
            "delay cap: reservations may push no waiting job back by more than 4 h in all",
        ],
    );
    check(
        &rules(&[Load], &[WhatIf, Price]),
        |_| (),
        &[
            "load: present work lasts until 2026-11-21T17:00:00Z, the start must not be before",
            "one of these: what-if: the first waiting job must not be delayed, nor the others be slowed down to less than 90 % of what is possible",
            "one of these: price: everyone who pays is admitted",
        ],
    );
    check(
        &rules(&[], &[Price]),
        |r| r.budget = Some(Su::whole(7)),
        &["price: the account must be able to pay, it has 7 SU left"],
    );
    let nothing = ["administrators: no rule of admission binds"];
    check(&rules(&[Notice], &[]), |r| r.admin = true, &nothing);
}

#[test]
fn refusals_tell_the_earliest_start_that_passes() {
    let check = |passing: Option<i64>, looked_at, wanted: &str| {
        let refusal = Refusal::new(RefusalCode::Admission, "no");
        let told = with_hint(refusal.clone(), passing.map(at), looked_at);
        assert_eq!((told.code, told.message.as_str()), (refusal.code, wanted));
    };
    check(None, 0, "no");
    check(None, 1, "no");
    check(None, 2, "no; none of the 2 starts in the window passes");
    let hint = "no; the earliest start that passes is 2026-11-21T13:20:00Z";
    check(Some(80), 2, hint);
}

#[test]
fn quotas() {
    let quotas = Quotas {
        notice: Some(MINUTE),
        ..Quotas::default()
    };
    let none = Quotas::NONE;
    let class = |nodes: &str, booked_ppm, one_node_ppm| ClassShare {
        nodes: nodes.to_owned(),
        booked_ppm,
        one_node_ppm,
    };
    let fine = || QuotaFacts {
        open: 1,
        classes: vec![class("thin", 200_000, 50_000), class("fat", 0, 250_000)],
        licenses: Vec::new(),
        length: Span::from_secs(48 * 3600),
        start: at(14 * 24 * 60),
    };
    let check = |tweak: fn(&mut QuotaFacts), wanted: Result<(), &str>| {
        let mut facts = fine();
        tweak(&mut facts);
        let told = |quotas| check_quotas(quotas, "user ann", NOW, &facts).map_err(|r| r.message);
        assert_eq!(told(&quotas), wanted.map_err(str::to_owned));
        assert_eq!(told(&none), Ok(()));
    };
    check(|_| (), Ok(()));
    check(
        |f| f.open = 2,
        Err(
            "quota: user ann has 2 open reservations and may have 2: cancel one or wait until one has ended",
        ),
    );
    check(
        |f| f.length = Span::from_secs(48 * 3600 + 1),
        Err("quota: the reservation is 2-00:00:01 long, user ann may reserve 2-00:00:00 at once"),
    );
    check(
        |f| f.start = f.start + MINUTE,
        Err(
            "quota: the start 2026-12-05T12:01:00Z is 14-00:01:00 ahead, user ann may reserve 14-00:00:00 ahead: until 2026-12-05T12:00:00Z",
        ),
    );
    check(
        |f| f.start = NOW,
        Err(
            "quota: the start 2026-11-21T12:00:00Z is 00:00:00 ahead, user ann must reserve at least 00:01:00 ahead: from 2026-11-21T12:01:00Z on",
        ),
    );
    check(|f| f.start = at(1), Ok(()));
    check(
        |f| f.classes[0].booked_ppm = 200_001,
        Err(
            "quota: user ann would have 20.0001 % of the nodes of one kind (thin) booked at one time and may have 20 %",
        ),
    );
    // Of four nodes one is 25 %: less would be none.
    check(|f| f.classes[1].booked_ppm = 250_000, Ok(()));
    check(
        |f| f.classes[1].booked_ppm = 250_001,
        Err(
            "quota: user ann would have 25.0001 % of the nodes of one kind (fat) booked at one time and may have 25 %, which is one whole node",
        ),
    );
    let nothing = Quotas {
        share_ppm: Some(0),
        ..quotas.clone()
    };
    let mut facts = fine();
    facts.classes[0].booked_ppm = 1;
    assert!(check_quotas(&nothing, "user ann", NOW, &facts).is_err());
}

#[test]
fn whose_quotas() {
    let of = |open| Quotas {
        open: Some(open),
        ..Quotas::default()
    };
    let mut policy = academic();
    policy.users.insert("ann".to_owned(), of(10));
    policy.accounts.insert("lab".to_owned(), of(20));
    let check = |policy: &ReservationPolicy, user, account, wanted| {
        let (user, account) = quotas_of(policy, user, account);
        assert_eq!((user.open, account.map(|q| q.open)), wanted);
    };
    check(&policy, "ann", Some("lab"), (Some(10), Some(Some(20))));
    check(&policy, "bob", Some("gym"), (Some(2), None));
    check(&policy, "bob", None, (Some(2), None));
    policy.per_account = Some(of(30));
    check(&policy, "bob", Some("gym"), (Some(2), Some(Some(30))));
    check(&policy, "bob", Some("lab"), (Some(2), Some(Some(20))));
}

/// A rectangle of nodes and time that is booked in parts.
#[derive(Clone, Debug)]
struct Split {
    by_nodes: bool,
    /// Which part is asked for when, in minutes from the first on, ascending.
    asked: Vec<(usize, i64)>,
    /// Start of the whole in minutes after the first was asked for.
    start: i64,
}

const PARTS: i64 = 4;
const PART_NODES: i64 = 5;
const PART_MINUTES: i64 = 60;

/// What a job of so many parts side by side and one after another waits in minutes.
fn wait(wide: i64, long: i64) -> i64 {
    wide * PART_NODES * 7 + long * PART_MINUTES / 2
}

impl Split {
    fn begin(&self, part: usize) -> i64 {
        let before = if self.by_nodes { 0 } else { part as i64 };
        self.start + before * PART_MINUTES
    }

    fn whole(&self) -> i64 {
        if self.by_nodes {
            wait(PARTS, 1)
        } else {
            wait(1, PARTS)
        }
    }

    /// The bookings that touch the part, directly or by others, as one.
    fn group(&self, part: usize, booked: &[(usize, i64)]) -> Option<Together> {
        let mut chain = vec![part];
        for _ in 0..booked.len() {
            let near = |p: &usize| self.by_nodes || chain.iter().any(|q| p.abs_diff(*q) <= 1);
            let more = booked
                .iter()
                .map(|(p, _)| *p)
                .filter(|p| !chain.contains(p));
            let more: Vec<_> = more.filter(near).collect();
            chain.extend(more);
        }
        let parts = booked.iter().filter(|(p, _)| chain.contains(p));
        let (first, made) = *parts
            .clone()
            .min_by_key(|(p, made)| (self.begin(*p), *made))?;
        let until = parts.map(|(p, _)| self.begin(*p) + PART_MINUTES).max()?;
        let joint = chain.len() as i64;
        let wait = if self.by_nodes {
            wait(joint, 1)
        } else {
            wait(1, joint)
        };
        Some(Together {
            from: at(self.begin(first)),
            until: at(until),
            made: at(made),
            wait: Some(Span::from_minutes(wait)),
        })
    }

    /// Whether all parts are admitted, each when it is asked for.
    fn admitted(&self, policy: &ReservationPolicy) -> bool {
        let mut booked: Vec<(usize, i64)> = Vec::new();
        for (part, asked) in &self.asked {
            let group: Vec<_> = self.group(*part, &booked).into_iter().collect();
            let request = Request {
                now: at(*asked),
                mean_wait: Span::ZERO,
                plain_wait: Some(Span::from_minutes(wait(1, 1))),
                together: &group,
                ..request(policy)
            };
            let slot = Slot {
                start: at(self.begin(*part)),
                end: at(self.begin(*part) + PART_MINUTES),
                ..slot()
            };
            if judge(&request, &slot).is_err() {
                return false;
            }
            booked.push((*part, *asked));
        }
        true
    }
}

fn splits() -> impl Strategy<Value = Split> {
    let order = Just((0..PARTS as usize).collect::<Vec<_>>()).prop_shuffle();
    let gaps = prop::collection::vec(0i64..40, PARTS as usize - 1);
    (any::<bool>(), order, gaps, 0i64..400).prop_map(|(by_nodes, order, gaps, start)| {
        let later = gaps.into_iter().scan(0, |now, gap| {
            *now += gap;
            Some(*now)
        });
        let asked = order.into_iter().zip([0].into_iter().chain(later));
        Split {
            by_nodes,
            asked: asked.collect(),
            start,
        }
    })
}

#[test]
fn splitting_gains_without_the_rule() {
    let split = Split {
        by_nodes: true,
        asked: vec![(0, 0), (1, 0), (2, 0), (3, 0)],
        start: wait(1, 1),
    };
    let mut policy = academic();
    policy.notice.predicted_wait = true;
    assert!(split.admitted(&policy));
    policy.notice.together = true;
    assert!(!split.admitted(&policy));
    let whole = Split {
        start: split.whole(),
        ..split
    };
    assert!(whole.admitted(&policy), "no later than as a whole, either");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whoever gets a whole in parts has asked for it no later than for the whole at once.
    #[test]
    fn splitting_gains_nothing(split in splits()) {
        let mut policy = academic();
        (policy.notice.predicted_wait, policy.notice.together) = (true, true);
        if split.admitted(&policy) {
            prop_assert!(split.start >= split.whole());
        }
    }

    /// No figures make a rule panic, and what notice allows from is what it admits from.
    #[test]
    fn absurd_figures(
        (start, end, now) in any::<(i64, i64, i64)>(),
        (share, wait, plain) in any::<(Option<u32>, i64, Option<i64>)>(),
        (price, budget) in any::<(i64, Option<i64>)>(),
        group in any::<(i64, i64, i64, Option<i64>)>(),
    ) {
        let policy = ReservationPolicy::default();
        let group = [Together {
            from: Time(group.0),
            until: Time(group.1),
            made: Time(group.2),
            wait: group.3.map(Span),
        }];
        let mut request = Request {
            now: Time(now),
            share: share.map(|s| Share(s % 2000)),
            mean_wait: Span(wait),
            plain_wait: plain.map(Span),
            together: &group,
            budget: budget.map(Su),
            ..request(&policy)
        };
        let slot = Slot { start: Time(start), end: Time(end), price: Su(price), ..slot() };
        let refusal = judge(&request, &slot).err();
        let lines = rule_lines(&request);
        prop_assert_eq!(lines.len(), 2);
        prop_assert!(refusal.is_none_or(|refusal| !refusal.message.is_empty()));
        (request.together, request.budget) = (&[], None);
        if let Ok(Some(earliest)) = earliest_by_notice(&request) {
            let slot = Slot { start: earliest, ..slot };
            prop_assert_eq!(judge(&request, &slot).is_ok(), earliest >= request.now);
        }
    }
}
