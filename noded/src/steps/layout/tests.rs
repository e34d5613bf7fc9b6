use super::*;
use crate::steps::fixture::{part, spec};
use proptest::prelude::*;

fn shape(parts: &[JobPart]) -> JobShape<'_> {
    JobShape {
        job: JobId(12),
        parts,
        cores_per_task: 1,
    }
}

fn parts(cores: &[u32]) -> Vec<JobPart> {
    let named = cores.iter().enumerate();
    named
        .map(|(at, c)| part(&format!("n{}", at + 1), *c))
        .collect()
}

/// Lays out on idle nodes with so many cores; gives `n1:0-1 n2:2`-like text or the error.
fn check(cores: &[u32], change: impl FnOnce(&mut StepSpec), expected: &str) {
    let (parts, mut spec) = (parts(cores), spec());
    change(&mut spec);
    let held = vec![NodeUse::default(); parts.len()];
    let got = match place(shape(&parts), &held, &spec) {
        Ok(placed) => text(&placed.layout),
        Err(e) => e.to_string(),
    };
    assert_eq!(got, expected);
}

fn text(layout: &StepLayout) -> String {
    let nodes = layout.nodes.iter().zip(0..);
    let all: Vec<String> = nodes
        .map(|(name, at)| {
            let ranks: Vec<String> = layout.ranks_of(at).iter().map(u32::to_string).collect();
            format!("{name}:{}", ranks.join(","))
        })
        .collect();
    all.join(" ")
}

#[test]
fn gpus_by_place_are_on_all_nodes_of_the_step() {
    let check = |gpus: &[u32], bind: &str, nodes: Option<u32>, expected: Result<&str, &str>| {
        let mut parts = parts(&vec![2; gpus.len()]);
        parts
            .iter_mut()
            .zip(gpus)
            .for_each(|(part, gpus)| part.gpus = *gpus);
        let mut spec = spec();
        (spec.nodes, spec.gpu_bind) = (nodes, bind.parse().unwrap());
        let early = crate::steps::check::gpus_by_place(&spec, &parts);
        let held = vec![NodeUse::default(); parts.len()];
        let got = early.and_then(|()| match place(shape(&parts), &held, &spec) {
            Ok(placed) => Ok(text(&placed.layout)),
            Err(e) => Err(e.to_string()),
        });
        assert_eq!(got.as_deref().map_err(String::as_str), expected, "{bind}");
    };
    check(&[2, 1], "map_gpu:1", Some(1), Ok("n1:0"));
    check(&[2, 2], "mask_gpu:0x3", Some(2), Ok("n1:0 n2:1"));
    let late = "a task is to see GPU 1, counted from 0 among those of the step; on n2 it has 1 GPU";
    check(&[2, 1], "map_gpu:1", Some(2), Err(late));
    let early =
        "a task is to see GPU 2, counted from 0 among those of the step, which has 2 on a node";
    check(&[2, 1], "map_gpu:2", Some(1), Err(early));
    check(&[0], "closest", Some(1), Ok("n1:0"));
}

#[test]
fn tasks_one_by_one() {
    let at = |places: &[(&str, u32)]| -> Vec<(String, u32)> {
        places.iter().map(|(n, c)| ((*n).to_owned(), *c)).collect()
    };
    let check = |cores: &[u32], places: &[(&str, u32)], overcommit, expected: &str| {
        let places = at(places);
        check(cores, |s| (s.places, s.overcommit) = (places, overcommit), expected);
    };
    let round = &[("n3", 1), ("n1", 1), ("n2", 1)];
    check(&[2, 2, 2], round, false, "n1:1 n2:2 n3:0");
    let mixed = &[("n2", 1), ("n1", 3), ("n2", 2)];
    check(&[4, 4, 4], mixed, false, "n1:1,2,3 n2:0,4,5");
    check(&[2, 4], mixed, true, "n1:1,2,3 n2:0,4,5");
    let full = "3 tasks are to be on node n1, which has room for 2";
    check(&[2, 4], mixed, false, full);
    let other = "node n9 is not of job 12, which has n1";
    check(&[2], &[("n9", 1)], false, other);
    check(&[2], &[("n1", 0)], false, "a step needs at least one task");
    let many = "4294967295 tasks are more than a step may have (1000000)";
    check(&[2], &[("n1", u32::MAX), ("n1", 9)], true, many);
}

