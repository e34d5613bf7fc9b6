//! `--distribution`: how tasks are dealt out to nodes, sockets and cores. Source: srun(1),
//! "-m, --distribution"; observed.
//!
//! What is below nodes (sockets, cores) is only told again: tasks get whole cores.

use super::{Fault, Line};
use std::fmt::Write as _;

/// Which task goes to which node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Nodes {
    /// Neighbouring tasks share a node while there is room.
    #[default]
    Block,
    /// Round the nodes.
    Cyclic,
    /// In blocks of so many round the nodes.
    Plane(u32),
    /// As a list of hosts says, task by task.
    Arbitrary,
}

/// A distribution as it was asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Distribution {
    /// How tasks go over the nodes.
    pub nodes: Nodes,
    /// As `SLURM_DISTRIBUTION` tells it.
    pub text: String,
}

impl Distribution {
    /// The size of `plane=SIZE`.
    pub const fn plane_size(&self) -> Option<u32> {
        match self.nodes {
            Nodes::Plane(size) => Some(size),
            Nodes::Block | Nodes::Cyclic | Nodes::Arbitrary => None,
        }
    }
}

/// Reads `block`, `cyclic:block`, `*:fcyclic:*`, `plane=4`, `arbitrary`, also with `,pack` or
/// `,nopack`, and these two alone.
///
/// # Errors
/// Anything else.
pub fn read(text: &str) -> Result<Distribution, Fault> {
    let text = text.to_ascii_lowercase();
    parse(&text).ok_or_else(|| {
        let mut fault = Fault::specification("distribution");
        if text.starts_with("plane") {
            let size = "Invalid plane size or size not specified";
            fault.lines.insert(0, Line::Error(size.to_owned()));
        }
        fault
    })
}

fn parse(text: &str) -> Option<Distribution> {
    let is_packing = |word: &str| matches!(word, "pack" | "nopack");
    if is_packing(text) {
        return Some(Distribution {
            nodes: Nodes::Block,
            text: text.to_owned(),
        });
    }
    let (levels, packing) = match text.split_once(',') {
        Some((levels, packing)) => (levels, Some(packing)),
        None => (text, None),
    };
    if packing.is_some_and(|word| !is_packing(word)) {
        return None;
    }
    let (nodes, mut text) = match levels.strip_prefix("plane=") {
        Some(size) => {
            let size = size.parse().ok().filter(|n| *n > 0)?;
            (Nodes::Plane(size), "plane".to_owned())
        }
        None => words(levels)?,
    };
    if let Some(packing) = packing {
        let _ = write!(text, ",{packing}");
    }
    Some(Distribution { nodes, text })
}

/// One to three words, each with its usual one for `*`.
fn words(levels: &str) -> Option<(Nodes, String)> {
    let mut levels = levels.split(':');
    let (nodes, first) = match levels.next()? {
        "block" | "*" => (Nodes::Block, "block"),
        "cyclic" => (Nodes::Cyclic, "cyclic"),
        "arbitrary" => (Nodes::Arbitrary, "arbitrary"),
        _ => return None,
    };
    let mut text = first.to_owned();
    let mut usual = "cyclic";
    let mut below = 0;
    for level in levels {
        let word = match level {
            "*" => usual,
            "block" | "cyclic" | "fcyclic" => level,
            _ => return None,
        };
        let _ = write!(text, ":{word}");
        usual = word;
        below += 1;
    }
    (below <= 2).then_some((nodes, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_what_is_told_again() {
        let check = |text: &str, want: Option<(Nodes, &str)>| {
            let got = read(text).ok();
            let got = got.as_ref().map(|d| (d.nodes, &*d.text));
            assert_eq!(got, want, "{text}");
        };
        let block = |text| Some((Nodes::Block, text));
        check("block", block("block"));
        check("*", block("block"));
        check("*:*", block("block:cyclic"));
        check("*:*:*", block("block:cyclic:cyclic"));
        check("*:block:*", block("block:block:block"));
        check("Block,Pack", block("block,pack"));
        check("*,nopack", block("block,nopack"));
        check("pack", block("pack"));
        check("nopack", block("nopack"));
        check("cyclic:fcyclic", Some((Nodes::Cyclic, "cyclic:fcyclic")));
        check("plane=3", Some((Nodes::Plane(3), "plane")));
        check("arbitrary", Some((Nodes::Arbitrary, "arbitrary")));
        for text in [
            "",
            ",",
            "blocker",
            "block:cyclicer",
            "block:block:block:block",
            "**",
            "*:**",
            ",pack",
            "block,packer",
            "fcyclic",
            "plane",
            "plane=0",
            "plane=x",
        ] {
            check(text, None);
        }
        assert_eq!(read("plane=3").unwrap().plane_size(), Some(3));
    }
}
