//! Nodes of which nothing is heard are lost, and attempts end because of it.

use crate::jobs::resize::goes_on_without;
use crate::machine::node_lost::after_loss;
use crate::machine::nodes::procedures::{fencing, lose_node};
use crate::machine::reports::job_key;
use crate::procedures::end::{abandon, give_back};
use crate::rooms::Rooms;
use crate::turn::Turn;
use cosy_model::node::{AttemptKey, KillCause, NodeOrder};
use cosy_model::{EventKind, EventObject, JobId, NodeId, Span};

/// Looks for nodes that were silent too long.
pub(crate) fn check_nodes(rooms: &mut Rooms, turn: &mut Turn) {
    let (timeout, listened) = (rooms.config.policy.node_timeout, rooms.clocks.listened);
    let is_silent = |id: &NodeId| {
        let node = rooms.machine.node(*id);
        let counts = node.power().phase.is_on() || !node.jobs().is_empty();
        counts && !node.lost() && Span(listened.0 - node.heard().0) > timeout
    };
    let silent: Vec<NodeId> = rooms.machine.ids().filter(is_silent).collect();
    for id in silent {
        lose_node(rooms, turn, id);
    }
    for id in rooms.machine.ids() {
        let node = rooms.machine.node(id);
        let silent = Span(listened.0 - node.heard().0);
        let wait = fencing(&rooms.config, node).unwrap_or(Span::ZERO);
        if node.lost() && !node.given_up() && silent > timeout + wait {
            rooms.machine.node_mut(id).is_given_up();
            give_up_node(rooms, turn, id, "the node was lost");
        }
    }
}

/// A node is given up: its attempts end or wait again. One that can be reached ends what
/// it has first; what it should have ended before is no longer waited for.
pub(crate) fn give_up_node(rooms: &mut Rooms, turn: &mut Turn, id: NodeId, why: &str) {
    let now = turn.now();
    let reached = rooms.machine.node(id).link().is_some();
    let name = rooms.machine.name(id).to_owned();
    rooms.triggers.programs_lost(now, &name);
    let jobs: Vec<JobId> = rooms.machine.node(id).jobs().iter().copied().collect();
    for job_id in jobs {
        let object = EventObject::Job(job_id);
        let key = job_key(rooms.jobs.get(&job_id));
        if goes_on_without(rooms, turn, job_id, id) {
            turn.happened(now, EventKind::NodeLost, "controller", object, format!("{name}: {why}"));
            end_there(rooms, turn, id, key);
            if !reached {
                give_back(rooms, turn, job_id, id);
            }
            continue;
        }
        let Some(job) = rooms.jobs.get_mut(&job_id) else {
            continue;
        };
        if let Some(run) = job.run_mut() {
            if run.leaves(id) && !run.is_over() {
                give_back(rooms, turn, job_id, id);
                continue;
            }
            run.note_lost(id);
        }
        let ends = job.run().is_some_and(|run| run.is_over());
        let clean = (ends || !reached).then_some(id);
        let after = after_loss(job, now);
        turn.happened(now, EventKind::NodeLost, "controller", object, format!("{name}: {why}"));
        abandon(rooms, turn, job_id, after, clean);
        end_there(rooms, turn, id, key);
    }
}

/// What a node that is given up has of an attempt is to end.
fn end_there(rooms: &mut Rooms, turn: &mut Turn, id: NodeId, key: Option<AttemptKey>) {
    if let Some(key) = key {
        rooms.machine.order(turn, id, |node| NodeOrder::Kill {
            key: key.into(),
            node,
            cause: KillCause::Superseded,
            preempted: false,
        });
    }
}
