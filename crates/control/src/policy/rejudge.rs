//! Whether a job that waits may still have the account and the quality of service that it was given:
//! accounts go, lists change, and enforcement is switched on while jobs wait. It waits then, and goes
//! on where it stood when it may have them again. Source: Slurm's reasons `InvalidAccount` and
//! `InvalidQOS`.
//!
//! Only the state of the policy decides, so the answer is the same after a restart.

use super::Policy;
use cosy_model::WaitReason;
use cosy_model::policy::{Enforce, ROOT};

/// What a waiting job is charged to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Charged<'a> {
    /// Login name of its user.
    pub user: &'a str,
    /// The account that it has.
    pub account: Option<&'a str>,
    /// The quality of service that it has.
    pub qos: Option<&'a str>,
    /// The queue that it is in.
    pub queue: &'a str,
}

impl Policy {
    /// Why a job may not be there any more, as far as that is enforced. `otherwise`: whether its user
    /// may charge an account without being in it.
    pub(crate) fn barred(
        &self,
        enforce: Enforce,
        job: Charged<'_>,
        otherwise: impl Fn(&str) -> bool,
    ) -> Option<WaitReason> {
        if !enforce.binds() {
            return None;
        }
        let Some(account) = job.account else {
            // It was submitted while nobody asked for one.
            let default = self
                .user(job.user)
                .and_then(|row| row.default_account.as_deref());
            let may = default.is_some() || otherwise(ROOT);
            return (!may).then_some(WaitReason::AccountInvalid);
        };
        let known = self.account(account).is_some();
        let own = self.association_for(account, job.user, job.queue);
        if !known || own.is_none() && !otherwise(account) {
            return Some(WaitReason::AccountInvalid);
        }
        let qos = job.qos.filter(|_| enforce.qos)?;
        let key = own.unwrap_or_else(|| self.key_for(account, job.user, job.queue));
        let may = self.qos(qos).is_some() && self.allows_qos(&key, qos);
        (!may).then_some(WaitReason::QosInvalid)
    }
}
