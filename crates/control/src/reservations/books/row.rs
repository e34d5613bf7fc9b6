//! Rows of accounts in the store.

use cosy_model::Su;
use serde::{Deserialize, Serialize};

/// An account and its books.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct AccountRow {
    /// The name as the configuration has it.
    pub name: String,
    /// Who may charge it: user names, and groups as `@group`; empty: everyone.
    pub members: Vec<String>,
    /// Without members it is not everyone's: only those may charge it whom the policy puts into it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub listed: bool,
    /// Whether it has a budget; without, it is only counted.
    pub budget: bool,
    /// Granted, less what was withdrawn.
    pub granted: Su,
    /// In the book `NAME:held`.
    pub held: Su,
    /// Gone to `income`, less what came back.
    pub charged: Su,
}
