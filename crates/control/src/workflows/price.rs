//! What time in a slot costs.

use cosy_model::{NodeShare, Span, Su};
use cosy_sched::appraise::Tariff;

/// p·n·d (pricing paper, section 2).
pub(crate) fn base(tariff: &Tariff, shares: &[NodeShare], length: Span) -> Su {
    let length = i128::from(length.ms());
    let cores: i128 = shares.iter().map(|s| i128::from(s.amounts.cores)).sum();
    let gpus: i128 = shares.iter().map(|s| i128::from(s.amounts.gpus)).sum();
    let cores = Su::of_core_ms(cores.saturating_mul(length), tariff.core_hour);
    cores.plus(Su::of_core_ms(gpus.saturating_mul(length), tariff.gpu_hour))
}
