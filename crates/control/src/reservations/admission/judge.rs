//! Whether a slot is admitted: what is hard first, then the rules that the policy combines.
//!
//! ```text
//!   feasible -> price limit -> account can pay -> delay cap -> all_of -> any_of -> admitted
//!   `--------------- everyone ---------------'    `---- not administrators ----'
//! ```
//!
//! Knows nothing of how figures come about: [`Request`] and [`Slot`] are plain data. What
//! always holds: a slot that is not feasible, or that the account cannot pay, is admitted
//! to nobody; a refusal names the rule and its figures now; nobody is told whose job would
//! be delayed.
//!
//! Sources: COSY paper, section 4.4 (notice); what-if paper, section 4 (eq. 1 and 4);
//! pricing paper, section 2; the design's "Admission of reservations".

use super::endless::EndlessJobs;
use super::notice::{self, Together};
use crate::config::ReservationPolicy;
use cosy_model::reservation::Rule;
use cosy_model::{JobId, Refusal, RefusalCode, Span, Su, Time};
use cosy_sched::notice::Share;
use cosy_view::phrase::span;
use cosy_view::words::moment::utc;
use cosy_view::words::slot_hint::SlotHint;

/// Who asks, and the figures of this moment.
#[derive(Clone, Debug)]
pub(crate) struct Request<'a> {
    /// The rules of the reservation's queue.
    pub policy: &'a ReservationPolicy,
    /// When it is asked.
    pub now: Time,
    /// An administrator: rules and caps do not bind, feasibility and the account do.
    pub admin: bool,
    /// p; `None` while too few requests were accepted to tell.
    pub share: Option<Share>,
    /// Mean wait of jobs, w in COSY, section 3.2.
    pub mean_wait: Span,
    /// How long the same request would wait as a plain job (the JOB placeholder); `None`:
    /// cannot be told.
    pub plain_wait: Option<Span>,
    /// T of the load method (what-if paper, eq. 1): until then present work lasts.
    pub load_end: Time,
    /// Live bookings of the same account, those that touch each other as one.
    pub together: &'a [Together],
    /// What the account may still spend; `None`: not limited.
    pub budget: Option<Su>,
    /// What the user allows it to cost.
    pub max_price: Option<Su>,
    /// Who may be in the way for ever.
    pub endless: EndlessJobs,
}

/// A slot with what it would do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Slot {
    /// First instant of the slot.
    pub start: Time,
    /// First instant after the slot.
    pub end: Time,
    /// The nodes and licences are free then.
    pub feasible: bool,
    /// Where the nodes are free: the licence of which too little is.
    pub lacks: Option<LicenseLack>,
    /// Availability by what-if in millionths (what-if paper, eq. 4).
    pub availability_ppm: u32,
    /// Availability by load (what-if paper, eq. 1).
    pub by_load: bool,
    /// p·n·d + f.
    pub price: Su,
    /// The job that reservations would then push back the most in all, and by how much.
    pub worst_delay: Option<(JobId, Span)>,
}

/// A licence of which too little is free for a slot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LicenseLack {
    /// Its name.
    pub name: String,
    /// How many there are.
    pub total: u64,
    /// How many running jobs, to their limits, and reservations hold then.
    pub held: u64,
    /// How many are in use outside of the cluster.
    pub outside: u64,
    /// How many are wanted.
    pub wanted: u64,
    /// When enough of them are free for as long; `None`: cannot be told.
    pub frees: Option<Time>,
}

/// Whether the slot is admitted.
///
/// # Errors
/// The first of the hard conditions that does not hold, else all rules that refuse, with
/// their figures.
pub(crate) fn judge(request: &Request<'_>, slot: &Slot) -> Result<(), Refusal> {
    enabled(request)?;
    feasible(request, slot)?;
    price_limit(request, slot)?;
    can_pay(request, slot)?;
    if request.admin {
        return Ok(());
    }
    delay_cap(request, slot)?;
    all_of(request, slot)?;
    any_of(request, slot)
}

