//! `--dependency`. Source: sbatch(1), captures.

use super::Fault;
use cosy_model::{Dependency, DependencyKind, JobId, Span, limits};

/// What the original's controller says to any condition that it does not take.
pub const INVALID: &str = "Job dependency problem";

/// What a job waits for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Depend {
    /// Conditions, of which `any` says whether one is enough.
    pub all: Vec<Dependency>,
    /// One of them is enough.
    pub any: bool,
}

/// Reads `afterok:1:2_3,after:4+10,singleton`, with `?` in place of all commas where one
/// condition is enough. A bare id is `afterany`; the id 0 is no condition.
///
/// # Errors
/// [`INVALID`].
pub fn read(text: &str) -> Result<Depend, Fault> {
    read_list(text).ok_or_else(|| Fault::refusal(INVALID))
}

fn read_list(text: &str) -> Option<Depend> {
    let any = text.contains('?');
    if any && text.contains(',') {
        return None;
    }
    let mut all = Vec::new();
    for clause in text.split(['?', ',']) {
        read_clause(clause, &mut all)?;
    }
    Some(Depend { all, any })
}

fn read_clause(clause: &str, all: &mut Vec<Dependency>) -> Option<()> {
    if clause.eq_ignore_ascii_case("singleton") {
        all.push(Dependency {
            kind: DependencyKind::Singleton,
            job: JobId(0),
            task: None,
            delay: Span::ZERO,
        });
        return within(all);
    }
    let (kind, ids) = match clause.split_once(':') {
        Some((word, ids)) => (kind(word)?, ids),
        None => (DependencyKind::AfterAny, clause),
    };
    for id in ids.split(':') {
        let (job, task, delay) = reference(id, kind)?;
        if job != JobId(0) {
            all.push(Dependency {
                kind,
                job,
                task,
                delay,
            });
            within(all)?;
        }
    }
    Some(())
}

fn within(all: &[Dependency]) -> Option<()> {
    (all.len() <= limits::DEPENDENCIES).then_some(())
}

fn kind(word: &str) -> Option<DependencyKind> {
    match word.to_ascii_lowercase().as_str() {
        "after" => Some(DependencyKind::After),
        "afterany" => Some(DependencyKind::AfterAny),
        "afterok" => Some(DependencyKind::AfterOk),
        "afternotok" => Some(DependencyKind::AfterNotOk),
        "aftercorr" => Some(DependencyKind::AfterCorr),
        _ => None,
    }
}

/// `12`, `12_3`, `12_*`, and with `after` also `12+5` for five minutes.
fn reference(text: &str, kind: DependencyKind) -> Option<(JobId, Option<u32>, Span)> {
    let (id, delay) = match text.split_once('+') {
        Some((id, minutes)) if kind == DependencyKind::After => {
            let minutes = i64::try_from(number(minutes)?).ok()?;
            (id, Span::from_minutes(minutes))
        }
        Some(_) => return None,
        None => (text, Span::ZERO),
    };
    let (job, task) = match id.split_once('_') {
        Some((job, "*")) => (job, None),
        Some((job, task)) => (job, Some(u32::try_from(number(task)?).ok()?)),
        None => (id, None),
    };
    Some((JobId(number(job)?), task, delay))
}

fn number(text: &str) -> Option<u64> {
    let fine = (1..=18).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    fine.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::super::Program;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lists() {
        let check = |text: &str, want: Option<&str>| {
            let got = read(text).ok().map(|d| {
                let one = |d: &Dependency| {
                    let task = d.task.map(|t| format!("_{t}")).unwrap_or_default();
                    format!("{:?}:{}{task}+{}", d.kind, d.job, d.delay.secs())
                };
                let all: Vec<String> = d.all.iter().map(one).collect();
                all.join(if d.any { " or " } else { " " })
            });
            assert_eq!(got.as_deref(), want, "{text}");
        };
        check("afterok:1", Some("AfterOk:1+0"));
        check("afterok:1:2_3", Some("AfterOk:1+0 AfterOk:2_3+0"));
        check("afterok:1,2", Some("AfterOk:1+0 AfterAny:2+0"));
        check("afterany:1?afternotok:2", Some("AfterAny:1+0 or AfterNotOk:2+0"));
        check("after:1+5:2", Some("After:1+300 After:2+0"));
        check("aftercorr:7_*", Some("AfterCorr:7+0"));
        check("singleton", Some("Singleton:0+0"));
        check("afterok:5,singleton", Some("AfterOk:5+0 Singleton:0+0"));
        check("0", Some(""));
        check("12", Some("AfterAny:12+0"));
        check("afterok", None);
        check("afterok:", None);
        check("afterok:abc", None);
        check("foo:1", None);
        check("afterok:1+5", None);
        check("afterok:1?afterok:2,singleton", None);
        check("", None);
        let text = read("foo:1").unwrap_err().text(Program::Sbatch);
        let want = "sbatch: error: Batch job submission failed: Job dependency problem\n";
        assert_eq!(text, want);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn any_text(text in "(afterok|after|singleton|[0-9]{1,20}|[:,?_+*]| ){0,12}") {
            if let Ok(d) = read(&text) {
                prop_assert!(d.all.len() <= limits::DEPENDENCIES);
            }
        }
    }
}
