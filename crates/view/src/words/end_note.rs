//! What is said of the end of a job, where commands read it again.

/// The note in the end of a job whose dependencies could never hold.
pub const NEVER_NOTE: &str = "what it waited for could no longer happen";

/// The note in the end of a job that somebody cancelled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CancelNote<'a> {
    /// Login name of who did it.
    pub who: &'a str,
    /// What it waited for then, as [`cosy_model::WaitReason::word`] has it.
    pub waited_for: Option<&'a str>,
}

impl<'a> CancelNote<'a> {
    const BY: &'static str = "cancelled by ";
    const WAITING: &'static str = " while it waited: ";

    /// From the text; `None` for another note.
    pub fn read(text: &'a str) -> Option<Self> {
        let rest = text.strip_prefix(Self::BY)?;
        Some(match rest.split_once(Self::WAITING) {
            Some((who, reason)) => Self {
                who,
                waited_for: Some(reason),
            },
            None => Self {
                who: rest,
                waited_for: None,
            },
        })
    }
}

impl std::fmt::Display for CancelNote<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", Self::BY, self.who)?;
        match self.waited_for {
            Some(reason) => write!(f, "{}{reason}", Self::WAITING),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_cancelled_is_read_again() {
        for waited_for in [None, Some("held_by_user")] {
            let note = CancelNote {
                who: "ann",
                waited_for,
            };
            assert_eq!(CancelNote::read(&note.to_string()), Some(note));
        }
        assert_eq!(CancelNote::read(NEVER_NOTE), None);
    }
}