/// One line for each rule in force, with its figures now.
pub(crate) fn rule_lines(request: &Request<'_>) -> Vec<String> {
    let policy = request.policy;
    if request.admin {
        return vec!["administrators: no rule of admission binds".to_owned()];
    }
    let all = policy.all_of.iter().map(|rule| rule_line(request, *rule));
    let several = policy.any_of.len() > 1;
    let prefix = if several { "one of these: " } else { "" };
    let any = policy.any_of.iter();
    let any = any.map(|rule| format!("{prefix}{}", rule_line(request, *rule)));
    let cap = policy.delay_cap.map(|cap| {
        format!(
            "delay cap: reservations may push no waiting job back by more than {} in all",
            span(cap)
        )
    });
    all.chain(any).chain(cap).collect()
}

/// The refusal, with the earliest of the starts that pass, of as many as were looked at. Of
/// one start alone there is nothing to tell.
pub(crate) fn with_hint(refusal: Refusal, passing: Option<Time>, looked_at: usize) -> Refusal {
    let hint = match passing {
        Some(start) => SlotHint::Earliest(start),
        None if looked_at > 1 => SlotHint::NoneOf(looked_at),
        None => return refusal,
    };
    Refusal::new(refusal.code, hint.behind(&refusal.message))
}

/// Figures of a slot that begins at once take a moment to work out: it is then taken from
/// the present on, and is not in the past yet.
const WORKED_OUT: Span = Span::from_secs(10);

fn feasible(request: &Request<'_>, slot: &Slot) -> Result<(), Refusal> {
    if slot.start + WORKED_OUT < request.now {
        return Err(Refusal::invalid(format!(
            "the start {} is in the past: it is {} now",
            utc(slot.start),
            utc(request.now)
        )));
    }
    if slot.feasible {
        return Ok(());
    }
    if let Some(lack) = &slot.lacks {
        return Err(Refusal::new(RefusalCode::NotFree, lacking(slot, lack)));
    }
    Err(Refusal::new(
        RefusalCode::NotFree,
        format!(
            "not enough nodes are free from {} to {}: running jobs, accepted reservations or nodes out of service are in the way{}",
            utc(slot.start),
            utc(slot.end),
            request.endless.behind_reason()
        ),
    ))
}

fn lacking(slot: &Slot, lack: &LicenseLack) -> String {
    let LicenseLack {
        name,
        total,
        held,
        outside,
        wanted,
        frees,
    } = lack;
    let others = match outside {
        0 => String::new(),
        _ => format!(" and {outside} are in use outside of the cluster"),
    };
    let frees = frees.map_or(String::new(), |at| format!("; enough are free from {}", utc(at)));
    format!(
        "not enough licences '{name}' are free from {} to {}: of the {total} there are, running jobs and accepted reservations hold {held}{others}, and {wanted} are asked for{frees}",
        utc(slot.start),
        utc(slot.end)
    )
}

fn price_limit(request: &Request<'_>, slot: &Slot) -> Result<(), Refusal> {
    match request.max_price.filter(|most| slot.price > *most) {
        None => Ok(()),
        Some(most) => Err(Refusal::new(
            RefusalCode::Price,
            format!(
                "price: the start {} costs {} SU, at most {most} SU were allowed",
                utc(slot.start),
                slot.price
            ),
        )),
    }
}

fn can_pay(request: &Request<'_>, slot: &Slot) -> Result<(), Refusal> {
    match request.budget.filter(|left| slot.price > *left) {
        None => Ok(()),
        Some(left) => Err(Refusal::new(
            RefusalCode::Price,
            format!(
                "price: the start {} costs {} SU, and the account has {left} SU left",
                utc(slot.start),
                slot.price
            ),
        )),
    }
}

fn enabled(request: &Request<'_>) -> Result<(), Refusal> {
    if request.policy.enabled || request.admin {
        return Ok(());
    }
    Err(Refusal::new(
        RefusalCode::Forbidden,
        "only administrators may reserve here: users' reservations are switched off",
    ))
}

