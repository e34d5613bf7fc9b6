//! What was followed is what there is, whatever the leader has written between two looks.

use super::*;
use crate::store::server_tests as server;
use crate::store::set_aside::Unit;
use crate::store::whole_tests::{plain_submission, submitted};
use crate::store::{Record, params};
use cosy_model::{Attempt, JobId};

/// Numbers that look drawn.
struct Drawn(u64);

impl Drawn {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = self.0.wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn of(&mut self, all: &[u64]) -> Option<u64> {
        let at = self.below(all.len().max(1) as u64);
        all.get(usize::try_from(at).unwrap()).copied()
    }
}

/// Three requests come again and again.
fn submission(base: u64, tasks: u32) -> SubmissionRow {
    let indices: Vec<u32> = (0..tasks).collect();
    SubmissionRow {
        indices: (tasks > 0).then(|| indices.into_iter().collect()),
        ..plain_submission(base, &format!("job{}", base % 3))
    }
}

fn job(row: &SubmissionRow, id: u64, attempt: u32) -> Record {
    Record::Job(Box::new(JobRow {
        attempt: Attempt(attempt),
        ..JobRow::waiting(JobId(id), row.base, None)
    }))
}

fn answer(drawn: &mut Drawn, at: i64) -> Record {
    Record::Answered {
        uid: Uid(u32::try_from(drawn.below(3)).unwrap()),
        key: [u8::try_from(drawn.below(40)).unwrap(); 16],
        at: Time(at),
        reply: Box::new(Reply::Submitted {
            job: JobId(drawn.below(100)),
            tasks: 0,
            note: String::new(),
        }),
    }
}

/// The leader's store, and what is in it.
struct Leader {
    store: Store,
    rows: BTreeMap<u64, SubmissionRow>,
    live: BTreeSet<u64>,
    next: u64,
    at: i64,
}

impl Leader {
    /// Writes one thing of those that leaders write.
    fn write(&mut self, drawn: &mut Drawn) {
        self.at += 1;
        let (all, live): (Vec<u64>, Vec<u64>) =
            (self.rows.keys().copied().collect(), self.live.iter().copied().collect());
        let records = match drawn.below(12) {
            0..=3 => {
                let tasks = [0, 0, 0, 7][usize::try_from(drawn.below(4)).unwrap()];
                let row = submission(self.next, tasks);
                let mut records = vec![submitted(&row)];
                if tasks == 0 {
                    records.push(job(&row, self.next, 0));
                }
                self.live.insert(self.next);
                // Some ids are never seen, so that there are many ranges.
                self.next += row.ids() + drawn.below(4);
                self.rows.insert(row.base.0, row);
                records
            }
            4 | 5 => match drawn.of(&live) {
                Some(base) => {
                    let row = &self.rows[&base];
                    let id = base + drawn.below(row.ids());
                    vec![job(row, id, u32::try_from(self.at).unwrap())]
                }
                None => Vec::new(),
            },
            6 | 7 => match drawn.of(&live) {
                Some(base) => {
                    self.live.remove(&base);
                    let row = &self.rows[&base];
                    vec![job(row, base, 1_000_000), Record::SubmissionDone(row.base)]
                }
                None => Vec::new(),
            },
            8 => match drawn.of(&all) {
                Some(base) => {
                    self.live.insert(base);
                    vec![Record::SubmissionLives(JobId(base))]
                }
                None => Vec::new(),
            },
            9 => vec![answer(drawn, self.at)],
            10 => {
                vec![Record::ForgetAnswers {
                    before: Time(self.at - 30),
                }]
            }
            _ => return self.set_aside_and_put_back(drawn, &live),
        };
        self.store.commit(&records).unwrap();
    }

    fn set_aside_and_put_back(&mut self, drawn: &mut Drawn, live: &[u64]) {
        let Some(base) = drawn.of(live) else { return };
        let unit = Unit::Submission(JobId(base));
        self.store.set_aside(&unit, "a try", Time(self.at)).unwrap();
        let id = self.store.all_aside().unwrap()[0].id;
        assert_eq!(self.store.put_back(id).unwrap(), Some(unit));
    }

    /// All that is loaded, in words.
    fn whole(&self) -> String {
        let (mut loaded, bad) = self.store.load().unwrap();
        assert!(bad.is_empty());
        let key = |answer: &(Uid, [u8; 16], Time, Reply)| {
            (std::cmp::Reverse(answer.2), answer.0, answer.1)
        };
        loaded.answers.sort_by_key(key);
        format!("{loaded:#?}")
    }
}

