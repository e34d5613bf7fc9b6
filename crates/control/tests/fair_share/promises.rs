//! What is promised where the order can change: the guaranteed start of the first in line may be moved
//! only by a job that overtakes it in the order.

use crate::world::{Dice, World};
use crate::{ordered, submit_as};
use cosy_control::PriorityConfig;
use cosy_model::api::{JobField, JobRef, Reply, Request};
use cosy_model::{JobId, QueueOrder, Span, Time, User};
use std::collections::{BTreeMap, BTreeSet};

/// A job as `cstat ID` tells it.
#[derive(Clone, Copy, Debug)]
struct Told {
    waits: bool,
    priority: i64,
    start: Option<Time>,
}

fn told(world: &mut World, root: &User, id: u64) -> Option<Told> {
    let job = JobRef {
        job: JobId(id),
        task: None,
    };
    let reply = world.ask_as(root.clone(), None, Request::Explain { job });
    let Reply::Explained { table, .. } = reply else {
        return None;
    };
    let state = table.text(0, JobField::State);
    (!matches!(state, "completed" | "timeout")).then(|| Told {
        waits: state == "waiting",
        priority: table.number(0, JobField::Priority).unwrap_or(0),
        start: table.number(0, JobField::PredictedStart).map(Time),
    })
}

type Look = BTreeMap<u64, Told>;

/// Whether a job stands before another, as it was looked at.
fn stands_before(look: &Look, one: u64, other: u64) -> bool {
    let place = |id: u64| look.get(&id).map(|told| (-told.priority, id));
    matches!((place(one), place(other)), (Some(one), Some(other)) if one < other)
}

#[test]
fn a_guaranteed_start_is_moved_only_by_who_overtakes() {
    let root = crate::world::user(0, "root");
    let (mut kept, mut overtaken) = (0, 0);
    for seed in 0..6 {
        let mut dice = Dice(seed);
        let priority = PriorityConfig {
            half_life: Span::from_secs(3600),
            ..PriorityConfig::default()
        };
        let mut world = ordered(4, QueueOrder::FairShare, priority);
        let mut open: BTreeSet<u64> = BTreeSet::new();
        let mut before = Look::new();
        for step in 0..150 {
            if open.len() < 12 && dice.chance(50) {
                let who = ["ann", "bob", "eve"][dice.below(3) as usize];
                let nodes = 1 + dice.below(4) as u32;
                let limit = Span::from_secs(601 + 300 * dice.below(3) as i64);
                open.insert(submit_as(&mut world, who, nodes, |s| s.time_limit = Some(limit)));
            }
            world.pass(1 + dice.below(40) as i64);
            let all = open
                .iter()
                .filter_map(|id| Some((*id, told(&mut world, &root, *id)?)));
            let now: Look = all.collect();
            open.retain(|id| now.contains_key(id));
            let waits = |look: &Look| -> Vec<u64> {
                let waiting = look.iter().filter(|(_, told)| told.waits);
                waiting.map(|(id, _)| *id).collect()
            };
            let line = waits(&before);
            let first = line.iter().copied().find(|id| {
                let others = line.iter().filter(|other| *other != id);
                others
                    .into_iter()
                    .all(|other| stands_before(&before, *id, *other))
            });
            if let Some(first) = first
                && let Some(promised) = before[&first].start
                && let Some(told) = now.get(&first)
            {
                let passes = |other: &&u64| {
                    let other = **other;
                    let came = before.get(&other).is_none_or(|told| told.waits);
                    let ahead = |look| stands_before(look, other, first);
                    other != first && came && (ahead(&before) || ahead(&now))
                };
                let by = now.keys().find(passes);
                let late = match told.waits {
                    true => told.start.is_none_or(|start| start > promised),
                    false => {
                        let row = world.store.row(first);
                        row.run.as_ref().unwrap().allocated > promised
                    }
                };
                kept += u32::from(by.is_none());
                overtaken += u32::from(late && by.is_some());
                assert!(
                    !late || by.is_some(),
                    "seed {seed} step {step}: {first} was told {promised:?}, now {told:?}: {now:?}"
                );
            }
            before = now;
        }
    }
    assert!(kept > 200 && overtaken > 5, "{kept} {overtaken}");
}
