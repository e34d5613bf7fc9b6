//! Rules that are compared: COSY's alone, none at all, and with Cosy's protections.

use cosy_control::{EarlyEnd, NoticePolicy, Quotas, ReservationPolicy, Weigh};
use cosy_model::Su;
use cosy_model::reservation::Rule;
use cosy_sched::appraise::Tariff;
use cosy_sched::notice::Curve;

/// Under which rules users reserve.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum RuleSet {
    /// Everything that is free is booked: what the rule has to be better than.
    Free,
    /// `etc/policies/academic.toml`: the notice rule as in the paper.
    Academic,
    /// The same with requests and waits weighed by core-hours.
    Weighed,
    /// Cosy's defaults: weighed by core-hours, at least the wait predicted in the queue,
    /// quotas of a user, no job pushed back by more than four hours.
    Protected,
}

impl RuleSet {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Free, Self::Academic, Self::Weighed, Self::Protected];

    /// The name of the rules in tables.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Free => "no rule",
            Self::Academic => "academic",
            Self::Weighed => "by core-hours",
            Self::Protected => "default",
        }
    }

    /// Its rules, with that curve and at most so many candidates for a start.
    pub fn policy(self, curve: &Curve, candidates: usize) -> ReservationPolicy {
        let mut policy = match self {
            Self::Free => academic(Vec::new(), Weigh::Counts),
            Self::Academic => academic(vec![Rule::Notice], Weigh::Counts),
            Self::Weighed => academic(vec![Rule::Notice], Weigh::CoreHours),
            Self::Protected => ReservationPolicy::default(),
        };
        policy.notice.curve = curve.clone();
        policy.candidates = candidates;
        policy
    }
}

/// The rules of `etc/policies/academic.toml`.
fn academic(all_of: Vec<Rule>, weigh: Weigh) -> ReservationPolicy {
    ReservationPolicy {
        all_of,
        any_of: Vec::new(),
        notice: NoticePolicy {
            weigh,
            predicted_wait: false,
            together: false,
            ..NoticePolicy::default()
        },
        tariff: Tariff {
            gpu_hour: Su::ZERO,
            delay_core_hour: Su::ZERO,
            ..Tariff::default()
        },
        price_floor: false,
        per_user: Quotas::NONE,
        delay_cap: None,
        holds: None,
        rehold: None,
        no_show: None,
        early_end: EarlyEnd::Refund,
        cancel_fee: false,
        low_use_ppm: None,
        ..ReservationPolicy::default()
    }
}
