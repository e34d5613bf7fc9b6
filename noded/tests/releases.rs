//! A controller of another release.

// In a test an unwrap is an assertion.
#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use cosy_model::node::*;
use cosy_proto::link::{Hello, HelloReply};
use cosy_proto::{frame, words};

#[test]
fn orders_of_a_later_release_are_passed_over() {
    let mut bench = Bench::started();
    let later = std::collections::BTreeMap::from([("dance", ["slowly"])]);
    for _ in 0..2 {
        bench.write_bytes(&frame::encode(&later, 1000).unwrap());
    }
    bench.write_bytes(&frame::encode(&"rest", 1000).unwrap());
    let job = bench.job(1, "exit 5");
    assert_eq!(bench.run(job).exit_code, 5);
    let log = bench.log();
    assert_eq!(log.matches("order 'dance' is not known").count(), 1, "{log}");
    assert_eq!(log.matches("order 'rest' is not known").count(), 1, "{log}");
}

#[test]
fn a_controller_is_not_told_what_it_does_not_know() {
    let mut bench = Bench::started();
    bench.hang_up();
    let (mut stream, hello) = bench.accept_hello();
    let Hello::Node { orders, .. } = hello else {
        panic!("{hello:?}");
    };
    assert_eq!(orders, words::names::<NodeOrder>());
    let mut known = words::names::<NodeReport>().to_vec();
    known.retain(|name| *name != "prepared");
    let welcome = HelloReply::Welcome {
        version: cosy_proto::PROTOCOL,
        reports: known.iter().map(|name| (*name).to_owned()).collect(),
        epoch: 0,
    };
    bench.reply(&mut stream, &welcome);
    bench.take_link(stream);
    assert!(matches!(bench.next_report(), NodeReport::Register { .. }));
    let mut holds = bench.allocation(1);
    bench.sign(&mut holds);
    let key = holds.key;
    bench.order(NodeOrder::Prepare(Box::new(holds)));
    let release = NodeOrder::Release {
        key,
        node: bench.name.clone(),
    };
    bench.order(release);
    let next = bench.next_report();
    assert!(matches!(next, NodeReport::Released { .. }), "{next:?}");
}
