//! Graphs by chance, as the paper draws them (4.1): a first and a last task; all others in
//! levels of at least two, each of up to half of the tasks that are left; each task has a
//! child in the next level and a parent in the one before.
//!
//! Where the paper is silent: a task has one to three children in the next level, as often
//! one as another, and a task of that level which got no parent so gets one by chance.

use super::shape::Shape;
use rand::Rng;
use rand_chacha::ChaCha8Rng;

/// Fewest tasks of a level.
const NARROWEST: usize = 2;
/// Most children that are drawn for a task.
const MOST_CHILDREN: usize = 3;

/// Exactly so many tasks.
pub fn shape(tasks: usize, rng: &mut ChaCha8Rng) -> Shape {
    let mut shape = Shape::default();
    let mut level = vec![shape.add("first", &[])];
    for (depth, wide) in widths(tasks.saturating_sub(2), rng).into_iter().enumerate() {
        let begin = shape.count();
        let mut parents = vec![Vec::new(); wide];
        for task in &level {
            for child in children(wide, depth == 0, rng) {
                parents[child].push(*task);
            }
        }
        for (at, parents) in parents.iter_mut().enumerate() {
            if parents.is_empty() {
                parents.push(level[rng.random_range(0..level.len())]);
            }
            shape.add(format!("level{depth}_{at}"), parents);
        }
        level = (begin..shape.count()).collect();
    }
    shape.add("last", &level);
    shape
}

/// Sizes of the levels.
fn widths(tasks: usize, rng: &mut ChaCha8Rng) -> Vec<usize> {
    let mut left = tasks;
    let mut widths = Vec::new();
    while left > 0 {
        let half = left / 2;
        let drawn = match half > NARROWEST {
            true => rng.random_range(NARROWEST..=half),
            false => NARROWEST,
        };
        // What would be too few for a level of its own is in this one.
        let wide = match left - drawn.min(left) < NARROWEST {
            true => left,
            false => drawn,
        };
        widths.push(wide);
        left -= wide;
    }
    widths
}

/// Places in the next level, all different: all of it behind the first task.
fn children(wide: usize, all: bool, rng: &mut ChaCha8Rng) -> Vec<usize> {
    if all {
        return (0..wide).collect();
    }
    let count = rng.random_range(1..=MOST_CHILDREN.min(wide));
    let mut chosen = Vec::with_capacity(count);
    while chosen.len() < count {
        let child = rng.random_range(0..wide);
        if !chosen.contains(&child) {
            chosen.push(child);
        }
    }
    chosen
}
