//! The planner's state and what it can be asked.
#![allow(unused_variables, missing_docs)] // signatures first

use crate::{Demand, NodeMask, OrderKey, Policy, Shortage};
use cosy_model::{
    Amounts, JobId, NodeId, NodeShare, QueueId, ReservationId, Span, Time, WaitReason,
};
use std::sync::Arc;

/// A job that waits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WaitingJob {
    pub key: OrderKey,
    pub queue: QueueId,
    pub demand: Arc<Demand>,
    pub limit: Span,
}
/// A job that starts now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Start {
    pub job: JobId,
    pub shares: Vec<NodeShare>,
}
/// An accepted reservation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Block {
    pub reservation: ReservationId,
    pub shares: Vec<NodeShare>,
    pub start: Time,
    pub end: Time,
}
/// When and where a waiting job will start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Prediction {
    pub job: JobId,
    pub start: Option<Time>,
    pub nodes: Vec<NodeId>,
    pub reason: WaitReason,
}
/// Predictions in service order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Plan {
    pub predictions: Vec<Prediction>,
}
/// The planner.
#[derive(Clone, Debug)]
pub struct Scheduler {}

impl Scheduler {
    pub fn new(policy: Policy, nodes: Vec<Amounts>, queues: Vec<NodeMask>) -> Self {
        Self {}
    }
    pub fn reconfigure(&mut self, policy: Policy, nodes: Vec<Amounts>, queues: Vec<NodeMask>) {}
    pub fn set_available(&mut self, node: NodeId, available: bool) {}
    pub fn set_queue_starts(&mut self, queue: QueueId, starts: bool) {}
    pub fn enqueue(&mut self, job: WaitingJob) {}
    pub fn dequeue(&mut self, job: JobId) -> bool {
        false
    }
    pub fn is_waiting(&self, job: JobId) -> bool {
        false
    }
    pub fn is_running(&self, job: JobId) -> bool {
        false
    }
    pub fn start_running(
        &mut self,
        job: JobId,
        shares: Vec<NodeShare>,
        expected_end: Time,
        exclusive: bool,
    ) {
    }
    pub fn set_expected_end(&mut self, job: JobId, end: Time) {}
    pub fn end(&mut self, job: JobId) -> bool {
        false
    }
    pub fn release_node(&mut self, job: JobId, node: NodeId) -> bool {
        false
    }
    pub fn add_block(&mut self, block: Block) {}
    pub fn remove_block(&mut self, reservation: ReservationId) -> bool {
        false
    }
    pub fn schedule(&mut self, now: Time) -> Vec<Start> {
        Vec::new()
    }
    pub fn could_ever_run(&self, demand: &Demand) -> Result<(), Shortage> {
        Ok(())
    }
    pub fn plan(&self, now: Time, most: Option<usize>) -> Plan {
        Plan::default()
    }
    pub fn predict(&self, now: Time, job: JobId) -> Option<Prediction> {
        None
    }
    pub fn free(&self, node: NodeId) -> Amounts {
        Amounts::default()
    }
    pub fn used(&self, node: NodeId) -> Amounts {
        Amounts::default()
    }
    pub fn running_count(&self) -> usize {
        0
    }
    pub fn waiting_count(&self) -> usize {
        0
    }
    pub fn waiting_in_order(&self) -> impl Iterator<Item = &WaitingJob> {
        [].into_iter()
    }
    pub fn why(&self, now: Time, job: JobId) -> Option<WaitReason> {
        None
    }
}
