//! How much one user or one account may have booked.
//!
//! Knows only figures that were counted elsewhere. What always holds: what is not limited
//! is never refused, and a refusal names the quota, whose it is, and both figures.
//!
//! Source: issue of advance reservations, "Admission"; COSY has no quotas.

use super::judge::percent;
use crate::config::{Quotas, ReservationPolicy};
use cosy_model::{Refusal, RefusalCode, Span, Time};
use cosy_view::words::moment::utc;

/// What quotas look at, of one user or one account.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct QuotaFacts {
    /// Live reservations, without the new one; a series counts once.
    pub open: u32,
    /// What would be booked of each class of nodes that the new one touches.
    pub classes: Vec<ClassShare>,
    /// What would be booked of each licence that the new one keeps.
    pub licenses: Vec<LicenseShare>,
    /// Length of the new one.
    pub length: Span,
    /// Start of the reservation that is judged.
    pub start: Time,
}

/// What would be booked of one class of nodes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct ClassShare {
    /// Its nodes, as a host list.
    pub nodes: String,
    /// Largest part of it that would be booked at one time during the new reservation, the
    /// new one included, in millionths.
    pub booked_ppm: u32,
    /// What one whole node of it is, in millionths.
    pub one_node_ppm: u32,
}

/// What would be booked of a licence.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct LicenseShare {
    /// Its name.
    pub name: String,
    /// Most that would be booked at one time during the new reservation, the new one included.
    pub booked: u64,
    /// How many there are when it begins.
    pub there: u64,
}

impl LicenseShare {
    /// How many of it a share allows: one always, unless the share is 0.
    fn allowed(&self, share_ppm: u32) -> u64 {
        match share_ppm {
            0 => 0,
            share => (self.there.saturating_mul(share.into()) / 1_000_000).max(1),
        }
    }
}

impl ClassShare {
    /// What a share of a class allows of it: never less than one whole node, so that a share
    /// means something on a cluster of a few nodes too. A share of 0 allows nothing.
    fn allowed_ppm(&self, share_ppm: u32) -> u32 {
        match share_ppm {
            0 => 0,
            share => share.max(self.one_node_ppm),
        }
    }
}

/// The quotas of a user and of an account; `None` for an account without.
pub(crate) fn quotas_of<'a>(
    policy: &'a ReservationPolicy,
    user: &str,
    account: Option<&str>,
) -> (&'a Quotas, Option<&'a Quotas>) {
    let of_user = policy.users.get(user).unwrap_or(&policy.per_user);
    let of_account = account.and_then(|name| {
        let own = policy.accounts.get(name);
        own.or(policy.per_account.as_ref())
    });
    (of_user, of_account)
}

/// Whether a new reservation keeps to the quotas. `whose` is `user ann` or `account lab`.
/// Administrators are not asked.
///
/// # Errors
/// The first quota that it passes, with figures.
pub(crate) fn check_quotas(
    quotas: &Quotas,
    whose: &str,
    now: Time,
    facts: &QuotaFacts,
) -> Result<(), Refusal> {
    open(quotas, whose, facts)?;
    length(quotas, whose, facts)?;
    ahead(quotas, whose, now, facts)?;
    notice(quotas, whose, now, facts)?;
    share(quotas, whose, facts)?;
    license_share(quotas, whose, facts)
}

fn open(quotas: &Quotas, whose: &str, facts: &QuotaFacts) -> Result<(), Refusal> {
    match quotas.open.filter(|most| facts.open >= *most) {
        None => Ok(()),
        Some(most) => refuse(format!(
            "quota: {whose} has {} open reservations and may have {most}: cancel one or wait until one has ended",
            facts.open
        )),
    }
}

fn length(quotas: &Quotas, whose: &str, facts: &QuotaFacts) -> Result<(), Refusal> {
    match quotas.longest.filter(|longest| facts.length > *longest) {
        None => Ok(()),
        Some(longest) => refuse(format!(
            "quota: the reservation is {} long, {whose} may reserve {longest} at once",
            facts.length
        )),
    }
}

fn ahead(quotas: &Quotas, whose: &str, now: Time, facts: &QuotaFacts) -> Result<(), Refusal> {
    let ahead = facts.start.since(now);
    match quotas.ahead.filter(|most| ahead > *most) {
        None => Ok(()),
        Some(most) => refuse(format!(
            "quota: the start {} is {ahead} ahead, {whose} may reserve {most} ahead: until {}",
            utc(facts.start),
            utc(now + most)
        )),
    }
}

fn notice(quotas: &Quotas, whose: &str, now: Time, facts: &QuotaFacts) -> Result<(), Refusal> {
    let ahead = facts.start.since(now);
    match quotas.notice.filter(|least| ahead < *least) {
        None => Ok(()),
        Some(least) => refuse(format!(
            "quota: the start {} is {ahead} ahead, {whose} must reserve at least {least} ahead: from {} on",
            utc(facts.start),
            utc(now + least)
        )),
    }
}

fn share(quotas: &Quotas, whose: &str, facts: &QuotaFacts) -> Result<(), Refusal> {
    let Some(most) = quotas.share_ppm else {
        return Ok(());
    };
    let over = |class: &&ClassShare| class.booked_ppm > class.allowed_ppm(most);
    let Some(class) = facts.classes.iter().find(over) else {
        return Ok(());
    };
    let allowed = class.allowed_ppm(most);
    let one = match allowed > most {
        true => ", which is one whole node",
        false => "",
    };
    refuse(format!(
        "quota: {whose} would have {} of the nodes of one kind ({}) booked at one time and may have {}{one}",
        percent(class.booked_ppm),
        class.nodes,
        percent(allowed)
    ))
}

fn license_share(quotas: &Quotas, whose: &str, facts: &QuotaFacts) -> Result<(), Refusal> {
    let Some(most) = quotas.license_share_ppm else {
        return Ok(());
    };
    let over = |license: &&LicenseShare| license.booked > license.allowed(most);
    let Some(license) = facts.licenses.iter().find(over) else {
        return Ok(());
    };
    refuse(format!(
        "quota: {whose} would have {} of the {} licences '{}' booked at one time and may have {}: {} of them",
        license.booked,
        license.there,
        license.name,
        license.allowed(most),
        percent(most)
    ))
}

fn refuse(message: String) -> Result<(), Refusal> {
    Err(Refusal::new(RefusalCode::Admission, message))
}
