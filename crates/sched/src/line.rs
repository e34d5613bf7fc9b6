//! The waiting jobs of one component in the order of service, found without looking at
//! each of them.
//!
//! Jobs lie in runs of a few dozen; each run knows the least that one of its jobs needs, so
//! a search for a job that might start passes over runs in which none can.
//!
//! What always holds: jobs are sorted within runs and across them, no run is empty, and a
//! summary never promises less than one of its jobs needs (it may be out of date only
//! towards looking in vain).

use crate::OrderKey;
use cosy_model::Span;

const RUN: usize = 64;

/// A group of jobs with equal demand in the same queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct GroupId(pub u32);

/// What a search needs to know of a job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Brief {
    pub group: GroupId,
    pub limit: Span,
    /// Least number of whole nodes; 0 for a job that shares nodes.
    pub whole: u32,
    /// Cores of all tasks of a job that shares nodes.
    pub cores: u64,
}

/// What can be had now: a job that needs more cannot start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Nodes without running jobs.
    pub idle: u32,
    /// Those of them on which nothing is booked ahead.
    pub lasting: u32,
    /// Longest limit with which the others could still be used.
    pub slack: Span,
    /// Free cores.
    pub cores: u64,
}

impl Room {
    fn holds(&self, brief: &Brief) -> bool {
        if brief.whole == 0 {
            return brief.cores <= self.cores;
        }
        brief.whole <= self.lasting || (brief.whole <= self.idle && brief.limit <= self.slack)
    }
}

#[derive(Clone, Debug)]
struct Summary {
    whole: u32,
    cores: u64,
    limit: Span,
    /// The group of all jobs of the run, if it is the same.
    group: Option<GroupId>,
}

impl Summary {
    fn of(briefs: &[Brief]) -> Self {
        let whole = briefs.iter().filter(|b| b.whole > 0).map(|b| b.whole).min();
        let cores = briefs
            .iter()
            .filter(|b| b.whole == 0)
            .map(|b| b.cores)
            .min();
        let first = briefs[0].group;
        Self {
            whole: whole.unwrap_or(u32::MAX),
            cores: cores.unwrap_or(u64::MAX),
            limit: briefs.iter().map(|b| b.limit).min().unwrap_or_default(),
            group: briefs.iter().all(|b| b.group == first).then_some(first),
        }
    }

    fn might_hold(&self, room: &Room) -> bool {
        self.cores <= room.cores
            || self.whole <= room.lasting
            || (self.whole <= room.idle && self.limit <= room.slack)
    }
}

#[derive(Clone, Debug)]
struct Run {
    keys: Vec<OrderKey>,
    briefs: Vec<Brief>,
    summary: Summary,
}

impl Run {
    fn new(keys: Vec<OrderKey>, briefs: Vec<Brief>) -> Self {
        let summary = Summary::of(&briefs);
        Self {
            keys,
            briefs,
            summary,
        }
    }
}

/// Where a search has come to.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Cursor {
    run: usize,
    at: usize,
}

/// The line.
#[derive(Clone, Default, Debug)]
pub(crate) struct Line {
    runs: Vec<Run>,
    len: usize,
}

impl Line {
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn first(&self) -> Option<&OrderKey> {
        self.runs.first().map(|run| &run.keys[0])
    }

    pub fn insert(&mut self, key: OrderKey, brief: Brief) {
        self.len += 1;
        if self.runs.is_empty() {
            self.runs.push(Run::new(vec![key], vec![brief]));
            return;
        }
        let after = self.runs.partition_point(|run| run.keys[0] < key);
        let run = &mut self.runs[after.saturating_sub(1)];
        let at = run.keys.partition_point(|other| *other < key);
        run.keys.insert(at, key);
        run.briefs.insert(at, brief);
        let seen = &mut run.summary;
        match brief.whole {
            0 => seen.cores = seen.cores.min(brief.cores),
            whole => seen.whole = seen.whole.min(whole),
        }
        seen.limit = seen.limit.min(brief.limit);
        seen.group = seen.group.filter(|group| *group == brief.group);
        if run.keys.len() > 2 * RUN {
            self.split(after.saturating_sub(1));
        }
    }

