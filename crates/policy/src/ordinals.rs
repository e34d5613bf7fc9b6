//! Numbers for the places in an order, of which few change when the order does.
//!
//! Ranks are counted from one end: where one user goes from the front to the back the ranks of all between
//! change by one. Whoever sorts jobs by what stands for their users needs numbers in the same order, not
//! ranks. Those who stand in the same order as before (a longest increasing subsequence of what they had)
//! keep their numbers; the others get numbers between those of their neighbours. Where there is no room
//! between two, those around them move aside, twice as many each time, so that room is made rarely
//! (Dietz, Sleator, "Two Algorithms for Maintaining Order in a List", STOC 1987).
//!
//! What always holds: of two groups the one behind has the greater number, and numbers lie between 0 and
//! [`MOST`], neither of which is given.

/// Above all numbers.
pub const MOST: i64 = 1 << 61;
/// Between neighbours where room is made.
const ROOM: i64 = 1 << 16;

/// Gives a number to each of these groups, which are told from the least on: `members` has the group of
/// each member, counted from 0 without gaps, and the number that the member had, if it had one.
pub fn numbers(members: &[(usize, Option<i64>)]) -> Vec<i64> {
    let enough = |step, all| step >= ROOM || all;
    numbers_of(members, (0, MOST), enough).unwrap_or_default()
}

/// The same for a part of the order, between two numbers that stay: `None` where there is no room for it.
pub fn numbers_between(
    members: &[(usize, Option<i64>)],
    below: i64,
    above: i64,
) -> Option<Vec<i64>> {
    numbers_of(members, (below, above), |step, _| step >= ROOM)
}

/// `enough`: whether a step between neighbours is, told with whether it is over all of them.
fn numbers_of(
    members: &[(usize, Option<i64>)],
    bounds: (i64, i64),
    enough: impl Fn(i64, bool) -> bool,
) -> Option<Vec<i64>> {
    let count = members
        .iter()
        .map(|(group, _)| group + 1)
        .max()
        .unwrap_or(0);
    let mut given = kept(&owned(members, count, bounds));
    let mut at = 0;
    while at < count {
        match given.get(at) {
            Some(None) => at = fill(&mut given, at, bounds, &enough)?,
            _ => at += 1,
        }
    }
    Some(given.into_iter().flatten().collect())
}

/// The number that each group may keep: the one that most of its members have, where none of the others
/// has more members with it.
fn owned(
    members: &[(usize, Option<i64>)],
    count: usize,
    (below, above): (i64, i64),
) -> Vec<Option<i64>> {
    let known = members.iter().filter_map(|(group, number)| {
        let number = number.filter(|number| below < *number && *number < above)?;
        Some((number, *group))
    });
    let mut known: Vec<(i64, usize)> = known.collect();
    known.sort_unstable();
    // Each number with who has most members with it; of equal ones the first group.
    let mut owner: Vec<(i64, (usize, usize))> = Vec::new();
    for alike in known.chunk_by(|one, next| one == next) {
        let Some((number, group)) = alike.first().copied() else {
            continue;
        };
        let have = alike.len();
        match owner.last_mut().filter(|(last, _)| *last == number) {
            Some((_, best)) if have > best.0 => *best = (have, group),
            Some(_) => {}
            None => owner.push((number, (have, group))),
        }
    }
    let mut best = vec![(0, None); count];
    for (number, (have, group)) in owner {
        if let Some(best) = best.get_mut(group).filter(|best| have > best.0) {
            *best = (have, Some(number));
        }
    }
    best.into_iter().map(|(_, number)| number).collect()
}

/// Of these the most that increase; the others are taken away.
fn kept(numbers: &[Option<i64>]) -> Vec<Option<i64>> {
    // Of increasing subsequences of each length: where the one with the least end ends.
    let mut ends: Vec<(i64, usize)> = Vec::new();
    let mut before: Vec<Option<usize>> = vec![None; numbers.len()];
    for (at, number) in numbers.iter().enumerate() {
        let Some(number) = *number else {
            continue;
        };
        let length = ends.partition_point(|(end, _)| *end < number);
        if let Some(before) = before.get_mut(at) {
            *before = length
                .checked_sub(1)
                .and_then(|last| ends.get(last))
                .map(|end| end.1);
        }
        match ends.get_mut(length) {
            Some(end) => *end = (number, at),
            None => ends.push((number, at)),
        }
    }
    let mut kept = vec![None; numbers.len()];
    let mut next = ends.last().map(|end| end.1);
    while let Some(at) = next {
        if let (Some(place), Some(number)) = (kept.get_mut(at), numbers.get(at)) {
            *place = *number;
        }
        next = before.get(at).copied().flatten();
    }
    kept
}

