//! `PMI_process_mapping`: which node each rank is on, as MPICH writes it.
//!
//! ```text
//! (vector,(first node,nodes,tasks on each),...)     and from the start again until all have a node
//! 8 tasks on 4 nodes, block    (vector,(0,4,2))
//!                     cyclic   (vector,(0,4,1))
//! ```
//!
//! Source: the flux RFC 13, "Local Process Group Information", and MPICH's process manager
//! notes. A mapping that does not fit into a value is unknown: then programs find out for
//! themselves who is on their node.

use std::fmt::Write;

/// Longest mapping, in bytes: an answer with it fits into MPICH's line of 1,024.
const LONGEST: usize = 960;
/// More blocks than this are longer than [`LONGEST`] in any case.
const MOST_BLOCKS: usize = LONGEST / "(0,1,1)".len();

/// A number of ranks on each of some nodes that follow each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Block {
    first: u32,
    nodes: u32,
    tasks: u32,
}

/// The mapping of a step of `tasks` tasks whose nodes have these ranks; `None` when it is
/// too long to be said, or when a rank is nowhere.
pub fn process_mapping(ranks: &[Vec<u32>], tasks: u32) -> Option<String> {
    let node_of = node_of_rank(ranks, tasks)?;
    let blocks = blocks(&node_of);
    let period =
        (1..=blocks.len().min(MOST_BLOCKS)).find(|&length| repeats(&blocks[..length], &node_of))?;
    Some(written(&blocks[..period])).filter(|text| text.len() <= LONGEST)
}

/// The node of every rank, or `None` when one has none.
fn node_of_rank(ranks: &[Vec<u32>], tasks: u32) -> Option<Vec<u32>> {
    let here: usize = ranks.iter().map(Vec::len).sum();
    if here != tasks as usize {
        return None;
    }
    let mut nodes = vec![None; here];
    for (node, ranks) in (0_u32..).zip(ranks) {
        for &rank in ranks {
            *nodes.get_mut(rank as usize)? = Some(node);
        }
    }
    nodes.into_iter().collect()
}

/// The ranks in order, as few blocks as neighbours make; no more than can be of use.
fn blocks(node_of: &[u32]) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    for run in node_of.chunk_by(|a, b| a == b) {
        let next = Block {
            first: run[0],
            nodes: 1,
            tasks: run.len() as u32,
        };
        match blocks.last_mut() {
            Some(last) if last.goes_on_with(next) => last.nodes += 1,
            Some(_) | None => blocks.push(next),
        }
        if blocks.len() > MOST_BLOCKS {
            break;
        }
    }
    blocks
}

impl Block {
    fn goes_on_with(self, next: Self) -> bool {
        self.tasks == next.tasks && self.first.checked_add(self.nodes) == Some(next.first)
    }

    fn expanded(self) -> impl Iterator<Item = u32> {
        let nodes = self.first..self.first.saturating_add(self.nodes);
        nodes.flat_map(move |node| std::iter::repeat_n(node, self.tasks as usize))
    }
}

/// Whether these blocks, again and again, give every rank its node.
fn repeats(blocks: &[Block], node_of: &[u32]) -> bool {
    let claimed = blocks.iter().cycle().flat_map(|block| block.expanded());
    claimed.zip(node_of).all(|(claimed, &is)| claimed == is)
}

fn written(blocks: &[Block]) -> String {
    let mut text = "(vector".to_owned();
    for block in blocks {
        // Writing to a string cannot fail.
        let _ = write!(text, ",({},{},{})", block.first, block.nodes, block.tasks);
    }
    text + ")"
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ranks_of(node_of: &[u32]) -> Vec<Vec<u32>> {
        let nodes = node_of.iter().max().map_or(0, |n| n + 1);
        let of = |node| move |(_, at): &(u32, &u32)| **at == node;
        (0..nodes)
            .map(|node| {
                let all = (0..).zip(node_of);
                all.filter(of(node)).map(|(rank, _)| rank).collect()
            })
            .collect()
    }

    fn check(node_of: &[u32], expected: &str) {
        let got = process_mapping(&ranks_of(node_of), node_of.len() as u32);
        assert_eq!(got.as_deref(), Some(expected), "{node_of:?}");
    }

    #[test]
    fn mappings() {
        check(&[0], "(vector,(0,1,1))");
        check(&[0, 0, 1, 1, 2, 2, 3, 3], "(vector,(0,4,2))");
        check(&[0, 1, 2, 3, 0, 1, 2, 3], "(vector,(0,4,1))");
        check(&[0, 0, 1, 1, 0, 0, 1, 1], "(vector,(0,2,2))");
        // The last node has fewer.
        check(&[0, 0, 1, 1, 2], "(vector,(0,2,2),(2,1,1))");
        check(&[0, 0, 1], "(vector,(0,1,2),(1,1,1))");
        // Round the nodes, and some have one more.
        check(&[0, 1, 2, 0, 1], "(vector,(0,3,1))");
        check(&[0, 1, 2, 1, 2, 2], "(vector,(0,3,1),(1,1,1),(2,1,2))");
        check(&[1, 0, 1, 0], "(vector,(1,1,1),(0,2,1),(0,1,1))");
    }

    #[test]
    fn what_cannot_be_said() {
        assert_eq!(process_mapping(&[vec![0, 2]], 2), None);
        assert_eq!(process_mapping(&[vec![0]], 2), None);
        assert_eq!(process_mapping(&[vec![0], vec![0]], 2), None);
        assert_eq!(process_mapping(&[], 0), None);
        // No order in it, and more blocks than fit.
        let restless: Vec<u32> = (0_u32..4000).map(|n| n * n % 37 * (n % 5)).collect();
        assert_eq!(process_mapping(&ranks_of(&restless), 4000), None);
    }

    /// Reads a mapping as MPICH does.
    fn read(text: &str, tasks: usize) -> Vec<u32> {
        let inner = text.strip_prefix("(vector,(").unwrap();
        let inner = inner.strip_suffix("))").unwrap();
        let numbers =
            |block: &str| -> Vec<u32> { block.split(',').map(|n| n.parse().unwrap()).collect() };
        let blocks: Vec<Vec<u32>> = inner.split("),(").map(numbers).collect();
        let mut nodes = Vec::new();
        while nodes.len() < tasks {
            for block in &blocks {
                for node in block[0]..block[0] + block[1] {
                    nodes.extend(vec![node; block[2] as usize]);
                }
            }
        }
        nodes.truncate(tasks);
        nodes
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn what_is_written_is_what_is(node_of in proptest::collection::vec(0_u32..5, 1..60)) {
            let text = process_mapping(&ranks_of(&node_of), node_of.len() as u32);
            prop_assert_eq!(read(&text.unwrap(), node_of.len()), node_of);
        }
    }
}