    fn split(&mut self, run: usize) {
        let old = &mut self.runs[run];
        let later = Run::new(old.keys.split_off(RUN), old.briefs.split_off(RUN));
        old.summary = Summary::of(&old.briefs);
        self.runs.insert(run + 1, later);
    }

    pub fn remove(&mut self, key: &OrderKey) -> bool {
        let after = self.runs.partition_point(|run| run.keys[0] <= *key);
        let Some(at_run) = after.checked_sub(1) else {
            return false;
        };
        let run = &mut self.runs[at_run];
        let Ok(at) = run.keys.binary_search(key) else {
            return false;
        };
        run.keys.remove(at);
        run.briefs.remove(at);
        self.len -= 1;
        if run.keys.is_empty() {
            self.runs.remove(at_run);
        } else if run.keys.len().is_multiple_of(16) {
            run.summary = Summary::of(&run.briefs);
        }
        true
    }

    /// The next job at or after `cursor`, which is moved behind it. With a `room`, only one
    /// that might start in it and that is not `hopeless` (a group and a limit, of which the
    /// answer must not get better for a longer limit).
    pub fn next(
        &self,
        cursor: &mut Cursor,
        room: Option<&Room>,
        hopeless: impl Fn(GroupId, Span) -> bool,
    ) -> Option<(OrderKey, Brief)> {
        while let Some(run) = self.runs.get(cursor.run) {
            let pass_over = cursor.at == 0
                && room.is_some_and(|room| {
                    let seen = &run.summary;
                    !seen.might_hold(room) || seen.group.is_some_and(|g| hopeless(g, seen.limit))
                });
            let from = if pass_over {
                run.briefs.len()
            } else {
                cursor.at
            };
            for (at, brief) in run.briefs.iter().enumerate().skip(from) {
                if room.is_none_or(|r| r.holds(brief) && !hopeless(brief.group, brief.limit)) {
                    cursor.at = at + 1;
                    return Some((run.keys[at], *brief));
                }
            }
            *cursor = Cursor {
                run: cursor.run + 1,
                at: 0,
            };
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::{AccessLevel, JobId, Time};
    use std::collections::BTreeMap;

    fn key(at: u64) -> OrderKey {
        OrderKey {
            queue_priority: 0,
            level: AccessLevel::Allow,
            nice: 0,
            submit: Time(at as i64),
            job: JobId(at),
        }
    }

    fn brief(dice: u64) -> Brief {
        let shares = dice.is_multiple_of(3);
        Brief {
            group: GroupId((dice / 400 % 5) as u32),
            limit: Span((dice / 7 % 50) as i64 + 1),
            whole: if shares {
                0
            } else {
                1 + (dice / 11 % 30) as u32
            },
            cores: if shares { dice / 13 % 100 } else { 0 },
        }
    }

    fn found(line: &Line, room: Option<&Room>, hopeless: u32) -> Vec<u64> {
        let (mut cursor, mut jobs) = (Cursor::default(), Vec::new());
        let given_up = |group: GroupId, limit| group.0 == hopeless && limit > Span(9);
        while let Some((key, _)) = line.next(&mut cursor, room, given_up) {
            jobs.push(key.job.0);
        }
        jobs
    }

    /// Thousands of jobs come and go; searches find what a look at each of them finds.
    #[test]
    fn finds_what_a_full_search_finds() {
        let (mut line, mut all) = (Line::default(), BTreeMap::new());
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
                line.insert(key(at), brief(dice));
                all.insert(at, brief(dice));
            }
            if step % 50 > 0 {
                continue;
            }
            let room = Room {
                idle: (dice % 8) as u32,
                lasting: (dice % 3) as u32,
                slack: Span((dice / 5 % 40) as i64),
                cores: dice / 3 % 9,
            };
            let fits = |b: &Brief| room.holds(b) && !(b.group.0 == 2 && b.limit > Span(9));
            let wanted = all.iter().filter(|(_, b)| fits(b)).map(|(at, _)| *at);
            assert_eq!(found(&line, Some(&room), 2), wanted.collect::<Vec<_>>());
            assert_eq!(
                found(&line, None, 2),
                all.keys().copied().collect::<Vec<_>>()
            );
            assert_eq!(line.first(), all.keys().next().map(|at| key(*at)).as_ref());
            assert_eq!(line.is_empty(), all.is_empty());
        }
    }
}
