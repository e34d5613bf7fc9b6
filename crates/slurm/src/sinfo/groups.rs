//! The groups of nodes that `sinfo` shows in one line each: nodes of one partition that are
//! alike in what the columns show. Source: sinfo(1), `--exact`, `--Node`.

use super::fields::Field;
use super::options::Query;
use crate::node::{HeldFor, NodeState};
use cosy_model::api::{NodeInfo, QueueInfo};
use std::cmp::Ordering;

/// A node and its state.
#[derive(Clone, Copy, Debug)]
pub struct NodeWithState<'a> {
    /// The node itself.
    pub node: &'a NodeInfo,
    /// What it does, as `sinfo` distinguishes it.
    pub state: NodeState,
}

/// Nodes in one line.
#[derive(Clone, Debug)]
pub struct Group<'a> {
    /// Their partition; the first where the line is for several that look alike.
    pub partition: Option<&'a QueueInfo>,
    /// Place of the partition in the configuration.
    pub place: usize,
    /// The nodes, perhaps none.
    pub nodes: Vec<NodeWithState<'a>>,
}

/// Makes the groups. `nodes` are all nodes with whom they are held for, `named` those that
/// the command line names.
pub fn groups<'a>(
    query: &Query,
    shown: &[Field],
    partitions: &'a [QueueInfo],
    nodes: &'a [(NodeInfo, HeldFor)],
    named: Option<&[String]>,
) -> Vec<Group<'a>> {
    let chosen: Vec<NodeWithState<'a>> = nodes
        .iter()
        .map(|(node, held_for)| NodeWithState {
            node,
            state: NodeState::of(node, *held_for),
        })
        .filter(|known| wanted(query, known, named))
        .collect();
    let alike = Grouping::of(query, shown);
    let mut groups: Vec<Group<'a>> = Vec::new();
    for (place, partition) in partitions.iter().enumerate() {
        let name = &partition.spec.name;
        if !query.partitions.is_empty() && !query.partitions.contains(name) {
            continue;
        }
        let own = chosen.iter().filter(|k| k.node.queues.contains(name));
        let mut empty = true;
        for known in own {
            empty = false;
            join(&mut groups, &alike, place, partition, *known);
        }
        if empty && !query.by_node && !query.reasons {
            groups.push(Group {
                partition: Some(partition),
                place,
                nodes: Vec::new(),
            });
        }
    }
    groups
}

fn wanted(query: &Query, known: &NodeWithState<'_>, named: Option<&[String]>) -> bool {
    named.is_none_or(|names| names.contains(&known.node.name))
        && (query.states.is_empty() || query.states.iter().any(|f| f.contains(known.state)))
        && (!query.dead || known.state.is_silent())
        && (!query.responding || !known.state.is_silent())
        && (!query.reasons || !known.node.reason.is_empty())
}

fn join<'a>(
    groups: &mut Vec<Group<'a>>,
    alike: &Grouping,
    place: usize,
    partition: &'a QueueInfo,
    known: NodeWithState<'a>,
) {
    let fits = |g: &&mut Group<'a>| {
        let first = g.nodes.first();
        let same_place = !alike.partition || g.place == place;
        same_place && first.is_some_and(|f| alike.nodes(f, &known))
    };
    match groups.iter_mut().find(fits) {
        Some(group) if group.nodes.iter().any(|k| k.node.name == known.node.name) => {}
        Some(group) => group.nodes.push(known),
        None => groups.push(Group {
            partition: Some(partition),
            place,
            nodes: vec![known],
        }),
    }
}

/// In what the nodes of one line are alike.
struct Grouping {
    partition: bool,
    name: bool,
    exact: bool,
    shown: Vec<Field>,
}

impl Grouping {
    fn of(query: &Query, shown: &[Field]) -> Self {
        let of_partition = |f: &Field| {
            matches!(
                f,
                Field::Available
                    | Field::MaxCpusPerNode
                    | Field::Groups
                    | Field::OverSubscribe
                    | Field::JobFactor
                    | Field::TimeLimit
                    | Field::DefaultTime
                    | Field::PreemptMode
                    | Field::Tier
                    | Field::Partition
                    | Field::Root
                    | Field::PartitionName
                    | Field::JobSize
                    | Field::AllocNodes
            )
        };
        Self {
            partition: query.by_node || shown.iter().any(of_partition),
            name: query.by_node,
            exact: query.exact,
            shown: shown.to_vec(),
        }
    }

