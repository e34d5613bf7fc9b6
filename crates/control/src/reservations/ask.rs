//! What a user asks for, checked and resolved: names become numbers, times are put in
//! order, and what can never be is refused at once.

pub(crate) mod procedures;

use crate::jobs::check::check_nearness;
use cosy_model::reservation::{ReservationSpec, StartChoice};
use cosy_model::{AccessLevel, QueueId, Refusal, Span, Time, limits};
use cosy_sched::{Component, Holds};
use std::sync::Arc;

/// Delays are looked for among so many waiting jobs, the first in line. The same for quotes
/// and bookings, so that what was quoted is what is booked.
pub(super) const JOBS_LOOKED_AT: usize = 1000;
/// Farthest start that can be asked for, from now.
const FARTHEST: Span = Span::from_secs(10 * 366 * 86_400);
/// A start that lies back by no more than this was meant as now.
pub(super) const JUST_NOW: Span = Span::from_secs(60);

/// A request that could be, resolved.
#[derive(Clone, Debug)]
pub(crate) struct ReservationRequest {
    pub ask: ReservationSpec,
    pub queue: QueueId,
    pub demand: Arc<Component>,
    /// What it asks for of resource pools.
    pub holds: Holds,
    pub level: AccessLevel,
    /// First instant at which it may begin.
    pub earliest: Time,
    /// Last instant at which it may begin.
    pub latest: Time,
    /// Account that pays.
    pub account: Option<String>,
    /// As whose job it would stand in line.
    pub stands_as: StandsAs,
}

/// Whose use, account and quality of service count for the place of a job that is not submitted.
#[derive(Clone, Debug, Default)]
pub(crate) struct StandsAs {
    pub user: String,
    pub account: Option<String>,
    pub qos: Option<String>,
    /// As [`cosy_model::JobSpec::nice`].
    pub nice: i64,
}

/// What is against it, whoever asks: of a change that is asked of the whole that it would make.
pub(super) fn check_ask(ask: &ReservationSpec) -> Result<(), Refusal> {
    let texts = [
        ("name", ask.name.len(), limits::NAME_BYTES),
        ("comment", ask.comment.len(), limits::COMMENT_BYTES),
        ("flags", ask.flags.iter().map(|f| f.len().saturating_add(1)).sum(), limits::COMMENT_BYTES),
        ("account", ask.account.as_ref().map_or(0, String::len), limits::NAME_BYTES),
    ];
    if let Some((what, have, most)) = texts.into_iter().find(|(_, have, most)| have > most) {
        return Err(Refusal::invalid(format!(
            "the {what} of {have} bytes is longer than the {most} allowed"
        )));
    }
    super::share::check(&ask.sharing)?;
    check_nearness(&ask.request)?;
    if ask.request.nodes == Some(0) && !ask.licenses.is_empty() {
        return Err(Refusal::invalid(
            "licences cannot be reserved alone: jobs run on the nodes of their reservation, so give the nodes or tasks that they need with -N or -n beside -L",
        ));
    }
    if ask.length <= Span::ZERO || ask.length > FARTHEST {
        return Err(Refusal::invalid(format!(
            "a length of {} cannot be reserved: give one above 0 with --time",
            ask.length
        )));
    }
    if ask.max_price.is_some_and(|most| most.0 < 0) {
        return Err(Refusal::invalid("a negative price cannot be paid"));
    }
    check_repeat(ask)
}

fn check_repeat(ask: &ReservationSpec) -> Result<(), Refusal> {
    let Some(repeat) = &ask.repeat else {
        return Ok(());
    };
    if repeat.starts.is_empty() || repeat.starts.len() > limits::REPEATS {
        return Err(Refusal::invalid(format!(
            "a repeating reservation has 1 to {} starts, not {}: limit the rule with COUNT or UNTIL",
            limits::REPEATS,
            repeat.starts.len()
        )));
    }
    if repeat.rule.len() > limits::COMMENT_BYTES {
        return Err(Refusal::invalid("the rule of repetition is too long"));
    }
    let too_near = |pair: &[Time]| pair[1] < pair[0] + ask.length;
    if repeat.starts.windows(2).any(too_near) {
        return Err(Refusal::invalid(
            "the repetitions overlap: make the reservation shorter or repeat it less often",
        ));
    }
    match ask.pick {
        StartChoice::At(start) if start == repeat.starts[0] => Ok(()),
        _ => Err(Refusal::invalid("a repeating reservation has exact starts: use --at")),
    }
}

/// Earliest and latest start.
fn window(now: Time, ask: &ReservationSpec) -> Result<(Time, Time), Refusal> {
    if let StartChoice::At(start) = ask.pick {
        if ask.earliest.is_some() || ask.latest_end.is_some() {
            return Err(Refusal::invalid(
                "an exact start needs no window: leave out either --at or --from and --until",
            ));
        }
        return in_reach(now, start).map(|start| (start, start));
    }
    let earliest = in_reach(now, ask.earliest.unwrap_or(now).max(now))?;
    let latest_end = match (ask.latest_end, ask.pick) {
        (Some(end), _) => end,
        (None, StartChoice::FinishBy) => {
            return Err(Refusal::invalid("--finish-by needs a time"));
        }
        (None, _) => earliest + FARTHEST,
    };
    if latest_end <= now {
        return Err(Refusal::invalid("the latest end is in the past"));
    }
    let latest = latest_end - ask.length;
    if latest < earliest {
        return Err(Refusal::invalid(format!(
            "the window is shorter than the reservation of {}: the earliest start and the latest end are {} apart",
            ask.length,
            latest_end.since(earliest)
        )));
    }
    Ok((earliest, latest.min(now + FARTHEST)))
}

fn in_reach(now: Time, start: Time) -> Result<Time, Refusal> {
    if start > now + FARTHEST {
        return Err(Refusal::invalid("the start is more than ten years ahead"));
    }
    if start + JUST_NOW < now {
        return Err(Refusal::invalid("the start is in the past"));
    }
    Ok(start.max(now))
}
