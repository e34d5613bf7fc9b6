//! Licences are resource pools of the planners: who waits for one has a guaranteed start, and no
//! two planners give the same one away.
#![allow(clippy::unwrap_used)]

mod world;

use cosy_control::{ClusterConfig, Event, Quotas};
use cosy_model::api::{JobField, Reply, Request, Submission, Table};
use cosy_model::reservation::*;
use cosy_model::*;
use world::*;

fn licensed(names: &[(&str, u32)], nodes: u32) -> ClusterConfig {
    let mut config = config(nodes, 4);
    config.reservations.all_of = Vec::new();
    config.reservations.per_user = Quotas::NONE;
    for (name, count) in names {
        config.licenses.set(name, *count);
    }
    config
}

fn counted(names: &[(&str, u32)]) -> CountedResources {
    let mut licenses = CountedResources::default();
    for (name, count) in names {
        licenses.set(name, *count);
    }
    licenses
}

fn wants(names: &[(&str, u32)], secs: i64) -> JobSpec {
    let mut wants = JobSpec {
        licenses: counted(names),
        time_limit: Some(Span::from_secs(secs)),
        ..spec("wants")
    };
    wants.request.tasks = Some(1);
    wants
}

fn used(world: &mut World, name: &str) -> u32 {
    let Reply::Settings(settings) = world.ask(Request::Settings) else {
        panic!("settings");
    };
    settings
        .licenses
        .iter()
        .find(|l| l.name == name)
        .unwrap()
        .used
}

fn running(world: &mut World, ids: &[u64]) -> Vec<u64> {
    let queue = world.queue();
    let runs = |id: &&u64| {
        let mut jobs = queue.split(' ');
        jobs.any(|job| job.starts_with(&format!("{id}:")) && job.contains(":running"))
    };
    ids.iter().filter(runs).copied().collect()
}

/// Small jobs come all the time and take the licence as soon as it is free; the one that wants both
/// waits for the first two to end and no longer.
#[test]
fn who_wants_all_is_not_passed_for_ever() {
    let mut world = World::new(licensed(&[("l", 2)], 4));
    world.run_time = Span::from_secs(50);
    let first = [
        world.submit(wants(&[("l", 1)], 60)),
        world.submit(wants(&[("l", 1)], 60)),
    ];
    world.deliver_all();
    world.pass(1);
    assert_eq!(running(&mut world, &first), first);
    let all = world.submit(wants(&[("l", 2)], 60));
    let mut late = Vec::new();
    for _ in 0..20 {
        late.push(world.submit(wants(&[("l", 1)], 60)));
        world.deliver_all();
        world.pass(5);
        assert!(used(&mut world, "l") <= 2);
        if running(&mut world, &[all]) == [all] {
            break;
        }
    }
    assert_eq!(running(&mut world, &[all]), [all]);
    assert_eq!(running(&mut world, &late), [0u64; 0], "none of them came between");
}

/// A job that waits for a licence is told which, how many there are, and when it starts.
#[test]
fn who_waits_is_told_for_what() {
    let mut world = World::new(licensed(&[("l", 3)], 4));
    world.run_time = Span::from_secs(1000);
    world.submit(wants(&[("l", 2)], 60));
    world.deliver_all();
    world.pass(1);
    let second = world.submit(wants(&[("l", 2)], 60));
    world.pass(1);
    let lines = world.explained(second);
    let wanted = "of the 3 licences 'l' 2 are in use, and it wants 2";
    assert!(lines.contains(wanted), "{lines}");
    let table: Table = world.jobs(&[JobField::Id, JobField::Reason]);
    let row = format!("{table:?}");
    assert!(row.contains("licenses"), "{row}");
}

