//! How tasks are dealt to whole nodes.
//!
//! A job that takes whole nodes takes the same whatever runs on each, so the planner need not know:
//! it counts tasks in blocks, as for jobs that share nodes. When the job starts, its tasks are
//! dealt round its nodes, one to each in turn as long as there is room, and neighbours stay
//! together. Slurm does the same with the cores that a job was given (its "block" distribution, and
//! `SLURM_TASKS_PER_NODE`); where a job has only the cores that its tasks asked for there is but one
//! way. Sources: srun(1) `--distribution`; captures sbatch-env-N2n4c2, srun-env-N2n4.

use crate::jobs::Jobs;
use crate::jobs::job::Place;
use cosy_model::{JobId, NodeShare};
use cosy_sched::Component;

/// The shares of a job that has just started, with the tasks of those of its components that
/// have whole nodes dealt evenly.
pub(crate) fn dealt(jobs: &Jobs, id: JobId, mut shares: Vec<NodeShare>) -> Vec<NodeShare> {
    let place = jobs.get(&id).map(|job| &job.submitted().place);
    let Some(Place::Good { demand, .. }) = place else {
        return shares;
    };
    let components = (0..).zip(demand.iter());
    for (number, component) in components.filter(|(_, component)| component.exclusive) {
        let own = shares.iter_mut();
        let own = own.filter(|share| share.component == number);
        deal_evenly(component, own.collect());
    }
    shares
}

fn deal_evenly(demand: &Component, mut shares: Vec<&mut NodeShare>) {
    let room = |share: &&mut NodeShare| demand.capacity(&share.amounts).max(1);
    let rooms: Vec<u32> = shares.iter().map(room).collect();
    let tasks = shares.iter().map(|share| u64::from(share.tasks)).sum();
    if let Some(counts) = evenly(tasks, &rooms) {
        for (share, count) in shares.iter_mut().zip(counts) {
            share.tasks = count;
        }
    }
}

/// How many of `tasks` each gets when they go round one by one; `None` where there is no room.
fn evenly(tasks: u64, rooms: &[u32]) -> Option<Vec<u32>> {
    let mut counts = vec![0; rooms.len()];
    let mut left = tasks;
    let mut open: Vec<usize> = (0..rooms.len()).filter(|at| rooms[*at] > 0).collect();
    while left > 0 {
        let least = open.iter().map(|at| rooms[*at] - counts[*at]).min()?;
        let rounds = (left / open.len() as u64).min(least.into());
        if rounds == 0 {
            // Fewer than one for each: the first ones get them.
            open.iter()
                .take(left as usize)
                .for_each(|at| counts[*at] += 1);
            break;
        }
        open.iter().for_each(|at| counts[*at] += rounds as u32);
        left -= rounds * open.len() as u64;
        open.retain(|at| counts[*at] < rooms[*at]);
    }
    Some(counts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn tasks_go_round() {
        let check = |tasks, rooms: &[u32], want: Option<&[u32]>| {
            let got = evenly(tasks, rooms);
            assert_eq!(got.as_deref(), want, "{tasks} {rooms:?}");
        };
        check(4, &[4, 4], Some(&[2, 2]));
        check(5, &[4, 4], Some(&[3, 2]));
        check(4, &[3, 1], Some(&[3, 1]));
        check(7, &[1, 8, 2], Some(&[1, 4, 2]));
        check(2, &[4, 4, 4], Some(&[1, 1, 0]));
        check(9, &[4, 4], None);
        check(0, &[], Some(&[]));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// As if they were dealt one by one.
        #[test]
        fn one_by_one(rooms in proptest::collection::vec(0_u32..9, 0..6), tasks in 0_u64..40) {
            let mut counts = vec![0; rooms.len()];
            let mut left = tasks;
            while left > 0 && counts != rooms {
                for at in 0..rooms.len() {
                    if left > 0 && counts[at] < rooms[at] {
                        counts[at] += 1;
                        left -= 1;
                    }
                }
            }
            prop_assert_eq!(evenly(tasks, &rooms), (left == 0).then_some(counts));
        }
    }
}
