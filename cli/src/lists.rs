//! Lists of jobs that do not fit into one answer: asked for page by page, shown as one.

use crate::Context;
use crate::call::CallError;
use cosy_model::api::{JobField, JobFilter, Reply, Request, Table};
use std::collections::BTreeSet;

/// The whole list that `request` asks for ([`Request::Jobs`], [`Request::History`]).
///
/// # Errors
/// No answer, a refusal, or an answer that is no table.
pub fn fetch(context: &Context, request: Request) -> Result<Table, CallError> {
    all(|request| context.ask(request), request)
}

/// Asks with `ask` until nothing is left.
///
/// # Errors
/// Those of `ask`, or an answer that is no table or does not go on.
pub fn all(
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
    use cosy_model::api::{Column, Cursor};

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
        let table = all(
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
        let table = all(ask, request(&[JobField::Name])).unwrap();
        assert!(table.is_sound());
        assert_eq!((table.rows, &*table.fields), (5, &[JobField::Name][..]));
        assert_eq!(table.text(4, JobField::Name), "x");
    }

    #[test]
    fn pages_that_do_not_go_on_are_an_error() {
        let pages = vec![page(&[1], Some(2)), page(&[1], Some(2))];
        assert!(check(history(None), pages).0.is_err());
    }
}
