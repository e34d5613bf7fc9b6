//! Jobs: lists, one whole, what can be done with it.

use super::values::{Seconds, When, done, job_ref, list as words, only};
use crate::limits;
use crate::params::{Document, Params};
use crate::problem::{Answer, Problem, Result};
use crate::site::{Site, SiteState};
use crate::who::{Changer, Who};
use axum::extract::{Path, State};
use cosy_model::JobState;
use cosy_model::api::{Cursor, JobChange, JobField, JobFilter, Reply, Request, Table};
use cosy_view::{json, step};
use serde::Deserialize;
use serde_json::{Value as Json, json};

/// What lists tell of a job.
const FIELDS: [JobField; 21] = [
    JobField::Id,
    JobField::Ref,
    JobField::ArrayId,
    JobField::Name,
    JobField::User,
    JobField::Account,
    JobField::Queue,
    JobField::State,
    JobField::HeldBy,
    JobField::Reason,
    JobField::Submit,
    JobField::Start,
    JobField::End,
    JobField::PredictedStart,
    JobField::LatestEnd,
    JobField::TimeLimit,
    JobField::NodeCount,
    JobField::Nodes,
    JobField::Cores,
    JobField::Gpus,
    JobField::Place,
];
/// Rows of one job that are told: an array may have a million.
const TASKS: usize = 100;
/// Steps of one job that are told.
const STEPS: usize = 200;

/// Which jobs, and which part of the list.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub struct ListAsk {
    users: Option<String>,
    queues: Option<String>,
    states: Option<String>,
    accounts: Option<String>,
    names: Option<String>,
    nodes: Option<String>,
    since: Option<When>,
    until: Option<When>,
    /// Rows that are left out at the beginning.
    skip: Option<u32>,
    /// Rows at most.
    rows: Option<u32>,
    /// Waiting tasks of an array one by one.
    unfold: Option<bool>,
}

impl ListAsk {
    fn filter(&self) -> Result<JobFilter> {
        let states = words(self.states.as_ref()).into_iter();
        let states = states.map(|word| word.parse::<JobState>().map_err(Problem::invalid));
        Ok(JobFilter {
            users: words(self.users.as_ref()),
            queues: words(self.queues.as_ref()),
            accounts: words(self.accounts.as_ref()),
            names: words(self.names.as_ref()),
            nodes: words(self.nodes.as_ref()),
            states: states.collect::<Result<_>>()?,
            ..JobFilter::default()
        })
    }

    fn rows(&self) -> Result<usize> {
        match self.rows.unwrap_or(limits::ROWS) {
            rows @ 1..=limits::MOST_ROWS => Ok(rows as usize),
            _ => Err(Problem::invalid(format!("rows is at most {}", limits::MOST_ROWS))),
        }
    }
}

/// Jobs that wait, run, or ended moments ago.
pub async fn list(State(site): SiteState, who: Who, Params(ask): Params<ListAsk>) -> Result {
    if ask.since.is_some() || ask.until.is_some() {
        return Err(Problem::invalid("since and until are for /history"));
    }
    let (skip, rows) = (ask.skip.unwrap_or(0) as usize, ask.rows()?);
    let mut filter = ask.filter()?;
    filter.pages = true;
    let mut told: Vec<Json> = Vec::new();
    let mut seen = 0;
    loop {
        let request = Request::Jobs {
            filter: filter.clone(),
            fields: FIELDS.to_vec(),
            fold_arrays: !ask.unfold.unwrap_or(false),
        };
        let table = table(site.cluster.ask(who.uid, request).await?)?;
        let from = skip.saturating_sub(seen).min(table.rows);
        let until = (from + rows - told.len()).min(table.rows);
        told.extend((from..until).map(|row| json::row(&table, row)));
        let more = until < table.rows || table.more.is_some();
        seen += table.rows;
        match table.more {
            Some(cursor) if told.len() < rows => go_on(&mut filter, cursor)?,
            Some(_) | None => {
                return Ok(Answer(json!({ "jobs": told, "skip": skip, "more": more })));
            }
        }
    }
}

fn go_on(filter: &mut JobFilter, cursor: Cursor) -> Result<()> {
    match filter.after.replace(cursor) == Some(cursor) {
        true => Err(Problem::unexpected()),
        false => Ok(()),
    }
}

fn table(reply: Reply) -> Result<Table> {
    match reply {
        Reply::Jobs(table) if table.is_sound() => Ok(table),
        _ => Err(Problem::unexpected()),
    }
}

/// Ended and running jobs, the latest ones.
pub async fn history(State(site): SiteState, who: Who, Params(ask): Params<ListAsk>) -> Result {
    if ask.skip.is_some() {
        return Err(Problem::invalid("history has no skip: use until"));
    }
    let rows = ask.rows()?;
    let filter = JobFilter {
        since: ask.since.map(|when| when.0),
        until: ask.until.map(|when| when.0),
        most: u32::try_from(rows).ok(),
        pages: true,
        ..ask.filter()?
    };
    let table = past(&site, &who, filter, &FIELDS).await?;
    let more = table.rows >= rows;
    Ok(Answer(json!({ "jobs": json::rows(&table), "more": more })))
}

/// Jobs out of history: page by page, as many as `most` of the filter says.
///
/// # Errors
/// The controller does not say.
pub async fn past(
    site: &Site,
    who: &Who,
    mut filter: JobFilter,
    fields: &[JobField],
) -> Result<Table> {
    let mut pages = Vec::new();
    loop {
        let request = Request::History {
            filter: filter.clone(),
            fields: fields.to_vec(),
        };
        let page = table(site.cluster.ask(who.uid, request).await?)?;
        let (rows, more) = (page.rows, page.more);
        pages.push(page);
        let left = filter.most.unwrap_or(limits::MOST_ROWS);
        let left = left.saturating_sub(u32::try_from(rows).unwrap_or(u32::MAX));
        filter.most = Some(left);
        match more {
            Some(cursor) if left > 0 => go_on(&mut filter, cursor)?,
            Some(_) | None => break,
        }
    }
    pages.reverse();
    Ok(Table::joined(pages))
}