/// Whether no waiting job is pushed back by more than the cap; administrators are not bound.
///
/// # Errors
/// With the worst sum of delays.
pub(crate) fn delay_cap(request: &Request<'_>, slot: &Slot) -> Result<(), Refusal> {
    if request.admin {
        return Ok(());
    }
    let worst = slot.worst_delay.map(|(_, by)| by);
    match (request.policy.delay_cap, worst) {
        (Some(cap), Some(by)) if by > cap => Err(refused(format!(
            "delay cap: with the start {} a waiting job would be pushed back by reservations by {by} in all, {cap} at most are allowed",
            utc(slot.start)
        ))),
        (None | Some(_), None | Some(_)) => Ok(()),
    }
}

fn all_of(request: &Request<'_>, slot: &Slot) -> Result<(), Refusal> {
    let rules = request.policy.all_of.iter();
    let mut refusals = rules.filter_map(|rule| ask(request, slot, *rule).err());
    match refusals.next() {
        None => Ok(()),
        Some(first) => Err(refusals.fold(first, also)),
    }
}

fn any_of(request: &Request<'_>, slot: &Slot) -> Result<(), Refusal> {
    let rules = &request.policy.any_of;
    let mut refusal: Option<Refusal> = None;
    for rule in rules {
        match ask(request, slot, *rule) {
            Ok(()) => return Ok(()),
            Err(next) => {
                refusal = Some(match refusal {
                    None => next,
                    Some(before) => also(before, next),
                });
            }
        }
    }
    refusal.map_or(Ok(()), Err)
}

fn ask(request: &Request<'_>, slot: &Slot, rule: Rule) -> Result<(), Refusal> {
    match rule {
        Rule::Notice => notice::check(request, slot),
        Rule::WhatIf => what_if(request, slot),
        Rule::Load => load(request, slot),
        // Whoever comes so far can pay, and that is all that this rule asks.
        Rule::Price => Ok(()),
    }
}

fn what_if(request: &Request<'_>, slot: &Slot) -> Result<(), Refusal> {
    let least = request.policy.availability_ppm;
    if slot.availability_ppm >= least {
        return Ok(());
    }
    let start = utc(slot.start);
    Err(refused(match slot.availability_ppm {
        0 => format!("what-if: the start {start} would delay the first waiting job"),
        kept => format!(
            "what-if: the start {start} would slow the waiting jobs down too much, to {} of what is possible: {} are needed",
            percent(kept),
            percent(least)
        ),
    }))
}

fn load(request: &Request<'_>, slot: &Slot) -> Result<(), Refusal> {
    if slot.by_load {
        return Ok(());
    }
    Err(refused(format!(
        "load: the start {} is before the end of present work, {}",
        utc(slot.start),
        utc(request.load_end)
    )))
}

fn rule_line(request: &Request<'_>, rule: Rule) -> String {
    match rule {
        Rule::Notice => notice::line(request),
        Rule::WhatIf => format!(
            "what-if: the first waiting job must not be delayed, nor the others be slowed down to less than {} of what is possible",
            percent(request.policy.availability_ppm)
        ),
        Rule::Load => format!(
            "load: present work lasts until {}, the start must not be before",
            utc(request.load_end)
        ),
        Rule::Price => match request.budget {
            Some(left) => format!("price: the account must be able to pay, it has {left} SU left"),
            None => "price: everyone who pays is admitted".to_owned(),
        },
    }
}

fn also(first: Refusal, next: Refusal) -> Refusal {
    Refusal::new(first.code, format!("{}; {}", first.message, next.message))
}

fn refused(message: String) -> Refusal {
    Refusal::new(RefusalCode::Admission, message)
}

/// Millionths as per cent: `61.25 %`.
pub(super) fn percent(ppm: u32) -> String {
    let (whole, rest) = (ppm / 10_000, ppm % 10_000);
    let fraction = format!("{rest:04}");
    let fraction = fraction.trim_end_matches('0');
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{whole}{point}{fraction} %")
}
