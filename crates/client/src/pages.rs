//! Lists of jobs and of steps that do not fit into one answer: fetched page by page, joined into one.

use crate::CallError;
use cosy_model::api::{JobField, JobFilter, JobRef, Reply, Request, StepRow, Table};

/// Jobs in one request for steps, at most.
const JOBS_WITH_STEPS: usize = 1000;

/// The whole list that `request` asks for ([`Request::Jobs`], [`Request::History`]): sends one
/// request after another with `ask` until no page is left.
///
/// # Errors
/// Errors of `ask`, or an answer that is no table or says twice that it goes on at the same place.
pub fn jobs(
    mut ask: impl FnMut(Request) -> Result<Reply, CallError>,
    mut request: Request,
) -> Result<Table, CallError> {
    let latest_first = matches!(request, Request::History { .. });
    let id_added = add_id_field(&mut request);
    let mut seen = Vec::new();
    let mut pages: Vec<Table> = Vec::new();
    if let Some(filter) = filter_of(&mut request) {
        filter.pages = true;
    }
    loop {
        let page = match ask(request.clone())? {
            Reply::Jobs(page) if page.is_sound() => page,
            _ => return Err(CallError::Unexpected),
        };
        if pages
            .first()
            .is_some_and(|first| first.fields != page.fields)
        {
            return Err(CallError::Unexpected);
        }
        let (rows, more) = (page.rows, page.more);
        pages.push(match latest_first {
            true => page,
            false => without_seen(page, &mut seen),
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
        pages.reverse();
    }
    let mut all = Table::joined(pages);
    if id_added {
        all.without(JobField::Id);
    }
    Ok(all)
}

/// The ended steps of `jobs`, by job, attempt and step; requests are sent with `ask`.
///
/// # Errors
/// Errors of `ask`, or an answer that is no list or says twice that it goes on at the same place.
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
                // A controller of an earlier release, which knows no pages.
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
        // Pages begin with the latest jobs; the steps of one job may be on two pages.
        pages.reverse();
        let mut rows = pages.concat();
        for job in rows.chunk_by_mut(|a, b| a.job == b.job) {
            job.sort_by_key(|row| (row.attempt, row.record.step));
        }
        all.extend(rows);
    }
    Ok(all)
}

/// Adds the id of jobs to the fields of a list of live jobs, by which repeated jobs are found; true
/// when it was not among them.
fn add_id_field(request: &mut Request) -> bool {
    match request {
        Request::Jobs { fields, .. } if !fields.contains(&JobField::Id) => {
            fields.push(JobField::Id);
            true
        }
        _ => false,
    }
}

/// A page without the jobs that were on earlier pages (`seen`): a job that is listed while it lives
/// and ends before the list comes to ended jobs would be there twice. `seen` is sorted; of the last
/// page nothing is noted.
fn without_seen(mut page: Table, seen: &mut Vec<i64>) -> Table {
    let id = |row| page.number(row, JobField::Id);
    let is_new = |row| id(row).is_none_or(|id| seen.binary_search(&id).is_err());
    let new: Vec<bool> = match seen.is_empty() {
        true => Vec::new(),
        false => (0..page.rows).map(is_new).collect(),
    };
    if page.more.is_some() {
        seen.extend((0..page.rows).filter_map(id));
        seen.sort(); // almost in order already
    }
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

    /// The pages that are handed out, the filters that were filters for.
    fn check(request: Request, pages: Vec<Reply>) -> (Result<Vec<i64>, String>, Vec<JobFilter>) {
        let mut pages = pages.into_iter();
        let mut filters = Vec::new();
        let table = jobs(
            |mut request| {
                filters.extend(filter_of(&mut request).cloned());
                pages.next().ok_or(CallError::Unexpected)
            },
            request,
        );
        assert!(pages.next().is_none(), "a page was not asked for");
        (table.map(|t| ids(&t)).map_err(|e| e.to_string()), filters)
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
        let (rows, filters) = check(history(None), pages());
        assert_eq!(rows.unwrap(), [1, 2, 7, 8, 9]);
        let after: Vec<_> = filters.iter().map(|f| f.after.map(|c| c.at)).collect();
        assert_eq!(after, [None, Some(7), Some(4)]);
        assert!(filters.iter().all(|f| f.pages));
        let (rows, filters) = check(history(Some(10)), pages());
        assert_eq!(rows.unwrap().len(), 5);
        assert_eq!(filters.last().unwrap().most, Some(7));
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
        let (rows, filters) = check(request(&[JobField::Id]), pages());
        assert_eq!(rows.unwrap(), [1, 2, 3, 4, 5]);
        assert_eq!(filters.len(), 3);
        // Where no ids are filters for, none are told.
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
        let mut filters = Vec::new();
        let ask = |request| {
            filters.push(request);
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
        let after = filters.iter().map(|request| match request {
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
