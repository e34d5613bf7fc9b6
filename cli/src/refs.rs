//! Jobs as users name them on command lines, and what a job may depend on.

use cosy_model::api::JobRef;
use cosy_model::limits::{DEPENDENCIES, IDS_IN_REQUEST};
use cosy_model::{ArraySpec, Dependency, DependencyKind, JobId, Span};

/// Reads `12`, `12_3`, `12_[3-7,9]`, several with commas.
///
/// # Errors
/// The text is no list of jobs; one line says what is wrong.
pub fn jobs(text: &str) -> Result<Vec<JobRef>, String> {
    let mut all = Vec::new();
    for part in outside_brackets(text) {
        match part
            .split_once("_[")
            .map(|(job, rest)| (job, rest.strip_suffix(']')))
        {
            Some((job, Some(tasks))) => tasks_of(job, tasks, &mut all)?,
            Some((_, None)) => return Err("a bracket is not closed".to_owned()),
            None => all.push(part.parse::<JobRef>()?),
        }
        if all.len() > IDS_IN_REQUEST {
            return Err(format!("more than {IDS_IN_REQUEST} jobs at once"));
        }
    }
    Ok(all)
}

fn tasks_of(job: &str, tasks: &str, all: &mut Vec<JobRef>) -> Result<(), String> {
    let job = job.parse::<JobRef>()?.job;
    let tasks: ArraySpec = tasks
        .parse()
        .map_err(|e: cosy_model::job::ArrayError| e.to_string())?;
    if tasks.count() > IDS_IN_REQUEST as u64 {
        return Err(format!("more than {IDS_IN_REQUEST} jobs at once"));
    }
    let task = |task| JobRef {
        job,
        task: Some(task),
    };
    all.extend(tasks.indices().iter().map(task));
    Ok(())
}

fn outside_brackets(text: &str) -> Vec<&str> {
    let mut inside = false;
    text.split(move |c| {
        match c {
            '[' => inside = true,
            ']' => inside = false,
            _ => {}
        }
        c == ',' && !inside
    })
    .collect()
}

/// Reads `afterok:12:13,after:5,singleton`; an id alone waits for any end of it.
///
/// # Errors
/// The text is no list of conditions; one line says what is wrong.
pub fn dependencies(text: &str) -> Result<Vec<Dependency>, String> {
    if text.contains('?') {
        return Err("all conditions must hold here: write them with ',', not with '?'".to_owned());
    }
    let mut all = Vec::new();
    for part in text.split(',') {
        condition(part.trim(), &mut all)?;
        if all.len() > DEPENDENCIES {
            return Err(format!("more than {DEPENDENCIES} conditions"));
        }
    }
    Ok(all)
}

fn condition(text: &str, all: &mut Vec<Dependency>) -> Result<(), String> {
    let (word, ids) = match text.split_once(':') {
        Some((word, ids)) => (word, Some(ids)),
        None => (text, None),
    };
    let kind = match word.to_ascii_lowercase().as_str() {
        "after" => DependencyKind::After,
        "afterany" => DependencyKind::AfterAny,
        "afterok" => DependencyKind::AfterOk,
        "afternotok" => DependencyKind::AfterNotOk,
        "singleton" if ids.is_none() => {
            all.push(Dependency {
                kind: DependencyKind::Singleton,
                job: JobId(0),
                task: None,
                delay: Span::ZERO,
            });
            return Ok(());
        }
        _ if ids.is_none() && word.starts_with(|c: char| c.is_ascii_digit()) => {
            return ids_of(DependencyKind::AfterAny, word, all);
        }
        _ => {
            return Err("no condition: use after, afterok, afternotok or afterany with ids \
                 (afterok:12:13_4), or singleton"
                .to_owned());
        }
    };
    ids_of(kind, ids.ok_or("a job id is missing after the condition")?, all)
}

fn ids_of(kind: DependencyKind, ids: &str, all: &mut Vec<Dependency>) -> Result<(), String> {
    for id in ids.split(':') {
        let JobRef { job, task } = id.parse()?;
        all.push(Dependency {
            kind,
            job,
            task,
            delay: Span::ZERO,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_lists() {
        let check = |text: &str, want: Option<&str>| {
            let got = jobs(text).ok().map(|all| {
                all.iter()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>()
                    .join(" ")
            });
            assert_eq!(got.as_deref(), want, "{text}");
        };
        check("12", Some("12"));
        check("12,13_4", Some("12 13_4"));
        check("12_[3-5,9],7", Some("12_3 12_4 12_5 12_9 7"));
        check("12_[3-5", None);
        check("12_[]", None);
        check("12_[0-4000000]", None);
        check("", None);
        check("12,", None);
        check("all", None);
        check("-1", None);
    }

    #[test]
    fn conditions() {
        use DependencyKind::{After, AfterAny, AfterNotOk, AfterOk, Singleton};
        let check = |text: &str, want: Option<&[(DependencyKind, u64, Option<u32>)]>| {
            let got = dependencies(text).ok();
            let got: Option<Vec<_>> =
                got.map(|all| all.iter().map(|d| (d.kind, d.job.0, d.task)).collect());
            assert_eq!(got.as_deref(), want, "{text}");
        };
        check("afterok:12:13", Some(&[(AfterOk, 12, None), (AfterOk, 13, None)]));
        check("after:5,singleton", Some(&[(After, 5, None), (Singleton, 0, None)]));
        check("afternotok:5_3", Some(&[(AfterNotOk, 5, Some(3))]));
        check("12_3", Some(&[(AfterAny, 12, Some(3))]));
        check("", None);
        check("afterok", None);
        check("afterok:", None);
        check("afterok:x", None);
        check("singleton:1", None);
        check("afterok:1?afterok:2", None);
        check("sometime:1", None);
    }
}
