//! Lists of jobs and of steps that do not fit into one answer: asked for page by page, shown as one.

use crate::CallError;
use cosy_model::api::{JobField, JobFilter, JobRef, Reply, Request, StepRow, Table};
use std::collections::BTreeSet;

/// Jobs whose steps are asked for at once.
const JOBS_WITH_STEPS: usize = 1000;

/// The whole list that `request` asks for ([`Request::Jobs`], [`Request::History`]): asks with
/// `ask` until nothing is left.
///
/// # Errors
/// Those of `ask`, or an answer that is no table or does not go on.
pub fn jobs(
    mut ask: impl FnMut(Request) -> Result<Reply, CallError>,
    mut request: Request,
) -> Result<Table, CallError> {
    let latest_first = matches!(request, Request::History { .. });
    let added = asks_ids(&mut request);
    let mut told = BTreeSet::new();
    let mut parts: Vec<Table> = Vec::new();
    if let Some(filter) = filter_of(&mut request) {
        filter.pages = true;
    }
    loop {
        let page = match ask(request.clone())? {
            Reply::Jobs(page) if page.is_sound() => page,
            _ => return Err(CallError::Unexpected),
        };
        if parts
            .first()
            .is_some_and(|first| first.fields != page.fields)
        {
            return Err(CallError::Unexpected);
        }
        let (rows, more) = (page.rows, page.more);
        parts.push(match latest_first {
            true => page,
            false => once(page, &mut told),
        });
        let Some((filter, more)) = filter_of(&mut request).zip(more) else {
            break;
        };
        if filter.after == Some(more) {
            return Err(CallError::Unexpected);
        }
        filter.after = Some(more);
        if let Some(most) = &mut filter.most {
            *most = most.saturating_sub(u32::try_from(rows).unwrap_or(u32::MAX));
            if *most == 0 {
                break;
            }
        }
    }
    if latest_first {
        parts.reverse();
    }
    let mut all = Table::joined(parts);
    if added {
        all.without(JobField::Id);
    }
    Ok(all)
}

/// The steps of these jobs, page by page.
///
/// # Errors
/// Those of `ask`, or an answer that is none or does not go on.
pub fn steps(
    mut ask: impl FnMut(Request) -> Result<Reply, CallError>,
    jobs: &[JobRef],
) -> Result<Vec<StepRow>, CallError> {
    let mut all = Vec::new();
    for jobs in jobs.chunks(JOBS_WITH_STEPS) {
        let (mut pages, mut after) = (Vec::new(), None);
        loop {
            let request = Request::Steps {
                jobs: jobs.to_vec(),
                pages: true,
                after,
            };
            let (rows, more) = match ask(request)? {
                Reply::StepsPage { rows, more } => (rows, more),
                // Of a controller that knows no pages.
                Reply::Steps(rows) => (rows, None),
                _ => return Err(CallError::Unexpected),
            };
            pages.push(rows);
            match more {
                None => break,
                Some(more) if after == Some(more) => return Err(CallError::Unexpected),
                Some(more) => after = Some(more),
            }
        }
        // The latest jobs came first; a job may be on two pages.
        pages.reverse();
        let mut rows = pages.concat();
        for job in rows.chunk_by_mut(|a, b| a.job == b.job) {
            job.sort_by_key(|row| (row.attempt, row.record.step));
        }
        all.extend(rows);
    }
    Ok(all)
}

/// Has the ids of jobs told too; true when they were not asked for.
fn asks_ids(request: &mut Request) -> bool {
    match request {
        Request::Jobs { fields, .. } if !fields.contains(&JobField::Id) => {
            fields.push(JobField::Id);
            true
        }
        _ => false,
    }
}

/// A page without the jobs that were on those before: one that was told while it lived and ended
/// before the list came to those that have ended would be there twice.
fn once(mut page: Table, told: &mut BTreeSet<i64>) -> Table {
    let id = |row| page.number(row, JobField::Id);
    let ids: Vec<Option<i64>> = (0..page.rows).map(id).collect();
    let new: Vec<bool> = ids
        .iter()
        .map(|id| id.is_none_or(|id| !told.contains(&id)))
        .collect();
    told.extend(ids.into_iter().flatten());
    if new.contains(&false) {
        page.keep(&new);
    }
    page
}

