//! The planners' side: what is where, orders to start, sizes and queues to choose among.

pub(crate) mod alternative_queues;
pub(crate) mod flexible_size;
pub(crate) mod late_starts;
pub(crate) mod launch;
pub(crate) mod suspension;
pub(crate) mod task_layout;
