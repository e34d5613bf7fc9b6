//! Steps whose tasks were put on nodes one by one ([`StepSpec::places`]): nothing is to be
//! chosen, only to be checked.

use super::words::many;
use super::{JobShape, Plan, add, flags};
use cosy_model::limits;
use cosy_model::step::{RankRun, StepSpec};
use std::collections::BTreeMap;

impl Plan<'_> {
    /// Tasks of each node of the job.
    pub(super) fn arranged(&self) -> Result<Vec<u32>, String> {
        let mut counts = vec![0u32; self.job.parts.len()];
        let mut tasks = 0u32;
        for (at, count) in runs(self.job, self.spec)? {
            counts[at] = counts[at].saturating_add(count);
            tasks = tasks.saturating_add(count);
        }
        if tasks == 0 {
            return Err("a step needs at least one task".to_owned());
        }
        if tasks > limits::STEP_TASKS {
            return Err(format!(
                "{tasks} tasks are more than a step may have ({})",
                limits::STEP_TASKS
            ));
        }
        let full = (0..counts.len()).find(|at| counts[*at] > self.most_on(*at));
        match full {
            None => Ok(counts),
            Some(at) => Err(format!(
                "{} are to be on node {}, which has room for {}",
                many(u64::from(counts[at]), "task"),
                self.job.parts[at].peer.node,
                self.room[at]
            )),
        }
    }

    /// Tasks that may be on a node; more than it has cores for where that is allowed.
    fn most_on(&self, at: usize) -> u32 {
        match self.spec.overcommit && self.room[at] > 0 {
            true => u32::MAX,
            false => self.room[at],
        }
    }

    /// The ranks of those nodes of the job.
    pub(super) fn arranged_ranks(&self, used: &[usize]) -> Vec<Vec<RankRun>> {
        let mut ranks = vec![Vec::new(); self.job.parts.len()];
        let mut next = 0;
        for (at, count) in runs(self.job, self.spec).unwrap_or_default() {
            add(&mut ranks[at], next, count);
            next += count;
        }
        let of_node = |at: &usize| std::mem::take(&mut ranks[*at]);
        used.iter().map(of_node).collect()
    }
}

/// The nodes by their places in the job, each with so many tasks in a row.
fn runs(job: JobShape<'_>, spec: &StepSpec) -> Result<Vec<(usize, u32)>, String> {
    let mut names: Vec<String> = spec.places.iter().map(|p| p.0.clone()).collect();
    names.sort_unstable();
    names.dedup();
    flags(job, &names)?;
    let parts = job.parts.iter().enumerate();
    let places: BTreeMap<&str, usize> = parts.map(|(at, part)| (&*part.peer.node, at)).collect();
    let place = |(name, count): &(String, u32)| Some((*places.get(&**name)?, *count));
    Ok(spec
        .places
        .iter()
        .filter_map(place)
        .filter(|p| p.1 > 0)
        .collect())
}
