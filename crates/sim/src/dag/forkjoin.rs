//! Fork and join: a task fans out into some, which come together in one; that fans out into
//! one fewer, and so on. With 60 tasks asked for, the first fan has ten, the last three.

use super::shape::Shape;

/// About so many tasks.
pub fn shape(tasks: usize) -> Shape {
    let (first, fans) = best(tasks);
    let mut shape = Shape::default();
    let mut join = shape.add("fork", &[]);
    for (fan, wide) in (0..fans).map(|fan| (fan, first - fan)) {
        let parts: Vec<usize> = (0..wide)
            .map(|part| shape.add(format!("part{fan}_{part}"), &[join]))
            .collect();
        join = shape.add(format!("join{fan}"), &parts);
    }
    shape
}

/// The width of the first fan and the number of fans: of all that end with two or more the
/// ones nearest to the number of tasks; of equally near ones with the lowest last fan.
fn best(tasks: usize) -> (usize, usize) {
    let count = |first: usize, fans: usize| 1 + (0..fans).map(|f| first - f + 1).sum::<usize>();
    // So many tasks that a fan of two at the end comes near, and one more.
    let narrowest = (2..).find(|first| count(*first, first - 1) >= tasks);
    let first = narrowest.unwrap_or(2);
    let near = (1..first).min_by_key(|fans| {
        let last = first - fans + 1;
        (count(first, *fans).abs_diff(tasks), last)
    });
    (first, near.unwrap_or(1))
}
