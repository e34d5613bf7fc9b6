//! `job_submit.lua`: scripts that sites have written for Slurm, run for Cosy.
//!
//! The program `cosy-lua` is started by the controller as a user without rights. It takes away from
//! itself whatever a script has no use for ([`sandbox`]), is handed the script once, and answers one
//! question after the other ([`serve`]) in the protocol of every program that judges
//! ([`cosy_rules::protocol`]). A program of its own, so that Lua's C code is not in the controller's
//! memory, and that a site without scripts may leave it out.
//!
//! Each question has a Lua of its own ([`machine`]): what a script leaves behind in globals or
//! metatables is gone with it, so that no request can change what becomes of another.
//!
//! What a script sees is what Slurm shows it ([`description`], [`records`], [`constants`]); what it
//! has set is brought back to Cosy's fields when it has ended ([`settings`]), and what Cosy cannot
//! do is refused. Source: job_submit_plugins(8), and what public scripts use.

pub mod constants;
pub mod description;
pub mod machine;
pub mod records;
pub mod sandbox;
pub mod serve;
pub mod settings;
