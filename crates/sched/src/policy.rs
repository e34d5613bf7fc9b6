//! How many waiting jobs are promised a place, and whether others may pass them.
//!
//! One algorithm with one number. Sources: Lifka, "The ANL/IBM SP scheduling system"
//! (1995) for aggressive (EASY) backfill; Mu'alem and Feitelson, "Utilization,
//! predictability, workloads and user runtime estimates" (2001) for the conservative one.

/// How many of the first waiting jobs that cannot start get a guaranteed place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Depth {
    /// This many in each pool of queues that share nodes. With 0 nobody has one but those for whom
    /// others make room: with backfill whoever fits starts, and a wide job may wait for ever.
    Count(u32),
    /// Every waiting job (conservative backfill).
    All,
}

impl Depth {
    /// True when `given` guarantees leave room for one more.
    pub(crate) fn allows(self, given: usize) -> bool {
        match self {
            Self::Count(most) => given < most as usize,
            Self::All => true,
        }
    }
}

/// What the planner does with jobs that cannot start now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Policy {
    /// How many of them get a guaranteed place.
    pub depth: Depth,
    /// Whether jobs behind them may start if they move no guaranteed place.
    pub backfill: bool,
}

impl Policy {
    /// First come, first served: nothing passes the first job that cannot start.
    pub const FCFS: Self = Self {
        depth: Depth::Count(0),
        backfill: false,
    };
    /// Aggressive backfill: only the head has a guarantee.
    pub const EASY: Self = Self {
        depth: Depth::Count(1),
        backfill: true,
    };
    /// Conservative backfill: every waiting job has a guarantee.
    pub const CONSERVATIVE: Self = Self {
        depth: Depth::All,
        backfill: true,
    };
}

impl Default for Policy {
    fn default() -> Self {
        Self::EASY
    }
}
