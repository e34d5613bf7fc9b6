//! GPUs and other countable resources: what was asked for of the job, of nodes, of sockets
//! and of tasks, checked against each other and brought to numbers on each node. Source:
//! sbatch(1), `--gpus` and its like; a node has one socket here.

use super::Fault;
use super::gres::{self, Amounts};
use super::options::SubmitOptions;
use cosy_model::job::{AskedAmounts, ResourceRequest};

/// What was asked for, each as it was given.
struct RequestedAmounts {
    job: Option<Amounts>,
    node: Option<Amounts>,
    task: Option<Amounts>,
    /// Of a socket, times sockets of a node.
    socket: Option<(Amounts, u32)>,
}

/// Puts GPUs and everything else that is counted into the request.
///
/// # Errors
/// Lists that cannot be read, numbers that contradict each other.
pub fn devices(job_options: &SubmitOptions, request: &mut ResourceRequest) -> Result<(), Fault> {
    let some = |amounts: Amounts| Some(amounts).filter(|a| a.gpus > 0);
    let read = |text: &Option<String>| text.as_deref().map(Amounts::read_gpus).transpose();
    let gpus = |text: &Option<String>| Ok::<_, Fault>(read(text)?.and_then(some));
    let mut listed = match &job_options.gres {
        Some(text) => Amounts::read(text)?,
        None => Amounts::default(),
    };
    request.other_per_node = std::mem::take(&mut listed.other);
    let named = read(&job_options.gpus_per_node)?;
    if listed.gpus > 0 && named.as_ref().is_some_and(|n| n.gpus != listed.gpus) {
        return Err(Fault::refusal(crate::sentences::NODE_CONFIG));
    }
    let asked = RequestedAmounts {
        job: gpus(&job_options.gpus)?,
        node: some(named.unwrap_or(listed)),
        task: gpus(&job_options.gpus_per_task)?,
        socket: match (gpus(&job_options.gpus_per_socket)?, job_options.sockets_per_node) {
            (Some(_), None) => return Err(Fault::error(SOCKETS)),
            (Some(each), Some(sockets)) => Some((each, sockets)),
            (None, _) => None,
        },
    };
    if job_options.cores_per_gpu.is_some() && job_options.cores_per_task.is_some() {
        return Err(Fault::error("--cpus-per-gpu is mutually exclusive with --cpus-per-task"));
    }
    as_asked(&asked, &mut request.asked);
    check_order(&asked)?;
    check_job(&asked, request)?;
    check_tasks(&asked, request)?;
    follow(&asked, request);
    let in_all = spread_alone(&asked);
    let per_node = per_node(asked, request);
    per_gpu(job_options, &per_node, request)?;
    request.gpus_per_node = per_node.gpus;
    request.gpu_types = per_node.gpu_types;
    let nodes = request.max_nodes.or(request.nodes).unwrap_or(1);
    request.gpus_in_all = in_all.filter(|all| *all < nodes.saturating_mul(request.gpus_per_node));
    Ok(())
}

/// Keeps the words: the request has GPUs of each node, whatever they were asked for by.
fn as_asked(asked: &RequestedAmounts, kept: &mut AskedAmounts) {
    let text = |amounts: Option<&Amounts>| amounts.map(Amounts::gpus_text).unwrap_or_default();
    kept.per_job = text(asked.job.as_ref());
    kept.per_task = text(asked.task.as_ref());
    kept.per_socket = text(asked.socket.as_ref().map(|(each, _)| each));
    if kept.has_gpus() {
        kept.per_node = text(asked.node.as_ref());
    }
}

const SOCKETS: &str = "--gpus-per-socket option requires --sockets-per-node specification";
const ORDER: &str = "Failed to ensure --gpus >= --gres=gpu/--gpus-per-node >= --gpus-per-socket";

fn invalid(why: &str) -> Fault {
    Fault::error(format!("Failed to validate job spec{why}"))
}

fn count(amounts: Option<&Amounts>) -> Option<u32> {
    amounts.map(|a| a.gpus)
}

fn check_order(asked: &RequestedAmounts) -> Result<(), Fault> {
    let (job, node) = (count(asked.job.as_ref()), count(asked.node.as_ref()));
    let sockets = asked.socket.as_ref();
    let socket = sockets.map(|(each, _)| each.gpus);
    let above = |less: Option<u32>, more: Option<u32>| less.zip(more).is_some_and(|(l, m)| l > m);
    if above(node, job) || above(socket, node) || above(socket, job) {
        return Err(Fault::error(ORDER));
    }
    if let (Some(node), Some((each, sockets))) = (node, sockets)
        && each.gpus.saturating_mul(*sockets) != node
    {
        return Err(invalid(
            ". Based on --gres=gpu/--gpus-per-node and --gpus-per-socket required number of \
             sockets differ from --sockets-per-node.",
        ));
    }
    Ok(())
}

