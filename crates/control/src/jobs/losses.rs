//! Jobs that were lost with nodes: with which, how often, and from which they are kept.
//!
//! A node that a job was lost with may kill it again, and stands idle before others do. So the
//! job goes to other nodes for a while, unless none that are left would ever do, and inside of a
//! reservation, whose nodes are all that it may have. It is kept from them by what it asks for
//! ([`JobSpec::losses`]): where a job stands is worked out in one way, whatever it comes from.

pub(crate) mod procedures;

use crate::machine::Machine;
use cosy_model::job::{FailedNode, Losses};
use cosy_model::{JobSpec, Span, Time, limits};

/// A run that was lost with nodes.
#[derive(Debug)]
pub(crate) struct LostRun {
    /// Their names.
    pub nodes: Vec<String>,
    /// Its program had begun.
    pub had_begun: bool,
    /// What is said of it.
    pub words: String,
}

/// What a job asks for after it was lost once more. Where `avoids` is zero it may go anywhere.
fn after(spec: &JobSpec, lost: &LostRun, now: Time, avoids: Span) -> JobSpec {
    let mut losses = spec.losses.as_deref().cloned().unwrap_or_default();
    losses.count = losses.count.saturating_add(u32::from(lost.had_begun));
    for name in lost.nodes.iter().filter(|_| avoids > Span::ZERO) {
        losses.nodes.retain(|known| known.name != *name);
        losses.nodes.push(FailedNode {
            name: name.clone(),
            at: now,
        });
    }
    let many = losses.nodes.len().saturating_sub(limits::FAILED_NODES);
    losses.nodes.drain(..many);
    with(spec, losses)
}

/// What it asks for when it is kept from none any more with which it was lost long enough ago;
/// `None` where that changes nothing. A loss that is still to come was noted by a clock that was
/// wrong.
fn forgiven(spec: &JobSpec, now: Time, avoids: Span) -> Option<JobSpec> {
    let mut losses = spec.losses.as_deref()?.clone();
    let before = losses.nodes.len();
    losses
        .nodes
        .retain(|node| node.at <= now && now < node.at + avoids);
    (losses.nodes.len() != before).then(|| with(spec, losses))
}

fn with(spec: &JobSpec, losses: Losses) -> JobSpec {
    JobSpec {
        losses: Some(Box::new(losses)),
        ..spec.clone()
    }
}

/// When the next node is one that it may go to again.
pub(crate) fn next_forgiven(spec: &JobSpec, avoids: Span) -> Option<Time> {
    let nodes = &spec.losses.as_deref()?.nodes;
    nodes.iter().map(|node| node.at + avoids).min()
}

/// The same request of a job that was lost with none: for other nodes than those that it was lost
/// with. `None` where it was lost with none that there are.
pub(crate) fn elsewhere(machine: &Machine, spec: &JobSpec) -> Option<JobSpec> {
    let failed = spec.failed_nodes();
    let there = failed.filter(|name| machine.id_of(name).is_some());
    let failed: Vec<String> = there.map(str::to_owned).collect();
    if failed.is_empty() || spec.reservation.is_some() {
        return None;
    }
    let mut other = JobSpec {
        losses: None,
        ..spec.clone()
    };
    for request in other.requests_mut() {
        request.avoid.extend_from_slice(&failed);
    }
    Some(other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::{OsText, Program};

    fn lost(spec: &JobSpec, node: &str, at: i64) -> JobSpec {
        let lost = LostRun {
            nodes: vec![node.to_owned()],
            had_begun: true,
            words: String::new(),
        };
        after(spec, &lost, Time(at), Span(100))
    }

    fn names(spec: &JobSpec) -> Vec<&str> {
        spec.failed_nodes().collect()
    }

    #[test]
    fn nodes_are_forgiven_one_by_one() {
        let spec = JobSpec::plain("a", Program::Allocation, OsText::from("/"));
        assert_eq!(forgiven(&spec, Time(0), Span(100)), None);
        let spec = lost(&lost(&lost(&spec, "n1", 0), "n2", 10), "n1", 20);
        assert_eq!(names(&spec), ["n2", "n1"]);
        assert_eq!(spec.times_lost(), 3);
        assert_eq!(next_forgiven(&spec, Span(100)), Some(Time(110)));
        assert_eq!(forgiven(&spec, Time(109), Span(100)), None);
        let later = forgiven(&spec, Time(110), Span(100)).expect("one is forgiven");
        assert_eq!(names(&later), ["n1"]);
        // The clock went back: nobody is kept away for longer than it was to be.
        let back = forgiven(&spec, Time(15), Span(100)).expect("what is to come is not");
        assert_eq!(names(&back), ["n2"]);
    }

    #[test]
    fn so_many_are_remembered() {
        let mut spec = JobSpec::plain("a", Program::Allocation, OsText::from("/"));
        for n in 0..limits::FAILED_NODES + 5 {
            spec = lost(&spec, &format!("n{n}"), n as i64);
        }
        assert_eq!(names(&spec).len(), limits::FAILED_NODES);
        assert_eq!(names(&spec)[0], "n5");
    }
}
