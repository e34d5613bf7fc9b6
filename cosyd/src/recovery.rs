//! From the store to a controller: at the start, after a failed commit, after a fault. A row
//! that cannot be read, or that makes the controller fail, is set aside; everything else goes
//! on.
//!
//! Which row it is that makes it fail is found by halving: the shortest beginning of what was
//! loaded that fails ends with it. That needs no knowledge of what rows mean, and finds also
//! what fails only later in the first turn.

use crate::clock;
use crate::current_work::{CurrentWork, LastCrash, WorkPage};
use crate::faults;
use crate::store::set_aside::{Table, Unit};
use crate::store::{Store, StoreError};
use anyhow::{Context, bail};
use cosy_control::{Batch, ClusterConfig, Controller, Loaded, Object};
use cosy_model::{ClockReading, JobId};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};
use std::any::Any;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

/// Most rows that one start sets aside because the controller fails at them: beyond that the
/// rows are not what is wrong.
const MOST_FAULTS: usize = 20;
/// CPU time that a trial in a process of its own may take, in seconds.
const TRIAL_SECS: u64 = 120;
/// Longest reason that is kept, in characters.
const WHY: usize = 300;

/// A controller that was taken up, and what it decided at once.
pub struct Recovered {
    /// Ready for its next event.
    pub controller: Controller,
    /// Batch of the controller's first turn.
    pub first: Batch,
}

/// Runs what may panic. The message is told in the log by the panic itself.
///
/// # Errors
/// It panicked: why, in one line.
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| reason(panic.as_ref()))
}

fn reason(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    let text = text.unwrap_or("for no reason that was told");
    let plain = text.chars().filter(|c| !c.is_control());
    plain.take(WHY).collect()
}

/// Where a trial of some rows takes place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TrialPlace {
    /// Here: what panics is caught.
    Here,
    /// In a process of its own, which may die of anything. Only while this process has one
    /// thread.
    Apart,
}

/// How a controller is made of what was loaded.
type Begin = fn(ClusterConfig, Loaded, ClockReading) -> Recovered;

/// What stays the same from one trial to the next.
struct Recovery<'a> {
    config: &'a ClusterConfig,
    trial: TrialPlace,
    begin: Begin,
    /// What can be taken at the first try instead of reading the store.
    ahead: Option<Loaded>,
}

/// Loads, restores and has the first turn.
fn begin(config: ClusterConfig, loaded: Loaded, now: ClockReading) -> Recovered {
    faults::at_loading(&loaded);
    let mut controller = Controller::restore(config, loaded, now);
    let first = controller.settle(now);
    Recovered { controller, first }
}

/// Says what the controller died of, and sets aside what it has died of twice.
fn heed(store: &mut Store, death: Option<LastCrash>) -> Result<(), StoreError> {
    let Some(LastCrash { with, repeated }) = death else {
        return Ok(());
    };
    tracing::error!("the controller has died while {with}");
    match (with, repeated) {
        (CurrentWork::Object(object), true) => {
            set_object_aside(store, object, "the controller died at it, twice")
        }
        _ => Ok(()),
    }
}

/// At the start, before there are threads: also what kills the process is found, when it has
/// done so twice.
///
/// # Errors
/// The store cannot be read or written, or too many rows fail.
pub fn at_start(
    store: &mut Store,
    config: &ClusterConfig,
    hand: &WorkPage,
    death: Option<LastCrash>,
) -> anyhow::Result<Recovered> {
    heed(store, death)?;
    let careful = death.is_some_and(|d| d.repeated && d.with == CurrentWork::TakingUp);
    let trial = if careful {
        TrialPlace::Apart
    } else {
        TrialPlace::Here
    };
    take_up(store, config, (hand, trial), || None)
}

