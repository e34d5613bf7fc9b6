//! What a user and an account have booked, for the quotas: found out once for a request and
//! then looked at for each of its candidates.

#[cfg(test)]
pub(super) mod tests;

use crate::config::{ClusterConfig, Quotas};
use crate::event::Caller;
use crate::machine::Machine;
use crate::planning::pools::procedures::licenses_at;
use crate::queues::Queues;
use crate::queues::access::procedures::is_administrator;
use crate::reservations::admission::quota::{
    ClassShare, LicenseShare, QuotaFacts, check_quotas, quotas_of,
};
use crate::reservations::ask::ReservationRequest;
use crate::reservations::ask::procedures::{policy_of, reservation_policy};
use crate::reservations::{Reservation, Reservations};
use cosy_model::reservation::ReservationState;
use cosy_model::{Amounts, NodeId, NodeShare, Refusal, ReservationId, Span, Time};
use cosy_sched::appraise::Estimate;
use std::collections::{BTreeMap, BTreeSet};

/// What makes nodes alike in every respect that placement can see.
type Class = (Vec<u64>, Vec<(String, u32)>, Vec<String>, Vec<usize>);

/// The quotas that bind a request, with what counts against each.
pub(crate) struct Booked<'a> {
    /// The user, and the account if it has quotas; nobody for administrators.
    parties: Vec<Party<'a>>,
    /// Empty while no quota limits the part of a class.
    classes: Classes,
    /// How many licences there are.
    config: &'a ClusterConfig,
}

struct Party<'a> {
    /// `user ann`, `account lab`.
    whose: String,
    quotas: &'a Quotas,
    live: Vec<&'a Reservation>,
    /// Of the live ones, a series counted once.
    open: u32,
}

#[derive(Default)]
struct Classes {
    /// The class of each node.
    of: Vec<usize>,
    /// What there is of each class.
    all: Vec<ClassSize>,
}

/// The nodes of a class, which are alike.
struct ClassSize {
    /// Names as a host list.
    nodes: String,
    /// Cores of all together.
    cores: u64,
    /// Cores of one.
    of_one: u64,
}

impl ClassSize {
    fn ppm(&self, cores: u64) -> u32 {
        let ppm = u128::from(cores) * 1_000_000 / u128::from(self.cores.max(1));
        u32::try_from(ppm).unwrap_or(u32::MAX)
    }
}

pub(crate) fn booked<'a>(
    config: &'a ClusterConfig,
    machine: &'a Machine,
    queues: &'a Queues,
    reservations: &'a Reservations,
    caller: &Caller,
    wish: &'a ReservationRequest,
) -> Booked<'a> {
    if is_administrator(config, caller) {
        return Booked {
            parties: Vec::new(),
            classes: Classes::default(),
            config,
        };
    }
    let (user, uid) = (&caller.user.name, caller.user.uid);
    let account = wish.account.as_deref();
    let (per_user, per_account) = quotas_of(policy_of(config, queues, wish), user, account);
    let of_user = |r: &Reservation| r.row.uid == uid;
    let mut parties = vec![reservations.party(format!("user {user}"), per_user, of_user)];
    if let (Some(quotas), Some(name)) = (per_account, account) {
        let of_account = |r: &Reservation| r.row.account.as_deref() == Some(name);
        parties.push(reservations.party(format!("account {name}"), quotas, of_account));
    }
    let shares = parties.iter().any(|p| p.quotas.share_ppm.is_some());
    let classes = if shares {
        node_classes(machine, queues)
    } else {
        Classes::default()
    };
    Booked {
        parties,
        classes,
        config,
    }
}

impl Reservations {
    fn party<'a>(
        &'a self,
        whose: String,
        quotas: &'a Quotas,
        mine: impl Fn(&Reservation) -> bool,
    ) -> Party<'a> {
        let live: Vec<&Reservation> = self.live().filter(|r| mine(r)).collect();
        let series: BTreeSet<ReservationId> = live.iter().map(|r| r.series()).collect();
        Party {
            whose,
            quotas,
            open: u32::try_from(series.len()).unwrap_or(u32::MAX),
            live,
        }
    }
}

