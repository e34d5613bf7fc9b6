//! What a PMIx server tells its library about a step: pure, from the layout.
//!
//! Source: the PMIx standard 4.1, "Server-specific interfaces", the lists of attributes
//! that a host is required to give to `PMIx_server_register_nspace`.

use super::key;
use super::words::Setup;
use cosy_model::step::StepLayout;

/// One thing that is known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fact {
    /// The attribute's name on the wire.
    pub key: &'static str,
    /// The value, in the kind that the standard gives it.
    pub value: FactValue,
}

/// A value by its type in the library.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FactValue {
    /// Text, which the library gets as a C string.
    Text(String),
    /// A truth value.
    Flag(bool),
    /// An unsigned number of 16 bits.
    U16(u16),
    /// An unsigned number of 32 bits.
    U32(u32),
    /// Number of a process in its namespace.
    Rank(u32),
    /// Names of nodes with commas, to be packed by the library.
    Nodes(String),
    /// Ranks of each node, nodes with semicolons, to be packed by the library.
    Ranks(String),
    /// Facts that belong together.
    Facts(Vec<Fact>),
}

const fn fact(key: &'static str, value: FactValue) -> Fact {
    Fact { key, value }
}

fn text(key: &'static str, value: impl Into<String>) -> Fact {
    fact(key, FactValue::Text(value.into()))
}

/// What the library is told at its start.
pub fn of_server(setup: &Setup) -> Vec<Fact> {
    let directory = setup.directory.lossy();
    vec![
        text(key::SERVER_TMPDIR, directory.clone()),
        text(key::SYSTEM_TMPDIR, directory),
        text(key::SERVER_NSPACE, format!("{}-server", setup.namespace)),
        fact(key::SERVER_RANK, FactValue::Rank(setup.node)),
        fact(key::SERVER_TOOL_SUPPORT, FactValue::Flag(false)),
        text(key::HOSTNAME, node_name(&setup.layout, setup.node)),
    ]
}

/// What tasks can ask about the step, its nodes and each other.
pub fn of_job(setup: &Setup) -> Vec<Fact> {
    let layout = &setup.layout;
    let apps = apps(setup);
    let mut all = of_all(setup, apps.len());
    all.extend(of_node(layout, setup.node));
    for node in 0..layout.nodes.len() as u32 {
        let mut facts = vec![
            text(key::HOSTNAME, node_name(layout, node)),
            fact(key::NODEID, FactValue::U32(node)),
        ];
        facts.extend(of_node(layout, node));
        all.push(fact(key::NODE_INFO_ARRAY, FactValue::Facts(facts)));
    }
    for (number, ranks) in (0u32..).zip(&apps) {
        all.push(fact(key::APP_INFO_ARRAY, FactValue::Facts(of_app(number, ranks))));
    }
    let place = places(&apps, layout.tasks);
    for node in 0..layout.nodes.len() as u32 {
        for (local, rank) in (0u16..).zip(layout.ranks_of(node)) {
            let (app, app_rank) = place.get(rank as usize).copied().unwrap_or_default();
            let task = Task {
                rank,
                local,
                node,
                app,
                app_rank,
            };
            all.push(fact(key::PROC_INFO_ARRAY, FactValue::Facts(of_task(setup, &task))));
        }
    }
    all
}

fn of_all(setup: &Setup, apps: usize) -> Vec<Fact> {
    let layout = &setup.layout;
    let directory = setup.directory.lossy();
    vec![
        text(key::JOBID, setup.job.clone()),
        fact(key::UNIV_SIZE, FactValue::U32(layout.tasks)),
        fact(key::JOB_SIZE, FactValue::U32(layout.tasks)),
        fact(key::MAX_PROCS, FactValue::U32(layout.tasks)),
        fact(key::JOB_NUM_APPS, FactValue::U32(apps as u32)),
        fact(key::NUM_NODES, FactValue::U32(layout.nodes.len() as u32)),
        fact(key::NODE_MAP, FactValue::Nodes(layout.nodes.join(","))),
        fact(key::PROC_MAP, FactValue::Ranks(proc_map(layout))),
        text(key::TMPDIR, directory.clone()),
        text(key::NSDIR, directory),
        fact(key::TDIR_RMCLEAN, FactValue::Flag(true)),
    ]
}

fn of_node(layout: &StepLayout, node: u32) -> [Fact; 4] {
    let ranks = layout.ranks_of(node);
    let count = ranks.len() as u32;
    [
        fact(key::LOCAL_SIZE, FactValue::U32(count)),
        fact(key::NODE_SIZE, FactValue::U32(count)),
        text(key::LOCAL_PEERS, listed(&ranks)),
        fact(key::LOCALLDR, FactValue::Rank(ranks.first().copied().unwrap_or_default())),
    ]
}

fn of_app(number: u32, ranks: &[u32]) -> Vec<Fact> {
    let leader = ranks.first().copied().unwrap_or_default();
    vec![
        fact(key::APPNUM, FactValue::U32(number)),
        fact(key::APP_SIZE, FactValue::U32(ranks.len() as u32)),
        fact(key::APPLDR, FactValue::Rank(leader)),
    ]
}

struct Task {
    rank: u32,
    local: u16,
    node: u32,
    app: u32,
    app_rank: u32,
}

