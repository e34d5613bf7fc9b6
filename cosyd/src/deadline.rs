//! Waiting, at most until some moment.

use std::future::Future;
use std::time::Instant;
use tokio::time::error::Elapsed;

/// What comes of it, waiting until then; for as long as it takes without.
///
/// # Errors
/// It has not come to its end by then.
pub(crate) async fn within<T>(
    until: Option<Instant>,
    future: impl Future<Output = T>,
) -> Result<T, Elapsed> {
    match until {
        Some(until) => tokio::time::timeout_at(until.into(), future).await,
        None => Ok(future.await),
    }
}
