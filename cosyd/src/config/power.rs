//! `[power]` of `cosy.toml`, and what nodes and queues say of when nodes are switched off.

use super::nodes::{Node, known_hosts};
use super::queues::Queue;
use super::values::{Raw, count, set, some_time, switchable};
use cosy_config::Check;
use cosy_control::{KeptNodes, PowerConfig};
use cosy_model::{NodeSpec, QueueSpec, Span, limits};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use toml::Spanned;

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    suspend_program: Option<Spanned<Vec<String>>>,
    resume_program: Option<Spanned<Vec<String>>>,
    resume_fail_program: Option<Spanned<Vec<String>>>,
    suspend_after: Option<Raw>,
    suspend_timeout: Option<Raw>,
    resume_timeout: Option<Raw>,
    suspend_rate: Option<Raw>,
    resume_rate: Option<Raw>,
    #[serde(default)]
    keep: Vec<Spanned<String>>,
    #[serde(default)]
    keep_queues: Vec<Spanned<String>>,
}

/// What the file says elsewhere that decides about the power of nodes.
pub(super) struct Around<'a> {
    pub node_tables: &'a [Node],
    pub nodes: &'a [NodeSpec],
    pub queue_tables: &'a [Queue],
    pub queues: &'a [QueueSpec],
}

pub(super) fn read(check: &mut Check<'_>, table: &Table, around: &Around<'_>) -> PowerConfig {
    let mut config = PowerConfig {
        suspend: program(check, table.suspend_program.as_ref()),
        resume: program(check, table.resume_program.as_ref()),
        resume_failed: program(check, table.resume_fail_program.as_ref()),
        ..PowerConfig::default()
    };
    if config.suspend.is_empty() != config.resume.is_empty() {
        let both = [&table.suspend_program, &table.resume_program];
        let at = both.into_iter().flatten().next();
        let what =
            "suspend_program and resume_program belong together: one switches off, the other on";
        check.fault(at.map_or(0, |at| at.span().start), what);
    }
    set(check, table.suspend_timeout.as_ref(), &mut config.suspend_time, some_time);
    set(check, table.resume_timeout.as_ref(), &mut config.resume_time, some_time);
    set(check, table.suspend_rate.as_ref(), &mut config.suspend_rate, count);
    set(check, table.resume_rate.as_ref(), &mut config.resume_rate, count);
    config.idle = idle(check, table, around);
    config.cloud = cloud(check, around);
    config.keep = keep(check, table, around);
    let first = around.node_tables.iter().find(|node| node.is_cloud());
    if let Some(node) = first.filter(|_| config.resume.is_empty()) {
        let what = "a node with 'cloud' needs [power] with suspend_program and resume_program";
        check.fault(node.place(), what);
    }
    config
}

fn program(check: &mut Check<'_>, given: Option<&Spanned<Vec<String>>>) -> Vec<String> {
    let Some(given) = given else {
        return Vec::new();
    };
    let words = given.get_ref();
    if words.first().is_none_or(|path| !path.starts_with('/')) {
        let what =
            "a program is a list that starts with a whole path, like [\"/etc/cosy/power/resume\"]";
        check.fault(given.span().start, what);
    }
    words.clone()
}

/// For each node that is ever switched off, after how long: what it says itself, else the longest that its
/// queues say, else what the section says.
fn idle(check: &mut Check<'_>, table: &Table, around: &Around<'_>) -> BTreeMap<String, Span> {
    let all = switchable(check, table.suspend_after.as_ref(), some_time).flatten();
    let mut of_queues: BTreeMap<&str, Option<Span>> = BTreeMap::new();
    for (table, queue) in around.queue_tables.iter().zip(around.queues) {
        let Some(after) = switchable(check, table.suspend_after(), some_time) else {
            continue;
        };
        let everywhere = || around.nodes.iter().map(|node| node.name.as_str());
        let named = queue
            .nodes
            .as_ref()
            .map(|names| names.iter().map(String::as_str));
        let names: Vec<&str> = named.map_or_else(|| everywhere().collect(), Iterator::collect);
        for name in names {
            let known = of_queues.entry(name).or_insert(after);
            *known = known.zip(after).map(|(one, other)| one.max(other));
        }
    }
    let mut own: BTreeMap<String, Option<Span>> = BTreeMap::new();
    for table in around.node_tables {
        if let Some(after) = switchable(check, table.suspend_after(), some_time) {
            own.extend(table.names(check).into_iter().map(|name| (name, after)));
        }
    }
    let after = |node: &NodeSpec| {
        let name = node.name.as_str();
        // Where users log in nothing is switched off by what is said of others.
        let of_others = || match node.login {
            true => None,
            false => of_queues.get(name).copied().unwrap_or(all),
        };
        let after = own.get(name).copied().unwrap_or_else(of_others)?;
        Some((node.name.clone(), after))
    };
    around.nodes.iter().filter_map(after).collect()
}

fn cloud(check: &mut Check<'_>, around: &Around<'_>) -> BTreeSet<String> {
    let mut cloud = BTreeSet::new();
    for table in around.node_tables.iter().filter(|table| table.is_cloud()) {
        if !table.is_counted() {
            let what = "a node with 'cloud' needs cores and memory: it is not there to be asked";
            check.fault(table.place(), what);
        }
        cloud.extend(table.names(check));
    }
    cloud
}

