//! A shortcut of the plain path: jobs that have come behind the head since the last pass.

use super::Pass;
use crate::Policy;
use crate::scheduler::Scheduler;
use cosy_model::JobId;

impl Scheduler {
    /// True where all that matters is how many nodes a job wants and for how long.
    pub(super) fn is_plain(&self) -> bool {
        self.policy() == Policy::EASY && self.groups.are_plain()
    }

    /// When nothing has happened since the last pass but that jobs have come behind the
    /// head, and numbers of nodes tell what can start, the jobs that could not start then
    /// cannot now: only the new ones are looked at. False when it is not so.
    pub(super) fn serve_fresh(&mut self, pass: &mut Pass, starts: &mut Vec<JobId>) -> bool {
        if self.classes().any() {
            return false; // resource pools may tell them apart
        }
        let pool = &mut self.node_pools[pass.pool];
        let Some((key, head)) = pool.head.filter(|_| pool.only_fresh) else {
            return false;
        };
        let behind = pool.fresh.iter().all(|(fresh, _)| *fresh > key);
        if key.ahead.is_some()
            || !behind
            || pool.due <= pass.now
            || pass.endless
            || !self.is_plain()
        {
            return false;
        }
        pass.given = 1;
        pass.pending.push((key.job, head));
        let room = self.room(pass);
        if room.idle > 0 && pass.shadow.is_none() {
            pass.given = 0;
            pass.pending.clear();
            return false;
        }
        let pool = &mut self.node_pools[pass.pool];
        let mut fresh = std::mem::take(&mut pool.fresh);
        fresh.sort_unstable_by_key(|(key, _)| *key);
        for (key, queue_key) in fresh.drain(..) {
            if self.room(pass).holds(&queue_key) {
                self.consider(pass, key, &queue_key, starts);
            }
        }
        let pool = &mut self.node_pools[pass.pool];
        pool.fresh = fresh;
        pass.head = Some((key, head));
        pass.heads.append(&mut pool.heads);
        true
    }
}
