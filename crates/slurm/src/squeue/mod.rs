//! `squeue`: its command line, its columns, its order, and the reports made of them.
//!
//! Knows tables of jobs as the controller gives them; asks nobody. Sources: squeue(1),
//! captures of 22.05.

pub mod cells;
pub mod fields;
pub mod options;
pub mod order;
pub mod report;
pub mod steps;
pub mod synopsis;
pub mod tree;
