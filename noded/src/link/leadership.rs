//! Which controller this node obeys: that of the highest epoch, on the link that was taken up last.
//!
//! Between the places of the controllers, each of which has a task, and the daemon's loop there is
//! a queue; what a deposed controller has put there is told apart by its [`LinkTag`].

use super::error::LinkError;
use crate::epoch::KnownEpoch;
use cosy_lease::{Admission, Epoch, NodeFence};
use std::sync::Arc;
use tokio::sync::{Mutex, watch};

/// A link that was taken up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkTag {
    /// Counted up from 1 with each link of this daemon.
    number: u64,
    epoch: u64,
}

impl LinkTag {
    /// In which the controller at the other end leads; 0 where there is only one.
    pub const fn epoch(self) -> u64 {
        self.epoch
    }
}

#[derive(Clone, Copy, Debug)]
struct Latest {
    tag: LinkTag,
    place: usize,
    up: bool,
}

/// Which link was taken up last. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Leadership {
    known: KnownEpoch,
    /// The node has several controllers.
    several: bool,
    latest: Arc<watch::Sender<Option<Latest>>>,
    /// One after the other: the higher epoch must not be overtaken while it is written.
    turn: Arc<Mutex<()>>,
}

impl Leadership {
    /// No link yet.
    pub fn new(known: KnownEpoch, several: bool) -> Self {
        Self {
            known,
            several,
            latest: Arc::new(watch::Sender::new(None)),
            turn: Arc::default(),
        }
    }

    /// The highest epoch that this node knows.
    pub fn known(&self) -> u64 {
        self.known.get()
    }

    /// The controller at `place` welcomes this node as the leader of that epoch. Once this is done
    /// the links before are superseded.
    ///
    /// # Errors
    /// It is not to be obeyed: [`LinkError::Deposed`], [`LinkError::WithoutEpoch`],
    /// [`LinkError::Unkept`].
    pub async fn take_up(&self, place: usize, epoch: u64) -> Result<LinkTag, LinkError> {
        let _turn = self.turn.lock().await;
        let known = self.known.get();
        let admission = NodeFence::new(Epoch(known)).admits(Epoch(epoch));
        // The one controller of a cluster is never outdated.
        let may_be_outdated = epoch > 0 || self.several;
        if may_be_outdated && matches!(admission, Admission::Refuse { .. }) {
            return Err(LinkError::Deposed { epoch, known });
        }
        let before = *self.latest.borrow();
        let rival = before.is_some_and(|b| b.up && b.place != place && b.tag.epoch == epoch);
        if rival && epoch == 0 {
            return Err(LinkError::WithoutEpoch);
        }
        if rival {
            tracing::error!("two controllers lead in epoch {epoch}: the later one is obeyed");
        }
        if admission == Admission::KeepFirst {
            self.known.raise(epoch).await.map_err(LinkError::Unkept)?;
        }
        let number = before.map_or(1, |before| before.tag.number + 1);
        let tag = LinkTag { number, epoch };
        let up = true;
        self.latest.send_replace(Some(Latest { tag, place, up }));
        Ok(tag)
    }

    /// That link has ended.
    pub fn ended(&self, tag: LinkTag) {
        self.latest.send_if_modified(|latest| match latest {
            Some(latest) if latest.tag == tag => std::mem::replace(&mut latest.up, false),
            _ => false,
        });
    }

    /// Comes when a later link was taken up.
    pub async fn superseded(&self, tag: LinkTag) {
        let later = |latest: &Option<Latest>| latest.is_some_and(|l| l.tag.number > tag.number);
        // The sender is this one's own.
        let _ = self.latest.subscribe().wait_for(later).await;
    }

    /// A link of a higher epoch was taken up.
    fn is_deposed(&self, tag: LinkTag) -> bool {
        let latest = *self.latest.borrow();
        latest.is_some_and(|latest| latest.tag.epoch > tag.epoch)
    }
}

/// The link that the daemon knows of. It may be behind [`Leadership`]: it learns of links through
/// its queue.
#[derive(Debug)]
pub struct ObeyedLink {
    leadership: Leadership,
    up: Option<LinkTag>,
    latest: u64,
}

impl ObeyedLink {
    /// None yet.
    pub const fn new(leadership: Leadership) -> Self {
        Self {
            leadership,
            up: None,
            latest: 0,
        }
    }

    /// A link is up; false where a later one was told before.
    pub fn begins(&mut self, tag: LinkTag) -> bool {
        if tag.number <= self.latest {
            return false;
        }
        self.latest = tag.number;
        self.up = Some(tag);
        true
    }

    /// A link has ended; false where another one has taken its place.
    pub fn ends(&mut self, tag: LinkTag) -> bool {
        self.up.take_if(|up| *up == tag).is_some()
    }

