//! What `[reservations]` and `[account.NAME]` come to, and what is wrong with them.

use super::{Config, parse, presets};
use cosy_control::{AccountConfig, EarlyEnd, NoticePolicy, Quotas, ReservationPolicy, Weigh};
use cosy_model::reservation::Rule;
use cosy_model::{Span, Su};
use cosy_sched::appraise::Tariff;
use cosy_sched::notice::{Curve, Share, WaitMultiple};
use std::collections::BTreeMap;
use std::path::Path;

/// Seven lines; the first of `more` is the eighth.
const BASE: &str = r#"[controller]
state_dir = "/s"
socket = "/s/sock"
[[queue]]
name = "day"
[[queue]]
name = "night"
"#;

const EXAMPLE: &str = include_str!("../../../etc/cosy.toml");

fn read(more: &str) -> Config {
    parse(Path::new("x"), &format!("{BASE}{more}")).unwrap_or_else(|f| panic!("{more}\n{f}"))
}

fn cluster(more: &str) -> ReservationPolicy {
    read(more).cluster.reservations
}

fn hours(hours: i64) -> Option<Span> {
    Some(Span::from_secs(hours * 3600))
}

/// The defaults with some things changed.
fn with(change: impl FnOnce(&mut ReservationPolicy)) -> ReservationPolicy {
    let mut policy = ReservationPolicy::default();
    change(&mut policy);
    policy
}

#[test]
fn nothing_said_is_the_default() {
    for more in [
        "",
        "[reservations]\n",
        "[reservations.per_account]\nopen = 'off'\n",
    ] {
        let config = read(more);
        assert_eq!(config.cluster.reservations, ReservationPolicy::default(), "{more}");
        assert!(config.cluster.queue_reservations.is_empty());
        assert!(config.cluster.accounts.is_empty());
    }
}

#[test]
fn the_example_shows_the_defaults() {
    // 'policy' has no default.
    let shown: String = EXAMPLE
        .lines()
        .filter(|line| !line.starts_with("#policy"))
        .map(|line| format!("{}\n", uncommented(line)))
        .collect();
    let plain = parse(Path::new("x"), EXAMPLE).unwrap().cluster;
    let shown = parse(Path::new("x"), &shown).unwrap().cluster;
    assert_eq!(plain.reservations, ReservationPolicy::default());
    assert_eq!(shown.reservations, ReservationPolicy::default());
    assert_eq!(plain.queue_reservations, shown.queue_reservations);
    assert_eq!(plain.policy, shown.policy);
}

/// A line with a key, or the name of a section, behind '#', without it.
fn uncommented(line: &str) -> &str {
    let key = |text: &str| {
        let word = text.split(" = ").next().unwrap_or_default();
        let section = text.starts_with('[') && text.ends_with(']');
        section || text.contains(" = ") && word.bytes().all(|b| b == b'_' || b.is_ascii_lowercase())
    };
    line.strip_prefix('#')
        .filter(|text| key(text))
        .unwrap_or(line)
}

#[test]
fn the_example_names_every_key() {
    let section = EXAMPLE.split("\n[reservations]\n").nth(1).unwrap();
    for key in KEYS {
        let named = section.lines().any(|line| {
            let line = line.trim_start_matches('#');
            line.strip_prefix(key)
                .is_some_and(|rest| rest.starts_with(" = "))
        });
        assert!(named, "{key}");
    }
}

/// Keys of `[reservations]`, of quotas and of accounts.
const KEYS: [&str; 37] = [
    "policy",
    "enabled",
    "all_of",
    "any_of",
    "notice",
    "refuse_above",
    "notice_window",
    "least_requests",
    "weigh",
    "predicted_wait",
    "together",
    "availability",
    "makespan_weight",
    "core_hour",
    "gpu_hour",
    "delay_core_hour",
    "license_hour",
    "delay_cost",
    "price_floor",
    "delay_cap",
    "hold",
    "holds",
    "rehold",
    "no_show",
    "early_end",
    "cancel_fee",
    "low_use",
    "closed",
    "candidates",
    "gap",
    "preempt",
    "open",
    "share",
    "longest",
    "ahead",
    "budget",
    "members",
];

