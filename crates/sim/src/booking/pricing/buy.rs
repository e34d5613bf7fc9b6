//! A user who wants a reservation: gets the list of starts with prices, and takes the one
//! that suits.
//!
//! Where the paper is silent: starts that are not possible (price infinite) are not on the
//! list. Starts are all instants between the request and the end of the plan at which free
//! resources change, both among them (section 3).
//!
//! Source: pricing paper, sections 3 and 4.

use crate::booking::drive::{Request, Rule, Slot};
use crate::booking::inquiry::HALF_PPM;
use cosy_model::{Span, Su, Time};
use cosy_sched::appraise::{Estimate, Starts, choose};

/// A reservation that was bought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bought {
    /// From the request to the start.
    pub wait: Span,
    /// f: the price beyond that of the time itself.
    pub extra: Su,
    /// n·d: the processor hours that it holds, in service units.
    pub base: Su,
    /// Starts on the list.
    pub starts: usize,
}

impl Bought {
    /// rho: the extra price for each processor hour.
    pub fn unit_price(&self) -> f64 {
        self.extra.0 as f64 / self.base.0.max(1) as f64
    }
}

/// Buys for everybody.
pub struct Buying {
    /// How much each request wants it cheap rather than early, in thousandths; by index of
    /// the job.
    pub alphas: Vec<u32>,
    /// What was bought so far.
    pub bought: Vec<Bought>,
}

impl Buying {
    /// Nothing is bought yet.
    pub fn new(alphas: Vec<u32>) -> Self {
        Self {
            alphas,
            bought: Vec::new(),
        }
    }
}

impl Rule for Buying {
    fn decide(&mut self, request: &Request<'_>) -> Option<Slot> {
        let mut slots = offered(request);
        let list: Vec<(Time, Su)> = slots.iter().map(|slot| (slot.start, slot.extra)).collect();
        let alpha = self.alphas.get(request.at).copied().unwrap_or(0);
        let slot = slots.swap_remove(choose(&list, alpha)?);
        self.bought.push(Bought {
            wait: slot.start.since(request.now),
            extra: slot.extra,
            base: slot.base,
            starts: list.len(),
        });
        let start = slot.start;
        slot.shares.map(|shares| Slot { start, shares })
    }
}

/// The list of starts with prices, by start.
fn offered(request: &Request<'_>) -> Vec<Estimate> {
    let plan = request.appraise(Starts::At(Vec::new()), HALF_PPM);
    let all = Starts::Window {
        earliest: request.now,
        latest: plan.plan_end.max(request.now),
        most: usize::MAX,
        gap: Span::UNLIMITED,
    };
    let mut slots = request.appraise(all, HALF_PPM).slots;
    slots.retain(|slot| slot.shares.is_some());
    slots
}
