//! The clusters that are played on: few nodes, so that everything is in everything's way.

use crate::world::{Dice, config};
use cosy_control::{AccountConfig, ClusterConfig, EarlyEnd, Quotas};
use cosy_model::reservation::Rule;
use cosy_model::{QueueSpec, Span, Su};
use cosy_sched::Depth;

pub fn random(dice: &mut Dice) -> ClusterConfig {
    let mut config = config(2 + dice.below(4) as u32, 4);
    config.queues.push(QueueSpec {
        name: "part".to_owned(),
        nodes: Some(vec!["n1".to_owned(), "n2".to_owned()]),
        ..config.queues[0].clone()
    });
    config.licenses.set("l", 2 + dice.below(3) as u32);
    config.policy.grace = Span::from_secs(5);
    config.policy.clearance = Span::from_secs(5);
    config.policy.backfill = dice.chance(85);
    config.policy.depth = match dice.below(3) {
        0 => Depth::Count(1),
        1 => Depth::Count(3),
        _ => Depth::All,
    };
    let account = |members: &[&str], budget| AccountConfig {
        members: members.iter().map(|m| (*m).to_owned()).collect(),
        budget: Some(Su(budget)),
    };
    let lab = account(&["u1000", "u1001"], dice.below(20_000_000) as i64);
    let solo = account(&["u1002"], dice.below(3_000_000) as i64);
    config.accounts.insert("lab".to_owned(), lab);
    config.accounts.insert("solo".to_owned(), solo);
    rules(dice, &mut config);
    config
}

fn rules(dice: &mut Dice, config: &mut ClusterConfig) {
    let policy = &mut config.reservations;
    policy.per_user = Quotas::NONE;
    match dice.below(4) {
        0..2 => policy.all_of = Vec::new(),
        2 => policy.all_of = vec![Rule::Notice],
        _ => {
            policy.all_of = Vec::new();
            policy.any_of = vec![Rule::WhatIf, Rule::Notice];
        }
    }
    policy.delay_cap = match dice.below(3) {
        0 => None,
        1 => Some(Span::from_secs(120)),
        _ => Some(Span::from_secs(600)),
    };
    policy.hold = Span::from_secs(20 + dice.below(100) as i64);
    policy.holds = dice.chance(60).then_some(1);
    policy.rehold = dice.chance(50).then_some(Span::from_secs(300));
    policy.no_show = dice.chance(70).then_some(Span::from_secs(40));
    policy.cancel_fee = dice.chance(60);
    policy.early_end = match dice.chance(50) {
        true => EarlyEnd::Refund,
        false => EarlyEnd::Charge,
    };
    policy.gap = Span::from_secs(30);
    policy.candidates = 12;
}
