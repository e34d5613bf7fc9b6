//! Reservations keep licences: for the jobs inside, from others, at a price.
#![allow(clippy::unwrap_used)]

mod world;

use cosy_control::{ClusterConfig, Event, Quotas};
use cosy_model::api::{Reply, Request};
use cosy_model::reservation::*;
use cosy_model::*;
use world::*;

/// Nodes of four cores, and so many licences `l`.
fn licensed(count: u32, nodes: u32) -> ClusterConfig {
    let mut config = config(nodes, 4);
    let policy = &mut config.reservations;
    policy.all_of = Vec::new();
    policy.price_floor = false;
    policy.per_user = Quotas::NONE;
    config.licenses.set("l", count);
    config
}

fn counted(count: u32) -> CountedResources {
    let mut licenses = CountedResources::default();
    licenses.set("l", count);
    licenses
}

fn wants(count: u32, secs: i64) -> JobSpec {
    let mut wants = JobSpec {
        licenses: counted(count),
        time_limit: Some(Span::from_secs(secs)),
        ..spec("wants")
    };
    wants.request.tasks = Some(1);
    wants
}

fn inside(id: ReservationId, job: JobSpec) -> JobSpec {
    JobSpec {
        reservation: Some(id),
        ..job
    }
}

/// One node with so many licences.
fn asks(count: u32, pick: StartChoice, secs: i64) -> ReservationSpec {
    ReservationSpec {
        licenses: counted(count),
        ..ReservationSpec::plain(whole_nodes(1), Span::from_secs(secs), pick)
    }
}

fn at(world: &World, secs: i64) -> StartChoice {
    StartChoice::At(world.now + Span::from_secs(secs))
}

fn reserve(world: &mut World, ask: ReservationSpec) -> Result<ReservationInfo, Refusal> {
    let request = Request::Reserve {
        ask: Box::new(ask),
        hold: false,
        job: None,
    };
    match world.ask(request) {
        Reply::Reserved { reservations, .. } => Ok(reservations[0].clone()),
        Reply::Refused(refusal) => Err(refusal),
        other => panic!("{other:?}"),
    }
}

fn running(world: &World, ids: &[u64]) -> Vec<u64> {
    let runs = |id: &&u64| {
        let row = world.store.jobs.get(&JobId(**id));
        row.is_some_and(|row| row.run.is_some() && row.end.is_none())
    };
    ids.iter().filter(runs).copied().collect()
}

/// Of `l`: used, kept by reservations, of these used, free.
fn figures(world: &mut World) -> (u32, u32, u32, u32) {
    let Reply::Settings(settings) = world.ask(Request::Settings) else {
        panic!("settings");
    };
    let one = &settings.licenses[0];
    (one.used, one.reserved, one.reserved_in_use, one.free())
}

#[test]
fn a_slot_keeps_licences_for_the_jobs_inside() {
    let mut world = World::new(licensed(3, 4));
    world.run_time = Span::from_secs(50);
    let ask = asks(2, at(&world, 100), 1000);
    let slot = reserve(&mut world, ask).unwrap();
    assert_eq!(slot.licenses, counted(2));
    // Who ends in time takes them before; who would not takes what is left beside.
    let short = world.submit(wants(2, 60));
    let long = world.submit(wants(2, 600));
    let small = world.submit(wants(1, 600));
    world.deliver_all();
    world.pass(1);
    assert_eq!(running(&world, &[short, long, small]), [short, small]);
    assert_eq!(figures(&mut world), (3, 0, 0, 0));
    world.pass(100);
    assert_eq!(figures(&mut world), (0, 2, 0, 1), "nobody is inside yet");
    let own = world.submit(inside(slot.id, wants(2, 60)));
    let other = world.submit(wants(1, 60));
    world.deliver_all();
    world.pass(1);
    assert_eq!(running(&world, &[own, other, long]), [own, other]);
    assert!(
        world
            .explained(long)
            .contains("of the 3 licences 'l' 3 are in use, and")
    );
    assert_eq!(figures(&mut world), (3, 2, 2, 0), "what is used inside is not kept beside");
    // They go back to the slot, not to those outside.
    world.pass(60);
    let sentence =
        "of the 3 licences 'l' 0 are in use, 2 are kept for reservations, and it wants 2";
    let lines = world.explained(long);
    assert!(lines.contains(sentence) && !lines.contains("are free"), "{lines}");
    assert_eq!(running(&world, &[long]), [0u64; 0]);
    assert_eq!(figures(&mut world), (0, 2, 0, 1));
    world.pass(1000);
    assert_eq!(world.state_of(long), JobState::Completed, "after the slot");
    assert_eq!(figures(&mut world), (0, 0, 0, 3));
}

