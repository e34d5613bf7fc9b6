//! Metrics for Prometheus: Slurm's own names, those of the exporters before them, and `cosy_`.
//!
//! Series of users and of single nodes only where they are asked for: each is a series that is kept.
//! Nothing here looks at a node, a queue or a job more than a few times, however many there are.

mod exporters;
mod figures;
mod native;
mod own;
mod scrape;
mod text;

pub use figures::{Counts, FIELDS, Figures, Jobs};
pub use scrape::{Families, Scrape, render};
pub use text::CONTENT_TYPE;
