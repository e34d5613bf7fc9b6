//! `--gpus` without `--nodes`: as few nodes as have so many GPUs.
//!
//! A request names nodes, and what each of them is to have. So it is looked up what the
//! nodes of the partition have, and the GPUs are asked for in equal shares, rounded up.

use super::refusal;
use crate::Context;
use cosy_model::api::NodeInfo;
use cosy_slurm::submit::count::NodeCount;
use cosy_slurm::submit::gres::Amounts;
use cosy_slurm::submit::wishes::Wishes;

/// What may go to any node: so many pieces, each with GPUs and cores of one node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Pieces {
    count: u32,
    gpus: u32,
    cores: u32,
}

/// Asks for several nodes where one cannot have all the GPUs.
pub fn over_nodes(context: &Context, wishes: &mut Wishes) {
    let Some(pieces) = pieces(wishes) else {
        return;
    };
    let nodes = refusal::nodes(context);
    if let Some(nodes) = needed(wishes.partition.as_deref(), pieces, &nodes) {
        wishes.nodes = Some(NodeCount {
            least: nodes,
            most: nodes,
        });
    }
}

/// The GPUs of a job for which nothing says on how many nodes they are: one by one, or those
/// of a task together.
fn pieces(wishes: &Wishes) -> Option<Pieces> {
    let said = wishes.nodes.is_some()
        || wishes.tasks_per_node.is_some()
        || wishes.gpus_per_node.is_some()
        || wishes.gpus_per_socket.is_some()
        || wishes.gres.is_some();
    let count = |text: &Option<String>| Some(Amounts::read_gpus(text.as_deref()?).ok()?.gpus);
    let all = count(&wishes.gpus);
    let pieces = match count(&wishes.gpus_per_task).filter(|each| *each > 0) {
        Some(each) => Pieces {
            count: wishes.tasks.or(all.map(|all| all / each))?,
            gpus: each,
            cores: wishes.cores_per_task.unwrap_or(1).max(cores(wishes, each)),
        },
        None => Pieces {
            count: all?,
            gpus: 1,
            cores: cores(wishes, 1),
        },
    };
    (!said && pieces.count > 1).then_some(pieces)
}

fn cores(wishes: &Wishes, gpus: u32) -> u32 {
    wishes.cores_per_gpu.unwrap_or(0).saturating_mul(gpus)
}

/// How many nodes it takes; `None` for one, and where no node has room for a piece.
fn needed(partition: Option<&str>, pieces: Pieces, nodes: &[NodeInfo]) -> Option<u32> {
    let has = |node: &&NodeInfo| {
        partition.is_none_or(|list| list.split(',').any(|p| node.queues.iter().any(|q| q == p)))
    };
    let room = |node: &NodeInfo| {
        let by_cores = node.amounts.cores.checked_div(pieces.cores);
        (node.amounts.gpus / pieces.gpus).min(by_cores.unwrap_or(u32::MAX))
    };
    let most = nodes.iter().filter(has).map(room).max();
    let needed = pieces.count.div_ceil(most.filter(|n| *n > 0)?);
    Some(needed).filter(|n| *n > 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_few_nodes_as_have_them() {
        let node = |queue: &str, gpus: u32| {
            let mut node = NodeInfo::default();
            node.amounts.gpus = gpus;
            node.amounts.cores = 16;
            node.queues = vec![queue.to_owned()];
            node
        };
        let nodes = [node("main", 4), node("big", 8), node("cpu", 0)];
        let check = |partition: Option<&str>, count, gpus, cores, want: Option<u32>| {
            let pieces = Pieces { count, gpus, cores };
            let got = needed(partition, pieces, &nodes);
            assert_eq!(got, want, "{partition:?} {pieces:?}");
        };
        check(None, 8, 1, 0, None);
        check(None, 9, 1, 0, Some(2));
        check(Some("main"), 5, 1, 0, Some(2));
        check(Some("main"), 4, 1, 8, Some(2));
        check(Some("main"), 8, 1, 1, Some(2));
        check(Some("main"), 3, 3, 1, Some(3));
        check(Some("cpu"), 4, 1, 0, None);
        check(Some("main"), 4, 1, 32, None);
        check(Some("main,big"), 8, 1, 1, None);
    }

    #[test]
    fn what_nothing_puts_on_nodes() {
        let text = |t: &str| Some(t.to_owned());
        let of_job = Wishes {
            gpus: text("a100:5"),
            cores_per_gpu: Some(2),
            ..Wishes::default()
        };
        let pieces_of = |count, gpus, cores| Some(Pieces { count, gpus, cores });
        assert_eq!(pieces(&of_job), pieces_of(5, 1, 2));
        let of_tasks = Wishes {
            gpus_per_task: text("2"),
            tasks: Some(8),
            cores_per_task: Some(3),
            ..Wishes::default()
        };
        assert_eq!(pieces(&of_tasks), pieces_of(8, 2, 3));
        let both = Wishes {
            gpus_per_task: text("2"),
            gpus: text("8"),
            ..Wishes::default()
        };
        assert_eq!(pieces(&both), pieces_of(4, 2, 1));
        let said = Wishes {
            gpus_per_node: text("2"),
            ..of_job
        };
        assert_eq!(pieces(&said), None);
        assert_eq!(pieces(&Wishes::default()), None);
    }
}