#[test]
fn tasks_and_nodes() {
    check(&[2, 2], |s| s.tasks = Some(3), "n1:0,1 n2:2");
    check(&[4, 4], |s| s.tasks = Some(3), "n1:0,1,2");
    check(&[4, 4], |s| s.nodes = Some(2), "n1:0 n2:1");
    check(&[4, 4], |_| {}, "n1:0 n2:1");
    check(&[4, 4], |s| s.tasks_per_node = Some(2), "n1:0,1 n2:2,3");
    check(&[4, 4], |s| (s.tasks, s.nodes) = (Some(4), Some(2)), "n1:0,1,2 n2:3");
    check(&[1, 4, 4], |s| (s.tasks, s.nodes) = (Some(8), Some(2)), "n2:0,1,2,3 n3:4,5,6,7");
}

#[test]
fn more_tasks_than_cores() {
    let over = |tasks, nodes| {
        move |s: &mut StepSpec| {
            (s.overcommit, s.overlap) = (true, true);
            (s.tasks, s.nodes) = (tasks, nodes);
        }
    };
    check(&[2], over(Some(5), None), "n1:0,1,2,3,4");
    check(&[1, 1], over(Some(6), Some(2)), "n1:0,1,2 n2:3,4,5");
    check(&[4, 4], over(Some(3), None), "n1:0,1,2");
    // What does not fit goes evenly to all.
    check(&[2, 1], over(Some(7), Some(2)), "n1:0,1,2,3 n2:4,5,6");
    check(
        &[1, 1],
        |s| {
            over(Some(6), Some(2))(s);
            s.tasks_per_node = Some(2);
        },
        "6 tasks of 1 core need 6 cores; job 12 has 2 on 2 nodes (n1: 1, n2: 1)",
    );
}

#[test]
fn distributions() {
    let cyclic = |s: &mut StepSpec| s.distribution = Distribution::Cyclic;
    check(
        &[2, 3],
        |s| {
            cyclic(s);
            s.tasks = Some(5);
        },
        "n1:0,2 n2:1,3,4",
    );
    check(
        &[4, 4],
        |s| {
            s.distribution = Distribution::Plane(2);
            (s.tasks, s.nodes) = (Some(7), Some(2));
        },
        "n1:0,1,4,5 n2:2,3,6",
    );
    check(
        &[4, 4],
        |s| {
            cyclic(s);
            s.tasks = Some(1);
        },
        "n1:0",
    );
}

#[test]
fn required_and_avoided() {
    check(&[2, 2], |s| s.require = vec!["n2".into()], "n1:0 n2:1");
    check(&[2, 2], |s| (s.tasks, s.require) = (Some(1), vec!["n2".into()]), "n2:0");
    check(&[2, 2], |s| s.avoid = vec!["n1".into()], "n2:0");
    check(&[2, 2], |s| s.require = vec!["n9".into()], "node n9 is not of job 12, which has n[1-2]");
    check(
        &[2],
        |s| s.avoid = vec!["n1".into()],
        "no node of job 12 is left for the step: all are to be avoided",
    );
}

#[test]
fn refusals_name_figures() {
    check(
        &[4, 4],
        |s| (s.tasks, s.cores_per_task) = (Some(8), Some(2)),
        "8 tasks of 2 cores need 16 cores; job 12 has 8 on 2 nodes (n1: 4, n2: 4)",
    );
    check(
        &[3, 3],
        |s| (s.tasks, s.cores_per_task) = (Some(3), Some(2)),
        "3 tasks of 2 cores need 6 cores; job 12 has room for 2 such tasks on 2 nodes (n1: 1, n2: 1)",
    );
    check(&[4], |s| s.nodes = Some(2), "the step asks for 2 nodes; job 12 has 1");
    check(
        &[4, 4],
        |s| (s.tasks, s.nodes) = (Some(1), Some(2)),
        "1 task cannot be on 2 nodes: each node of a step has a task",
    );
    check(&[4], |s| s.tasks = Some(0), "a step needs at least one task");
    check(
        &[4],
        |s| s.gpus_per_node = Some(1),
        "1 task of 1 core need 1 core, 1 GPU on each node; job 12 has room for 0 such tasks on 1 node (n1: 0)",
    );
}

