//! A list of jobs under way, row by row.

use crate::job::visible::is_told_to_others;
use crate::job::{JobFacts, cell};
use crate::table::{Cell, Rows};
use crate::words;
use cosy_model::JobId;
use cosy_model::api::{JobField, Table};
use std::collections::BTreeMap;

/// What the making of a list has to look up before it can make rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Needs {
    /// Places of jobs in the order of service.
    pub places: bool,
    /// Starts that a plan predicts.
    pub predictions: bool,
    /// Why jobs wait.
    pub reasons: bool,
    /// A row for each component of a job that has several.
    pub components: bool,
}

impl Needs {
    /// Those of a list of such fields.
    pub fn of(fields: &[JobField]) -> Self {
        Self {
            places: fields.contains(&JobField::Place),
            predictions: fields.contains(&JobField::PredictedStart),
            reasons: fields.contains(&JobField::Reason),
            components: fields.contains(&JobField::Component),
        }
    }
}

/// Rows of jobs under way. What they take in an answer and how much work they were is known after
/// each row, so that whoever makes them can stop in time.
#[derive(Debug)]
pub struct JobRows {
    rows: Rows,
    needs: Needs,
    /// Indices of arrays as text, where they are asked for: the same for each row of an array,
    /// and long to make.
    array_indices: Option<BTreeMap<JobId, String>>,
}

impl JobRows {
    /// No row yet. A field that is named twice is there once.
    pub fn new(fields: &[JobField]) -> Self {
        let arrays = fields.contains(&JobField::ArraySpecText);
        Self {
            rows: Rows::new(fields, 0),
            needs: Needs::of(fields),
            array_indices: arrays.then(BTreeMap::new),
        }
    }

    /// So many rows are to come, or as many of them as fit into so many bytes.
    pub fn expect(&mut self, rows: usize, bytes: usize) {
        self.rows.expect(rows, bytes);
    }

    /// What has to be looked up for the rows.
    pub const fn needs(&self) -> Needs {
        self.needs
    }

    /// Adds a row; `whole`: its reader is told everything of the job, not only what others are
    /// told.
    pub fn push(&mut self, facts: &impl JobFacts, whole: bool) {
        if let Some(known) = &mut self.array_indices
            && let Some(indices) = facts.array().and_then(|array| array.indices)
        {
            known.entry(facts.name().base).or_insert_with(|| {
                let text = words::indices(indices.iter());
                self.rows.worked(Rows::work_of(&text));
                text
            });
        }
        let known = self.array_indices.as_ref();
        let indices = known.and_then(|known| known.get(&facts.name().base));
        let indices = indices.map(String::as_str);
        if whole {
            return self.rows.push(|field| cell(facts, field, indices));
        }
        let over = facts.status().over;
        self.rows
            .push(|field| match is_told_to_others(field, over) {
                true => cell(facts, field, indices),
                false => Cell::None,
            });
    }

    /// Counts work that was done for rows beside their cells.
    pub fn worked(&mut self, more: usize) {
        self.rows.worked(more);
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

    /// The whole table.
    pub fn done(self) -> Table {
        self.rows.done()
    }

    /// The whole table, the last row first.
    pub fn done_reversed(self) -> Table {
        self.rows.done_reversed()
    }
}
