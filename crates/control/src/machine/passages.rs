//! Where nodes are reached by each other, and ways to a job's first node for commands on
//! other hosts.

use crate::controller::Controller;
use crate::event::{Caller, Effect, LinkId};
use crate::jobs::job::{Part, PartStep, Run};
use cosy_model::api::JobRef;
use cosy_model::node::NodeOrder;
use cosy_model::step::{JobPart, Passage, Peer};
use cosy_model::{JobId, NodeId, Refusal, RefusalCode, Time, Uid, User, limits};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

/// Longest address of a node, in bytes.
const ADDRESS_BYTES: usize = limits::NAME_BYTES + 6;

impl Controller {
    /// Where a node is reached; the address is empty while it does not listen.
    pub(crate) fn peer(&self, id: NodeId) -> Peer {
        let node = &self.machine.nodes[id.index()];
        let name = &node.spec.name;
        Peer {
            node: name.clone(),
            address: node.address.clone(),
            key: self.key_of(name).cloned().unwrap_or_default(),
        }
    }

    /// The shares of a job on all its nodes, in its order.
    pub(crate) fn job_parts(&self, run: &Run) -> Vec<JobPart> {
        let part = |part: &Part| JobPart {
            peer: self.peer(part.node),
            tasks: part.tasks,
            cores: part.amounts.cores,
            memory: part.memory(),
            gpus: part.amounts.gpus,
        };
        run.parts.iter().map(part).collect()
    }

    /// A node has registered: those that share jobs with it hear where it is now, and it
    /// where they are, if that was elsewhere before.
    pub(crate) fn tell_where(&mut self, id: NodeId) {
        if !self.machine.nodes.iter().any(|node| node.moved) {
            return;
        }
        for other in self.fellows(id) {
            for (told, moved) in [(other, id), (id, other)] {
                if self.machine.nodes[moved.index()].moved {
                    let peer = self.peer(moved);
                    self.order(told, |node| NodeOrder::Moved { node, peer });
                }
            }
        }
    }

    /// The other nodes of the jobs on a node.
    fn fellows(&self, id: NodeId) -> BTreeSet<NodeId> {
        let jobs = self.machine.nodes[id.index()].jobs.iter();
        let runs = jobs.filter_map(|job| self.jobs.get(job)?.run());
        let held = runs.flat_map(|run| run.parts.iter());
        let held = held.filter(|part| part.step != PartStep::Released);
        held.map(|part| part.node).filter(|n| *n != id).collect()
    }

    /// A command on the host of that link wants to reach a job's first node.
    pub(crate) fn asked_passage(&mut self, now: Time, asked: PassageRequest) {
        let effect = match self.passage(now, &asked) {
            Ok(effect) => effect,
            Err(NoPassage::Refused(refusal)) => no_passage(&asked, refusal),
            Err(NoPassage::Unknown(_))
                if self.machine.passages.waiting.len() >= limits::PASSAGES_WAITING =>
            {
                no_passage(&asked, directory_silent())
            }
            Err(NoPassage::Unknown(uid)) => {
                return self.machine.passages.waiting.push((uid, asked));
            }
        };
        self.effect(effect);
    }

    /// A look-up has come back: what waited for it is answered.
    pub(crate) fn passages_of(&mut self, now: Time, uid: Uid, found: bool) {
        let waiting = std::mem::take(&mut self.machine.passages.waiting);
        let (these, others): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|(u, _)| *u == uid);
        self.machine.passages.waiting = others;
        for (_, asked) in these {
            match found {
                true => self.asked_passage(now, asked),
                false => self.effect(no_passage(&asked, directory_silent())),
            }
        }
    }

    /// The user as the directory says now.
    fn user_now(&mut self, now: Time, uid: Uid) -> Result<User, NoPassage> {
        self.fresh_user(now, uid).ok_or(NoPassage::Unknown(uid))
    }

    fn passage(&mut self, now: Time, asked: &PassageRequest) -> Result<Effect, NoPassage> {
        let (link, id) = (asked.link, asked.job);
        // Nobody has the directory searched for users who have no business there.
        self.may_come(link, asked.uid)?;
        let user = self.user_now(now, asked.uid)?;
        self.may_pass(link, &user)?;
        let unknown = || Refusal::new(RefusalCode::NotFound, format!("there is no job {id}"));
        let owner = self.jobs.get(&id).ok_or_else(unknown)?.submitted.uid;
        if owner != asked.uid && !self.is_admin_there(link, &user) {
            let asks = Caller {
                as_user: true,
                ..Caller::known(user)
            };
            let job = JobRef {
                job: id,
                task: None,
            };
            return Err(self.not_theirs(&asks, owner, job).into());
        }
        let owner = self.user_now(now, owner)?;
        Ok(self.passage_to(asked, &owner)?)
    }

    fn passage_to(&self, asked: &PassageRequest, owner: &User) -> Result<Effect, Refusal> {
        let (link, id) = (asked.link, asked.job);
        let refused = |why: String| Refusal::new(RefusalCode::WrongState, why);
        let job = &self.jobs[&id];
        let run = job.run().filter(|run| run.after.is_none());
        let first = run.and_then(|run| Some((run, run.first()?)));
        let (run, first) = first.ok_or_else(|| {
            refused(format!(
                "job {id} is {}: steps can be started only while it runs",
                job.state()
            ))
        })?;
        let first = self.peer(first);
        if first.address.is_empty() {
            return Err(refused(format!(
                "node {} does not listen for other nodes: start steps of job {id} there",
                first.node
            )));
        }
        Ok(Effect::Passage {
            link,
            number: asked.number,
            passage: Box::new(Passage {
                key: job.key(),
                uid: owner.uid,
                gid: owner.granted(job.submitted.gid),
                first,
                ticket: cosy_model::OsText::default(),
            }),
            groups: owner.gids(),
            nodes: self.node_list(run),
            expiry: crate::planning::launch::ticket_expiry(run),
            holder: self.key_of_link(link),
        })
    }

    /// The key that a link's daemon has proved to hold; empty for a link that has gone.
    pub(crate) fn key_of_link(&self, link: LinkId) -> String {
        let link = self.machine.links.get(&link);
        link.map(|link| link.peer.clone()).unwrap_or_default()
    }
}