#[test]
fn every_key_does_what_it_says() {
    let text = r#"
[licenses]
matlab = 4
[reservations]
enabled = false
all_of = ["price", "what-if"]
any_of = ["notice", "load"]
notice = [[0, 0.5], [7.5, 1.83], [20, "3"]]
refuse_above = 12.25
notice_window = "3d"
least_requests = 0
weigh = "counts"
predicted_wait = false
together = false
availability = 75.5
makespan_weight = 0
core_hour = 0.1
gpu_hour = 12
delay_core_hour = "0.000001"
license_hour = { matlab = 2.5 }
delay_cost = { day = 2.5, night = 0 }
price_floor = false
delay_cap = "0"
hold = "90s"
holds = 3
rehold = "off"
no_show = "1h"
early_end = "charge"
cancel_fee = false
low_use = "off"
closed = false
candidates = 2000
gap = "1m"
preempt = true
[preemption]
by = ["queue"]
[reservations.per_user]
open = "unlimited"
share = 100
license_share = 40
longest = "off"
ahead = "1d"
notice = "2h"
[reservations.per_account]
open = 7
[reservations.user.ann]
open = 0
[reservations.account.physics]
share = 12.5
"#;
    let per_user = Quotas {
        open: None,
        share_ppm: Some(1_000_000),
        license_share_ppm: Some(400_000),
        longest: None,
        ahead: hours(24),
        notice: hours(2),
    };
    let per_account = Quotas {
        open: Some(7),
        ..Quotas::NONE
    };
    let points = [(0, 500), (750, 1830), (2000, 3000)].map(|(s, m)| (Share(s), WaitMultiple(m)));
    let wanted = ReservationPolicy {
        enabled: false,
        all_of: vec![Rule::Price, Rule::WhatIf],
        any_of: vec![Rule::Notice, Rule::Load],
        notice: NoticePolicy {
            curve: Curve::new(points.to_vec(), Share(1225)).unwrap(),
            window: Span::from_secs(3 * 86_400),
            least_requests: 0,
            weigh: Weigh::Counts,
            predicted_wait: false,
            together: false,
        },
        availability_ppm: 755_000,
        makespan_weight_ppm: 0,
        tariff: Tariff {
            core_hour: Su(100_000),
            gpu_hour: Su::whole(12),
            delay_core_hour: Su(1),
            queue_permille: Vec::new(),
            pool_hour: Vec::new(),
        },
        license_hour: [("matlab".to_owned(), Su(2_500_000))].into(),
        delay_cost: [("day".to_owned(), 2500), ("night".to_owned(), 0)].into(),
        price_floor: false,
        users: BTreeMap::from([(
            "ann".to_owned(),
            Quotas {
                open: Some(0),
                ..per_user.clone()
            },
        )]),
        accounts: BTreeMap::from([(
            "physics".to_owned(),
            Quotas {
                share_ppm: Some(125_000),
                ..per_account.clone()
            },
        )]),
        per_user,
        per_account: Some(per_account),
        delay_cap: Some(Span::ZERO),
        hold: Span::from_secs(90),
        holds: Some(3),
        rehold: None,
        no_show: hours(1),
        early_end: EarlyEnd::Charge,
        cancel_fee: false,
        low_use_ppm: None,
        closed: false,
        candidates: 2000,
        gap: Span::from_minutes(1),
        preempt: true,
    };
    assert_eq!(cluster(text), wanted);
}

#[test]
fn protections_can_be_switched_off_one_by_one() {
    let check = |line: &str, change: fn(&mut ReservationPolicy)| {
        let text = format!("[reservations]\n{line}\n");
        assert_eq!(cluster(&text), with(change), "{line}");
        assert_ne!(cluster(&text), ReservationPolicy::default(), "{line}");
    };
    check("predicted_wait = false", |p| p.notice.predicted_wait = false);
    check("together = false", |p| p.notice.together = false);
    check("weigh = 'counts'", |p| p.notice.weigh = Weigh::Counts);
    check("price_floor = false", |p| p.price_floor = false);
    check("delay_cap = 'off'", |p| p.delay_cap = None);
    check("holds = 'off'", |p| p.holds = None);
    check("rehold = 'unlimited'", |p| p.rehold = None);
    check("no_show = 'off'", |p| p.no_show = None);
    check("cancel_fee = false", |p| p.cancel_fee = false);
    check("low_use = 'off'", |p| p.low_use_ppm = None);
    check("closed = false", |p| p.closed = false);
    check("per_user.open = 'off'", |p| p.per_user.open = None);
    check("per_user.share = 'off'", |p| p.per_user.share_ppm = None);
    check("per_user.license_share = 0", |p| p.per_user.license_share_ppm = Some(0));
    check("per_user.longest = 'off'", |p| p.per_user.longest = None);
    check("per_user.ahead = 'off'", |p| p.per_user.ahead = None);
}

