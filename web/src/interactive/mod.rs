//! What people do in jobs through the page: shells in them, and programs of theirs that listen on a
//! port, such as notebooks.
//!
//! The way into a job is the node daemon's: [`nodes`] shows it a pass that the controller signs for the
//! user who is logged in, for that job. [`shells`] keeps terminals, whose screen is kept here
//! ([`screen`]) and told to the browser as text. [`apps`] passes on what browsers ask of a program; each
//! program has a host name of its own, so that it cannot act on the page.

pub mod apps;
pub mod headers;
pub mod names;
pub mod nodes;
pub mod opened;
pub mod screen;
pub mod shells;