/// At a start with threads. What kills the process is found as at any start, but not tried apart.
/// `ahead` gives what was read of the store ahead, if there is something.
///
/// # Errors
/// The store cannot be read or written, or too many rows fail.
pub fn with_threads(
    store: &mut Store,
    config: &ClusterConfig,
    (hand, death): (&WorkPage, Option<LastCrash>),
    ahead: impl FnOnce() -> Option<Loaded>,
) -> anyhow::Result<Recovered> {
    heed(store, death)?;
    take_up(store, config, (hand, TrialPlace::Here), ahead)
}

/// Takes up the store again in a running daemon, which has other threads.
///
/// # Errors
/// The store cannot be read or written, or too many rows fail.
pub fn rebuild(
    store: &mut Store,
    config: &ClusterConfig,
    hand: &WorkPage,
) -> anyhow::Result<Recovered> {
    take_up(store, config, (hand, TrialPlace::Here), || None)
}

fn take_up(
    store: &mut Store,
    config: &ClusterConfig,
    (hand, trial): (&WorkPage, TrialPlace),
    ahead: impl FnOnce() -> Option<Loaded>,
) -> anyhow::Result<Recovered> {
    hand.take(CurrentWork::TakingUp);
    let mut taking = Recovery {
        config,
        trial,
        begin,
        ahead: ahead(),
    };
    let taken = taking.take_up(store);
    hand.put_down();
    let watched = |taken: Recovered| Recovered {
        controller: taken.controller.watched_by(hand.witness()),
        ..taken
    };
    taken.map(watched)
}

/// Sets aside what the controller fails at.
///
/// # Errors
/// The store cannot be written.
pub fn set_object_aside(store: &mut Store, object: Object, why: &str) -> Result<(), StoreError> {
    let unit = match object {
        Object::Job(id) => match store.live_base(id)? {
            Some(base) => Unit::Submission(base),
            None => return Ok(()),
        },
        Object::Reservation(id) => Unit::Reservation(id),
        Object::Flow(id) => Unit::Flow(id),
        Object::Trigger(id) => Unit::Trigger(id),
    };
    set_aside(store, &unit, why)
}

fn set_aside(store: &mut Store, unit: &Unit, why: &str) -> Result<(), StoreError> {
    tracing::error!("{unit} is set aside: {why}");
    store.set_aside(unit, why, clock::now())
}

impl Recovery<'_> {
    fn take_up(&mut self, store: &mut Store) -> anyhow::Result<Recovered> {
        for _ in 0..=MOST_FAULTS {
            let begun = Instant::now();
            let loaded = match self.ahead.take() {
                Some(ahead) => ahead,
                None => readable(store)?,
            };
            let read = begun.elapsed();
            let now = clock::moment();
            let tried = match self.trial {
                TrialPlace::Here => Ok(()),
                TrialPlace::Apart => self.try_out(loaded.clone(), now),
            };
            let begin = || (self.begin)(self.config.clone(), loaded, now);
            let failed = match tried.and_then(|()| caught(begin)) {
                Ok(taken) => {
                    let whole = begun.elapsed();
                    tracing::info!("the store was read in {read:.2?} and taken up in {whole:.2?}");
                    remind(store)?;
                    return Ok(taken);
                }
                Err(why) => why,
            };
            tracing::error!("the controller fails at what is in the store: {failed}");
            let loaded = readable(store)?;
            if let Some(unit) = self.find(&loaded, now)? {
                let why = format!("the controller fails at it: {failed}");
                set_aside(store, &unit, &why)?;
            }
        }
        bail!("the controller still fails after {MOST_FAULTS} rows of the store were set aside")
    }

    fn try_out(&self, loaded: Loaded, now: ClockReading) -> Result<(), String> {
        let work = || (self.begin)(self.config.clone(), loaded, now);
        match self.trial {
            TrialPlace::Here => caught(work).map(drop),
            TrialPlace::Apart => apart(|| drop(work())),
        }
    }

    /// The row that ends the shortest beginning that fails; `None`: nothing fails any more.
    fn find(&self, loaded: &Loaded, now: ClockReading) -> anyhow::Result<Option<Unit>> {
        let units = units(loaded);
        let fails = |count: usize| {
            let some: BTreeSet<&Unit> = units[..count].iter().collect();
            self.try_out(only(loaded, &some), now).is_err()
        };
        if fails(0) {
            bail!("the controller fails whatever is set aside: no row of the store is at fault");
        }
        if !fails(units.len()) {
            return Ok(None);
        }
        let (mut good, mut bad) = (0, units.len());
        while bad - good > 1 {
            let middle = good + (bad - good) / 2;
            match fails(middle) {
                true => bad = middle,
                false => good = middle,
            }
        }
        Ok(Some(units[bad - 1].clone()))
    }
}

