use super::*;
use cosy_model::Time;
use cosy_model::job::End;
use cosy_model::step::RankRun;

fn layout(nodes: u32, each: u32) -> StepLayout {
    StepLayout {
        nodes: (1..=nodes).map(|n| format!("n{n}")).collect(),
        ranks: (0..nodes)
            .map(|n| {
                vec![RankRun {
                    first: n * each,
                    count: each,
                    stride: 1,
                }]
            })
            .collect(),
        tasks: nodes * each,
        cores_per_task: 1,
    }
}

fn end(exit_code: i32, signal: i32, failure: Option<&str>) -> TaskEnd {
    TaskEnd {
        exit_code,
        signal,
        failure: failure.map(str::to_owned),
    }
}

fn node_end(cause: EndCause, peak: u64) -> NodeEnd {
    NodeEnd {
        end: End {
            peak_memory_bytes: peak,
            ..End::never_ran(cause, Time(0))
        },
        drain: None,
        starved: 0,
    }
}

#[test]
fn tasks_are_grouped() {
    let check = |ends: &[(u32, TaskEnd)], code: u8, want: &[&str]| {
        let mut all = Ends::new(layout(3, 2));
        for (rank, end) in ends {
            all.task_ended(*rank, end.clone());
        }
        assert_eq!(all.take_lines(), want);
        assert_eq!(all.code(), code);
        assert!(!all.has_lines());
    };
    check(&[(0, end(0, 0, None))], 0, &[]);
    check(&[(5, end(0, 9, None))], 137, &["n3: task 5: ended by signal 9 (SIGKILL)"]);
    check(
        &[
            (3, end(1, 0, None)),
            (0, end(1, 0, None)),
            (2, end(1, 0, None)),
            (4, end(7, 0, None)),
        ],
        7,
        &[
            "n[1-2]: tasks 0,2-3: exit code 1",
            "n3: task 4: exit code 7",
        ],
    );
    let cannot = |node| format!("cannot execute ./a.out on {node}: Permission denied");
    check(
        &[
            (0, end(127, 0, Some(&cannot("n1")))),
            (2, end(127, 0, Some(&cannot("n2")))),
        ],
        127,
        &["n[1-2]: tasks 0,2: cannot execute ./a.out: Permission denied"],
    );
    check(&[(99, end(1, 0, None))], 1, &["?: task 99: exit code 1"]);
    // It never ran, whatever its code says.
    check(&[(0, end(0, 0, Some("x")))], 1, &["n1: task 0: x"]);
}

#[test]
fn ten_thousand_tasks_make_one_line() {
    let mut ends = Ends::new(layout(100, 100));
    for rank in 0..10_000 {
        ends.task_ended(rank, end(1, 0, None));
    }
    assert_eq!(ends.take_lines(), ["n[1-100]: tasks 0-9999: exit code 1"]);
    for rank in (0..10_000).step_by(2) {
        ends.task_ended(rank, end(1, 0, None));
    }
    let lines = ends.take_lines();
    assert_eq!(lines.len(), 1);
    assert!(lines[0].len() < 200 && lines[0].contains("5000 in all"), "{lines:?}");
}

#[test]
fn what_came_first_decides() {
    let check = |before: Option<TaskEnd>, after: TaskEnd, code: u8| {
        let mut ends = Ends::new(layout(1, 2));
        if let Some(before) = before {
            ends.task_ended(0, before);
        }
        ends.kill_ordered();
        ends.task_ended(1, after);
        ends.kill_ordered();
        ends.task_ended(2, end(0, 15, None));
        assert_eq!(ends.code(), code);
    };
    check(Some(end(0, 9, None)), end(0, 15, None), 137);
    check(Some(end(2, 0, None)), end(200, 0, None), 2);
    // The user wanted its end: nothing had gone wrong before.
    check(None, end(0, 15, None), 143);
    check(None, end(200, 0, None), 200);
}

#[test]
fn in_the_words_of_slurm() {
    let check = |ended: &[(u32, TaskEnd)], code: u8, want: &[&str]| {
        let mut ends = Ends::new(layout(2, 2)).in_dialect(Dialect::Slurm);
        for (rank, end) in ended {
            ends.task_ended(*rank, end.clone());
            ends.kill_ordered();
        }
        assert_eq!(ends.take_lines(), want);
        assert_eq!(ends.code(), code);
    };
    check(&[(0, end(0, 0, None))], 0, &[]);
    check(
        &[
            (1, end(3, 0, None)),
            (2, end(3, 0, None)),
            (3, end(3, 0, None)),
        ],
        3,
        &[
            "error: n1: task 1: Exited with exit code 3",
            "error: n2: tasks 2-3: Exited with exit code 3",
        ],
    );
    check(
        &[(0, end(2, 0, None)), (1, end(0, 15, None))],
        143,
        &[
            "error: n1: task 0: Exited with exit code 2",
            "error: n1: task 1: Terminated",
        ],
    );
}

#[test]
fn nodes_end_once() {
    let mut ends = Ends::new(layout(3, 1));
    ends.node_ended(0, &node_end(EndCause::Exited, 0));
    ends.node_ended(0, &node_end(EndCause::Exited, 0));
    ends.node_ended(77, &node_end(EndCause::Exited, 0));
    assert!(!ends.all_over());
    assert_eq!(ends.code(), 0);
    ends.node_ended(1, &node_end(EndCause::OutOfMemory, 3 << 29));
    ends.lost(&[2], "no route");
    assert!(ends.all_over());
    assert_eq!(ends.code(), 1);
    assert_eq!(
        ends.take_lines(),
        [
            "n2: ended because it ran out of memory (peak 1.5G)",
            "n3: lost: no route"
        ]
    );
}

#[test]
fn one_reason_is_said_once() {
    let why = || "cannot execute ./x on n1: No such file or directory".to_owned();
    let mut ends = Ends::new(layout(2, 1));
    ends.task_ended(0, end(127, 0, Some(&why())));
    ends.node_ended(0, &node_end(EndCause::LaunchFailed(why()), 0));
    ends.node_ended(1, &node_end(EndCause::LaunchFailed("no memory".into()), 0));
    assert_eq!(
        ends.take_lines(),
        [
            "n1: task 0: cannot execute ./x: No such file or directory",
            "n2: the step could not be started: no memory"
        ]
    );
    assert_eq!(ends.code(), 127);
}

#[test]
fn what_the_command_did_itself_is_not_said() {
    let mut ends = Ends::new(layout(1, 1));
    ends.kill_ordered();
    ends.node_ended(0, &node_end(EndCause::Cancelled, 0));
    assert!(ends.take_lines().is_empty() && ends.all_over());
}