#[test]
fn what_calibration_writes_is_understood() {
    let points = vec![
        (Share(0), WaitMultiple::ONE),
        (Share(1234), WaitMultiple(2_345)),
    ];
    let curve = Curve::new(points, Share::percent(30)).unwrap();
    let read = cluster(&curve.to_toml());
    assert_eq!(read, with(|p| p.notice.curve = curve.clone()));
    let paper = cluster(&Curve::default().to_toml());
    assert_eq!(paper, ReservationPolicy::default());
    let above = cluster("[reservations]\nrefuse_above = 10\n").notice.curve;
    assert_eq!(above.refuse_above(), Share::percent(10));
    assert_eq!(above.points(), Curve::default().points());
}

#[test]
fn queues_have_rules_of_their_own() {
    let text = "[queue.reservations]\nenabled = false\nper_user.longest = '4h'\n\
                [reservations]\nall_of = ['price']\nhold = '1m'\n\
                [reservations.user.ann]\nopen = 9\n";
    let config = read(text).cluster;
    assert_eq!(config.queue_reservations.keys().collect::<Vec<_>>(), ["night"]);
    let ann = |p: &mut ReservationPolicy| {
        let quotas = Quotas {
            open: Some(9),
            ..p.per_user.clone()
        };
        p.users = BTreeMap::from([("ann".to_owned(), quotas)]);
    };
    let wanted = with(|p| {
        p.all_of = vec![Rule::Price];
        p.hold = Span::from_minutes(1);
        ann(p);
    });
    assert_eq!(config.reservations, wanted);
    let mut night = wanted;
    night.enabled = false;
    night.per_user.longest = hours(4);
    // What is said of ann stays, the rest is as for all others of that queue.
    ann(&mut night);
    assert_eq!(config.queue_reservations["night"], night);
}

#[test]
fn a_policy_starts_anew() {
    let text = "[queue.reservations]\npolicy = 'academic'\nholds = 7\n\
                [reservations]\nhold = '1m'\n[reservations.user.ann]\nopen = 9\n";
    let night = &read(text).cluster.queue_reservations["night"];
    let mut wanted = cluster("[reservations]\npolicy = 'academic'\n");
    wanted.holds = Some(7);
    assert_eq!(*night, wanted);
}

#[test]
fn ready_policies() {
    let check = |name: &str, wanted: ReservationPolicy| {
        let text = format!("[reservations]\npolicy = '{name}'\n");
        assert_eq!(cluster(&text), wanted, "{name}");
    };
    let free = |p: &mut ReservationPolicy| {
        p.tariff.delay_core_hour = Su::ZERO;
        p.price_floor = false;
    };
    check(
        "academic",
        with(|p| {
            free(p);
            p.notice.weigh = Weigh::Counts;
            p.notice.predicted_wait = false;
            p.notice.together = false;
            p.per_user = Quotas::NONE;
            p.delay_cap = None;
            p.holds = None;
            p.rehold = None;
            p.no_show = None;
            p.cancel_fee = false;
            p.low_use_ppm = None;
        }),
    );
    check("priced", with(|p| p.all_of = vec![Rule::Price]));
    let centre = |p: &mut ReservationPolicy| {
        free(p);
        p.all_of.clear();
        p.early_end = EarlyEnd::Charge;
    };
    check(
        "centre-96h",
        with(|p| {
            centre(p);
            p.per_user = Quotas {
                open: Some(4),
                share_ppm: Some(150_000),
                license_share_ppm: None,
                longest: hours(168),
                ahead: hours(90 * 24),
                notice: hours(96),
            };
        }),
    );
    check(
        "centre-72h",
        with(|p| {
            centre(p);
            p.per_user.notice = hours(72);
        }),
    );
    assert_eq!(presets::BUILT_IN.len(), 4, "each is checked here");
}

