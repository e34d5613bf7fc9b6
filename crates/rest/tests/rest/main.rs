//! Calls, the requests that they become, and the documents that are made of the answers.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]
#![allow(
    clippy::disallowed_methods,
    reason = "how long it takes to tell of a large cluster is measured"
)]

mod agreement;
mod answers;
mod large;
mod metrics;
mod shapes;
mod writing;
