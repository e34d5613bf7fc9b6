//! Who may do what. COSY paper, section 3.1: access lists with four levels per queue.

use crate::config::ClusterConfig;
use crate::controller::Controller;
use crate::event::{Caller, LinkId, Via};
use crate::jobs::job::Submitted;
use cosy_model::api::Request;
use cosy_model::{
    AccessLevel, NodeId, NodeSpec, QueueSpec, Refusal, RefusalCode, Relay, Uid, User,
};

/// A user's level in a queue: the user's own entry if there is one; else the best of
/// the groups' entries, but a deny of any group counts more; else that of the others.
pub(crate) fn level(queue: &QueueSpec, user: &User) -> AccessLevel {
    if let Some(level) = queue.users.get(&user.name) {
        return *level;
    }
    let of_groups = || {
        user.groups
            .iter()
            .filter_map(|g| queue.groups.get(&g.name).copied())
    };
    if of_groups().any(|l| l == AccessLevel::Deny) {
        return AccessLevel::Deny;
    }
    of_groups().min().unwrap_or(queue.others)
}

/// True for root, the controller's own user, and those the configuration names.
/// Requests that a compute node passes on never have an administrator's rights, nor those
/// of a login host whose `relay` says so, nor what is asked as an ordinary user.
pub fn is_admin(config: &ClusterConfig, caller: &Caller) -> bool {
    if caller.as_user {
        return false;
    }
    if let Some(via) = &caller.via
        && !node(config, &via.node).is_some_and(|n| n.login && n.relay != Relay::Users)
    {
        return false;
    }
    let user = &caller.user;
    if user.uid.0 == 0 || user.uid == config.controller_uid {
        return true;
    }
    caller.resolved
        && config.admins.iter().any(|a| match a.strip_prefix('@') {
            Some(group) => user.in_group(group),
            None => *a == user.name,
        })
}

fn node<'a>(config: &'a ClusterConfig, name: &str) -> Option<&'a NodeSpec> {
    config.nodes.iter().find(|n| n.name == name)
}

/// Whether what is asked may come from where it comes from, whoever asks: a node that is
/// no login host passes on only what a program inside a job may need.
///
/// # Errors
/// [`RefusalCode::Forbidden`].
pub fn may_come_from(
    config: &ClusterConfig,
    caller: &Caller,
    request: &Request,
) -> Result<(), Refusal> {
    let Some(via) = &caller.via else {
        return Ok(());
    };
    let login = node(config, &via.node).is_some_and(|n| n.login);
    if login || request.is_of_jobs() {
        return Ok(());
    }
    Err(forbidden(format!(
        "node {} is no login host: only what is about jobs can be asked from there; use the command on a login host",
        via.node
    )))
}

fn forbidden(why: String) -> Refusal {
    Refusal::new(RefusalCode::Forbidden, why)
}

impl Controller {
    pub(crate) fn is_admin(&self, caller: &Caller) -> bool {
        is_admin(&self.config, caller)
    }

    /// The level that somebody has in a queue, for jobs and reservations alike. Administrators
    /// may do everything: a `deny` keeps them from nothing, they only come after all others.
    ///
    /// # Errors
    /// [`RefusalCode::AccessDenied`].
    pub(crate) fn may_enter(
        &self,
        rights: &Caller,
        queue: &QueueSpec,
    ) -> Result<AccessLevel, Refusal> {
        let level = level(queue, &rights.user);
        if level == AccessLevel::Deny && !self.is_admin(rights) {
            let (user, queue) = (&rights.user.name, &queue.name);
            let why = format!("user {user} has no access to queue {queue}");
            return Err(Refusal::new(RefusalCode::AccessDenied, why));
        }
        Ok(level)
    }

    pub(crate) fn require_admin(&self, caller: &Caller, what: &str) -> Result<(), Refusal> {
        if self.is_admin(caller) {
            return Ok(());
        }
        let name = &caller.user.name;
        let why = match caller.as_user {
            true => format!("{name} asks as an ordinary user here (COSY_AS_USER)"),
            false => format!("{name} is none"),
        };
        Err(Refusal::new(
            RefusalCode::Forbidden,
            format!("only administrators may {what}; {why}"),
        ))
    }

    pub(crate) fn may_touch(&self, caller: &Caller, job: &Submitted) -> bool {
        job.uid == caller.user.uid || self.is_admin(caller)
    }

    /// Whether a node's daemon may pass on that request of that user: login hosts anyone's,
    /// compute nodes only those of users who have a job there (rule 5 of the design), both
    /// only as far as the node's `relay` goes. The group that the daemon names must be one
    /// that the directory gives.
    pub(crate) fn may_relay(
        &self,
        via: &Via,
        caller: &Caller,
        request: &Request,
    ) -> Result<(), Refusal> {
        let node = &via.node;
        let Some(id) = self.node_on_link(via.link, node) else {
            return Err(forbidden(format!(
                "the daemon that passed this on does not speak for node {node}"
            )));
        };
        let spec = &self.machine.node(id).spec;
        self.may_pass_at_all(spec, &caller.user)?;
        if !spec.login && !self.has_job_on(id, caller.user.uid) {
            return Err(no_job_there(&caller.user.name, node));
        }
        if caller.resolved && !caller.user.has_group(caller.gid) {
            return Err(forbidden(format!(
                "node {node} names group {} for user {}, which the directory does not give that user: use a group of yours (newgrp)",
                caller.gid, caller.user.name
            )));
        }
        may_come_from(&self.config, caller, request)
    }

