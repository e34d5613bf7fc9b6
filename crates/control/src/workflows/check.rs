//! What can be said against a workflow without looking at the cluster, and who waits for
//! whom.
//!
//! What always holds: whatever has a [`Graph`] has at least one task, every edge runs
//! between two of them, and in no circle.

use cosy_model::workflow::{FlowDeadline, FlowSpec, FlowTask};
use cosy_model::{About, Program, Refusal, RefusalCode, Span, Time, limits};
use cosy_view::words::task_fault;
use std::collections::BTreeMap;

/// Farthest deadline, from now.
const FARTHEST: Span = Span::from_secs(10 * 366 * 86_400);
/// Most slack: a thousand times the schedule itself.
const SLACK: u32 = 1_000_000;
/// Names of a circle that are told.
const TOLD: usize = 20;

/// Who waits for whom, by the tasks' places.
#[derive(Debug, Clone, Default)]
pub(crate) struct Graph {
    pub parents: Vec<Vec<u32>>,
    pub children: Vec<Vec<u32>>,
    /// All tasks, none before its parents; of those that could be next the first.
    pub order: Vec<u32>,
}

impl Graph {
    /// # Errors
    /// An edge to no task, or a circle, by names.
    pub fn of(spec: &FlowSpec) -> Result<Self, Refusal> {
        let count = spec.tasks.len();
        let mut graph = Self {
            parents: vec![Vec::new(); count],
            children: vec![Vec::new(); count],
            order: Vec::with_capacity(count),
        };
        for edge in &spec.edges {
            let (from, to) = (edge.from as usize, edge.to as usize);
            if from >= count || to >= count {
                return Err(Refusal::invalid(format!(
                    "an edge runs from task {from} to task {to}; the workflow has {count}, counted from 0"
                )));
            }
            graph.children[from].push(edge.to);
            graph.parents[to].push(edge.from);
        }
        for list in graph.parents.iter_mut().chain(&mut graph.children) {
            list.sort_unstable();
            list.dedup();
        }
        graph.sort();
        match graph.order.len() == count {
            true => Ok(graph),
            false => Err(graph.circle(spec)),
        }
    }

    /// Tasks of which none waits for another.
    pub fn without_edges(count: usize) -> Self {
        Self {
            parents: vec![Vec::new(); count],
            children: vec![Vec::new(); count],
            order: (0..count as u32).collect(),
        }
    }

    fn sort(&mut self) {
        let mut open: Vec<usize> = self.parents.iter().map(Vec::len).collect();
        let free = |at: &usize| open[*at] == 0;
        let ready = (0..open.len()).filter(free).map(|at| at as u32);
        let mut ready: std::collections::BTreeSet<u32> = ready.collect();
        while let Some(next) = ready.pop_first() {
            self.order.push(next);
            for child in &self.children[next as usize] {
                open[*child as usize] -= 1;
                if open[*child as usize] == 0 {
                    ready.insert(*child);
                }
            }
        }
    }

    /// Names a circle: from any task that could not be sorted back along its parents.
    fn circle(&self, spec: &FlowSpec) -> Refusal {
        let mut sorted = vec![false; self.parents.len()];
        for at in &self.order {
            sorted[*at as usize] = true;
        }
        let mut seen: BTreeMap<usize, usize> = BTreeMap::new();
        let mut way: Vec<usize> = Vec::new();
        let mut at = sorted.iter().position(|done| !done).unwrap_or(0);
        while !seen.contains_key(&at) {
            seen.insert(at, way.len());
            way.push(at);
            let parents = self.parents[at].iter().map(|p| *p as usize);
            at = parents.filter(|p| !sorted[*p]).min().unwrap_or(at);
        }
        let from = seen.get(&at).copied().unwrap_or(0);
        // Along the edges, and from the first in the file on.
        let mut circle: Vec<usize> = way[from..].iter().rev().copied().collect();
        let first = (0..circle.len()).min_by_key(|place| circle[*place]);
        circle.rotate_left(first.unwrap_or(0));
        let names = circle.iter().map(|task| spec.tasks[*task].name.as_str());
        let mut names: Vec<&str> = names.collect();
        let more = names.len().saturating_sub(TOLD);
        names.truncate(TOLD);
        let dots = if more > 0 { " -> ..." } else { "" };
        let first = names.first().copied().unwrap_or_default();
        Refusal::invalid(format!(
            "tasks wait for each other in a circle: {}{dots} -> {first}",
            names.join(" -> ")
        ))
    }
}

/// Checks everything that needs no look at the cluster.
///
/// # Errors
/// The first thing that is wrong, with the task's name.
pub(crate) fn check(now: Time, spec: &FlowSpec) -> Result<Graph, Refusal> {
    check_sizes(spec)?;
    check_name("the name of a workflow", &spec.name)?;
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    for (at, task) in spec.tasks.iter().enumerate() {
        check_task(spec, task)?;
        if let Some(first) = names.insert(&task.name, at) {
            return Err(Refusal::invalid(format!(
                "tasks {first} and {at} have the same name, '{}'",
                task.name
            )));
        }
    }
    check_speeds(spec)?;
    check_times(now, spec)?;
    Graph::of(spec)
}

