//! What `[submit]` says: the rules, and whom they bind.

use cosy_control::Caller;
use cosy_model::MiB;
use cosy_rules::Rule;
use std::time::Duration;

/// Whom no rules bind.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Exempt {
    /// Administrators, root among them.
    pub admins: bool,
    /// Login names, and groups behind `@`.
    pub names: Vec<String>,
}

/// A program of the site that judges requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerPolicy {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Number of the user, and of the group, that it runs as where the controller is root.
    pub uid: u32,
    /// It answers within so long.
    pub timeout: Duration,
    /// Address space that it may have.
    pub memory: MiB,
    /// Whether it may use the network.
    pub network: bool,
    /// Whether requests go on that it has not answered; they are refused otherwise.
    pub fail_open: bool,
}

/// Who judges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// The declarative rules.
    Rules,
    /// The program of the site.
    Worker,
}

/// `[submit]` of the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct SubmitPolicy {
    /// Declarative rules in their order.
    pub rules: Vec<Rule>,
    /// The program that judges, if there is one.
    pub worker: Option<WorkerPolicy>,
    /// Who judges, in this order.
    pub order: Vec<Layer>,
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
