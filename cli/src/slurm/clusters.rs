//! The names that commands are given of things that the controller knows by number, or of
//! the cluster itself.

use super::messages::error;
use crate::Context;
use cosy_model::ReservationId;
use cosy_model::api::{Reply, Request};
use cosy_model::reservation::{ReservationFilter, ReservationInfo};
use cosy_slurm::show::reservation;

/// Whether `--clusters` means this one: its own name, or `all`. Says that no other can be
/// reached where it does not.
pub fn names_this(context: &Context, text: &str) -> bool {
    let own = match context.ask(Request::Ping) {
        Ok(Reply::Pong { cluster, .. }) => cluster,
        Ok(_) | Err(_) => String::new(),
    };
    let other = text.split(',').find(|name| *name != "all" && *name != own);
    let Some(other) = other else { return true };
    error(context, "Problem talking to database");
    error(
        context,
        &format!(
            "'{other}' can't be reached now, or it is an invalid entry for --cluster.  \
             Use 'sacctmgr list clusters' to see available clusters."
        ),
    );
    false
}

/// The live reservations, by start; of a repeating one the next.
pub fn reservations(context: &Context) -> Vec<ReservationInfo> {
    let all = context.fetch_reservations(ReservationFilter::default());
    let mut seen = std::collections::BTreeSet::new();
    let mut all = all.unwrap_or_default();
    all.retain(|r| seen.insert(r.series.unwrap_or(r.id)));
    all
}

/// The reservation that goes by that name.
pub fn reservation(context: &Context, name: &str) -> Option<ReservationId> {
    let all = reservations(context);
    let found = all.iter().find(|r| reservation::name(r) == name);
    found.map(|r| r.id)
}