    /// Whether a node's daemon may speak for that user at all.
    fn may_pass_at_all(&self, spec: &NodeSpec, user: &User) -> Result<(), Refusal> {
        if !spec.relay.admits(user) {
            return Err(forbidden(format!(
                "requests of user {} are not taken from node {}: 'relay' in the controller's configuration says so",
                shown(user),
                spec.name
            )));
        }
        let root = user.uid.0 == 0 || user.uid == self.config.controller_uid;
        if root && !spec.login && !self.is_private() {
            return Err(forbidden(format!(
                "requests of user {} are not taken from node {}, which is no login host: use the commands on a login host",
                shown(user),
                spec.name
            )));
        }
        Ok(())
    }

    /// True when controller and node daemons are all of one ordinary user: nobody gains
    /// anything from another's key then.
    fn is_private(&self) -> bool {
        let own = self.config.controller_uid;
        own.0 != 0
            && self
                .machine
                .nodes()
                .iter()
                .all(|node| node.only_uid == Some(own))
    }

    fn has_job_on(&self, id: NodeId, uid: Uid) -> bool {
        let node = self.machine.node(id);
        let jobs = node.jobs.iter();
        jobs.filter_map(|job| self.jobs.get(job))
            .any(|job| job.submitted.uid == uid)
            || self.triggers.runs_on(&node.spec.name, uid)
    }

    /// The same for what a daemon asks on a user's behalf, on any of its nodes.
    pub(crate) fn may_pass(&self, link: LinkId, user: &User) -> Result<(), Refusal> {
        let mut may = self.may_come(link, user.uid);
        for id in self.nodes_where(link, user.uid) {
            may = self.may_pass_at_all(&self.machine.node(id).spec, user);
            if may.is_ok() {
                break;
            }
        }
        may
    }

    /// Whether one of a daemon's nodes is a login host, or that user has a job there.
    pub(crate) fn may_come(&self, link: LinkId, uid: Uid) -> Result<(), Refusal> {
        if !self.nodes_where(link, uid).is_empty() {
            return Ok(());
        }
        let nodes = self.nodes_on(link);
        let first = nodes.first().map(|id| self.machine.name(*id));
        let name = first.unwrap_or("of that daemon");
        Err(no_job_there(&uid.to_string(), name))
    }

    fn nodes_where(&self, link: LinkId, uid: Uid) -> Vec<NodeId> {
        let mut nodes = self.nodes_on(link);
        nodes.retain(|id| self.machine.node(*id).spec.login || self.has_job_on(*id, uid));
        nodes
    }

    fn nodes_on(&self, link: LinkId) -> Vec<NodeId> {
        let nodes = self.machine.link(link).map_or(&[][..], |l| &l.nodes);
        let there = |id: &NodeId| self.machine.node(*id).link == Some(link);
        nodes.iter().copied().filter(there).collect()
    }

    /// Whether a user on a login host with that link is an administrator.
    pub(crate) fn is_admin_there(&self, link: LinkId, user: &User) -> bool {
        let nodes = self.nodes_on(link);
        let mut login = nodes.iter().map(|id| &self.machine.node(*id).spec);
        let Some(login) = login.find(|node| node.login) else {
            return false;
        };
        let via = Some(Via {
            node: login.name.clone(),
            link,
        });
        self.is_admin(&Caller {
            via,
            ..Caller::known(user.clone())
        })
    }
}

/// The user's name, or the uid where the directory has not said it.
fn shown(user: &User) -> String {
    match user.name.is_empty() {
        true => user.uid.to_string(),
        false => user.name.clone(),
    }
}

fn no_job_there(user: &str, node: &str) -> Refusal {
    forbidden(format!(
        "user {user} has no job on node {node}, and {node} is no login host: use the commands on a login host"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::{Gid, Group};

    #[test]
    fn levels() {
        let queue = QueueSpec {
            users: [("ann".to_owned(), AccessLevel::Defer)].into(),
            groups: [
                ("ops".to_owned(), AccessLevel::Prefer),
                ("bad".to_owned(), AccessLevel::Deny),
            ]
            .into(),
            others: AccessLevel::Allow,
            ..QueueSpec::default()
        };
        let check = |name: &str, groups: &[&str], want| {
            let groups = groups
                .iter()
                .map(|g| Group {
                    gid: Gid(1),
                    name: (*g).to_owned(),
                })
                .collect();
            let user = User {
                uid: Uid(1),
                name: name.into(),
                groups,
                ..User::default()
            };
            assert_eq!(level(&queue, &user), want, "{name}");
        };
        check("ann", &["ops"], AccessLevel::Defer);
        check("bob", &["ops"], AccessLevel::Prefer);
        check("bob", &["ops", "bad"], AccessLevel::Deny);
        check("bob", &[], AccessLevel::Allow);
    }
}
