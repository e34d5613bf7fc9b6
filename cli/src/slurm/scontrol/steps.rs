//! `scontrol update StepId=`: asked of the job's first node, which knows its steps.

use super::session::Session;
use super::update::report_update_error;
use crate::exit;
use crate::launch::node_request::StepRefused;
use crate::slurm::messages::{error, say};
use crate::slurm::{steps, words};
use cosy_client::CallError;
use cosy_model::step::StepInfo;
use cosy_model::{JobId, RefusalCode, Span, StepId};
use cosy_slurm::control::job::Limit;
use cosy_slurm::control::step::{self, StepUpdate};
use cosy_slurm::sentences;

impl Session<'_> {
    pub(super) fn update_steps(&self, given: &[String]) -> u8 {
        let update = match step::read(given) {
            Ok(update) => update,
            Err(mistake) => return report_update_error(&mistake),
        };
        let targets = match self.targets(&update) {
            Ok(targets) => targets,
            Err(why) => {
                error(self.context, &why);
                return exit::FAILED;
            }
        };
        let job = JobId(update.job);
        for (step, limit) in targets {
            if let Err(e) = steps::limit(self.context, job, step, limit) {
                say(&format!("slurm_update error: {}", why(&e)));
                return exit::FAILED;
            }
        }
        exit::OK
    }

    /// Which steps get which limit.
    fn targets(&self, update: &StepUpdate) -> Result<Vec<(Option<StepId>, Span)>, String> {
        let step = update.step.map(StepId);
        let by = match update.limit {
            Limit::To(limit) => return Ok(vec![(step, limit)]),
            Limit::More(by) => by.ms(),
            Limit::Less(by) => by.ms().saturating_neg(),
        };
        let all = steps::running(self.context, JobId(update.job));
        let meant = |s: &&StepInfo| s.start.is_some() && step.is_none_or(|step| step == s.key.step);
        let changed = all.iter().filter(meant).map(|info| {
            let new = changed(info.time_limit, by)?;
            Ok((Some(info.key.step), new))
        });
        let changed: Vec<_> = changed.collect::<Result<_, String>>()?;
        if changed.is_empty() {
            let (job, step) = (update.job, step.map(|s| format!(".{s}")));
            let name = format!("{job}{}", step.unwrap_or_default());
            let why = sentences::NO_JOB;
            return Err(format!("Could not load state information for step {name}: {why}"));
        }
        Ok(changed)
    }
}

/// A step's own limit, longer or shorter by so many milliseconds.
fn changed(present: Option<Span>, by: i64) -> Result<Span, String> {
    let Some(present) = present.filter(|p| !p.is_unlimited()) else {
        let why = "Cannot increment/decrement TimeLimit when set to UNLIMITED.";
        return Err(why.to_owned());
    };
    let new = present.ms().saturating_add(by);
    let minutes = |ms: i64| ms / Span::from_minutes(1).ms();
    if new < 0 {
        let (less, present) = (minutes(by.saturating_neg()), minutes(present.ms()));
        return Err(format!(
            "TimeLimit decrement larger than current time limit ({less} > {present})"
        ));
    }
    Ok(Span(new))
}

/// Slurm's sentence where it has one.
fn why(e: &anyhow::Error) -> String {
    let step = |refusal: &cosy_model::Refusal| match refusal.code {
        RefusalCode::NotFound => sentences::NO_JOB.to_owned(),
        RefusalCode::Forbidden => sentences::NOT_YOURS.to_owned(),
        _ => refusal.message.clone(),
    };
    match (e.downcast_ref(), e.downcast_ref()) {
        (Some(StepRefused(refusal)), _) => step(refusal),
        // A job that does not run has no steps.
        (_, Some(CallError::Refused(refusal))) if refusal.code == RefusalCode::WrongState => {
            sentences::NO_JOB.to_owned()
        }
        (_, Some(e)) => words::of_call(e).to_owned(),
        (None, None) => format!("{e:#}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_and_less() {
        let minutes = Span::from_minutes;
        let check = |present: Option<Span>, by: i64, want: Result<Span, &str>| {
            let by = by * minutes(1).ms();
            assert_eq!(changed(present, by), want.map_err(str::to_owned));
        };
        check(Some(minutes(5)), 2, Ok(minutes(7)));
        check(Some(minutes(5)), -2, Ok(minutes(3)));
        let less = "TimeLimit decrement larger than current time limit (6 > 5)";
        check(Some(minutes(5)), -6, Err(less));
        let none = "Cannot increment/decrement TimeLimit when set to UNLIMITED.";
        check(None, 2, Err(none));
        check(Some(Span::UNLIMITED), 2, Err(none));
    }
}
