//! Rights are looked up: of callers, in queues, and on links of nodes.

use crate::controller::Controller;
use crate::event::{Caller, LinkId, Via};
use crate::jobs::job::Submitted;
use crate::queues::access::{forbidden, is_admin, level, may_come_from, no_job_there, shown};
use cosy_model::api::Request;
use cosy_model::{AccessLevel, NodeId, NodeSpec, QueueSpec, Refusal, RefusalCode, Uid, User};

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
