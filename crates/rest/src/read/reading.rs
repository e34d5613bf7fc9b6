//! A look that is under way: one request after another, and what came back.

use crate::call::Call;
use crate::fault::{Fault, Warning};
use crate::read::needs::{self, Gathered, Need, Place};
use crate::read::select::Wanted;
use cosy_model::Refusal;
use cosy_model::api::{Reply, Request};
use jiff::Zoned;
use std::collections::VecDeque;

/// A look that is under way.
#[derive(Debug)]
pub struct Reading {
    pub(super) call: Call,
    pub(super) now: Zoned,
    pub(super) wanted: Wanted,
    needs: VecDeque<Need>,
    place: Place,
    pub(super) got: Gathered,
    pub(super) faults: Vec<Fault>,
    pub(super) warnings: Vec<Warning>,
}

impl Reading {
    /// Begins with a call at that time, in the zone in which times without one are meant.
    pub fn new(call: Call, now: Zoned) -> Self {
        let warnings = call.warnings.clone();
        let (wanted, faults) = match Wanted::read(&call, &now) {
            Ok(wanted) => (wanted, Vec::new()),
            Err(fault) => (Wanted::default(), vec![fault]),
        };
        let needs = match faults.is_empty() {
            true => needs::of(&call.endpoint, wanted.extras).into(),
            // The head of every answer names the cluster.
            false => VecDeque::from([Need::Settings]),
        };
        Self {
            call,
            now,
            wanted,
            needs,
            place: Place::default(),
            got: Gathered::default(),
            faults,
            warnings,
        }
    }

    /// The next request to send; `None` when the document can be written.
    pub fn ask(&mut self) -> Option<Request> {
        while let Some(need) = self.needs.front() {
            let request = self.got.request(*need, &self.place, &self.wanted.selection);
            if request.is_some() {
                return request;
            }
            self.done();
        }
        None
    }

    fn done(&mut self) {
        self.needs.pop_front();
        self.place = Place::default();
    }

    /// Takes the answer to that request.
    pub fn take(&mut self, reply: Result<Reply, Refusal>) {
        let Some(need) = self.needs.front().copied() else {
            return;
        };
        let reply = match reply {
            Ok(Reply::Refused(refusal)) => Err(refusal),
            other => other,
        };
        match reply {
            Err(_) if need.is_spare() => self.done(),
            Err(refusal) => self.fail(Fault::refused(&refusal, need.source())),
            Ok(reply) => match self.got.take(need, reply, &self.place) {
                Ok(Some(next)) => self.place = next,
                Ok(None) => self.done(),
                Err(()) => {
                    let why = "the controller has given another answer than was asked for";
                    self.fail(Fault::connection(why));
                }
            },
        }
    }

    /// Notes that nothing more can be had: the controller is not reached, say.
    pub fn fail(&mut self, fault: Fault) {
        self.faults.push(fault);
        self.needs.clear();
    }
}