#[test]
fn a_policy_may_be_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("cosy.toml");
    let write = |text: &str| std::fs::write(dir.path().join("ours.toml"), text).unwrap();
    let text = format!("{BASE}[reservations]\npolicy = 'ours.toml'\nholds = 4\n");
    write(&Curve::default().to_toml().replace("15", "30"));
    let read = parse(&config, &text).unwrap().cluster.reservations;
    assert_eq!(read.notice.curve.refuse_above(), Share::percent(30));
    assert_eq!(read.holds, Some(4));
    write("[reservations]\nhold = 'soon'\npolicy = 'priced'\ncolour = 1\n");
    let faults = parse(&config, &text).unwrap_err().0;
    let at = |line: usize| format!("{}:{line}:", dir.path().join("ours.toml").display());
    assert_eq!(faults.len(), 3, "{faults:?}");
    for (fault, line) in faults.iter().zip(2..) {
        assert!(fault.starts_with(&at(line)), "{faults:?}");
    }
}

#[test]
fn preempt_that_could_never_do_anything_is_a_fault() {
    let check = |day: &str, more: &str, want: Option<&str>| {
        let text = format!("{BASE}{day}[queue.reservations]\npreempt = true\n{more}");
        let faults = parse(Path::new("x"), &text)
            .err()
            .map(|faults| faults.0.join("\n"));
        match want {
            Some(want) => assert!(faults.is_some_and(|told| told.contains(want)), "{more}: {want}"),
            None => assert_eq!(faults, None, "{more}"),
        }
    };
    let by_queue = "[preemption]\nby = ['queue']\n";
    check("priority = 1\n", by_queue, None);
    check("priority = 1\n", "", Some("nobody may preempt here"));
    check("", by_queue, Some("no queue has a lower one than 'night' (0)"));
    let suspends = format!("{by_queue}mode = 'suspend'\n");
    check("priority = 1\n", &suspends, Some("are suspended or spared"));
    check("", "[preemption]\nby = ['qos']\n", None);
    let on = |more: &str| {
        parse(Path::new("x"), &format!("{BASE}[reservations]\npreempt = true\n{more}"))
    };
    let told = on("").unwrap_err().0;
    assert!(told[0].starts_with("x:9: preempt = true"), "{told:?}");
    assert!(on(by_queue).unwrap().cluster.reservations.preempt);
    // Off again for one queue.
    let text = format!(
        "[queue.reservations]\npreempt = false\n[reservations]\npreempt = true\n{by_queue}"
    );
    assert!(!read(&text).cluster.queue_reservations["night"].preempt);
}

