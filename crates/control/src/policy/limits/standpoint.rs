//! Where a job stands in the policy: its associations from the nearest up to the root, and its
//! qualities of service.

use super::super::Policy;
use super::party::Party;
use cosy_model::policy::{AssociationKey, QosFlag};

/// The same as [`Party`] by the numbers of the policy.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Standpoint {
    /// The user's own association; `None` of somebody who has none in the account.
    pub own: Option<AssociationKey>,
    /// Numbers of associations from the nearest up to the root, each with whose it is.
    pub upward: Vec<(u32, AssociationKey)>,
    /// Qualities of service, that whose limits count first in front.
    pub qos: Vec<String>,
}

impl Policy {
    /// Where a job stands in the policy. The quality of service of the queue comes before that of
    /// the job, unless the job's says [`QosFlag::OverPartQos`]. Source: the resource limits guide.
    pub(super) fn standpoint(&self, party: &Party) -> Standpoint {
        let known = |name: &&String| self.qos(name).is_some();
        let own = party.qos.as_ref().filter(known);
        let of_queue = party.queue_qos.as_ref().filter(known);
        let over = own
            .and_then(|name| self.qos(name))
            .is_some_and(|row| row.flags.contains(&QosFlag::OverPartQos));
        let (first, second) = match over {
            true => (own, of_queue),
            false => (of_queue, own),
        };
        let second = second.filter(|name| Some(*name) != first);
        let qos = first.into_iter().chain(second).cloned().collect();
        let Some(account) = party.account.as_deref() else {
            return Standpoint {
                qos,
                ..Standpoint::default()
            };
        };
        let own = self.association_for(account, &party.user, &party.queue);
        let number = own
            .as_ref()
            .and_then(|key| Some((self.association(key)?.id, key.clone())));
        let accounts = self.upward(account);
        let accounts = accounts.map(|row| (row.id, super::super::tree::account_key(row)));
        Standpoint {
            upward: number.into_iter().chain(accounts).collect(),
            own,
            qos,
        }
    }
}
