//! Changes of a job: what is not named stays as it is.

use super::*;

fn described(slots: &[(&str, i64)]) -> Description {
    let mut description = Description::default();
    for (name, number) in slots {
        description.put(name, Some(Slot::Number(*number)));
    }
    description
}

#[test]
fn a_change_takes_nothing_away() {
    let check = |before: &[(&str, i64)], after: &[(&str, i64)], want: Json| {
        let set = fields(&described(before), &described(after), true).unwrap();
        assert_eq!(Json::Object(set), want);
    };
    check(&[("time_limit", 5)], &[("time_limit", NO_VAL)], json!({}));
    check(&[("time_limit", NO_VAL)], &[("time_limit", 5)], json!({"time_limit": 300}));
    check(&[("num_tasks", 5)], &[("num_tasks", NO_VAL)], json!({}));
    check(
        &[("min_nodes", NO_VAL), ("max_nodes", NO_VAL)],
        &[("min_nodes", 2), ("max_nodes", 2)],
        json!({"nodes": 2}),
    );
    check(&[("priority", NO_VAL)], &[("priority", 0)], json!({"priority": 0}));
    let mut typed = Description::default();
    typed.put("tres_per_node", Some(Slot::Text("gres/gpu:a100:1".into())));
    let why = fields(&Description::default(), &typed, true).unwrap_err();
    assert!(why.contains("type of its GPUs"), "{why}");
}