fn node_classes(machine: &Machine, queues: &Queues) -> Classes {
    let mut known: BTreeMap<Class, usize> = BTreeMap::new();
    let mut classes = Classes::default();
    let mut all: Vec<(Vec<String>, u64)> = Vec::new();
    for (at, node) in machine.nodes().iter().enumerate() {
        let queues = queues.all().iter().enumerate();
        let queues = queues.filter(|(_, q)| q.nodes().contains(NodeId(at as u32)));
        let other = node.amounts().other.iter();
        let key: Class = (
            plain(node.amounts()),
            other.map(|(n, a)| (n.to_owned(), a)).collect(),
            node.features().iter().cloned().collect(),
            queues.map(|(q, _)| q).collect(),
        );
        let next = known.len();
        let class = *known.entry(key).or_insert(next);
        if class == all.len() {
            all.push((Vec::new(), u64::from(node.amounts().cores)));
        }
        all[class].0.push(node.spec().name.clone());
        classes.of.push(class);
    }
    let sizes = all.iter().map(|(names, of_one)| ClassSize {
        nodes: cosy_model::fold(names),
        cores: of_one.saturating_mul(names.len() as u64),
        of_one: *of_one,
    });
    classes.all = sizes.collect();
    classes
}

impl Booked<'_> {
    /// True when some quota limits the part of a class of nodes, or of a licence.
    pub(crate) fn limits_shares(&self) -> bool {
        let limits = |party: &Party<'_>| {
            party.quotas.share_ppm.is_some() || party.quotas.license_share_ppm.is_some()
        };
        self.parties.iter().any(limits)
    }

    /// Whether a slot keeps to the quotas. Repetitions that adjoin each other are as long as
    /// all of them.
    pub(crate) fn check(
        &self,
        now: Time,
        wish: &ReservationRequest,
        estimate: &Estimate,
    ) -> Result<(), Refusal> {
        self.check_all(now, wish, estimate, run_length(wish, estimate), 0)
    }

    /// The same for a slot of a workflow, of which others may count already.
    pub(crate) fn check_part(
        &self,
        now: Time,
        wish: &ReservationRequest,
        estimate: &Estimate,
        counted: bool,
    ) -> Result<(), Refusal> {
        let length = run_length(wish, estimate);
        self.check_all(now, wish, estimate, length, u32::from(counted))
    }

    /// Whether a reservation that begins at `start` may be longer by a slot: it counts
    /// already, and with the slot it is as long as both.
    pub(crate) fn check_longer(
        &self,
        now: Time,
        wish: &ReservationRequest,
        estimate: &Estimate,
        start: Time,
    ) -> Result<(), Refusal> {
        self.check_all(now, wish, estimate, estimate.end.since(start), 1)
    }

    fn check_all(
        &self,
        now: Time,
        wish: &ReservationRequest,
        estimate: &Estimate,
        length: Span,
        counted: u32,
    ) -> Result<(), Refusal> {
        for party in &self.parties {
            let facts = QuotaFacts {
                open: party.open.saturating_sub(counted),
                classes: self.class_shares(party, estimate),
                licenses: self.license_shares(party, wish, estimate),
                start: estimate.start,
                length,
            };
            check_quotas(party.quotas, &party.whose, now, &facts)?;
        }
        Ok(())
    }

    /// What would be booked of each class that the slot touches, by cores.
    fn class_shares(&self, party: &Party<'_>, estimate: &Estimate) -> Vec<ClassShare> {
        let shares = estimate.shares.as_deref().unwrap_or_default();
        if party.quotas.share_ppm.is_none() {
            return Vec::new();
        }
        let touched: BTreeSet<usize> = shares
            .iter()
            .map(|s| self.classes.of[s.node.index()])
            .collect();
        let part = |class: usize| {
            let size = &self.classes.all[class];
            let slot = (estimate.start, estimate.end);
            let beside = peak(&party.live, slot, |r| self.cores_in(&r.shares, class));
            let cores = self.cores_in(shares, class) + beside;
            ClassShare {
                nodes: size.nodes.clone(),
                booked_ppm: size.ppm(cores),
                one_node_ppm: size.ppm(size.of_one),
            }
        };
        touched.into_iter().map(part).collect()
    }

    /// What would be booked of each licence that the slot keeps.
    fn license_shares(
        &self,
        party: &Party<'_>,
        wish: &ReservationRequest,
        estimate: &Estimate,
    ) -> Vec<LicenseShare> {
        if party.quotas.license_share_ppm.is_none() {
            return Vec::new();
        }
        let slot = (estimate.start, estimate.end);
        let kept = |(name, own): (&str, u32)| {
            let beside = peak(&party.live, slot, |r| r.row.ask.licenses.get(name).into());
            LicenseShare {
                name: name.to_owned(),
                booked: beside.saturating_add(own.into()),
                there: licenses_at(self.config, estimate.start, name).into(),
            }
        };
        wish.ask.licenses.iter().map(kept).collect()
    }

    fn cores_in(&self, shares: &[NodeShare], class: usize) -> u64 {
        let inside = shares
            .iter()
            .filter(|s| self.classes.of[s.node.index()] == class);
        inside.map(|s| u64::from(s.amounts.cores)).sum()
    }
}

