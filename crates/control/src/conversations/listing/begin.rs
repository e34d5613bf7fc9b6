//! A list is begun: of jobs, nodes, reservations, workflows.

use crate::conversations::choosing::Users;
use crate::conversations::listing::procedures::{go_on_listing, listing};
use crate::conversations::listing::{LISTINGS, List, ListRequest};
use crate::event::{Caller, ClientId};
use crate::machine::nodes::NodeList;
use crate::reservations::show::ReservationList;
use crate::rooms::Rooms;
use crate::turn::Turn;
use crate::workflows::show::FlowList;
use crate::workflows::show::procedures::sees_flow;
use crate::workflows::{Flow, no_flow};
use cosy_model::api::Reply;
use cosy_model::reservation::ReservationFilter;
use cosy_model::workflow::FlowFilter;
use cosy_model::{FlowId, Refusal, RefusalCode, ReservationId, limits};
use std::collections::{BTreeSet, VecDeque};

pub(crate) fn list_reservations(
    rooms: &mut Rooms,
    turn: &mut Turn,
    client: ClientId,
    caller: &Caller,
    filter: ReservationFilter,
) -> Option<Reply> {
    let list = ReservationList {
        client,
        caller: Box::new(caller.clone()),
        ids: filter.ids.into_iter().collect(),
        users: Users::new(filter.users.iter().cloned()),
        states: filter.states.into_iter().collect(),
        ended: filter.ended,
        after: Some(ReservationId(0)),
        found: BTreeSet::new(),
        told: Vec::new(),
        bytes: 0,
    };
    begin_list(rooms, turn, List::Reservations(Box::new(list)))
}

pub(crate) fn list_nodes(rooms: &mut Rooms, turn: &mut Turn, client: ClientId) -> Option<Reply> {
    let list = NodeList {
        client,
        told: Vec::new(),
    };
    begin_list(rooms, turn, List::Nodes(Box::new(list)))
}

/// Begins a list, with its first piece; `None` when it is answered later.
pub(crate) fn list(rooms: &mut Rooms, turn: &mut Turn, asked: ListRequest) -> Option<Reply> {
    let list = List::Jobs(Box::new(listing(asked, turn.now())));
    begin_list(rooms, turn, list)
}

/// The same of any list.
pub(crate) fn begin_list(rooms: &mut Rooms, turn: &mut Turn, list: List) -> Option<Reply> {
    if rooms.conversations.lists.line.len() >= LISTINGS {
        let why = format!("{LISTINGS} lists are being made already: try again in a moment");
        return Some(Reply::Refused(Refusal::new(RefusalCode::TooMany, why)));
    }
    // Short lists are answered at once; one piece in a turn, whoever asks.
    match std::mem::replace(&mut rooms.conversations.lists.made_piece, true) {
        true => rooms.conversations.lists.line.push_back(list),
        false => return go_on_listing(rooms, turn, list),
    }
    None
}

pub(crate) fn list_flows(
    rooms: &mut Rooms,
    turn: &mut Turn,
    client: ClientId,
    caller: &Caller,
    filter: &FlowFilter,
) -> Result<Option<Reply>, Refusal> {
    if filter.ids.len() > limits::IDS_IN_REQUEST || filter.users.len() > limits::SHARING {
        return Err(Refusal::invalid("too many ids or users in one request"));
    }
    let ids: BTreeSet<FlowId> = filter.ids.iter().copied().collect();
    let users = Users::new(filter.users.iter().map(String::as_str));
    if let Some(missing) = ids
        .iter()
        .find(|id| !sees_flow(&rooms.config, &rooms.workflows, caller, **id))
    {
        return Err(no_flow(*missing));
    }
    let passes = |flow: &&Flow| {
        let row = &flow.row();
        let by_user = users.has(&row.user, row.uid);
        let by_state = row.is_live() || filter.ended || !ids.is_empty();
        by_user && by_state && sees_flow(&rooms.config, &rooms.workflows, caller, row.id)
    };
    let found: VecDeque<FlowId> = match ids.is_empty() {
        true => rooms
            .workflows
            .all()
            .filter(passes)
            .map(|f| f.row().id)
            .collect(),
        false => {
            let named = ids.iter().filter_map(|id| rooms.workflows.get(*id));
            named.filter(passes).map(|f| f.row().id).collect()
        }
    };
    let list = FlowList {
        client,
        with_tasks: filter.tasks,
        left: found,
        under_way: None,
        told: Vec::new(),
        bytes: 0,
    };
    Ok(begin_list(rooms, turn, List::Flows(Box::new(list))))
}
