//! `[[queue]]` of `cosy.toml`: its nodes, its limits, and who may use it.

use super::nodes::known_hosts;
use super::values::Raw;
use super::{preemption, priority, reservations};
use cosy_config::{Check, Size};
use cosy_model::policy::Enforce;
use cosy_model::{AccessLevel, QueueAdmits, QueueSpec, QueueState, Span, limits};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use toml::Spanned;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Queue {
    pub(super) name: Spanned<String>,
    #[serde(default)]
    default: bool,
    #[serde(default)]
    priority: i32,
    nodes: Option<Spanned<String>>,
    sets: Option<Vec<Spanned<String>>>,
    max_time: Option<Spanned<String>>,
    default_time: Option<Spanned<String>>,
    max_nodes: Option<u32>,
    max_memory: Option<Spanned<Size>>,
    max_disk: Option<Spanned<Size>>,
    max_jobs: Option<u32>,
    max_jobs_per_user: Option<u32>,
    default_memory_per_core: Option<Spanned<Size>>,
    #[serde(default)]
    exclusive: bool,
    mpi: Option<Spanned<String>>,
    state: Option<Spanned<String>>,
    order: Option<Spanned<String>>,
    billing: Option<priority::Billing>,
    priority_factor: Option<Raw>,
    qos: Option<Spanned<String>>,
    allow_accounts: Option<Spanned<Vec<String>>>,
    deny_accounts: Option<Spanned<Vec<String>>>,
    allow_qos: Option<Spanned<Vec<String>>>,
    deny_qos: Option<Spanned<Vec<String>>>,
    preemption: Option<preemption::OfQueue>,
    suspend_after: Option<Raw>,
    #[serde(default)]
    access: Access,
    pub(super) reservations: Option<reservations::Table>,
}

impl Queue {
    /// What it says of the preemption of its jobs.
    pub(super) fn preemption(&self) -> (&str, Option<&preemption::OfQueue>) {
        (self.name.get_ref(), self.preemption.as_ref())
    }

    /// After how long its idle nodes are switched off.
    pub(super) fn suspend_after(&self) -> Option<&Raw> {
        self.suspend_after.as_ref()
    }

    /// What it says of billing, and its factor.
    pub(super) fn priority(&self) -> priority::OfQueue<'_> {
        let (billing, factor) = (self.billing.as_ref(), self.priority_factor.as_ref());
        (self.name.get_ref(), billing, factor)
    }
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Access {
    #[serde(default)]
    users: BTreeMap<String, Spanned<String>>,
    #[serde(default)]
    groups: BTreeMap<String, Spanned<String>>,
    others: Option<Spanned<String>>,
}

fn level(check: &mut Check<'_>, text: &Spanned<String>) -> AccessLevel {
    match text.get_ref().as_str() {
        "prefer" => AccessLevel::Prefer,
        "allow" => AccessLevel::Allow,
        "defer" => AccessLevel::Defer,
        "deny" => AccessLevel::Deny,
        other => {
            let what = format!("'{other}' is no access level: use prefer, allow, defer or deny");
            check.fault(text.span().start, what);
            AccessLevel::Deny
        }
    }
}

pub(super) fn queues(
    check: &mut Check<'_>,
    tables: &[Queue],
    known: &BTreeSet<&str>,
    sets: &BTreeMap<String, Vec<String>>,
) -> Vec<QueueSpec> {
    let mut seen = BTreeSet::new();
    let mut queues = Vec::new();
    for table in tables {
        let at = table.name.span().start;
        let name = table.name.get_ref();
        let odd = |c: char| c.is_whitespace() || c.is_control() || c == ',';
        if name.is_empty() || name.len() > limits::NAME_BYTES || name.contains(odd) {
            check.fault(at, "a queue's name must not be empty nor have spaces or commas");
        }
        if !seen.insert(name.clone()) {
            check.fault(at, format!("queue {name} is there twice"));
        }
        queues.push(queue(check, table, known, sets));
    }
    if queues.is_empty() {
        check.fault(0, "no queue is configured: add a [[queue]]");
    }
    queues
}

