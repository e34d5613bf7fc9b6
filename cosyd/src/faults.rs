//! What the core thread remembers so that a fault in the controller hurts nobody but those
//! who waited for that turn, and so that the same fault does not come again at once.

use crate::current_work::CurrentWork;
use cosy_control::{Batch, ClientId, CommandEvent, Effect, Event, Object};
use cosy_model::api::Request;
use cosy_model::{Refusal, RefusalCode, Uid};
use std::collections::BTreeSet;
use std::mem::Discriminant;
use std::time::{Duration, Instant};

/// Faults in a row with the same object in hand that are laid to it.
const BLAMED_AT: u32 = 2;
/// Faults of one user's requests of one kind after which those are refused.
const REFUSED_AT: u32 = 2;
/// A fault is forgotten after so long.
const REMEMBERED: Duration = Duration::from_secs(600);
/// Nodes are taken on again after so long; it doubles with each fault.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Longest such pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Commands whose request was decided upon and whose answer has not left.
#[derive(Debug, Default)]
pub struct Unanswered(BTreeSet<ClientId>);

impl Unanswered {
    /// An event is about to be decided.
    pub fn note(&mut self, event: &Event) {
        match event.of_command() {
            Some(CommandEvent::Asks(client, _)) => drop(self.0.insert(client)),
            Some(CommandEvent::Leaves(client)) => drop(self.0.remove(&client)),
            None => {}
        }
    }

    /// A batch goes to the writer.
    pub fn answered(&mut self, batch: &Batch) {
        for effect in &batch.effects {
            let goes_on = match effect {
                Effect::Reload { client } => Some(*client),
                other => other.answers(),
            };
            if let Some(client) = goes_on {
                self.0.remove(&client);
            }
        }
    }

    /// Takes out the commands that still wait for an answer.
    pub fn take(&mut self) -> BTreeSet<ClientId> {
        std::mem::take(&mut self.0)
    }
}

/// User and kind of the request.
type RequestKind = (Uid, Discriminant<Request>);

/// Faults of the controller that are still remembered, and what is refused because of them.
#[derive(Debug, Default)]
pub struct Faults {
    /// What was in hand last, and how often in a row.
    last: Option<(CurrentWork, u32)>,
    /// How many in a row, and since when there is none.
    row: Option<(u32, Instant)>,
    /// No node is taken on before that.
    nodes_until: Option<Instant>,
    /// The request that is being decided.
    deciding: Option<RequestKind>,
    /// Requests that have failed: how often, and the last time.
    failed: Vec<(RequestKind, u32, Instant)>,
}

impl Faults {
    /// Whether an event is not to be decided now: a node that comes during the pause after
    /// a fault, or a request of a kind that has failed twice for that user.
    ///
    /// # Errors
    /// It is not: what to tell a command.
    pub fn admit(&mut self, event: &Event, now: Instant) -> Result<(), Refusal> {
        self.deciding = None;
        match event {
            Event::LinkOpened { .. } => match self.nodes_until {
                Some(until) if now < until => Err(faulty()),
                Some(_) | None => Ok(()),
            },
            Event::Asked {
                caller, request, ..
            } => {
                let kind = (caller.user.uid, std::mem::discriminant(request));
                self.deciding = Some(kind);
                let failed = self.failed.iter().find(|(known, ..)| *known == kind);
                match failed {
                    Some((_, count, at)) if *count >= REFUSED_AT && now - *at < REMEMBERED => {
                        Err(too_faulty())
                    }
                    Some(_) | None => Ok(()),
                }
            }
            Event::DescriptionsWanted(_)
            | Event::ClientGone(_)
            | Event::ClientLost(_)
            | Event::LinkReported { .. }
            | Event::LinkClosed(_)
            | Event::UserResolved { .. }
            | Event::Planned { .. }
            | Event::Appraised { .. }
            | Event::FlowPlanned { .. }
            | Event::WakesPlanned(_)
            | Event::PowerEnded(_)
            | Event::Reconfigured(_)
            | Event::StoreJudged { .. }
            | Event::BecameDurable
            | Event::Ticked => Ok(()),
        }
    }

    /// All events of a turn were decided.
    pub fn decided(&mut self) {
        self.deciding = None;
    }

    /// A fault, with that in hand: the object that it is laid to, if it is not the first.
    pub fn happened(&mut self, with: Option<CurrentWork>, now: Instant) -> Option<Object> {
        self.failed.retain(|(_, _, at)| now - *at < REMEMBERED);
        if let Some(kind) = self.deciding.take() {
            match self.failed.iter_mut().find(|(known, ..)| *known == kind) {
                Some((_, count, at)) => (*count, *at) = (*count + 1, now),
                None => self.failed.push((kind, 1, now)),
            }
        }
        let row = match self.row {
            Some((count, at)) if now - at < REMEMBERED => count + 1,
            Some(_) | None => 1,
        };
        self.row = Some((row, now));
        let pause = FIRST_PAUSE * (1 << (row - 1).min(10));
        self.nodes_until = Some(now + pause.min(LONGEST_PAUSE));
        let with = with?;
        let same = match self.last {
            Some((last, count)) if last == with && row > 1 => count + 1,
            Some(_) | None => 1,
        };
        self.last = Some((with, same));
        match with {
            CurrentWork::Object(object) if same >= BLAMED_AT => Some(object),
            CurrentWork::Object(_)
            | CurrentWork::TakingUp
            | CurrentWork::Event(_)
            | CurrentWork::Settling => None,
        }
    }
}

