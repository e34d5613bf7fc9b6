//! `sacctmgr`: its grammar, what it prints, and what of the policy its commands change.
//!
//! A command is planned on the policy as the controller told it ([`view::PolicyView`]): that gives
//! lines to print and a list of changes, which is then done as a whole or not at all. There is no
//! database beside the cluster. Source: sacctmgr(1); recordings of 22.05.8.

pub mod columns;
pub mod conditions;
pub mod dump;
pub mod entity;
pub mod events;
pub mod help;
pub mod load;
pub mod plan;
pub mod rows;
pub mod settings;
pub mod transactions;
pub mod values;
pub mod view;
pub mod words;
