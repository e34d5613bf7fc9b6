//! What a job waits for: `afterok:12`, `after:12+5`, `singleton`; `afterok:12_*` for all tasks of
//! an array.

use cosy_model::api::JobRef;
use cosy_model::job::DependencyKind;
use cosy_model::{Dependency, JobSpec};

/// One that is still waited for.
#[derive(Clone, Copy, Debug)]
pub struct OpenDependency<'a> {
    /// As it was asked for.
    pub dependency: &'a Dependency,
    /// It is for all tasks of an array.
    pub whole: bool,
    /// It can no longer happen.
    pub failed: bool,
}

/// One dependency; `whole` when it is for all tasks of an array.
pub fn write(dependency: &Dependency, whole: bool) -> String {
    let word = match dependency.kind {
        DependencyKind::After => "after",
        DependencyKind::AfterAny => "afterany",
        DependencyKind::AfterOk => "afterok",
        DependencyKind::AfterNotOk => "afternotok",
        DependencyKind::AfterCorr => "aftercorr",
        DependencyKind::Singleton => return "singleton".to_owned(),
    };
    let job = JobRef {
        job: dependency.job,
        task: dependency.task,
    };
    let star = if whole { "_*" } else { "" };
    let delay = match dependency.delay.secs() / 60 {
        0 => String::new(),
        minutes => format!("+{minutes}"),
    };
    format!("{word}:{job}{star}{delay}")
}

/// All that was asked for: `afterok:12,singleton`.
pub fn all(spec: &JobSpec) -> String {
    let each = spec.dependencies.iter().map(|d| write(d, false));
    each.collect::<Vec<_>>().join(separator(spec))
}

/// What is still waited for, with how each of them stands: `afterok:12_*(unfulfilled)`.
pub fn open(spec: &JobSpec, open: &[OpenDependency<'_>]) -> String {
    let each = open.iter().map(|one| {
        let word = if one.failed { "failed" } else { "unfulfilled" };
        format!("{}({word})", write(one.dependency, one.whole))
    });
    each.collect::<Vec<_>>().join(separator(spec))
}

/// One of them is enough, or all have to happen.
fn separator(spec: &JobSpec) -> &'static str {
    if spec.any_dependency { "?" } else { "," }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::{JobId, OsText, Program, Span};

    #[test]
    fn each_says_how_it_stands() {
        let mut spec = JobSpec::plain("x", Program::Allocation, OsText::from("/"));
        let after = |kind, job, task, minutes| Dependency {
            kind,
            job: JobId(job),
            task,
            delay: Span::from_minutes(minutes),
        };
        spec.dependencies = vec![
            after(DependencyKind::AfterOk, 12, None, 0),
            after(DependencyKind::After, 13, Some(2), 5),
            after(DependencyKind::Singleton, 0, None, 0),
        ];
        assert_eq!(all(&spec), "afterok:12,after:13_2+5,singleton");
        let (one, other) = (&spec.dependencies[0], &spec.dependencies[1]);
        let still = [(one, true, false), (other, false, true)];
        let still = still.map(|(dependency, whole, failed)| OpenDependency {
            dependency,
            whole,
            failed,
        });
        let told = "afterok:12_*(unfulfilled),after:13_2+5(failed)";
        assert_eq!(open(&spec, &still), told);
        let any = JobSpec {
            any_dependency: true,
            ..spec.clone()
        };
        assert_eq!(open(&any, &still), told.replace(',', "?"));
    }
}
