//! `scontrol update`; the parameters tell what is updated.

use super::session::{Session, has_ended, too_few_for_update};
use crate::slurm::messages::{error, say};
use crate::slurm::{names, words};
use crate::{exit, times, users};
use cosy_model::api::{JobChange, JobField, JobFilter, JobRef, Reply, Request};
use cosy_model::{Refusal, RefusalCode, Span};
use cosy_slurm::control::job::{self, Limit, Update, UpdateError};
use cosy_slurm::control::pairs::{Subject, subject};
use cosy_slurm::{sentences, targets};

/// Reports an error in the parameters; gives the exit code.
pub(super) fn report_update_error(mistake: &UpdateError) -> u8 {
    mistake.0.iter().for_each(|line| say(line));
    exit::FAILED
}

impl Session<'_> {
    pub(super) fn update(&self, given: &[String]) -> u8 {
        if given.is_empty() {
            return too_few_for_update();
        }
        match subject(given) {
            Some(Subject::Job) => self.update_jobs(given),
            Some(Subject::Step) => self.update_steps(given),
            Some(Subject::Node) => self.update_nodes(given),
            Some(Subject::Partition) => self.update_partition(given),
            Some(Subject::Reservation) => self.update_reservation(given),
            None => {
                say("No valid entity in update command");
                say("Input line must include \"NodeName\", \"PartitionName\", \"Reservation\", \
                     \"JobId\", or \"SlurmctldDebug\"");
                exit::FAILED
            }
        }
    }

    fn update_jobs(&self, given: &[String]) -> u8 {
        let update = match job::read(given, &times::now()) {
            Ok(update) => update,
            Err(mistake) => return report_update_error(&mistake),
        };
        let ids = match self.ids_of(&update) {
            Ok(ids) => ids,
            Err(why) => {
                error(self.context, &why);
                return exit::FAILED;
            }
        };
        let mut code = exit::OK;
        for word in targets::words(&ids) {
            code = code.max(match targets::parse(word).filter(|t| t.step.is_none()) {
                Some(target) if target.component.is_some() => {
                    refused(sentences::NOT_A_COMPONENT, word)
                }
                Some(target) => {
                    let filter = JobFilter {
                        ids: target.jobs,
                        ..JobFilter::default()
                    };
                    self.update_those(&update, word, filter)
                }
                None => refused(sentences::NO_JOB, word),
            });
        }
        code
    }

    /// The ids as given, or those of the jobs with the given name.
    fn ids_of(&self, update: &Update) -> Result<String, String> {
        if !update.ids.is_empty() {
            return Ok(update.ids.clone());
        }
        let filter = JobFilter {
            names: update.named.clone().into_iter().collect(),
            users: update.user.clone().into_iter().collect(),
            ..JobFilter::default()
        };
        let request = Request::Jobs {
            filter,
            fields: vec![JobField::Id, JobField::ArrayId, JobField::State],
            fold_arrays: true,
        };
        let table = match self.context.ask(request) {
            Ok(Reply::Jobs(table)) if table.is_sound() => table,
            Ok(_) => return Err(sentences::UNSPECIFIED.to_owned()),
            Err(e) => return Err(words::of_call(&e).to_owned()),
        };
        let live = (0..table.rows).filter(|row| !has_ended(&table, *row));
        let mut ids: Vec<i64> = live
            .filter_map(|row| {
                let array = table.number(row, JobField::ArrayId);
                array.or(table.number(row, JobField::Id))
            })
            .collect();
        ids.sort_unstable();
        ids.dedup();
        if ids.is_empty() {
            let name = update.named.clone().unwrap_or_default();
            return Err(match &update.user {
                Some(user) => format!("No jobs with user ID {} and name '{name}'", uid_of(user)),
                None => format!("No jobs with name '{name}'"),
            });
        }
        let ids: Vec<String> = ids.iter().map(i64::to_string).collect();
        Ok(ids.join(","))
    }

    /// Sends one request for the jobs that one word names; gives the exit code.
    fn update_those(&self, update: &Update, word: &str, filter: JobFilter) -> u8 {
        if update.needs_admin && !self.settings().is_some_and(|s| s.you_are_admin) {
            return refused(sentences::DENIED, word);
        }
        if update.change.priority.is_some_and(|p| p > 0)
            && let Some(why) = self.may_not_prioritize(&filter.ids)
        {
            return refused(why, word);
        }
        let change = match self.whole_change(update, &filter.ids) {
            Ok(change) => change,
            Err(why) => return refused(why, word),
        };
        let ids = filter.ids.clone();
        let request = Request::Change {
            filter,
            change: Box::new(change.clone()),
        };
        match self.context.ask(request) {
            Ok(Reply::Done { refused: bad, .. }) => match bad.first() {
                Some((_, refusal)) => {
                    let over = refusal.code == RefusalCode::WrongState && self.is_over(&ids);
                    let why = if over {
                        sentences::FINISHED
                    } else {
                        self.why_not(refusal, &change, &ids)
                    };
                    refused(why, word)
                }
                None => {
                    self.leave_scripts(&change, &ids);
                    self.tasks_that_ended(&ids, word)
                }
            },
            Ok(_) => refused(sentences::UNSPECIFIED, word),
            Err(cosy_client::CallError::Refused(refusal)) => {
                let why = self.why_not(&refusal, &change, &ids);
                if refusal.code == RefusalCode::Admission {
                    // What the site says in its own words.
                    let lines = refusal.message.lines().filter(|line| *line != why);
                    lines.for_each(|line| say(&format!("scontrol: error: {line}")));
                }
                refused(why, word)
            }
            Err(e) => refused(words::of_call(&e), word),
        }
    }

    /// Slurm's sentence where a user, who is no administrator, sets a priority.
    fn may_not_prioritize(&self, ids: &[JobRef]) -> Option<&'static str> {
        if self.settings().is_none_or(|s| s.you_are_admin) {
            return None;
        }
        let table = self.table(ids.to_vec(), &[JobField::Uid, JobField::Priority], true);
        let table = table.ok().filter(|table| table.rows > 0)?;
        let own = i64::from(rustix::process::getuid().as_raw());
        let all = |field, value| (0..table.rows).all(|r| table.number(r, field) == Some(value));
        Some(match (all(JobField::Uid, own), all(JobField::Priority, 0)) {
            (false, _) => sentences::NOT_YOURS,
            (true, true) => sentences::HELD,
            (true, false) => sentences::NOT_PERSISTENT,
        })
    }

    /// The change with values that have to be looked up first: the present time limit, the number
    /// of a reservation.
    fn whole_change(&self, update: &Update, ids: &[JobRef]) -> Result<JobChange, &'static str> {
        let mut change = update.change.clone();
        if let Some(limit) = update.limit {
            change.time_limit = Some(self.new_limit(limit, ids)?);
        }
        self.possible(&change)?;
        if let Some(name) = &update.reservation {
            let id = names::reservation(self.context, name);
            change.reservation = Some(id.ok_or(sentences::NO_RESERVATION)?);
        }
        Ok(change)
    }

    /// Slurm refuses at once what no machine of the cluster has; here such a job would wait
    /// and say so.
    fn possible(&self, change: &JobChange) -> Result<(), &'static str> {
        let groups = [&change.any_features, &change.same_features];
        let counted = change
            .counted_features
            .iter()
            .flatten()
            .flat_map(|c| &c.any);
        let groups = groups
            .into_iter()
            .flatten()
            .flatten()
            .chain(counted)
            .flatten();
        let mut features = change.features.iter().flatten().chain(groups).peekable();
        if change.nodes.is_none() && features.peek().is_none() {
            return Ok(());
        }
        let nodes = self.nodes();
        if change.nodes.is_some_and(|n| n as usize > nodes.len()) {
            return Err(sentences::NODE_COUNT);
        }
        let known = |feature: &String| nodes.iter().any(|n| n.features.contains(feature));
        if features.all(known) {
            Ok(())
        } else {
            Err(sentences::NO_FEATURE)
        }
    }

    fn new_limit(&self, limit: Limit, ids: &[JobRef]) -> Result<Span, &'static str> {
        let by = match limit {
            Limit::To(limit) => return Ok(limit),
            Limit::More(by) => by.ms(),
            Limit::Less(by) => by.ms().saturating_neg(),
        };
        let table = self.table(ids.to_vec(), &[JobField::TimeLimit], true);
        let table = table.map_err(|e| words::of_call(&e))?;
        let present = table
            .number(0, JobField::TimeLimit)
            .ok_or(sentences::NO_JOB)?;
        let new = present.saturating_add(by);
        if new <= 0 {
            return Err(sentences::TIME_LIMIT);
        }
        Ok(Span(new))
    }

    /// Slurm's sentence for a change that is refused.
    fn why_not(&self, refusal: &Refusal, change: &JobChange, ids: &[JobRef]) -> &'static str {
        let features = change.features.is_some();
        let sentence = refusal.about.and_then(sentences::about_change);
        if let Some(why) = sentence.filter(|_| refusal.code != RefusalCode::Forbidden) {
            return why;
        }
        match refusal.code {
            RefusalCode::Forbidden => self.forbidden(ids),
            RefusalCode::QueueLimit if change.nodes.is_none() => sentences::PARTITION_LIMIT,
            RefusalCode::NotFound if change.queue.is_some() => sentences::NO_PARTITION,
            RefusalCode::NeverFits if features => sentences::NO_FEATURE,
            RefusalCode::NeverFits | RefusalCode::QueueLimit if change.nodes.is_some() => {
                sentences::NODE_COUNT
            }
            RefusalCode::Invalid | RefusalCode::NotFound
                if change.require.is_some() || change.keep_nodes.is_some() =>
            {
                sentences::NO_NODE
            }
            RefusalCode::WrongState => sentences::RUNNING,
            _ => sentences::about_refused(refusal),
        }
    }

    /// Prints the tasks of an array that had ended before the change, as Slurm does.
    fn tasks_that_ended(&self, ids: &[JobRef], word: &str) -> u8 {
        let [JobRef { task: None, .. }] = ids else {
            return exit::OK;
        };
        let fields = [JobField::ArrayTask, JobField::State, JobField::Nodes];
        let Ok(table) = self.table(ids.to_vec(), &fields, false) else {
            return exit::OK;
        };
        let (mut over, mut live) = (Vec::new(), Vec::new());
        for row in 0..table.rows {
            let task = table.number(row, JobField::ArrayTask);
            let Some(task) = task.and_then(|t| u64::try_from(t).ok()) else {
                continue;
            };
            match (has_ended(&table, row), table.text(row, JobField::Nodes)) {
                (false, _) => live.push(task),
                (true, "") => {} // ended before it was a job of its own
                (true, _) => over.push(task),
            }
        }
        if over.is_empty() {
            return exit::OK;
        }
        for (tasks, sentence) in [
            (&mut over, sentences::FINISHED),
            (&mut live, sentences::NO_ERROR),
        ] {
            tasks.sort_unstable();
            if !tasks.is_empty() {
                let tasks = cosy_model::hostlist::ranges(tasks, 1);
                say(&format!("{word}_{tasks}: {sentence}"));
            }
        }
        exit::FAILED
    }
}

/// A user's number, given as number or name.
fn uid_of(user: &str) -> String {
    users::number(user).map_or_else(|| user.to_owned(), |uid| uid.to_string())
}

fn refused(why: &str, word: &str) -> u8 {
    say(&format!("{why} for job {word}"));
    exit::FAILED
}
