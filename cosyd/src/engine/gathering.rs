//! Which batches share a commit.
//!
//! All that wait do. Where a commit takes long, as on a server, those who were answered by the last
//! one are waited for, a fraction of the time that a commit takes: otherwise the first of them would go
//! alone, all others would wait for its commit, and each would wait for two.

use cosy_control::Batch;
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

/// Batches on their way to the writer; the core waits beyond.
pub(super) const BATCHES: usize = 64;
/// Records in one transaction.
const TRANSACTION: usize = 20_000;
/// The part of a commit's time that others are waited for.
const FRACTION: u32 = 4;
/// Longest wait where a commit takes a way to a server and back: that may stand still for longer.
pub(super) const LONGEST: Duration = Duration::from_millis(2);

/// What the writer thread is told.
pub(super) enum ToWriter {
    Batch {
        generation: u64,
        batch: Batch,
        /// True for a batch that is written alone; the core is told when it is over.
        large: bool,
    },
    /// The generation that failed is over; tell when the store can be written.
    Restart {
        generation: u64,
        done: SyncSender<()>,
    },
}

/// What comes to the writer, and what of it is known already.
pub(super) struct Gathering<'a> {
    inbox: &'a Receiver<ToWriter>,
    /// Taken out of the inbox; comes first.
    waiting: VecDeque<ToWriter>,
    /// How long others are waited for at most; `None`: not at all.
    longest: Option<Duration>,
    last: Option<LastCommit>,
}

/// The commit before.
struct LastCommit {
    ended: Instant,
    took: Duration,
    /// Requests that it answered, or that waited for it.
    requests: usize,
}

/// Requests that are answered when a batch is durable.
pub(super) fn requests(batch: &Batch) -> usize {
    let effects = batch.effects.iter();
    effects.filter(|effect| effect.answers().is_some()).count()
}

fn requests_of(message: &ToWriter) -> usize {
    match message {
        ToWriter::Batch { batch, .. } => requests(batch),
        ToWriter::Restart { .. } => 0,
    }
}

impl<'a> Gathering<'a> {
    /// Out of `inbox`; others are waited for `longest` at most, not at all without.
    pub const fn new(inbox: &'a Receiver<ToWriter>, longest: Option<Duration>) -> Self {
        Self {
            inbox,
            waiting: VecDeque::new(),
            longest,
            last: None,
        }
    }

    /// What comes next, within so long; without a limit where there is none.
    ///
    /// # Errors
    /// Nothing came in time, or nothing comes any more.
    pub fn next(&mut self, within: Option<Duration>) -> Result<ToWriter, RecvTimeoutError> {
        match (self.waiting.pop_front(), within) {
            (Some(first), _) => Ok(first),
            (None, None) => self
                .inbox
                .recv()
                .map_err(|_| RecvTimeoutError::Disconnected),
            (None, Some(within)) => self.inbox.recv_timeout(within),
        }
    }

    /// The batches of the generation that share the commit of `first`.
    pub fn gather(&mut self, generation: u64, first: Batch) -> Vec<Batch> {
        let mut records = first.records.len();
        let mut answered = requests(&first);
        // What nobody waits for goes at once.
        let until = self.wait_until().filter(|_| answered > 0);
        let expected = self.last.as_ref().map_or(0, |last| last.requests);
        let mut batches = vec![first];
        while records < TRANSACTION {
            let next = match until {
                Some(until) if answered < expected => {
                    self.next(Some(until.saturating_duration_since(Instant::now())))
                }
                Some(_) | None => self.next(Some(Duration::ZERO)),
            };
            match next {
                Ok(ToWriter::Batch {
                    generation: g,
                    batch,
                    large: false,
                }) if g == generation => {
                    records += batch.records.len();
                    answered += requests(&batch);
                    batches.push(batch);
                }
                Ok(other) => {
                    self.waiting.push_front(other);
                    break;
                }
                Err(_) => break,
            }
        }
        batches
    }

    /// Until when those are waited for whom the last commit answered; `None` where they are not.
    fn wait_until(&self) -> Option<Instant> {
        let last = self.last.as_ref()?;
        let until = last.ended + (last.took / FRACTION).min(self.longest?);
        (until > Instant::now()).then_some(until)
    }