const fn filter_of(request: &mut Request) -> Option<&mut JobFilter> {
    match request {
        Request::Jobs { filter, .. } | Request::History { filter, .. } => Some(filter),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::api::{Column, Cursor, StepCursor};
    use cosy_model::step::{StepId, StepRecord};
    use cosy_model::{Attempt, End, EndCause, JobId, Time};

    fn page(ids: &[i64], more: Option<u64>) -> Reply {
        let columns = vec![Column::Numbers(ids.to_vec())];
        let table = Table::of(vec![JobField::Id], columns, ids.len());
        let more = more.map(|at| Cursor { part: 0, at });
        Reply::Jobs(table.going_on(more))
    }

    fn ids(table: &Table) -> Vec<i64> {
        let id = |row| table.number(row, JobField::Id);
        (0..table.rows).filter_map(id).collect()
    }

    fn history(most: Option<u32>) -> Request {
        let filter = JobFilter {
            most,
            ..JobFilter::default()
        };
        let fields = vec![JobField::Id];
        Request::History { filter, fields }
    }

    /// The pages that are handed out, the filters that were asked for.
    fn check(request: Request, pages: Vec<Reply>) -> (Result<Vec<i64>, String>, Vec<JobFilter>) {
        let mut pages = pages.into_iter();
        let mut asked = Vec::new();
        let table = jobs(
            |mut request| {
                asked.extend(filter_of(&mut request).cloned());
                pages.next().ok_or(CallError::Unexpected)
            },
            request,
        );
        assert!(pages.next().is_none(), "a page was not asked for");
        (table.map(|t| ids(&t)).map_err(|e| e.to_string()), asked)
    }

    #[test]
    fn pages_of_history_come_from_the_latest_to_the_earliest() {
        let pages = || {
            vec![
                page(&[7, 8, 9], Some(7)),
                page(&[], Some(4)),
                page(&[1, 2], None),
            ]
        };
        let (rows, asked) = check(history(None), pages());
        assert_eq!(rows.unwrap(), [1, 2, 7, 8, 9]);
        let after: Vec<_> = asked.iter().map(|f| f.after.map(|c| c.at)).collect();
        assert_eq!(after, [None, Some(7), Some(4)]);
        assert!(asked.iter().all(|f| f.pages));
        let (rows, asked) = check(history(Some(10)), pages());
        assert_eq!(rows.unwrap().len(), 5);
        assert_eq!(asked.last().unwrap().most, Some(7));
        let (rows, _) = check(history(Some(3)), vec![page(&[7, 8, 9], Some(7))]);
        assert_eq!(rows.unwrap(), [7, 8, 9]);
    }

    #[test]
    fn pages_of_jobs_come_in_their_order() {
        let request = Request::Jobs {
            filter: JobFilter::default(),
            fields: vec![JobField::Id],
            fold_arrays: true,
        };
        let pages = vec![page(&[1, 2], Some(2)), page(&[3], None)];
        assert_eq!(check(request, pages).0.unwrap(), [1, 2, 3]);
    }

    /// It was on the first page while it ran, and has ended since.
    #[test]
    fn a_job_that_ends_between_two_pages_is_there_once() {
        let request = |fields: &[JobField]| Request::Jobs {
            filter: JobFilter::default(),
            fields: fields.to_vec(),
            fold_arrays: true,
        };
        let pages = || {
            vec![
                page(&[1, 2, 3], Some(3)),
                page(&[4, 2, 2], Some(4)),
                page(&[3, 4, 5], None),
            ]
        };
        let (rows, asked) = check(request(&[JobField::Id]), pages());
        assert_eq!(rows.unwrap(), [1, 2, 3, 4, 5]);
        assert_eq!(asked.len(), 3);
        // Where no ids are asked for, none are told.
        let mut pages = pages().into_iter().map(|reply| match reply {
            Reply::Jobs(table) => {
                let names = vec!["x".to_owned(); table.rows];
                let columns = vec![Column::Texts(names), table.columns[0].clone()];
                let fields = vec![JobField::Name, JobField::Id];
                let named = Table::of(fields, columns, table.rows);
                Reply::Jobs(named.going_on(table.more))
            }
            other => other,
        });
        let ask = |request| match request {
            Request::Jobs { fields, .. } if fields == [JobField::Name, JobField::Id] => {
                pages.next().ok_or(CallError::Unexpected)
            }
            other => panic!("{other:?}"),
        };
        let table = jobs(ask, request(&[JobField::Name])).unwrap();
        assert!(table.is_sound());
        assert_eq!((table.rows, &*table.fields), (5, &[JobField::Name][..]));
        assert_eq!(table.text(4, JobField::Name), "x");
    }

    #[test]
    fn pages_that_do_not_go_on_are_an_error() {
        let pages = vec![page(&[1], Some(2)), page(&[1], Some(2))];
        assert!(check(history(None), pages).0.is_err());
    }

    fn row_of_step(task: Option<u32>, step: u32) -> StepRow {
        let job = JobRef {
            job: JobId(12),
            task,
        };
        StepRow {
            job,
            attempt: Attempt(1),
            record: StepRecord {
                step: StepId(step),
                name: "a.out".into(),
                nodes: "n1".into(),
                tasks: 1,
                cores: 1,
                end: End::never_ran(EndCause::Exited, Time(0)),
            },
        }
    }

    #[test]
    fn pages_of_steps_are_put_together() {
        let cursor = |at| {
            Some(StepCursor {
                jobs: Cursor { part: 0, at },
                job: None,
            })
        };
        let page = |rows: &[(u32, u32)], more| {
            let rows = rows
                .iter()
                .map(|(task, step)| row_of_step(Some(*task), *step));
            Reply::StepsPage {
                rows: rows.collect(),
                more,
            }
        };
        let jobs: Vec<JobRef> = vec![row_of_step(None, 0).job; JOBS_WITH_STEPS + 1];
        // Latest jobs first; the steps of one are on two pages. Then an older controller's answer.
        let answers = [
            page(&[(7, 0), (7, 2), (8, 0)], cursor(7)),
            page(&[], cursor(6)),
            page(&[(6, 1), (7, 1), (7, 3)], None),
            Reply::Steps(vec![row_of_step(Some(9), 0)]),
        ];
        let mut answers = answers.into_iter();
        let mut asked = Vec::new();
        let ask = |request| {
            asked.push(request);
            answers.next().ok_or(CallError::Unexpected)
        };
        let rows = steps(ask, &jobs).unwrap();
        let rows: Vec<_> = rows.iter().map(|r| (r.job.task, r.record.step.0)).collect();
        let task = |task: u32, step: u32| (Some(task), step);
        let want = [
            task(6, 1),
            task(7, 0),
            task(7, 1),
            task(7, 2),
            task(7, 3),
            task(8, 0),
        ];
        assert_eq!(rows, [&want[..], &[task(9, 0)]].concat());
        let after = asked.iter().map(|request| match request {
            Request::Steps { jobs, pages, after } => (jobs.len(), *pages, *after),
            other => panic!("{other:?}"),
        });
        let want = [
            (JOBS_WITH_STEPS, true, None),
            (JOBS_WITH_STEPS, true, cursor(7)),
            (JOBS_WITH_STEPS, true, cursor(6)),
            (1, true, None),
        ];
        assert_eq!(after.collect::<Vec<_>>(), want);
        // One that does not go on.
        let mut same = std::iter::repeat_with(|| page(&[], cursor(7)));
        let ask = |_| same.next().ok_or(CallError::Unexpected);
        assert!(matches!(steps(ask, &jobs), Err(CallError::Unexpected)));
    }
}
