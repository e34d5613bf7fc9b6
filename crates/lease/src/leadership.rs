//! The lead as its holder knows it.

use crate::numbers::{BatchNumber, Epoch, Session};
use crate::times::{LeaseTimes, Moment};

/// A lead that was taken. It ends with its release, or when a claim matches nothing: then the run is
/// deposed for good and must tell nobody anything more. Until then it may be renewed, however late.
/// Before a release is sent, nothing may go out any more.
#[derive(Clone, Debug)]
pub struct Leadership {
    epoch: Epoch,
    times: LeaseTimes,
    /// When the latest update that was confirmed was sent.
    renewed: Moment,
}

impl Leadership {
    /// A take matched that was sent at `sent_at`: the clock was read before it was sent.
    #[must_use]
    pub const fn taken(epoch: Epoch, times: LeaseTimes, sent_at: Moment) -> Self {
        Self {
            epoch,
            times,
            renewed: sent_at,
        }
    }

    /// What batches and orders carry.
    #[must_use]
    pub const fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// A renewal, claim or batch is known to have matched and committed. The clock was read at
    /// `sent_at`, before it was sent.
    pub fn confirmed(&mut self, sent_at: Moment) {
        self.renewed = self.renewed.max(sent_at);
    }

    /// Whether answers and orders may go out. Where not, they wait for the next confirmation.
    #[must_use]
    pub fn may_act(&self, now: Moment) -> bool {
        now < self.acts_until()
    }

    /// The moment from which nothing may go out.
    #[must_use]
    pub const fn acts_until(&self) -> Moment {
        let length = self.times.lease.saturating_sub(self.times.margin);
        self.renewed.after(length)
    }

    /// When to renew if no batch does so before.
    #[must_use]
    pub const fn renew_at(&self) -> Moment {
        self.renewed.after(self.times.renewal)
    }
}

/// What a take or a claim gives: from now on this connection writes and no older one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claimed {
    /// What updates over this connection name.
    pub session: Session,
    /// The last batch that was committed, by whomever.
    pub last: BatchNumber,
}

/// What became of a batch whose answer was lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It is in the database.
    Committed,
    /// It is not and will not be; it may be sent again.
    NotCommitted,
    /// The lead is lost, and what became of the batch is for the next leader to see: nobody may
    /// be told anything.
    Deposed,
}

/// What became of `batch`, of an older connection, by the claim that followed it; `None` where that
/// matched nothing. The claim must come from the run that sent the batch.
#[must_use]
pub fn outcome_of(batch: BatchNumber, claimed: Option<Claimed>) -> Outcome {
    match claimed {
        Some(claimed) if claimed.last >= batch => Outcome::Committed,
        Some(_) => Outcome::NotCommitted,
        None => Outcome::Deposed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn at(ms: u64) -> Moment {
        Moment(Duration::from_millis(ms))
    }

    #[test]
    fn it_acts_for_the_lease_without_the_margin_and_again_when_confirmed() {
        let times = LeaseTimes::of(Duration::from_secs(9));
        let mut lead = Leadership::taken(Epoch(1), times, at(1000));
        assert_eq!((lead.renew_at(), lead.acts_until()), (at(4000), at(9100)));
        assert!(lead.may_act(at(9099)) && !lead.may_act(at(9100)));
        lead.confirmed(at(9000));
        assert!(lead.may_act(at(17_099)));
        lead.confirmed(at(2000));
        assert_eq!(lead.acts_until(), at(17_100), "an older one takes nothing away");
    }

    #[test]
    fn what_became_of_a_batch() {
        let check = |last: Option<u64>, expected| {
            let claimed = last.map(|last| Claimed {
                session: Session(4),
                last: BatchNumber(last),
            });
            assert_eq!(outcome_of(BatchNumber(7), claimed), expected);
        };
        check(Some(6), Outcome::NotCommitted);
        check(Some(7), Outcome::Committed);
        check(Some(8), Outcome::Committed);
        check(None, Outcome::Deposed);
    }
}
