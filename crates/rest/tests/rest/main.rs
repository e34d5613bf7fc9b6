//! Calls, the requests that they become, and the documents that are made of the answers.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

mod agreement;
mod answers;
mod metrics;
mod shapes;
mod writing;