/// Gives numbers to those without one from `first` on, up to the next that has one, and to as many around
/// them as have to move aside. Gives where the next may be without; `None` where there is no room.
fn fill(
    given: &mut [Option<i64>],
    first: usize,
    bounds: (i64, i64),
    enough: impl Fn(i64, bool) -> bool,
) -> Option<usize> {
    let (mut from, mut until, mut more) = (first, first, 1);
    loop {
        while matches!(given.get(until), Some(None)) {
            until += 1;
        }
        let below = from
            .checked_sub(1)
            .and_then(|at| given.get(at).copied().flatten());
        let above = given.get(until).copied().flatten();
        let (low, high) = (below.unwrap_or(bounds.0), above.unwrap_or(bounds.1));
        let between = i64::try_from(until - from).unwrap_or(i64::MAX);
        let step = (high - low) / between.saturating_add(1);
        let all = from == 0 && until >= given.len();
        if enough(step, all) {
            let places = given.get_mut(from..until).unwrap_or_default();
            let mut next = low;
            for place in places {
                next += step.max(1);
                *place = Some(next);
            }
            return Some(until);
        }
        if all {
            return None;
        }
        from = from.saturating_sub(more);
        until = until.saturating_add(more).min(given.len());
        more *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Each member in a group of its own, in that order.
    fn one_each(numbers: &[Option<i64>]) -> Vec<(usize, Option<i64>)> {
        numbers.iter().copied().enumerate().collect()
    }

    #[test]
    fn who_goes_from_the_front_to_the_back_is_the_only_one_with_another_number() {
        let first = numbers(&one_each(&[None; 1000]));
        let mut moved: Vec<Option<i64>> = first.iter().copied().map(Some).collect();
        let one = moved.remove(3);
        moved.insert(900, one);
        let after = numbers(&one_each(&moved));
        let changed = moved
            .iter()
            .zip(&after)
            .filter(|(old, new)| **old != Some(**new));
        assert_eq!(changed.count(), 1);
    }

    #[test]
    fn whoever_leaves_many_who_are_tied_leaves_them_their_number() {
        let tied = 500;
        for alone in [0, 1] {
            let both = |at| {
                if at == 0 {
                    (alone, Some(1 << 40))
                } else {
                    (1 - alone, Some(1 << 40))
                }
            };
            let members: Vec<_> = (0..tied).map(both).collect();
            let given = numbers(&members);
            assert_eq!(given[1 - alone], 1 << 40, "the one that leaves is in group {alone}");
        }
    }

    #[test]
    fn without_room_few_move_aside() {
        let mut line: Vec<Option<i64>> = numbers(&one_each(&[None; 500]))
            .into_iter()
            .map(Some)
            .collect();
        let mut moved = 0;
        for _ in 0..300 {
            let last = line.pop().flatten();
            line.insert(17, None); // always between the same two
            assert!(last.is_some());
            let given = numbers(&one_each(&line));
            moved += line
                .iter()
                .zip(&given)
                .filter(|(old, new)| **old != Some(**new))
                .count();
            line = given.into_iter().map(Some).collect();
        }
        assert!(moved < 3000, "{moved} moved for 300 that came");
    }

    proptest! {
        #[test]
        fn numbers_are_in_the_order_of_the_groups(
            groups in prop::collection::vec(
                prop::collection::vec(prop::option::of(-3i64..40), 1..4), 0..40),
            scale in prop_oneof![Just(1i64), Just(ROOM), Just(MOST / 45)],
        ) {
            let scaled = |number: Option<i64>| number.map(|number| number * scale);
            let members: Vec<(usize, Option<i64>)> = groups
                .iter()
                .enumerate()
                .flat_map(|(at, own)| own.iter().map(move |number| (at, scaled(*number))))
                .collect();
            let given = numbers(&members);
            prop_assert_eq!(given.len(), groups.len());
            prop_assert!(given.iter().all(|number| (1..MOST).contains(number)));
            prop_assert!(given.is_sorted_by(|a, b| a < b));
        }

        #[test]
        fn a_part_stays_between_its_neighbours(
            numbers in prop::collection::vec(prop::option::of(0i64..40), 1..20),
            (below, room) in (0i64..30, prop_oneof![0i64..20, Just(30 * ROOM)]),
        ) {
            let above = below + room;
            match numbers_between(&one_each(&numbers), below, above) {
                Some(given) => {
                    prop_assert_eq!(given.len(), numbers.len());
                    prop_assert!(given.iter().all(|number| below < *number && *number < above));
                    prop_assert!(given.is_sorted_by(|a, b| a < b));
                }
                None => prop_assert!(room < 30 * ROOM),
            }
        }

        /// Against all subsets: nobody could have kept more, where there was room.
        #[test]
        fn the_most_that_can_keep_their_numbers_do(
            numbers in prop::collection::vec(prop::option::of(1i64..12), 0..10),
        ) {
            let most = (0u32..1 << numbers.len())
                .filter_map(|set| {
                    let chosen: Vec<i64> = numbers
                        .iter()
                        .enumerate()
                        .filter(|(at, _)| set >> at & 1 == 1)
                        .map(|(_, number)| *number)
                        .collect::<Option<_>>()?;
                    chosen.is_sorted_by(|a, b| a < b).then_some(chosen.len())
                })
                .max();
            prop_assert_eq!(Some(kept(&numbers).into_iter().flatten().count()), most);
        }
    }
}
