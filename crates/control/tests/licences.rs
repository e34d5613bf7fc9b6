//! Licences are resource pools of the planners: who waits for one has a guaranteed start, and no
//! two planners give the same one away.
#![allow(clippy::unwrap_used)]

mod world;

use cosy_control::ClusterConfig;
use cosy_model::api::{JobField, JobRef, Reply, Request, Table};
use cosy_model::reservation::*;
use cosy_model::*;
use world::*;

fn licensed(names: &[(&str, u32)], nodes: u32) -> ClusterConfig {
    let mut config = config(nodes, 4);
    config.reservations.all_of = Vec::new();
    config.reservations.per_user = cosy_control::Quotas {
        open: None,
        share_ppm: None,
        longest: None,
        ahead: None,
        notice: None,
    };
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

fn told(world: &mut World, id: u64) -> String {
    let job = JobRef {
        job: JobId(id),
        task: None,
    };
    let Reply::Explained { lines, .. } = world.ask(Request::Explain { job }) else {
        panic!("explained");
    };
    lines.join("; ")
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
    let lines = told(&mut world, second);
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