/// Faults that a test asks for, in debug builds only: `COSYD_FAULT` is `ask:panic:NAME` or
/// `load:panic:NAME` or the same with `abort`, and happens at jobs of that name.
#[cfg(debug_assertions)]
mod provoked {
    use cosy_control::{Event, Loaded};
    use cosy_model::api::Request;

    fn provoke(when: &str, name: &str) {
        let wanted = std::env::var("COSYD_FAULT").unwrap_or_default();
        let mut words = wanted.split(':');
        let (at, how, at_name) = (words.next(), words.next(), words.next());
        if at != Some(when) || at_name != Some(name) {
            return;
        }
        match how {
            Some("abort") => std::process::abort(),
            _ => panic!("a test wants a fault"),
        }
    }

    pub fn at_event(event: &Event) {
        if let Event::Asked {
            request: Request::Submit(submission),
            ..
        } = event
        {
            provoke("ask", &submission.spec.name);
        }
    }

    pub fn at_loading(loaded: &Loaded) {
        for row in &loaded.submissions {
            provoke("load", &row.spec.name);
        }
    }
}

#[cfg(not(debug_assertions))]
mod provoked {
    pub const fn at_event(_: &cosy_control::Event) {}
    pub const fn at_loading(_: &cosy_control::Loaded) {}
}

pub(crate) use provoked::{at_event, at_loading};

/// For those who waited for a turn that failed.
pub fn faulty() -> Refusal {
    Refusal::new(
        RefusalCode::Unavailable,
        "the controller has met a fault of its own while it decided this; nothing of it was changed, and the log on its host tells more: try again",
    )
}

fn too_faulty() -> Refusal {
    Refusal::new(
        RefusalCode::Unavailable,
        format!(
            "the controller has failed at requests of yours of this kind {REFUSED_AT} times and takes no more of them for {} minutes: tell an administrator",
            REMEMBERED.as_secs() / 60
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_control::{Caller, Facts, LinkHello, LinkId};
    use cosy_model::{JobId, User};

    fn request_of(uid: u32, request: Request) -> Event {
        Event::Asked {
            client: ClientId(u64::from(uid)),
            caller: Box::new(Caller {
                user: User {
                    uid: Uid(uid),
                    ..User::default()
                },
                gid: cosy_model::Gid(100),
                resolved: true,
                via: None,
                as_user: false,
                given: Vec::new(),
            }),
            key: None,
            request,
            facts: Facts::default(),
        }
    }

    fn node() -> Event {
        Event::LinkOpened {
            link: LinkId(1),
            peer: String::new(),
            address: None,
            hello: LinkHello::Node { lacks: Vec::new() },
        }
    }

    #[test]
    fn a_request_that_fails_twice_is_refused_to_its_user() {
        let mut faults = Faults::default();
        let start = Instant::now();
        for _ in 0..2 {
            assert!(faults.admit(&request_of(7, Request::Queues), start).is_ok());
            assert_eq!(faults.happened(Some(CurrentWork::Event(0)), start), None);
        }
        assert!(
            faults
                .admit(&request_of(7, Request::Queues), start)
                .is_err()
        );
        assert!(faults.admit(&request_of(7, Request::Nodes), start).is_ok());
        assert!(faults.admit(&request_of(8, Request::Queues), start).is_ok());
        let later = start + REMEMBERED;
        assert!(faults.admit(&request_of(7, Request::Queues), later).is_ok());
    }

    #[test]
    fn nodes_wait_longer_with_each_fault() {
        let mut faults = Faults::default();
        let mut now = Instant::now();
        assert!(faults.admit(&node(), now).is_ok());
        for pause in [1, 2, 4, 8, 16, 32, 60, 60] {
            faults.happened(None, now);
            let until = now + Duration::from_secs(pause);
            assert!(
                faults
                    .admit(&node(), until - Duration::from_millis(1))
                    .is_err()
            );
            assert!(faults.admit(&node(), until).is_ok());
            now = until;
        }
        now += REMEMBERED;
        faults.happened(None, now);
        assert!(faults.admit(&node(), now + FIRST_PAUSE).is_ok());
    }

    #[test]
    fn an_object_is_blamed_at_the_second_fault() {
        let mut faults = Faults::default();
        let now = Instant::now();
        let job = |id| Object::Job(JobId(id));
        let mut with = |id| faults.happened(Some(CurrentWork::Object(job(id))), now);
        assert_eq!(with(1), None);
        assert_eq!(with(2), None);
        assert_eq!(with(2), Some(job(2)));
        assert_eq!(faults.happened(Some(CurrentWork::Settling), now), None);
    }

    #[test]
    fn who_waits_is_known() {
        let mut unanswered = Unanswered::default();
        for uid in 1..=3 {
            unanswered.note(&request_of(uid, Request::Queues));
        }
        unanswered.note(&Event::ClientGone(ClientId(1)));
        unanswered.answered(&Batch {
            records: Vec::new(),
            effects: vec![Effect::Reply {
                client: ClientId(2),
                reply: cosy_model::api::Reply::Refused(faulty()),
            }],
        });
        assert_eq!(unanswered.take(), [ClientId(3)].into());
        assert!(unanswered.take().is_empty());
    }
}
