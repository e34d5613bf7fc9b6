//! What comes of a command that changes the policy.

use cosy_model::policy::PolicyChange;

/// What comes of a command.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Plan {
    /// Lines for standard output.
    pub out: Vec<String>,
    /// Lines for standard error.
    pub err: Vec<String>,
    /// What is to change; with nothing to change the command ends here.
    pub changes: Vec<PolicyChange>,
    /// Exit code where nothing is to change.
    pub code: u8,
    /// What a line about a refusal of the controller begins with.
    pub problem: &'static str,
}

impl Plan {
    /// Nothing is to change: a line on standard output says so.
    pub(super) fn nothing(line: &str) -> Self {
        Self {
            out: vec![line.to_owned()],
            code: 1,
            ..Self::default()
        }
    }

    /// Something is wrong.
    pub(super) fn failed(err: Vec<String>) -> Self {
        Self {
            err,
            code: 1,
            ..Self::default()
        }
    }
}