fn of_task(setup: &Setup, task: &Task) -> Vec<Fact> {
    let mut all = vec![
        fact(key::RANK, FactValue::Rank(task.rank)),
        fact(key::GLOBAL_RANK, FactValue::Rank(task.rank)),
        fact(key::APPNUM, FactValue::U32(task.app)),
        fact(key::APP_RANK, FactValue::Rank(task.app_rank)),
        fact(key::LOCAL_RANK, FactValue::U16(task.local)),
        fact(key::NODE_RANK, FactValue::U16(task.local)),
        fact(key::NODEID, FactValue::U32(task.node)),
        text(key::HOSTNAME, node_name(&setup.layout, task.node)),
        fact(key::SPAWNED, FactValue::Flag(false)),
        fact(key::REINCARNATION, FactValue::U32(0)),
    ];
    if task.node == setup.node {
        let directory = format!("{}/{}", setup.directory.lossy(), task.rank);
        all.push(text(key::PROCDIR, directory));
    }
    all
}

fn node_name(layout: &StepLayout, node: u32) -> &str {
    layout.nodes.get(node as usize).map_or("", String::as_str)
}

/// `0,1;2,3`: ranks of the nodes in their order.
fn proc_map(layout: &StepLayout) -> String {
    let nodes: Vec<String> = (0..layout.nodes.len() as u32)
        .map(|node| listed(&layout.ranks_of(node)))
        .collect();
    nodes.join(";")
}

fn listed(ranks: &[u32]) -> String {
    let ranks: Vec<String> = ranks.iter().map(u32::to_string).collect();
    ranks.join(",")
}

/// Ranks of each program, ascending.
fn apps(setup: &Setup) -> Vec<Vec<u32>> {
    let last = setup.layout.tasks.saturating_sub(1);
    let ranks_of = |ranges: &Vec<(u32, u32)>| -> Vec<u32> {
        if ranges.is_empty() {
            return (0..setup.layout.tasks).collect();
        }
        let mut ranks: Vec<u32> = ranges
            .iter()
            .flat_map(|(from, to)| *from..=(*to).min(last))
            .collect();
        ranks.sort_unstable();
        ranks.dedup();
        ranks
    };
    setup.programs.iter().map(ranks_of).collect()
}

/// For each rank its program and its place among the program's ranks.
fn places(apps: &[Vec<u32>], tasks: u32) -> Vec<(u32, u32)> {
    let mut places: Vec<(u32, u32)> = (0..tasks).map(|rank| (0, rank)).collect();
    for (app, ranks) in (0u32..).zip(apps) {
        for (place, rank) in (0u32..).zip(ranks) {
            if let Some(entry) = places.get_mut(*rank as usize) {
                *entry = (app, place);
            }
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pmix::words::tests::setup;
    use cosy_model::step::RankRun;

    fn value<'a>(facts: &'a [Fact], key: &str) -> &'a FactValue {
        &facts.iter().find(|f| f.key == key).unwrap().value
    }

    fn tasks(facts: &[Fact]) -> Vec<&Vec<Fact>> {
        let all = facts.iter().filter(|f| f.key == key::PROC_INFO_ARRAY);
        all.map(|f| match &f.value {
            FactValue::Facts(facts) => facts,
            other => panic!("{other:?}"),
        })
        .collect()
    }

    /// Ranks 0 and 2 on n1, 1 and 3 on n2; seen from n2.
    fn cyclic() -> Setup {
        let mut setup = setup(2, 2, 1);
        setup.layout.ranks = [0, 1]
            .map(|first| {
                vec![RankRun {
                    first,
                    count: 2,
                    stride: 2,
                }]
            })
            .to_vec();
        setup
    }

    #[test]
    fn places_of_tasks() {
        let facts = of_job(&cyclic());
        assert_eq!(*value(&facts, key::PROC_MAP), FactValue::Ranks("0,2;1,3".to_owned()));
        assert_eq!(*value(&facts, key::NODE_MAP), FactValue::Nodes("n1,n2".into()));
        assert_eq!(*value(&facts, key::LOCAL_PEERS), FactValue::Text("1,3".into()));
        assert_eq!(*value(&facts, key::LOCALLDR), FactValue::Rank(1));
        let places: Vec<_> = tasks(&facts)
            .into_iter()
            .map(|t| {
                let directory = t.iter().find(|f| f.key == key::PROCDIR);
                let values = [key::RANK, key::NODEID, key::LOCAL_RANK].map(|k| value(t, k));
                (values.map(Clone::clone), directory.is_some())
            })
            .collect();
        let place = |rank, node, local, here| {
            let values = [
                FactValue::Rank(rank),
                FactValue::U32(node),
                FactValue::U16(local),
            ];
            (values, here)
        };
        let expected = [
            place(0, 0, 0, false),
            place(2, 0, 1, false),
            place(1, 1, 0, true),
            place(3, 1, 1, true),
        ];
        assert_eq!(places, expected);
    }

    #[test]
    fn programs_of_tasks() {
        let check = |programs: &[Vec<(u32, u32)>], expected: [(u32, u32); 4]| {
            let mut setup = cyclic();
            setup.programs = programs.to_vec();
            let apps = apps(&setup);
            assert_eq!(places(&apps, 4), expected, "{programs:?}");
        };
        check(&[vec![]], [(0, 0), (0, 1), (0, 2), (0, 3)]);
        let two = [vec![(1, 2)], vec![(0, 0), (3, 3)]];
        check(&two, [(1, 0), (0, 0), (0, 1), (1, 1)]);
        // What cannot be is cut: such a step is refused elsewhere.
        check(&[vec![(2, u32::MAX)]], [(0, 0), (0, 1), (0, 0), (0, 1)]);
    }
}
