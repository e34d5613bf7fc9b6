//! What tests of sections read: files of a cluster of four nodes.

use super::parse;
use cosy_control::ClusterConfig;
use std::path::Path;

const BASE: &str = concat!(
    "[controller]\nstate_dir = '/s'\nsocket = '/s/sock'\n",
    "[[node]]\nnames = 'n[1-4]'\ncores = 8\nmemory = '16G'\n"
);
/// A queue with all of them.
pub(super) const DAY: &str = "[[queue]]\nname = \"day\"\n";

/// What a file says that goes on with `more` after its nodes, or all its faults.
pub(super) fn read(more: &str) -> Result<ClusterConfig, String> {
    match parse(Path::new("x"), &format!("{BASE}{more}")) {
        Ok(config) => Ok(config.cluster),
        Err(faults) => Err(faults.0.join("\n")),
    }
}
