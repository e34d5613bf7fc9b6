//! Rules at submission: what a site wants of jobs, reservations and workflows before the
//! controller decides about them.
//!
//! A [`Rule`] has a condition and what follows from it: fields that are set, defaulted or added
//! to, a demand, a refusal, a remark to the user. [`Expression`]s are read once, with the kind of
//! every value, so that a misspelled field is a fault of the configuration and never one at
//! submission. A [`Subject`] is the request that is judged, field by field.
//!
//! Pure: knows no files, sockets, clock or threads. Everything is bounded: the length and depth of
//! an expression, the number of its parts, and nothing in the language repeats anything, so that a
//! rule costs no more than its length times that of the lists it looks at.
//!
//! Source: HTCondor's `JOB_TRANSFORM_*` and `SUBMIT_REQUIREMENT_*` for the shape.

mod change;
mod evaluate;
mod expression;
mod field;
mod function;
mod lexer;
mod parser;
pub mod protocol;
mod rule;
mod subject;
mod template;
mod value;

pub use change::{apply_to_change, asked_by};
pub use expression::Expression;
pub use field::Field;
pub use rule::{Assignment, Outcome, Rule, Verdict, apply};
pub use subject::{Requester, Subject};
pub use template::Template;
pub use value::{Kind, Value};

/// Most bytes of an expression or a text.
pub const EXPRESSION_BYTES: usize = 4000;
/// Most rules of a site.
pub const RULES: usize = 1000;
