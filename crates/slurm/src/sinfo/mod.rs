//! `sinfo`: its command line, the groups of nodes that make its lines, its columns.
//!
//! Knows nodes and queues as the controller gives them; asks nobody. Sources: sinfo(1),
//! captures of 22.05.

pub mod cells;
pub mod fields;
pub mod groups;
pub mod options;
pub mod report;
pub mod states;
pub mod tree;