    /// Whether a link is up.
    pub const fn is_up(&self) -> bool {
        self.up.is_some()
    }

    /// Whether an order on that link is obeyed: it is the latest one, and no controller of a higher
    /// epoch is known, whose link may still wait in the queue.
    pub fn obeys(&self, tag: LinkTag) -> bool {
        self.up == Some(tag) && !self.leadership.is_deposed(tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leadership(several: bool) -> (tempfile::TempDir, Leadership) {
        let dir = tempfile::tempdir().unwrap();
        let known = KnownEpoch::load(dir.path()).unwrap();
        (dir, Leadership::new(known, several))
    }

    #[tokio::test]
    async fn the_highest_epoch_leads_also_after_a_restart() {
        let (dir, leadership) = leadership(true);
        assert!(leadership.take_up(0, 5).await.is_ok());
        assert!(leadership.take_up(1, 6).await.is_ok());
        let low = |e: LinkError| matches!(e, LinkError::Deposed { epoch: 5, known: 6 });
        assert!(low(leadership.take_up(0, 5).await.unwrap_err()));
        let again = Leadership::new(KnownEpoch::load(dir.path()).unwrap(), true);
        assert!(low(again.take_up(0, 5).await.unwrap_err()));
        assert!(again.take_up(0, 6).await.is_ok());
    }

    #[tokio::test]
    async fn a_controller_without_an_epoch() {
        let (_dir, one) = leadership(false);
        for epoch in [5, 0, 0] {
            assert!(one.take_up(0, epoch).await.is_ok(), "a single one is never outdated");
        }
        let (_dir, several) = leadership(true);
        let first = several.take_up(0, 0).await.unwrap();
        assert!(matches!(several.take_up(1, 0).await, Err(LinkError::WithoutEpoch)));
        several.ended(first);
        assert!(several.take_up(1, 0).await.is_ok());
        assert!(several.take_up(0, 5).await.is_ok());
        assert!(matches!(several.take_up(1, 0).await, Err(LinkError::Deposed { .. })));
    }

    /// Which cannot be; the later word is obeyed, as where one leader comes again elsewhere.
    #[tokio::test]
    async fn of_two_in_one_epoch_the_later_is_obeyed() {
        let (_dir, leadership) = leadership(true);
        let mut obeyed = ObeyedLink::new(leadership.clone());
        let first = leadership.take_up(0, 5).await.unwrap();
        let second = leadership.take_up(1, 5).await.unwrap();
        leadership.superseded(first).await;
        assert!(obeyed.begins(first) && obeyed.begins(second));
        assert!(obeyed.obeys(second) && !obeyed.obeys(first));
    }

    #[tokio::test]
    async fn an_epoch_that_cannot_be_kept_does_not_lead() {
        let (dir, leadership) = leadership(true);
        std::fs::create_dir(dir.path().join("epoch")).unwrap();
        assert!(matches!(leadership.take_up(0, 5).await, Err(LinkError::Unkept(_))));
        assert!(leadership.latest.borrow().is_none());
    }

    #[tokio::test]
    async fn nothing_of_a_deposed_controller_is_obeyed() {
        let (_dir, leadership) = leadership(true);
        let mut obeyed = ObeyedLink::new(leadership.clone());
        let old = leadership.take_up(0, 5).await.unwrap();
        assert!(!obeyed.obeys(old), "the daemon has not been told of it");
        assert!(obeyed.begins(old) && obeyed.obeys(old));
        let new = leadership.take_up(1, 6).await.unwrap();
        assert!(!obeyed.obeys(old) && !obeyed.obeys(new), "known, and not yet told");
        leadership.superseded(old).await;
        assert!(obeyed.begins(new) && obeyed.obeys(new) && !obeyed.obeys(old));
        assert!(!obeyed.ends(old) && obeyed.is_up(), "it was not that one");
        assert!(!obeyed.begins(old) && obeyed.obeys(new), "told late");
        assert!(obeyed.ends(new) && !obeyed.is_up());
    }

    /// With one controller a link that comes again does not make what came before void.
    #[tokio::test]
    async fn orders_that_wait_are_obeyed_until_the_next_link_is_told() {
        let (_dir, leadership) = leadership(false);
        let mut obeyed = ObeyedLink::new(leadership.clone());
        let first = leadership.take_up(0, 0).await.unwrap();
        obeyed.begins(first);
        let second = leadership.take_up(0, 0).await.unwrap();
        assert!(obeyed.obeys(first));
        obeyed.ends(first);
        obeyed.begins(second);
        assert!(!obeyed.obeys(first) && obeyed.obeys(second));
    }
}
