//! How much one user or one account may have booked.
//!
//! Knows only figures that were counted elsewhere. What always holds: what is not limited
//! is never refused, and a refusal names the quota, whose it is, and both figures.
//!
//! Source: issue of advance reservations, "Admission"; COSY has no quotas.

use super::civil::utc;
use super::judge::percent;
use crate::config::{Quotas, ReservationPolicy};
use cosy_model::{Refusal, RefusalCode, Span, Time};

/// What quotas look at, of one user or one account.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct QuotaFacts {
    /// Live reservations, without the new one; a series counts once.
    pub open: u32,
    /// For each node class the largest part of its nodes in millionths that would be booked
    /// at one time during the new one, the new one included.
    pub class_share_ppm: Vec<(String, u32)>,
    /// Length of the new one.
    pub length: Span,
    /// Its start.
    pub start: Time,
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
    share(quotas, whose, facts)
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
    let over = facts.class_share_ppm.iter().find(|(_, ppm)| *ppm > most);
    match over {
        None => Ok(()),
        Some((class, ppm)) => refuse(format!(
            "quota: {whose} would have {} of the nodes of {class} booked at one time and may have {}",
            percent(*ppm),
            percent(most)
        )),
    }
}

fn refuse(message: String) -> Result<(), Refusal> {
    Err(Refusal::new(RefusalCode::Admission, message))
}
