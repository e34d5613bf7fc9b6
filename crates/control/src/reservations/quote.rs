//! Quotes: the candidates of a window with what each would cost, whom it would delay, and
//! whether the rules would admit it.
//!
//! Sources: pricing paper, sections 2 to 4; what-if paper, section 4.

pub(crate) mod procedures;

use cosy_model::reservation::StartChoice;
use cosy_model::{Span, Su, Time};
use cosy_sched::appraise::{Estimate, choose};

/// Own jobs that a slot is told to delay, the worst.
const OWN_DELAYED: usize = 20;
/// Without a latest end, candidates reach this far beyond the notice limit.
const USUAL_WINDOW: Span = Span::from_secs(14 * 86_400);

/// The place of the slot that a user's pick chooses.
pub(crate) fn pick(pick: StartChoice, slots: &[&Estimate]) -> Option<usize> {
    let priced: Vec<(Time, Su)> = slots
        .iter()
        .map(|e| (e.start, e.base.plus(e.extra)))
        .collect();
    match pick {
        StartChoice::At(_) => (!slots.is_empty()).then_some(0),
        StartChoice::FinishBy => slots.len().checked_sub(1),
        StartChoice::Soonest => choose(&priced, 0),
        StartChoice::Cheapest => choose(&priced, 1000),
        StartChoice::Balance { alpha_permille } => choose(&priced, alpha_permille),
    }
}
