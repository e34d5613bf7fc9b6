//! A number for each node of a job, in the order of its nodes: `4(x2),3` is 4, 4, 3.

use cosy_model::{limits, variables};

/// The text of such numbers.
pub fn write(numbers: impl Iterator<Item = u32>) -> String {
    variables::write_runs(numbers)
}

/// The numbers, not more than a job can have nodes; what is no number is left out.
pub fn read(text: &str) -> Vec<u32> {
    let mut all = Vec::new();
    for part in text.split(',') {
        let (number, times) = part.split_once("(x").unwrap_or((part, "1)"));
        let times: usize = times.trim_end_matches(')').parse().unwrap_or(1);
        if let Ok(number) = number.parse::<u32>() {
            let times = times.min(limits::NODES.saturating_sub(all.len()));
            all.extend(std::iter::repeat_n(number, times));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn texts() {
        let check = |numbers: &[u32], want: &str| {
            assert_eq!(write(numbers.iter().copied()), want);
        };
        check(&[], "");
        check(&[4], "4");
        check(&[4, 4, 3], "4(x2),3");
        check(&[1, 2, 1, 1, 1], "1,2,1(x3)");
    }

    #[test]
    fn what_is_no_number_is_left_out_and_repeats_are_bounded() {
        assert_eq!(read("5,x,1(x2),(x3),x(x3),2"), [5, 1, 1, 2]);
        assert_eq!(read("1(x99999999999999999999999)").len(), 1);
        assert_eq!(read("1(x4000000000),2").len(), limits::NODES);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(numbers in prop::collection::vec(0u32..4, 0..40)) {
            prop_assert_eq!(read(&write(numbers.iter().copied())), numbers);
        }
    }
}