/// The most that the reservations have at one time during a slot.
fn peak(
    live: &[&Reservation],
    (start, end): (Time, Time),
    has: impl Fn(&Reservation) -> u64,
) -> u64 {
    let mut changes: Vec<(Time, i128)> = Vec::new();
    for r in live.iter().filter(|r| r.overlaps(start, end)) {
        let amount = i128::from(has(r));
        changes.push((r.row.start.max(start), amount));
        changes.push((r.row.end, -amount));
    }
    // At one time what ends comes before what begins.
    changes.sort_unstable();
    let (mut sum, mut most) = (0, 0);
    for (_, change) in changes {
        sum += change;
        most = most.max(sum);
    }
    u64::try_from(most).unwrap_or(u64::MAX)
}

/// From the first begin to the last end of the repetitions around a slot that adjoin each
/// other: who books hour after hour books one long time.
fn run_length(wish: &ReservationRequest, estimate: &Estimate) -> Span {
    let (mut from, mut until) = (estimate.start, estimate.end);
    if let Some(repeat) = &wish.ask.repeat {
        let length = wish.ask.length;
        for start in &repeat.starts {
            if (from..=until).contains(start) {
                until = until.max(*start + length);
            }
        }
        for start in repeat.starts.iter().rev() {
            if *start < from && *start + length >= from {
                from = *start;
            }
        }
    }
    until.since(from)
}

fn plain(amounts: &Amounts) -> Vec<u64> {
    vec![
        u64::from(amounts.cores),
        amounts.memory.0,
        amounts.disk.0,
        u64::from(amounts.gpus),
    ]
}

/// When something happens next to a reservation by itself.
pub(crate) fn due_of(config: &ClusterConfig, reservation: &Reservation) -> Option<Time> {
    let row = &reservation.row;
    match row.state {
        ReservationState::Held => row.hold_until,
        ReservationState::Confirmed => {
            let clearance = row.start - config.policy.clearance;
            Some(
                reservation
                    .next_told()
                    .map_or(clearance, |at| at.min(clearance)),
            )
        }
        ReservationState::Active => {
            let unused = no_show_at(config, reservation);
            Some(unused.map_or(row.end, |at| at.min(row.end)))
        }
        ReservationState::Ended
        | ReservationState::Cancelled
        | ReservationState::Expired
        | ReservationState::Unused
        | ReservationState::Failed => Some(row.closed.unwrap_or(row.end) + super::REMEMBER),
    }
}

/// When an active reservation is given back because nothing was started in it.
pub(crate) fn no_show_at(config: &ClusterConfig, reservation: &Reservation) -> Option<Time> {
    let row = &reservation.row;
    let after = reservation_policy(config, &row.queue).no_show?;
    let unused = row.first_use.is_none() && row.job.is_none() && !row.degraded;
    unused.then(|| row.start + after)
}
