//! Requests that concern reservations.

use crate::conversations::listing::begin::list_reservations;
use crate::procedures::policy::fund_account;
use crate::procedures::reservations::cancel::cancel_reservations;
use crate::reservations::account::list_accounts;
use crate::reservations::alter::alter;
use crate::reservations::book::procedures::reserve;
use crate::reservations::chart::plan_chart;
use crate::reservations::confirm::confirm;
use crate::reservations::extend::procedures::extend;
use crate::reservations::quote::procedures::quote;
use crate::reservations::share::procedures::share_with;
use crate::reservations::shorten::shorten;
use crate::rooms::Rooms;
use crate::turn::{Asker, Turn};
use cosy_model::Refusal;
use cosy_model::api::{Reply, Request};
use cosy_model::reservation::ReservationAlteration;

pub(crate) fn reservation_request(
    rooms: &mut Rooms,
    turn: &mut Turn,
    asker: Asker<'_>,
    request: Request,
) -> Result<Option<Reply>, Refusal> {
    let Asker { client, caller, .. } = asker;
    match request {
        Request::Quote { ask, most, as_job } => {
            let asked = (*ask, as_job.map(|job| *job));
            quote(rooms, turn, client, caller, asked, most)
        }
        Request::Reserve { ask, hold, job } => reserve(rooms, turn, asker, *ask, hold, job),
        Request::Confirm { id } => confirm(
            &rooms.config,
            &rooms.machine,
            &mut rooms.reservations,
            &mut rooms.workflows,
            turn,
            caller,
            id,
        )
        .map(Some),
        Request::CancelReservation { ids, series } => {
            cancel_reservations(rooms, turn, caller, &ids, series).map(Some)
        }
        Request::ExtendReservation { id, by, max_price } => {
            extend(rooms, turn, asker, (id, by), max_price, ReservationAlteration::default())
        }
        Request::ShortenReservation { id, end } => shorten(rooms, turn, caller, id, end).map(Some),
        Request::ShareReservation { id, change } => share_with(
            &rooms.config,
            &rooms.machine,
            &mut rooms.reservations,
            turn,
            caller,
            id,
            &change,
        )
        .map(Some),
        Request::AlterReservation { id, change } => alter(rooms, turn, asker, id, *change),
        Request::Reservations { filter } => {
            Ok(list_reservations(rooms, turn, client, caller, filter))
        }
        Request::PlanChart { until, most } => {
            Ok(plan_chart(rooms, turn, client, caller, until, most))
        }
        Request::Accounts { names } => {
            list_accounts(&rooms.config, &rooms.reservations, caller, &names).map(Some)
        }
        Request::AccountControl { name, action } => {
            fund_account(rooms, turn, caller, &name, &action).map(Some)
        }
        _ => Err(Refusal::invalid("this is no request about reservations")),
    }
}
