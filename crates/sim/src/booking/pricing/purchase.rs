//! A user who wants a reservation: gets the list of starts with prices, and takes the one
//! that suits.
//!
//! Where the paper is silent: starts that are not possible (price infinite) are not on the
//! list. Starts are all instants between the request and the end of the plan at which free
//! resources change, both among them (section 3).
//!
//! Source: pricing paper, sections 3 and 4.

use crate::booking::inquiry::HALF_PPM;
use crate::booking::simulation::{AdmissionRule, ReservationRequest, Slot};
use cosy_model::{Span, Su, Time};
use cosy_sched::appraise::{Estimate, Starts, choose};

/// A reservation that was bought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Purchase {
    /// From the request to the start.
    pub wait: Span,
    /// f: the price beyond that of the time itself.
    pub extra: Su,
    /// n·d: the processor hours that it holds, in service units.
    pub base: Su,
    /// Starts on the list.
    pub starts: usize,
}

impl Purchase {
    /// rho: the extra price for each processor hour.
    pub fn unit_price(&self) -> f64 {
        self.extra.0 as f64 / self.base.0.max(1) as f64
    }
}

/// Chooses a start for every request, by its price and wait.
pub struct PurchaseRule {
    /// How much each request wants it cheap rather than early, in thousandths; by index of
    /// the job.
    pub alphas: Vec<u32>,
    /// What was bought so far, in the order of the requests.
    pub purchases: Vec<Purchase>,
}

impl PurchaseRule {
    /// A rule that has seen no request yet; `alphas` by index of the job.
    pub fn new(alphas: Vec<u32>) -> Self {
        Self {
            alphas,
            purchases: Vec::new(),
        }
    }
}

impl AdmissionRule for PurchaseRule {
    fn decide(&mut self, request: &ReservationRequest<'_>) -> Option<Slot> {
        let mut slots = offered(request);
        let list: Vec<(Time, Su)> = slots.iter().map(|slot| (slot.start, slot.extra)).collect();
        let alpha = self.alphas.get(request.at).copied().unwrap_or(0);
        let slot = slots.swap_remove(choose(&list, alpha)?);
        self.purchases.push(Purchase {
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
fn offered(request: &ReservationRequest<'_>) -> Vec<Estimate> {
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
