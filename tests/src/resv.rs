//! Reservations as tests ask for them and look at them.

use crate::cluster::Cluster;
use crate::job::Row;
use crate::{Client, Output, wait};
use cosy_model::api::{Reply, Request};
use cosy_model::reservation::{LedgerEntry, ReservationFilter, ReservationInfo, ReservationState};
use cosy_model::{JobId, ReservationId, Su, Time};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::SystemTime;

/// A filter for one reservation, over or not.
pub fn just(id: ReservationId) -> ReservationFilter {
    ReservationFilter {
        ids: vec![id],
        ended: true,
        ..ReservationFilter::default()
    }
}

/// The present by this host's clock.
pub fn now() -> Time {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let ms = since.unwrap_or_default().as_millis();
    Time(i64::try_from(ms).unwrap_or(i64::MAX))
}

/// What `date +%s%N` wrote into a file; `None` until the line is whole.
pub fn written_time(file: &Path) -> Option<Time> {
    let text = std::fs::read_to_string(file).ok()?;
    let ns: i64 = text.strip_suffix('\n')?.lines().next()?.parse().ok()?;
    Some(Time(ns / 1_000_000))
}

impl Output {
    /// The id that a command with `--parsable` printed.
    ///
    /// # Panics
    /// When it failed.
    #[track_caller]
    pub fn id(self) -> ReservationId {
        let output = self.expect(0);
        ReservationId(output.out.trim().parse().expect("one id"))
    }
}

impl Cluster {
    /// A reservation as it is now; `None` while the controller is away.
    pub fn try_reservation(&self, id: ReservationId) -> Option<ReservationInfo> {
        let mut client = Client::connect(&self.socket()).ok()?;
        match client
            .ask(Request::Reservations { filter: just(id) })
            .ok()?
        {
            Reply::Reservations(all) => all.into_iter().next(),
            _ => None,
        }
    }

    /// A reservation as it is now.
    ///
    /// # Panics
    /// When there is none.
    #[track_caller]
    pub fn reservation(&self, id: ReservationId) -> ReservationInfo {
        wait::until("the reservation is there", || self.try_reservation(id))
    }

    /// Waits until a reservation is as wanted.
    ///
    /// # Panics
    /// When it does not become so in time.
    #[track_caller]
    pub fn until_reservation(
        &self,
        id: ReservationId,
        what: &str,
        good: impl Fn(&ReservationInfo) -> bool,
    ) -> ReservationInfo {
        let mut last = None;
        let start = std::time::Instant::now();
        loop {
            if let Some(found) = self.try_reservation(id) {
                if good(&found) {
                    return found;
                }
                last = Some(found);
            }
            if start.elapsed() > wait::PATIENCE {
                panic!("reservation {id} is still not {what}: {last:?}\n{}", self.logs());
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }

    /// Waits until a reservation is in that state.
    #[track_caller]
    pub fn until_resv_state(&self, id: ReservationId, state: ReservationState) -> ReservationInfo {
        self.until_reservation(id, state.word(), |r| r.state == state)
    }

    /// The job that starts with a reservation.
    ///
    /// # Panics
    /// When there is none.
    #[track_caller]
    pub fn attached(&self, id: ReservationId) -> JobId {
        self.reservation(id).job.expect("it has a job")
    }

    /// All jobs that have not ended.
    #[track_caller]
    pub fn jobs(&self) -> Vec<Row> {
        let table = self.client().jobs(Default::default());
        Row::all(&table.expect("an answer"))
    }

    /// The whole ledger.
    ///
    /// # Panics
    /// When it is not told.
    #[track_caller]
    pub fn ledger(&self) -> Vec<LedgerEntry> {
        let (mut all, mut after) = (Vec::new(), 0);
        loop {
            let request = Request::Ledger {
                account: None,
                reservation: None,
                after,
                most: 1000,
            };
            let Reply::Ledger(page) = self.ask(request) else {
                panic!("no ledger");
            };
            let Some(last) = page.last() else {
                return all;
            };
            after = last.seq;
            all.extend(page);
        }
    }
}

/// What is in each book after these lines.
///
/// # Panics
/// When a line moves less than nothing, or the numbers do not grow.
pub fn books(ledger: &[LedgerEntry]) -> BTreeMap<String, Su> {
    let mut books: BTreeMap<String, Su> = BTreeMap::new();
    let mut before = 0;
    for line in ledger {
        assert!(line.sum >= Su::ZERO && line.seq > before, "{line:?}");
        before = line.seq;
        let from = books.entry(line.from.clone()).or_default();
        *from = from.minus(line.sum);
        let to = books.entry(line.to.clone()).or_default();
        *to = to.plus(line.sum);
    }
    books
}
