//! `sacct` and `sstat`: jobs and their steps as records, with the columns and the forms of
//! output that both share. Sources: sacct(1), sstat(1), a capture of `sstat`.
//!
//! Knows tables of jobs and rows of steps as the controller gives them; asks nobody.

pub mod cells;
pub mod efficiency;
pub mod fields;
pub mod form;
pub mod options;
pub mod rows;
pub mod sstat;
pub mod tree;
pub mod window;
