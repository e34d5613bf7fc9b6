//! What always holds of reservations and their money.

use crate::rooms::Rooms;
use cosy_model::Su;
use cosy_model::reservation::ReservationState;
use std::collections::BTreeMap;

/// Checks the room.
///
/// # Errors
/// What does not hold, in words.
pub(crate) fn check(it: &Rooms) -> Result<(), String> {
    money_agrees(it)?;
    reservations_agree(it)?;
    ends_are_followed(it)?;
    promises_are_known(it)?;
    it.reservations.books.check()
}

/// What is held of an account is held for live reservations that are not confirmed yet.
fn money_agrees(it: &Rooms) -> Result<(), String> {
    let mut held: BTreeMap<&str, Su> = BTreeMap::new();
    for reservation in it.reservations.all.values() {
        let row = &reservation.row;
        if row.held != Su::ZERO && row.state != ReservationState::Held {
            return Err(format!(
                "reservation {} is {} and holds {} SU",
                row.id, row.state, row.held
            ));
        }
        if let Some(account) = &row.account {
            let sum = held.entry(account).or_default();
            *sum = sum.plus(row.held);
        }
    }
    let books = &it.reservations.books;
    for account in books.infos(&[], |_| true) {
        let known = held.get(account.name.as_str());
        let known = known.copied().unwrap_or_default();
        // Holds made before there was any account are in no book.
        if account.held > known {
            return Err(format!(
                "account {} holds {} SU, its reservations {known} SU",
                account.name, account.held
            ));
        }
    }
    Ok(())
}

/// Every live reservation is promised, an active one has its planner, and only jobs of
/// active ones are inside.
fn reservations_agree(it: &Rooms) -> Result<(), String> {
    for (id, reservation) in &it.reservations.all {
        let active = reservation.row.state == ReservationState::Active;
        let closed = it.reservations.closed.contains(id);
        if reservation.planner.is_some() != (active || closed) || active && closed {
            return Err(format!("reservation {id} is {}", reservation.row.state));
        }
        if it.planning.cluster().has_block(*id) != reservation.is_live() {
            return Err(format!(
                "reservation {id} is {} and its nodes are {}promised",
                reservation.row.state,
                if reservation.is_live() { "not " } else { "" }
            ));
        }
    }
    let mut pushed = std::collections::BTreeMap::new();
    for (job, span) in it.reservations.live().flat_map(|r| &r.row.delays) {
        *pushed.entry(*job).or_insert(0) += span.ms();
    }
    if !it
        .reservations
        .pushed
        .iter()
        .map(|(j, s)| (*j, s.ms()))
        .eq(pushed)
    {
        return Err("the delays of reservations do not add up".to_owned());
    }
    for (job, reservation) in it.planning.all_inside() {
        let live = it
            .reservations
            .get(*reservation)
            .is_some_and(|r| r.planner.is_some());
        if !live || !it.jobs.contains_key(job) {
            return Err(format!("job {job} is inside of reservation {reservation}"));
        }
    }
    Ok(())
}

/// Whoever leaves for a reservation leaves for a live one that says so, and before it begins.
fn promises_are_known(it: &Rooms) -> Result<(), String> {
    for job in it.jobs.all() {
        let Some(run) = job.run().filter(|run| !run.is_over()) else {
            continue;
        };
        let Some(row) = run.promised() else {
            continue;
        };
        let goes = run.killed().is_some() || run.preempted().is_some_and(|other| other.told);
        let (id, reservation) = (job.id(), it.reservations.get(row.reservation));
        let Some(reservation) = reservation.filter(|r| r.is_live()) else {
            return Err(format!("job {id} leaves for {}, which is over", row.reservation));
        };
        let makers = reservation.row.makers.iter();
        let listed = makers.filter(|maker| maker.maker.job == id && (goes || !maker.told));
        if listed.count() != 1 || row.until > reservation.row.start {
            return Err(format!("job {id} leaves for {}: {row:?}", row.reservation));
        }
    }
    Ok(())
}

/// What follows from the end of a job inside has followed before the turn is over.
fn ends_are_followed(it: &Rooms) -> Result<(), String> {
    match it.reservations.ends_are_followed() {
        true => Ok(()),
        false => Err("the end of a job inside a reservation was not followed".to_owned()),
    }
}