/// A job inside that wants more than is kept takes the rest of what is there for everybody.
#[test]
fn more_than_is_kept_comes_from_what_is_there_for_all() {
    let mut world = World::new(licensed(3, 4));
    world.run_time = Span::from_secs(1000);
    let ask = asks(1, at(&world, 0), 1000);
    let slot = reserve(&mut world, ask).unwrap();
    world.pass(1);
    let own = world.submit(inside(slot.id, wants(2, 600)));
    world.deliver_all();
    assert_eq!(running(&world, &[own]), [own]);
    assert_eq!(figures(&mut world), (2, 1, 1, 1));
    let two = world.submit(wants(2, 60));
    let one = world.submit(wants(1, 60));
    world.deliver_all();
    assert_eq!(running(&world, &[two, one]), [one]);
    assert_eq!(figures(&mut world), (3, 1, 1, 0));
    let more = world.submit(inside(slot.id, wants(1, 60)));
    world.deliver_all();
    assert_eq!(running(&world, &[more]), [0u64; 0], "none is there, kept or not");
}

/// The head inside waits for what its own reservation keeps: that is in nobody's way outside.
#[test]
fn a_place_inside_is_counted_once() {
    let mut world = World::new(licensed(3, 4));
    world.run_time = Span::from_secs(1000);
    let ask = asks(2, at(&world, 0), 2000);
    let slot = reserve(&mut world, ask).unwrap();
    world.pass(1);
    let first = world.submit(inside(slot.id, wants(2, 200)));
    world.deliver_all();
    let second = world.submit(inside(slot.id, wants(2, 200)));
    world.deliver_all();
    world.pass(1);
    let outside = world.submit(wants(1, 500));
    world.deliver_all();
    assert_eq!(running(&world, &[first, second, outside]), [first, outside]);
    assert_eq!(figures(&mut world), (3, 2, 2, 0));
}

#[test]
fn only_slots_with_free_licences_are_offered() {
    let mut world = World::new(licensed(3, 4));
    world.run_time = Span::from_secs(1000);
    let holder = world.submit(wants(2, 600));
    world.deliver_all();
    assert_eq!(running(&world, &[holder]), [holder]);
    let frees = world.now + Span::from_secs(600) + world.config.policy.clearance;
    let soon = asks(2, at(&world, 100), 200);
    let refusal = reserve(&mut world, soon.clone()).unwrap_err();
    assert_eq!(refusal.code, RefusalCode::NotFree);
    let why = "not enough licences 'l' are free from";
    let how =
        "of the 3 there are, running jobs and accepted reservations hold 2, and 2 are asked for";
    let text = &refusal.message;
    assert!(text.starts_with(why) && text.contains(how), "{text}");
    assert!(text.contains("; enough are free from "), "{text}");
    let told = world.quote(soon);
    assert!(!told.slots[0].feasible && told.slots[0].reason == *text, "{told:?}");
    // Its nodes are free all the time: the licences alone say when.
    let told = world.quote(asks(2, StartChoice::Soonest, 200));
    let choice = &told.slots[told.choice.unwrap() as usize];
    assert!(choice.start >= frees && choice.start < frees + Span::from_secs(1), "{choice:?}");
    assert_eq!(told.licenses, counted(2));
    let first = reserve(&mut world, asks(2, StartChoice::Soonest, 200)).unwrap();
    assert_eq!(first.start, choice.start);
    // Beside another reservation what is left counts.
    let second = reserve(&mut world, asks(2, StartChoice::Soonest, 200)).unwrap();
    assert_eq!(second.start, first.end);
    let third = reserve(&mut world, asks(1, StartChoice::Soonest, 200)).unwrap();
    assert!(third.start < first.start, "one is free at once");
}

