//! What a step's helper is told, from what its supervisor knows.

use super::words::Setup;
use super::{LIBRARY, environment};
use crate::steps::StepTask;
use cosy_model::OsText;
use cosy_model::variables::PMIX_LIBRARY;
use cosy_proto::keys;
use std::path::Path;

/// Directory whose files are in memory.
const MEMORY: &str = "/dev/shm";

/// As the command gave them, then those that only the node knows: by these the node finds
/// the helper again should the supervisor be killed.
pub fn variables(task: &StepTask) -> OsText {
    let own = task.variables.iter().map(|v| &v.0[..]);
    let all: Vec<&[u8]> = std::iter::once(&task.order.spec.environment.0[..])
        .chain(own)
        .collect();
    OsText(all.join(&0))
}

/// What the helper of a step on this node needs to know.
///
/// # Errors
/// No chance is to be had.
pub fn of_step(task: &StepTask, variables: &OsText) -> Result<Setup, String> {
    let order = &task.order;
    let key = order.key;
    let node = order.tree.first().copied().unwrap_or_default();
    let chosen = environment::value(variables, PMIX_LIBRARY).filter(|v| !v.is_empty());
    let chance = keys::random_hex(8).map_err(|e| e.to_string())?;
    Ok(Setup {
        namespace: namespace(task),
        job: key.attempt.job.to_string(),
        layout: order.layout.clone(),
        node,
        programs: order
            .spec
            .programs
            .iter()
            .map(|p| p.ranks.clone())
            .collect(),
        directory: OsText(format!("{}/cosy-pmix-{key}-{node}-{chance}", base()).into_bytes()),
        library: OsText(chosen.unwrap_or(LIBRARY.as_bytes()).to_vec()),
    })
}

/// Where the directory is: tasks have memory in common there.
fn base() -> &'static str {
    match Path::new(MEMORY).is_dir() {
        true => MEMORY,
        false => "/tmp",
    }
}

/// The same on all nodes, and known to nobody else: made from the ticket. A task shows
/// it when it connects.
fn namespace(task: &StepTask) -> String {
    let key = task.order.key;
    let attempt = key.attempt.attempt.0;
    let name = format!("cosy.{key}.{attempt}");
    let common = cosy_proto::ticket::common_secret(&task.allocation.ticket);
    let secret = [name.as_bytes(), b" ", &common].concat();
    let digest = keys::sha256_hex(&secret);
    format!("{name}.{}", &digest[..16.min(digest.len())])
}
