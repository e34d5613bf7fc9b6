//! The waiting jobs of one pool in the order of service, found without looking at
//! each of them.
//!
//! Jobs lie in runs of a few dozen, and runs in blocks; each knows the least that one of
//! its jobs needs, so a search for a job that might start passes over those in which none
//! can.
//!
//! What always holds: jobs are sorted within runs, blocks and across them, none of them is
//! empty, and a summary never promises less than one of its jobs needs.

use crate::OrderKey;
use crate::group::BITS;
use crate::resource_pool::classes::ClassId;
use crate::summary::{Available, CachedSummary, Summary};
use cosy_model::Span;

/// Jobs of a run, and runs of a block: twice as many at most.
const RUN: usize = 64;
const BLOCK: usize = 64;

/// So few jobs are looked at one by one.
const FEW: usize = 8;

/// A group of jobs with equal demand in the same queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct GroupId(pub u32);

impl GroupId {
    /// The bit that stands for it.
    pub fn bit(self) -> usize {
        self.0 as usize % BITS
    }
}

/// What a search needs to know of a job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueKey {
    pub group: GroupId,
    pub limit: Span,
    /// Least number of whole nodes; 0 for a job that shares nodes.
    pub whole: u32,
    /// Cores of all tasks of a job that shares nodes.
    pub cores: u64,
    /// What it holds of resource pools.
    pub class: ClassId,
    /// Bits of the amounts of shared pools that it wants ([`crate::lacks`]).
    pub needs: u32,
}

#[derive(Clone, Debug)]
struct Run {
    keys: Vec<OrderKey>,
    queue_keys: Vec<QueueKey>,
    kept: CachedSummary,
    /// The longest limit, once it has been asked for.
    longest: Option<Span>,
}

impl Run {
    fn new(keys: Vec<OrderKey>, queue_keys: Vec<QueueKey>) -> Self {
        Self {
            keys,
            queue_keys,
            kept: CachedSummary::default(),
            longest: None,
        }
    }

    fn longest(&mut self) -> Span {
        let queue_keys = &self.queue_keys;
        *self.longest.get_or_insert_with(|| longest(queue_keys))
    }

    fn summary(&mut self) -> &Summary {
        let queue_keys = &self.queue_keys;
        let make = || Box::new(Summary::of(queue_keys));
        self.kept.summary.get_or_insert_with(make)
    }
}

fn longest(queue_keys: &[QueueKey]) -> Span {
    let limits = queue_keys.iter().map(|queue_key| queue_key.limit);
    limits.max().unwrap_or_default()
}

#[derive(Clone, Debug)]
struct Block {
    runs: Vec<Run>,
    kept: CachedSummary,
}

impl Block {
    fn summary(&mut self) -> &Summary {
        let runs = &mut self.runs;
        self.kept.summary.get_or_insert_with(|| {
            let mut all = Summary::NONE;
            runs.iter_mut().for_each(|run| all.join(run.summary()));
            Box::new(all)
        })
    }

    fn first(&self) -> &OrderKey {
        &self.runs[0].keys[0]
    }

    fn next(
        &mut self,
        cursor: &mut Cursor,
        room: Option<&Available>,
        hopeless: impl Fn(GroupId, Span) -> bool,
    ) -> Option<(OrderKey, QueueKey)> {
        while let Some(run) = self.runs.get_mut(cursor.run) {
            let all = cursor.at == 0;
            let skip = room.filter(|_| all && run.keys.len() > FEW);
            if skip.is_none_or(|room| run.summary().might_hold(room)) {
                let fits = |queue_key: &QueueKey| {
                    room.is_none_or(|r| {
                        r.holds(queue_key) && !hopeless(queue_key.group, queue_key.limit)
                    })
                };
                if let Some(found) = run.queue_keys[cursor.at..].iter().position(fits) {
                    let at = cursor.at + found;
                    cursor.at = at + 1;
                    return Some((run.keys[at], run.queue_keys[at]));
                }
                if all {
                    run.kept.in_vain();
                }
            }
            (cursor.run, cursor.at) = (cursor.run + 1, 0);
        }
        None
    }

    /// The run in which `key` is, or would be.
    fn run_of(&self, key: &OrderKey) -> usize {
        let after = self.runs.partition_point(|run| run.keys[0] <= *key);
        after.saturating_sub(1)
    }
}

/// Where a search has come to.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Cursor {
    block: usize,
    run: usize,
    at: usize,
}

/// Waiting jobs in their order of service.
#[derive(Clone, Default, Debug)]
pub(crate) struct WaitingLine {
    blocks: Vec<Block>,
    len: usize,
    /// The memory of the last block of a line that has run empty.
    spare: Option<Block>,
}

