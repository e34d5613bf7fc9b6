//! Reservations are listed, a piece in a turn.

use crate::config::ClusterConfig;
use crate::event::Caller;
use crate::machine::Machine;
use crate::queues::access::procedures::is_administrator;
use crate::reservations::inside::procedures::may_use;
use crate::reservations::show::{
    PIECE_LOOKS, PIECE_WORK, ReservationList, WORK_FOR_ONE, bytes_of, in_words,
};
use crate::reservations::vacate::told_makers;
use crate::reservations::{Reservation, Reservations};
use crate::turn::Turn;
use cosy_model::reservation::{ReservationInfo, StartChoice};
use cosy_model::{JobId, NodeShare, Span};
use std::ops::Bound;

/// Some reservations more; true when those were the last, or the answer is full.
pub(crate) fn list_reservations_piece(
    config: &ClusterConfig,
    machine: &Machine,
    reservations: &Reservations,
    turn: &mut Turn,
    list: &mut ReservationList,
) -> bool {
    if let Some(after) = list.after {
        let range = (Bound::Excluded(after), Bound::Unbounded);
        let mut last = None;
        for (id, reservation) in reservations.all.range(range).take(PIECE_LOOKS) {
            last = Some(*id);
            turn.looked(1);
            if list.passes(reservation) {
                list.found.insert((reservation.row.start, *id));
            }
        }
        list.after = last;
        let rest = last.map(|last| (Bound::Excluded(last), Bound::Unbounded));
        if rest.is_some_and(|rest| reservations.all.range(rest).next().is_some()) {
            return false;
        }
        list.after = None;
    }
    let mut room = PIECE_WORK;
    while room > 0 && !list.is_full() {
        let Some((_, id)) = list.found.pop_first() else {
            return true;
        };
        let Some(reservation) = reservations.all.get(&id) else {
            continue; // it is forgotten meanwhile
        };
        let sharing = &reservation.row.ask.sharing;
        let sharing = sharing.users.len() + sharing.groups.len() + sharing.accounts.len();
        let work = reservation.shares.len() + reservation.row.delays.len() + sharing;
        turn.looked(1 + (work / WORK_FOR_ONE) as u64);
        room = room.saturating_sub(WORK_FOR_ONE + work);
        let info = info(config, machine, reservations, &list.caller, reservation);
        list.bytes += bytes_of(&info);
        list.told.push(info);
    }
    list.is_full()
}

/// One as the caller may see it: everyone sees when and where, for the others plan
/// around it; comment and job are the owner's.
pub(crate) fn info(
    config: &ClusterConfig,
    machine: &Machine,
    reservations: &Reservations,
    caller: &Caller,
    reservation: &Reservation,
) -> ReservationInfo {
    let row = &reservation.row;
    let own = row.uid == caller.user.uid || is_administrator(config, caller);
    let usable = own || may_use(config, reservations, &caller.user, reservation);
    let movable = row.ask.pick == StartChoice::FinishBy && row.state.is_live();
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
        nodes: names_of_shares(machine, &reservation.shares),
        node_count: reservation.shares.len() as u32,
        cores: reservation.cores(),
        gpus: reservation.gpus(),
        licenses: row.ask.licenses.clone(),
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
        preempts: told_makers(config, caller, &row.makers),
    }
}

/// Nodes of shares as a host list.
pub(crate) fn names_of_shares(machine: &Machine, shares: &[NodeShare]) -> String {
    let names = shares.iter().map(|s| machine.name(s.node).to_owned());
    cosy_model::fold(&names.collect::<Vec<String>>())
}

impl Reservations {
    /// Which reservations push a waiting job back: one sentence for each.
    pub(crate) fn delay_lines(&self, job: JobId) -> Vec<String> {
        let of = |r: &Reservation| {
            let delay = r.row.delays.iter().find(|(id, _)| *id == job);
            delay.map(|(_, span)| (r.row.id, *span))
        };
        let delays = self.live().filter_map(of);
        delays
            .map(|(id, span)| format!("delayed {} by reservation {id}", in_words(span)))
            .collect()
    }
}