fn queue(
    check: &mut Check<'_>,
    table: &Queue,
    known: &BTreeSet<&str>,
    sets: &BTreeMap<String, Vec<String>>,
) -> QueueSpec {
    let max_time = table.max_time.as_ref().and_then(|t| check.parse(t));
    let default_time: Option<Span> = table.default_time.as_ref().and_then(|t| check.parse(t));
    if let (Some(max), Some(default), Some(text)) = (max_time, default_time, &table.default_time)
        && default > max
    {
        check.fault(text.span().start, "default_time is longer than max_time");
    }
    let users = levels(check, &table.access.users);
    let groups = levels(check, &table.access.groups);
    let others = table.access.others.as_ref().map(|t| level(check, t));
    QueueSpec {
        name: table.name.get_ref().clone(),
        priority: table.priority,
        nodes: queue_nodes(check, table, known, sets),
        max_time,
        default_time,
        max_nodes: table.max_nodes,
        max_memory: check.size(table.max_memory.as_ref()),
        max_disk: check.size(table.max_disk.as_ref()),
        max_jobs: table.max_jobs,
        max_jobs_per_user: table.max_jobs_per_user,
        default_memory_per_core: check.size(table.default_memory_per_core.as_ref()),
        exclusive: table.exclusive,
        users,
        groups,
        mpi: mpi(check, table.mpi.as_ref()),
        others: others.unwrap_or_default(),
        state: queue_state(check, table.state.as_ref()),
        order: priority::order(check, table.order.as_ref()),
        admits: admits(check, table),
    }
}

/// Accounts and qualities of service of its jobs. Which there are is in the controller's store, so
/// only what contradicts itself is found here.
fn admits(check: &mut Check<'_>, table: &Queue) -> QueueAdmits {
    let accounts = (&table.allow_accounts, &table.deny_accounts);
    let qos = (&table.allow_qos, &table.deny_qos);
    for (what, (allow, deny)) in [("accounts", accounts), ("qos", qos)] {
        if let (Some(_), Some(deny)) = (allow, deny) {
            let why = format!(
                "allow_{what} and deny_{what} together: where some are allowed all others are denied, so leave out deny_{what}"
            );
            check.fault(deny.span().start, why);
        }
        for list in [allow, deny].into_iter().flatten() {
            names(check, what, list);
        }
        if let Some(list) = allow.as_ref().filter(|list| list.get_ref().is_empty()) {
            let why = format!(
                "allow_{what} is empty: nobody could use the queue; leave it out to allow all"
            );
            check.fault(list.span().start, why);
        }
    }
    let list = |list: &Option<Spanned<Vec<String>>>| list.as_ref().map(|l| l.get_ref().clone());
    let qos = table.qos.as_ref();
    if let Some(name) = qos.filter(|name| !sound(name.get_ref())) {
        check.fault(name.span().start, "the name of a quality of service is one word");
    }
    QueueAdmits {
        allow_accounts: list(&table.allow_accounts),
        deny_accounts: list(&table.deny_accounts).unwrap_or_default(),
        allow_qos: list(&table.allow_qos),
        deny_qos: list(&table.deny_qos).unwrap_or_default(),
        qos: qos.map(|name| name.get_ref().clone()),
    }
}

