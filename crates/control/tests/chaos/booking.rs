//! What users do with reservations: ask in all ways, confirm and cancel what is theirs and
//! what is not, in time and late.

use crate::play::Play;
use crate::world::*;
use cosy_control::{Caller, ClientId, Controller, Effect, Event, Facts};
use cosy_model::api::{Reply, Request, Submission};
use cosy_model::job::{FurtherComponent, ResourceRequest};
use cosy_model::reservation::*;
use cosy_model::*;

fn resources(play: &mut Play) -> ResourceRequest {
    let dice = &mut play.dice;
    if dice.chance(60) {
        return ResourceRequest {
            nodes: Some(1 + dice.below(3) as u32),
            exclusive: true,
            ..ResourceRequest::default()
        };
    }
    ResourceRequest {
        tasks: Some(1 + dice.below(4) as u32),
        cores_per_task: 1 + dice.below(2) as u32,
        gpus_per_node: dice.below(2) as u32,
        avoid: if dice.chance(10) {
            vec!["n1".to_owned()]
        } else {
            Vec::new()
        },
        ..ResourceRequest::default()
    }
}

fn queue(play: &mut Play) -> Option<String> {
    play.dice.chance(15).then(|| "part".to_owned())
}

pub fn random_job(play: &mut Play) -> JobSpec {
    let request = resources(play);
    let program = match play.dice.chance(15) {
        true => Program::Allocation,
        false => spec("job").program,
    };
    let several = play.dice.chance(20);
    let names = play.world.config.queues.iter().map(|q| q.name.clone());
    let queues: Vec<String> = names.filter(|_| several).collect();
    let mut further = Vec::new();
    while queues.is_empty() && play.dice.chance(12) {
        further.push(FurtherComponent {
            name: None,
            request: resources(play),
            queue: queue(play),
        });
    }
    JobSpec {
        further_components: further,
        request,
        program,
        queues,
        queue: queue(play),
        licenses: licenses(play),
        time_limit: Some(Span::from_secs(10 + play.dice.below(250) as i64)),
        requeue: play.dice.chance(50),
        ..spec("job")
    }
}

fn licenses(play: &mut Play) -> CountedResources {
    let mut licenses = CountedResources::default();
    if play.dice.chance(25) {
        licenses.set("l", 1 + play.dice.below(3) as u32);
    }
    licenses
}

fn random_ask(play: &mut Play) -> ReservationSpec {
    let now = play.world.now;
    let request = resources(play);
    let queue = queue(play);
    let licenses = licenses(play);
    let dice = &mut play.dice;
    let length = Span::from_secs(60 + dice.below(240) as i64);
    let from = now + Span(dice.below(900) as i64 * 1000);
    let until = from + length + Span(dice.below(900) as i64 * 1000);
    let window = (Some(from), Some(until));
    let (pick, (earliest, latest_end)) = match dice.below(10) {
        0..4 => (StartChoice::At(from), (None, None)),
        4..6 => (StartChoice::FinishBy, window),
        6 => (StartChoice::FinishBy, (None, Some(until))),
        7 => (StartChoice::Soonest, window),
        8 => (StartChoice::Cheapest, window),
        _ => (
            StartChoice::Balance {
                alpha_permille: dice.below(1001) as u32,
            },
            window,
        ),
    };
    let shared = dice.chance(30);
    ReservationSpec {
        name: String::new(),
        queue,
        request,
        licenses,
        length,
        earliest,
        latest_end,
        pick,
        repeat: None,
        account: None,
        max_price: dice.chance(5).then_some(Su(dice.below(1_000_000) as i64)),
        sharing: Sharing {
            users: shared.then(|| "u1002".to_owned()).into_iter().collect(),
            ..Sharing::default()
        },
        comment: format!("request {}", dice.roll()),
        flags: Vec::new(),
    }
}

fn series(play: &mut Play, ask: &mut ReservationSpec) {
    let first = play.world.now + Span(1000 + play.dice.below(200_000) as i64);
    let every = ask.length + Span(play.dice.below(300_000) as i64);
    let count = 1 + play.dice.below(4) as i64;
    ask.pick = StartChoice::At(first);
    (ask.earliest, ask.latest_end) = (None, None);
    ask.repeat = Some(Repeat {
        rule: "FREQ=DAILY".to_owned(),
        starts: (0..count).map(|n| first + Span(every.ms() * n)).collect(),
        as_many_as_fit: play.dice.chance(50),
    });
}