/// Jobs inside of a reservation and outside of it never have more than there are, also after the
/// controller has died; [`World::check`] counts what each planner says against what jobs hold.
#[test]
fn inside_and_outside_share_what_there_is() {
    let mut world = World::new(licensed(&[("l", 3)], 4));
    world.run_time = Span::from_secs(20);
    let ask =
        ReservationSpec::plain(whole_nodes(2), Span::from_secs(2000), StartChoice::At(world.now));
    let request = Request::Reserve {
        ask: Box::new(ask),
        hold: false,
        job: None,
    };
    let Reply::Reserved { reservations, .. } = world.ask(request) else {
        panic!("reserved");
    };
    let within = Some(reservations[0].id);
    world.pass(1);
    let mut all = Vec::new();
    for n in 0..12 {
        let spec = JobSpec {
            reservation: within.filter(|_| n % 2 == 0),
            ..wants(&[("l", 1 + n % 2)], 40)
        };
        all.push(world.submit(spec));
    }
    let mut most = 0;
    for second in 0..300 {
        world.deliver_all();
        world.pass(1);
        let have = used(&mut world, "l");
        most = most.max(have);
        assert!(have <= 3, "{have} at {second}");
        if second % 37 == 36 {
            world.crash();
            (0..4).for_each(|n| world.connect(n));
            world.check();
        }
    }
    assert_eq!(most, 3);
    for id in all {
        assert_eq!(world.state_of(id), JobState::Completed, "job {id}");
    }
}

fn root() -> User {
    user(0, "root")
}

fn tell(world: &mut World, license: &str, in_use: u32) -> Reply {
    let license = license.to_owned();
    world.ask_as(root(), None, Request::UseLicense { license, in_use })
}

const TOLD: Reply = Reply::Done {
    changed: 1,
    refused: Vec::new(),
};
const TOLD_AGAIN: Reply = Reply::Done {
    changed: 0,
    refused: Vec::new(),
};

fn license(world: &mut World, name: &str) -> License {
    let Reply::Settings(settings) = world.ask(Request::Settings) else {
        panic!("settings");
    };
    let mut licenses = settings.licenses.into_iter();
    licenses.find(|l| l.name == name).unwrap()
}

/// How many are in use here, outside, and free.
fn figures(world: &mut World, name: &str) -> (u32, u32, u32) {
    let license = license(world, name);
    (license.used, license.outside(), license.free())
}

/// What others have is not there for new jobs, who runs keeps what it holds, and what is given back
/// is there at once.
#[test]
fn use_outside_of_the_cluster_makes_new_jobs_wait() {
    let mut world = World::new(licensed(&[("l", 6)], 4));
    world.run_time = Span::from_secs(1000);
    let first = world.submit(wants(&[("l", 2)], 600));
    world.deliver_all();
    assert_eq!(figures(&mut world, "l"), (2, 0, 4));
    assert_eq!(tell(&mut world, "l", 5), TOLD);
    assert_eq!(figures(&mut world, "l"), (2, 3, 1));
    let second = world.submit(wants(&[("l", 2)], 60));
    world.deliver_all();
    let lines = world.explained(second);
    let sentence =
        "of the 6 licences 'l' 2 are in use and 3 outside of the cluster, and it wants 2";
    assert!(lines.contains(sentence) && !lines.contains("are free"), "{lines}");
    let third = world.submit(wants(&[("l", 1)], 60));
    world.deliver_all();
    assert_eq!(running(&mut world, &[first, second, third]), [first, third], "third ends in time");
    assert_eq!(tell(&mut world, "l", 5), TOLD, "of those five one more is a job's now");
    assert_eq!(figures(&mut world, "l"), (3, 2, 1));
    assert_eq!(tell(&mut world, "l", 4), TOLD);
    world.deliver_all();
    assert_eq!(running(&mut world, &[first, second, third]), [first, second, third]);
    assert_eq!(figures(&mut world, "l"), (5, 1, 0));
    assert_eq!(tell(&mut world, "l", 9), TOLD);
    assert_eq!(running(&mut world, &[first, second, third]), [first, second, third]);
    assert_eq!(figures(&mut world, "l"), (5, 4, 0));
}

