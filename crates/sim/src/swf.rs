//! Reads and writes the Standard Workload Format.