/// What can be read; the rest is set aside.
fn readable(store: &mut Store) -> anyhow::Result<Loaded> {
    loop {
        let (loaded, bad) = store.load().context("the store cannot be read")?;
        if bad.is_empty() {
            return Ok(loaded);
        }
        for (unit, why) in bad {
            set_aside(store, &unit, &why).context("what cannot be read cannot be set aside")?;
        }
    }
}

/// Says at every start what is set aside.
fn remind(store: &Store) -> Result<(), StoreError> {
    for aside in store.all_aside()? {
        tracing::error!(
            "{} is set aside (number {}): {}; see 'cosyd --set-aside'",
            aside.unit,
            aside.id,
            aside.why
        );
    }
    Ok(())
}

/// Everything that can be set aside, what others rest upon first.
fn units(loaded: &Loaded) -> Vec<Unit> {
    let named = |table: Table, names: Vec<String>| {
        let unit = move |name| Unit::Named(table, name);
        names.into_iter().map(unit)
    };
    let nodes = loaded.nodes.iter().map(|(name, _)| name.clone());
    let queues = loaded.own_queues.iter().map(|(name, _)| name.clone());
    let accounts = loaded.accounts.iter().map(|row| row.name.clone());
    let mut all: Vec<Unit> = named(Table::Nodes, nodes.collect()).collect();
    all.extend(named(Table::OwnQueues, queues.collect()));
    all.extend(named(Table::Accounts, accounts.collect()));
    let policy = loaded.policy.iter().map(|row| row.key().0);
    all.extend(named(Table::Policy, policy.collect()));
    all.extend(loaded.reservations.iter().map(|r| Unit::Reservation(r.id)));
    all.extend(loaded.flows.iter().map(|f| Unit::Flow(f.row.id)));
    all.extend(loaded.submissions.iter().map(|s| Unit::Submission(s.base)));
    all.extend(loaded.triggers.iter().map(|t| Unit::Trigger(t.id)));
    all
}

/// The same with only some of its units.
fn only(loaded: &Loaded, some: &BTreeSet<&Unit>) -> Loaded {
    let named = |table, name: &String| some.contains(&Unit::Named(table, name.clone()));
    let job = |base: JobId| some.contains(&Unit::Submission(base));
    let mut less = Loaded {
        submissions: Vec::new(),
        jobs: Vec::new(),
        ..loaded.clone()
    };
    less.bodies.retain(|(_, row)| job(row.base));
    less.nodes.retain(|(name, _)| named(Table::Nodes, name));
    less.own_queues
        .retain(|(name, _)| named(Table::OwnQueues, name));
    less.accounts
        .retain(|row| named(Table::Accounts, &row.name));
    less.policy.retain(|row| named(Table::Policy, &row.key().0));
    less.reservations
        .retain(|row| some.contains(&Unit::Reservation(row.id)));
    less.flows
        .retain(|flow| some.contains(&Unit::Flow(flow.row.id)));
    less.triggers
        .retain(|row| some.contains(&Unit::Trigger(row.id)));
    let submissions = loaded.submissions.iter().filter(|row| job(row.base));
    less.submissions = submissions.cloned().collect();
    let jobs = loaded.jobs.iter().filter(|row| job(row.base));
    less.jobs = jobs.cloned().collect();
    less
}

