//! The job that keys are about, and what is asked to steer it.

use crate::native::resv::words;
use crate::native::top::event::Ask;
use crate::refs;
use cosy_model::JobState;
use cosy_model::api::{JobField, JobFilter, Request, Table};

/// A job, a task, or tasks of an array that share a row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chosen {
    /// As lists name it: `12`, `12_3`, `12_[4-9]`.
    pub name: String,
    /// The name that its owner gave it, and the owner.
    title: String,
    state: Option<JobState>,
    held: bool,
}

/// What is done to a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Deed {
    Cancel,
    Hold,
    Release,
}

/// A question to the user, and what is asked of the controller where the answer is yes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Confirm {
    /// The question.
    pub question: String,
    /// What follows.
    pub ask: Ask,
}

impl Chosen {
    /// The job in that row; `None` where there is none.
    pub fn of((table, row): (&Table, usize)) -> Option<Self> {
        let text = |field| words::clean(table.text(row, field));
        let name = table.text(row, JobField::Ref).to_owned();
        (!name.is_empty()).then(|| Self {
            title: format!("'{}' of {}", text(JobField::Name), text(JobField::User)),
            state: table.text(row, JobField::State).parse().ok(),
            held: !table.text(row, JobField::HeldBy).is_empty(),
            name,
        })
    }

    /// The same for all tasks of its array.
    pub fn whole(self) -> Self {
        let base = self.name.split('_').next().unwrap_or_default().to_owned();
        Self { name: base, ..self }
    }

    /// Ends it.
    ///
    /// # Errors
    /// In one sentence: why that makes no sense.
    pub fn cancel(&self) -> Result<Confirm, String> {
        match self.state {
            Some(state) if state.is_end() => Err(format!("job {} has ended", self.name)),
            Some(_) | None => self.confirm(Deed::Cancel),
        }
    }

    /// Holds it, or lets it go where it is held.
    ///
    /// # Errors
    /// In one sentence: why that makes no sense.
    pub fn hold_or_release(&self) -> Result<Confirm, String> {
        match (self.state, self.held) {
            (Some(JobState::Waiting), true) => self.confirm(Deed::Release),
            (Some(JobState::Waiting), false) => self.confirm(Deed::Hold),
            (Some(_) | None, _) => {
                Err(format!("job {} does not wait: only waiting jobs are held", self.name))
            }
        }
    }

    fn confirm(&self, deed: Deed) -> Result<Confirm, String> {
        let filter = JobFilter {
            ids: refs::jobs(&self.name)?,
            ..JobFilter::default()
        };
        let (word, done, request) = match deed {
            Deed::Cancel => ("cancel", "cancelled", cancel(filter)),
            Deed::Hold => (
                "hold",
                "held",
                Request::Hold {
                    filter,
                    as_user: false,
                },
            ),
            Deed::Release => ("release", "released", Request::Release { filter }),
        };
        Ok(Confirm {
            question: format!("{word} job {} {}?", self.name, self.title),
            ask: Ask::Change {
                request: Box::new(request),
                done: format!("{done} job {}", self.name),
            },
        })
    }
}

const fn cancel(filter: JobFilter) -> Request {
    Request::Cancel {
        filter,
        signal: None,
        script_only: false,
        steps_only: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::top::sample;

    fn chosen(row: usize) -> Chosen {
        Chosen::of((&sample::listing(6).table, row)).unwrap()
    }

    #[test]
    fn questions() {
        let check = |got: Result<Confirm, String>, want: Result<&str, &str>| {
            let got = got.map(|confirm| confirm.question);
            assert_eq!(got.as_deref().map_err(String::as_str), want);
        };
        check(chosen(0).cancel(), Ok("cancel job 1 'job1' of ann?"));
        check(chosen(0).hold_or_release(), Err("job 1 does not wait: only waiting jobs are held"));
        check(chosen(1).hold_or_release(), Ok("hold job 2 'job2' of bob?"));
        check(chosen(3).hold_or_release(), Ok("release job 4 'job4' of bob?"));
        check(chosen(4).cancel(), Ok("cancel job 5_[1-9] 'job5' of ann?"));
        check(chosen(4).whole().cancel(), Ok("cancel job 5 'job5' of ann?"));
        let ended = Chosen {
            state: Some(JobState::Failed),
            ..chosen(0)
        };
        check(ended.cancel(), Err("job 1 has ended"));
        assert_eq!(Chosen::of((&Table::default(), 0)), None);
    }

    #[test]
    fn requests_name_each_task() {
        let Ask::Change { request, done } = chosen(4).cancel().unwrap().ask else {
            panic!("not a change");
        };
        assert_eq!(done, "cancelled job 5_[1-9]");
        let Request::Cancel { filter, signal, .. } = *request else {
            panic!("not a cancellation");
        };
        assert_eq!((filter.ids.len(), filter.ids[8].task, signal), (9, Some(9), None));
    }
}