impl WaitingLine {
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many jobs wait.
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn first(&self) -> Option<&OrderKey> {
        self.blocks.first().map(Block::first)
    }

    /// How many jobs are served before the one with that key.
    pub fn before(&self, key: &OrderKey) -> usize {
        let at_block = self.block_of(key);
        let Some(block) = self.blocks.get(at_block) else {
            return 0;
        };
        let at_run = block.run_of(key);
        let earlier = self
            .blocks
            .iter()
            .take(at_block)
            .flat_map(|block| &block.runs);
        let earlier = earlier.chain(block.runs.iter().take(at_run));
        let run = block.runs.get(at_run);
        let within = run.map_or(0, |run| run.keys.partition_point(|other| other < key));
        within + earlier.map(|run| run.keys.len()).sum::<usize>()
    }

    /// The longest limit of any job.
    pub fn longest(&mut self) -> Span {
        let runs = self.blocks.iter_mut().flat_map(|block| &mut block.runs);
        runs.map(Run::longest).max().unwrap_or_default()
    }

    /// The same without keeping the answer.
    pub fn known_longest(&self) -> Span {
        let runs = self.blocks.iter().flat_map(|block| &block.runs);
        let longest = runs.map(|run| run.longest.unwrap_or_else(|| longest(&run.queue_keys)));
        longest.max().unwrap_or_default()
    }

    /// The jobs, in the order of service.
    pub fn keys(&self) -> impl Iterator<Item = &OrderKey> {
        let runs = self.blocks.iter().flat_map(|block| &block.runs);
        runs.flat_map(|run| &run.keys)
    }

    /// The jobs with what is known of them, in the order of service.
    pub fn iter(&self) -> impl Iterator<Item = (OrderKey, QueueKey)> {
        let runs = self.blocks.iter().flat_map(|block| &block.runs);
        let both = runs.flat_map(|run| run.keys.iter().zip(&run.queue_keys));
        both.map(|(key, queue_key)| (*key, *queue_key))
    }

    /// What is known of the jobs, in the order of service.
    pub fn queue_keys(&self) -> impl Iterator<Item = &QueueKey> {
        let runs = self.blocks.iter().flat_map(|block| &block.runs);
        runs.flat_map(|run| &run.queue_keys)
    }

    /// The block in which `key` is, or would be.
    fn block_of(&self, key: &OrderKey) -> usize {
        let after = self.blocks.partition_point(|block| block.first() <= key);
        after.saturating_sub(1)
    }

    pub fn insert(&mut self, key: OrderKey, queue_key: QueueKey) {
        self.len += 1;
        if self.blocks.is_empty() {
            let mut block = self.spare.take().unwrap_or_else(|| Block {
                runs: vec![Run::new(Vec::new(), Vec::new())],
                kept: CachedSummary::default(),
            });
            block.runs[0].longest = None;
            block.runs[0].keys.push(key);
            block.runs[0].queue_keys.push(queue_key);
            self.blocks.push(block);
            return;
        }
        let at_block = self.block_of(&key);
        let block = &mut self.blocks[at_block];
        let at_run = block.run_of(&key);
        let run = &mut block.runs[at_run];
        let at = run.keys.partition_point(|other| *other < key);
        run.keys.insert(at, key);
        run.queue_keys.insert(at, queue_key);
        run.kept.add(&queue_key);
        run.longest = None;
        block.kept.add(&queue_key);
        if run.keys.len() > 2 * RUN {
            self.split(at_block, at_run);
        }
    }

    fn split(&mut self, at_block: usize, at_run: usize) {
        let block = &mut self.blocks[at_block];
        let run = &mut block.runs[at_run];
        let later = Run::new(run.keys.split_off(RUN), run.queue_keys.split_off(RUN));
        run.kept.forget();
        run.longest = None;
        block.runs.insert(at_run + 1, later);
        if block.runs.len() > 2 * BLOCK {
            block.kept.forget();
            let runs = block.runs.split_off(BLOCK);
            let kept = CachedSummary::default();
            self.blocks.insert(at_block + 1, Block { runs, kept });
        }
    }

    pub fn remove(&mut self, key: &OrderKey) -> bool {
        let at_block = self.block_of(key);
        let Some(block) = self.blocks.get_mut(at_block) else {
            return false;
        };
        let at_run = block.run_of(key);
        let run = &mut block.runs[at_run];
        let Ok(at) = run.keys.binary_search(key) else {
            return false;
        };
        run.keys.remove(at);
        run.queue_keys.remove(at);
        run.kept.old = true;
        run.longest = None;
        block.kept.old = true;
        self.len -= 1;
        if self.len == 0 {
            run.kept.forget();
            block.kept.forget();
            self.spare = self.blocks.pop();
            return true;
        }
        if run.keys.is_empty() {
            block.runs.remove(at_run);
        }
        if block.runs.is_empty() {
            self.blocks.remove(at_block);
        }
        true
    }

