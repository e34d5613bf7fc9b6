//! Laws of all graphs that are drawn.
#![allow(clippy::unwrap_used)] // tests

use super::*;
use proptest::prelude::*;

fn kinds() -> impl Strategy<Value = GraphKind> {
    prop::sample::select(GraphKind::ALL.to_vec())
}

/// One task without parents and one without children, each edge once and upwards.
fn is_sound(shape: &Shape) {
    let count = shape.count();
    let (mut parents, mut children) = (vec![0; count], vec![0; count]);
    let mut seen = std::collections::BTreeSet::new();
    for &(from, to) in &shape.edges {
        assert!(from < to && to < count, "{from} to {to}");
        assert!(seen.insert((from, to)), "{from} to {to} twice");
        parents[to] += 1;
        children[from] += 1;
    }
    assert_eq!(parents.iter().filter(|n| **n == 0).count(), 1);
    assert_eq!(children.iter().filter(|n| **n == 0).count(), 1);
    let names: std::collections::BTreeSet<_> = shape.names.iter().collect();
    assert_eq!(names.len(), count);
}

/// How many tasks each level has.
fn widths(shape: &Shape) -> Vec<usize> {
    let levels = shape.levels();
    let mut widths = vec![0; levels.iter().max().unwrap() + 1];
    levels.into_iter().for_each(|level| widths[level] += 1);
    widths
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn shapes(kind in kinds(), tasks in LEAST_TASKS..2000, seed: u64) {
        let shape = kind.shape(tasks, seed);
        is_sound(&shape);
        let far = match kind {
            GraphKind::Random => 0,
            // An image more or less.
            GraphKind::Montage => 5,
            // As large as a fan, or a row of the square.
            GraphKind::ForkJoin | GraphKind::Laplace => tasks.isqrt() * 2,
            // From one power of two to the next.
            GraphKind::Fft => tasks / 2,
        };
        prop_assert!(shape.count().abs_diff(tasks) <= far, "{} for {tasks}", shape.count());
    }

    #[test]
    fn levels_of_random_graphs(tasks in LEAST_TASKS..500, seed: u64) {
        let shape = GraphKind::Random.shape(tasks, seed);
        let widths = widths(&shape);
        let inner = &widths[1..widths.len() - 1];
        prop_assert_eq!((widths[0], widths[widths.len() - 1]), (1, 1));
        prop_assert_eq!(inner.iter().sum::<usize>(), tasks - 2);
        let mut left = tasks - 2;
        for wide in inner {
            // Half of the rest, and what would be too little for another level.
            prop_assert!(*wide >= 2 && *wide <= (left / 2).max(2) + 1, "{wide} of {left}");
            left -= wide;
        }
        let levels = shape.levels();
        for (from, to) in &shape.edges {
            prop_assert_eq!(levels[*from] + 1, levels[*to]);
        }
    }

    #[test]
    fn costs(kind in kinds(), machines in 1usize..8, ratio in 100u32..1000, seed: u64) {
        let settings = GraphSettings { machines, ratio: Some(ratio), ..GraphSettings::usual(kind, seed) };
        let graph = settings.generate();
        prop_assert_eq!(&graph, &settings.generate());
        let least = if kind == GraphKind::Montage { 50_000 } else { 10_000 };
        let all: Vec<i64> = graph.estimates_ms.iter().flatten().flatten().copied().collect();
        prop_assert_eq!(all.len(), graph.count() * machines);
        prop_assert!(all.iter().all(|ms| (least..=100_000).contains(ms)));
        let (_, planned) = graph.planned().unwrap();
        let pairs = (0..machines).flat_map(|a| (0..machines).map(move |b| (a, b)));
        let pairs: Vec<_> = pairs.filter(|(a, b)| a != b).collect();
        let carried = graph.edges.iter().flat_map(|(_, _, data)| {
            pairs.iter().map(|(a, b)| planned.transfer_ms(*data, *a, *b))
        });
        let mean = |all: &[i64]| all.iter().sum::<i64>() as f64 / all.len().max(1) as f64;
        let carried: Vec<i64> = carried.collect();
        if machines > 1 {
            let got = mean(&carried) / mean(&all) * 1000.0 / f64::from(ratio);
            prop_assert!((0.8..1.2).contains(&got), "{got} times the ratio");
        }
    }

    #[test]
    fn files(kind in kinds(), tasks in LEAST_TASKS..200, seed: u64) {
        let settings = GraphSettings { tasks, ..GraphSettings::usual(kind, seed) };
        let graph = settings.generate();
        prop_assert_eq!(graph_file::read(&graph_file::write(&graph, &settings.options())).unwrap(), graph);
    }

    #[test]
    fn texts_that_are_no_graphs(text in "\\PC*") {
        prop_assert!(graph_file::read(&text).is_err());
    }
}

#[test]
fn sizes_and_levels() {
    let check = |kind: GraphKind, tasks: usize, count: usize, want: &[usize]| {
        let shape = kind.shape(tasks, 1);
        assert_eq!((shape.count(), widths(&shape).as_slice()), (count, want), "{kind:?}");
    };
    let montage = [1, 12, 26, 1, 1, 12, 1, 1, 1, 1];
    check(GraphKind::Montage, 57, 57, &montage);
    let fans = [1, 10, 1, 9, 1, 8, 1, 7, 1, 6, 1, 5, 1, 4, 1, 3, 1];
    check(GraphKind::ForkJoin, 60, 61, &fans);
    check(GraphKind::Fft, 60, 66, &[1, 16, 16, 16, 16, 1]);
    check(GraphKind::Laplace, 60, 64, &[1, 2, 3, 4, 5, 6, 7, 8, 7, 6, 5, 4, 3, 2, 1]);
}

#[test]
fn what_files_must_not_hold() {
    let check = |units: &str, tasks: &str, edges: &str, words: &str| {
        let text = format!(
            r#"{{"format": "cosy-dag-1", "unit_us": {units}, "tasks": {tasks}, "edges": {edges}}}"#
        );
        let error = graph_file::read(&text).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    };
    let (units, tasks) =
        ("[[0]]", r#"[{"name": "a", "estimates_ms": [1]}, {"name": "b", "estimates_ms": [1]}]"#);
    check(units, "[]", "[]", "there are no tasks");
    check("[[0, 1]]", tasks, "[]", "a row and a column");
    check("[]", tasks, "[]", "a row and a column");
    check("[[0, 1], [1, 0]]", tasks, "[]", "one for each machine");
    check(units, r#"[{"name": "a", "estimates_ms": [null]}]"#, "[]", "'a' can run on no machine");
    check(units, r#"[{"name": "a", "estimates_ms": [-1]}]"#, "[]", "task 'a'");
    check(
        units,
        r#"[{"name": "a", "estimates_ms": [1]}, {"name": "a", "estimates_ms": [1]}]"#,
        "[]",
        "two tasks are called 'a'",
    );
    check(units, tasks, r#"[{"from": "a", "to": "c", "data": 1}]"#, "there is no task 'c'");
    check(units, tasks, r#"[{"from": "a", "to": "b", "data": -1}]"#, "no negative data");
    let cycle = r#"[{"from": "a", "to": "b", "data": 1}, {"from": "b", "to": "a", "data": 1}]"#;
    check(units, tasks, cycle, "wait for each other: ");
    check(units, tasks, "7", "line 1");
    let other = r#"{"format": "dot", "unit_us": [], "tasks": [], "edges": []}"#;
    let error = graph_file::read(other).unwrap_err().to_string();
    assert!(error.contains("'dot'"), "{error}");
}