/// How many of the user's own jobs wait, run and have ended lately, and whether all were counted.
///
/// # Errors
/// The controller does not say.
pub async fn counts_of(site: &Site, who: &Who) -> Result<(Json, bool)> {
    let filter = JobFilter {
        users: vec![who.name.clone()],
        pages: true,
        ..JobFilter::default()
    };
    let request = Request::Jobs {
        filter,
        fields: vec![JobField::State],
        fold_arrays: false,
    };
    let table = table(site.cluster.ask(who.uid, request).await?)?;
    let mut counts = serde_json::Map::new();
    for row in 0..table.rows {
        let state = table.text(row, JobField::State);
        let count = counts.get(state).and_then(Json::as_u64).unwrap_or(0);
        counts.insert(state.to_owned(), (count + 1).into());
    }
    Ok((counts.into(), table.more.is_none()))
}

/// One job whole.
pub async fn explain(State(site): SiteState, who: Who, Path(job): Path<String>) -> Result {
    let job = job_ref(&job)?;
    let reply = site.cluster.ask(who.uid, Request::Explain { job }).await?;
    let Reply::Explained { table, lines } = reply else {
        return Err(Problem::unexpected());
    };
    if !table.is_sound() {
        return Err(Problem::unexpected());
    }
    let shown = table.rows.min(TASKS);
    let rows: Vec<Json> = (0..shown).map(|row| json::row(&table, row)).collect();
    let request = Request::Steps {
        jobs: vec![job],
        pages: true,
        after: None,
    };
    // Its steps are of interest, and no reason to tell nothing of it.
    let steps = match site.cluster.ask(who.uid, request).await {
        Ok(Reply::StepsPage { rows, .. } | Reply::Steps(rows)) => rows,
        Ok(_) | Err(_) => Vec::new(),
    };
    let steps = steps.iter().take(STEPS);
    let steps: Vec<Json> = steps
        .map(|row| json::object(&step::ended_fields(row)))
        .collect();
    Ok(Answer(json!({
        "tasks": rows, "task_count": table.rows, "lines": lines, "steps": steps,
    })))
}

/// The script of a job.
pub async fn script(State(site): SiteState, who: Who, Path(job): Path<String>) -> Result {
    let job = job_ref(&job)?;
    match site.cluster.ask(who.uid, Request::Script { job }).await? {
        Reply::Script(text) => {
            let text = String::from_utf8_lossy(&text.0).into_owned();
            Ok(Answer(json!({ "script": text })))
        }
        _ => Err(Problem::unexpected()),
    }
}

async fn steer(site: &Site, who: &Who, request: Request) -> Result {
    let reply = site.cluster.ask(who.uid, request).await?;
    Ok(Answer(done(reply)?))
}

/// Ends a job.
pub async fn cancel(
    State(site): SiteState,
    Changer(who): Changer,
    Path(job): Path<String>,
) -> Result {
    let request = Request::Cancel {
        filter: only(&job)?,
        signal: None,
        script_only: false,
        steps_only: false,
    };
    steer(&site, &who, request).await
}

/// Holds a waiting job.
pub async fn hold(
    State(site): SiteState,
    Changer(who): Changer,
    Path(job): Path<String>,
) -> Result {
    let request = Request::Hold {
        filter: only(&job)?,
        as_user: false,
    };
    steer(&site, &who, request).await
}

/// Lets a held job go.
pub async fn release(
    State(site): SiteState,
    Changer(who): Changer,
    Path(job): Path<String>,
) -> Result {
    let filter = only(&job)?;
    steer(&site, &who, Request::Release { filter }).await
}

/// Puts a running job back into the queue.
pub async fn requeue(
    State(site): SiteState,
    Changer(who): Changer,
    Path(job): Path<String>,
) -> Result {
    let request = Request::Requeue {
        filter: only(&job)?,
        hold: false,
        special: false,
    };
    steer(&site, &who, request).await
}

/// What becomes other of a job.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub struct ChangeAsk {
    name: Option<String>,
    queue: Option<String>,
    account: Option<String>,
    comment: Option<String>,
    time_limit: Option<Seconds>,
    nodes: Option<u32>,
    begin: Option<When>,
    nice: Option<i64>,
    priority: Option<u32>,
    qos: Option<String>,
    deadline: Option<When>,
    requeue: Option<bool>,
    reservation: Option<u64>,
}

/// Changes a job.
pub async fn change(
    State(site): SiteState,
    Changer(who): Changer,
    Path(job): Path<String>,
    Document(ask): Document<ChangeAsk>,
) -> Result {
    let change = JobChange {
        name: ask.name,
        queue: ask.queue,
        account: ask.account,
        comment: ask.comment,
        time_limit: ask.time_limit.map(|length| length.0),
        nodes: ask.nodes,
        begin: ask.begin.map(|when| when.0),
        nice: ask.nice,
        priority: ask.priority,
        qos: ask.qos,
        deadline: ask.deadline.map(|when| when.0),
        requeue: ask.requeue,
        reservation: ask.reservation.map(cosy_model::ReservationId),
        ..JobChange::default()
    };
    if change == JobChange::default() {
        return Err(Problem::invalid("say what is to be changed: {\"time_limit\": 3600}"));
    }
    let request = Request::Change {
        filter: only(&job)?,
        change: Box::new(change),
    };
    steer(&site, &who, request).await
}
