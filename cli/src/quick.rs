//! Questions that nobody waits for: a controller that does not answer soon is not asked again, and
//! nothing is said of it.

use cosy_client::{Caller, Looks, RetryPolicy, cluster};
use std::time::Duration;

/// How long one answer of the controller may take.
const ANSWER: Duration = Duration::from_millis(900);

/// Asks the controller of the cluster that the command belongs to.
pub fn caller() -> Caller {
    let retry = RetryPolicy {
        answer_timeout: ANSWER,
        reconnect_for: Duration::ZERO,
        pause: Duration::from_millis(50),
        looks: Looks::USUAL,
        controller_wait: None,
    };
    Caller::of_sockets(cluster::find(), retry, |_: &str| ())
}
