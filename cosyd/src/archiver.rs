//! History that ends: what the configuration keeps only for a while leaves the store, by itself a
//! few times an hour, and when an administrator says so.
//!
//! It has a connection of its own and works in small transactions, between which the writer has
//! its turns. What always holds: one works at a time; what is under way when the daemon ends is
//! gone on with at the next start. Archives are files beside a store in a file: in a database on a
//! server ended jobs stay in their tables, and only scripts and events end.

use crate::clients::lock;
use crate::clock;
use crate::store::archive::Walk;
use crate::store::archives::Month;
use crate::store::{Location, Store, StoreError};
use cosy_model::api::Archived;
use cosy_model::{Refusal, RefusalCode, Span, Time};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// Between two times that it works by itself.
const INTERVAL: Duration = Duration::from_secs(600);
/// One request of an administrator works about so long.
const SLICE: Duration = Duration::from_secs(1);
/// Nothing leaves that ended more lately than this.
pub const LEAST: Span = Span::from_secs(86_400);
/// Jobs that are counted at most, to say how many are left.
const COUNTED: u64 = 1_000_000;

/// Why nothing is archived there.
const STAYS: &str = "ended jobs stay in the tables of the database on PostgreSQL, where all commands find them; archives are beside a store in a file only";

/// How long ended jobs, and what belongs to them, stay in the store. `None` is for ever.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Retention {
    /// Ended jobs; after that they are in the archives.
    pub history: Option<Span>,
    /// Scripts and variables of ended jobs.
    pub scripts: Option<Span>,
    /// Events of all kinds.
    pub events: Option<Span>,
    /// Ended jobs are in the controller's memory for so long, and stay in the store until then.
    pub in_memory: Span,
}

/// Moves and removes what is old.
pub struct Archiver {
    database: Location,
    retention: Mutex<Retention>,
    /// There is something to do.
    changed: Condvar,
    work: Mutex<Work>,
}

/// What is kept between two steps.
#[derive(Default)]
struct Work {
    store: Option<Store>,
    walk: Walk,
}

/// What one slice of archiving has done.
#[derive(Debug, Default)]
struct Slice {
    jobs: u64,
    done: bool,
    failed: Vec<(Month, String)>,
}

impl Archiver {
    /// Starts the thread that works by itself.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(database: Location, retention: Retention) -> std::io::Result<Arc<Self>> {
        if !has_archives(&database) && retention.history.is_some() {
            tracing::warn!("keep_history has no effect: {STAYS}");
        }
        let archiver = Arc::new(Self::new(database, retention));
        let own = archiver.clone();
        std::thread::Builder::new()
            .name("archiver".into())
            .spawn(move || own.run())?;
        Ok(archiver)
    }

    fn new(database: Location, retention: Retention) -> Self {
        Self {
            database,
            retention: Mutex::new(retention),
            changed: Condvar::new(),
            work: Mutex::default(),
        }
    }

    /// Takes a configuration that was read again.
    pub fn replace(&self, retention: Retention) {
        *lock(&self.retention) = retention;
        self.changed.notify_all();
    }

    fn run(&self) {
        loop {
            let retention = *lock(&self.retention);
            if let Err(e) = self.keep(retention, clock::now()) {
                tracing::error!("old jobs and events stay where they are: {e}");
            }
            let at_hand = lock(&self.retention);
            if *at_hand == retention {
                drop(self.changed.wait_timeout(at_hand, INTERVAL));
            }
        }
    }

    /// Does all that is due.
    fn keep(&self, retention: Retention, now: Time) -> Result<(), StoreError> {
        if let Some(span) = retention.history.filter(|_| has_archives(&self.database)) {
            let mut moved = 0;
            loop {
                let slice = self.slice(now - span)?;
                moved += slice.jobs;
                for (month, why) in &slice.failed {
                    tracing::error!("jobs that ended in {month} stay in the store: {why}");
                }
                if slice.done {
                    break;
                }
            }
            if moved > 0 {
                tracing::info!("{moved} jobs went into the archives");
            }
        }
        if let Some(span) = retention.scripts {
            while !self.with_store(|store, _| store.drop_some_scripts(now - span, now))? {}
        }
        if let Some(span) = retention.events {
            while !self.with_store(|store, _| store.forget_some_events(now - span))? {}
        }
        // Without anything to keep for a while the store is not even opened.
        while lock(&self.work).store.is_some() && self.with_store(|store, _| store.shrink_some())? {
        }
        Ok(())
    }

    /// Works on archiving for a while.
    fn slice(&self, before: Time) -> Result<Slice, StoreError> {
        self.with_store(|store, walk| {
            let begun = Instant::now();
            let mut slice = Slice::default();
            while !slice.done && begun.elapsed() < SLICE {
                let step = store.archive_some(before, walk)?;
                slice.jobs += step.jobs;
                slice.done = step.done;
            }
            if slice.done {
                slice.failed = walk.failed.clone().into_iter().collect();
                walk.begin_anew();
            }
            Ok(slice)
        })
    }

    fn with_store<T>(
        &self,
        work: impl FnOnce(&mut Store, &mut Walk) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut kept = lock(&self.work);
        let Work { store, walk } = &mut *kept;
        let open = match store.take().filter(Store::still_answers) {
            Some(open) => open,
            None => Store::open_at(&self.database)?,
        };
        work(store.insert(open), walk)
    }

    /// Archives for a while what was over before a moment, or only says what would be; without a
    /// moment what is over for longer than history is kept.
    ///
    /// # Errors
    /// A refusal: nothing says what is old, that is too late, or the store cannot be written.
    pub fn by_hand(&self, before: Option<Time>, dry_run: bool) -> Result<Archived, Refusal> {
        if !has_archives(&self.database) {
            return Err(Refusal::invalid(STAYS.to_owned()));
        }
        let now = clock::now();
        let before = self.cutoff(before, now)?;
        let unavailable = |e: StoreError| Refusal::new(RefusalCode::Unavailable, e.to_string());
        let slice = match dry_run {
            true => Slice {
                done: true,
                ..Slice::default()
            },
            false => self.slice(before).map_err(unavailable)?,
        };
        if slice.done && !dry_run {
            // The room that became free goes back to the disk.
            self.changed.notify_all();
        }
        let left = self.with_store(|store, _| store.ended_before(before, COUNTED));
        Ok(Archived {
            before,
            jobs: slice.jobs,
            left: left.map_err(unavailable)?,
            done: slice.done,
            failed: slice.failed.into_iter().map(|(_, why)| why).collect(),
        })
    }

    fn cutoff(&self, before: Option<Time>, now: Time) -> Result<Time, Refusal> {
        let retention = *lock(&self.retention);
        let least = LEAST.max(retention.in_memory);
        match (before, retention.history) {
            (Some(before), _) if before > now - least => Err(Refusal::invalid(format!(
                "only jobs that ended at least {least} ago are archived: name an earlier time",
            ))),
            (Some(before), _) => Ok(before),
            (None, Some(span)) => Ok(now - span),
            (None, None) => Err(Refusal::invalid(
                "the configuration keeps history for ever (keep_history): say which jobs with --before TIME",
            )),
        }
    }
}

