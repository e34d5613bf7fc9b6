//! The commands of Cosy's own. They do not use those with Slurm's names: common code is beside this
//! folder.

pub mod account;
pub mod admin;
pub mod alloc;
pub mod archive;
pub mod arg;
pub mod array_lines;
pub mod broker;
pub mod cancel;
pub mod cast;
pub mod change;

pub mod cost;
pub mod dev;
pub mod entry;
pub mod flow;
pub mod follow;
pub mod gantt;
pub mod generate;
pub mod history;
pub mod import;
pub mod job;
pub mod job_page;
pub mod job_table;
pub mod license;
pub mod meter;
pub mod mpi;
pub mod node_list;
pub mod plan;
pub mod policy;
pub mod program;
pub mod record;
pub mod reservations;
pub mod resv;
pub mod rule;
pub mod run;
pub mod share;
pub mod stat;
pub mod steps;
pub mod store;
pub mod submit;
pub mod table;
pub mod ticks;
pub mod totals;
pub mod wait;
pub mod widths;