#[test]
fn what_cannot_be_is_refused() {
    let mut world = World::new(licensed(3, 4));
    let mut check = |name: &str, count: u32, want: &str| {
        let mut ask = asks(0, at(&world, 100), 100);
        ask.licenses.set(name, count);
        let Reply::Refused(quoted) = world.ask(quotes(ask.clone())) else {
            panic!("{want}");
        };
        let booked = reserve(&mut world, ask).unwrap_err();
        assert_eq!((quoted.message.as_str(), booked.message.as_str()), (want, want));
        assert_eq!(booked.code, RefusalCode::NeverFits);
    };
    check("m", 1, "there is no licence 'm': 'l' is one");
    check(
        "comsol",
        1,
        "there is no licence 'comsol': 'cadm license list' lists those of [licenses] in cosy.toml",
    );
    check("l", 4, "4 licences 'l' are more than the 3 there are");
    check("l", u32::MAX, "4294967295 licences 'l' are more than the 3 there are");
    assert!(world.store.reservations.is_empty());
}

#[test]
fn licences_have_a_price() {
    let mut config = licensed(3, 4);
    config.reservations.tariff.core_hour = Su::whole(3600);
    config.reservations.tariff.delay_core_hour = Su::ZERO;
    let free = config.clone();
    config
        .reservations
        .license_hour
        .insert("l".to_owned(), Su::whole(7200));
    for (config, each) in [(config, 2), (free, 0)] {
        let mut world = World::new(config);
        let ask = asks(3, at(&world, 100), 50);
        let slot = world.quote(ask.clone()).slots.remove(0);
        let price = Su::whole(50 * 3 * each);
        assert_eq!((slot.license_price, slot.base), (price, Su::whole(50 * 4).plus(price)));
        let booked = reserve(&mut world, ask).unwrap();
        assert_eq!(booked.base, slot.base);
        let by = Span::from_secs(50);
        let request = Request::ExtendReservation {
            id: booked.id,
            by,
            max_price: None,
        };
        let Reply::Reserved { reservations, .. } = world.ask(request) else {
            panic!("longer");
        };
        assert_eq!(reservations[0].base, slot.base.plus(slot.base), "twice as long");
        let ask = asks(0, at(&world, 500), 50);
        let without = world.quote(ask);
        assert_eq!(without.slots[0].base, Su::whole(200));
    }
}

/// Cancelled, shortened, ended: what was kept is there for others at once. An extension needs them.
#[test]
fn what_is_given_back_is_there_for_others() {
    let mut world = World::new(licensed(2, 4));
    world.run_time = Span::from_secs(30);
    let ask = asks(2, at(&world, 0), 1000);
    let slot = reserve(&mut world, ask).unwrap();
    let mut ask = asks(1, at(&world, 1500), 100);
    ask.request.avoid = vec![slot.nodes.clone()];
    let next = reserve(&mut world, ask).unwrap();
    world.pass(1);
    let extends = |world: &mut World, secs: i64| {
        world.ask(Request::ExtendReservation {
            id: slot.id,
            by: Span::from_secs(secs),
            max_price: None,
        })
    };
    let Reply::Refused(refusal) = extends(&mut world, 600) else {
        panic!("the next one keeps one of two");
    };
    assert!(refusal.message.starts_with("not enough licences 'l'"), "{refusal}");
    assert!(matches!(extends(&mut world, 400), Reply::Reserved { .. }));
    let waits = world.submit(wants(2, 300));
    world.deliver_all();
    world.pass(10);
    assert_eq!(running(&world, &[waits]), [0u64; 0]);
    let end = world.now + Span::from_secs(100);
    world.ask(Request::ShortenReservation { id: slot.id, end });
    world.pass(99);
    assert_eq!(running(&world, &[waits]), [0u64; 0]);
    world.pass(2);
    assert_eq!(running(&world, &[waits]), [waits]);
    let far = world.submit(wants(2, 3000));
    world.pass(60);
    assert_eq!(running(&world, &[far]), [0u64; 0], "it would run into the next slot");
    world.ask(Request::CancelReservation {
        ids: vec![next.id],
        series: false,
    });
    world.pass(1);
    assert_eq!(running(&world, &[far]), [far]);
    assert_eq!(figures(&mut world), (2, 0, 0, 0));
}

fn root_changes(world: &mut World, id: ReservationId, licenses: CountedResources) -> Reply {
    let change = ReservationAlteration {
        licenses: Some(licenses),
        ..ReservationAlteration::default()
    };
    root_alters(world, id, change)
}

fn root_alters(world: &mut World, id: ReservationId, change: ReservationAlteration) -> Reply {
    let change = Box::new(change);
    world.ask_as(user(0, "root"), None, Request::AlterReservation { id, change })
}

fn kept(world: &World, id: ReservationId) -> CountedResources {
    world.store.reservations[&id].ask.licenses.clone()
}

