//! Reservations as commands show them.

use super::Reservation;
use crate::controller::Controller;
use crate::event::Caller;
use cosy_model::api::Reply;
use cosy_model::reservation::{Pick, ReservationFilter, ReservationInfo};
use cosy_model::{JobId, NodeShare, ReservationId, Span};
use std::collections::BTreeSet;

impl Controller {
    pub(crate) fn list_reservations(&self, caller: &Caller, filter: &ReservationFilter) -> Reply {
        let ids: BTreeSet<ReservationId> = filter.ids.iter().copied().collect();
        let passes = |r: &&Reservation| {
            let row = &r.row;
            let by_id = ids.is_empty() || ids.contains(&row.id);
            let by_user = filter.users.is_empty()
                || filter.users.contains(&row.user)
                || filter.users.contains(&row.uid.to_string());
            let by_state = match filter.states.is_empty() {
                true => r.is_live() || filter.ended || !ids.is_empty(),
                false => filter.states.contains(&row.state),
            };
            by_id && by_user && by_state
        };
        let mut found: Vec<&Reservation> = self.reservations.all.values().filter(passes).collect();
        found.sort_by_key(|r| (r.row.start, r.row.id));
        let infos = found.into_iter().map(|r| self.info(caller, r));
        Reply::Reservations(infos.collect())
    }

    /// One as the caller may see it: everyone sees when and where, for the others plan
    /// around it; comment and job are the owner's.
    pub(crate) fn info(&self, caller: &Caller, reservation: &Reservation) -> ReservationInfo {
        let row = &reservation.row;
        let own = row.uid == caller.user.uid || self.is_admin(caller);
        let usable = own || self.may_use(&caller.user, reservation);
        let movable = row.ask.pick == Pick::FinishBy && row.state.is_live();
        let total = row.delays.iter().fold(Span::ZERO, |sum, (_, d)| sum + *d);
        ReservationInfo {
            id: row.id,
            series: row.series,
            name: match row.ask.name.as_str() {
                "" => format!("resv{}", row.id),
                given => given.to_owned(),
            },
            name_given: !row.ask.name.is_empty(),
            user: row.user.clone(),
            uid: row.uid,
            usable,
            account: row.account.clone().filter(|_| usable),
            queue: row.queue.clone(),
            state: row.state,
            degraded: row.degraded,
            start: row.start,
            end: row.end,
            movable_from: movable.then(|| row.ask.earliest.unwrap_or(row.made)),
            hold_until: row
                .hold_until
                .filter(|_| row.state == cosy_model::reservation::ReservationState::Held),
            free_until: row.free_until,
            nodes: self.names_of_shares(&reservation.shares),
            node_count: reservation.shares.len() as u32,
            cores: reservation.cores(),
            gpus: reservation
                .shares
                .iter()
                .map(|s| u64::from(s.amounts.gpus))
                .sum(),
            base: row.base,
            extra: row.extra,
            charged: row.charged,
            sharing: if own {
                row.ask.sharing.clone()
            } else {
                Default::default()
            },
            job: row.job.filter(|_| usable),
            used_core_ms: row.used_core_ms,
            delayed_jobs: row.delays.len() as u32,
            total_delay: total,
            made: row.made,
            named: !row.ask.request.require.is_empty(),
            flags: row.ask.flags.clone(),
            rule: row
                .ask
                .repeat
                .as_ref()
                .map_or(String::new(), |r| r.rule.clone()),
            comment: if own {
                row.ask.comment.clone()
            } else {
                String::new()
            },
            note: row.note.clone(),
        }
    }

    /// Nodes of shares as a host list.
    pub(crate) fn names_of_shares(&self, shares: &[NodeShare]) -> String {
        let names = shares
            .iter()
            .map(|s| self.nodes[s.node.index()].spec.name.clone());
        cosy_model::fold(&names.collect::<Vec<String>>())
    }

    /// Which reservations push a waiting job back: one sentence for each.
    pub(crate) fn delay_lines(&self, job: JobId) -> Vec<String> {
        let of = |r: &Reservation| {
            let delay = r.row.delays.iter().find(|(id, _)| *id == job);
            delay.map(|(_, span)| (r.row.id, *span))
        };
        let delays = self.reservations.live().filter_map(of);
        delays
            .map(|(id, span)| format!("delayed {} by reservation {id}", in_words(span)))
            .collect()
    }
}

/// `2 h`, `1 h 20 min`, `40 s`.
fn in_words(span: Span) -> String {
    let secs = span.secs();
    match (secs / 3600, secs / 60 % 60) {
        (0, 0) => format!("{secs} s"),
        (0, minutes) => format!("{minutes} min"),
        (hours, 0) => format!("{hours} h"),
        (hours, minutes) => format!("{hours} h {minutes} min"),
    }
}
