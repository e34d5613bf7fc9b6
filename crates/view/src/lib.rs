//! What is shown: every field of a job once, its cell, who may see it, and the tables that lists
//! are made of.
//!
//! The controller knows jobs, not columns: it tells what one row is about ([`job::JobFacts`]), and
//! [`list::JobRows`] makes cells of the fields that were asked for. Whoever adds a field to
//! [`cosy_model::api::JobField`] is told by the compiler that its cell is missing
//! ([`job::cell`]) and that nobody has said who may see it ([`job::visible`]); a field that needs
//! a new fact is one more word of [`job::JobFacts`], and every kind of row has to say it.
//!
//! Some fields are several values in one text (`4(x2),3`). Such a text has its writer and its
//! reader beside each other in [`words`], so that nobody takes apart by himself what another part
//! has put together.
//!
//! Pure, like the crates around it: no clock, no files, no threads.

pub mod job;
pub mod list;
pub mod node;
mod table;
pub mod words;
