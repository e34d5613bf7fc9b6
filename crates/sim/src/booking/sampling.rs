//! What is drawn by chance: which jobs become reservations, which are submitted twice, and
//! who buys cheap rather than early.
//!
//! What always holds: the same seed draws the same, and each kind of drawing has a stream of
//! its own, so that one does not change another.

use crate::workload::Job;
use cosy_sched::notice::Share;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

const RESERVATIONS: u64 = 1;
const DUPLICATES: u64 = 2;
const ALPHAS: u64 = 3;

fn stream(seed: u64, stream: u64) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(stream);
    rng
}

/// Of each `block` of `count` jobs one becomes a reservation, of the last part of a block
/// too (what-if paper, section 5.1).
pub fn one_of_each(count: usize, block: usize, seed: u64) -> Vec<bool> {
    let mut rng = stream(seed, RESERVATIONS);
    let mut chosen = vec![false; count];
    for block in chosen.chunks_mut(block.max(1)) {
        let at = rng.random_range(0..block.len());
        block[at] = true;
    }
    chosen
}

/// `share` of `count` jobs, any of them (pricing paper, section 4: "random sampling"). A
/// larger share has all of a smaller one.
pub fn sampled(count: usize, share: Share, seed: u64) -> Vec<bool> {
    sample(count, share, &mut stream(seed, RESERVATIONS))
}

fn sample(count: usize, share: Share, rng: &mut ChaCha8Rng) -> Vec<bool> {
    let mut order: Vec<usize> = (0..count).collect();
    order.shuffle(rng);
    let mut chosen = vec![false; count];
    for at in order.into_iter().take(share.count(count)) {
        chosen[at] = true;
    }
    chosen
}

/// The same jobs with `share` of them submitted twice, the second time right behind the first
/// and at the same instant (pricing paper, section 4: "duplicating tasks").
pub fn with_duplicates(jobs: &[Job], share: Share, seed: u64) -> Vec<Job> {
    let twice = sample(jobs.len(), share, &mut stream(seed, DUPLICATES));
    let times = |twice: bool| if twice { 2 } else { 1 };
    let copies = jobs.iter().zip(twice);
    let copies = copies.flat_map(|(job, twice)| std::iter::repeat_n(job, times(twice)));
    copies.cloned().collect()
}

/// An alpha in thousandths for each of `count` requests, evenly between 0 and 1.
pub fn alphas(count: usize, seed: u64) -> Vec<u32> {
    let mut rng = stream(seed, ALPHAS);
    (0..count).map(|_| rng.random_range(0..=1000)).collect()
}

/// Makes the chosen jobs ask for exactly the time that they will run (both papers).
pub fn ask_exactly(jobs: &mut [Job], chosen: &[bool]) {
    for (job, _) in jobs.iter_mut().zip(chosen).filter(|(_, chosen)| **chosen) {
        job.limit = job.run;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::Span;

    fn count(chosen: &[bool]) -> usize {
        chosen.iter().filter(|chosen| **chosen).count()
    }

    #[test]
    fn one_of_each_block() {
        for seed in 0..20 {
            let chosen = one_of_each(45, 10, seed);
            assert!(chosen.chunks(10).all(|block| count(block) == 1), "{seed}");
        }
        assert_ne!(one_of_each(200, 10, 1), one_of_each(200, 10, 2));
        assert!(one_of_each(0, 10, 1).is_empty());
    }

    #[test]
    fn larger_samples_have_the_smaller_ones() {
        let (small, large) =
            (sampled(288, Share::percent(10), 4), sampled(288, Share::percent(30), 4));
        assert_eq!((count(&small), count(&large)), (29, 86));
        assert!(
            small
                .iter()
                .zip(&large)
                .all(|(small, large)| large >= small)
        );
        assert_ne!(small, sampled(288, Share::percent(10), 5));
    }

    #[test]
    fn duplicates_stand_behind_their_originals() {
        let job = |id| Job {
            id,
            ..Job::default()
        };
        let jobs: Vec<Job> = (0..50).map(job).collect();
        let more = with_duplicates(&jobs, Share::percent(40), 9);
        assert_eq!(more.len(), 70);
        assert!(more.windows(2).all(|pair| pair[1].id - pair[0].id <= 1));
        assert_eq!(with_duplicates(&jobs, Share(0), 9), jobs);
    }

    #[test]
    fn only_reservations_know_their_time() {
        let job = Job {
            run: Span(1),
            limit: Span(5),
            ..Job::default()
        };
        let mut jobs = vec![job; 2];
        ask_exactly(&mut jobs, &[false, true]);
        assert_eq!([jobs[0].limit, jobs[1].limit], [Span(5), Span(1)]);
    }

    #[test]
    fn alphas_are_spread_over_all_there_are() {
        let alphas = alphas(1000, 3);
        let mean = alphas.iter().sum::<u32>() / 1000;
        assert!((450..550).contains(&mean), "{mean}");
        assert!(alphas.iter().all(|alpha| *alpha <= 1000));
    }
}
