//! `scontrol update StepId=`: another time limit for steps that run.
//!
//! Knows nothing of what becomes of it. Source: scontrol(1), 22.05.

use super::job::{Limit, UpdateError, limit_of};
use super::pairs::Pair;

/// What is to be changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StepUpdate {
    /// Number of the job.
    pub job: u64,
    /// Number of the step; all that run without.
    pub step: Option<u32>,
    /// New time limit, absolute or as a difference.
    pub limit: Limit,
}

/// Names, and the fewest letters of each.
const NAMES: [(&str, usize); 2] = [("StepId", 4), ("TimeLimit", 2)];

/// Reads the words.
///
/// # Errors
/// The first word that makes no sense, or nothing is changed.
pub fn read(words: &[String]) -> Result<StepUpdate, UpdateError> {
    let (mut which, mut limit) = (None, None);
    for word in words {
        let pair = Pair::of(word);
        if pair.value.is_none() {
            let text = format!("Invalid input: {}  Request aborted", short(word));
            return Err(UpdateError(vec![text]));
        }
        match key(pair.name) {
            Some("StepId") => which = Some(id(&pair)?),
            Some("TimeLimit") => limit = Some(limit_of(pair.text())?),
            _ => return Err(UpdateError::unsupported(word)),
        }
    }
    let nothing = || UpdateError(vec!["No changes specified".to_owned()]);
    let ((job, step), limit) = which.zip(limit).ok_or_else(nothing)?;
    Ok(StepUpdate { job, step, limit })
}

fn key(name: &str) -> Option<&'static str> {
    let is = |(word, least): &&(&'static str, usize)| {
        name.len() >= *least
            && word
                .get(..name.len())
                .is_some_and(|word| word.eq_ignore_ascii_case(name))
    };
    NAMES.iter().find(is).map(|(word, _)| *word)
}

fn id(pair: &Pair<'_>) -> Result<(u64, Option<u32>), UpdateError> {
    let (job, step) = match pair.text().split_once('.') {
        Some((job, step)) => (job, Some(step)),
        None => (pair.text(), None),
    };
    let step = step.map(str::parse).transpose();
    match (job.parse(), step) {
        (Ok(job), Ok(step)) => Ok((job, step)),
        _ => Err(UpdateError(vec![
            format!("Invalid StepID parameter: {}", short(pair.word)),
            "Request aborted".to_owned(),
        ])),
    }
}

fn short(word: &str) -> String {
    word.chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::Span;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn updates() {
        let check = |line: &str, step: Option<u32>, limit: Limit| {
            let want = StepUpdate {
                job: 12,
                step,
                limit,
            };
            assert_eq!(read(&words(line)), Ok(want), "{line}");
        };
        let minutes = Span::from_minutes;
        check("StepId=12.3 TimeLimit=5", Some(3), Limit::To(minutes(5)));
        check("step=12 ti=1:00:00", None, Limit::To(minutes(60)));
        check("STEPID=12.0 time=+2", Some(0), Limit::More(minutes(2)));
        check("stepid=12.0 time=-2", Some(0), Limit::Less(minutes(2)));
        check("stepid=12.0 time=UNLIMITED", Some(0), Limit::To(Span::UNLIMITED));
    }

    #[test]
    fn mistakes() {
        let check = |line: &str, want: &[&str]| {
            let mistake = read(&words(line)).unwrap_err();
            assert_eq!(mistake.0, want, "{line}");
        };
        check("StepId=12.0", &["No changes specified"]);
        check("TimeLimit=5", &["No changes specified"]);
        check("StepId=12.0 TimeLimit", &["Invalid input: TimeLimit  Request aborted"]);
        check("StepId=12.0 TimeLimit=soon", &["scontrol: error: Invalid TimeLimit value"]);
        check(
            "StepId=12.batch TimeLimit=5",
            &[
                "Invalid StepID parameter: StepId=12.batch",
                "Request aborted",
            ],
        );
        check(
            "StepId=12_3.0 TimeLimit=5",
            &["Invalid StepID parameter: StepId=12_3.0", "Request aborted"],
        );
        check(
            "StepId=12.0 Nice=5",
            &[
                "Update of this parameter is not supported: Nice=5",
                "Request aborted",
            ],
        );
    }
}
