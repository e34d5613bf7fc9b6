//! Administrators make, change and take away queues at run time.

use crate::event::Caller;
use crate::jobs::restore::procedures::build_queues;
use crate::procedures::restore::machine_changed;
use crate::queues::access::procedures::require_admin;
use crate::queues::administered::procedures::{check_queue, told_of_queue};
use crate::record::{OwnQueue, Record};
use crate::rooms::Rooms;
use crate::turn::Turn;
use cosy_model::api::Reply;
use cosy_model::{About, EventKind, QueueSpec, QueueState, Refusal, RefusalCode};

pub(crate) fn set_queue(
    rooms: &mut Rooms,
    turn: &mut Turn,
    caller: &Caller,
    spec: QueueSpec,
    new: bool,
    default: bool,
) -> Result<Reply, Refusal> {
    require_admin(&rooms.config, caller, "make and change queues")?;
    check_queue(&rooms.config, &rooms.machine, &rooms.queues, &spec, new)?;
    if default {
        rooms.queues.no_other_default(turn, &spec.name);
    }
    let (name, state) = (spec.name.clone(), spec.state);
    let spec = QueueSpec {
        state: rooms.queues.file_state(&name),
        ..spec
    };
    let was = rooms.queues.is_own_default(&name);
    let row = OwnQueue {
        spec: Some(spec),
        default: default || was,
    };
    rooms.queues.keep_own_queue(turn, &name, row);
    turn.record(Record::Queue {
        name: name.clone(),
        state,
    });
    own_queues_changed(rooms, turn, &name, Some(state));
    let kind = if new {
        EventKind::Made
    } else {
        EventKind::Changed
    };
    told_of_queue(turn, kind, caller, &name)
}

pub(crate) fn delete_queue(
    rooms: &mut Rooms,
    turn: &mut Turn,
    caller: &Caller,
    name: &str,
) -> Result<Reply, Refusal> {
    require_admin(&rooms.config, caller, "take queues away")?;
    let id = rooms.queues.find_queue(&rooms.config, Some(name))?;
    let jobs = rooms.queues.get(id).jobs();
    let reserved = rooms.reservations.live().any(|r| r.row().queue == name);
    if jobs > 0 || reserved {
        let what = match jobs {
            0 => "a reservation".to_owned(),
            n => format!("{n} jobs"),
        };
        let why = format!("queue {name} is in use: it has {what}; close it and wait");
        return Err(Refusal::new(RefusalCode::WrongState, why).about(About::Queue));
    }
    rooms.queues.keep_own_queue(turn, name, OwnQueue::default());
    own_queues_changed(rooms, turn, name, None);
    told_of_queue(turn, EventKind::Deleted, caller, name)
}

/// All queues anew; this one has that state from now on.
pub(crate) fn own_queues_changed(
    rooms: &mut Rooms,
    turn: &mut Turn,
    name: &str,
    state: Option<QueueState>,
) {
    let mut states = rooms.queues.own_states();
    states.remove(name);
    states.extend(state.map(|state| (name.to_owned(), state)));
    rooms.queues.lay(&mut rooms.config);
    build_queues(&rooms.config, &rooms.machine, &mut rooms.queues, &states, turn.now());
    machine_changed(rooms, turn);
}
