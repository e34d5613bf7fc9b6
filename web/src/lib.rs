//! The program of the web page: HTTP on one side, the controller's socket on the other.
//!
//! ```text
//! browser, REST client ──HTTP──> cosy-web ──socket, "for user 1000"──> cosyd
//! ```
//! Always holds:
//! - It has no state of the cluster: what it shows was asked of the controller a moment ago, what is
//!   changed the controller changes. It can be stopped at any time.
//! - Each request is asked for the user who sends it, and the controller judges what that user may.
//!   Nothing is decided here but who somebody is ([`who`]).
//! - Everything that somebody else chooses has a limit in [`limits`].
//! - The page is files that are in the program ([`assets`]): no inline code, nothing from elsewhere.

pub mod api;
pub mod assets;
pub mod cluster;
pub mod config;
pub mod daemon;
pub mod figures;
pub mod interactive;
pub mod limits;
pub mod links;
pub mod params;
pub mod problem;
pub mod rates;
pub mod rest;
pub mod samples;
pub mod scrapes;
pub mod server;
pub mod site;
pub mod templates;
pub mod tickets;
pub mod tokens;
pub mod turns;
pub mod users;
pub mod who;
