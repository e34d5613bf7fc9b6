//! Models that workloads are drawn from.

pub mod cirne;
pub mod lublin;
