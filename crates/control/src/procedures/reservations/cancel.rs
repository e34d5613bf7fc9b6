//! Reservations are given back by their owners.

use crate::event::Caller;
use crate::procedures::reservations::end::give_up_reservation;
use crate::reservations::procedures::own_reservation;
use crate::rooms::Rooms;
use crate::turn::Turn;
use cosy_model::api::Reply;
use cosy_model::{Refusal, RefusalCode, ReservationId, limits};

pub(crate) fn cancel_reservations(
    rooms: &mut Rooms,
    turn: &mut Turn,
    caller: &Caller,
    ids: &[ReservationId],
    series: bool,
) -> Result<Reply, Refusal> {
    if ids.is_empty() || ids.len() > limits::IDS_IN_REQUEST {
        return Err(Refusal::invalid("name between 1 and 100,000 reservations to cancel"));
    }
    let mut changed = 0;
    let mut refused = Vec::new();
    for id in ids {
        match cancel_one(rooms, turn, caller, *id, series) {
            Ok(count) => changed += count,
            Err(refusal) => refused.push((format!("reservation {id}"), refusal)),
        }
    }
    Ok(Reply::Done { changed, refused })
}

pub(crate) fn cancel_one(
    rooms: &mut Rooms,
    turn: &mut Turn,
    caller: &Caller,
    id: ReservationId,
    series: bool,
) -> Result<u64, Refusal> {
    let found = own_reservation(&rooms.config, &rooms.reservations, caller, id, "cancel")?;
    let of_series = found.series();
    let mut ids = vec![id];
    if series {
        let others = rooms
            .reservations
            .live()
            .filter(|r| r.series() == of_series);
        ids = others.map(|r| r.row().id).collect();
    } else if !found.is_live() {
        return Err(Refusal::new(
            RefusalCode::WrongState,
            format!("reservation {id} is {} already", found.row().state),
        ));
    }
    if ids.is_empty() {
        return Err(Refusal::new(
            RefusalCode::WrongState,
            format!("no reservation of the series of {id} is left"),
        ));
    }
    let who = caller.user.name.clone();
    for id in &ids {
        give_up_reservation(rooms, turn, *id, &who);
    }
    Ok(ids.len() as u64)
}
