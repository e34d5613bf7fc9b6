//! What the rules of reservations mean on a cluster, in words for who runs it.
//!
//! Knows the configuration alone: nodes that tell themselves what they have count as alike
//! where everything else that is configured is.

use super::judge::percent;
use crate::config::{ClusterConfig, Quotas, ReservationPolicy};
use cosy_model::{Amounts, NodeSpec};
use std::collections::BTreeSet;

/// Most classes of nodes that are named.
const CLASSES: usize = 8;

/// One line for the cluster's rules, with each class of nodes below, and one for each queue
/// that has rules of its own.
pub fn reservations_in_words(config: &ClusterConfig) -> Vec<String> {
    let cluster = &config.reservations;
    let mut lines = vec![format!("reservations: {}", rules(cluster))];
    if cluster.enabled
        && let Some(share) = cluster.per_user.share_ppm
    {
        lines.extend(classes(config, share));
    }
    let own = config.queue_reservations.iter();
    for (name, policy) in own.filter(|(_, policy)| *policy != cluster) {
        lines.push(format!("reservations in queue {name}: {}", rules(policy)));
    }
    lines
}

fn rules(policy: &ReservationPolicy) -> String {
    if !policy.enabled {
        return "only administrators can make some".to_owned();
    }
    let Quotas {
        open,
        share_ppm,
        license_share_ppm,
        longest,
        ahead,
        notice,
    } = &policy.per_user;
    let parts = [
        open.map(|n| format!("{n} at once")),
        longest.map(|span| format!("of at most {span}")),
        ahead.map(|span| format!("that start within {span}")),
        notice.map(|span| format!("not sooner than {span}")),
        share_ppm.map(share_in_words),
        license_share_ppm.map(license_share_in_words),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    match parts.is_empty() {
        true => "no quotas for users".to_owned(),
        false => format!("a user may have {}", parts.join(", ")),
    }
}

fn share_in_words(share_ppm: u32) -> String {
    match share_ppm {
        0 => "on no node at all (share = 0)".to_owned(),
        share => format!(
            "on {} of the nodes that are alike, and always on one whole node",
            percent(share)
        ),
    }
}

fn license_share_in_words(share_ppm: u32) -> String {
    match share_ppm {
        0 => "without licences (license_share = 0)".to_owned(),
        share => format!("with {} of each licence, and always with one", percent(share)),
    }
}

/// What a share is of each class of nodes: `n[1-4]: 1 of 4 nodes`.
fn classes(config: &ClusterConfig, share_ppm: u32) -> Vec<String> {
    let queues: Vec<Option<BTreeSet<&str>>> = config
        .queues
        .iter()
        .map(|q| Some(q.nodes.as_ref()?.iter().map(String::as_str).collect()))
        .collect();
    let mut classes: Vec<(Kind<'_>, Vec<String>)> = Vec::new();
    for node in &config.nodes {
        let kind = kind(&queues, node);
        match classes.iter().position(|(k, _)| *k == kind) {
            Some(at) => classes[at].1.push(node.name.clone()),
            None if classes.len() <= CLASSES => classes.push((kind, vec![node.name.clone()])),
            None => {}
        }
    }
    let more = classes.len() > CLASSES;
    let line = |(_, names): &(Kind<'_>, Vec<String>)| {
        let nodes = names.len() as u64;
        let tenths = match share_ppm {
            0 => 0,
            share => (nodes * u64::from(share) / 100_000).max(10),
        };
        let point = match tenths % 10 {
            0 => String::new(),
            rest => format!(".{rest}"),
        };
        let node = if nodes == 1 { "node" } else { "nodes" };
        format!("    {}: {}{point} of {nodes} {node}", cosy_model::fold(names), tenths / 10)
    };
    let mut lines: Vec<String> = classes.iter().take(CLASSES).map(line).collect();
    if more {
        lines.push("    and nodes of further kinds".to_owned());
    }
    lines
}

/// What makes nodes alike, as far as it is configured: amounts, features, queues by number.
type Kind<'a> = (Option<&'a Amounts>, &'a [String], Vec<usize>);

fn kind<'a>(queues: &[Option<BTreeSet<&str>>], node: &'a NodeSpec) -> Kind<'a> {
    let has = |nodes: &Option<BTreeSet<&str>>| match nodes {
        Some(names) => names.contains(node.name.as_str()),
        None => true,
    };
    let mine = queues.iter().enumerate().filter(|(_, nodes)| has(nodes));
    let mine = mine.map(|(at, _)| at).collect();
    (node.amounts.as_ref(), &node.features, mine)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::QueueSpec;

    #[test]
    fn the_default_is_told_in_nodes() {
        let node = |name: &str, cores| NodeSpec {
            name: name.to_owned(),
            amounts: Some(Amounts {
                cores,
                ..Amounts::default()
            }),
            ..NodeSpec::default()
        };
        let queue = QueueSpec {
            name: "day".to_owned(),
            ..QueueSpec::default()
        };
        let few = ["n1", "n2", "n3", "n4"].map(|name| node(name, 8));
        let many = (1..=16).map(|n| node(&format!("m{n}"), 64));
        let mut config = ClusterConfig {
            nodes: few.into_iter().chain(many).collect(),
            queues: vec![queue],
            ..ClusterConfig::default()
        };
        let told = |config: &ClusterConfig| reservations_in_words(config).join("\n");
        assert_eq!(
            told(&config),
            "reservations: a user may have 2 at once, of at most 2-00:00:00, that start within \
             14-00:00:00, on 20 % of the nodes that are alike, and always on one whole node\n    \
             n[1-4]: 1 of 4 nodes\n    m[1-16]: 3.2 of 16 nodes"
        );
        config.reservations.per_user.share_ppm = None;
        config.reservations.per_user.license_share_ppm = Some(500_000);
        let closed = ReservationPolicy {
            enabled: false,
            ..config.reservations.clone()
        };
        config.queue_reservations.insert("day".to_owned(), closed);
        assert_eq!(
            told(&config),
            "reservations: a user may have 2 at once, of at most 2-00:00:00, that start within \
             14-00:00:00, with 50 % of each licence, and always with one\nreservations in queue day: only administrators can make some"
        );
    }
}
