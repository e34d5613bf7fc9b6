//! `sacctmgr show event`, `transaction`, `stats`, `runawayjobs`: what the controller's history and
//! lists tell.

use super::{Manager, complain};
use crate::slurm::messages::say;
use crate::slurm::reports;
use crate::{exit, output, times, users};
use cosy_client::CallError;
use cosy_model::api::{HistoryEvent, JobField, JobFilter, Reply, Request, Table};
use cosy_model::{JobState, Time};
use cosy_slurm::sacctmgr::columns::{self, Column};
use cosy_slurm::sacctmgr::conditions::{Conditions, Subject};
use cosy_slurm::sacctmgr::entity::Entity;
use cosy_slurm::sacctmgr::events::{Frame, Reader};
use cosy_slurm::sacctmgr::rows::Cells;
use cosy_slurm::sacctmgr::transactions;
use cosy_slurm::submit::times::{PastTime, point};
use jiff::{ToSpan, Zoned};
use std::collections::BTreeSet;

/// Events that are asked for at once.
const PAGE: u32 = 1000;

/// Hands all events of the table on, oldest first; the table is read in pages and never held whole.
fn each_event(manager: &Manager<'_>, mut take: impl FnMut(&HistoryEvent)) -> Result<(), CallError> {
    let mut after = 0;
    loop {
        let request = Request::Events {
            after,
            most: PAGE,
            latest: false,
        };
        let Reply::Events(page) = manager.context.ask(request)? else {
            return Err(CallError::Unexpected);
        };
        page.iter().for_each(&mut take);
        match page.last().map(|last| last.seq).filter(|seq| *seq > after) {
            Some(last) => after = last,
            None => return Ok(()),
        }
    }
}

/// From when until when; events are told from yesterday on where nothing is said, as by Slurm.
fn period(
    conditions: &Conditions,
    entity: Entity,
    now: &Zoned,
) -> Result<(Time, Time), Vec<String>> {
    let read = |subject| {
        let text = conditions.values(subject).last();
        text.map(|text| {
            point(text, now, PastTime::Keep).map_err(|_| {
                vec![format!(
                    "sacctmgr: error: Invalid time specification: {}",
                    cosy_slurm::show::clean(text)
                )]
            })
        })
        .transpose()
    };
    let yesterday = || {
        let day = now.checked_sub(1.day()).and_then(|day| day.start_of_day());
        day.map_or(Time(0), |day| times::time_of(&day))
    };
    let from = read(Subject::Start)?.unwrap_or_else(|| match entity {
        Entity::Event => yesterday(),
        _ => Time(0),
    });
    let until = read(Subject::End)?.unwrap_or_else(|| times::time_of(now));
    Ok((from, until))
}

impl Manager<'_> {
    /// `show event` and `show transaction`.
    pub(super) fn show_history(
        &self,
        entity: Entity,
        conditions: &Conditions,
        columns: &[Column],
    ) -> u8 {
        let now = times::now();
        let (from, until) = match period(conditions, entity, &now) {
            Ok(period) => period,
            Err(lines) => return complain(&lines),
        };
        let cluster = reports::cluster(self.context);
        let zone = now.time_zone().clone();
        let frame = Frame {
            cluster: &cluster,
            zone: &zone,
            now: times::time_of(&now),
            from,
            until,
            uid: &users::number,
        };
        let rows = match entity {
            Entity::Event => {
                let mut reader = Reader::default();
                let read = each_event(self, |event| reader.read(event));
                read.map(|()| reader.rows(conditions, frame))
            }
            _ => transactions::check(conditions).map_or_else(
                |lines| Ok(Err(lines)),
                |()| {
                    let mut rows = Vec::new();
                    let take = |event: &HistoryEvent| {
                        rows.extend(transactions::row(event, conditions, frame));
                    };
                    each_event(self, take).map(|()| Ok(rows))
                },
            ),
        };
        match rows {
            Ok(Ok(rows)) => {
                let cell = |row: &Cells, name: &str| row.get(name).cloned().unwrap_or_default();
                output::print(&columns::text(columns, &rows, &self.look, cell));
                exit::OK
            }
            Ok(Err(lines)) => complain(&lines),
            Err(e) => complain(&[format!("sacctmgr: error: {e}")]),
        }
    }

    /// `show runawayjobs`: jobs that history has as living and the controller does not know. The
    /// controller's list is asked for behind the other, so that one that begins meanwhile is in it, and
    /// those that have ended meanwhile are looked up once more.
    pub(super) fn show_runaways(&self, columns: &[Column]) -> u8 {
        let cluster = reports::cluster(self.context);
        match self.runaways() {
            Ok(lost) if lost.is_empty() => {
                output::print(&format!(
                    "Runaway Jobs: No runaway jobs found on cluster {cluster}\n"
                ));
                exit::OK
            }
            Ok(lost) => {
                let rows: Vec<Cells> = lost
                    .iter()
                    .map(|id| Cells::from([("ID", id.to_string()), ("Cluster", cluster.clone())]))
                    .collect();
                let cell = |row: &Cells, name: &str| row.get(name).cloned().unwrap_or_default();
                output::print(&columns::text(columns, &rows, &self.look, cell));
                say(
                    "sacctmgr: error: history has these as living, the controller knows nothing of them",
                );
                exit::FAILED
            }
            Err(e) => complain(&[format!("sacctmgr: error: {e}")]),
        }
    }

    fn runaways(&self) -> Result<BTreeSet<i64>, CallError> {
        let living: BTreeSet<JobState> =
            JobState::ALL.into_iter().filter(|s| !s.is_end()).collect();
        let history = || {
            let request = Request::History {
                filter: JobFilter {
                    states: living.iter().copied().collect(),
                    ..JobFilter::default()
                },
                fields: vec![JobField::Id],
            };
            reports::table(self.context, request)
        };
        let ids = |table: &Table| -> BTreeSet<i64> {
            let rows = 0..table.rows;
            rows.filter_map(|row| table.number(row, JobField::Id))
                .collect()
        };
        let told = ids(&history()?);
        let known = Request::Jobs {
            filter: JobFilter::default(),
            fields: vec![JobField::Id],
            fold_arrays: false,
        };
        let known = ids(&reports::table(self.context, known)?);
        let lost: BTreeSet<i64> = told.difference(&known).copied().collect();
        match lost.is_empty() {
            true => Ok(lost),
            false => Ok(ids(&history()?).intersection(&lost).copied().collect()),
        }
    }

    /// Jobs that wait or run in what a command was to delete, as Slurm lists them.
    pub(super) fn active_jobs(&self, cluster: &str, filter: JobFilter) -> Vec<String> {
        let request = Request::Jobs {
            filter: JobFilter {
                states: JobState::ALL.into_iter().filter(|s| !s.is_end()).collect(),
                ..filter
            },
            fields: vec![JobField::Id, JobField::Account, JobField::User],
            fold_arrays: false,
        };
        let Ok(table) = reports::table(self.context, request) else {
            return Vec::new();
        };
        let line = |row| {
            format!(
                "  JobID = {:<10} C = {cluster:<10} A = {:<10} U = {:<9}",
                table.number(row, JobField::Id).unwrap_or_default(),
                table.text(row, JobField::Account),
                table.text(row, JobField::User)
            )
        };
        (0..table.rows).map(line).collect()
    }
}
