//! Who may do what. COSY paper, section 3.1: access lists with four levels per queue.

pub(crate) mod procedures;

use crate::config::ClusterConfig;
use crate::event::Caller;
use cosy_model::api::Request;
use cosy_model::{AccessLevel, NodeSpec, QueueSpec, Refusal, RefusalCode, RelayPolicy, Uid, User};

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
        && !node(config, &via.node).is_some_and(|n| n.login && n.relay != RelayPolicy::Users)
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

/// Which rights somebody has who is named by a program that asks for others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NamedRights {
    /// All that the named user has.
    Whole,
    /// Those of an ordinary user, whoever is named.
    OfUsers,
}

/// Whether the caller may ask for other users, and with which of their rights: root and the
/// controller's own user, who can take any user's place anyway, and the program of the web page. Never
/// what a node's daemon passes on.
///
/// # Errors
/// [`RefusalCode::Forbidden`].
pub fn may_name(config: &ClusterConfig, caller: &Caller) -> Result<NamedRights, Refusal> {
    if caller.via.is_none() && !caller.as_user {
        if caller.user.uid.0 == 0 || caller.user.uid == config.controller_uid {
            return Ok(NamedRights::Whole);
        }
        if let Some(web) = config.web.as_ref().filter(|_| is_web(config, caller)) {
            return Ok(match web.administrators {
                true => NamedRights::Whole,
                false => NamedRights::OfUsers,
            });
        }
    }
    let who = shown(&caller.user);
    Err(forbidden(format!(
        "user {who} may not ask for others: on the controller's host the user of [web] in cosy.toml may"
    )))
}

/// Whether the program of the web page asks for itself: it is told of all jobs, so that it can count
/// them, and may change nothing of others.
pub(crate) fn is_web(config: &ClusterConfig, caller: &Caller) -> bool {
    let web = config.web.as_ref();
    caller.via.is_none()
        && caller.resolved
        && !caller.as_user
        && web.is_some_and(|web| web.user == caller.user.name)
}

/// Whether somebody of whom only this is known may be an administrator: groups are not known, so
/// where a group is named, anybody may be in it.
pub(crate) fn may_be_administrator(config: &ClusterConfig, uid: Uid, name: &str) -> bool {
    let named = |admin: &String| admin.starts_with('@') || admin == name;
    uid.0 == 0 || uid == config.controller_uid || config.admins.iter().any(named)
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
    use cosy_model::Uid;
    use cosy_model::{Gid, Group};

    #[test]
    fn who_may_ask_for_others() {
        let config = |administrators| ClusterConfig {
            controller_uid: Uid(7),
            web: Some(crate::WebConfig {
                user: "web".into(),
                administrators,
            }),
            ..ClusterConfig::default()
        };
        let caller = |uid: u32, name: &str| {
            Caller::known(User {
                uid: Uid(uid),
                name: name.into(),
                ..User::default()
            })
        };
        let check = |config: &ClusterConfig, caller: &Caller, want: Option<NamedRights>| {
            assert_eq!(may_name(config, caller).ok(), want, "{caller:?}");
        };
        check(&config(false), &caller(33, "web"), Some(NamedRights::OfUsers));
        check(&config(true), &caller(33, "web"), Some(NamedRights::Whole));
        check(&config(false), &caller(0, "root"), Some(NamedRights::Whole));
        check(&config(false), &caller(7, "cosy"), Some(NamedRights::Whole));
        check(&config(true), &caller(34, "ann"), None);
        check(&ClusterConfig::default(), &caller(33, "web"), None);
        // A name that the directory has not said is nobody's.
        let unsure = Caller {
            resolved: false,
            ..caller(33, "web")
        };
        check(&config(true), &unsure, None);
        let as_user = Caller {
            as_user: true,
            ..caller(0, "root")
        };
        check(&config(true), &as_user, None);
        // Nor is it anybody of whom a node says so.
        for from in [caller(0, "root"), caller(33, "web")] {
            let passed_on = Caller {
                via: Some(crate::Via {
                    node: "n1".into(),
                    link: crate::LinkId(1),
                }),
                ..from
            };
            check(&config(true), &passed_on, None);
        }
    }

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
