//! The jobs that a request means are chosen, a piece in a turn.

use crate::config::ClusterConfig;
use crate::conversations::choosing::{Choosing, Naming, Sieve, Untouchable, Users};
use crate::conversations::visible::{may_see, not_theirs};
use crate::event::Caller;
use crate::jobs::Jobs;
use crate::jobs::arrays::procedures::name_of;
use crate::machine::Machine;
use crate::queues::access::procedures::may_touch;
use cosy_model::api::{JobFilter, JobRef};
use cosy_model::{About, JobId, Refusal, RefusalCode};
use std::collections::{BTreeSet, VecDeque};
use std::ops::Bound;

pub(crate) fn sieve<'a>(machine: &Machine, filter: &'a JobFilter) -> Sieve<'a> {
    fn set(words: &[String]) -> BTreeSet<&str> {
        words.iter().map(String::as_str).collect()
    }
    let node = |name: &String| machine.id_of(name);
    Sieve {
        users: Users::new(filter.users.iter().map(String::as_str)),
        queues: set(&filter.queues),
        names: set(&filter.names),
        accounts: set(&filter.accounts),
        states: filter.states.iter().copied().collect(),
        nodes: (!filter.nodes.is_empty()).then(|| filter.nodes.iter().filter_map(node).collect()),
    }
}

/// Looks at so many jobs more; true when all have been looked at.
pub(crate) fn choose(
    config: &ClusterConfig,
    machine: &Machine,
    jobs: &Jobs,
    caller: &Caller,
    choosing: &mut Choosing,
    left: &mut usize,
) -> bool {
    let filter = std::mem::take(&mut choosing.filter);
    let sieve = &sieve(machine, &filter);
    let done = match choosing.named.take() {
        None => choose_of_all(config, jobs, caller, choosing, sieve, left),
        Some(mut named) => {
            let done = choose_of_named(config, jobs, caller, (choosing, &mut named), sieve, left);
            choosing.named = Some(named);
            done
        }
    };
    choosing.filter = filter;
    done
}

fn choose_of_all(
    config: &ClusterConfig,
    jobs: &Jobs,
    caller: &Caller,
    choosing: &mut Choosing,
    sieve: &Sieve<'_>,
    left: &mut usize,
) -> bool {
    let range = (Bound::Excluded(choosing.after), Bound::Excluded(choosing.until));
    for (id, job) in jobs.range(range).take(*left) {
        *left -= 1;
        choosing.after = *id;
        let meant = may_touch(config, caller, job.submitted()) && sieve.passes(job);
        let group = job.member().and(jobs.group(&job.submitted().base));
        choosing.choose(group, job, meant);
    }
    if *left > 0 {
        let all = choosing.tallies.values_mut();
        all.for_each(|tally| tally.whole = true);
    }
    *left > 0
}

fn choose_of_named(
    config: &ClusterConfig,
    jobs: &Jobs,
    caller: &Caller,
    (choosing, refs): (&mut Choosing, &mut VecDeque<JobRef>),
    sieve: &Sieve<'_>,
    left: &mut usize,
) -> bool {
    while *left > 0 {
        let naming = match choosing.naming.take() {
            Some(naming) => naming,
            None => match refs.pop_front() {
                None => return true,
                Some(target) => {
                    *left -= 1;
                    if !choosing.refs.insert(target) {
                        continue;
                    }
                    Naming::of(target)
                }
            },
        };
        go_on_naming(config, jobs, caller, (choosing, naming), (sieve, left));
    }
    false
}

/// The jobs that a reference stands for: of a live array as many as are left to look at.
fn go_on_naming(
    config: &ClusterConfig,
    jobs: &Jobs,
    caller: &Caller,
    (choosing, mut naming): (&mut Choosing, Naming),
    (sieve, left): (&Sieve<'_>, &mut usize),
) {
    let target = naming.expanding.target;
    let (ids, over) = jobs.some_of(&mut naming.expanding, *left);
    *left = left.saturating_sub(ids.len());
    for id in ids {
        look_at_named(config, jobs, caller, (choosing, &mut naming), sieve, id);
    }
    if !over {
        choosing.naming = Some(naming);
        return;
    }
    let whole = target.task.is_none();
    if let Some(tally) = choosing.tallies.get_mut(&target.job).filter(|_| whole) {
        tally.whole = true;
    }
    end_naming(config, jobs, caller, choosing, naming);
}

fn look_at_named(
    config: &ClusterConfig,
    jobs: &Jobs,
    caller: &Caller,
    (choosing, naming): (&mut Choosing, &mut Naming),
    sieve: &Sieve<'_>,
    id: JobId,
) {
    let Some(job) = jobs.get(&id) else {
        // One that is hidden is not there.
        let ended = jobs.ended(id);
        if ended.is_some_and(|ended| may_see(config, caller, &ended.submitted)) {
            naming.known = true;
            naming.last = Some((id, Untouchable::Ended));
            naming.ended.push(id);
        }
        return;
    };
    (naming.known, naming.live) = (true, true);
    let touched = may_touch(config, caller, job.submitted());
    if !touched {
        naming.last = Some((id, Untouchable::Foreign(job.submitted().uid)));
    }
    let meant = touched && sieve.passes(job);
    naming.any |= meant;
    let group = job.member().and(jobs.group(&job.submitted().base));
    choosing.choose(group, job, meant);
}

/// What was named and cannot be touched is refused.
fn end_naming(
    config: &ClusterConfig,
    jobs: &Jobs,
    caller: &Caller,
    choosing: &mut Choosing,
    naming: Naming,
) {
    if choosing.with_ended && naming.known && !naming.live {
        let ended = naming.ended.into_iter();
        let seen = &mut choosing.seen;
        choosing.ended.extend(ended.filter(|id| seen.insert(*id)));
        return;
    }
    if naming.any {
        return;
    }
    let target = naming.expanding.target;
    let refusal = match (naming.known, naming.last) {
        (false, _) => crate::conversations::requests::no_job(target),
        (true, Some((id, why))) => untouched(config, jobs, caller, target, id, why),
        (true, None) => return, // it is not one that is meant
    };
    choosing.refused.push(target.to_string(), refusal);
}

fn untouched(
    config: &ClusterConfig,
    jobs: &Jobs,
    caller: &Caller,
    target: JobRef,
    id: JobId,
    why: Untouchable,
) -> Refusal {
    match why {
        Untouchable::Ended => {
            let name = name_of(jobs, id);
            let why = format!("job {name} has already ended");
            Refusal::new(RefusalCode::WrongState, why).about(About::Ended)
        }
        Untouchable::Foreign(owner) => not_theirs(config, caller, owner, target),
    }
}
