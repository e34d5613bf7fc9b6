//! One turn of the controller: what has been decided in it and not been handed out yet.
//!
//! What always holds: lines of history are numbered in the order in which they are written,
//! without gaps but where a store was found to be older than what nodes have seen.

use crate::event::{Batch, Caller, ClientId, Effect};
use crate::record::Record;
use cosy_model::history::Event;
use cosy_model::{EventKind, EventObject, Time};

/// Who has asked for what is done in this turn.
#[derive(Clone, Copy)]
pub(crate) struct Asker<'a> {
    /// Where the answer goes.
    pub client: ClientId,
    pub caller: &'a Caller,
    /// The same one when a command asks again.
    pub key: Option<[u8; 16]>,
}

/// Records and effects of this turn, and how far history is.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    /// The time on the wall in this turn.
    now: Time,
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
    pub fn after(last_event: u64, now: Time) -> Self {
        Self {
            now,
            last_event,
            ..Self::default()
        }
    }

    /// What happens from now on happens at that time.
    pub fn begin(&mut self, now: Time) {
        self.now = now;
    }

    /// The time on the wall in this turn.
    pub const fn now(&self) -> Time {
        self.now
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
    pub fn happened(
        &mut self,
        at: Time,
        kind: EventKind,
        who: &str,
        object: EventObject,
        detail: String,
    ) {
        self.last_event += 1;
        let event = Event {
            seq: self.last_event,
            at,
            kind,
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
