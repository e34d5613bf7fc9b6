//! What `[submit]` says: the rules, and whom they bind.

use cosy_control::Caller;
use cosy_rules::Rule;

/// Whom no rules bind.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Exempt {
    /// Administrators, root among them.
    pub admins: bool,
    /// Login names, and groups behind `@`.
    pub names: Vec<String>,
}

/// `[submit]` of the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct SubmitPolicy {
    /// Declarative rules in their order.
    pub rules: Vec<Rule>,
    /// Whom no rules bind.
    pub exempt: Exempt,
}

impl Exempt {
    /// Whether no rules bind that user.
    pub fn covers(&self, caller: &Caller, admin: bool) -> bool {
        let user = &caller.user;
        let named = |name: &String| match name.strip_prefix('@') {
            Some(group) => user.in_group(group),
            None => *name == user.name,
        };
        (self.admins && admin) || (caller.resolved && self.names.iter().any(named))
    }
}