/// Source: Slurm's deficit, which is what is in use more than jobs held when it was told.
#[test]
fn what_others_have_is_what_jobs_do_not_hold() {
    let mut world = World::new(licensed(&[("l", 10)], 4));
    world.run_time = Span::from_secs(50);
    world.submit(wants(&[("l", 4)], 60));
    world.deliver_all();
    for (in_use, outside, free) in [(0, 0, 6), (3, 0, 6), (4, 0, 6), (5, 1, 5), (30, 26, 0)] {
        tell(&mut world, "l", in_use);
        assert_eq!(figures(&mut world, "l"), (4, outside, free), "{in_use} in use");
    }
    assert_eq!(tell(&mut world, "l", 6), TOLD);
    world.submit(wants(&[("l", 3)], 20));
    world.deliver_all();
    assert_eq!(figures(&mut world, "l"), (7, 2, 1), "a start takes none from others");
    world.pass(60);
    assert_eq!(figures(&mut world, "l"), (0, 2, 8), "and an end gives none to them");
}

/// Each word is kept with who said it and when; the same word again is not told again.
#[test]
fn what_was_told_is_kept_and_told() {
    let mut world = World::new(licensed(&[("l", 3), ("m", 1)], 4));
    assert_eq!(tell(&mut world, "l", 2), TOLD);
    let before = world.now;
    world.pass(5);
    assert_eq!(tell(&mut world, "l", 2), TOLD_AGAIN);
    tell(&mut world, "m", 1);
    let events = world.store.told_of_licenses.clone();
    let told = |e: &api::HistoryEvent| {
        (e.at, format!("{} {} by {}: {}", e.object, e.what, e.who, e.detail))
    };
    let told: Vec<_> = events.iter().map(told).collect();
    let of = "2 in use, 2 of them outside of the cluster, of 3";
    let of_m = "1 in use, 1 of them outside of the cluster, of 1";
    assert_eq!(
        told,
        [
            (before, format!("license l in_use by root: {of}")),
            (world.now, format!("license m in_use by root: {of_m}")),
        ]
    );
    let waits = world.submit(wants(&[("l", 2)], 60));
    let whole = license(&mut world, "l");
    let last = whole.told.clone().unwrap();
    assert_eq!((last.at, last.by.as_str()), (world.now, "root"), "the last word counts");
    world.crash();
    assert_eq!(license(&mut world, "l"), whole);
    world.connect_all();
    world.pass(2);
    assert_eq!(running(&mut world, &[waits]), [0u64; 0]);
    // A configuration without it, and one in which it is back.
    let mut without = world.config.clone();
    without.licenses.set("l", 0);
    world.event(Event::Reconfigured(Box::new(without)));
    world.event(Event::Reconfigured(Box::new(world.config.clone())));
    assert_eq!(license(&mut world, "l"), whole);
    world.pass(2);
    assert_eq!(running(&mut world, &[waits]), [0u64; 0]);
    tell(&mut world, "l", 0);
    world.deliver_all();
    assert_eq!(running(&mut world, &[waits]), [waits]);
}

#[test]
fn who_may_tell_what() {
    let mut world = World::new(licensed(&[("matlab", 3)], 1));
    let mut check = |who: User, license: &str, code: RefusalCode, want: &str| {
        let license = license.to_owned();
        let request = Request::UseLicense { license, in_use: 1 };
        let Reply::Refused(refusal) = world.ask_as(who, None, request) else {
            panic!("{want}");
        };
        assert_eq!((refusal.code, refusal.message.as_str()), (code, want));
    };
    check(
        user(1000, "u1000"),
        "matlab",
        RefusalCode::Forbidden,
        "only administrators may tell how many licences are in use; u1000 is none",
    );
    check(root(), "matlap", RefusalCode::NotFound, "there is no licence 'matlap': 'matlab' is one");
    check(
        root(),
        "comsol",
        RefusalCode::NotFound,
        "there is no licence 'comsol': 'cadm license list' lists those of [licenses] in cosy.toml",
    );
    assert!(world.store.license_use.is_empty() && world.store.told_of_licenses.is_empty());
    assert_eq!(tell(&mut world, "matlab", u32::MAX), TOLD);
    assert_eq!(figures(&mut world, "matlab"), (0, u32::MAX, 0));
    let mut none = World::new(licensed(&[], 1));
    let Reply::Refused(refusal) = tell(&mut none, "matlab", 1) else {
        panic!("refused");
    };
    assert_eq!(refusal.message, "there is no licence 'matlab': [licenses] of cosy.toml names none");
}

