//! What the controller is told of steps that are over, and what stays until it has it.

use super::directory_name;
use super::records::{MANY, RECORDS, Records, left_over};
use super::spool::{NEXT, list};
use super::table::Steps;
use cosy_model::node::AttemptKey;
use cosy_model::step::StepRecord;
use std::fs;

impl Steps {
    pub(super) fn keep_record(&mut self, attempt: AttemptKey, record: &StepRecord) {
        let path = self.path(attempt).join(RECORDS);
        let kept = self.records_at(attempt, &path).and_then(|records| {
            records.add(record)?;
            Ok(records.unreported() >= MANY && !records.awaits_answer())
        });
        match kept {
            Ok(true) => self.tell_records(attempt),
            Ok(false) => {}
            Err(e) => tracing::error!(job = %attempt.job, "cannot keep the record of a step: {e}"),
        }
    }

    pub(super) fn records_at(
        &mut self,
        attempt: AttemptKey,
        path: &std::path::Path,
    ) -> std::io::Result<&mut Records> {
        match self.records.entry(attempt) {
            std::collections::btree_map::Entry::Occupied(there) => Ok(there.into_mut()),
            std::collections::btree_map::Entry::Vacant(place) => {
                Ok(place.insert(Records::open(path)?))
            }
        }
    }

    /// Tells one batch; false when there was nothing to tell.
    fn tell_one(&mut self, attempt: AttemptKey) -> bool {
        let Some(records) = self.records.get_mut(&attempt) else {
            return false;
        };
        match records.next_report(attempt, &self.setup.name) {
            Ok(Some(report)) => {
                self.reports.push(report);
                true
            }
            Ok(None) => false,
            Err(e) => {
                tracing::error!(job = %attempt.job, "records of steps: {e}");
                false
            }
        }
    }

    fn tell_records(&mut self, attempt: AttemptKey) {
        self.tell_one(attempt);
    }

    /// Tells everything of an attempt that was not told yet: before its end is.
    pub fn flush(&mut self, attempt: AttemptKey) {
        while self.tell_one(attempt) {}
    }

    /// There is a new link: whatever was not taken is told again, of attempts that are
    /// forgotten at once.
    pub fn new_link(&mut self) {
        let keys: Vec<AttemptKey> = self.records.keys().copied().collect();
        for key in keys {
            if let Some(records) = self.records.get_mut(&key) {
                records.begin_anew();
            }
            if !self.jobs.contains_key(&key) {
                self.flush(key);
            }
        }
        let numbers: Vec<u64> = self.pending.iter().map(|p| p.number).collect();
        numbers.into_iter().for_each(|number| self.seek(number));
    }

    /// About once a second.
    pub fn on_tick(&mut self) {
        self.setup.pool.tidy();
        let due: Vec<AttemptKey> = self
            .records
            .iter()
            .filter(|(_, r)| r.unreported() > 0 && !r.awaits_answer())
            .map(|(key, _)| *key)
            .collect();
        for key in due {
            self.tell_records(key);
        }
    }

    /// The controller has these records.
    pub fn records_taken(&mut self, attempt: AttemptKey, count: u64) {
        let Some(records) = self.records.get_mut(&attempt) else {
            return;
        };
        if let Err(e) = records.taken(count) {
            tracing::error!(job = %attempt.job, "records of steps: {e}");
        }
        if records.unreported() >= MANY && !records.awaits_answer() {
            return self.tell_records(attempt);
        }
        if records.all_taken() && !self.jobs.contains_key(&attempt) {
            self.records.remove(&attempt);
            let _ = fs::remove_file(left_over(&self.setup.directory, attempt));
        }
    }

    /// The attempt is forgotten: nothing of its steps stays but records that the
    /// controller does not have yet.
    pub fn forget(&mut self, attempt: AttemptKey) {
        let job = self.jobs.remove(&attempt);
        let path = self.path(attempt);
        let file = path.join(RECORDS);
        match self.records.get(&attempt).map(Records::all_taken) {
            Some(true) => drop(self.records.remove(&attempt)),
            Some(false) => {
                let _ = fs::rename(&file, left_over(&self.setup.directory, attempt));
            }
            None => {}
        }
        if job.is_some_and(|job| job.touched) {
            self.remove_all(&path);
        }
    }

    /// Nothing of an attempt's steps may stay: its directory is used again.
    pub(super) fn remove_all(&mut self, attempt: &std::path::Path) {
        for step in list(attempt) {
            if self.spool.remove(attempt, step).is_err() {
                let _ = fs::remove_dir_all(attempt.join(directory_name(step)));
            }
        }
        let _ = fs::remove_file(attempt.join(NEXT));
        let _ = fs::remove_file(attempt.join(RECORDS));
    }
}
