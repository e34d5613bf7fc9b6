//! Which cores and GPUs of the job's share on this node a step gets. Steps at the same
//! time get different ones, as long as there are enough; a step that overlaps gets the
//! ones that the fewest others have.
//!
//! Pure.

use super::StepShare;
use super::layout::gpus_wanted;
use cosy_model::node::Allocation;
use cosy_model::step::{StepId, StepSpec};
use std::collections::BTreeMap;

/// Which step has which devices and cores of one attempt on this node.
#[derive(Debug, Default)]
pub struct Shares {
    taken: BTreeMap<StepId, StepShare>,
}

impl Shares {
    /// Chooses for a step with so many tasks here. `processors` are those behind the
    /// numbers of cores, empty where numbers mean nothing.
    pub fn choose(
        &self,
        allocation: &Allocation,
        spec: &StepSpec,
        tasks: u32,
        cores_per_task: u32,
        processors: &[u32],
    ) -> StepShare {
        let wanted = tasks.saturating_mul(cores_per_task) as usize;
        let mut cores = self.least_used(&allocation.cores, |s| &s.cores);
        cores.truncate(wanted);
        cores.sort_unstable();
        let gpus = match gpus_wanted(spec, tasks) {
            None => allocation.gpus.clone(),
            Some(count) => {
                let mut gpus = self.least_used(&allocation.gpus, |s| &s.gpus);
                gpus.truncate(count as usize);
                gpus.sort_unstable();
                gpus
            }
        };
        let found: Option<Vec<u32>> = cores
            .iter()
            .map(|c| processors.get(*c as usize).copied())
            .collect();
        StepShare {
            cores,
            processors: found.unwrap_or_default(),
            gpus,
        }
    }

    /// `all` by how many steps have each, then in order.
    fn least_used(&self, all: &[u32], of: impl Fn(&StepShare) -> &Vec<u32>) -> Vec<u32> {
        let mut uses: BTreeMap<u32, usize> = all.iter().map(|n| (*n, 0)).collect();
        for number in self.taken.values().flat_map(of) {
            if let Some(count) = uses.get_mut(number) {
                *count += 1;
            }
        }
        let mut order: Vec<(usize, u32)> = uses.into_iter().map(|(n, count)| (count, n)).collect();
        order.sort_unstable();
        order.into_iter().map(|(_, n)| n).collect()
    }

    /// True when a step with so many tasks would get cores that another one has.
    pub fn is_short(&self, allocation: &Allocation, cores: usize) -> bool {
        let taken: usize = self.taken.values().map(|s| s.cores.len()).sum();
        taken + cores > allocation.cores.len()
    }

    /// Notes what a step has. GPUs that it did not ask for are shared with others.
    pub fn take(&mut self, step: StepId, share: &StepShare, spec: &StepSpec) {
        let asks_for_gpus = gpus_wanted(spec, 1).is_some();
        let kept = StepShare {
            cores: share.cores.clone(),
            processors: Vec::new(),
            gpus: match asks_for_gpus {
                true => share.gpus.clone(),
                false => Vec::new(),
            },
        };
        self.taken.insert(step, kept);
    }

    /// A step is over.
    pub fn give_back(&mut self, step: StepId) {
        self.taken.remove(&step);
    }

    /// Steps that have something.
    pub fn steps(&self) -> Vec<StepId> {
        self.taken.keys().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::fixture::{allocation, spec};

    #[test]
    fn steps_at_the_same_time_get_different_cores() {
        let mut allocation = allocation();
        allocation.cores = vec![2, 3, 6, 7];
        allocation.gpus = vec![1, 4];
        let processors = [10, 11, 12, 13, 14, 15, 16, 17];
        let mut shares = Shares::default();
        let mut spec = spec();
        let first = shares.choose(&allocation, &spec, 2, 1, &processors);
        assert_eq!((&first.cores, &first.processors), (&vec![2, 3], &vec![12, 13]));
        assert_eq!(first.gpus, [1, 4]);
        shares.take(StepId(0), &first, &spec);
        spec.gpus_per_task = 1;
        assert!(!shares.is_short(&allocation, 2) && shares.is_short(&allocation, 3));
        let second = shares.choose(&allocation, &spec, 1, 2, &[]);
        assert_eq!((&second.cores, &second.processors), (&vec![6, 7], &vec![]));
        assert_eq!(second.gpus, [1]);
        shares.take(StepId(1), &second, &spec);
        let overlapping = shares.choose(&allocation, &spec, 1, 3, &[]);
        assert_eq!((overlapping.cores, overlapping.gpus), (vec![2, 3, 6], vec![4]));
        shares.give_back(StepId(0));
        assert_eq!(shares.choose(&allocation, &spec, 1, 2, &[]).cores, [2, 3]);
        assert_eq!(shares.steps(), [StepId(1)]);
    }
}
