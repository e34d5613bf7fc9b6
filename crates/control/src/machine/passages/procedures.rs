//! Nodes are told where others are, and commands are let through to a job's first node.

use crate::config::ClusterConfig;
use crate::conversations::Conversations;
use crate::conversations::visible::not_theirs;
use crate::event::{Caller, Effect, LinkId};
use crate::jobs::Jobs;
use crate::jobs::run::{Part, Run};
use crate::machine::Machine;
use crate::machine::names::node_list;
use crate::machine::passages::{NoPassage, PassageRequest, directory_silent, no_passage};
use crate::queues::access::procedures::{is_admin_there, may_come, may_pass};
use crate::rooms::Rooms;
use crate::turn::Turn;
use cosy_model::api::JobRef;
use cosy_model::node::NodeOrder;
use cosy_model::step::{AllocationRoute, JobPart, Peer};
use cosy_model::{NodeId, Refusal, RefusalCode, Uid, User, limits};
use std::collections::BTreeSet;

impl Machine {
    /// Where a node is reached; the address is empty while it does not listen.
    pub(crate) fn peer(&self, id: NodeId) -> Peer {
        let node = &self.nodes[id.index()];
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
            peer: self.peer(part.node()),
            tasks: part.tasks(),
            cores: part.amounts().cores,
            memory: part.memory(),
            gpus: part.amounts().gpus,
        };
        run.serving().iter().map(part).collect()
    }
}

/// A node has registered: those that share jobs with it hear where it is now, and it
/// where they are, if that was elsewhere before.
pub(crate) fn tell_where(machine: &Machine, jobs: &Jobs, turn: &mut Turn, id: NodeId) {
    if !machine.nodes.iter().any(|node| node.moved) {
        return;
    }
    for other in fellows(machine, jobs, id) {
        for (told, moved) in [(other, id), (id, other)] {
            if machine.nodes[moved.index()].moved {
                let peer = machine.peer(moved);
                machine.order(turn, told, |node| NodeOrder::Moved { node, peer });
            }
        }
    }
}

/// The other nodes of the jobs on a node.
fn fellows(machine: &Machine, jobs: &Jobs, id: NodeId) -> BTreeSet<NodeId> {
    let here = machine.nodes[id.index()].jobs.iter();
    let runs = here.filter_map(|job| jobs.get(job)?.run());
    let held = runs.flat_map(|run| run.parts().iter());
    let held = held.filter(|part| !part.is_released());
    held.map(|part| part.node()).filter(|n| *n != id).collect()
}

/// A command on the host of that link wants to reach a job's first node.
pub(crate) fn asked_passage(rooms: &mut Rooms, turn: &mut Turn, asked: PassageRequest) {
    let effect = match passage(rooms, turn, &asked) {
        Ok(effect) => effect,
        Err(NoPassage::Refused(refusal)) => no_passage(&asked, refusal),
        Err(NoPassage::Unknown(_))
            if rooms.machine.passages.waiting.len() >= limits::PASSAGES_WAITING =>
        {
            no_passage(&asked, directory_silent())
        }
        Err(NoPassage::Unknown(uid)) => {
            return rooms.machine.passages.waiting.push((uid, asked));
        }
    };
    turn.effect(effect);
}

/// A look-up has come back: what waited for it is answered.
pub(crate) fn passages_of(rooms: &mut Rooms, turn: &mut Turn, uid: Uid, found: bool) {
    let waiting = std::mem::take(&mut rooms.machine.passages.waiting);
    let (these, others): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|(u, _)| *u == uid);
    rooms.machine.passages.waiting = others;
    for (_, asked) in these {
        match found {
            true => asked_passage(rooms, turn, asked),
            false => turn.effect(no_passage(&asked, directory_silent())),
        }
    }
}

/// The user as the directory says now.
fn user_now(
    config: &ClusterConfig,
    conversations: &mut Conversations,
    turn: &mut Turn,
    uid: Uid,
) -> Result<User, NoPassage> {
    conversations
        .fresh_user(config, turn, uid)
        .ok_or(NoPassage::Unknown(uid))
}

fn passage(
    rooms: &mut Rooms,
    turn: &mut Turn,
    asked: &PassageRequest,
) -> Result<Effect, NoPassage> {
    let (link, id) = (asked.link, asked.job);
    // Nobody has the directory searched for users who have no business there.
    may_come(&rooms.machine, &rooms.jobs, &rooms.triggers, link, asked.uid)?;
    let user = user_now(&rooms.config, &mut rooms.conversations, turn, asked.uid)?;
    may_pass(&rooms.config, &rooms.machine, &rooms.jobs, &rooms.triggers, link, &user)?;
    let unknown = || Refusal::new(RefusalCode::NotFound, format!("there is no job {id}"));
    let owner = rooms.jobs.get(&id).ok_or_else(unknown)?.submitted().uid;
    if owner != asked.uid && !is_admin_there(&rooms.config, &rooms.machine, link, &user) {
        let asks = Caller {
            as_user: true,
            ..Caller::known(user)
        };
        let job = JobRef {
            job: id,
            task: None,
        };
        return Err(not_theirs(&rooms.config, &asks, owner, job).into());
    }
    let owner = user_now(&rooms.config, &mut rooms.conversations, turn, owner)?;
    Ok(passage_to(&rooms.machine, &rooms.jobs, asked, &owner)?)
}

fn passage_to(
    machine: &Machine,
    jobs: &Jobs,
    asked: &PassageRequest,
    owner: &User,
) -> Result<Effect, Refusal> {
    let (link, id) = (asked.link, asked.job);
    let refused = |why: String| Refusal::new(RefusalCode::WrongState, why);
    let job = &jobs[&id];
    let run = job.run().filter(|run| !run.is_over());
    let first = run.and_then(|run| Some((run, run.first()?)));
    let (run, first) = first.ok_or_else(|| {
        refused(format!("job {id} is {}: steps can be started only while it runs", job.state()))
    })?;
    let first = machine.peer(first);
    if first.address.is_empty() {
        return Err(refused(format!(
            "node {} does not listen for other nodes: start steps of job {id} there",
            first.node
        )));
    }
    Ok(Effect::Passage {
        link,
        number: asked.number,
        passage: Box::new(AllocationRoute {
            key: job.key(),
            uid: owner.uid,
            gid: owner.granted(job.submitted().gid),
            first,
            ticket: cosy_model::OsText::default(),
        }),
        groups: owner.gids(),
        nodes: node_list(machine, run),
        expiry: crate::planning::launch::ticket_expiry(run),
        holder: machine.key_of_link(link),
    })
}

impl Machine {
    /// The key that a link's daemon has proved to hold; empty for a link that has gone.
    pub(crate) fn key_of_link(&self, link: LinkId) -> String {
        let link = self.links.get(&link);
        link.map(|link| link.peer.clone()).unwrap_or_default()
    }
}
