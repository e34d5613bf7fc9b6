//! What would be admitted in place of a slot that is not: it stands behind the reason, and who
//! shows all slots beside each other leaves it out.

use super::moment::utc;
use cosy_model::Time;

/// What there is beside a slot that is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SlotHint {
    /// This start is the earliest that is admitted.
    Earliest(Time),
    /// Of so many starts none is.
    NoneOf(usize),
}

const EARLIEST: &str = "; the earliest start that passes is ";
const NONE_OF: &str = "; none of the ";

impl SlotHint {
    /// The reason with the hint behind it.
    pub fn behind(self, reason: &str) -> String {
        match self {
            Self::Earliest(start) => format!("{reason}{EARLIEST}{}", utc(start)),
            Self::NoneOf(starts) => {
                format!("{reason}{NONE_OF}{starts} starts in the window passes")
            }
        }
    }
}

/// The reason alone.
pub fn bare_reason(told: &str) -> &str {
    let at = [EARLIEST, NONE_OF].iter().find_map(|hint| told.find(hint));
    at.and_then(|at| told.get(..at)).unwrap_or(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_found_again() {
        let check = |reason: &str, hint: SlotHint, want: &str| {
            let told = hint.behind(reason);
            assert_eq!(told, want);
            assert_eq!(bare_reason(&told), reason);
        };
        let earliest = SlotHint::Earliest(Time(1_795_267_200_000));
        check(
            "quota: 2 are open",
            earliest,
            "quota: 2 are open; the earliest start that passes is 2026-11-21T13:20:00Z",
        );
        check(
            "no; and 2 more",
            SlotHint::NoneOf(3),
            "no; and 2 more; none of the 3 starts in the window passes",
        );
        assert_eq!(bare_reason("not free"), "not free");
        assert_eq!(bare_reason(""), "");
    }
}
