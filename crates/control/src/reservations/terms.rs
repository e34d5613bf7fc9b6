//! The terms of a reservation beside its nodes and its time: which licences it keeps and who may use it.
//! They are checked together, and then set together.

use crate::event::Caller;
use crate::reservations::licenses::{keep_licenses, may_keep_licenses};
use crate::reservations::share::procedures::{may_share_with, share_anew};
use crate::rooms::Rooms;
use crate::turn::Turn;
use cosy_model::reservation::{ReservationAlteration, Sharing, SharingChange};
use cosy_model::{CountedResources, Refusal, ReservationId, Time};

/// What becomes other beside the end, checked.
#[derive(Debug)]
pub(crate) struct NewTerms {
    licenses: Option<CountedResources>,
    sharing: Option<Sharing>,
}

/// Whether everything but the end may be as asked for; with an earlier end up to that.
pub(crate) fn check_terms(
    rooms: &Rooms,
    now: Time,
    caller: &Caller,
    id: ReservationId,
    change: &ReservationAlteration,
) -> Result<NewTerms, Refusal> {
    let licenses = change.licenses.as_ref();
    let licenses = licenses.map(|all| may_keep_licenses(rooms, now, caller, id, all, change.end));
    let sharing = Some(&change.sharing).filter(|change| **change != SharingChange::default());
    let sharing = sharing
        .map(|change| may_share_with(&rooms.config, &rooms.reservations, caller, id, change));
    Ok(NewTerms {
        licenses: licenses.transpose()?,
        sharing: sharing.transpose()?,
    })
}

/// Everything but the end becomes as it was checked.
pub(crate) fn set_terms(
    rooms: &mut Rooms,
    turn: &mut Turn,
    caller: &Caller,
    id: ReservationId,
    terms: NewTerms,
) {
    if let Some(licenses) = terms.licenses {
        keep_licenses(rooms, turn, caller, id, licenses);
    }
    if let Some(sharing) = terms.sharing {
        share_anew(&rooms.config, &mut rooms.reservations, turn, caller, id, sharing);
    }
}
