//! Slurm's REST interface (`slurm/v0.0.42` to `v0.0.44` and `slurmdb`), and metrics: which requests of
//! Cosy's a call is made of, and the text that is made of the answers.
//!
//! Pure: paths, parameters and bodies in, requests out; answers in, documents out. Knows nothing of
//! HTTP, sockets, tokens or clocks. What the original's commands tell is told by [`cosy_slurm`]; here
//! is only what the interface has beside them.
//!
//! Always: every field that the interface has in a version is in an answer of that version, of its type,
//! and none beside them ([`shape`]). Sources: the published OpenAPI descriptions of Slurm 24.11 to 25.11.

pub mod call;
mod document;
pub mod fault;
pub mod json;
pub mod metrics;
pub mod openapi;
pub mod query;
pub mod read;
pub mod shape;
mod tree;
mod value;
pub mod version;
pub mod write;

pub use document::Client;

/// A document with nothing but a fault: of a call that cannot be read, or of somebody whom nobody knows.
pub fn faulty(
    version: version::ApiVersion,
    client: &Client<'_>,
    fault: &fault::Fault,
    print: &mut dyn FnMut(&str),
) {
    let document = document::Document::new(version, print);
    document.close(&call::Endpoint::Ping, client, "", std::slice::from_ref(fault), &[]);
}