fn check_sizes(spec: &FlowSpec) -> Result<(), Refusal> {
    let lists = [
        ("tasks", spec.tasks.len(), limits::FLOW_TASKS),
        ("edges", spec.edges.len(), limits::FLOW_EDGES),
        ("speeds of node sets", spec.speeds.len(), limits::DEPENDENCIES),
        ("transfers", spec.transfers.len(), limits::DEPENDENCIES),
        ("resource limits", spec.rlimits.len(), limits::RLIMITS),
    ];
    if let Some((what, have, most)) = lists.into_iter().find(|(_, have, most)| have > most) {
        return Err(Refusal::new(
            RefusalCode::TooMany,
            format!("a workflow of {have} {what} is larger than the {most} allowed"),
        ));
    }
    if spec.tasks.is_empty() {
        return Err(Refusal::invalid("the workflow has no tasks"));
    }
    let texts = [
        ("environment", spec.environment.0.len(), limits::ENVIRONMENT_BYTES),
        ("comment", spec.comment.len(), limits::COMMENT_BYTES),
        ("account", spec.account.as_ref().map_or(0, String::len), limits::NAME_BYTES),
    ];
    match texts.into_iter().find(|(_, have, most)| have > most) {
        Some((what, have, most)) => Err(Refusal::invalid(format!(
            "the workflow's {what} of {have} bytes is longer than the {most} allowed"
        ))),
        None => Ok(()),
    }
}

fn check_name(what: &str, name: &str) -> Result<(), Refusal> {
    if name.is_empty() || name.len() > limits::NAME_BYTES || name.chars().any(char::is_control) {
        return Err(Refusal::invalid(format!(
            "{what} has 1 to {} bytes and no control characters",
            limits::NAME_BYTES
        )));
    }
    Ok(())
}

fn check_task(spec: &FlowSpec, task: &FlowTask) -> Result<(), Refusal> {
    check_name("the name of a task", &task.name)?;
    let name = &task.name;
    let wrong = |why: String| Err(Refusal::invalid(task_fault::write(name, &why)));
    // The job and the reservation are named after both.
    if spec.name.len() + 1 + name.len() > limits::NAME_BYTES {
        return wrong(format!(
            "its name and that of the workflow are longer than {} bytes together",
            limits::NAME_BYTES - 1
        ));
    }
    if task.estimates.len() > limits::DEPENDENCIES {
        return wrong(format!(
            "{} estimates for node sets are more than the {} allowed",
            task.estimates.len(),
            limits::DEPENDENCIES
        ));
    }
    let estimates = task.estimates.iter().map(|(_, span)| *span);
    for span in estimates.chain([task.estimate]) {
        if span <= Span::ZERO || span > FARTHEST {
            return wrong(format!("an estimated run time of {span} cannot be"));
        }
    }
    if task.retries > limits::FLOW_RETRIES {
        return wrong(format!(
            "{} retries are more than the {} allowed",
            task.retries,
            limits::FLOW_RETRIES
        ));
    }
    let job = &task.spec;
    let foreign = [
        (job.program == Program::Allocation, "an allocation without a program"),
        (job.attended, "a command that stays with it"),
        (job.reservation.is_some(), "a reservation of its own"),
        (!job.dependencies.is_empty(), "dependencies beside its edges"),
        (job.hold, "a hold of its own"),
        (spec.deadline.is_some() && job.begin.is_some(), "a begin time of its own"),
    ];
    match foreign.into_iter().find(|(is_so, _)| *is_so) {
        Some((_, what)) => wrong(format!("a workflow's task cannot have {what}")),
        None => Ok(()),
    }
}

fn check_speeds(spec: &FlowSpec) -> Result<(), Refusal> {
    if let Some(speed) = spec.speeds.iter().find(|s| s.speed_permille == 0) {
        return Err(Refusal::invalid(format!(
            "node set '{}' has speed 0: nothing would ever end there",
            speed.set
        )));
    }
    if spec.transfers.iter().any(|t| t.bytes_per_second == 0) {
        return Err(Refusal::invalid(
            "a transfer of 0 bytes per second never ends: leave it out if it takes no time",
        ));
    }
    Ok(())
}

fn check_times(now: Time, spec: &FlowSpec) -> Result<(), Refusal> {
    if spec.max_price.is_some_and(|most| most.0 < 0) {
        return Err(Refusal::invalid("a negative price cannot be paid"));
    }
    let far = |what: &str, at: Time| {
        format!("the {what} is {} ahead: more than ten years cannot be planned", at.since(now))
    };
    match spec.earliest {
        Some(at) if at > now + FARTHEST => {
            return Err(Refusal::invalid(far("earliest start", at)));
        }
        Some(_) | None => {}
    }
    let why = match spec.deadline {
        Some(FlowDeadline::By(at)) if at <= now => "the deadline is in the past".to_owned(),
        Some(FlowDeadline::By(at)) if at > now + FARTHEST => far("deadline", at),
        Some(FlowDeadline::By(at)) if spec.earliest.is_some_and(|e| e >= at) => {
            "the deadline is not after the earliest start".to_owned()
        }
        Some(FlowDeadline::Slack(permille)) if permille > SLACK => {
            format!("a slack of {} % is more than the {} % allowed", permille / 10, SLACK / 10)
        }
        Some(FlowDeadline::By(_) | FlowDeadline::Slack(_)) | None => return Ok(()),
    };
    Err(Refusal::invalid(why).about(About::Deadline))
}
