//! Rows of history: what the store has of jobs, row by row.
//!
//! The store has one row for a submission of many jobs; so has this: what was asked for is
//! made once for all jobs of a submission that are like it.

use crate::conversations::job_facts::EndedFacts;
use crate::conversations::visible::Eyes;
use crate::jobs::components::rows_by_component;
use crate::jobs::job::Submitted;
use crate::jobs::restore::of_row;
use crate::record::{JobRow, SubmissionRow};
use cosy_model::JobId;
use cosy_model::api::{Cursor, JobField, Table};
use cosy_view::list::JobRows;

/// A part of history under way: the latest row comes first.
pub struct HistoryRows {
    rows: JobRows,
    eyes: Eyes,
    /// By submission and number of the body.
    last: Option<((JobId, u32), Submitted)>,
}

impl HistoryRows {
    /// No row yet, for who sees so much.
    pub fn new(fields: &[JobField], eyes: Eyes) -> Self {
        Self {
            rows: JobRows::new(fields),
            eyes,
            last: None,
        }
    }

    /// Adds a job that comes before those that were added.
    pub fn push(&mut self, row: &JobRow, submission: &SubmissionRow) {
        let own = row.changed.is_some() || row.queue.is_some();
        if own {
            return self.push_as(row, &of_row(submission, row));
        }
        let key = (row.base, row.body);
        let last = self.last.take().filter(|(known, _)| *known == key);
        let last = last.unwrap_or_else(|| (key, of_row(submission, row)));
        self.push_as(row, &last.1);
        self.last = Some(last);
    }

    fn push_as(&mut self, row: &JobRow, submitted: &Submitted) {
        let whole = self.eyes.see_all_of(submitted.uid);
        let by_component = self.rows.needs().components;
        let facts = |row, submitted| EndedFacts {
            around: None,
            row,
            submitted,
            by_component,
        };
        if !submitted.spec.has_several_components() || !by_component {
            return self.rows.push(&facts(row, submitted), whole);
        }
        for (row, submitted) in rows_by_component(row, submitted).iter().rev() {
            self.rows.push(&facts(row, submitted), whole);
        }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// True without any.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// About so many bytes are the rows in an answer.
    pub fn bytes(&self) -> usize {
        self.rows.bytes()
    }

    /// Work so far: 1 for each cell and for 64 bytes of text.
    pub fn work(&self) -> usize {
        self.rows.work()
    }

    /// The table, the latest row last; `more` says where earlier ones are.
    pub fn done(self, more: Option<Cursor>) -> Table {
        self.rows.done_reversed().going_on(more)
    }
}
