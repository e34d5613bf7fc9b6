//! The notice rule: a reservation is asked for at least n(p) · w before its start, where w
//! is the mean wait of queued jobs and p the share of reservations among requests.
//!
//! ```text
//!   now          now + n(p)·w                       n
//!    |-- refused --|-- accepted -->                 4|         ____ refused
//!                                                   1|____----
//!                                                     0 %     15 %   p
//! ```
//!
//! Against splitting, two additions that can each be switched off: the notice is at least
//! the wait that this very request is predicted in the queue now, and where the slot
//! overlaps or adjoins other bookings of its account, at least the wait that all of them
//! together are predicted. The joint booking begins with its first part and has been asked
//! for when that part was; the new part is asked for now. So neither a booking in many
//! narrow parts nor one in many short parts gets an earlier start than it would in one.
//!
//! Source: COSY paper, section 4.4 and figure 3. Where the paper is silent: w and p are
//! those of a sliding window ([`super::figures`]); with fewer requests in it than the least
//! number p counts as 0, so that n is as at the curve's begin.

use super::judge::{Request, Slot};
use crate::config::{NoticePolicy, Weigh};
use cosy_model::reservation::Rule;
use cosy_model::{Refusal, RefusalCode, Span, Time};
use cosy_sched::notice::{Share, WaitMultiple};
use cosy_view::phrase::span;
use cosy_view::words::moment::utc;

/// Bookings of one account that overlap or adjoin each other, or all touch the slot that is
/// judged, as one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Together {
    /// Begin of the first.
    pub from: Time,
    /// End of the last.
    pub until: Time,
    /// When the first to begin was asked for.
    pub made: Time,
    /// The wait that they and the new one together would be predicted in the queue now;
    /// `None`: not known, then it is not looked at.
    pub wait: Option<Span>,
}

impl Together {
    fn touches(&self, slot: &Slot) -> bool {
        slot.start <= self.until && slot.end >= self.from
    }

    /// How long before its begin the joint booking was asked for: the least over its parts.
    fn notice(&self, now: Time, slot: &Slot) -> Span {
        let new = slot.start.since(now);
        if slot.start < self.from {
            return new;
        }
        new.min(self.from.since(self.made))
    }
}

/// The notice that is needed now.
struct Needed {
    /// By which the mean wait is multiplied at load p: n(p) in COSY, section 3.2.
    multiple: WaitMultiple,
    /// n(p) · w.
    by_mean: Span,
    /// The predicted wait of the request itself, where it is looked at and known.
    by_own: Option<Span>,
}

impl Needed {
    fn least(&self) -> Span {
        self.by_mean.max(self.by_own.unwrap_or(Span::ZERO))
    }

    /// `1.38 times as long as jobs wait on average (42 min)`, or what is more.
    fn why(&self, request: &Request<'_>) -> String {
        if self.by_own.is_some_and(|own| own > self.by_mean) {
            return "as long as such a job would wait in the queue now".to_owned();
        }
        let mean = span(request.mean_wait);
        match (self.multiple, request.share) {
            (WaitMultiple::ONE, _) => format!("as long as jobs wait on average ({mean})"),
            (multiple, None) => {
                format!("{multiple} times as long as jobs wait on average ({mean})")
            }
            (multiple, Some(share)) => format!(
                "{multiple} times as long as jobs wait on average ({mean}), because {}",
                reservations_are(share, &request.policy.notice)
            ),
        }
    }
}

/// Whether the rule is asked at all.
pub(super) fn in_force(request: &Request<'_>) -> bool {
    !request.admin && request.policy.asks(Rule::Notice)
}

/// The earliest start that the rule allows now to a slot that touches no other booking of
/// its account; `None`: the rule is not in force.
///
/// # Errors
/// With the figures, when it allows no start at all: the share of reservations is too large.
pub(crate) fn earliest_by_notice(request: &Request<'_>) -> Result<Option<Time>, Refusal> {
    if !in_force(request) {
        return Ok(None);
    }
    let needed = needed(request)?;
    Ok(Some(request.now + needed.least()))
}

/// The rule's verdict on one slot.
pub(super) fn check(request: &Request<'_>, slot: &Slot) -> Result<(), Refusal> {
    let needed = needed(request)?;
    let earliest = request.now + needed.least();
    if slot.start < earliest {
        return Err(refused(format!(
            "notice: the start {} is {} ahead and must be {} ahead, {}: from {} on it would be accepted",
            utc(slot.start),
            slot.start.since(request.now),
            up(needed.least()),
            needed.why(request),
            utc(earliest)
        )));
    }
    if request.policy.notice.together {
        for group in request.together.iter().filter(|g| g.touches(slot)) {
            check_together(request, group, slot)?;
        }
    }
    Ok(())
}

fn check_together(request: &Request<'_>, group: &Together, slot: &Slot) -> Result<(), Refusal> {
    let notice = group.notice(request.now, slot);
    match group.wait.filter(|wait| *wait > notice) {
        None => Ok(()),
        Some(wait) => Err(refused(format!(
            "notice: together with this account's bookings from {} to {}, which the slot overlaps or adjoins, it is {} ahead and must be {} ahead, as long as such a job would wait in the queue now: leave time between them or start later",
            utc(group.from),
            utc(group.until),
            notice,
            up(wait)
        ))),
    }
}

/// The rule with its figures now, in one line.
pub(super) fn line(request: &Request<'_>) -> String {
    match needed(request) {
        Err(refusal) => refusal.message,
        Ok(needed) => format!(
            "notice: a start must be at least {} ahead, {}",
            span(needed.least()),
            needed.why(request)
        ),
    }
}

fn needed(request: &Request<'_>) -> Result<Needed, Refusal> {
    let policy = &request.policy.notice;
    let share_now = request.share.unwrap_or_default();
    let Some(multiple) = policy.curve.at(share_now) else {
        return Err(refused(format!(
            "notice: {}, and above {} % no reservation is accepted until the share has fallen (it is taken over the last {})",
            reservations_are(share_now, policy),
            policy.curve.refuse_above(),
            span(policy.window)
        )));
    };
    Ok(Needed {
        multiple,
        by_mean: multiple.of(request.mean_wait),
        by_own: request.plain_wait.filter(|_| policy.predicted_wait),
    })
}

/// `reservations are 3.2 % of requests`.
fn reservations_are(share: Share, policy: &NoticePolicy) -> String {
    format!("reservations are {share} % of {}", counted(policy))
}

fn counted(policy: &NoticePolicy) -> &'static str {
    match policy.weigh {
        Weigh::Counts => "requests",
        Weigh::CoreHours => "core-hours asked for",
    }
}

fn refused(message: String) -> Refusal {
    Refusal::new(RefusalCode::Admission, message)
}

/// Rounded up to whole seconds, as it is told: whoever keeps to it passes.
fn up(span: Span) -> Span {
    match span.ms().checked_add(999) {
        Some(ms) => Span::from_secs(ms.div_euclid(1000)),
        None => span,
    }
}
