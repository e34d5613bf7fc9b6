//! What an attempt holds of a node, as its row says.

use cosy_model::{Amounts, resources::is_first};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The share of a node that an attempt holds.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PartRow {
    /// The node by name.
    pub node: String,
    /// Tasks on that node.
    pub tasks: u32,
    /// What is held of that node.
    pub amounts: Amounts,
    /// For which component of the job.
    #[serde(default, rename = "bundle", skip_serializing_if = "is_first")]
    pub component: u16,
    /// Cores by number.
    pub cores: Vec<u32>,
    /// GPUs by number.
    pub gpus: Vec<u32>,
    /// Pieces of other resources by number.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub devices: BTreeMap<String, Vec<u32>>,
    /// Boot of the node that it was ordered in.
    pub boot_id: String,
    /// All that it holds while the job is suspended and its cores are lent to others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<Amounts>,
    /// The node has given it back; others of the attempt may not have.
    #[serde(default)]
    pub released: bool,
}
