//! Jobs and steps as Slurm's commands name them: `12`, `12+1`, `12_3`, `12_[1-4,7]`, `12.0`,
//! `12_3.batch`. Source: scancel(1), scontrol(1).

use cosy_model::api::JobRef;
use cosy_model::limits::IDS_IN_REQUEST;
use cosy_model::{ArraySpec, JobId};

/// A step by its place in the job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// The batch script.
    Batch,
    /// Whatever else runs on the job's nodes for it.
    Extern,
    /// What `srun` started.
    Number(u32),
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Batch => f.write_str("batch"),
            Self::Extern => f.write_str("extern"),
            Self::Number(n) => n.fmt(f),
        }
    }
}

/// One word of a command line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Target {
    /// As it was given, to be named in messages.
    pub text: String,
    /// A job, a task, or several tasks.
    pub jobs: Vec<JobRef>,
    /// Only that step of it.
    pub step: Option<Step>,
    /// Only that component of a heterogeneous job.
    pub component: Option<u32>,
}

/// Reads one word. `None`: that is no id.
pub fn parse(text: &str) -> Option<Target> {
    let (job, step) = match text.split_once('.') {
        Some((job, step)) => (job, Some(step_of(step)?)),
        None => (text, None),
    };
    let (job, component) = match job.split_once('+') {
        Some((job, component)) => (job, Some(u32::try_from(number(component)?).ok()?)),
        None => (job, None),
    };
    let jobs = match job.split_once('_') {
        Some(_) if component.is_some() => return None,
        Some((base, "*")) => vec![whole(base)?],
        Some((base, list)) => tasks(base, list)?,
        None => vec![whole(job)?],
    };
    Some(Target {
        text: text.to_owned(),
        jobs,
        step,
        component,
    })
}

fn number(text: &str) -> Option<u64> {
    let fine = !text.is_empty() && text.len() <= 18 && text.bytes().all(|b| b.is_ascii_digit());
    fine.then(|| text.parse().ok()).flatten()
}

fn whole(text: &str) -> Option<JobRef> {
    let id = number(text).filter(|n| *n > 0)?;
    Some(JobRef {
        job: JobId(id),
        task: None,
    })
}

fn tasks(base: &str, list: &str) -> Option<Vec<JobRef>> {
    let base = whole(base)?.job;
    let inside = list.strip_prefix('[').and_then(|l| l.strip_suffix(']'));
    let spec: ArraySpec = inside.unwrap_or(list).parse().ok()?;
    if spec.count() > IDS_IN_REQUEST as u64 {
        return None;
    }
    let task = |index| JobRef {
        job: base,
        task: Some(index),
    };
    Some(spec.indices().iter().map(task).collect())
}

fn step_of(text: &str) -> Option<Step> {
    match text {
        "batch" => Some(Step::Batch),
        "extern" => Some(Step::Extern),
        _ => Some(Step::Number(u32::try_from(number(text)?).ok()?)),
    }
}

/// Splits a list at commas and blanks that are outside brackets; empty words are kept, so
/// that they can be complained about.
pub fn words(text: &str) -> Vec<&str> {
    let mut inside = false;
    text.split(move |c| {
        inside = match c {
            '[' => true,
            ']' => false,
            _ => inside,
        };
        (c == ',' || c == ' ') && !inside
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads() {
        let check = |text: &str, want: Option<&str>| {
            let got = parse(text).map(|t| {
                let jobs: Vec<String> = t.jobs.iter().map(ToString::to_string).collect();
                let step = t.step.map_or(String::new(), |s| format!(" .{s}"));
                format!("{}{step}", jobs.join(" "))
            });
            assert_eq!(got.as_deref(), want, "{text}");
        };
        check("12", Some("12"));
        check("12_3", Some("12_3"));
        check("12_[1-2,7]", Some("12_1 12_2 12_7"));
        check("12_*", Some("12"));
        check("12.0", Some("12 .0"));
        check("12_3.batch", Some("12_3 .batch"));
        check("12.extern", Some("12 .extern"));
        check("12+1", Some("12"));
        check("12+1.0", Some("12 .0"));
        check("12+", None);
        check("12_1+1", None);
        check("12+x", None);
        assert_eq!(parse("12+1").and_then(|t| t.component), Some(1));
        check("foo", None);
        check("12x", None);
        check("", None);
        check("0", None);
        check("12.", None);
        check("12.x", None);
        check("12_", None);
        check("12_[0-4000000]", None);
    }

    #[test]
    fn lists() {
        let check = |text: &str, want: &[&str]| assert_eq!(words(text), want);
        check("1,2 3", &["1", "2", "3"]);
        check("1_[1,2],3", &["1_[1,2]", "3"]);
        check("", &[""]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn any_text(text in "[0-9_.,+\\[\\]a-c*-]{0,20}") {
            for word in words(&text) {
                if let Some(target) = parse(word) {
                    prop_assert!(!target.jobs.is_empty() && target.jobs.len() <= IDS_IN_REQUEST);
                }
            }
        }
    }
}
