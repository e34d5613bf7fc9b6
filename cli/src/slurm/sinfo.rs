//! `sinfo`: partitions and nodes. Sources: sinfo(1), captures of 22.05.

use super::messages::{error, say};
use super::{names, reports};
use crate::{Context, exit, output, times};
use cosy_model::api::{NodeInfo, QueueInfo, Reply, Request};
use cosy_model::hostlist;
use cosy_model::reservation::{BarKind, PlanBar, ReservationState};
use cosy_slurm::json_yaml;
use cosy_slurm::node::HeldFor;
use cosy_slurm::show::reservation;
use cosy_slurm::sinfo::cells::ValueStyle;
use cosy_slurm::sinfo::options::{self, Invocation, OPTIONS, Query, SYNOPSIS};
use cosy_slurm::sinfo::report::{self, Reserved};
use cosy_slurm::sinfo::states::WORDS;
use cosy_slurm::sinfo::tree;
use cosy_slurm::times::heading;
use cosy_view::node::NodeCondition;
use jiff::Zoned;
use std::collections::BTreeSet;
use std::time::Duration;

/// Runs `sinfo`; gives its exit code.
pub fn run(context: &Context) -> u8 {
    match options::read(context.args(), reports::variable) {
        Invocation::Help => reports::help(context, OPTIONS),
        Invocation::Usage => reports::print_text(SYNOPSIS),
        Invocation::Version => reports::version(),
        Invocation::UsageError(mistake) => reports::mistake(context, &mistake),
        Invocation::BadState(word) => {
            error(context, &format!("Bad state string: \"{word}\""));
            error(context, &format!("valid states: {WORDS}"));
            exit::FAILED
        }
        Invocation::Bad(text) => {
            error(context, &text);
            exit::FAILED
        }
        Invocation::Report(query) => again_and_again(context, &query).unwrap_or_else(|code| code),
    }
}

/// Exit code of a report that failed; the reason has been printed.
type FailureCode = u8;

fn again_and_again(context: &Context, query: &Query) -> Result<u8, FailureCode> {
    for cluster in &query.clusters {
        if !names::is_this_cluster(context, cluster) {
            return Err(exit::FAILED);
        }
    }
    loop {
        once(context, query)?;
        let Some(seconds) = query.iterate else {
            return Ok(exit::OK);
        };
        output::print("\n");
        std::thread::sleep(Duration::from_secs(seconds));
    }
}

fn once(context: &Context, query: &Query) -> Result<(), FailureCode> {
    let now = times::now();
    if query.reservations {
        output::print(&reservations(context, query, &now));
        return Ok(());
    }
    let partitions = partitions(context)?;
    let nodes = nodes(context, &partitions)?;
    if let Some(spelling) = query.spelling {
        let release = reports::release();
        let list = nodes
            .iter()
            .map(|(n, held_for)| tree::of_node(n, *held_for, release));
        json_yaml::answer(spelling, release, "nodes", list, output::print);
        return Ok(());
    }
    if query.verbose > 0 {
        output::print(&query.told());
    }
    if query.long || query.iterate.is_some() || query.verbose > 0 {
        output::print(&format!("{}\n", heading(&now)));
    }
    list(context, query, &partitions, &nodes, &now)
}

fn list(
    context: &Context,
    query: &Query,
    partitions: &[QueueInfo],
    nodes: &[(NodeInfo, HeldFor)],
    now: &Zoned,
) -> Result<(), FailureCode> {
    let look = ValueStyle {
        stamps: reports::stamps(now),
        release: reports::release().to_owned(),
        cluster: String::new(),
    };
    let layout = report::layout(query, nodes, partitions);
    for complaint in report::complaints(&layout) {
        say(&complaint);
    }
    if !query.bare {
        output::print(&report::heading(&layout));
    }
    let named = query.nodes.as_deref().map(hostlist::expand).transpose();
    let named = named.map_err(|e| {
        error(context, &e.to_string());
        exit::FAILED
    })?;
    let named = named.as_deref();
    let groups = report::sorted(query, &layout, partitions, nodes, named, &look);
    let groups = groups.map_err(|rest| {
        error(context, &format!("Invalid sort specification: {rest}"));
        exit::FAILED
    })?;
    output::print(&report::lines(&layout, &groups, &look));
    Ok(())
}

fn partitions(context: &Context) -> Result<Vec<QueueInfo>, FailureCode> {
    match context.ask(Request::Queues) {
        Ok(Reply::Queues(all)) => Ok(all),
        Ok(_) => Err(unexpected("slurm_load_partitions")),
        Err(e) => Err(reports::failed("slurm_load_partitions", &e)),
    }
}

fn unexpected(function: &str) -> FailureCode {
    reports::failed(function, &cosy_client::CallError::Unexpected)
}

/// All nodes, and whom idle nodes are kept for.
fn nodes(
    context: &Context,
    partitions: &[QueueInfo],
) -> Result<Vec<(NodeInfo, HeldFor)>, FailureCode> {
    let all = match context.ask(Request::Nodes) {
        Ok(Reply::Nodes(all)) => all,
        Ok(_) => return Err(unexpected("slurm_load_node")),
        Err(e) => return Err(reports::failed("slurm_load_node", &e)),
    };
    let idle = all
        .iter()
        .any(|n| NodeCondition::of(n) == Some(NodeCondition::Idle));
    let waiting = partitions.iter().any(|p| p.waiting > 0);
    let (planned, reserved) = held_for(context, idle, waiting);
    let keep = |node: &NodeInfo| {
        if reserved.contains(&node.name) {
            HeldFor::Reservation
        } else if planned.contains(&node.name) {
            HeldFor::Job
        } else {
            HeldFor::Nobody
        }
    };
    Ok(all.into_iter().map(|n| (n.clone(), keep(&n))).collect())
}

/// Waiting jobs whose planned nodes count as held for them.
const PLANNED: u32 = 50;

/// The nodes that waiting jobs are planned on, and those of reservations that have begun.
/// A plan is only asked for when nodes could be held.
fn held_for(context: &Context, idle: bool, waiting: bool) -> (BTreeSet<String>, BTreeSet<String>) {
    if !idle {
        return (BTreeSet::new(), BTreeSet::new());
    }
    let mut reserved = BTreeSet::new();
    for r in names::reservations(context) {
        if r.state == ReservationState::Active {
            reserved.extend(hostlist::expand(&r.nodes).unwrap_or_default());
        }
    }
    let request = Request::PlanChart {
        until: None,
        most: PLANNED,
    };
    let chart = match waiting.then(|| context.ask(request)) {
        Some(Ok(Reply::PlanChart(chart))) => chart,
        Some(Ok(_) | Err(_)) | None => return (BTreeSet::new(), reserved),
    };
    let of_bar = |bar: &PlanBar| {
        let names = bar.nodes.iter().filter_map(|n| usize::try_from(*n).ok());
        let names = names.filter_map(|n| chart.nodes.get(n).cloned());
        names.collect::<Vec<_>>()
    };
    let bars = chart.bars.iter().filter(|b| b.kind == BarKind::Planned);
    (bars.flat_map(of_bar).collect(), reserved)
}

fn reservations(context: &Context, query: &Query, now: &Zoned) -> String {
    let one = |r: &cosy_model::reservation::ReservationInfo| Reserved {
        name: reservation::name(r),
        active: r.state == ReservationState::Active,
        start: r.start,
        end: r.end,
        nodes: r.nodes.clone(),
    };
    let all: Vec<Reserved> = names::reservations(context).iter().map(one).collect();
    report::reservations(&all, query.bare, &reports::stamps(now))
}
