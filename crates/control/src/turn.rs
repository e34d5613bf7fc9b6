//! One turn of the controller: what has been decided in it and not been handed out yet.
//!
//! What always holds: lines of history are numbered in the order in which they are written,
//! without gaps but where a store was found to be older than what nodes have seen.

use crate::event::{Batch, Effect};
use crate::record::Record;
use cosy_model::Time;
use cosy_model::api::HistoryEvent;

/// Records and effects of this turn, and how far history is.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    batch: Batch,
    /// Number of the last line of history.
    last_event: u64,
    /// Looks at jobs since the start, for whatever reason.
    looks: u64,
    /// An [`Effect::TellDurable`] is under way.
    asked_durable: bool,
}

impl Turn {
    /// The first one after what the store has: history goes on behind that line.
    pub fn after(last_event: u64) -> Self {
        Self {
            last_event,
            ..Self::default()
        }
    }

    /// To be made durable with everything else of this turn.
    pub fn record(&mut self, record: Record) {
        self.batch.records.push(record);
    }

    /// To be done once the turn is durable, in this order.
    pub fn effect(&mut self, effect: Effect) {
        self.batch.effects.push(effect);
    }

    /// Writes a line of history: what happened to which object by whom, with details.
    pub fn happened(&mut self, at: Time, what: &str, who: &str, object: String, detail: String) {
        self.last_event += 1;
        let event = HistoryEvent {
            seq: self.last_event,
            at,
            what: what.to_owned(),
            who: who.to_owned(),
            object,
            detail,
        };
        self.record(Record::Happened(event));
    }

    /// The controller is told when this turn is durable; asked once until then.
    pub fn tell_durable(&mut self) {
        if !std::mem::replace(&mut self.asked_durable, true) {
            self.effect(Effect::TellDurable);
        }
    }

    /// What was asked to be told of is durable.
    pub fn told_durable(&mut self) {
        self.asked_durable = false;
    }

    /// So many jobs more were looked at: a measure of work.
    pub fn looked(&mut self, jobs: u64) {
        self.looks += jobs;
    }

    /// How many jobs were looked at since the start.
    pub const fn looks(&self) -> u64 {
        self.looks
    }

    /// Number of the last line of history.
    pub fn last_event(&self) -> u64 {
        self.last_event
    }

    /// History goes on behind that line: those up to it were written by a store that is lost.
    pub fn skip_events(&mut self, last: u64) {
        self.last_event = last;
    }

    /// Hands out what was decided.
    pub fn end(&mut self) -> Batch {
        std::mem::take(&mut self.batch)
    }
}