/// Jobs inside of a reservation find as many fewer as those outside.
#[test]
fn inside_of_reservations_others_count_too() {
    let mut world = World::new(licensed(&[("l", 3)], 4));
    world.run_time = Span::from_secs(100);
    let ask =
        ReservationSpec::plain(whole_nodes(2), Span::from_secs(2000), StartChoice::At(world.now));
    let request = Request::Reserve {
        ask: Box::new(ask),
        hold: false,
        job: None,
    };
    let Reply::Reserved { reservations, .. } = world.ask(request) else {
        panic!("reserved");
    };
    let reservation = Some(reservations[0].id);
    world.pass(1);
    tell(&mut world, "l", 2);
    let outside = world.submit(wants(&[("l", 1)], 200));
    let inside = world.submit(JobSpec {
        reservation,
        ..wants(&[("l", 1)], 60)
    });
    world.deliver_all();
    world.pass(1);
    assert_eq!(running(&mut world, &[outside, inside]), [outside]);
    let lines = world.explained(inside);
    let sentence =
        "of the 3 licences 'l' 1 are in use and 2 outside of the cluster, and it wants 1";
    assert!(lines.contains(sentence), "{lines}");
    tell(&mut world, "l", 2);
    world.deliver_all();
    assert_eq!(running(&mut world, &[outside, inside]), [outside, inside]);
    assert_eq!(figures(&mut world, "l"), (2, 1, 0));
}

/// Eight, but three between ten and twenty past each full hour of the day that the world begins in.
fn by_time(world_begins: Time) -> cosy_policy::day_times::DayTimes {
    use cosy_policy::day_times::{DayTimes, Window};
    let usual = DayTimes {
        usual: 8,
        windows: Vec::new(),
        zone: jiff::tz::TimeZone::UTC,
    };
    let minute = (world_begins.since(usual.day_of(world_begins)).ms() / 60_000) as u16;
    let part = |from: u16, count: u32| Window {
        days: Default::default(),
        from: minute + from,
        until: minute + from + 10,
        count,
    };
    DayTimes {
        windows: vec![part(10, 3), part(40, 1)],
        ..usual
    }
}

/// A job that would hold more than there is at a later time of the day waits until it can keep them;
/// shorter ones and those that want less go before it, and planners see days that come nearer.
#[test]
fn there_are_fewer_at_some_times_of_the_day() {
    let begins = World::new(licensed(&[("l", 8)], 4)).now;
    let mut config = licensed(&[("l", 8)], 4);
    config.license_times.insert("l".to_owned(), by_time(begins));
    let mut world = World::new(config);
    world.run_time = Span::from_secs(240);
    world.pass(1);
    let total = |world: &mut World| figures_of(world, "l");
    assert_eq!(total(&mut world), 8);
    let long = world.submit(wants(&[("l", 5)], 900));
    let short = world.submit(wants(&[("l", 5)], 300));
    let few = world.submit(wants(&[("l", 3)], 900));
    world.deliver_all();
    world.pass(1);
    assert_eq!(running(&mut world, &[long, short, few]), [short, few]);
    // Both are over; the long one would be in the way of the ten minutes with three.
    world.pass(400);
    assert_eq!(running(&mut world, &[long, short, few]), [0u64; 0]);
    world.pass(300);
    assert_eq!(total(&mut world), 3);
    let (two, four) = (world.submit(wants(&[("l", 2)], 60)), world.submit(wants(&[("l", 4)], 60)));
    world.deliver_all();
    world.pass(1);
    assert_eq!(running(&mut world, &[two, four]), [two]);
    let lines = world.explained(four);
    assert!(lines.contains("of the 3 licences 'l'"), "{lines}");
    world.crash();
    world.connect_all();
    world.pass(2);
    assert_eq!(total(&mut world), 3);
    assert_eq!(running(&mut world, &[four]), [0u64; 0]);
    world.pass(1000);
    let started = |world: &World, id: u64| world.store.row(id).attempt > Attempt(0);
    assert!(started(&world, long) && started(&world, four), "{}", world.queue());
    // Days have the same times that are farther than planners were told of at the start.
    world.now = world.now + Span::from_secs(20 * 86_400 - 1000);
    world.connect_all();
    world.pass(2);
    assert_eq!(total(&mut world), 3);
    let again = world.submit(wants(&[("l", 4)], 60));
    world.deliver_all();
    world.pass(1);
    assert_eq!(running(&mut world, &[again]), [0u64; 0]);
}

