//! `scontrol hold`, `release`, `requeue`, `suspend`, `resume`, `top`.
//!
//! Each word on the command line is one request, so that messages come in Slurm's order. Holding
//! and releasing print a refusal twice.

use super::session::{Session, has_ended, too_few};
use crate::slurm::messages::say;
use crate::slurm::words;
use crate::{exit, signals};
use cosy_model::api::{JobField, JobFilter, JobRef, Reply, Request};
use cosy_model::{JobState, Refusal, RefusalCode};
use cosy_slurm::{sentences, targets};

/// What a command does to jobs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum JobAction {
    Hold,
    HoldAsUser,
    Release,
    Requeue,
    RequeueHold,
    Suspend,
    Resume,
    Top,
}

impl JobAction {
    const fn requeues(self) -> bool {
        matches!(self, Self::Requeue | Self::RequeueHold)
    }
}

impl Session<'_> {
    pub(super) fn steer(&self, action: JobAction, keyword: &str, rest: &[String]) -> u8 {
        if rest.is_empty() {
            return too_few(keyword);
        }
        let twice = matches!(action, JobAction::Hold | JobAction::HoldAsUser | JobAction::Release);
        let mut code = exit::OK;
        let mut given: Vec<&str> = rest.iter().flat_map(|w| targets::words(w)).collect();
        if action == JobAction::Top {
            given.reverse(); // each goes above the one before it: the first is to be the highest
        }
        let special = given.iter().any(|word| is_special(word));
        for word in given {
            if word.is_empty() || is_option(action, word) {
                continue;
            }
            for (job, why) in self.steer_one(action, special, word) {
                say(&format!("{why} for job {job}"));
                if twice {
                    say(&format!("slurm_suspend error: {why}"));
                }
                code = exit::FAILED;
            }
        }
        code
    }

    /// `scontrol notify 12 TEXT`: the words with blanks between.
    pub(super) fn notify(&self, keyword: &str, rest: &[String]) -> u8 {
        let Some((job, words)) = rest.split_first().filter(|(_, words)| !words.is_empty()) else {
            return too_few(keyword);
        };
        let Some(target) = targets::parse(job) else {
            return not_told(sentences::NO_JOB);
        };
        let ids = target.jobs.clone();
        let request = Request::Notify {
            filter: JobFilter {
                ids: target.jobs,
                ..JobFilter::default()
            },
            text: words.join(" "),
        };
        match self.context.ask(request) {
            Ok(Reply::Done { refused, .. }) => match refused.first() {
                None => exit::OK,
                Some((_, refusal)) if refusal.code == RefusalCode::Forbidden => {
                    not_told(self.forbidden(&ids))
                }
                Some((_, refusal))
                    if refusal.code == RefusalCode::WrongState && !self.is_over(&ids) =>
                {
                    not_told(sentences::PENDING)
                }
                Some((_, refusal)) => not_told(sentences::about_job(refusal.code)),
            },
            Ok(_) => not_told(sentences::UNSPECIFIED),
            Err(e) => not_told(words::of_call(&e)),
        }
    }

    /// Sends one request; gives the jobs for which it was refused, with Slurm's sentences.
    fn steer_one(
        &self,
        action: JobAction,
        special: bool,
        word: &str,
    ) -> Vec<(String, &'static str)> {
        let Some(filter) = self.filter_of(word) else {
            return vec![(word.to_owned(), sentences::NO_JOB)];
        };
        if action.requeues() {
            if let Some(why) = self.not_again(&filter.ids) {
                return vec![(word.to_owned(), why)];
            }
            signals::outlive_own_job();
        }
        let ids = filter.ids.clone();
        match self.context.ask(request(action, special, filter)) {
            Ok(Reply::Done { refused, .. }) => {
                let sentences = refused.into_iter().filter_map(|(_, refusal)| {
                    let why = self.why(action, &ids, &refusal)?;
                    Some((word.to_owned(), why))
                });
                sentences.take(1).collect()
            }
            Ok(Reply::Refused(refusal)) => {
                vec![(word.to_owned(), sentences::about_job(refusal.code))]
            }
            Ok(_) => vec![(word.to_owned(), sentences::UNSPECIFIED)],
            Err(e) => vec![(word.to_owned(), words::of_call(&e))],
        }
    }

    /// The filter for a word: ids of jobs, or `jobname=NAME`.
    fn filter_of(&self, word: &str) -> Option<JobFilter> {
        let named = word.split_once('=').filter(|(key, _)| {
            key.eq_ignore_ascii_case("jobname") || key.eq_ignore_ascii_case("name")
        });
        if let Some((_, name)) = named {
            return Some(JobFilter {
                names: vec![name.to_owned()],
                ..JobFilter::default()
            });
        }
        let whole = |t: &targets::Target| t.step.is_none() && t.component.is_none();
        let target = targets::parse(word).filter(whole)?;
        Some(JobFilter {
            ids: target.jobs,
            ..JobFilter::default()
        })
    }

    /// Slurm's sentence where the one job still waits, or none of the jobs may run again; `None`
    /// otherwise.
    fn not_again(&self, ids: &[JobRef]) -> Option<&'static str> {
        let fields = [JobField::State, JobField::Requeue];
        let table = self.table(ids.to_vec(), &fields, true).ok()?;
        let waits = |row| table.text(row, JobField::State) == JobState::Waiting.word();
        if table.rows == 1 && waits(0) {
            return Some(sentences::PENDING);
        }
        let never = |row| table.number(row, JobField::Requeue) == Some(0);
        (table.rows > 0 && (0..table.rows).all(never)).then_some(sentences::DISABLED)
    }

    /// Slurm's sentence for a refusal; `None` where Slurm finds nothing wrong.
    fn why(&self, action: JobAction, ids: &[JobRef], refusal: &Refusal) -> Option<&'static str> {
        match refusal.code {
            RefusalCode::Forbidden => Some(self.forbidden(ids)),
            RefusalCode::WrongState if self.is_over(ids) => Some(sentences::FINISHED),
            RefusalCode::WrongState => (action == JobAction::Top).then_some(sentences::RUNNING),
            code => Some(sentences::about_job(code)),
        }
    }

    /// Slurm's sentence for a forbidden request: another one for jobs of other users than for
    /// requests of administrators.
    pub(super) fn forbidden(&self, ids: &[JobRef]) -> &'static str {
        let own = i64::from(rustix::process::getuid().as_raw());
        let Ok(table) = self.table(ids.to_vec(), &[JobField::Uid], true) else {
            return sentences::DENIED;
        };
        let mine = (0..table.rows).any(|row| table.number(row, JobField::Uid) == Some(own));
        if mine {
            sentences::DENIED
        } else {
            sentences::NOT_YOURS
        }
    }

    /// Whether all of them have ended.
    pub(super) fn is_over(&self, ids: &[JobRef]) -> bool {
        let Ok(table) = self.table(ids.to_vec(), &[JobField::State], true) else {
            return false;
        };
        (0..table.rows).all(|row| has_ended(&table, row))
    }
}

