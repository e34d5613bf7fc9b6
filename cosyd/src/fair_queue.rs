//! What has come and is not decided yet: in a lane for each user, and one for everything else.
//!
//! One user may have hundreds of requests waiting. Users take turns, so another's request waits
//! for one of each user and not for all of them.
//!
//! What is large to write (a script of megabytes) is written alone, and one at a time: while one
//! is on its way to the disk no other is taken, and what is small goes first. So whoever submits
//! something small waits for one large submission at most, whoever has sent how many.
//!
//! What always holds: what came first in a lane is decided first, and the end of a command is in
//! the lane of what it asks.

use crate::budget::Share;
use cosy_control::{ClientId, CommandEvent, Event};
use cosy_model::Uid;
use cosy_model::api::{Request, Submission};
use std::collections::{BTreeMap, VecDeque};

/// How many reports of nodes, ticks and the like come before a user's turn.
const OTHERS: usize = 64;

/// Scripts and variables of so many bytes are large. Most are of a few thousand.
const LARGE: usize = 256 << 10;

/// Whether it takes long to write what is asked for.
pub fn is_large(event: &Event) -> bool {
    let Event::Asked { request, .. } = event else {
        return false;
    };
    let of = |s: &Submission| s.script.0.len() + s.spec.environment.0.len();
    let bytes = match request {
        Request::Submit(s) | Request::Allocate(s) | Request::Reserve { job: Some(s), .. } => of(s),
        Request::SubmitFlow { spec, .. } => {
            let tasks = spec.tasks.iter();
            tasks
                .map(|t| t.script.0.len() + t.spec.environment.0.len())
                .sum()
        }
        _ => 0,
    };
    bytes >= LARGE
}

/// Events that wait for their turn: one line for each user, served in rotation.
#[derive(Debug, Default)]
pub struct FairQueue {
    /// What no user has asked, and what it is counted as.
    others: VecDeque<(Event, Option<Share>)>,
    /// How many of them were taken since a user's turn.
    taken: usize,
    users: BTreeMap<Uid, VecDeque<Event>>,
    /// Users whose lane is not empty, the one whose turn is next first.
    turns: VecDeque<Uid>,
    /// Commands whose questions are in a lane, and in whose.
    lane_of: BTreeMap<ClientId, Uid>,
    len: usize,
}

impl FairQueue {
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
                self.lane_of.insert(client, uid);
                Some(uid)
            }
            CommandEvent::Leaves(client) => self.lane_of.get(&client).copied(),
        }
    }

    /// True when something may be taken; `large`: also what is large.
    pub fn have_turn(&self, large: bool) -> bool {
        !self.others.is_empty() || self.next_user(large).is_some()
    }

    /// The place in line of the first user whose next request may be taken.
    fn next_user(&self, large: bool) -> Option<usize> {
        let may = |uid: &Uid| {
            let next = self.users.get(uid).and_then(VecDeque::front);
            next.is_some_and(|event| large || !is_large(event))
        };
        self.turns.iter().position(may)
    }

    /// The event whose turn it is. Without `large` those that are wait, and stay where they are
    /// in line.
    pub fn pop(&mut self, large: bool) -> Option<Event> {
        let next = self.next_user(large);
        if (self.taken < OTHERS || next.is_none())
            && let Some((event, _share)) = self.others.pop_front()
        {
            self.taken += 1;
            self.len -= 1;
            return Some(event);
        }
        self.taken = 0;
        let uid = self.turns.remove(next?)?;
        let lane = self.users.get_mut(&uid)?;
        let event = lane.pop_front()?;
        match lane.is_empty() {
            true => drop(self.users.remove(&uid)),
            false => self.turns.push_back(uid),
        }
        if let Event::Asked { client, .. } = &event {
            self.lane_of.remove(client);
        }
        self.len -= 1;
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_control::{Caller, Facts};
    use cosy_model::{JobSpec, OsText, Program, User};

    fn request_of(client: u64, uid: u32) -> Event {
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
    fn order(queue: &mut FairQueue) -> Vec<u64> {
        let mut order = Vec::new();
        while let Some(event) = queue.pop(true) {
            order.push(match event {
                Event::Asked { client, .. } | Event::ClientGone(client) => client.0,
                _ => 0,
            });
        }
        assert!(queue.is_empty() && queue.lane_of.is_empty() && queue.users.is_empty());
        order
    }

    #[test]
    fn a_users_request_waits_for_one_of_each_other() {
        let mut queue = FairQueue::default();
        (1..=256).for_each(|client| queue.push(request_of(client, 7), None));
        (301..=310).for_each(|client| queue.push(request_of(client, 8), None));
        queue.push(request_of(500, 9), None);
        assert_eq!(queue.len(), 267);
        let order = order(&mut queue);
        assert_eq!(order[..7], [1, 301, 500, 2, 302, 3, 303]);
        let of_seven = order.iter().filter(|client| **client <= 256);
        assert!(of_seven.is_sorted());
    }

    #[test]
    fn what_is_large_waits_and_keeps_its_place() {
        let large = |client: u64, uid: u32| {
            let mut event = request_of(client, uid);
            if let Event::Asked { request, .. } = &mut event {
                let program = Program::Allocation;
                *request = Request::Submit(Box::new(Submission {
                    spec: JobSpec::plain("fat", program, OsText::from("/")),
                    script: OsText(vec![b'#'; LARGE]),
                    array: None,
                }));
            }
            event
        };
        let mut queue = FairQueue::default();
        let all = [
            large(1, 7),
            request_of(2, 7),
            large(3, 8),
            request_of(4, 9),
            request_of(5, 9),
        ];
        all.into_iter().for_each(|event| queue.push(event, None));
        let mut next = |large: bool| match queue.pop(large) {
            Some(Event::Asked { client, .. }) => client.0,
            _ => 0,
        };
        let order = [false, false, false, true, false, true, false];
        assert_eq!(order.map(&mut next), [4, 5, 0, 1, 2, 3, 0]);
        assert!(queue.is_empty());
    }

    #[test]
    fn the_end_of_a_command_comes_after_what_it_asks() {
        let mut queue = FairQueue::default();
        let events = [request_of(1, 7), request_of(2, 7), request_of(3, 8)];
        events.into_iter().for_each(|event| queue.push(event, None));
        queue.push(Event::ClientGone(ClientId(2)), None);
        queue.push(Event::ClientGone(ClientId(9)), None);
        // Nobody's question waits of command 9: it is told at once.
        assert_eq!(order(&mut queue), [9, 1, 3, 2, 2]);
    }

    #[test]
    fn neither_nodes_nor_users_wait_for_all_of_the_others() {
        let mut queue = FairQueue::default();
        (0..2 * OTHERS).for_each(|_| queue.push(Event::Ticked, None));
        (1..=3).for_each(|client| queue.push(request_of(client, 7), None));
        let order = order(&mut queue);
        let users = order.iter().enumerate().filter(|(_, client)| **client > 0);
        let places: Vec<usize> = users.map(|(at, _)| at).collect();
        assert_eq!(places, [OTHERS, 2 * OTHERS + 1, 2 * OTHERS + 2]);
    }
}
