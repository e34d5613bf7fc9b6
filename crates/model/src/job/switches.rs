//! How many switches of the network a job's nodes may hang on, and how long it waits for that.

use crate::Span;
use serde::{Deserialize, Serialize};

/// So long a job waits that does not say itself, where the site says nothing. Source: slurm.conf(5), `max_switch_wait`.
const WAIT: Span = Span::from_minutes(5);

/// No more than so many leaf switches. Source: sbatch(1), `--switches`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, Hash)]
pub struct SwitchRequest {
    /// No more leaf switches than these; at least 1.
    pub most: u32,
    /// It waits so long for them from when it could start, then any number will do; `None`: as
    /// long as the site has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<Span>,
    /// It has waited that long.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waited: bool,
}

impl SwitchRequest {
    /// No more than `most` switches, however long that takes by the rules of the site.
    pub const fn of(most: u32) -> Self {
        Self {
            most,
            wait: None,
            waited: false,
        }
    }

    /// How long it waits where nobody waits longer than `most`.
    pub fn waits(&self, most: Span) -> Span {
        let usual = if most.is_unlimited() { WAIT } else { most };
        self.wait.unwrap_or(usual).min(most)
    }

    /// The words of a change: the same, or 0 for any number.
    ///
    /// # Errors
    /// As [`Self::of_words`].
    pub fn of_change(text: &str) -> Result<Self, String> {
        match text {
            "0" => Ok(Self::of(0)),
            text => Self::of_words(text),
        }
    }

    /// The words of `--switches=`: a number, and how long it waits for them after `@`.
    ///
    /// # Errors
    /// What is wrong, and what would do.
    pub fn of_words(text: &str) -> Result<Self, String> {
        let (number, wait) = match text.split_once('@') {
            Some((number, wait)) => (number, Some(wait)),
            None => (text, None),
        };
        let most = number.trim().parse::<u32>().ok().filter(|most| *most > 0);
        let most = most.ok_or_else(|| {
            format!("'{number}' is no number of switches; 1, or 2@30 to wait for them 30 minutes at most, would do")
        })?;
        let wait = wait.map(|wait| {
            let span = wait.trim().parse::<Span>().ok();
            span.ok_or_else(|| {
                format!(
                    "'{wait}' is no time to wait for switches; minutes, H:MM:SS or D-HH:MM would do"
                )
            })
        });
        Ok(Self {
            wait: wait.transpose()?,
            ..Self::of(most)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        let check = |text: &str, want: Option<(u32, Option<i64>)>| {
            let got = SwitchRequest::of_words(text).ok();
            let got = got.map(|got| (got.most, got.wait.map(Span::secs)));
            assert_eq!(got, want, "{text}");
        };
        check("1", Some((1, None)));
        check("2@30", Some((2, Some(1800))));
        check("3@1:00:00", Some((3, Some(3600))));
        check("1@0", Some((1, Some(0))));
        for wrong in ["", "0", "-1", "x", "1@", "1@x", "@5", "1@-5", "4294967296"] {
            check(wrong, None);
        }
    }
}
