//! Names on the command line that are looked up at the controller: of reservations, which it knows
//! by number, and of the cluster itself.

use super::messages::error;
use crate::Context;
use cosy_model::ReservationId;
use cosy_model::api::{Reply, Request};
use cosy_model::reservation::{ReservationFilter, ReservationInfo};
use cosy_slurm::show::reservation;

/// Whether all names of `--clusters` mean this cluster: its own name, or `all`. Otherwise prints that
/// another one cannot be reached.
pub fn is_this_cluster(context: &Context, text: &str) -> bool {
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

/// The live reservations, by start; of a series only the next one.
pub fn reservations(context: &Context) -> Vec<ReservationInfo> {
    let all = context.fetch_reservations(ReservationFilter::default());
    let mut seen = std::collections::BTreeSet::new();
    let mut all = all.unwrap_or_default();
    all.retain(|r| seen.insert(r.series.unwrap_or(r.id)));
    all
}

/// The live reservation of that name.
pub fn reservation(context: &Context, name: &str) -> Option<ReservationId> {
    let all = reservations(context);
    let found = all.iter().find(|r| reservation::name(r) == name);
    found.map(|r| r.id)
}
