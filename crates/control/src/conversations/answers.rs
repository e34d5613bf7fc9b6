//! Answers of requests that have changed something: who asks again with the same key, because
//! the first answer was lost, gets the same answer instead of a second job.
//!
//! What always holds: what one user has kept, and what all have together, is bounded in
//! number and bytes, in memory and in the store alike. Of one user the oldest is forgotten
//! first; when all together have too many, that of the user who has most.

use crate::record::Record;
use crate::turn::Turn;
use cosy_model::api::Reply;
use cosy_model::{ClockStep, MonotonicTime, Refusal, RefusalCode, Span, Time, Uid, limits};
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write;

/// What a command has made up for its request.
pub(crate) type Key = [u8; 16];

/// How long an answer is kept.
const KEPT: Span = Span::from_secs(3600);

/// What an answer costs beside its text, in bytes: its places in three tables.
const EACH: usize = 256;

/// The answers that are kept.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    by_key: BTreeMap<(Uid, Key), Kept>,
    users: BTreeMap<Uid, Share>,
    bytes: usize,
    /// None is forgotten before, because nobody knows how old they are.
    rest: Option<MonotonicTime>,
}

#[derive(Debug)]
struct Kept {
    at: Time,
    bytes: usize,
    reply: Reply,
}

/// What one user has, the oldest first.
#[derive(Debug, Default)]
struct Share {
    bytes: usize,
    order: VecDeque<Key>,
}

impl Answers {
    /// The answer to an earlier request with that key.
    pub fn get(&self, uid: Uid, key: Key) -> Option<&Reply> {
        self.by_key.get(&(uid, key)).map(|kept| &kept.reply)
    }

    /// Keeps an answer; gives back which ones had to go for it.
    pub fn keep(&mut self, at: Time, uid: Uid, key: Key, reply: Reply) -> Vec<(Uid, Key)> {
        self.forget(uid, key);
        let bytes = weight(&reply) + EACH;
        let share = self.users.entry(uid).or_default();
        share.order.push_back(key);
        share.bytes += bytes;
        self.bytes += bytes;
        self.by_key.insert((uid, key), Kept { at, bytes, reply });
        let mut gone = Vec::new();
        while self.has_too_many(uid) {
            gone.extend(self.forget_oldest(uid));
        }
        while self.by_key.len() > limits::ANSWERS || self.bytes > limits::ANSWERS_BYTES {
            let most = self.users.iter().max_by_key(|(_, share)| share.bytes);
            let Some(most) = most.map(|(uid, _)| *uid) else {
                break;
            };
            gone.extend(self.forget_oldest(most));
        }
        gone
    }

    /// Forgets those that nobody can ask for any more.
    pub fn forget_old(&mut self, turn: &mut Turn, now: Time, steady: MonotonicTime) {
        if self.rest.is_some_and(|until| steady < until) {
            return;
        }
        self.rest = None;
        let before = now - KEPT;
        self.forget_before(before);
        turn.record(Record::ForgetAnswers { before });
    }

    /// The clock on the wall was set. All answers look older or younger than they are: none is
    /// forgotten until all that there are now are old enough.
    pub fn clock_set(&mut self, step: ClockStep, steady: MonotonicTime) {
        if step.by > Span::ZERO {
            self.rest = Some(MonotonicTime(steady.0.saturating_add(KEPT.ms())));
        }
    }

