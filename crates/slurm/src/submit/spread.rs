//! Numbers of nodes that depend on what the nodes are: `--gpus` without `--nodes` takes as few
//! as have so many GPUs, `--spread-job` as many as have room for a task now.
//!
//! A request of Cosy has a number of nodes with equal shares. So the nodes of the partition are
//! looked up, and the GPUs are requested in equal shares, rounded up.

use super::count::NodeCount;
use super::gres::Amounts;
use super::options::SubmitOptions;
use cosy_model::api::NodeInfo;
use cosy_view::node::NodeCondition;

/// Pieces that can go to any node, each with GPUs and cores of one node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Pieces {
    count: u32,
    gpus: u32,
    cores: u32,
}

/// Sets the number of nodes, where the planner cannot find it; `nodes` gives those of the cluster, only
/// where they have to be looked at.
pub fn over_nodes(nodes: &dyn Fn() -> Vec<NodeInfo>, job_options: &mut SubmitOptions) {
    match job_options.spread.then_some(job_options.tasks).flatten() {
        Some(tasks) => over_many(nodes, job_options, tasks),
        None => over_few(nodes, job_options),
    }
}

/// A node for each task, as far as there are nodes with room and the job may have them.
fn over_many(nodes: &dyn Fn() -> Vec<NodeInfo>, job_options: &mut SubmitOptions, tasks: u32) {
    let given = job_options.nodes.unwrap_or(NodeCount {
        least: 1,
        most: u32::MAX,
    });
    let nodes = nodes();
    let room = with_room(job_options, &nodes).min(tasks).min(given.most);
    let nodes = room.max(given.least);
    job_options.nodes = Some(NodeCount {
        least: nodes,
        most: nodes,
    });
}

/// Nodes of the partition that a task could start on now.
fn with_room(job_options: &SubmitOptions, nodes: &[NodeInfo]) -> u32 {
    let each = job_options.cores_per_task.unwrap_or(1);
    let whole = job_options.exclusive == Some(true);
    let has_room = |node: &&NodeInfo| {
        let used = node.used.cores;
        let free = node.amounts.cores.saturating_sub(used);
        is_in(node, job_options.partition.as_deref())
            && matches!(NodeCondition::of(node), Some(NodeCondition::Idle | NodeCondition::Mixed))
            && free >= each
            && !(whole && used > 0)
    };
    let count = nodes.iter().filter(has_room).count();
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn is_in(node: &NodeInfo, partition: Option<&str>) -> bool {
    partition.is_none_or(|list| list.split(',').any(|p| node.queues.iter().any(|q| q == p)))
}

/// Asks for several nodes where one cannot have all the GPUs.
fn over_few(nodes: &dyn Fn() -> Vec<NodeInfo>, job_options: &mut SubmitOptions) {
    let Some(pieces) = pieces(job_options) else {
        return;
    };
    let nodes = nodes();
    if let Some(nodes) = needed(job_options.partition.as_deref(), pieces, &nodes) {
        job_options.nodes = Some(NodeCount {
            least: nodes,
            most: nodes,
        });
    }
}

/// The GPUs of a job without a number of nodes, as pieces: one by one, or those of a task together.
fn pieces(job_options: &SubmitOptions) -> Option<Pieces> {
    let said = job_options.nodes.is_some()
        || job_options.tasks_per_node.is_some()
        || job_options.gpus_per_node.is_some()
        || job_options.gpus_per_socket.is_some()
        || job_options.gres.is_some();
    let count = |text: &Option<String>| Some(Amounts::read_gpus(text.as_deref()?).ok()?.gpus);
    let all = count(&job_options.gpus);
    let pieces = match count(&job_options.gpus_per_task).filter(|each| *each > 0) {
        Some(each) => Pieces {
            count: job_options.tasks.or(all.map(|all| all / each))?,
            gpus: each,
            cores: job_options
                .cores_per_task
                .unwrap_or(1)
                .max(cores(job_options, each)),
        },
        None => Pieces {
            count: all?,
            gpus: 1,
            cores: cores(job_options, 1),
        },
    };
    (!said && pieces.count > 1).then_some(pieces)
}

fn cores(job_options: &SubmitOptions, gpus: u32) -> u32 {
    job_options.cores_per_gpu.unwrap_or(0).saturating_mul(gpus)
}

/// Number of nodes that the pieces need; `None` for one node, and where no node has room for a
/// piece.
fn needed(partition: Option<&str>, pieces: Pieces, nodes: &[NodeInfo]) -> Option<u32> {
    let has = |node: &&NodeInfo| is_in(node, partition);
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
    fn nodes_with_room_for_a_task() {
        let node = |state: &str, used: u32, queue: &str| {
            let mut node = NodeInfo::default();
            (node.amounts.cores, node.used.cores) = (4, used);
            node.state = state.to_owned();
            node.queues = vec![queue.to_owned()];
            node
        };
        let nodes = [
            node("idle", 0, "main"),
            node("mixed", 3, "main"),
            node("busy", 4, "main"),
            node("drained idle", 0, "main"),
            node("idle", 0, "big"),
        ];
        let check = |cores, exclusive, partition: Option<&str>, want| {
            let job_options = SubmitOptions {
                cores_per_task: cores,
                exclusive,
                partition: partition.map(str::to_owned),
                ..SubmitOptions::default()
            };
            assert_eq!(with_room(&job_options, &nodes), want, "{job_options:?}");
        };
        check(None, None, None, 3);
        check(None, None, Some("main"), 2);
        check(Some(2), None, Some("main"), 1);
        check(None, Some(true), Some("main,big"), 2);
        check(Some(8), None, None, 0);
    }

    #[test]
    fn what_nothing_puts_on_nodes() {
        let text = |t: &str| Some(t.to_owned());
        let of_job = SubmitOptions {
            gpus: text("a100:5"),
            cores_per_gpu: Some(2),
            ..SubmitOptions::default()
        };
        let pieces_of = |count, gpus, cores| Some(Pieces { count, gpus, cores });
        assert_eq!(pieces(&of_job), pieces_of(5, 1, 2));
        let of_tasks = SubmitOptions {
            gpus_per_task: text("2"),
            tasks: Some(8),
            cores_per_task: Some(3),
            ..SubmitOptions::default()
        };
        assert_eq!(pieces(&of_tasks), pieces_of(8, 2, 3));
        let both = SubmitOptions {
            gpus_per_task: text("2"),
            gpus: text("8"),
            ..SubmitOptions::default()
        };
        assert_eq!(pieces(&both), pieces_of(4, 2, 1));
        let said = SubmitOptions {
            gpus_per_node: text("2"),
            ..of_job
        };
        assert_eq!(pieces(&said), None);
        assert_eq!(pieces(&SubmitOptions::default()), None);
    }
}