pub fn reserve(play: &mut Play) {
    let who = play.user();
    let mut ask = random_ask(play);
    if play.dice.chance(20) {
        series(play, &mut ask);
    }
    if play.dice.chance(10) {
        ask.account = Some(["solo", "side", "none"][play.dice.below(3) as usize].to_owned());
    }
    let with_job = play.dice.chance(50);
    let job = with_job.then(|| {
        Box::new(Submission {
            spec: spec("script"),
            script: OsText::default(),
            array: None,
        })
    });
    let hold = play.dice.chance(35);
    let request = Request::Reserve {
        ask: Box::new(ask),
        hold,
        job,
    };
    if let Some(Reply::Reserved { reservations, .. }) = play.ask(who, request) {
        for job in reservations.iter().filter_map(|told| told.job) {
            play.set_run_time(job);
        }
    }
}

fn any_id(play: &mut Play) -> ReservationId {
    let live = play.live();
    if live.is_empty() || play.dice.chance(15) {
        let most = play.world.store.reservations.len() as u64 + 2;
        return ReservationId(play.dice.below(most));
    }
    live[play.dice.below(live.len() as u64) as usize]
}

/// Its owner four times of five, else anybody.
fn owner_or_other(play: &mut Play, id: ReservationId) -> User {
    let owner = play.world.store.reservations.get(&id).map(|row| row.uid);
    match owner.filter(|_| play.dice.chance(80)) {
        Some(Uid(0)) => user(0, "root"),
        Some(uid) => user(uid.0, &format!("u{uid}")),
        None => play.user(),
    }
}

/// Whoever is neither owner nor administrator gets nothing done.
fn strangers_fail(play: &Play, who: &User, id: ReservationId, reply: Option<&Reply>) {
    let row = play.world.store.reservations.get(&id);
    let stranger = row.is_some_and(|row| row.uid != who.uid) && who.uid != Uid(0);
    let failed = match reply {
        Some(Reply::Refused(_)) | None => true,
        Some(Reply::Done { changed, .. }) => *changed == 0,
        Some(_) => false,
    };
    assert!(!stranger || failed, "{} did it to {id}: {reply:?}", who.name);
}

pub fn confirm(play: &mut Play) {
    let held = |row: &&cosy_control::ReservationRow| row.state == ReservationState::Held;
    let rows = play.world.store.reservations.values();
    let open: Vec<ReservationId> = rows.filter(held).map(|row| row.id).collect();
    let id = match open.first() {
        Some(id) if play.dice.chance(85) => *id,
        Some(_) | None => any_id(play),
    };
    let before = play.world.store.reservations.get(&id).map(|row| row.state);
    let who = owner_or_other(play, id);
    let reply = play.ask(who.clone(), Request::Confirm { id });
    strangers_fail(play, &who, id, reply.as_ref());
    play.late += u64::from(before == Some(ReservationState::Expired));
    let confirmed = matches!(reply, Some(Reply::Reserved { .. }));
    let was_held = before == Some(ReservationState::Held);
    assert!(was_held || !confirmed, "{id} was {before:?} and confirmed");
}

pub fn cancel(play: &mut Play) {
    let id = any_id(play);
    let who = owner_or_other(play, id);
    let series = play.dice.chance(30);
    let ids = vec![id];
    let reply = play.ask(who.clone(), Request::CancelReservation { ids, series });
    strangers_fail(play, &who, id, reply.as_ref());
}

pub fn extend(play: &mut Play) {
    let id = any_id(play);
    let who = owner_or_other(play, id);
    let by = Span::from_secs(play.dice.below(120) as i64 - 5);
    if who.uid == Uid(0) {
        play.watch.unbound.insert(id);
    }
    play.watch.longer.insert(id);
    let max_price = None;
    let reply = play.ask(who.clone(), Request::ExtendReservation { id, by, max_price });
    strangers_fail(play, &who, id, reply.as_ref());
}

