//! The JSON of `cresv`. The names are part of the interface: none is changed or taken away, new
//! ones may come.
//!
//! Points in time are there twice: `x` in RFC 3339 (UTC) and `x_ms` in milliseconds since
//! 1970; `null` where there is none. Lengths are in seconds, sums in SU.

use crate::native::record::{self, su};
use cosy_model::api::Reply;
use cosy_model::reservation::{Quote, ReservationInfo};
use cosy_model::{Refusal, Time};
use cosy_view::{quote, reservation};
use serde_json::{Value as Json, json};

/// A quote, with its slots under `slots`.
pub fn quote(quote: &Quote) -> Json {
    let mut json = record::json_with_ms(&quote::fields(quote));
    let slots = quote.slots.iter().map(quote::slot_fields);
    json["slots"] = slots.map(|slot| record::json_with_ms(&slot)).collect();
    json
}

/// A reservation: the fields of every command, its price, and times in milliseconds too.
pub fn reservation(info: &ReservationInfo) -> Json {
    let mut json = record::json_with_ms(&reservation::fields(info));
    json["price"] = su(reservation::price(info));
    json
}

/// Reservations as `{"reservations": [...]}`.
pub fn reservations(all: &[ReservationInfo]) -> Json {
    json!({ "reservations": all.iter().map(reservation).collect::<Vec<_>>() })
}

/// The answer to a request that reserves.
pub struct Reserved {
    /// The reservations, by start; several for a repeating one.
    pub all: Vec<ReservationInfo>,
    /// Starts that were not possible, and why.
    pub conflicts: Vec<(Time, Refusal)>,
    /// A note of the controller for the user, or empty.
    pub note: String,
}

impl Reserved {
    /// Of the answer to a request that reserves.
    ///
    /// # Errors
    /// The reply answers another kind of request.
    pub fn of(reply: Reply) -> Result<Self, cosy_client::CallError> {
        match reply {
            Reply::Reserved {
                reservations,
                conflicts,
                note,
            } => Ok(Self {
                all: reservations,
                conflicts,
                note,
            }),
            _ => Err(cosy_client::CallError::Unexpected),
        }
    }

    /// The answer as JSON: `reservations`, `conflicts` and `note`.
    pub fn json(&self) -> Json {
        let conflicts: Vec<_> = self
            .conflicts
            .iter()
            .map(|(start, r)| {
                let mut json = record::json_with_ms(&vec![("start", (*start).into())]);
                json["code"] = json!(r.code);
                json["message"] = json!(r.message);
                json
            })
            .collect();
        let mut json = reservations(&self.all);
        json["conflicts"] = json!(conflicts);
        json["note"] = json!(self.note);
        json
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::reservation::ReservationState;

    fn names(json: &Json) -> String {
        let all = json.as_object().map(|o| o.keys().cloned().collect());
        let all: Vec<String> = all.unwrap_or_default();
        all.join(" ")
    }

    #[test]
    fn names_stay() {
        let quote = quote(&crate::native::resv::slots::sample::quote());
        let whole = "account choice licenses notice_earliest notice_earliest_ms now now_ms plain_start \
             plain_start_ms queue rules slots";
        assert_eq!(names(&quote), whole);
        let slot = "admitted availability available_by_load base delayed_jobs end end_ms extra \
             feasible license_price nodes own_delayed preempts price reason start start_ms total_delay";
        assert_eq!(names(&quote["slots"][0]), slot);
        let info = crate::native::reservations::sample(12, "ann", ReservationState::Confirmed);
        let one = "account accounts base charged comment cores degraded delayed_jobs end end_ms \
             extra free_until free_until_ms gpus groups hold_until hold_until_ms id job licenses made \
             made_ms movable_from movable_from_ms name node_count nodes note preempts price queue rule \
             series start start_ms state total_delay uid usable used_core_seconds user users";
        assert_eq!(names(&reservation(&info)), one);
    }

    #[test]
    fn figures() {
        let quote = quote(&crate::native::resv::slots::sample::quote());
        let slot = &quote["slots"][2];
        assert_eq!((&slot["base"], &slot["price"]), (&json!(8), &json!(9.501_667)));
        assert_eq!(slot["availability"], 0.8);
        assert_eq!(slot["total_delay"], 2400);
        assert_eq!(slot["own_delayed"], json!([{ "job": 12, "delay": 1200 }]));
        assert_eq!(slot["start"], "2026-11-21T13:20:00.000Z");
        assert_eq!(slot["start_ms"], 1_795_267_200_000_i64);
        assert_eq!(quote["account"], json!({ "name": "phys", "left": 100.25 }));
    }
}
