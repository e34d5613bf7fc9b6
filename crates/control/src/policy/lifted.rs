//! Limits of queues that qualities of service lift.

use crate::queues::demand::Lifted;
use cosy_model::policy::{QosFlag, QosRecord};

/// What a quality of service lifts of the limits of queues. Source: sacctmgr(1), `PartitionTimeLimit`,
/// `PartitionMaxNodes`.
pub(crate) fn lifted_by(qos: &QosRecord) -> Lifted {
    Lifted {
        time: qos.flags.contains(&QosFlag::PartitionTimeLimit),
        nodes: qos.flags.contains(&QosFlag::PartitionMaxNodes),
    }
}
