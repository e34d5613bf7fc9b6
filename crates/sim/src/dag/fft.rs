//! The butterflies of a Fast Fourier Transform (Kwok and Ahmad, 1996): as many stages as a
//! number of points has bits, with a task for each point; each needs its own point and the
//! one whose number differs in the stage's bit. One task hands out the points, one gathers
//! them. With 60 tasks asked for these are 16 points: 66 tasks.

use super::shape::Shape;

/// About so many tasks.
pub fn shape(tasks: usize) -> Shape {
    let count = |bits: u32| (1usize << bits) * bits as usize + 2;
    let nearest = (1..=20).min_by_key(|bits| count(*bits).abs_diff(tasks));
    let bits = nearest.unwrap_or(1);
    let points = 1usize << bits;
    let mut shape = Shape::default();
    let first = shape.add("points", &[]);
    let mut stage: Vec<usize> = (0..points)
        .map(|point| shape.add(format!("stage0_{point}"), &[first]))
        .collect();
    for bit in 1..bits {
        let next = (0..points).map(|point| {
            let parents = [stage[point], stage[point ^ (1 << bit)]];
            shape.add(format!("stage{bit}_{point}"), &parents)
        });
        stage = next.collect();
    }
    shape.add("spectrum", &stage);
    shape
}
