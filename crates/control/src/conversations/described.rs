//! Jobs, queues and accounts as rules at submission are to know them before they judge.

use crate::event::{Described, DescribedJob, DescriptionRequest, Effect};
use crate::jobs::Jobs;
use crate::jobs::job::Submitted;
use crate::queues::access::procedures::is_administrator;
use crate::queues::procedures::queues_in_short;
use crate::rooms::Rooms;
use crate::turn::Turn;
use cosy_model::JobSpec;
use cosy_model::api::JobRef;
use std::collections::{BTreeMap, BTreeSet};

/// Describes live jobs of the caller, an administrator's any; of alike ones the first. What is
/// not there is left out: the change itself is told so.
pub(crate) fn describe(rooms: &Rooms, turn: &mut Turn, wanted: &DescriptionRequest) {
    let (caller, jobs) = (&wanted.caller, &rooms.jobs);
    let admin = is_administrator(&rooms.config, caller);
    let mut seen = BTreeSet::new();
    let mut all = Vec::new();
    for target in &wanted.jobs {
        for submitted in bodies_of(jobs, *target) {
            let own = admin || submitted.uid == caller.user.uid;
            if own && seen.insert((submitted.base, submitted.body)) {
                let group = jobs.group(&submitted.base);
                let tasks = group.and_then(|group| group.indices());
                all.push(DescribedJob {
                    name: target.to_string(),
                    uid: submitted.uid,
                    user: submitted.user.clone(),
                    spec: JobSpec {
                        queue: Some(submitted.queue.clone()),
                        ..JobSpec::clone(&submitted.spec)
                    },
                    array: tasks.map(|indices| indices.len() as u64),
                });
            }
        }
    }
    let queues = match wanted.queues {
        true => queues_in_short(&rooms.config, &rooms.queues, &caller.user),
        false => Vec::new(),
    };
    let mut accounts = BTreeMap::new();
    if wanted.accounts {
        let owners = all.iter().map(|job| job.user.as_str());
        let asker = wanted.jobs.is_empty().then_some(&*caller.user.name);
        for name in owners.chain(asker) {
            if !accounts.contains_key(name) {
                accounts.insert(name.to_owned(), rooms.policy.accounts_of(name));
            }
        }
    }
    turn.effect(Effect::Describe {
        client: wanted.client,
        described: Described {
            jobs: all,
            queues,
            accounts,
        },
    });
}

/// What the jobs of a reference ask for.
fn bodies_of(jobs: &Jobs, target: JobRef) -> Vec<&Submitted> {
    match jobs.group(&target.job) {
        Some(group) if target.task.is_none() => {
            let bodies = group.bodies().values().filter(|body| body.jobs > 0);
            bodies.map(|body| &*body.submitted).collect()
        }
        Some(_) | None => jobs.submitted_of(target).into_iter().collect(),
    }
}
