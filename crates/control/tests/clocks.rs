//! Clocks of nodes that are wrong.

mod world;

use cosy_model::node::*;
use cosy_model::*;
use world::*;

/// A node whose clock is behind tells a start long before its job had its nodes, one whose
/// clock is ahead a start that is still to come: both are taken for what they can be.
#[test]
fn a_start_lies_between_the_allocation_and_now() {
    for ahead in [-1200, 365 * 86_400] {
        let mut world = World::new(config(1, 4));
        world.run_time = Span::from_secs(1_000_000);
        let job = world.submit(spec("long"));
        world.deliver_all();
        let report = NodeReport::Started {
            key: AttemptKey {
                job: JobId(job),
                attempt: Attempt(1),
            },
            node: "n1".to_owned(),
            at: world.now + Span::from_secs(ahead),
        };
        let now = world.now;
        world.report(0, report);
        world.pass(20);
        assert_eq!(world.queue(), "1:running", "ahead by {ahead} s");
        let run = world.store.row(job).run.as_ref();
        assert_eq!(run.and_then(|run| run.started), Some(now), "{ahead}");
    }
}