/// GPUs of the job against those of nodes.
fn check_job(asked: &RequestedAmounts, request: &ResourceRequest) -> Result<(), Fault> {
    let Some(job) = count(asked.job.as_ref()) else {
        return Ok(());
    };
    if request.nodes.is_some_and(|nodes| job < nodes) {
        return Err(invalid(", --gpus < -N"));
    }
    let Some(node) = count(asked.node.as_ref()) else {
        return Ok(());
    };
    if job % node != 0 {
        return Err(invalid(", --gpus is not multiple of --gres=gpu/--gpus-per-node"));
    }
    let needed = job / node;
    if let Some(least) = request.nodes {
        let most = request.max_nodes.unwrap_or(least);
        if needed < least || needed > most {
            return Err(invalid(&format!(
                ". Based on --gpu and --gres=gpu/--gpus-per-node required nodes ({needed}) doesn't \
                 fall between min_nodes ({least}) and max_nodes ({most}) boundaries."
            )));
        }
    }
    Ok(())
}

/// GPUs of tasks against those of the job and of nodes.
fn check_tasks(asked: &RequestedAmounts, request: &ResourceRequest) -> Result<(), Fault> {
    let Some(task) = count(asked.task.as_ref()) else {
        return Ok(());
    };
    if let Some(job) = count(asked.job.as_ref()) {
        if job % task != 0 {
            return Err(invalid(", --gpus not multiple of --gpus-per-task"));
        }
        if request.tasks.is_some_and(|tasks| tasks != job / task) {
            return Err(invalid(
                ". Based on --gpus and --gpus-per-task number of requested tasks differ from \
                 -n/--ntasks.",
            ));
        }
    }
    let Some(node) = count(asked.node.as_ref()) else {
        return Ok(());
    };
    if request
        .tasks_per_node
        .is_some_and(|tasks| tasks != node / task)
    {
        return Err(invalid(
            ". Based on --gres=gpu/--gpus-per-node and --gpus-per-task requested number of tasks \
             per node differ from --ntasks-per-node.",
        ));
    }
    let most = request.max_nodes.or(request.nodes);
    let room = most.map(|nodes| u64::from(nodes) * u64::from(node / task));
    let tasks = request.tasks.map(u64::from);
    if tasks.zip(room).is_some_and(|(tasks, room)| tasks > room) {
        return Err(Fault::refusal(crate::sentences::NODE_CONFIG));
    }
    Ok(())
}

/// GPUs of the job that nothing else says the share of a node of; of any type.
fn spread_alone(asked: &RequestedAmounts) -> Option<u32> {
    let alone = asked.node.is_none() && asked.task.is_none() && asked.socket.is_none();
    let all = asked.job.as_ref().filter(|_| alone)?;
    all.gpu_types.is_empty().then_some(all.gpus)
}

/// What follows for nodes and tasks where they were not given.
fn follow(asked: &RequestedAmounts, request: &mut ResourceRequest) {
    let (job, node) = (count(asked.job.as_ref()), count(asked.node.as_ref()));
    if let Some((job, node)) = job.zip(node) {
        request.nodes = Some(job / node);
        request.max_nodes = None;
    }
    if let Some((job, task)) = job.zip(count(asked.task.as_ref())) {
        request.tasks.get_or_insert(job / task);
    }
}

fn per_node(asked: RequestedAmounts, request: &mut ResourceRequest) -> Amounts {
    if let Some(node) = asked.node {
        return node;
    }
    if let Some((each, sockets)) = asked.socket {
        return each.times(sockets);
    }
    if let Some(each) = asked.task {
        return each.times(tasks_on_a_node(request));
    }
    match asked.job {
        Some(all) => all.divided(*request.nodes.get_or_insert(1)),
        None => Amounts::default(),
    }
}

/// Cores and tasks for each GPU.
fn per_gpu(
    job_options: &SubmitOptions,
    per_node: &Amounts,
    request: &mut ResourceRequest,
) -> Result<(), Fault> {
    let for_gpus = job_options.cores_per_gpu.is_some() || job_options.tasks_per_gpu.is_some();
    if for_gpus && per_node.gpus == 0 {
        return Err(Fault::error(gres::INVALID));
    }
    if let Some(tasks) = job_options.tasks_per_gpu {
        request.tasks_per_node = Some(per_node.gpus.saturating_mul(tasks));
    }
    if let Some(cores) = job_options.cores_per_gpu {
        let on_node = cores.saturating_mul(per_node.gpus);
        request.cores_per_task = on_node.div_ceil(tasks_on_a_node(request)).max(1);
    }
    Ok(())
}

/// Most tasks that share a node. Where neither nodes nor tasks per node were asked for,
/// all tasks go to one.
pub(super) fn tasks_on_a_node(request: &mut ResourceRequest) -> u32 {
    if let Some(tasks) = request.tasks_per_node {
        return tasks.max(1);
    }
    let nodes = *request.nodes.get_or_insert(1);
    let tasks = request.tasks.unwrap_or(nodes);
    let on_each = tasks.div_ceil(nodes.max(1)).max(1);
    request.tasks_per_node = Some(on_each);
    on_each
}
