//! What has come and is not decided yet: in a lane for each user, and one for everything else.
//!
//! One user may have hundreds of requests waiting. Users take turns, so another's request waits
//! for one of each user and not for all of them.
//!
//! What always holds: what came first in a lane is decided first, and the end of a command is in
//! the lane of what it asks.

use crate::budget::Share;
use cosy_control::{ClientId, CommandEvent, Event};
use cosy_model::Uid;
use std::collections::{BTreeMap, VecDeque};

/// So many reports of nodes, ticks and the like come before a user's turn.
const OTHERS: usize = 64;

/// The lanes.
#[derive(Debug, Default)]
pub struct Lanes {
    /// What no user has asked, and what it is counted as.
    others: VecDeque<(Event, Option<Share>)>,
    /// Those of them that were taken since a user's turn.
    taken: usize,
    users: BTreeMap<Uid, VecDeque<Event>>,
    /// Users whose lane is not empty, the one whose turn is next first.
    turns: VecDeque<Uid>,
    /// Commands whose questions are in a lane, and in whose.
    asking: BTreeMap<ClientId, Uid>,
    len: usize,
}

impl Lanes {
    /// Number of events.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Puts an event at the end of its lane. What a user asks is counted by who waits for the
    /// answer.
    pub fn push(&mut self, event: Event, share: Option<Share>) {
        self.len += 1;
        match self.lane_of(&event) {
            None => self.others.push_back((event, share)),
            Some(uid) => {
                let lane = self.users.entry(uid).or_default();
                if lane.is_empty() {
                    self.turns.push_back(uid);
                }
                lane.push_back(event);
            }
        }
    }

    fn lane_of(&mut self, event: &Event) -> Option<Uid> {
        match event.of_command()? {
            CommandEvent::Asks(client, uid) => {
                self.asking.insert(client, uid);
                Some(uid)
            }
            CommandEvent::Leaves(client) => self.asking.get(&client).copied(),
        }
    }

    /// The event whose turn it is.
    pub fn pop(&mut self) -> Option<Event> {
        let users_wait = !self.turns.is_empty();
        if (self.taken < OTHERS || !users_wait)
            && let Some((event, _share)) = self.others.pop_front()
        {
            self.taken += 1;
            self.len -= 1;
            return Some(event);
        }
        self.taken = 0;
        let uid = self.turns.pop_front()?;
        let lane = self.users.get_mut(&uid)?;
        let event = lane.pop_front()?;
        match lane.is_empty() {
            true => drop(self.users.remove(&uid)),
            false => self.turns.push_back(uid),
        }
        if let Event::Asked { client, .. } = &event {
            self.asking.remove(client);
        }
        self.len -= 1;
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_control::{Caller, Facts};
    use cosy_model::User;
    use cosy_model::api::Request;

    fn asked(client: u64, uid: u32) -> Event {
        let user = User {
            uid: Uid(uid),
            ..User::default()
        };
        Event::Asked {
            client: ClientId(client),
            caller: Box::new(Caller::known(user)),
            key: None,
            request: Request::Ping,
            facts: Facts::default(),
        }
    }

    /// Clients in the order in which they are decided; 0 for what is no client's.
    fn order(lanes: &mut Lanes) -> Vec<u64> {
        let mut order = Vec::new();
        while let Some(event) = lanes.pop() {
            order.push(match event {
                Event::Asked { client, .. } | Event::ClientGone(client) => client.0,
                _ => 0,
            });
        }
        assert!(lanes.is_empty() && lanes.asking.is_empty() && lanes.users.is_empty());
        order
    }

    #[test]
    fn a_users_request_waits_for_one_of_each_other() {
        let mut lanes = Lanes::default();
        (1..=256).for_each(|client| lanes.push(asked(client, 7), None));
        (301..=310).for_each(|client| lanes.push(asked(client, 8), None));
        lanes.push(asked(500, 9), None);
        assert_eq!(lanes.len(), 267);
        let order = order(&mut lanes);
        assert_eq!(order[..7], [1, 301, 500, 2, 302, 3, 303]);
        let of_seven = order.iter().filter(|client| **client <= 256);
        assert!(of_seven.is_sorted());
    }

    #[test]
    fn the_end_of_a_command_comes_after_what_it_asks() {
        let mut lanes = Lanes::default();
        let asked = [asked(1, 7), asked(2, 7), asked(3, 8)];
        asked.into_iter().for_each(|event| lanes.push(event, None));
        lanes.push(Event::ClientGone(ClientId(2)), None);
        lanes.push(Event::ClientGone(ClientId(9)), None);
        // Nobody's question waits of command 9: it is told at once.
        assert_eq!(order(&mut lanes), [9, 1, 3, 2, 2]);
    }

    #[test]
    fn neither_nodes_nor_users_wait_for_all_of_the_others() {
        let mut lanes = Lanes::default();
        (0..2 * OTHERS).for_each(|_| lanes.push(Event::Ticked, None));
        (1..=3).for_each(|client| lanes.push(asked(client, 7), None));
        let order = order(&mut lanes);
        let users = order.iter().enumerate().filter(|(_, client)| **client > 0);
        let places: Vec<usize> = users.map(|(at, _)| at).collect();
        assert_eq!(places, [OTHERS, 2 * OTHERS + 1, 2 * OTHERS + 2]);
    }
}