    fn nodes(&self, a: &NodeWithState<'_>, b: &NodeWithState<'_>) -> bool {
        if self.name && a.node.name != b.node.name {
            return false;
        }
        let same = |field: &Field| match field {
            Field::StateCompact | Field::StateLong | Field::StateComplete => a.state == b.state,
            Field::Features | Field::ActiveFeatures => a.node.features == b.node.features,
            Field::Gres => {
                a.node.amounts.gpus == b.node.amounts.gpus
                    && a.node.amounts.other == b.node.amounts.other
            }
            Field::GresUsed => a.node.used.gpus == b.node.used.gpus,
            Field::Reason => a.node.reason == b.node.reason,
            Field::Timestamp => a.node.reason_since == b.node.reason_since,
            Field::User | Field::UserLong => a.node.reason_by == b.node.reason_by,
            Field::HostNames => a.node.machine.host == b.node.machine.host,
            Field::NodeAddr => a.node.machine.address == b.node.machine.address,
            Field::Port => a.node.machine.port == b.node.machine.port,
            Field::Version => a.node.version == b.node.version,
            Field::Available
            | Field::NodesAi
            | Field::MaxCpusPerNode
            | Field::Cpus
            | Field::CpusState
            | Field::Disk
            | Field::Nodes
            | Field::FreeMemory
            | Field::NodesAiot
            | Field::Groups
            | Field::OverSubscribe
            | Field::JobFactor
            | Field::TimeLimit
            | Field::DefaultTime
            | Field::Memory
            | Field::PreemptMode
            | Field::NodeList
            | Field::CpuLoad
            | Field::Tier
            | Field::Partition
            | Field::Root
            | Field::PartitionName
            | Field::JobSize
            | Field::AllocNodes
            | Field::Cluster
            | Field::Weight
            | Field::Sockets
            | Field::Cores
            | Field::Threads
            | Field::Sct
            | Field::AllocMem
            | Field::Comment
            | Field::Extra => true,
        };
        self.shown.iter().all(same) && (!self.exact || a.node.amounts == b.node.amounts)
    }
}

/// A key of `--sort`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SortKey {
    /// Field that lines are compared by.
    pub field: Field,
    /// The other way round.
    pub turned: bool,
    /// As configured, not by name.
    pub configured: bool,
}

/// Partitions as configured, then states.
pub const USUAL: &str = "#P,-t";
/// Names of nodes.
pub const BY_NODE: &str = "N";
/// By the words of the reason, then by who gave it.
pub const REASONS: &str = "E,u";

/// Reads letters of `-o`, each perhaps with `+`, `-`, `#` before it.
///
/// # Errors
/// The rest from what is no key on.
pub fn read(text: &str) -> Result<Vec<SortKey>, String> {
    let mut keys = Vec::new();
    let (mut turned, mut configured) = (false, false);
    for (at, letter) in text.char_indices() {
        match letter {
            '-' => turned = true,
            '+' => turned = false,
            '#' => configured = true,
            ',' => {}
            letter => {
                let field = Field::of_letter(letter).ok_or_else(|| text[at..].to_owned())?;
                keys.push(SortKey {
                    field,
                    turned,
                    configured,
                });
                (turned, configured) = (false, false);
            }
        }
    }
    Ok(keys)
}

/// Sorts the groups; `text` gives what a column shows.
pub fn sort(
    groups: &mut [Group<'_>],
    keys: &[SortKey],
    text: impl Fn(Field, &Group<'_>) -> String,
) {
    for key in keys.iter().rev() {
        groups.sort_by(|a, b| {
            let order = compare(*key, a, b, &text);
            if key.turned { order.reverse() } else { order }
        });
    }
}

fn compare(
    key: SortKey,
    a: &Group<'_>,
    b: &Group<'_>,
    text: &impl Fn(Field, &Group<'_>) -> String,
) -> Ordering {
    match key.field {
        Field::Partition | Field::PartitionName if key.configured => a.place.cmp(&b.place),
        Field::StateCompact | Field::StateLong | Field::StateComplete => {
            let rank = |g: &Group<'_>| g.nodes.first().map(|k| k.state.rank());
            rank(a).cmp(&rank(b))
        }
        Field::NodeList | Field::HostNames => {
            let name = |g: &Group<'_>| natural(g.nodes.first().map_or("", |k| &k.node.name));
            name(a).cmp(&name(b))
        }
        Field::Nodes => a.nodes.len().cmp(&b.nodes.len()),
        field => {
            let (a, b) = (text(field, a), text(field, b));
            match (a.parse::<i64>(), b.parse::<i64>()) {
                (Ok(a), Ok(b)) => a.cmp(&b),
                (Ok(_) | Err(_), _) => a.cmp(&b),
            }
        }
    }
}

/// `n10` comes after `n9`.
fn natural(name: &str) -> (String, u64, String) {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let number = name[stem.len()..].parse().unwrap_or(0);
    (stem.to_owned(), number, name.to_owned())
}