    fn forget_before(&mut self, before: Time) {
        let users: Vec<Uid> = self.users.keys().copied().collect();
        for uid in users {
            while self.oldest(uid).is_some_and(|at| at < before) {
                self.forget_oldest(uid);
            }
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    /// What they take, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn has_too_many(&self, uid: Uid) -> bool {
        self.users.get(&uid).is_some_and(|share| {
            share.order.len() > limits::ANSWERS_OF_USER
                || share.bytes > limits::ANSWERS_OF_USER_BYTES
        })
    }

    fn oldest(&self, uid: Uid) -> Option<Time> {
        let key = self.users.get(&uid)?.order.front()?;
        self.by_key.get(&(uid, *key)).map(|kept| kept.at)
    }

    fn forget_oldest(&mut self, uid: Uid) -> Option<(Uid, Key)> {
        let key = self.users.get(&uid)?.order.front().copied()?;
        self.forget(uid, key);
        Some((uid, key))
    }

    fn forget(&mut self, uid: Uid, key: Key) {
        let Some(kept) = self.by_key.remove(&(uid, key)) else {
            return;
        };
        self.bytes -= kept.bytes;
        let Some(share) = self.users.get_mut(&uid) else {
            return;
        };
        share.bytes -= kept.bytes;
        match share.order.front() == Some(&key) {
            true => drop(share.order.pop_front()),
            false => share.order.retain(|other| *other != key),
        }
        if share.order.is_empty() {
            self.users.remove(&uid);
        }
    }
}

/// What is kept of an answer: nothing where nothing was changed, and of a long one so much that
/// its sender is told that it is done.
pub(crate) fn to_keep(reply: &Reply) -> Option<Reply> {
    match reply {
        Reply::Refused(_) | Reply::Done { changed: 0, .. } => return None,
        _ => {}
    }
    if weight(reply) <= limits::ANSWER_BYTES {
        return Some(reply.clone());
    }
    Some(shortened(reply))
}

/// An answer that is too long to be kept.
fn shortened(reply: &Reply) -> Reply {
    match reply {
        // The tasks are looked up when it is asked again.
        Reply::Flow(info) => {
            let mut info = info.clone();
            info.tasks.clear();
            Reply::Flow(info)
        }
        Reply::Done { changed, .. } => Reply::Done {
            changed: *changed,
            refused: Vec::new(),
        },
        _ => Reply::Refused(Refusal::new(
            RefusalCode::WrongState,
            "this was done already when it was asked first; its answer was too long to be kept: look at what there is now",
        )),
    }
}

/// The length of an answer as text, which is about what it takes in memory, in bytes.
fn weight(reply: &Reply) -> usize {
    struct Counter(usize);
    impl Write for Counter {
        fn write_str(&mut self, text: &str) -> std::fmt::Result {
            self.0 += text.len();
            Ok(())
        }
    }
    let mut counter = Counter(0);
    let _ = write!(counter, "{reply:?}");
    counter.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::JobId;

    fn key(n: u64) -> Key {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&n.to_be_bytes());
        key
    }

    fn submitted(note: usize) -> Reply {
        Reply::Submitted {
            job: JobId(1),
            tasks: 0,
            note: "x".repeat(note),
        }
    }

    fn keep(answers: &mut Answers, uid: u32, n: u64, reply: Reply) -> Vec<(Uid, Key)> {
        answers.keep(Time::from_secs(n as i64), Uid(uid), key(n), reply)
    }

    #[test]
    fn of_one_user_the_oldest_go_first() {
        let mut answers = Answers::default();
        let most = limits::ANSWERS_OF_USER as u64;
        let mut gone = Vec::new();
        for n in 0..most + 10 {
            gone.extend(keep(&mut answers, 7, n, submitted(0)));
        }
        let want: Vec<(Uid, Key)> = (0..gone.len() as u64).map(|n| (Uid(7), key(n))).collect();
        assert!(gone.len() >= 10);
        assert_eq!(gone, want);
        assert!(answers.len() <= limits::ANSWERS_OF_USER);
        assert!(answers.bytes() <= limits::ANSWERS_OF_USER_BYTES);
        assert!(answers.get(Uid(7), key(most + 9)).is_some());
        assert!(answers.get(Uid(7), key(0)).is_none());
    }

    #[test]
    fn all_together_have_a_most_and_who_has_most_loses_first() {
        let mut answers = Answers::default();
        keep(&mut answers, 1, 1, submitted(0));
        let mut n = 10;
        for uid in 2..12 {
            for _ in 0..400 {
                n += 1;
                keep(&mut answers, uid, n, submitted(60_000));
            }
        }
        assert!(answers.bytes() <= limits::ANSWERS_BYTES);
        assert!(answers.get(Uid(1), key(1)).is_some(), "who has little");
    }

    #[test]
    fn one_key_is_kept_once_and_time_goes_on() {
        let mut answers = Answers::default();
        for n in [1, 1, 2] {
            keep(&mut answers, 7, n, submitted(100));
        }
        assert_eq!(answers.len(), 2);
        answers.forget_before(Time::from_secs(2));
        assert_eq!(answers.len(), 1);
        answers.forget_before(Time::from_secs(3));
        assert_eq!((answers.len(), answers.bytes()), (0, 0));
        assert!(answers.users.is_empty());
    }

    #[test]
    fn long_answers_are_not_kept_whole() {
        let refused = |n: usize| Reply::Done {
            changed: 5,
            refused: vec![("1".to_owned(), Refusal::invalid("no".repeat(100))); n],
        };
        assert_eq!(to_keep(&refused(3)), Some(refused(3)));
        assert_eq!(to_keep(&refused(100_000)), Some(refused(0)));
        let nothing = Reply::Done {
            changed: 0,
            refused: Vec::new(),
        };
        assert_eq!(to_keep(&nothing), None);
        let long = to_keep(&submitted(limits::ANSWER_BYTES));
        assert!(matches!(long, Some(Reply::Refused(_))));
    }
}