    /// The next job at or after `cursor`, which is moved behind it. With a `room`, only one
    /// that might start in it and that is not `hopeless` (told by group and limit).
    pub fn next(
        &mut self,
        cursor: &mut Cursor,
        room: Option<&Available>,
        hopeless: impl Fn(GroupId, Span) -> bool,
    ) -> Option<(OrderKey, QueueKey)> {
        while let Some(block) = self.blocks.get_mut(cursor.block) {
            let all = (cursor.run, cursor.at) == (0, 0);
            let skip = room.filter(|_| all && block.runs.len() > 1);
            if skip.is_none_or(|room| block.summary().might_hold(room)) {
                if let Some(found) = block.next(cursor, room, &hopeless) {
                    return Some(found);
                }
                if all {
                    block.kept.in_vain();
                }
            }
            *cursor = Cursor {
                block: cursor.block + 1,
                ..Cursor::default()
            };
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hopeless::{CLASSES, Hopeless};
    use crate::lacks::Lacks;
    use cosy_model::{JobId, Time};
    use std::collections::BTreeMap;

    fn key(at: u64) -> OrderKey {
        OrderKey::first_come(JobId(at), Time(at as i64))
    }

    fn queue_key(dice: u64) -> QueueKey {
        let shares = dice.is_multiple_of(3);
        QueueKey {
            group: GroupId((dice / 400 % 5) as u32),
            limit: Span((dice / 7 % 50) as i64 + 1),
            whole: if shares {
                0
            } else {
                1 + (dice / 11 % 30) as u32
            },
            cores: if shares { dice / 13 % 100 } else { 0 },
            class: ClassId::NONE,
            // Most jobs beside each other want the same.
            needs: if dice % 2000 < 1500 {
                2
            } else {
                (dice / 17 % 4) as u32
            },
        }
    }

    fn found(
        line: &mut WaitingLine,
        room: Option<&Available>,
        given_up: impl Fn(GroupId, Span) -> bool,
    ) -> Vec<u64> {
        let (mut cursor, mut jobs) = (Cursor::default(), Vec::new());
        while let Some((key, _)) = line.next(&mut cursor, room, &given_up) {
            jobs.push(key.job.0);
        }
        jobs
    }

    /// Thousands of jobs come and go; searches find what a look at each of them finds.
    #[test]
    fn finds_what_a_full_search_finds() {
        let (mut line, mut all) = (WaitingLine::default(), BTreeMap::new());
        let mut dice = 88_172_645_463_325_252u64;
        for step in 0..6000 {
            dice ^= dice << 13;
            dice ^= dice >> 7;
            dice ^= dice << 17;
            let at = dice % 2000;
            if all.remove(&at).is_some() {
                assert!(line.remove(&key(at)));
            } else {
                assert!(!line.remove(&key(at)));
                line.insert(key(at), queue_key(dice));
                all.insert(at, queue_key(dice));
            }
            assert_eq!(line.before(&key(at)), all.range(..at).count());
            if step % 50 > 0 {
                continue;
            }
            assert_eq!(line.before(&key(5000)), line.len());
            let mut lacks = Lacks::default();
            lacks.note(1, Span((dice / 19 % 60) as i64));
            // From that limit on all are given up, of one group earlier.
            let least = Span((dice / 29 % 70) as i64);
            let mut hopeless = Hopeless::default();
            (0..CLASSES).for_each(|class| hopeless.note(class, least, false, 1));
            let given_up =
                |group: GroupId, limit| group.0 == 2 && limit > Span(9) || limit >= least;
            let room = Available {
                lacks: (step % 100 > 0).then_some(&lacks),
                idle: (dice % 8) as u32,
                extra: (dice % 3) as u32,
                until_shadow: Span((dice / 5 % 40) as i64),
                cores: dice / 3 % 9,
                groups: u64::MAX,
                hopeless: (step % 150 > 0).then_some(&hopeless),
            };
            let fits = |b: &QueueKey| room.holds(b) && !given_up(b.group, b.limit);
            let wanted = all.iter().filter(|(_, b)| fits(b)).map(|(at, _)| *at);
            assert_eq!(found(&mut line, Some(&room), given_up), wanted.collect::<Vec<_>>());
            let every = found(&mut line, None, given_up);
            assert_eq!(every, all.keys().copied().collect::<Vec<_>>());
            assert_eq!(line.first(), all.keys().next().map(|at| key(*at)).as_ref());
            assert_eq!(line.is_empty(), all.is_empty());
        }
    }
}
