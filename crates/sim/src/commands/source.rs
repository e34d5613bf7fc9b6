//! Where a workload comes from: the options that several commands share, and their reading.