/// Runs work in a process of its own.
///
/// # Errors
/// It panicked or died: how.
fn apart(work: impl FnOnce()) -> Result<(), String> {
    // SAFETY: this process has one thread, so the copy has all that the work needs; it leaves
    // without running anything of this process.
    match unsafe { fork() } {
        Ok(ForkResult::Child) => {
            let limit = nix::sys::resource::Resource::RLIMIT_CPU;
            let _ = nix::sys::resource::setrlimit(limit, TRIAL_SECS, TRIAL_SECS);
            // Where memory runs out, this one goes first.
            let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
            let code = i32::from(caught(work).is_err());
            // SAFETY: ends the process at once.
            unsafe { nix::libc::_exit(code) }
        }
        Ok(ForkResult::Parent { child }) => loop {
            match waitpid(child, None) {
                Ok(WaitStatus::Exited(_, 0)) => return Ok(()),
                Ok(WaitStatus::Exited(..)) => return Err("a trial panicked".to_owned()),
                Ok(WaitStatus::Signaled(_, signal, _)) => {
                    return Err(format!("a trial died of {signal}"));
                }
                Ok(_) | Err(nix::errno::Errno::EINTR) => {}
                Err(e) => return Err(format!("a trial is lost: {e}")),
            }
        },
        Err(e) => Err(format!("no process for a trial: {e}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::whole_tests::{plain_submission, submitted};
    use cosy_control::{JobRow, Record};
    use std::path::PathBuf;
    use tempfile::TempDir;

    const CONFIG: fn() -> ClusterConfig = ClusterConfig::default;

    struct Bench {
        dir: TempDir,
        store: Store,
    }

    impl Bench {
        fn new(names: &[&str]) -> Self {
            let dir = tempfile::tempdir().unwrap();
            let mut store = Store::open(&dir.path().join("cosy.db")).unwrap();
            let mut records = Vec::new();
            for (id, name) in (1..).zip(names) {
                records.push(submitted(&plain_submission(id, name)));
                let row = JobRow::waiting(JobId(id), JobId(id), None);
                records.push(Record::Job(Box::new(row)));
            }
            store.commit(&records).unwrap();
            Self { dir, store }
        }

        fn path(&self) -> PathBuf {
            self.dir.path().join("cosy.db")
        }

        fn spoil(&self, sql: &str) {
            let other = rusqlite::Connection::open(self.path()).unwrap();
            assert_eq!(other.execute(sql, []).unwrap(), 1, "{sql}");
        }

        fn take_up(&mut self, trial: TrialPlace, begin: Begin) -> anyhow::Result<Recovered> {
            let config = CONFIG();
            let mut taking = Recovery {
                config: &config,
                trial,
                begin,
                ahead: None,
            };
            taking.take_up(&mut self.store)
        }

        fn aside(&self) -> Vec<String> {
            let all = self.store.all_aside().unwrap();
            all.iter().map(|a| a.unit.to_string()).collect()
        }
    }

    /// Fails at jobs called poison, of which only the first turn takes notice.
    fn panicking(config: ClusterConfig, loaded: Loaded, now: ClockReading) -> Recovered {
        let poison = loaded.submissions.iter().any(|s| s.spec.name == "poison");
        let taken = begin(config, loaded, now);
        assert!(!poison, "poison was taken");
        taken
    }

    /// Dies of it.
    fn dying(config: ClusterConfig, loaded: Loaded, now: ClockReading) -> Recovered {
        if loaded.submissions.iter().any(|s| s.spec.name == "poison") {
            std::process::abort();
        }
        begin(config, loaded, now)
    }

    #[test]
    fn rows_that_make_it_fail_are_set_aside() {
        for (trial, begin) in [
            (TrialPlace::Here, panicking as Begin),
            (TrialPlace::Apart, panicking),
            (TrialPlace::Apart, dying),
        ] {
            let mut bench = Bench::new(&["a", "poison", "b", "c", "poison", "d"]);
            let taken = bench.take_up(trial, begin).unwrap();
            assert_eq!(taken.controller.live_jobs(), 4, "{trial:?}");
            // The later one ends a beginning that fails only once the first is gone.
            assert_eq!(bench.aside(), ["job 2", "job 5"]);
            // And so it stays.
            let taken = bench.take_up(TrialPlace::Here, panicking).unwrap();
            assert_eq!(taken.controller.live_jobs(), 4);
        }
    }

    #[test]
    fn what_fails_without_any_row_is_not_laid_to_one() {
        let broken: Begin = |_, _, _| panic!("always");
        let mut bench = Bench::new(&["a", "b"]);
        let error = bench
            .take_up(TrialPlace::Here, broken)
            .map(drop)
            .unwrap_err();
        assert!(error.to_string().contains("whatever is set aside"), "{error}");
        assert!(bench.aside().is_empty());
    }

    #[test]
    fn rows_that_cannot_be_read_are_set_aside_and_come_back() {
        let mut bench = Bench::new(&["a", "b", "c", "d"]);
        bench.spoil("UPDATE submissions SET row = x'c1c1' WHERE base = 2");
        bench.spoil("UPDATE jobs SET row = x'81a26964' WHERE id = 4");
        bench.spoil("INSERT INTO nodes VALUES ('n1', x'00')");
        let taken = bench.take_up(TrialPlace::Here, begin).unwrap();
        assert_eq!(taken.controller.live_jobs(), 2);
        assert_eq!(bench.aside(), ["job 2", "job 4", "node n1"]);
        // Ids are not given out again.
        assert_eq!(bench.store.load().unwrap().0.next_job, 5);
        // Put back while it still cannot be read: it is set aside again.
        let id = bench.store.all_aside().unwrap()[0].id;
        let unit = bench.store.put_back(id).unwrap();
        assert_eq!(unit, Some(Unit::Submission(JobId(2))));
        bench.take_up(TrialPlace::Here, begin).unwrap();
        assert_eq!(bench.aside(), ["job 4", "node n1", "job 2"]);
        // Given up, and mended and put back.
        let all = bench.store.all_aside().unwrap();
        assert!(bench.store.give_up(all[0].id).unwrap().is_some());
        assert!(bench.store.give_up(all[0].id).unwrap().is_none());
        let row = rmp_serde::to_vec_named(&plain_submission(2, "b")).unwrap();
        let other = rusqlite::Connection::open(bench.path()).unwrap();
        let mended = "UPDATE submissions SET row = ?1 WHERE base = 2";
        assert_eq!(other.execute(mended, [row]).unwrap(), 1);
        assert!(bench.store.put_back(all[2].id).unwrap().is_some());
        let taken = bench.take_up(TrialPlace::Here, begin).unwrap();
        assert_eq!(taken.controller.live_jobs(), 3);
        assert_eq!(bench.aside(), ["node n1"]);
        // The node's row has its name again only while nobody else has it.
        bench.spoil("INSERT INTO nodes VALUES ('n1', x'01')");
        assert!(bench.store.put_back(all[1].id).is_err());
        assert_eq!(bench.aside(), ["node n1"]);
    }

    #[test]
    fn an_object_that_it_died_at_is_set_aside() {
        let mut bench = Bench::new(&["a", "b"]);
        let hand = || WorkPage::open(bench.dir.path()).unwrap();
        let (first, none) = hand();
        assert_eq!(none, None);
        first.take(CurrentWork::Object(Object::Job(JobId(2))));
        let (second, death) = hand();
        let config = CONFIG();
        let taken = at_start(&mut bench.store, &config, &second, death).unwrap();
        assert_eq!(taken.controller.live_jobs(), 2, "one death says little");
        second.take(CurrentWork::Object(Object::Job(JobId(2))));
        let (third, death) = WorkPage::open(bench.dir.path()).unwrap();
        let taken = at_start(&mut bench.store, &config, &third, death).unwrap();
        assert_eq!(taken.controller.live_jobs(), 1);
        assert_eq!(bench.aside(), ["job 2"]);
        assert_eq!(third.has(), None);
    }
}