fn refused(reply: Reply) -> (RefusalCode, String) {
    match reply {
        Reply::Refused(refusal) => (refusal.code, refusal.message),
        other => panic!("{other:?}"),
    }
}

/// An administrator gives a reservation other licences, as far as they are free, and it stays so.
#[test]
fn licences_can_be_changed() {
    let mut world = World::new(licensed(4, 4));
    world.run_time = Span::from_secs(500);
    let ask = asks(1, at(&world, 100), 1000);
    let slot = reserve(&mut world, ask).unwrap();
    let ask = asks(2, at(&world, 500), 100);
    let other = reserve(&mut world, ask).unwrap();
    let owner = world.ask(Request::AlterReservation {
        id: slot.id,
        change: Box::new(ReservationAlteration {
            licenses: Some(counted(2)),
            ..ReservationAlteration::default()
        }),
    });
    assert_eq!(refused(owner).0, RefusalCode::Forbidden);
    let (code, text) = refused(root_changes(&mut world, slot.id, counted(5)));
    assert_eq!(code, RefusalCode::NeverFits);
    assert!(text.contains("5 licences 'l' are more than the 4 there are"), "{text}");
    let mut odd = CountedResources::default();
    odd.set("m", 1);
    let (code, text) = refused(root_changes(&mut world, slot.id, odd));
    assert_eq!((code, text.contains("there is no licence 'm'")), (RefusalCode::NeverFits, true));
    let (code, text) = refused(root_changes(&mut world, slot.id, counted(3)));
    assert_eq!(code, RefusalCode::NotFree);
    let figures_told =
        "reservation 1 keeps 1 of 4 licences 'l', and the 2 more that are asked for are not free";
    assert!(text.contains(figures_told), "{text}");
    assert_eq!(kept(&world, slot.id), counted(1));
    let gone = refused(root_changes(&mut world, ReservationId(99), counted(1)));
    assert_eq!(gone.0, RefusalCode::NotFound);

    let reply = root_changes(&mut world, slot.id, counted(2));
    assert!(matches!(reply, Reply::Reserved { .. }), "{reply:?}");
    world.crash();
    assert_eq!(kept(&world, slot.id), counted(2));
    world.pass(101);
    assert_eq!(figures(&mut world), (0, 2, 0, 2));
    // What the second one has given back is there, also while the first one has begun.
    root_changes(&mut world, other.id, CountedResources::default());
    assert_eq!(kept(&world, other.id), CountedResources::default());
    let reply = root_changes(&mut world, slot.id, counted(4));
    assert!(matches!(reply, Reply::Reserved { .. }), "{reply:?}");
    assert_eq!(figures(&mut world), (0, 4, 0, 0));
}

/// With fewer kept, what jobs inside hold beyond that is held as by jobs outside; with more, it is
/// drawn from what is kept.
#[test]
fn licences_can_be_changed_beside_jobs_inside() {
    let mut world = World::new(licensed(4, 4));
    world.run_time = Span::from_secs(500);
    let ask = asks(3, at(&world, 10), 1000);
    let slot = reserve(&mut world, ask).unwrap();
    world.pass(11);
    let own = world.submit(inside(slot.id, wants(3, 600)));
    world.deliver_all();
    world.pass(1);
    assert_eq!(figures(&mut world), (3, 3, 3, 1));
    for (kept, drawn) in [(1, 1), (2, 2), (0, 0), (1, 1)] {
        let reply = root_changes(&mut world, slot.id, counted(kept));
        assert!(matches!(reply, Reply::Reserved { .. }), "{reply:?}");
        assert_eq!(figures(&mut world), (3, kept, drawn, 1), "{kept}");
    }
    let waits = world.submit(wants(2, 60));
    let fits = world.submit(wants(1, 60));
    world.deliver_all();
    world.pass(1);
    assert_eq!(running(&world, &[own, waits, fits]), [own, fits]);
    let (code, text) = refused(root_changes(&mut world, slot.id, counted(4)));
    assert_eq!(code, RefusalCode::NotFree, "{text}");
    assert_eq!(figures(&mut world), (4, 1, 1, 0));
    // All four are in use; three of them the job inside has, two of these out of what was free.
    let reply = root_changes(&mut world, slot.id, counted(3));
    assert!(matches!(reply, Reply::Reserved { .. }), "{reply:?}");
    assert_eq!(figures(&mut world), (4, 3, 3, 0));
    world.crash();
    assert_eq!(figures(&mut world), (4, 3, 3, 0));
}

