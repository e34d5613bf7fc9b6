//! Who may do what. COSY paper, section 3.1: access lists with four levels per queue.

use crate::config::ClusterConfig;
use crate::controller::Controller;
use crate::event::{Caller, LinkId, Via};
use crate::job::Submitted;
use cosy_model::{AccessLevel, NodeId, QueueSpec, Refusal, RefusalCode, Uid, User};

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
/// Requests that a compute node passes on never have an administrator's rights.
pub fn is_admin(config: &ClusterConfig, caller: &Caller) -> bool {
    if let Some(via) = &caller.via
        && !is_login(config, &via.node)
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

fn is_login(config: &ClusterConfig, node: &str) -> bool {
    config.nodes.iter().any(|n| n.login && n.name == node)
}

impl Controller {
    pub(crate) fn is_admin(&self, caller: &Caller) -> bool {
        is_admin(&self.config, caller)
    }

    pub(crate) fn require_admin(&self, caller: &Caller, what: &str) -> Result<(), Refusal> {
        if self.is_admin(caller) {
            return Ok(());
        }
        Err(Refusal::new(
            RefusalCode::Forbidden,
            format!(
                "only administrators may {what}; {} is none",
                caller.user.name
            ),
        ))
    }

    pub(crate) fn may_touch(&self, caller: &Caller, job: &Submitted) -> bool {
        job.uid == caller.user.uid || self.is_admin(caller)
    }

    /// Whether a node's daemon may pass on requests of that user: login hosts anyone's,
    /// compute nodes only those of users who have a job there (rule 5 of the design).
    pub(crate) fn may_relay(&self, via: &Via, caller: &Caller) -> Result<(), Refusal> {
        let node = &via.node;
        if self.node_on_link(via.link, node).is_none() {
            return Err(Refusal::new(
                RefusalCode::Forbidden,
                format!("the daemon that passed this on does not speak for node {node}"),
            ));
        }
        if is_login(&self.config, node) {
            return Ok(());
        }
        let id = self.node_ids.get(node.as_str());
        if id.is_some_and(|id| self.has_job_on(*id, caller.user.uid)) {
            return Ok(());
        }
        Err(no_job_there(&caller.user.name, node))
    }

    fn has_job_on(&self, id: NodeId, uid: Uid) -> bool {
        let node = &self.nodes[id.index()];
        let jobs = node.jobs.iter();
        jobs.filter_map(|job| self.jobs.get(job))
            .any(|job| job.submitted.uid == uid)
            || self.triggers.runs_on(&node.spec.name, uid)
    }

    /// The same for what a daemon asks on a user's behalf, on any of its nodes.
    pub(crate) fn may_pass(&self, link: LinkId, uid: Uid) -> Result<(), Refusal> {
        let nodes = self.nodes_on(link);
        let passes = |id: &NodeId| self.nodes[id.index()].spec.login || self.has_job_on(*id, uid);
        if nodes.iter().any(passes) {
            return Ok(());
        }
        let first = nodes.first().map(|id| &self.nodes[id.index()].spec.name);
        let name = first.map_or("of that daemon", String::as_str);
        Err(no_job_there(&uid.to_string(), name))
    }

    fn nodes_on(&self, link: LinkId) -> Vec<NodeId> {
        let nodes = self.links.get(&link).map_or(&[][..], |l| &l.nodes);
        let there = |id: &NodeId| self.nodes[id.index()].link == Some(link);
        nodes.iter().copied().filter(there).collect()
    }

    /// Whether a user on a login host with that link is an administrator.
    pub(crate) fn is_admin_there(&self, link: LinkId, uid: Uid) -> bool {
        let nodes = self.nodes_on(link);
        let mut login = nodes.iter().map(|id| &self.nodes[id.index()].spec);
        let Some(login) = login.find(|node| node.login) else {
            return false;
        };
        let known = self.users.get(&uid).map(|known| known.user.clone());
        self.is_admin(&Caller {
            resolved: known.is_some(),
            user: known.unwrap_or_else(|| User {
                uid,
                ..User::default()
            }),
            via: Some(Via {
                node: login.name.clone(),
                link,
            }),
        })
    }
}

fn no_job_there(user: &str, node: &str) -> Refusal {
    Refusal::new(
        RefusalCode::Forbidden,
        format!(
            "user {user} has no job on node {node}, and {node} is no login host: use the commands on a login host"
        ),
    )
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
