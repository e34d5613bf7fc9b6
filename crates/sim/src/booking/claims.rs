//! What a paper says of its results, beside ours.

use serde::Serialize;
use std::fmt;

/// A claim and what became of it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Claim {
    /// What the paper says.
    #[serde(rename = "says")]
    pub statement: &'static str,
    /// The figures that the paper gives for it.
    pub paper: String,
    /// The figures of our runs.
    pub ours: String,
    /// Whether ours are as the paper says, by the rule that is told with the claim.
    pub holds: bool,
}

/// All claims of a report, as lines.
pub struct Claims<'a>(pub &'a [Claim]);

impl fmt::Display for Claims<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for claim in self.0 {
            let verdict = match claim.holds {
                true => "holds:",
                false => "does not hold:",
            };
            writeln!(f, "{verdict:<15}{}", claim.statement)?;
            writeln!(f, "{:15}the paper: {}", "", claim.paper)?;
            writeln!(f, "{:15}ours: {}", "", claim.ours)?;
        }
        let held = self.0.iter().filter(|claim| claim.holds).count();
        writeln!(f, "{held} of {} claims hold", self.0.len())
    }
}