/// What a node's daemon asks for a command on its host.
#[derive(Debug)]
pub(crate) struct PassageRequest {
    pub link: LinkId,
    /// The daemon's own number of the question.
    pub number: u64,
    pub uid: Uid,
    pub job: JobId,
}

/// Passages that wait for the look-up of a user.
#[derive(Debug, Default)]
pub(crate) struct Passages {
    waiting: Vec<(Uid, PassageRequest)>,
}

/// Why there is no passage, or none yet.
enum NoPassage {
    Refused(Refusal),
    /// Who that is has to be looked up first.
    Unknown(Uid),
}

impl From<Refusal> for NoPassage {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

fn no_passage(asked: &PassageRequest, refusal: Refusal) -> Effect {
    Effect::Order {
        link: asked.link,
        order: NodeOrder::Passage {
            number: asked.number,
            passage: Err(refusal),
        },
    }
}

fn directory_silent() -> Refusal {
    Refusal::new(
        RefusalCode::Unavailable,
        "the directory of users does not answer now: try again",
    )
}

/// What other nodes connect to: as the node says, with its link's address where it names no
/// host of its own. Empty when it does not listen or says something else.
pub(crate) fn address(listen: &str, link: Option<IpAddr>) -> String {
    let Some((host, port)) = listen.rsplit_once(':') else {
        return String::new();
    };
    let Ok(port) = port.parse::<u16>() else {
        return String::new();
    };
    let plain = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
    let ip = plain.unwrap_or(host).parse::<IpAddr>().ok();
    let everywhere = host.is_empty() || ip.is_some_and(|ip| ip.is_unspecified());
    let sound = |c: char| c.is_ascii_alphanumeric() || "-_.:[]%".contains(c);
    match (everywhere, link) {
        (true, Some(link)) => SocketAddr::new(link.to_canonical(), port).to_string(),
        (true, None) => String::new(),
        (false, _) if port == 0 || listen.len() > ADDRESS_BYTES => String::new(),
        (false, _) if !host.chars().all(sound) => String::new(),
        (false, _) => listen.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let check = |listen: &str, link: Option<&str>, want: &str| {
            let link = link.map(|ip| ip.parse().unwrap());
            assert_eq!(address(listen, link), want, "{listen}");
        };
        check("", Some("10.0.0.1"), "");
        check(":7818", Some("10.0.0.1"), "10.0.0.1:7818");
        check(":7818", Some("::ffff:10.0.0.1"), "10.0.0.1:7818");
        check(":7818", Some("fd00::2"), "[fd00::2]:7818");
        check("0.0.0.0:7818", Some("10.0.0.1"), "10.0.0.1:7818");
        check("[::]:7818", Some("10.0.0.1"), "10.0.0.1:7818");
        check(":7818", None, "");
        check("n1.site:7818", Some("10.0.0.1"), "n1.site:7818");
        check("127.0.0.1:4000", None, "127.0.0.1:4000");
        check("[fd00::1]:4000", None, "[fd00::1]:4000");
        check("n1", Some("10.0.0.1"), "");
        check("n1:port", Some("10.0.0.1"), "");
        check("n1:99999", Some("10.0.0.1"), "");
        check("n 1:7818", None, "");
        check("n1:0", None, "");
    }
}
