//! What the rule against splitting looks at: the payer's other reservations that overlap or
//! adjoin a slot, as one.

use crate::config::ClusterConfig;
use crate::event::Caller;
use crate::machine::Machine;
use crate::queues::Queues;
use crate::queues::access::procedures::is_administrator;
use crate::reservations::admission::notice::Together;
use crate::reservations::ask::ReservationRequest;
use crate::reservations::ask::procedures::policy_of;
use crate::reservations::{Reservation, Reservations};
use crate::rooms::Rooms;
use cosy_model::{CountedResources, Span, Time};
use cosy_sched::appraise::JointRequest;
use cosy_sched::{Component, Holds, WaitingJob};
use std::sync::Arc;

/// The live bookings of the same payer that overlap or adjoin a slot, as one; `wait` is
/// what all of them and the new one together are predicted in the queue.
pub(crate) fn together(
    config: &ClusterConfig,
    queues: &Queues,
    reservations: &Reservations,
    caller: &Caller,
    wish: &ReservationRequest,
    slot: (Time, Time),
    wait: Option<Span>,
) -> Option<Together> {
    if !policy_of(config, queues, wish).notice.together {
        return None;
    }
    let near = reservations.touching(caller, wish, slot);
    let first = near.iter().min_by_key(|r| r.row.start)?;
    Some(Together {
        from: first.row.start,
        until: near.iter().map(|r| r.row.end).max()?,
        made: first.row.made,
        wait,
    })
}

impl Reservations {
    /// The live bookings of the same payer that overlap or adjoin a slot, and those that
    /// overlap or adjoin them.
    fn touching(
        &self,
        caller: &Caller,
        wish: &ReservationRequest,
        slot: (Time, Time),
    ) -> Vec<&Reservation> {
        let uid = caller.user.uid;
        let same = |r: &&Reservation| match (&r.row.account, &wish.account) {
            (Some(a), Some(b)) => a == b,
            (None, None) => r.row.uid == uid,
            (Some(_), None) | (None, Some(_)) => false,
        };
        let mut others: Vec<&Reservation> = self.live().filter(same).collect();
        let (mut from, mut until) = slot;
        let mut near = Vec::new();
        loop {
            let touches = |r: &&Reservation| r.row.start <= until && from <= r.row.end;
            let (more, rest): (Vec<_>, Vec<_>) = others.into_iter().partition(touches);
            if more.is_empty() {
                return near;
            }
            from = more.iter().map(|r| r.row.start).fold(from, Time::min);
            until = more.iter().map(|r| r.row.end).fold(until, Time::max);
            near.extend(more);
            others = rest;
        }
    }
}

/// Whether the wait that the request is predicted as a plain job decides on it: only then it has to be
/// found out.
pub(crate) fn own_wait_decides(rooms: &Rooms, caller: &Caller, wish: &ReservationRequest) -> bool {
    let policy = policy_of(&rooms.config, &rooms.queues, wish);
    policy.asks_own_wait() && !is_administrator(&rooms.config, caller)
}

/// The request together with the payer's bookings that touch it, as one plain job in the
/// place of `alone`: as wide as all that lie side by side, as long as from the first
/// start to the last end.
pub(crate) fn joint_job(
    rooms: &Rooms,
    caller: &Caller,
    wish: &ReservationRequest,
    slot: (Time, Time),
    alone: &WaitingJob,
) -> Option<JointRequest> {
    let policy = policy_of(&rooms.config, &rooms.queues, wish);
    if !policy.asks_joint_wait() || is_administrator(&rooms.config, caller) {
        return None;
    }
    let near = rooms.reservations.touching(caller, wish, slot);
    let from = near.iter().map(|r| r.row.start).min()?.min(slot.0);
    let until = near.iter().map(|r| r.row.end).max()?.max(slot.1);
    let beside = most_beside(&near, slot);
    let own = asked_cores(&rooms.machine, &wish.demand).max(1);
    let all = (own + beside)
        .min(most_cores(&rooms.machine, &wish.demand))
        .max(own);
    let wider = widened(&wish.demand, own, all);
    let demand = match rooms.planning.cluster().component_could_ever_run(&wider) {
        Ok(()) => wider,
        Err(_) => Component::clone(&wish.demand),
    };
    Some(JointRequest {
        job: WaitingJob {
            demand: Arc::new(demand.into()),
            holds: joint_holds(rooms, wish, &near, slot),
            limit: until.since(from),
            ..alone.clone()
        },
        without: near.iter().map(|r| r.row.id).collect(),
    })
}

/// Cores that a demand could come to at most on the nodes that it allows.
fn most_cores(machine: &Machine, demand: &Component) -> u64 {
    let each = demand.per_task.cores.max(1);
    let cores = |node: cosy_model::NodeId| {
        let cores = machine.node(node).amounts().cores;
        u64::from(if demand.exclusive {
            cores
        } else {
            cores - cores % each
        })
    };
    demand.allowed.iter().map(cores).sum()
}

