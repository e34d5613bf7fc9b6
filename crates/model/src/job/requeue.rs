//! What becomes of a job whose attempt is lost with a node: what its owner asks for, and what the
//! controller notes of the losses so far.

use crate::Time;
use serde::{Deserialize, Serialize};

/// How a job goes back into the queue after a node was lost; without effect where it does not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, Hash)]
pub struct RequeueTerms {
    /// It runs again at most so often; the next loss ends it. As often as the site allows
    /// without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most: Option<u32>,
    /// It may start again at once, and has the age that it had.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub expedite: bool,
}

impl RequeueTerms {
    /// Nothing was asked for.
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }

    /// The words of `--requeue=`: a number, `expedite`, or both with a comma between.
    ///
    /// # Errors
    /// Which word is none of them, and which would do.
    pub fn of_words(text: &str) -> Result<Self, String> {
        let mut terms = Self::default();
        for word in text.split(',') {
            match word {
                "expedite" => terms.expedite = true,
                _ => {
                    let number = word.parse().map_err(|_| {
                        format!("'{word}': after --requeue= comes how often at most (--requeue=3), or 'expedite'")
                    })?;
                    terms.most = Some(number);
                }
            }
        }
        Ok(terms)
    }
}

/// A node that a job was lost with.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, Hash)]
pub struct FailedNode {
    /// Its name.
    pub name: String,
    /// When the job was lost with it.
    pub at: Time,
}

/// A job's attempts that were lost with nodes.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, Hash)]
pub struct Losses {
    /// How many whose program had begun.
    pub count: u32,
    /// With which nodes, as far as the job does not go to them yet, in the order of the losses;
    /// at most [`limits::FAILED_NODES`](crate::limits::FAILED_NODES).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<FailedNode>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OsText;
    use crate::job::{JobSpec, Program};

    #[test]
    fn words() {
        let check = |text: &str, want: Option<(Option<u32>, bool)>| {
            let got = RequeueTerms::of_words(text).ok();
            assert_eq!(got.map(|terms| (terms.most, terms.expedite)), want, "{text}");
        };
        check("3", Some((Some(3), false)));
        check("0", Some((Some(0), false)));
        check("expedite", Some((None, true)));
        check("expedite,2", Some((Some(2), true)));
        for wrong in ["", "x", "-1", "3,", "99999999999", "Expedite"] {
            check(wrong, None);
        }
    }

    #[test]
    fn as_often_as_its_owner_says() {
        let mut spec = JobSpec::plain("a", Program::Allocation, OsText::from("/"));
        assert!(spec.may_be_lost());
        spec.requeue_terms.most = Some(1);
        assert!(spec.may_be_lost());
        spec.losses = Some(Box::new(Losses {
            count: 1,
            nodes: Vec::new(),
        }));
        assert!(!spec.may_be_lost());
    }
}