/// Jobs inside run on the nodes of their reservation: one without any is told so.
#[test]
fn licences_are_not_reserved_alone() {
    let mut world = World::new(licensed(4, 1));
    let mut ask = asks(2, at(&world, 100), 100);
    ask.request.nodes = Some(0);
    let (code, text) = refused(world.ask(quotes(ask)));
    assert_eq!(code, RefusalCode::Invalid);
    assert!(text.contains("with -N or -n beside -L"), "{text}");
}

fn alteration(
    licenses: Option<u32>,
    end: Option<Time>,
    user: Option<&str>,
) -> ReservationAlteration {
    let users = NamesChange {
        add: user.map(str::to_owned).into_iter().collect(),
        ..NamesChange::default()
    };
    ReservationAlteration {
        end,
        licenses: licenses.map(counted),
        sharing: SharingChange {
            users,
            ..SharingChange::default()
        },
    }
}

/// End, licences and users are changed together, or nothing is, whichever of them cannot be.
#[test]
fn several_changes_are_done_together_or_not_at_all() {
    let mut world = World::new(licensed(4, 4));
    world.run_time = Span::from_secs(500);
    let ask = asks(1, at(&world, 100), 1000);
    let slot = reserve(&mut world, ask).unwrap();
    let ask = asks(2, at(&world, 500), 100);
    reserve(&mut world, ask).unwrap();
    let ask = asks(3, at(&world, 1400), 100);
    let last = reserve(&mut world, ask).unwrap();
    let known = |world: &World| {
        let row = &world.store.reservations[&slot.id];
        let users = row.ask.sharing.users.clone();
        (row.ask.licenses.get("l"), row.end, row.ask.length, users)
    };
    let before = known(&world);
    let stays = |world: &mut World, change: ReservationAlteration, want: RefusalCode| {
        let (code, text) = refused(root_alters(world, slot.id, change));
        assert_eq!(code, want, "{text}");
        assert_eq!(known(world), before);
    };
    let (start, end) = (slot.start, slot.end);
    let (shorter, longer) = (end - Span::from_secs(100), end + Span::from_secs(200));
    let too_far = last.end;
    // Licences that are not free stop the rest: an earlier end, a later one and a user.
    stays(&mut world, alteration(Some(3), Some(shorter), Some("u1")), RefusalCode::NotFree);
    stays(&mut world, alteration(Some(3), Some(longer), Some("u1")), RefusalCode::NotFree);
    stays(&mut world, alteration(Some(3), None, Some("u1")), RefusalCode::NotFree);
    // So does an end that cannot be: before the start, or in the time of what another keeps.
    stays(&mut world, alteration(Some(2), Some(start), Some("u1")), RefusalCode::Invalid);
    stays(&mut world, alteration(Some(2), Some(too_far), Some("u1")), RefusalCode::NotFree);
    let users = "u".repeat(limits::NAME_BYTES + 1);
    stays(&mut world, alteration(Some(2), Some(shorter), Some(&users)), RefusalCode::Invalid);

    let altered = |world: &mut World, change| {
        let reply = root_alters(world, slot.id, change);
        assert!(matches!(reply, Reply::Reserved { .. }), "{reply:?}");
        known(world)
    };
    let length = longer.since(start);
    let now = altered(&mut world, alteration(Some(2), Some(longer), Some("u1")));
    assert_eq!(now, (2, longer, length, vec!["u1".to_owned()]));
    world.crash();
    assert_eq!(known(&world), now);
    // Up to an end before the other one begins, all of them are free.
    let early = slot.start + Span::from_secs(300);
    let now = altered(&mut world, alteration(Some(4), Some(early), Some("u2")));
    let users = ["u1", "u2"].map(str::to_owned).to_vec();
    assert_eq!(now, (4, early, Span::from_secs(300), users));
    // The same end is none, and who is not an administrator may share and not change licences.
    let change = Box::new(alteration(Some(1), Some(early), Some("u3")));
    let id = slot.id;
    let (code, _) = refused(world.ask(Request::AlterReservation { id, change }));
    assert_eq!((code, known(&world)), (RefusalCode::Forbidden, now));
    let change = Box::new(alteration(None, Some(early), Some("u3")));
    let reply = world.ask(Request::AlterReservation { id, change });
    assert!(matches!(reply, Reply::Reserved { .. }), "{reply:?}");
    assert_eq!(known(&world).3.len(), 3);
}

