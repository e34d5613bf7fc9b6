//! Whom an exchange concerns: pure.

use super::abi::RANK_WILDCARD;
use super::callbacks::Member;
use super::words::Setup;
use std::collections::BTreeSet;

/// Where those who take part in an exchange are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// On this node alone.
    Here,
    /// On every node of the step.
    Everywhere,
    /// On some of its nodes, or in another step: there is no exchange for these.
    Partly,
}

/// The scope of an exchange between these members.
pub fn of(who: &[Member], setup: &Setup) -> Scope {
    if who.is_empty()
        || who
            .iter()
            .any(|m| m.namespace != setup.namespace.as_bytes())
    {
        return Scope::Partly;
    }
    let layout = &setup.layout;
    let nodes = layout.nodes.len() as u32;
    let all = who.iter().any(|m| m.rank == RANK_WILDCARD);
    let ranks: BTreeSet<u32> = who.iter().map(|m| m.rank).collect();
    let concerned = |node: u32| all || layout.ranks_of(node).iter().any(|r| ranks.contains(r));
    let others = (0..nodes).filter(|node| *node != setup.node);
    match others.filter(|node| concerned(*node)).count() as u32 {
        0 => Scope::Here,
        n if n == nodes.saturating_sub(1) => Scope::Everywhere,
        _ => Scope::Partly,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pmix::words::tests::setup;

    #[test]
    fn of_exchanges() {
        // Ranks 0 and 1 on node 0, 2 and 3 on node 1, 4 and 5 on node 2.
        let check = |namespace: &str, ranks: &[u32], node: u32, nodes: u32, expected: Scope| {
            let member = |rank: &u32| Member {
                namespace: namespace.into(),
                rank: *rank,
            };
            let who: Vec<Member> = ranks.iter().map(member).collect();
            let found = of(&who, &setup(nodes, 2, node));
            assert_eq!(found, expected, "{namespace} {ranks:?} at {node} of {nodes}");
        };
        check("cosy-test", &[RANK_WILDCARD], 0, 1, Scope::Here);
        check("cosy-test", &[RANK_WILDCARD], 0, 3, Scope::Everywhere);
        check("cosy-test", &[0, 1, 2, 3, 4, 5], 1, 3, Scope::Everywhere);
        check("cosy-test", &[1, 2, 5], 1, 3, Scope::Everywhere);
        check("cosy-test", &[2, 3], 1, 3, Scope::Here);
        check("cosy-test", &[2, 4], 1, 3, Scope::Partly);
        check("another", &[RANK_WILDCARD], 0, 3, Scope::Partly);
        check("cosy-test", &[], 0, 3, Scope::Partly);
    }
}
