//! How a step fans out: the nodes below one are cut into at most [`FAN_OUT`] parts, each
//! started by its first node, which goes on in the same way. Pure.

/// Most children of a node.
pub const FAN_OUT: usize = 16;

/// The parts below a node: `below` cut into at most [`FAN_OUT`] runs of nearly the same
/// length, in order.
pub fn split(below: &[u32]) -> Vec<Vec<u32>> {
    let parts = below.len().min(FAN_OUT);
    (0..parts)
        .map(|at| {
            let (from, to) = (below.len() * at / parts, below.len() * (at + 1) / parts);
            below[from..to].to_vec()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn depth(below: &[u32]) -> usize {
        let parts = split(below);
        assert!(parts.len() <= FAN_OUT && parts.iter().all(|p| !p.is_empty()));
        assert_eq!(parts.concat(), below);
        parts.iter().map(|p| 1 + depth(&p[1..])).max().unwrap_or(0)
    }

    #[test]
    fn everybody_is_reached_in_few_hops() {
        for (nodes, hops) in [
            (0, 0),
            (1, 1),
            (16, 1),
            (17, 2),
            (272, 2),
            (1000, 3),
            (4000, 3),
        ] {
            let below: Vec<u32> = (0..nodes).collect();
            assert_eq!(depth(&below), hops, "{nodes}");
        }
    }
}
