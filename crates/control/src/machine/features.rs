//! Features that are alternatives: which nodes a job may have, given that each node must
//! have one of several groups, or that all nodes must have the same one.
//!
//! The planner gets one set of nodes, and numbers of nodes by set. Of groups of which all
//! nodes must have the same one, that group is chosen which has most idle nodes when the job
//! is placed; a job that waits is placed anew about once a second.
//! Source: sbatch(1), `--constraint`.

use crate::machine::Machine;
use crate::machine::nodes::Node;
use cosy_model::job::ResourceRequest;
use cosy_model::{About, Refusal, RefusalCode};
use cosy_sched::{CountedNodes, NodeMask};
use std::collections::BTreeMap;

impl Machine {
    /// Takes nodes out of `allowed` that lack features.
    pub(crate) fn with_features(
        &self,
        request: &ResourceRequest,
        allowed: NodeMask,
    ) -> Result<NodeMask, Refusal> {
        self.check_features(request)?;
        let allowed = self.having(&allowed, std::slice::from_ref(&request.features));
        let allowed = match request.any_features.is_empty() {
            true => allowed,
            false => self.having(&allowed, &request.any_features),
        };
        if request.same_features.is_empty() {
            return Ok(allowed);
        }
        let sets = request.same_features.iter();
        let sets = sets.map(|group| self.having(&allowed, std::slice::from_ref(group)));
        let least = request.nodes.unwrap_or(1) as usize;
        // Enough nodes at all, then most idle ones, then the first.
        let rank = |set: &NodeMask| {
            let idle = set.iter().filter(|n| self.nodes[n.index()].is_idle());
            (set.count() as usize >= least, idle.count())
        };
        let mut best: Option<NodeMask> = None;
        for set in sets {
            if best.as_ref().is_none_or(|best| rank(&set) > rank(best)) {
                best = Some(set);
            }
        }
        Ok(best.unwrap_or(allowed))
    }

    /// The numbers of nodes by feature, out of `allowed`. A node that has not told its features
    /// yet may have them; it runs nothing before.
    pub(crate) fn counted(
        &self,
        request: &ResourceRequest,
        allowed: &NodeMask,
    ) -> Vec<CountedNodes> {
        let each = request.counted_features.iter().map(|counted| {
            let mut nodes = self.having(allowed, &counted.any);
            let untold = allowed.iter().filter(|n| self.nodes[n.index()].is_untold());
            untold.for_each(|n| nodes.insert(n));
            CountedNodes {
                nodes,
                count: counted.nodes,
            }
        });
        each.collect()
    }

    /// Those to take first because of their features.
    pub(crate) fn preferred(
        &self,
        request: &ResourceRequest,
        allowed: &NodeMask,
    ) -> Option<NodeMask> {
        let groups = Some(&request.prefer_features).filter(|groups| !groups.is_empty());
        groups.map(|groups| self.having(allowed, groups))
    }

    /// The nodes of each weight but the highest, the lightest first.
    pub(crate) fn by_weight(&self, allowed: &NodeMask) -> Vec<NodeMask> {
        let mut by_weight: BTreeMap<u32, NodeMask> = BTreeMap::new();
        for node in allowed.iter() {
            let weight = self.node(node).spec().weight;
            by_weight.entry(weight).or_default().insert(node);
        }
        by_weight.pop_last();
        by_weight.into_values().collect()
    }

    /// Refuses features that no node has, as far as all nodes have told.
    fn check_features(&self, request: &ResourceRequest) -> Result<(), Refusal> {
        let counted = request.counted_features.iter().flat_map(|c| &c.any);
        let groups = request.any_features.iter().chain(&request.same_features);
        let all = request.features.iter();
        let all = all.chain(groups.chain(counted).flatten());
        let all = all.map(|name| (name, About::Feature));
        let preferred = request.prefer_features.iter().flatten();
        let mut all = all.chain(preferred.map(|name| (name, About::Preference)));
        let nowhere =
            |(name, _): &(&String, About)| !self.nodes.iter().any(|n| n.features.contains(*name));
        let untold = self.nodes.iter().any(Node::is_untold);
        match all.find(nowhere) {
            Some((name, about)) if !untold => {
                let why = format!("no node has the feature '{name}'");
                Err(Refusal::new(RefusalCode::NeverFits, why).about(about))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Nodes that have all features of one of the groups.
    fn having(&self, among: &NodeMask, groups: &[Vec<String>]) -> NodeMask {
        let has =
            |group: &Vec<String>, n: cosy_model::NodeId| self.nodes[n.index()].has_features(group);
        let fits = among
            .iter()
            .filter(|n| groups.iter().any(|group| has(group, *n)));
        let mut nodes = NodeMask::new(self.nodes.len());
        fits.for_each(|n| nodes.insert(n));
        nodes
    }
}