/// Whether old jobs can go from there into files beside it.
const fn has_archives(database: &Location) -> bool {
    match database {
        Location::Sqlite(_) => true,
        Location::Postgres { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::whole_tests::{LATER, on_a_server};

    /// What `keep_history` moves stays there; scripts and events end as anywhere.
    #[test]
    fn in_a_database_on_a_server_history_stays() {
        if !crate::store::server_tests::is_there() {
            return;
        }
        let location = on_a_server();
        let store = Store::open_at(&location).unwrap();
        let count = |query: &str| store.count_for_tests(query);
        let jobs = count("SELECT COUNT(*) FROM jobs");
        let scripts = "SELECT COUNT(*) FROM submissions WHERE LENGTH(script) > 0";
        let live = format!(
            "{scripts} AND base IN (SELECT base FROM live_submissions
                 UNION SELECT CAST(object AS BIGINT) FROM set_aside WHERE source = 'job')"
        );
        let last = count("SELECT MAX(seq) FROM events");
        let (before, of_live) = (count(scripts), count(&live));
        assert!(before > of_live);
        let day = Span::from_secs(86_400);
        let retention = Retention {
            history: Some(day),
            scripts: Some(day),
            events: Some(day),
            in_memory: Span::ZERO,
        };
        let archiver = Archiver::new(location, retention);
        let refused = archiver.by_hand(None, false).unwrap_err();
        assert!(refused.to_string().contains("stay in the tables"), "{refused}");
        let later = LATER + Span::from_secs(10 * 86_400);
        archiver.keep(retention, later).unwrap();
        assert_eq!(count("SELECT COUNT(*) FROM jobs"), jobs);
        assert_eq!(count("SELECT COUNT(*) FROM archives"), 0);
        assert_eq!((count(scripts), count(&live)), (of_live, of_live));
        assert!(count("SELECT COUNT(*) FROM submissions WHERE dropped IS NOT NULL") > 0);
        assert_eq!(count("SELECT COUNT(*) FROM events"), 1);
        assert_eq!(count("SELECT MAX(seq) FROM events"), last);
        // Again: nothing is left to do. The server was another one for a while.
        let others = "datname = current_database() AND pid <> pg_backend_pid()";
        let end = "SELECT COUNT(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE";
        assert_eq!(count(&format!("{end} {others}")), 1);
        archiver.keep(retention, later).unwrap();
    }

    #[test]
    fn what_is_old() {
        let day = 86_400_000;
        let now = Time(1000 * day);
        let check =
            |history: Option<i64>, in_memory: i64, before: Option<i64>, want: Option<i64>| {
                let days = |n| Span::from_secs(n * 86_400);
                let retention = Retention {
                    history: history.map(days),
                    in_memory: days(in_memory),
                    ..Retention::default()
                };
                let archiver = Archiver::new(Location::Sqlite(Default::default()), retention);
                let got = archiver.cutoff(before.map(|n| Time(n * day)), now);
                assert_eq!(got.ok(), want.map(|n| Time(n * day)), "{retention:?} {before:?}");
            };
        check(None, 0, None, None);
        check(Some(400), 0, None, Some(600));
        check(Some(400), 0, Some(900), Some(900));
        check(None, 0, Some(999), Some(999));
        check(None, 0, Some(1000), None);
        check(None, 3, Some(998), None);
        check(None, 3, Some(997), Some(997));
    }
}
