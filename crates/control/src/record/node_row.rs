//! What the store has of a node.

use crate::machine::power::NodePower;
use cosy_model::{Amounts, NodeState};
use serde::{Deserialize, Serialize};

/// What is known of a node beyond the configuration.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NodeRow {
    /// In service or not, and who said so.
    pub state: NodeState,
    /// What it was found to have.
    pub amounts: Option<Amounts>,
    /// Its features, configured and found, or those set at run time.
    pub features: Vec<String>,
    /// An administrator has set them at run time.
    #[serde(default)]
    pub features_set: bool,
    /// It was down, or silent for too long, and that was told.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lost: bool,
    /// Whether it is switched on, and how long it takes to come up.
    #[serde(default, skip_serializing_if = "NodePower::is_plain")]
    pub power: NodePower,
}
