//! What is shown: every field of a job, step, node, queue, reservation, quote, workflow, plan and
//! account once, and the lists that are made of them.
//!
//! The controller knows jobs, not columns: it tells what one row is about ([`job::JobFacts`]), and
//! [`list::JobRows`] makes cells of the fields that were asked for. Whoever adds a field to
//! [`cosy_model::api::JobField`] is told by the compiler that its cell is missing
//! ([`job::cell`]) and that nobody has said who may see it ([`job::visible`]); a field that needs
//! a new fact is one more word of [`job::JobFacts`], and every kind of row has to say it.
//!
//! Of nodes, queues, reservations and all others, which come in whole, each module has all fields
//! under their names in JSON, the columns of each list, and the lines that tell one of them whole.
//! They take the answer apart field by field, without `..`: a field that is new in the answer does
//! not compile until somebody has said here how it is told, or why it is not.
//!
//! Some fields are several values in one text (`4(x2),3`). Such a text has its writer and its
//! reader beside each other in [`words`], so that nobody takes apart by himself what another part
//! has put together.
//!
//! Pure, like the crates around it: no clock, no files, no threads.

pub mod account;
pub mod chart;
pub mod column;
pub mod event;
pub mod flow_plan;
pub mod job;
pub mod json;
pub mod license;
pub mod list;
pub mod meter;
pub mod node;
pub mod phrase;
pub mod queue;
pub mod quote;
pub mod reservation;
pub mod standing;
pub mod step;
mod table;
pub mod value;
pub mod words;
pub mod workflow;
