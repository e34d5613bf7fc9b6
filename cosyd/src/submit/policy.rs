//! What `[submit]` says: the rules, and whom they bind.

use cosy_control::Caller;
use cosy_model::MiB;
use cosy_rules::Rule;
use cosy_rules::protocol::Sees;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Whom no rules bind.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Exempt {
    /// Administrators, root among them.
    pub admins: bool,
    /// Login names, and groups behind `@`.
    pub names: Vec<String>,
}

/// A script that judges requests.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Script {
    /// Its file, as the configuration has it.
    pub path: PathBuf,
    /// Its text; empty until it is read.
    pub text: String,
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
    /// What it is told beside the fields.
    pub sees: Sees,
    /// The script that it is given when it starts, where it is the program that runs
    /// `job_submit.lua`.
    pub script: Option<Arc<Script>>,
}

/// Who judges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// The declarative rules.
    Rules,
    /// The script of the site in Lua.
    Lua,
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
    /// The program that runs `job_submit.lua`, if there is one.
    pub lua: Option<WorkerPolicy>,
    /// Who judges, in this order.
    pub order: Vec<Layer>,
    /// Whom no rules bind.
    pub exempt: Exempt,
}

impl SubmitPolicy {
    /// What programs are told of a request beside its fields.
    pub fn sees(&self) -> Sees {
        let of =
            |policy: &Option<WorkerPolicy>| policy.as_ref().map(|p| p.sees).unwrap_or_default();
        let (worker, lua) = (of(&self.worker), of(&self.lua));
        Sees {
            script: worker.script || lua.script,
            environment: worker.environment || lua.environment,
            queues: worker.queues || lua.queues,
            old: worker.old || lua.old,
            accounts: worker.accounts || lua.accounts,
        }
    }
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
