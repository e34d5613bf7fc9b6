//! Looking: which requests an endpoint sends, and the document made out of the answers.
//!
//! A [`Reading`] hands out one request after another and is handed each answer; at last it writes the
//! document. So whoever has a way to the controller, of whatever kind, can drive it.

mod answer;
mod db_job;
mod file_names;
mod job;
mod needs;
mod node;
mod partition;
mod policy;
mod reading;
mod reservation;
mod select;
mod small;
mod stats;

pub use needs::HISTORY;
pub use reading::Reading;
