//! A Laplace solver (Kwok and Ahmad, 1996): a square of tasks, each of which needs the one
//! above it and the one to its left. With 60 tasks asked for the square has 64.

use super::shape::Shape;

/// About so many tasks.
pub fn shape(tasks: usize) -> Shape {
    let low = tasks.isqrt();
    let nearest = [low, low + 1].into_iter();
    let side = nearest.min_by_key(|side| (side * side).abs_diff(tasks));
    let side = side.unwrap_or(low);
    let mut shape = Shape::default();
    for (row, column) in (0..side).flat_map(|row| (0..side).map(move |column| (row, column))) {
        let own = row * side + column;
        let above = (row > 0).then(|| own - side);
        let left = (column > 0).then(|| own - 1);
        let parents: Vec<usize> = above.into_iter().chain(left).collect();
        shape.add(format!("cell{row}_{column}"), &parents);
    }
    shape
}