pub fn shorten(play: &mut Play) {
    let id = any_id(play);
    let who = owner_or_other(play, id);
    let end = play.world.now + Span::from_secs(play.dice.below(300) as i64 - 5);
    play.watch.shorter.insert(id);
    let reply = play.ask(who.clone(), Request::ShortenReservation { id, end });
    strangers_fail(play, &who, id, reply.as_ref());
}

pub fn share(play: &mut Play) {
    let id = any_id(play);
    let who = owner_or_other(play, id);
    let name = play.user().name;
    let users = match play.dice.chance(50) {
        true => NamesChange {
            add: vec![name],
            ..NamesChange::default()
        },
        false => NamesChange {
            remove: vec![name],
            ..NamesChange::default()
        },
    };
    let change = Box::new(SharingChange {
        users,
        ..SharingChange::default()
    });
    let reply = play.ask(who.clone(), Request::ShareReservation { id, change });
    strangers_fail(play, &who, id, reply.as_ref());
}

/// A reservation gets other licences, another end and another user in one request, all of it or nothing;
/// only administrators give it other licences.
pub fn alter(play: &mut Play) {
    let id = any_id(play);
    let who = match play.dice.chance(80) {
        true => user(0, "root"),
        false => play.user(),
    };
    let licenses = licenses(play);
    let is_root = who.uid == Uid(0);
    let row = play.world.store.reservations.get(&id);
    let end = row.map(|row| row.end + Span::from_secs(play.dice.below(40) as i64 - 20));
    let change = ReservationAlteration {
        licenses: play.dice.chance(80).then_some(licenses),
        end: end.filter(|_| play.dice.chance(50)),
        sharing: SharingChange::default(),
    };
    if is_root {
        play.watch.unbound.insert(id);
    }
    play.watch.longer.insert(id);
    play.watch.shorter.insert(id);
    let of_licenses = change.licenses.is_some();
    let change = Box::new(change);
    let reply = play.ask(who, Request::AlterReservation { id, change });
    let done = matches!(reply, Some(Reply::Reserved { .. }));
    assert!(is_root || !done || !of_licenses, "a user changed the licences of {id}");
}

/// Looking changes nothing.
pub fn look(play: &mut Play) {
    let who = play.user();
    let request = match play.dice.below(3) {
        0 => Request::PlanChart {
            until: None,
            most: 100,
        },
        1 => {
            let job = JobId(
                1 + play
                    .dice
                    .below(play.world.store.submissions.len() as u64 + 1),
            );
            Request::Explain {
                job: api::JobRef { job, task: None },
            }
        }
        _ => Request::Quote {
            ask: Box::new(random_ask(play)),
            most: None,
            as_job: None,
        },
    };
    if let Some(Reply::Quote(quote)) = play.ask(who, request) {
        let chosen = quote.choice.map(|at| &quote.slots[at as usize]);
        assert!(chosen.is_none_or(|slot| slot.feasible && slot.admitted));
        assert!(quote.slots.is_sorted_by_key(|slot| slot.start));
    }
}

/// What the controller tells is what a controller out of the store tells.
pub fn compare(play: &mut Play) {
    play.check();
    let world = &mut play.world;
    let loaded = world.store.load();
    let mut other = Controller::restore(world.config.clone(), loaded, world.now);
    for request in [all_reservations(), Request::Accounts { names: vec![] }] {
        let mine = world.ask_as(user(0, "root"), None, request.clone());
        other.handle(world.now, asked(request));
        let batch = other.settle(world.now);
        let reply = batch.effects.into_iter().find_map(|effect| match effect {
            Effect::Reply { reply, .. } => Some(reply),
            _ => None,
        });
        assert_eq!(Some(mine), reply, "memory and store differ");
    }
}

fn all_reservations() -> Request {
    let filter = ReservationFilter {
        states: vec![
            ReservationState::Held,
            ReservationState::Confirmed,
            ReservationState::Active,
        ],
        ..ReservationFilter::default()
    };
    Request::Reservations { filter }
}

fn asked(request: Request) -> Event {
    Event::Asked {
        client: ClientId(u64::MAX),
        caller: Box::new(Caller::known(user(0, "root"))),
        key: None,
        request,
        facts: Facts {
            old_jobs: Vec::new(),
            ..Facts::default()
        },
    }
}