#[test]
fn faults_are_all_told_with_their_lines() {
    // Line 8 is the header.
    let check = |lines: &str, wanted: &[(usize, &str)]| {
        let text = format!("{BASE}[reservations]\n{lines}");
        let faults = parse(Path::new("x"), &text).unwrap_err().0;
        assert_eq!(faults.len(), wanted.len(), "{lines}: {faults:?}");
        for (fault, (line, what)) in faults.iter().zip(wanted) {
            let place = format!("x:{line}: ");
            assert!(fault.starts_with(&place) && fault.contains(what), "{fault} lacks {what}");
        }
    };
    check("colour = 1\n", &[(9, "unknown field `colour`")]);
    check("all_of = ['notise']\n", &[(9, "'notise' is no rule: use notice, what-if, load, price")]);
    check("all_of = ['load', 'load']\n", &[(9, "'load' is there twice")]);
    check("any_of = ['notice']\n", &[(9, "'notice' is in all_of and in any_of")]);
    check("notice = 4\n", &[(9, "notice is a list")]);
    check("notice = [[0, 1], [15]]\n", &[(9, "notice is a list")]);
    check("notice = [[0, 1.0001]]\n", &[(9, "at most 2 and 3 decimals")]);
    check("notice = [[5, 1], [5, 2]]\n", &[(9, "not above the one before it")]);
    check("notice = [[0, 4], [5, 2]]\n", &[(9, "less than at the point before")]);
    check("notice = []\n", &[(9, "1 to 100 points")]);
    check("refuse_above = 101\n", &[(9, "101 is no share")]);
    check("refuse_above = -1\n", &[(9, "-1 is no share")]);
    check("availability = nan\n", &[(9, "is no share")]);
    check("low_use = true\n", &[(9, "true is no share")]);
    check("core_hour = -0.5\n", &[(9, "-0.5 is no sum")]);
    check("core_hour = 1e300\n", &[(9, "no sum")]);
    check("core_hour = 1e-7\n", &[(9, "no sum")]);
    check(
        "delay_cost = { dusk = 1, day = -1 }\n",
        &[(9, "-1 is no weight"), (9, "no queue 'dusk'")],
    );
    check("license_hour = { matlab = -1 }\n", &[(9, "-1 is no sum"), (9, "names no licence")]);
    check("hold = 'soon'\n", &[(9, "'soon' is no length of time")]);
    check("hold = 5\n", &[(9, "5 is no length of time: use text")]);
    check("hold = '0s'\n", &[(9, "longer than 0")]);
    check("hold = 'unlimited'\n", &[(9, "must have an end")]);
    check("holds = 'two'\n", &[(9, "is no number of things")]);
    check("holds = -1\n", &[(9, "-1 is no number")]);
    check("candidates = 0\n", &[(9, "between 1 and 2000")]);
    check("candidates = 2001\n", &[(9, "between 1 and 2000")]);
    check("weigh = 'mass'\n", &[(9, "'mass': use \"counts\" or")]);
    check("early_end = 'keep'\n", &[(9, "'keep': use \"refund\" or \"charge\"")]);
    check(
        "policy = 'nice'\n",
        &[(9, "no policy 'nice': use academic, priced, centre-96h, centre-72h")],
    );
    check(
        "gap = '0s'\nno_show = 'x'\n[reservations.per_user]\nshare = 200\n\
         [reservations.user.bob]\nopen = 1.5\nsize = 1\n[queue.reservations]\nall_of = ['x']\n",
        &[(9, ""), (10, ""), (12, ""), (14, ""), (15, ""), (17, "")],
    );
}

#[test]
fn accounts() {
    let text = "[account.physics]\nmembers = ['ann', '@lab']\nbudget = 5000.5\n\
                [account.\"a b\"]\n[account.open]\n";
    let faults = |text: &str| {
        parse(Path::new("x"), &format!("{BASE}{text}"))
            .unwrap_err()
            .0
    };
    assert!(faults(text)[0].starts_with("x:11: an account's name"), "{:?}", faults(text));
    let config = read(&text.replace("\"a b\"", "art"));
    let none = AccountConfig::default();
    let physics = AccountConfig {
        members: vec!["ann".into(), "@lab".into()],
        budget: Some(Su(5_000_500_000)),
    };
    let wanted = [("art", none.clone()), ("open", none), ("physics", physics)];
    let wanted: BTreeMap<_, _> = wanted.map(|(n, a)| (n.to_owned(), a)).into();
    assert_eq!(config.cluster.accounts, wanted);
    let check = |text: &str, what: &str| {
        let got = faults(text);
        assert_eq!(got.len(), 1, "{got:?}");
        assert!(got[0].contains(what), "{got:?}");
    };
    check("[account.income]\n", "book of the ledger");
    check("[account.grants]\n", "book of the ledger");
    check("[account.\"a:held\"]\n", "without spaces, ',', ':' and '@'");
    check("[account.\"@lab\"]\n", "without spaces, ',', ':' and '@'");
    check("[account.a]\nbudget = -1\n", "no sum of service units");
    check("[account.a]\nbudget = 1000000000001\n", "no sum of service units");
    check("[account.a]\nmembers = ['@']\n", "'@' is no member");
    check("[account.a]\nmembers = []\n", "leave 'members' out for everybody");
    check("[account.a]\nmembers = ['']\n", "'' is no member");
    check("[account.a]\nowner = 'ann'\n", "unknown field");
}

#[test]
fn nodes_are_counted_on_after_grace_and_a_little() {
    let clearance = |more: &str| read(more).cluster.policy.clearance;
    assert_eq!(clearance(""), Span::from_secs(7));
    assert_eq!(clearance("[policy]\ngrace = '30s'\n"), Span::from_secs(32));
    assert_eq!(clearance("[policy]\nclearance = '1m'\n"), Span::from_minutes(1));
}