/// Lists of accounts and of qualities of service shut nobody out as long as users may name what they
/// like, and a queue's quality of service does nothing while limits do not bind.
pub(super) fn admitted_is_enforced(check: &mut Check<'_>, tables: &[Queue], enforce: Enforce) {
    for table in tables {
        let accounts = [&table.allow_accounts, &table.deny_accounts];
        let qos = [&table.allow_qos, &table.deny_qos];
        let at = |list: &Option<Spanned<Vec<String>>>| list.as_ref().map(|l| l.span().start);
        let accounts = accounts.into_iter().find_map(at);
        let qos = qos.into_iter().find_map(at);
        let own = table.qos.as_ref().map(|name| name.span().start);
        let wants = [
            (accounts, enforce.associations, "accounts", "associations"),
            (qos, enforce.qos, "qualities of service", "qos"),
            (own, enforce.limits, "the limits of a queue's quality of service", "limits"),
        ];
        for (at, enforced, what, word) in wants {
            if let (Some(at), false) = (at, enforced) {
                let why = format!(
                    "{what} bind nobody without enforce = [\"{word}\"] in [policy]: write it there, or leave this out"
                );
                check.fault(at, why);
            }
        }
    }
}

fn names(check: &mut Check<'_>, what: &str, list: &Spanned<Vec<String>>) {
    let at = list.span().start;
    if list.get_ref().len() > limits::ADMITTED {
        let why = format!("more than {} names of {what}", limits::ADMITTED);
        check.fault(at, why);
    }
    if let Some(name) = list.get_ref().iter().find(|name| !sound(name)) {
        let why = format!("'{}' is no name: names are single words", name.escape_debug());
        check.fault(at, why);
    }
}

fn sound(name: &str) -> bool {
    let odd = |c: char| c.is_whitespace() || c.is_control() || ",:@".contains(c);
    !name.is_empty() && name.len() <= limits::NAME_BYTES && !name.contains(odd)
}

fn mpi(check: &mut Check<'_>, name: Option<&Spanned<String>>) -> Option<String> {
    let name = name?;
    if let Err(why) = cosy_model::job::check_plugin(name.get_ref()) {
        check.fault(name.span().start, why);
    }
    Some(name.get_ref().clone())
}

fn levels(
    check: &mut Check<'_>,
    table: &BTreeMap<String, Spanned<String>>,
) -> BTreeMap<String, AccessLevel> {
    table
        .iter()
        .map(|(name, text)| (name.clone(), level(check, text)))
        .collect()
}

fn queue_nodes(
    check: &mut Check<'_>,
    table: &Queue,
    known: &BTreeSet<&str>,
    sets: &BTreeMap<String, Vec<String>>,
) -> Option<Vec<String>> {
    if table.nodes.is_none() && table.sets.is_none() {
        return None;
    }
    let mut names = Vec::new();
    if let Some(list) = &table.nodes {
        names.extend(known_hosts(check, list, known));
    }
    for set in table.sets.iter().flatten() {
        match sets.get(set.get_ref()) {
            Some(nodes) => names.extend(nodes.iter().cloned()),
            None => {
                let what = format!("there is no node set '{}'", set.get_ref());
                check.fault(set.span().start, what);
            }
        }
    }
    Some(names)
}

fn queue_state(check: &mut Check<'_>, text: Option<&Spanned<String>>) -> QueueState {
    match text.map(|t| t.get_ref().as_str()) {
        None | Some("open") => QueueState::Open,
        Some("drained") => QueueState::Drained,
        Some("stopped") => QueueState::Stopped,
        Some("closed") => QueueState::Closed,
        Some(other) => {
            let at = text.map_or(0, |t| t.span().start);
            check.fault(
                at,
                format!("'{other}' is no queue state: use open, drained, stopped or closed"),
            );
            QueueState::Closed
        }
    }
}

pub(super) fn default_queue(check: &mut Check<'_>, tables: &[Queue]) -> Option<String> {
    let mut defaults = tables.iter().filter(|q| q.default);
    let first = defaults.next();
    for more in defaults {
        check.fault(more.name.span().start, "a second default queue: only one can be");
    }
    match (first, tables) {
        (Some(queue), _) => Some(queue.name.get_ref().clone()),
        (None, [only]) => Some(only.name.get_ref().clone()),
        (None, _) => None,
    }
}
