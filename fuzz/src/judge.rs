//! What a program that judges requests answers: it runs without rights, and its answers come to the
//! controller.
//!
//! Each piece is an answer; what it wants is done to a job and to a change of one.

use cosy_model::api::JobChange;
use cosy_model::{JobSpec, OsText, Program, User};
use cosy_rules::protocol;
use cosy_rules::{Requester, Subject, apply_to_change, asked_by};

/// Feeds one input of the fuzzer to the reader of answers.
pub fn run(bytes: &[u8]) {
    let user = User::default();
    let mut spec = JobSpec::plain("job", Program::Allocation, OsText::from("/"));
    let mut change = JobChange::default();
    for piece in crate::pieces(bytes) {
        let Ok(wanted) = protocol::decode(piece, 7) else {
            continue;
        };
        assert!(wanted.remarks.iter().all(|text| text.len() <= 1000));
        assert!(wanted.log.len() <= 200 && wanted.log.iter().all(|line| line.text.len() <= 1000));
        assert!(wanted.refuse.is_none_or(|text| text.len() <= 4000));
        protocol::set_variables(&mut spec.environment, &wanted.environment);
        for (name, value) in &wanted.environment {
            let there = protocol::variables(&spec.environment);
            assert_eq!(there.get(name), value.as_ref());
        }
        let mut subject = Subject {
            requester: Requester {
                request: "submit",
                user: &user,
                admin: false,
                default_queue: None,
            },
            spec: &mut spec,
            array: None,
            indices: None,
            environment: None,
            component: 0,
        };
        for (field, value) in wanted.set {
            let _ = subject.set(field, value.clone());
            let _ = apply_to_change(&mut change, field, value);
        }
        let _ = protocol::fields(&subject);
        let _ = asked_by(&change);
    }
}

/// Answers as programs give them.
pub fn seeds() -> Vec<Vec<u8>> {
    let all = [
        r#"{"id":7}"#,
        r#"{"id":7,"set":{"queue":"gpu","time_limit":"4h","nodes":2,"max_nodes":null},"remarks":["goes to gpu"]}"#,
        r#"{"id":7,"refuse":"no hours left","number":2050,"log":[{"level":"info","text":"x"}]}"#,
        r#"{"version":1,"id":7,"environment":{"A":"b","C":null},"script":"x"}"#,
        r#"{"id":7,"set":{"gpu_types":["a100:2"],"features":["a"],"any_features":["b&c"],"mail_types":["end","80"]}}"#,
        r#"{"id":7,"set":{"memory_per_node":"4G","begin":1,"exclusive":true},"failed":"x"}"#,
    ];
    let pieces: Vec<Vec<u8>> = all.iter().map(|text| text.as_bytes().to_vec()).collect();
    let mut seeds: Vec<Vec<u8>> = pieces.iter().map(|one| crate::joined(std::slice::from_ref(one))).collect();
    seeds.push(crate::joined(&pieces));
    seeds
}
