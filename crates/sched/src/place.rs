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
}