/// A price has the licences in it, and a workflow plans its slots.
#[test]
fn licences_that_were_paid_stay() {
    let mut config = licensed(4, 2);
    config.reservations.tariff.core_hour = Su::whole(3600);
    let mut world = World::new(config);
    let account = Request::AccountControl {
        name: "a".into(),
        action: AccountAction::Create {
            members: vec!["u1000".into()],
            budget: Some(Su::whole(1_000_000)),
        },
    };
    let made = world.ask_as(user(0, "root"), None, account);
    assert!(!matches!(made, Reply::Refused(_)), "{made:?}");
    let ask = asks(1, at(&world, 100), 1000);
    let slot = reserve(&mut world, ask).unwrap();
    let (code, text) = refused(root_changes(&mut world, slot.id, counted(2)));
    assert_eq!(code, RefusalCode::WrongState);
    assert!(text.contains("was paid with"), "{text}");
}

/// Whoever dies and whatever is reconfigured: what is kept stays kept, and nobody has more than
/// there are. [`World::check`] compares what planners keep with what reservations ask for.
#[test]
fn what_is_kept_outlives_crashes() {
    let mut world = World::new(licensed(3, 4));
    world.run_time = Span::from_secs(20);
    let ask = asks(2, at(&world, 50), 1500);
    let slot = reserve(&mut world, ask).unwrap();
    let mut all = Vec::new();
    for n in 0..16 {
        let job = wants(1 + n % 2, 40);
        all.push(world.submit(match n % 2 == 0 {
            true => inside(slot.id, job),
            false => job,
        }));
    }
    let mut most = 0;
    for second in 0..400 {
        world.deliver_all();
        world.pass(1);
        let (used, kept, of_these, _) = figures(&mut world);
        most = most.max(used);
        assert!(used + kept - of_these <= 3, "{used} {kept} {of_these} at {second}");
        if second % 37 == 36 {
            world.crash();
            (0..4).for_each(|n| world.connect(n));
            world.check();
        }
    }
    assert_eq!(most, 3);
    world.pass(1500);
    for id in all {
        assert_eq!(world.state_of(id), JobState::Completed, "job {id}");
    }
    assert_eq!(figures(&mut world), (0, 0, 0, 3));
}

/// A licence that leaves the configuration while reservations keep it stays known.
#[test]
fn a_licence_that_is_there_no_more() {
    let mut world = World::new(licensed(3, 4));
    let ask = asks(2, at(&world, 100), 500);
    let slot = reserve(&mut world, ask).unwrap();
    let mut without = world.config.clone();
    without.licenses.set("l", 0);
    without.licenses.set("other", 1);
    let with = std::mem::replace(&mut world.config, without.clone());
    world.event(Event::Reconfigured(Box::new(without)));
    world.check();
    world.crash();
    world.connect_all();
    world.check();
    world.pass(150);
    world.config = with.clone();
    world.event(Event::Reconfigured(Box::new(with)));
    world.check();
    assert_eq!(figures(&mut world), (0, 2, 0, 1));
    world.ask(Request::CancelReservation {
        ids: vec![slot.id],
        series: false,
    });
    assert_eq!(figures(&mut world), (0, 0, 0, 3));
}

/// A licence comes back on nodes that have nothing to do with those of the slot: that instant is
/// among the starts that are looked at.
#[test]
fn ends_on_other_nodes_are_looked_at() {
    let mut config = licensed(3, 4);
    let nodes = |names: [&str; 2]| Some(names.map(str::to_owned).to_vec());
    let other = QueueSpec {
        name: "other".to_owned(),
        nodes: nodes(["n3", "n4"]),
        ..config.queues[0].clone()
    };
    config.queues[0].nodes = nodes(["n1", "n2"]);
    config.queues.push(other);
    let mut world = World::new(config);
    world.run_time = Span::from_secs(5000);
    let holder = world.submit(JobSpec {
        queue: Some("other".to_owned()),
        ..wants(2, 4321)
    });
    world.deliver_all();
    assert_eq!(running(&world, &[holder]), [holder]);
    let frees = world.now + Span::from_secs(4321) + world.config.policy.clearance;
    let slot = reserve(&mut world, asks(2, StartChoice::Soonest, 200)).unwrap();
    assert!(slot.start >= frees && slot.start < frees + Span::from_secs(1), "{slot:?}");
}
