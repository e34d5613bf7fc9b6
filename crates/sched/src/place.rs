//! The place of one waiting job among all, without putting all of them in order.

use crate::scheduler::Scheduler;
use cosy_model::JobId;

impl Scheduler {
    /// How many waiting jobs are served before that one. `None` when it does not wait, or when some of
    /// those that wait are in no line, because their queue is closed: then all have to be put in order
    /// ([`Scheduler::waiting_in_order`]).
    pub fn served_before(&self, job: JobId) -> Option<usize> {
        let key = self.order_of(job)?;
        let (mut all, mut before) = (0, 0);
        for line in self.node_pools.iter().flat_map(|pool| pool.lines()) {
            all += line.len();
            before += line.before(&key);
        }
        (all == self.waiting_count()).then_some(before)
    }

    /// Finds out, once for all jobs like that one, whether the nodes could hold it, so that
    /// [`Scheduler::why`] need not do so for each of them.
    pub fn know_whether_it_fits(&mut self, job: JobId) {
        let group = self.waiting_job(job).map(|waiting| waiting.group);
        let known = |group| self.queue(self.groups.get(group).queue()).is_some();
        if let Some(group) = group.filter(|group| known(*group)) {
            self.feasible(group);
        }
    }
}
