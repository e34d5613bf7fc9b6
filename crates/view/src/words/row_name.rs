//! What the row of a list is called: `12`, `12_3`, `12_[4-9%2]` for waiting tasks together, `12+1`
//! for a component of a job.

use super::indices;
use cosy_model::JobId;

/// Which job, task, tasks or component a row is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RowName<'a> {
    /// Id of the job, or of the first of the tasks.
    pub id: JobId,
    /// First id of its submission.
    pub base: JobId,
    /// Index in its array.
    pub index: Option<u32>,
    /// Indices of the waiting tasks of an array that the row stands for.
    pub tasks: Option<&'a [u32]>,
    /// Each component of a job has a row of its own, and this is one of them.
    pub component: bool,
}

/// The text; `at_once` tasks of its array may run at once.
pub fn write(name: RowName<'_>, at_once: Option<u32>) -> String {
    let RowName { id, base, .. } = name;
    match (name.tasks, name.index) {
        _ if name.component => format!("{base}+{}", id.0.saturating_sub(base.0)),
        (Some(tasks), _) => {
            format!("{base}_[{}]", with_limit(&indices(tasks.iter().copied()), at_once))
        }
        (None, Some(index)) => format!("{base}_{index}"),
        (None, None) => id.to_string(),
    }
}

/// Indices with how many of them may run at once: `1-3,7%2`. [`cosy_model::ArraySpec`] reads that.
pub fn with_limit(indices: &str, at_once: Option<u32>) -> String {
    match at_once {
        Some(n) => format!("{indices}%{n}"),
        None => indices.to_owned(),
    }
}

/// Waiting tasks of an array that a row stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tasks<'a> {
    /// First id of the array.
    pub base: JobId,
    /// Indices, with how many of them may run at once: `4-9%2`.
    pub spec: &'a str,
    /// The indices alone: `4-9`.
    pub indices: &'a str,
    /// How many of them may run at once.
    pub at_once: Option<u32>,
}

/// The tasks that a row of that name stands for; `None` when it is about one job or task.
pub fn tasks(text: &str) -> Option<Tasks<'_>> {
    let (base, rest) = text.split_once("_[")?;
    let spec = rest.strip_suffix(']')?;
    let (indices, at_once) = match spec.split_once('%') {
        Some((indices, at_once)) => (indices, at_once.parse().ok()),
        None => (spec, None),
    };
    Some(Tasks {
        base: JobId(base.parse().ok()?),
        spec,
        indices,
        at_once,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::ArraySpec;
    use cosy_model::api::JobRef;

    #[test]
    fn names_are_read_again() {
        let plain = RowName {
            id: JobId(14),
            base: JobId(12),
            index: None,
            tasks: None,
            component: false,
        };
        let check = |name: RowName<'_>, at_once, want: &str| {
            let text = write(name, at_once);
            assert_eq!(text, want);
            assert_eq!(tasks(&text).is_some(), name.tasks.is_some());
            text
        };
        assert_eq!(
            check(plain, None, "14").parse(),
            Ok(JobRef {
                job: JobId(14),
                task: None
            })
        );
        let task = RowName {
            index: Some(2),
            ..plain
        };
        let read: JobRef = check(task, Some(3), "12_2").parse().unwrap();
        assert_eq!((read.job, read.task), (JobId(12), Some(2)));
        check(
            RowName {
                component: true,
                ..plain
            },
            None,
            "12+2",
        );
        let several = RowName {
            tasks: Some(&[4, 5, 9]),
            ..task
        };
        check(several, None, "12_[4-5,9]");
        let text = check(several, Some(2), "12_[4-5,9%2]");
        let read = tasks(&text).unwrap();
        assert_eq!((read.base, read.indices, read.at_once), (JobId(12), "4-5,9", Some(2)));
        let spec: ArraySpec = read.spec.parse().unwrap();
        assert_eq!(spec.indices().iter().collect::<Vec<_>>(), [4, 5, 9]);
    }
}
