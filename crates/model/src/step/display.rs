//! Displays of X11 that windows of a step's programs are shown on: which nodes have one, and what
//! travels between their programs and the command, which alone knows the real display.

use crate::OsText;
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// Bytes of the cookie that the programs of a step show.
pub const DISPLAY_COOKIE_BYTES: usize = 16;

/// On which nodes of a step programs find a display. Source: srun(1), `--x11`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DisplayNodes {
    /// On each that has tasks.
    #[default]
    All,
    /// Where task 0 is, or the script of a job.
    First,
    /// On the last node that has tasks.
    Last,
}

impl DisplayNodes {
    /// The word for it on command lines.
    pub const fn word(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::First => "first",
            Self::Last => "last",
        }
    }
}

impl FromStr for DisplayNodes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "all" => Ok(Self::All),
            "first" | "batch" => Ok(Self::First),
            "last" => Ok(Self::Last),
            _ => Err("all, first, last or batch (the same as first) is needed".to_owned()),
        }
    }
}

/// What a command asks for that shows windows of the step.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DisplayRequest {
    /// Nodes on which programs find a display.
    pub nodes: DisplayNodes,
    /// What X clients show as their `MIT-MAGIC-COOKIE-1`: [`DISPLAY_COOKIE_BYTES`] made for this step, never
    /// that of the real display.
    pub cookie: OsText,
    /// Number of the screen on the display.
    pub screen: u32,
}

impl DisplayRequest {
    /// Whether the node with this number in the step has a display, of so many that have tasks.
    pub fn is_for(&self, node: u32, nodes_with_tasks: usize) -> bool {
        let place = node as usize;
        place < nodes_with_tasks
            && match self.nodes {
                DisplayNodes::All => true,
                DisplayNodes::First => place == 0,
                DisplayNodes::Last => place + 1 == nodes_with_tasks,
            }
    }
}

/// What becomes of the connection of one X client. The node numbers its connections and uses no
/// number again.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DisplayFrame {
    /// Number of the node in the step.
    pub node: u32,
    /// Number of the connection on that node.
    pub connection: u32,
    /// What has happened to it.
    pub event: DisplayEvent,
}

/// One event of a connection. What follows [`DisplayEvent::Closed`] from the other end is passed
/// over: it was under way.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DisplayEvent {
    /// A client has connected; only nodes say so.
    Opened,
    /// What was read, as it came. At most [`crate::limits::DISPLAY_WINDOW`] bytes may be under way
    /// that the other end has not taken.
    Bytes(OsText),
    /// So many further bytes of the other end were written to where they go.
    Taken(u32),
    /// Nothing more comes from this end, and nothing is read here any more.
    Closed,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_with_displays() {
        let check = |nodes: &str, nodes_with_tasks: usize, want: &[u32]| {
            let request = DisplayRequest {
                nodes: nodes.parse().unwrap(),
                cookie: OsText::default(),
                screen: 0,
            };
            let got: Vec<u32> = (0..4)
                .filter(|n| request.is_for(*n, nodes_with_tasks))
                .collect();
            assert_eq!(got, want, "{nodes}");
        };
        check("all", 3, &[0, 1, 2]);
        check("first", 3, &[0]);
        check("batch", 3, &[0]);
        check("last", 3, &[2]);
        check("last", 1, &[0]);
        check("all", 0, &[]);
        for text in ["everywhere", "", "All"] {
            assert!(text.parse::<DisplayNodes>().is_err());
        }
    }
}
