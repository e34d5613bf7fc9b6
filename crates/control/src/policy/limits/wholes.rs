//! What there is in all: limits of a quality of service with `Relative` are per cent of it, of the queue
//! whose quality of service it is, of the whole cluster otherwise. Source: sacctmgr(1), `Relative`.

use super::tally::Amounts;
use cosy_model::policy::{LimitKind, Tres};
use std::collections::BTreeMap;

/// All that the cluster and its queues have.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Wholes {
    pub cluster: Amounts,
    /// Of those alone that have a quality of service.
    pub queues: BTreeMap<String, Amounts>,
}

impl Wholes {
    /// How much so many per cent are: of the queue, or of the cluster. Of what is not there at all it is
    /// nothing.
    pub(super) fn share(&self, queue: Option<&str>, tres: &Tres, percent: u64) -> u64 {
        let has = queue.map_or(Some(&self.cluster), |queue| self.queues.get(queue));
        let has = has.and_then(|has| has.get(tres)).copied().unwrap_or(0);
        let share = u128::from(has) * u128::from(percent) / 100;
        u64::try_from(share).unwrap_or(u64::MAX)
    }
}

/// Limits on how much is held at once: these are shares where a quality of service says so.
pub(super) const fn may_be_share(kind: LimitKind) -> bool {
    matches!(
        kind,
        LimitKind::GrpTres
            | LimitKind::MaxTresPerJob
            | LimitKind::MinTresPerJob
            | LimitKind::MaxTresPerUser
            | LimitKind::MaxTresPerAccount
    )
}
