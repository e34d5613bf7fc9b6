//! Montage (Berriman et al., 2004): each image is projected, each two that overlap are
//! compared, a plane is fitted to all differences, each image is corrected by it, and all
//! are added up. One task before the projections makes it begin with one task.
//!
//! Here images lie in rows; two overlap when they touch, and if more pairs are wanted, when
//! they touch at a corner. There are about 2.2 pairs for each image, as in the Montage
//! workflows that are passed around; 57 tasks are 12 images with 26 pairs.

use super::shape::Shape;

/// Tasks that are there once: the first, and six behind the pairs.
const ONCE: usize = 7;

/// About so many tasks.
pub fn shape(tasks: usize) -> Shape {
    let rest = tasks.saturating_sub(ONCE);
    // An image means two tasks and 2.2 pairs.
    let images = ((rest * 10 + 21) / 42).max(2);
    let mut pairs = touching(images);
    pairs.truncate(rest.saturating_sub(2 * images).max(images - 1));
    drawn(images, &pairs)
}

fn drawn(images: usize, pairs: &[(usize, usize)]) -> Shape {
    let mut shape = Shape::default();
    let header = shape.add("header", &[]);
    let projected: Vec<usize> = (0..images)
        .map(|image| shape.add(format!("project{image}"), &[header]))
        .collect();
    let differences: Vec<usize> = pairs
        .iter()
        .map(|(a, b)| shape.add(format!("diff{a}_{b}"), &[projected[*a], projected[*b]]))
        .collect();
    let concat = shape.add("concat", &differences);
    let model = shape.add("model", &[concat]);
    let corrected: Vec<usize> = (0..images)
        .map(|image| shape.add(format!("background{image}"), &[projected[image], model]))
        .collect();
    let table = shape.add("table", &corrected);
    let behind: Vec<usize> = corrected.into_iter().chain([table]).collect();
    let sum = shape.add("add", &behind);
    let shrunk = shape.add("shrink", &[sum]);
    shape.add("jpeg", &[shrunk]);
    shape
}

/// Pairs of images that overlap: first those that hold all together, side by side and the
/// first column, then one below the other, then at corners.
fn touching(images: usize) -> Vec<(usize, usize)> {
    let wide = images.isqrt().max(1) + usize::from(images.isqrt().pow(2) < images);
    let column = |image: usize| image % wide;
    let pair = |image: usize, other: usize| (other < images).then_some((image, other));
    let all = || 0..images;
    let side = all().filter(|i| column(*i) + 1 < wide);
    let side = side.filter_map(|i| pair(i, i + 1));
    let first = all().filter(|i| column(*i) == 0);
    let first = first.filter_map(|i| pair(i, i + wide));
    let below = all().filter(|i| column(*i) > 0);
    let below = below.filter_map(|i| pair(i, i + wide));
    let right = all().filter(|i| column(*i) + 1 < wide);
    let right = right.filter_map(|i| pair(i, i + wide + 1));
    let left = all().filter(|i| column(*i) > 0);
    let left = left.filter_map(|i| pair(i, i + wide - 1));
    side.chain(first)
        .chain(below)
        .chain(right)
        .chain(left)
        .collect()
}