/// Cores that a demand comes to.
fn asked_cores(machine: &Machine, demand: &Component) -> u64 {
    if !demand.exclusive {
        return u64::from(demand.tasks) * u64::from(demand.per_task.cores);
    }
    let first = demand.allowed.iter().next();
    let each = first.map_or(1, |n| machine.node(n).amounts().cores);
    u64::from(demand.nodes.unwrap_or(1)) * u64::from(each)
}

/// What the request and bookings beside it want of pools, as one.
fn joint_holds(
    rooms: &Rooms,
    wish: &ReservationRequest,
    near: &[&Reservation],
    slot: (Time, Time),
) -> Holds {
    let all = joint_licenses(&wish.ask.licenses, &rooms.config.licenses, near, slot);
    rooms.planning.pools().of_licenses(&all)
}

/// The licences of the request and the most that bookings keep beside it at one time, no more than there
/// are.
fn joint_licenses(
    asked: &CountedResources,
    there: &CountedResources,
    near: &[&Reservation],
    (start, end): (Time, Time),
) -> CountedResources {
    let mut all = asked.clone();
    let beside = || near.iter().filter(|r| r.overlaps(start, end));
    let at = |name: &str, time: Time| -> u32 {
        let then = beside().filter(|r| r.row.start <= time && time < r.row.end);
        let each = then.map(|r| r.row.ask.licenses.get(name));
        each.fold(0, u32::saturating_add)
    };
    for (name, there) in there.iter() {
        let times = beside().map(|r| r.row.start.max(start));
        let most = times.map(|time| at(name, time)).max().unwrap_or(0);
        let own = asked.get(name);
        all.set(name, own.saturating_add(most).min(there.max(own)));
    }
    all
}

/// Most cores that bookings have at one time during a slot.
fn most_beside(near: &[&Reservation], (start, end): (Time, Time)) -> u64 {
    let beside = || near.iter().filter(|r| r.overlaps(start, end));
    let at = |time: Time| -> u64 {
        let then = beside().filter(|r| r.row.start <= time && time < r.row.end);
        then.map(|r| r.cores()).sum()
    };
    let times = beside().map(|r| r.row.start.max(start));
    times.map(at).max().unwrap_or(0)
}

/// The demand for `all` cores in place of `own`.
fn widened(demand: &Component, own: u64, all: u64) -> Component {
    let scale = |count: u32| {
        let wide = (u128::from(count) * u128::from(all)).div_ceil(u128::from(own.max(1)));
        u32::try_from(wide).unwrap_or(u32::MAX)
    };
    Component {
        nodes: demand.nodes.map(scale),
        tasks: scale(demand.tasks),
        ..demand.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reservations::booked::tests::{at, reservation};

    fn licenses(text: &str) -> CountedResources {
        let mut all = CountedResources::default();
        for (name, count) in text
            .split_terminator(',')
            .filter_map(|one| one.split_once(':'))
        {
            all.set(name, count.parse().unwrap());
        }
        all
    }

    /// Licences of bookings beside a slot from hour 2 to hour 6, of 10 of `a` and 3 of `b`.
    #[test]
    fn licences_of_bookings_beside_count_as_one() {
        let check = |asked: &str, live: &[(i64, i64, &str)], want: &str| {
            let booking = |(start, end, kept): &(i64, i64, &str)| {
                let mut booking = reservation(*start, *end, &[]);
                booking.row.ask.licenses = licenses(kept);
                booking
            };
            let near: Vec<Reservation> = live.iter().map(booking).collect();
            let near: Vec<&Reservation> = near.iter().collect();
            let slot = (at(2), at(6));
            let got = joint_licenses(&licenses(asked), &licenses("a:10,b:3"), &near, slot);
            assert_eq!(got, licenses(want), "{asked} beside {live:?}");
        };
        check("a:2", &[], "a:2");
        // one after the other: the most at one time
        check("a:2", &[(2, 4, "a:3"), (4, 6, "a:5")], "a:7");
        // at the same time: all of them
        check("a:2", &[(1, 4, "a:3"), (3, 6, "a:4,b:1")], "a:9,b:1");
        // those that only adjoin it keep nothing while it lasts
        check("a:2", &[(0, 2, "a:3"), (6, 8, "a:4")], "a:2");
        // no more than there are, but what is asked for stays
        check("a:8", &[(2, 6, "a:5,b:9")], "a:10,b:3");
        check("a:12", &[(2, 6, "a:5")], "a:12");
        // of what was asked for without bookings nothing is lost
        check("", &[(2, 6, "a:1")], "a:1");
    }
}
