//! `squeue --steps`: steps that run. Sources: squeue(1), a capture of `squeue -s`.

use super::cells::{ValueStyle, limit};
use super::fields::StepField;
use super::options::{Format, Query};
use crate::layout::{Layout, all, is_all};
use crate::step::RunningStep;
use crate::times;
use cosy_model::Span;
use std::fmt::Write;

const USUAL: &str = "%.15i %.8j %.9P %.8u %.9M %N";
const ALL: &str = "bijluAMNPSU";

/// Id as users write it: `12_3.batch`.
pub fn id(step: &RunningStep) -> String {
    format!("{}.{}", step.job, step.step)
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
    steps: &[RunningStep],
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

fn cell(field: StepField, step: &RunningStep, look: &ValueStyle, cluster: &str, out: &mut String) {
    match field {
        StepField::StepId => out.push_str(&id(step)),
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
        StepField::TimeLimit => limit(out, Some(step.time_limit.unwrap_or(Span::UNLIMITED))),
        StepField::TimeUsed => {
            let used = step.start.map_or(Span(0), |start| look.now.since(start));
            times::short_duration(out, used);
        }
        StepField::NodeList => out.push_str(&step.nodes),
        StepField::Partition => out.push_str(&step.queue),
        StepField::StartTime => match step.start {
            Some(start) => look.stamps.write(out, start),
            None => out.push_str("N/A"),
        },
        StepField::Tasks => {
            let _ = write!(out, "{}", step.tasks);
        }
        StepField::State => out.push_str(step.state()),
        StepField::StateCompact => out.push_str(if step.is_running() { "R" } else { "PD" }),
        StepField::UserName => out.push_str(&step.user),
        StepField::UserId => {
            let _ = write!(out, "{}", step.uid.0);
        }
        StepField::Gres => out.push_str("N/A"),
        StepField::Cluster => out.push_str(cluster),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::tests::script;
    use crate::times::{TimeFormat, TimeWriter};
    use cosy_model::Time;

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
            stamps: TimeWriter::new(&now, TimeFormat::Standard),
            raw_sizes: false,
            bits: None,
        };
        let step = script(Time(now_ms - 3000));
        let layout = layout(&Query::default());
        let text = heading(&layout) + &lines(&layout, std::slice::from_ref(&step), &look, "base");
        let want = "         STEPID     NAME PARTITION     USER      TIME NODELIST\n      \
            101.batch    batch      main www-data      0:03 n5\n";
        assert_eq!(text, want);
        let task = RunningStep {
            job: "101_7".parse().unwrap(),
            ..step
        };
        let names = "arrayjobid:8,jobid:8,arraytaskid:8,stepid:12,cluster:4";
        let layout = Layout::of_names(names, StepField::of_word);
        let text = lines(&layout, &[task], &look, "base");
        assert_eq!(text, "101     101     7       101_7.batch base\n");
    }
}
