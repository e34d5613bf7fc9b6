//! `pam_cosy.so`: whether a user may in on a node, and to which job the session belongs.
//!
//! It runs inside of `sshd` and asks the node's daemon, which decides and does everything
//! ([`daemon`]); here are only what the administrator wants done with the answer ([`decision`]), and
//! PAM's side of it ([`pam`]). Depends on nothing of Cosy's.
//!
//! What always holds: nothing unwinds into the program, no threads, nothing that outlives a call, two
//! seconds at most, root is let pass, and what is not understood is a refusal.
//!
//! The functions of `libpam` are left undefined: a program that loads modules has them. So nothing of
//! PAM's need be there where this is built.

mod answer;
mod daemon;
mod decision;
mod options;
#[cfg(not(test))]
mod pam;
