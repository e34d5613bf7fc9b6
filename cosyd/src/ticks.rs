//! The controller is woken when it wants to be.

use crate::engine::Input;
use cosy_control::Event;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};

/// Wakes the controller when it wants to be.
pub async fn wake(core: mpsc::Sender<Input>, mut at: watch::Receiver<Instant>) {
    loop {
        let next = *at.borrow_and_update();
        let wait = next.saturating_duration_since(Instant::now());
        let wait = wait.clamp(Duration::from_millis(1), Duration::from_secs(5));
        tokio::select! {
            () = tokio::time::sleep(wait) => {
                if core.send(Input::Event(Box::new(Event::Ticked))).await.is_err() {
                    return;
                }
                // Told anew after the turn; sleeps at least a little if it is slow.
                let _ = tokio::time::timeout(Duration::from_secs(1), at.changed()).await;
            }
            changed = at.changed() => {
                if changed.is_err() {
                    return;
                }
            }
        }
    }
}
