//! `sacctmgr show event`, `transaction`, `stats`, `runawayjobs`: what the controller's history and
//! lists tell.

use super::{Manager, complain};
use crate::slurm::messages::say;
use crate::slurm::reports;
use crate::{exit, output, times, users};
use cosy_client::CallError;
use cosy_model::api::{HistoryEvent, JobField, JobFilter, Reply, Request, Table};
use cosy_model::{JobState, Time, limits};
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

/// Most numbers of events that are looked at for one list. A restored store leaves some out, and they are not to
/// hide what was before.
const MOST: u64 = 1_000_000 + limits::SKIPPED_EVENTS;

/// Where the table of events is read: answers with events behind a number, or with the latest.
type Ask<'a> = dyn Fn(u64, u32, bool) -> Result<Vec<HistoryEvent>, CallError> + 'a;

/// The table of events.
struct Events<'a> {
    ask: &'a Ask<'a>,
}

impl Events<'_> {
    /// Hands events up to a moment on, oldest first, at most [`MOST`] numbers of them: the newest, and in
    /// `whole` those of before `from` too. They are read in pages and never held whole. The answer: the
    /// date of the first that was read, where others before it were not.
    fn each(
        &self,
        (from, until): (Time, Time),
        whole: bool,
        mut take: impl FnMut(&HistoryEvent),
    ) -> Result<Option<Time>, CallError> {
        let last = (self.ask)(0, 1, true)?.last().map_or(0, |event| event.seq);
        let end = self.last_by(until, last)?;
        let begin = match whole {
            true => 0,
            false => self.last_by(Time(from.0.saturating_sub(1)), end)?,
        };
        let mut after = begin.max(end.saturating_sub(MOST));
        let is_cut = after > begin;
        let mut first = None;
        while after < end {
            let page = (self.ask)(after, PAGE, false)?;
            let Some(last) = page.last().map(|last| last.seq).filter(|seq| *seq > after) else {
                break;
            };
            for event in page.iter().filter(|event| event.seq <= end) {
                first.get_or_insert(event.at);
                take(event);
            }
            after = last;
        }
        Ok(first.filter(|_| is_cut))
    }

    /// The number of the last event that is not later than a moment, of those up to `last`. Numbers and
    /// dates go up together; where the clock was set back it is one of those around.
    fn last_by(&self, moment: Time, last: u64) -> Result<u64, CallError> {
        let (mut known, mut beyond) = (0, last.saturating_add(1));
        while beyond - known > 1 {
            let middle = known + (beyond - known) / 2;
            let page = (self.ask)(middle - 1, 1, false)?;
            match page.first() {
                Some(event) if event.seq < beyond && event.at <= moment => known = event.seq,
                Some(_) | None => beyond = middle,
            }
        }
        Ok(known)
    }
}

impl Manager<'_> {
    /// Asks the controller for events.
    fn events(&self, after: u64, most: u32, latest: bool) -> Result<Vec<HistoryEvent>, CallError> {
        let request = Request::Events {
            after,
            most,
            latest,
        };
        match self.context.ask(request)? {
            Reply::Events(page) => Ok(page),
            _ => Err(CallError::Unexpected),
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
        let ask = |after, most, latest| self.events(after, most, latest);
        let events = Events { ask: &ask };
        let rows = match entity {
            Entity::Event => {
                let mut reader = Reader::default();
                // What is down when the time begins went down before.
                let read = events.each((from, until), true, |event| reader.read(event));
                read.map(|cut| reader.rows(conditions, frame).map(|rows| (rows, cut)))
            }
            _ => transactions::check(conditions).map_or_else(
                |lines| Ok(Err(lines)),
                |()| {
                    let mut rows = Vec::new();
                    let take = |event: &HistoryEvent| {
                        rows.extend(transactions::row(event, conditions, frame));
                    };
                    let read = events.each((from, until), false, take);
                    read.map(|cut| Ok((rows, cut)))
                },
            ),
        };
        match rows {
            Ok(Ok((rows, cut))) => {
                if let Some(first) = cut {
                    let first = times::long(first, &now);
                    say(&format!(
                        "sacctmgr: only the last {MOST} events up to that time were read, from {first} on: give an earlier End="
                    ));
                }
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    fn event(seq: u64) -> HistoryEvent {
        HistoryEvent {
            seq,
            at: Time::from_secs(seq as i64),
            what: "changed".to_owned(),
            who: "root".to_owned(),
            object: "user ann".to_owned(),
            detail: String::new(),
        }
    }

    /// Of a table with every second number up to `last`: what is read, and how often it was asked for.
    fn read(last: u64, time: (i64, i64), whole: bool) -> (Option<(u64, u64)>, Option<Time>, u32) {
        let asked = Cell::new(0);
        let ask = |after: u64, most: u32, latest: bool| {
            asked.set(asked.get() + 1);
            let mut all = (after / 2 + 1..=last / 2).map(|n| event(2 * n));
            let page: Vec<HistoryEvent> = match latest {
                true => all.next_back().into_iter().collect(),
                false => all.take(most as usize).collect(),
            };
            Ok(page)
        };
        let mut seen: Option<(u64, u64)> = None;
        let take = |event: &HistoryEvent| {
            let first = seen.map_or(event.seq, |(first, _)| first);
            seen = Some((first, event.seq));
        };
        let (from, until) = (Time::from_secs(time.0), Time::from_secs(time.1));
        let cut = Events { ask: &ask }
            .each((from, until), whole, take)
            .unwrap();
        (seen, cut, asked.get())
    }

    #[test]
    fn as_much_of_the_table_as_the_time_asks_for() {
        let check = |last, time, whole, want: Option<(u64, u64)>| {
            let (seen, cut, asked) = read(last, time, whole);
            assert_eq!((seen, cut), (want, None), "{last} {time:?} {whole}");
            assert!(asked < 60, "{asked} questions for {time:?}");
        };
        check(0, (0, 100), false, None);
        check(100, (0, 1000), false, Some((2, 100)));
        check(100, (50, 60), false, Some((50, 60)));
        check(100, (51, 61), false, Some((52, 60)));
        check(100, (51, 51), false, None);
        check(100, (50, 60), true, Some((2, 60)));
        check(100, (200, 300), false, None);
        check(1_000_000, (700_000, 704_000), false, Some((700_000, 704_000)));
    }

    #[test]
    fn no_more_than_so_many_numbers() {
        let (seen, cut, _) = read(MOST + 5000, (0, i64::MAX / 1000), true);
        assert_eq!(seen, Some((5002, MOST + 5000)));
        assert_eq!(cut, Some(Time::from_secs(5002)));
        let (seen, cut, _) = read(MOST + 5000, (0, 3000), true);
        assert_eq!((seen, cut), (Some((2, 3000)), None));
    }
}