fn leader() -> Option<(crate::store::Location, Leader)> {
    if !server::is_there() {
        return None;
    }
    let location = server::database();
    let store = Store::open_at(&location).unwrap();
    let leader = Leader {
        store,
        rows: BTreeMap::new(),
        live: BTreeSet::new(),
        next: 1,
        at: 0,
    };
    Some((location, leader))
}

#[test]
fn what_was_followed_is_what_there_is() {
    let Some((location, mut leader)) = leader() else {
        return;
    };
    let standby = Store::open_reader(&location).unwrap();
    for seed in 0..20 {
        let mut drawn = Drawn(seed);
        let mut followed = Followed::default();
        for _ in 0..12 {
            for _ in 0..drawn.below(20) {
                leader.write(&mut drawn);
            }
            standby.follow(&mut followed).unwrap();
            if drawn.below(3) == 0 {
                let rows = followed.rows().unwrap().clone();
                let loaded = standby.load_followed(rows).unwrap();
                assert_eq!(format!("{:#?}", loaded.unwrap()), leader.whole(), "seed {seed}");
            }
        }
        let rows = followed.into_rows_of(0).unwrap();
        let loaded = standby.load_followed(rows).unwrap();
        assert_eq!(format!("{:#?}", loaded.unwrap()), leader.whole(), "seed {seed}");
    }
}

/// What a transaction has written before a look and committed after it is seen by the next look.
#[test]
fn what_was_under_way_at_a_look_is_read_by_the_next() {
    let Some((location, mut leader)) = leader() else {
        return;
    };
    let (standby, mut followed) = (Store::open_reader(&location).unwrap(), Followed::default());
    let row = submission(1, 0);
    let records = [submitted(&row), job(&row, 1, 1)];
    leader.store.commit(&records).unwrap();
    let slow = Store::open_at(&location).unwrap();
    slow.connection.execute_batch("BEGIN").unwrap();
    let Record::Job(changed) = job(&row, 1, 2) else {
        unreachable!()
    };
    slow.connection
        .prepare_cached("UPDATE jobs SET row = ?1 WHERE id = 1")
        .unwrap()
        .execute(params![crate::store::encode(&changed).unwrap()])
        .unwrap();
    // Later transactions are over meanwhile.
    leader.store.commit(&[job(&row, 2, 1)]).unwrap();
    standby.follow(&mut followed).unwrap();
    assert_eq!(followed.rows.jobs[&1].attempt, Attempt(1));
    slow.connection.execute_batch("COMMIT").unwrap();
    standby.follow(&mut followed).unwrap();
    assert_eq!(followed.rows.jobs[&1].attempt, Attempt(2));
}

#[test]
fn what_cannot_be_read_or_is_of_another_epoch_is_read_anew() {
    let Some((location, mut leader)) = leader() else {
        return;
    };
    let standby = Store::open_reader(&location).unwrap();
    let row = submission(1, 0);
    let records = [submitted(&row), job(&row, 1, 1)];
    leader.store.commit(&records).unwrap();
    let look = || {
        let mut followed = Followed::default();
        standby.follow(&mut followed).unwrap();
        followed
    };
    assert!(look().into_rows_of(0).is_some());
    assert!(look().into_rows_of(1).is_none());
    let mut followed = look();
    let spoil = "UPDATE jobs SET row = '\\x81a26964' WHERE id = 1";
    leader.store.connection.execute_batch(spoil).unwrap();
    standby.follow(&mut followed).unwrap();
    assert!(followed.rows().is_none());
    assert!(followed.into_rows_of(0).is_none());
}

#[test]
fn ranges_have_all_and_are_few() {
    let some = [(1, 2), (2, 9), (20, 21)];
    assert_eq!(ranges(some.into_iter()), [(1, 9), (20, 21)]);
    assert_eq!(ranges(std::iter::empty()), []);
    // Gaps grow: the narrow ones are bridged.
    let many: Vec<(u64, u64)> = (0..1000).map(|n| (n * n, n * n + 1)).collect();
    let few = ranges(many.iter().copied());
    assert!(few.len() <= RANGES, "{}", few.len());
    let has = |id: u64| few.iter().any(|(first, end)| (*first..*end).contains(&id));
    assert!(many.iter().all(|(id, _)| has(*id)));
}