#[test]
fn what_steps_hold_is_not_given_twice() {
    let parts = parts(&[2, 2]);
    let mut spec = spec();
    spec.tasks = Some(2);
    let held = [
        NodeUse {
            cores: 1,
            ..NodeUse::default()
        },
        NodeUse::default(),
    ];
    let placed = place(shape(&parts), &held, &spec).unwrap();
    assert_eq!(text(&placed.layout), "n1:0 n2:1");
    spec.tasks = Some(4);
    assert_eq!(
        place(shape(&parts), &held, &spec),
        Err(DoesNotFit::NotNow("other steps of job 12 hold 1 of its 4 cores".into()))
    );
    spec.overlap = true;
    let placed = place(shape(&parts), &held, &spec).unwrap();
    assert_eq!(text(&placed.layout), "n1:0,1 n2:2,3");
    assert_eq!(placed.takes, []);
}

fn any_distribution() -> impl Strategy<Value = Distribution> {
    prop_oneof![
        Just(Distribution::Block),
        Just(Distribution::Cyclic),
        (0u32..5).prop_map(Distribution::Plane),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever is asked: every rank is somewhere once, no node has more than it has, and
    /// options are kept; what is refused for good would not fit by count either.
    #[test]
    fn layouts_keep_their_promises(
        nodes in proptest::collection::vec((0u32..6, 0u32..6, 0u32..3), 1..6),
        tasks in proptest::option::of(0u32..12),
        count in proptest::option::of(0u32..6),
        per_node in proptest::option::of(1u32..4),
        cores_per_task in 1u32..3,
        gpus_per_task in 0u32..2,
        distribution in any_distribution(),
        require in proptest::collection::vec(0usize..6, 0..2),
        avoid in proptest::collection::vec(0usize..6, 0..2),
    ) {
        let mut parts = parts(&nodes.iter().map(|n| n.0).collect::<Vec<_>>());
        for (part, node) in parts.iter_mut().zip(&nodes) {
            part.gpus = node.2;
        }
        let held: Vec<NodeUse> = nodes.iter().map(|n| NodeUse { cores: n.1.min(n.0), ..NodeUse::default() }).collect();
        let names = |all: Vec<usize>| all.into_iter().map(|n| format!("n{}", n + 1)).collect::<Vec<_>>();
        let mut spec = spec();
        spec.tasks = tasks;
        spec.nodes = count;
        spec.tasks_per_node = per_node;
        spec.cores_per_task = Some(cores_per_task);
        spec.gpus_per_task = gpus_per_task;
        spec.distribution = distribution;
        spec.require = names(require);
        spec.avoid = names(avoid);
        let Ok(placed) = place(shape(&parts), &held, &spec) else { return Ok(()) };
        let layout = &placed.layout;
        let mut ranks: Vec<u32> = (0..layout.nodes.len() as u32).flat_map(|n| layout.ranks_of(n)).collect();
        ranks.sort_unstable();
        prop_assert_eq!(&ranks, &(0..layout.tasks).collect::<Vec<_>>());
        prop_assert!(tasks.is_none_or(|t| t == layout.tasks));
        prop_assert!(count.is_none_or(|n| n as usize == layout.nodes.len()));
        prop_assert!(spec.require.iter().all(|n| layout.nodes.contains(n)));
        prop_assert!(!spec.avoid.iter().any(|n| layout.nodes.contains(n)));
        prop_assert_eq!(placed.takes.len(), layout.nodes.len());
        for (at, (place, takes)) in placed.takes.iter().enumerate() {
            let here = layout.count_of(at as u32);
            prop_assert_eq!(&parts[*place].peer.node, &layout.nodes[at]);
            prop_assert!(here > 0 && per_node.is_none_or(|most| here <= most));
            prop_assert!(takes.cores == here * cores_per_task);
            prop_assert!(takes.cores + held[*place].cores <= parts[*place].cores);
            prop_assert!(takes.gpus == here * gpus_per_task && takes.gpus <= parts[*place].gpus);
        }
    }
}