    /// A commit that began then has ended, and answers so many requests now.
    pub fn committed(&mut self, began: Instant, answered: usize) {
        if self.longest.is_none() {
            return;
        }
        // No more than the inbox held: who sends meanwhile is not waited for here.
        let more: Vec<ToWriter> = self.inbox.try_iter().take(BATCHES).collect();
        self.waiting.extend(more);
        let ended = Instant::now();
        self.last = Some(LastCommit {
            ended,
            took: ended.saturating_duration_since(began),
            requests: answered + self.waiting.iter().map(requests_of).sum::<usize>(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_control::ClientId;
    use cosy_control::Effect;
    use cosy_model::api::Reply;
    use std::sync::mpsc::sync_channel;

    /// What is waited for in these tests comes; else they fail after so long.
    const LONG: Duration = Duration::from_secs(30);

    fn batch(clients: &[u64]) -> Batch {
        let reply = |client: &u64| Effect::Reply {
            client: ClientId(*client),
            reply: Reply::Script(Default::default()),
        };
        Batch {
            effects: clients.iter().map(reply).collect(),
            ..Batch::default()
        }
    }

    fn message(generation: u64, clients: &[u64]) -> ToWriter {
        ToWriter::Batch {
            generation,
            batch: batch(clients),
            large: false,
        }
    }

    /// The clients of each batch.
    fn clients(batches: &[Batch]) -> Vec<Vec<u64>> {
        let client = |effect: &Effect| match effect {
            Effect::Reply { client, .. } => client.0,
            _ => panic!("{effect:?}"),
        };
        let of = |batch: &Batch| batch.effects.iter().map(client).collect();
        batches.iter().map(of).collect()
    }

    /// A commit has taken a minute and answered so many; these waited for it.
    fn after(gathering: &mut Gathering<'_>, answered: usize) {
        let began = Instant::now()
            .checked_sub(LONG * 8)
            .unwrap_or_else(Instant::now);
        gathering.committed(began, answered);
    }

    fn sends_later(to: &SyncSender<ToWriter>, message: ToWriter) -> std::thread::JoinHandle<()> {
        let to = to.clone();
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(30));
            to.send(message).unwrap();
        })
    }

    #[test]
    fn those_who_were_answered_are_waited_for() {
        let (to, inbox) = sync_channel(9);
        let mut gathering = Gathering::new(&inbox, Some(LONG));
        after(&mut gathering, 2);
        let sender = sends_later(&to, message(1, &[2]));
        let gathered = gathering.gather(1, batch(&[1]));
        assert_eq!(clients(&gathered), [vec![1], vec![2]]);
        sender.join().unwrap();
        // So are those who waited; what comes beyond is not.
        to.send(message(1, &[3])).unwrap();
        after(&mut gathering, 1);
        let Ok(ToWriter::Batch { batch, .. }) = gathering.next(None) else {
            panic!("nothing waits");
        };
        let sender = sends_later(&to, message(1, &[4]));
        assert_eq!(clients(&gathering.gather(1, batch)), [vec![3], vec![4]]);
        sender.join().unwrap();
    }

    #[test]
    fn nobody_is_waited_for_in_vain() {
        let (_to, inbox) = sync_channel(9);
        // One client alone; what nobody waits for; a file; the first commit.
        let mut alone = Gathering::new(&inbox, Some(LONG));
        after(&mut alone, 1);
        assert_eq!(clients(&alone.gather(1, batch(&[1]))), [vec![1]]);
        after(&mut alone, 5);
        assert_eq!(clients(&alone.gather(1, batch(&[]))), [Vec::<u64>::new()]);
        let mut file = Gathering::new(&inbox, None);
        after(&mut file, 5);
        assert_eq!(clients(&file.gather(1, batch(&[1]))), [vec![1]]);
        let mut first = Gathering::new(&inbox, Some(LONG));
        assert_eq!(clients(&first.gather(1, batch(&[1]))), [vec![1]]);
    }

    #[test]
    fn a_client_that_does_not_come_holds_nobody_up_for_long() {
        let (_to, inbox) = sync_channel(9);
        let mut gathering = Gathering::new(&inbox, Some(LONGEST));
        after(&mut gathering, 5);
        assert_eq!(clients(&gathering.gather(1, batch(&[1]))), [vec![1]]);
    }

    #[test]
    fn the_order_stays_and_other_generations_stay_apart() {
        let (to, inbox) = sync_channel(9);
        let mut gathering = Gathering::new(&inbox, Some(LONG));
        for n in 2..5 {
            to.send(message(1, &[n])).unwrap();
        }
        to.send(message(2, &[5])).unwrap();
        after(&mut gathering, 9);
        to.send(message(2, &[6])).unwrap();
        let gathered = gathering.gather(1, batch(&[1]));
        assert_eq!(clients(&gathered), [vec![1], vec![2], vec![3], vec![4]]);
        let mut rest = Vec::new();
        while let Ok(message) = gathering.next(Some(Duration::ZERO)) {
            let ToWriter::Batch { batch, .. } = message else {
                panic!("what is it?");
            };
            rest.extend(clients(&[batch]));
        }
        assert_eq!(rest, [[5], [6]]);
    }
}
