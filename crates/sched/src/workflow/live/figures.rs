//! What the slots of a plan cost and whom they delay.
//!
//! Slots are accepted one after another, by start: each has the delays that it adds to those
//! before it. Of a workflow with more slots than [`GROUPS`] several are accepted at a time,
//! and what they add is told of the one that takes the most.

use super::planning::without;
use super::{LiveFlow, LiveSlot, Pricing};
use crate::appraise::{Appraisal, Delays, Estimate, GroupAppraisal, GroupEffect, Tariff};
use crate::{Block, Holds, Scheduler};
use cosy_model::{ReservationId, Su, Time};

/// Each costs a plan of the queue.
const GROUPS: usize = 64;

/// The figures, by task; a task that had its slot already costs nothing.
pub(super) fn of(
    scheduler: &Scheduler,
    now: Time,
    flow: &LiveFlow,
    pricing: &Pricing,
    slots: &[LiveSlot],
) -> Appraisal {
    let resources = without(scheduler, flow);
    let mut order: Vec<usize> = (0..slots.len())
        .filter(|task| !slots[*task].shares.is_empty())
        .collect();
    order.sort_by_key(|task| (slots[*task].start, *task));
    let groups: Vec<&[usize]> = order.chunks(order.len().div_ceil(GROUPS).max(1)).collect();
    let mut ids = spare_ids(&resources);
    let blocks: Vec<Vec<Block>> = groups
        .iter()
        .map(|group| {
            group
                .iter()
                .map(|task| block(flow, *task, &slots[*task], &mut ids))
                .collect()
        })
        .collect();
    let several = resources.appraise_groups(now, &pricing.inquiry, &blocks);
    let none = GroupEffect::default();
    let mut estimates: Vec<Estimate> = (0..slots.len())
        .map(|task| {
            let prices = (tariff(flow, pricing, task), &flow.holds(task));
            estimate(&slots[task], &several, prices, &none)
        })
        .collect();
    for (group, effect) in groups.iter().zip(&several.effects) {
        let work = |task: &&usize| core_ms(&slots[**task]);
        let Some(most) = group.iter().max_by_key(work) else {
            continue;
        };
        for task in *group {
            let prices = (tariff(flow, pricing, *task), &flow.holds(*task));
            let mut figures = estimate(&slots[*task], &several, prices, effect);
            if task != most {
                figures.delays = Delays::default();
                figures.extra = Su::ZERO;
            }
            estimates[*task] = figures;
        }
    }
    Appraisal {
        now,
        plain_start: several.plain_start,
        joint_start: None,
        load_end: several.load_end,
        plan_end: several.plan_end,
        slots: estimates,
    }
}

fn tariff<'a>(flow: &LiveFlow, pricing: &'a Pricing, task: usize) -> &'a Tariff {
    let own = pricing.tariffs.get(flow.tasks[task].tariff);
    own.unwrap_or(&pricing.inquiry.tariff)
}

/// Ids that no accepted reservation has.
fn spare_ids(scheduler: &Scheduler) -> impl Iterator<Item = ReservationId> + '_ {
    let ids = (0..=u64::MAX).rev().map(ReservationId);
    ids.filter(|id| !scheduler.has_block(*id))
}

fn block(
    flow: &LiveFlow,
    task: usize,
    slot: &LiveSlot,
    ids: &mut impl Iterator<Item = ReservationId>,
) -> Block {
    Block {
        reservation: ids.next().unwrap_or(ReservationId(0)),
        shares: slot.shares.clone(),
        start: slot.start,
        end: slot.end,
        holds: flow.holds(task).on(&slot.shares),
    }
}

fn core_ms(slot: &LiveSlot) -> i128 {
    let cores = slot
        .shares
        .iter()
        .map(|share| i128::from(share.amounts.cores));
    cores.sum::<i128>() * i128::from(slot.end.since(slot.start).0)
}

fn estimate(
    slot: &LiveSlot,
    several: &GroupAppraisal,
    (tariff, holds): (&Tariff, &Holds),
    effect: &GroupEffect,
) -> Estimate {
    Estimate {
        start: slot.start,
        end: slot.end,
        shares: Some(slot.shares.clone()),
        leave: Vec::new(),
        lacks: None,
        before_head: effect.before_head,
        availability_ppm: effect.availability_ppm,
        by_load: slot.start >= several.load_end,
        base: tariff.base(&slot.shares, &holds.on(&slot.shares), slot.end.since(slot.start)),
        extra: effect.price(tariff.delay_core_hour),
        delays: effect.delays.clone(),
    }
}