fn figures_of(world: &mut World, name: &str) -> u32 {
    license(world, name).total
}

/// Licences that running jobs hold, by their rows.
fn held(world: &World, specs: &[(u64, u32)]) -> u32 {
    let holds = |(id, count): &(u64, u32)| {
        let row = world.store.jobs.get(&JobId(*id));
        row.filter(|row| row.run.is_some() && row.end.is_none())
            .map(|_| *count)
    };
    specs.iter().filter_map(holds).sum()
}

/// Whatever is told and happens, and wherever the controller dies: what is said to be held is what
/// jobs hold, what others have is what was told last, and nobody starts beyond what is left.
#[test]
fn random_histories_are_counted_exactly() {
    for seed in 0..10 {
        let mut dice = Dice(seed);
        let total = 1 + dice.below(8) as u32;
        let mut world = World::new(licensed(&[("l", total)], 4));
        world.run_time = Span::from_secs(3 + dice.below(20) as i64);
        let (mut specs, mut outside, mut known) = (Vec::new(), 0, Vec::new());
        for step in 0..120 {
            if dice.chance(15) {
                let death = [Death::BeforeCommit, Death::AfterCommit][dice.below(2) as usize];
                world.dies = Some((dice.below(3) as u32, death));
            }
            let before = (held(&world, &specs), world.store.license_use.get("l").cloned());
            match dice.below(10) {
                0..3 => {
                    let count = 1 + dice.below(total.into()) as u32;
                    let request = Request::Submit(Box::new(Submission {
                        spec: wants(&[("l", count)], 30),
                        script: OsText::default(),
                        array: None,
                    }));
                    let next = world.store.submissions.len();
                    world.ask(request);
                    if world.store.submissions.len() > next {
                        let base = *world.store.submissions.last_key_value().unwrap().0;
                        specs.push((base.0, count));
                    }
                }
                3..5 => {
                    let in_use = dice.below(12) as u32;
                    world.now = world.now + Span::from_secs(1);
                    tell(&mut world, "l", in_use);
                    let now = world.store.license_use.get("l").cloned();
                    if now != before.1 {
                        outside = in_use.saturating_sub(before.0);
                    }
                }
                5 if !specs.is_empty() => {
                    let at = dice.below(specs.len() as u64) as usize;
                    let request = cancels(ids(&[specs[at].0]));
                    world.ask_as(root(), None, request);
                }
                _ => world.pass(1 + dice.below(4) as i64),
            }
            world.connect_all();
            let dead = world.dies.take().is_none();
            world.pass(1);
            let got = license(&mut world, "l");
            assert_eq!(got.used, held(&world, &specs), "held, seed {seed} step {step}");
            assert_eq!(got.outside(), outside, "outside, seed {seed} step {step}");
            let runs: Vec<u64> = running(&mut world, &known_ids(&specs));
            let started = runs.iter().any(|id| !known.contains(id));
            let within = got.used + outside <= total;
            assert!(!started || within || dead, "{got:?}, seed {seed} step {step}");
            known = runs;
        }
        assert!(seed > 0 || !specs.is_empty());
    }
}

fn known_ids(specs: &[(u64, u32)]) -> Vec<u64> {
    specs.iter().map(|(id, _)| *id).collect()
}
