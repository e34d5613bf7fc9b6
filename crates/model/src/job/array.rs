//! Indices of array tasks as users write them: `0-8:4%2`.

use super::TaskIndices;
use super::task_indices::{NoRange, number, range};
use serde::{Deserialize, Serialize};

/// Indices of an array's tasks and how many may run at once.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ArraySpec {
    /// Indices, ascending, as inclusive ranges with a step: `(first, last, step)`.
    pub ranges: Vec<(u32, u32, u32)>,
    /// Most tasks at once.
    pub at_once: Option<u32>,
}

impl ArraySpec {
    /// Number of tasks, before doubles are taken out.
    pub fn count(&self) -> u64 {
        self.ranges
            .iter()
            .map(|&(a, b, s)| u64::from(b.saturating_sub(a) / s.max(1)) + 1)
            .sum()
    }

    /// All indices. Call only after [`ArraySpec::count`] was found to be within the limit.
    pub fn indices(&self) -> TaskIndices {
        TaskIndices::of_ranges(&self.ranges)
    }
}

/// Why a text is no array.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArrayError {
    /// The text does not have the form of an array.
    #[error(
        "'{0}' is no array: use indices and ranges like 1-100, 0-31:4 or 1,5,7, then %N for N tasks at once"
    )]
    Syntax(String),
    /// An index beyond [`crate::limits::ARRAY_INDEX`].
    #[error("array index {0} is larger than {max}", max = crate::limits::ARRAY_INDEX)]
    Index(u64),
    /// More tasks than [`crate::limits::ARRAY_INDEX`].
    #[error("array of {0} tasks is larger than {max}", max = crate::limits::ARRAY_INDEX)]
    Count(u64),
}

impl std::str::FromStr for ArraySpec {
    type Err = ArrayError;

    /// Reads `1-100%5`, `0-31:4`, `1,5,7-9`.
    fn from_str(text: &str) -> Result<Self, ArrayError> {
        let (list, at_once) = match text.split_once('%') {
            Some((list, n)) => (list, Some(number(n).map_err(|of| fault(of, text))?)),
            None => (text, None),
        };
        let mut ranges = Vec::new();
        for part in list.split(',') {
            if ranges.len() >= crate::limits::HOST_LIST_NAMES {
                return Err(fault(NoRange::Syntax, text));
            }
            ranges.push(range(part).map_err(|of| fault(of, text))?);
        }
        let spec = Self {
            ranges,
            at_once: at_once.filter(|n| *n > 0),
        };
        if spec.count() > u64::from(crate::limits::ARRAY_INDEX) {
            return Err(ArrayError::Count(spec.count()));
        }
        Ok(spec)
    }
}

/// The fault of a whole text one part of which is no range.
fn fault(of: NoRange, text: &str) -> ArrayError {
    match of {
        NoRange::Syntax => ArrayError::Syntax(text.chars().take(60).collect()),
        NoRange::Index(index) => ArrayError::Index(index),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays() {
        let check = |text: &str, want: Option<(&[u32], Option<u32>)>| {
            let got = text.parse::<ArraySpec>().ok();
            let got = got.map(|a| (a.indices().iter().collect::<Vec<_>>(), a.at_once));
            assert_eq!(got, want.map(|(i, n)| (i.to_vec(), n)), "{text}");
        };
        check("1-3", Some((&[1, 2, 3], None)));
        check("0-8:4%2", Some((&[0, 4, 8], Some(2))));
        check("7,1-2,2", Some((&[1, 2, 7], None)));
        check("3%0", Some((&[3], None)));
        check("", None);
        check("5-1", None);
        check("1-5:0", None);
        check("1-5:", None);
        check("foo", None);
        check("1-99999999999", None);
        assert!("0-4000000,0-4000000".parse::<ArraySpec>().is_err());
    }
}