/// `n[1-20]:4` keeps four of them, `n[1-20]` all.
fn keep(check: &mut Check<'_>, table: &Table, around: &Around<'_>) -> Vec<KeptNodes> {
    let known: BTreeSet<&str> = around.nodes.iter().map(|node| node.name.as_str()).collect();
    let mut keep = Vec::new();
    if table.keep.len() + table.keep_queues.len() > limits::DEPENDENCIES {
        check.fault(0, format!("more than {} entries in keep", limits::DEPENDENCIES));
        return keep;
    }
    for entry in &table.keep {
        let text = entry.get_ref();
        let (list, number) = match text.rsplit_once(':') {
            Some((list, number)) => (list, Some(number.parse::<u32>())),
            None => (text.as_str(), None),
        };
        let number = match number.transpose() {
            Ok(number) => number,
            Err(_) => {
                let what =
                    format!("'{text}' is no host list, nor one with a number like \"n[1-20]:4\"");
                check.fault(entry.span().start, what);
                continue;
            }
        };
        let list = Spanned::new(entry.span(), list.to_owned());
        keep.push(KeptNodes {
            nodes: known_hosts(check, &list, &known).into_iter().collect(),
            count: number,
        });
    }
    for name in &table.keep_queues {
        let queue = around
            .queues
            .iter()
            .find(|queue| queue.name == *name.get_ref());
        let Some(queue) = queue else {
            check.fault(name.span().start, format!("there is no queue '{}'", name.get_ref()));
            continue;
        };
        let everywhere = || known.iter().map(|name| (*name).to_owned()).collect();
        let nodes = queue
            .nodes
            .as_ref()
            .map(|names| names.iter().cloned().collect());
        keep.push(KeptNodes {
            nodes: nodes.unwrap_or_else(everywhere),
            count: None,
        });
    }
    keep
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{self, DAY};
    use super::*;

    const PROGRAMS: &str =
        "[power]\nsuspend_program = [\"/p/off\"]\nresume_program = [\"/p/on\", \"-v\"]\n";

    fn read(more: &str) -> Result<PowerConfig, String> {
        Ok(fixture::read(more)?.power)
    }

    #[test]
    fn without_a_word_nothing_is_switched() {
        assert_eq!(read(DAY), Ok(PowerConfig::default()));
        assert!(!read(DAY).unwrap().is_on());
    }

    #[test]
    fn nodes_queues_and_all() {
        let text = format!(
            "[[node]]\nnames = \"l1\"\nlogin = true\n[[node]]\nnames = \"c[1-2]\"\ncores = 4\nmemory = \"8G\"\ncloud = true\n\
             suspend_after = \"5m\"\n{DAY}nodes = \"n[1-2]\"\nsuspend_after = \"30m\"\n\
             [[queue]]\nname = \"night\"\nnodes = \"n[2-3]\"\nsuspend_after = \"off\"\n\
             {PROGRAMS}suspend_after = \"10m\"\nkeep = [\"n[1-4]:2\", \"c1\"]\nkeep_queues = [\"night\"]\n\
             suspend_timeout = \"20s\"\nresume_timeout = \"8m\"\nsuspend_rate = 5\nresume_rate = 0\n\
             resume_fail_program = [\"/p/fail\"]\n"
        );
        let config = read(&text).unwrap();
        let idle: Vec<String> = config
            .idle
            .iter()
            .map(|(n, after)| format!("{n} {after}"))
            .collect();
        assert_eq!(idle, ["c1 00:05:00", "c2 00:05:00", "n1 00:30:00", "n4 00:10:00"]);
        assert!(config.is_on());
        assert_eq!(config.resume, ["/p/on", "-v"]);
        assert_eq!((config.suspend_rate, config.resume_rate), (5, 0));
        assert_eq!(config.resume_time, Span::from_minutes(8));
        assert_eq!(config.cloud, ["c1", "c2"].map(str::to_owned).into());
        let keep: Vec<(usize, Option<u32>)> = config
            .keep
            .iter()
            .map(|k| (k.nodes.len(), k.count))
            .collect();
        assert_eq!(keep, [(4, Some(2)), (1, None), (2, None)]);
    }

    #[test]
    fn what_does_not_fit_is_told() {
        let check = |more: &str, want: &str| {
            let told = read(more).unwrap_err();
            assert!(told.contains(want), "{more}: {told}");
        };
        check(&format!("cloud = true\n{DAY}"), "needs [power] with suspend_program");
        let lone = "[power]\nresume_program = [\"/p/on\"]\n";
        check(&format!("{DAY}{lone}"), "belong together");
        let short = "[power]\nresume_program = [\"on\"]\nsuspend_program = [\"/p/off\"]\n";
        check(&format!("{DAY}{short}"), "starts with a whole path");
        let bare = "[[node]]\nnames = \"c1\"\ncloud = true\n";
        check(&format!("{bare}{DAY}{PROGRAMS}"), "needs cores and memory");
        check(&format!("{DAY}{PROGRAMS}keep = [\"n[1-4]:x\"]\n"), "is no host list");
        check(&format!("{DAY}{PROGRAMS}keep = [\"m1\"]\n"), "no node 'm1'");
        check(&format!("{DAY}{PROGRAMS}keep_queues = [\"x\"]\n"), "no queue 'x'");
        check(&format!("{DAY}{PROGRAMS}suspend_after = 5\n"), "no length of time");
        check(&format!("{DAY}{PROGRAMS}suspend_timeout = \"0s\"\n"), "longer than 0");
    }
}
