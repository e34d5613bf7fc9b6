//! A line for each user, in which requests that change something wait for each other.

use crate::clients::lock;
use cosy_model::Uid;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokio::sync::OwnedMutexGuard;

/// Lines that are kept before those in which nobody stands are dropped.
const KEPT: usize = 256;

/// Who comes first goes first; users do not wait for each other.
#[derive(Default)]
pub struct UserLines(Mutex<BTreeMap<Uid, Arc<tokio::sync::Mutex<()>>>>);

impl UserLines {
    /// Waits until the user's earlier requests have gone on. The turn lasts until it is dropped.
    pub async fn enter(&self, uid: Uid) -> OwnedMutexGuard<()> {
        let line = {
            let mut lines = lock(&self.0);
            if lines.len() >= KEPT {
                lines.retain(|_, line| Arc::strong_count(line) > 1);
            }
            lines.entry(uid).or_default().clone()
        };
        line.lock_owned().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_user_waits_for_own_requests_only() {
        let lines = UserLines::default();
        let first = lines.enter(Uid(1)).await;
        let _other = lines.enter(Uid(2)).await;
        let mut second = std::pin::pin!(lines.enter(Uid(1)));
        let waits = futures_poll(second.as_mut()).await;
        assert!(waits.is_none());
        drop(first);
        let _second = second.await;
    }

    /// What a future has after one look at it.
    async fn futures_poll<F: Future>(mut future: std::pin::Pin<&mut F>) -> Option<F::Output> {
        std::future::poll_fn(|context| match future.as_mut().poll(context) {
            std::task::Poll::Ready(value) => std::task::Poll::Ready(Some(value)),
            std::task::Poll::Pending => std::task::Poll::Ready(None),
        })
        .await
    }

    #[tokio::test]
    async fn lines_in_which_nobody_stands_are_dropped() {
        let lines = UserLines::default();
        let held = lines.enter(Uid(0)).await;
        for uid in 1..2000 {
            drop(lines.enter(Uid(uid)).await);
        }
        assert!(lock(&lines.0).len() <= KEPT);
        assert!(lock(&lines.0).contains_key(&Uid(0)));
        drop(held);
    }
}
