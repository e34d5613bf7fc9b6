//! `squeue --steps`: steps that run. Sources: squeue(1), a capture of `squeue -s`.

use super::cells::{ValueStyle, limit};
use super::fields::StepField;
use super::options::{Format, Query};
use crate::layout::{Layout, all, is_all};
use crate::stamp;
use cosy_model::api::JobRef;
use cosy_model::{Span, Time};
use std::fmt::Write;

const USUAL: &str = "%.15i %.8j %.9P %.8u %.9M %N";
const ALL: &str = "bijluAMNPSU";

/// A step that runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// Its job, or the task of an array.
    pub job: JobRef,
    /// Number or name within the job: `0`, `batch`.
    pub step: String,
    /// Name that the step was given, by default its program's.
    pub name: String,
    /// Partition of the job.
    pub partition: String,
    /// Login name of the job's owner.
    pub user: String,
    /// Number of the owner.
    pub uid: i64,
    /// Start; `None` while it waits.
    pub start: Option<Time>,
    /// Nodes as a host list.
    pub nodes: String,
    /// Number of tasks.
    pub tasks: u32,
    /// Time limit of its own.
    pub limit: Option<Span>,
}

impl Step {
    /// Id as users write it: `12_3.batch`.
    pub fn id(&self) -> String {
        format!("{}.{}", self.job, self.step)
    }
}

/// Whether a word names steps: `12`, `12.0`, `12_3.batch`.
pub fn is_step(word: &str) -> bool {
    let job = word.split_once('.').map_or(word, |(job, _)| job);
    let (id, task) = job.split_once('_').unwrap_or((job, "0"));
    let number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    number(id) && number(task)
}

/// The columns that are asked for.
pub fn layout(query: &Query) -> Layout<StepField> {
    match &query.format {
        Some(Format::Letters(text)) if is_all(text) => {
            let text = all(ALL, "") + "|";
            Layout::of_letters(&text, StepField::of_letter)
        }
        Some(Format::Letters(text)) => Layout::of_letters(text, StepField::of_letter),
        Some(Format::Names(text)) => Layout::of_names(text, StepField::of_word),
        None => Layout::of_letters(USUAL, StepField::of_letter),
    }
}

/// The line of headings.
pub fn heading(layout: &Layout<StepField>) -> String {
    let mut out = String::new();
    layout.line(&mut out, |field, out| out.push_str(field.head()));
    out
}

/// The lines of steps.
pub fn lines(
    layout: &Layout<StepField>,
    steps: &[Step],
    look: &ValueStyle,
    cluster: &str,
) -> String {
    let mut out = String::new();
    for step in steps {
        layout.line(&mut out, |field, out| {
            cell(*field, step, look, cluster, out);
        });
    }
    out
}

fn cell(field: StepField, step: &Step, look: &ValueStyle, cluster: &str, out: &mut String) {
    match field {
        StepField::StepId => out.push_str(&step.id()),
        StepField::ArrayJobId | StepField::JobId => {
            let _ = write!(out, "{}", step.job.job);
        }
        StepField::ArrayTaskId => match step.job.task {
            Some(task) => {
                let _ = write!(out, "{task}");
            }
            None => out.push_str("N/A"),
        },
        StepField::Name => out.push_str(&step.name.replace(char::is_control, "?")),
        StepField::TimeLimit => limit(out, Some(step.limit.unwrap_or(Span(i64::MAX)))),
        StepField::TimeUsed => {
            let used = step.start.map_or(Span(0), |start| look.now.since(start));
            stamp::short(out, used);
        }
        StepField::NodeList => out.push_str(&step.nodes),
        StepField::Partition => out.push_str(&step.partition),
        StepField::StartTime => match step.start {
            Some(start) => look.stamps.write(out, start),
            None => out.push_str("N/A"),
        },
        StepField::Tasks => {
            let _ = write!(out, "{}", step.tasks);
        }
        StepField::State => out.push_str(if step.start.is_some() {
            "RUNNING"
        } else {
            "PENDING"
        }),
        StepField::StateCompact => out.push_str(if step.start.is_some() { "R" } else { "PD" }),
        StepField::UserName => out.push_str(&step.user),
        StepField::UserId => {
            let _ = write!(out, "{}", step.uid);
        }
        StepField::Gres => out.push_str("N/A"),
        StepField::Cluster => out.push_str(cluster),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stamp::{StampForm, Stamps};

    #[test]
    fn names_of_steps() {
        let check = |word: &str, want| assert_eq!(is_step(word), want, "{word}");
        check("12", true);
        check("12.0", true);
        check("12_3.batch", true);
        check("foo", false);
        check("", false);
        check("1_.0", false);
        check("1_[1-2].0", false);
    }

    #[test]
    fn as_captured() {
        let now: jiff::Zoned = "2026-11-21T02:20:31+00:00[+00:00]".parse().unwrap();
        let now_ms = now.timestamp().as_millisecond();
        let look = ValueStyle {
            now: Time(now_ms),
            stamps: Stamps::new(&now, StampForm::Standard),
            raw_sizes: false,
            bits: None,
        };
        let step = Step {
            job: "101".parse().unwrap(),
            step: "batch".into(),
            name: "batch".into(),
            partition: "main".into(),
            user: "www-data".into(),
            uid: 33,
            start: Some(Time(now_ms - 3000)),
            nodes: "n5".into(),
            tasks: 1,
            limit: None,
        };
        let layout = layout(&Query::default());
        let text = heading(&layout) + &lines(&layout, std::slice::from_ref(&step), &look, "base");
        let want = "         STEPID     NAME PARTITION     USER      TIME NODELIST\n      \
            101.batch    batch      main www-data      0:03 n5\n";
        assert_eq!(text, want);
        let task = Step {
            job: "101_7".parse().unwrap(),
            ..step
        };
        let names = "arrayjobid:8,jobid:8,arraytaskid:8,stepid:12,cluster:4";
        let layout = Layout::of_names(names, StepField::of_word);
        let text = lines(&layout, &[task], &look, "base");
        assert_eq!(text, "101     101     7       101_7.batch base\n");
    }
}