fn not_told(why: &str) -> u8 {
    say(&format!("job notify failure: {why}"));
    exit::FAILED
}

/// `requeue Incomplete 12`, `requeuehold State=SpecialExit 12`.
fn is_option(action: JobAction, word: &str) -> bool {
    action.requeues() && (word.eq_ignore_ascii_case("incomplete") || is_special(word))
}

/// Whether a word is `State=SpecialExit` or `State=SE`.
fn is_special(word: &str) -> bool {
    let pair = word.split_once('=');
    pair.is_some_and(|(key, value)| {
        let names = ["SpecialExit", "SE"];
        key.eq_ignore_ascii_case("state") && names.iter().any(|n| n.eq_ignore_ascii_case(value))
    })
}

fn request(action: JobAction, special: bool, filter: JobFilter) -> Request {
    let hold = action == JobAction::RequeueHold;
    match action {
        JobAction::Hold | JobAction::HoldAsUser => Request::Hold {
            filter,
            as_user: action == JobAction::HoldAsUser,
        },
        JobAction::Release => Request::Release { filter },
        JobAction::Requeue | JobAction::RequeueHold => Request::Requeue {
            filter,
            hold,
            special: special && hold,
        },
        JobAction::Suspend => Request::Suspend { filter },
        JobAction::Resume => Request::Resume { filter },
        JobAction::Top => Request::Top { filter },
    }
}
