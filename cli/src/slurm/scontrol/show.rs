//! `scontrol show ENTITY [ID]`: prints jobs, nodes, partitions and more in full.

use super::session::{Session, too_few};
use crate::slurm::messages::{error, say};
use crate::slurm::{names, policy, reports, words};
use crate::{exit, output, times};
use cosy_client::CallError;
use cosy_model::api::{NodeInfo, Reply, Request};
use cosy_slurm::control::Entity;
use cosy_slurm::show::{self, assoc_mgr, config, hosts, node, partition, reservation, topology};
use cosy_slurm::times::timestamp;

impl Session<'_> {
    pub(super) fn show(&self, keyword: &str, rest: &[String]) -> u8 {
        let Some((first, more)) = rest.split_first() else {
            return too_few(keyword);
        };
        let (word, given) = match first.split_once('=') {
            Some((word, id)) => (word, Some(id.to_owned())),
            None => (first.as_str(), None),
        };
        let ids: Vec<String> = given.into_iter().chain(more.iter().cloned()).collect();
        let Some(entity) = Entity::named(word) else {
            say(&format!("invalid entity:{first} for keyword:{keyword} "));
            return exit::FAILED;
        };
        let id = ids.first().map(String::as_str);
        match entity {
            Entity::Jobs => self.show_jobs(&ids),
            Entity::Steps => self.show_steps(&ids),
            Entity::Nodes => self.show_nodes(id),
            Entity::Partitions => self.show_partitions(id),
            Entity::Reservations => self.show_reservations(id),
            Entity::Licenses => self.show_licenses(id),
            Entity::Config => self.show_config(id),
            Entity::Hostnames => show_names(id),
            Entity::Hostlist => show_hostlist(id, false),
            Entity::HostlistSorted => show_hostlist(id, true),
            Entity::Daemons => self.print("slurmctld slurmd\n"),
            Entity::AssocMgr => self.show_associations(&ids),
            Entity::Topology => self.show_topology(id),
            Entity::Slurmd => {
                say(
                    "scontrol: error: show slurmd: there is no slurmd here; what a node has and does, scontrol show node and the log of its noded tell",
                );
                exit::FAILED
            }
            Entity::Aliases
            | Entity::BbStat
            | Entity::BurstBuffer
            | Entity::DwStat
            | Entity::Federation
            | Entity::Frontend => exit::OK,
        }
    }

    /// `last_update_time=..., records=2`: what is told is of this very moment.
    pub(super) fn head(&self, records: usize) {
        if self.verbose {
            let at = timestamp(times::time_of(&times::now()), &self.zone);
            output::print(&format!("last_update_time={at}, records={records}\n"));
        }
    }

    /// Reports that the request for a list failed; gives the exit code.
    fn no_list(&self, what: &str, e: &CallError) -> u8 {
        say(&format!("{what} error: {}", words::of_call(e)));
        exit::FAILED
    }

    fn load_nodes(&self) -> Result<Vec<NodeInfo>, u8> {
        match self.context.ask(Request::Nodes) {
            Ok(Reply::Nodes(all)) => Ok(all),
            Ok(_) => Err(self.no_list("slurm_load_node", &CallError::Unexpected)),
            Err(e) => Err(self.no_list("slurm_load_node", &e)),
        }
    }

    fn show_nodes(&self, id: Option<&str>) -> u8 {
        let all = match self.load_nodes() {
            Ok(all) => all,
            Err(code) => return code,
        };
        self.head(all.len());
        let sheet =
            |n: &NodeInfo| node::sheet(n, &self.zone, reports::release()).text(self.one_line);
        let Some(list) = id else {
            return self.print(&all.iter().map(sheet).collect::<String>());
        };
        let names = hosts::names(list).unwrap_or_else(|_| vec![list.to_owned()]);
        let mut code = exit::OK;
        let mut text = String::new();
        for name in names {
            match all.iter().find(|n| n.name == name) {
                Some(node) => text.push_str(&sheet(node)),
                None => {
                    code = exit::FAILED;
                    let name = show::clean(&name);
                    text.push_str(&format!("Node {name} not found\n"));
                }
            }
        }
        output::print(&text);
        code
    }

    fn show_partitions(&self, id: Option<&str>) -> u8 {
        let queues = match self.context.ask(Request::Queues) {
            Ok(Reply::Queues(all)) => all,
            Ok(_) => return self.no_list("slurm_load_partitions", &CallError::Unexpected),
            Err(e) => return self.no_list("slurm_load_partitions", &e),
        };
        let nodes = self.nodes();
        self.head(queues.len());
        let common = partition::common_memory(&queues);
        let chosen = queues
            .iter()
            .filter(|q| id.is_none_or(|id| q.spec.name == id));
        let text: String = chosen
            .map(|q| partition::sheet(q, &nodes, common).text(self.one_line))
            .collect();
        match id {
            Some(id) if text.is_empty() => {
                self.print(&format!("Partition {} not found\n", show::clean(id)));
                exit::FAILED
            }
            Some(_) | None => self.print(&text),
        }
    }

    fn show_reservations(&self, id: Option<&str>) -> u8 {
        let all = names::reservations(self.context);
        self.head(all.len());
        let chosen = all
            .iter()
            .filter(|r| id.is_none_or(|id| reservation::name(r) == id));
        let text: String = chosen
            .map(|r| reservation::sheet(r, &self.zone).text(self.one_line))
            .collect();
        match id {
            Some(id) if text.is_empty() => {
                self.print(&format!("Reservation {} not found\n", show::clean(id)));
                exit::FAILED
            }
            None if text.is_empty() => self.print("No reservations in the system\n"),
            Some(_) | None => self.print(&text),
        }
    }

    fn show_topology(&self, id: Option<&str>) -> u8 {
        let settings = match self.context.ask(Request::Settings) {
            Ok(Reply::Settings(settings)) => settings,
            Ok(_) => return self.no_list("slurm_load_topo", &CallError::Unexpected),
            Err(e) => return self.no_list("slurm_load_topo", &e),
        };
        if settings.switches.is_empty() {
            error(self.context, "No topology information available");
            return exit::OK;
        }
        let lines = topology::lines(&settings.switches, id);
        match id {
            Some(id) if lines.is_empty() => {
                let id = show::clean(id);
                let why = format!("Topology information contains no switch or node named {id}");
                error(self.context, &why);
                exit::FAILED
            }
            Some(_) | None => self.print(&format!("{}\n", lines.join("\n"))),
        }
    }

    fn show_licenses(&self, id: Option<&str>) -> u8 {
        let Some(settings) = self.settings() else {
            return self.no_list("slurm_load_licenses", &CallError::Unexpected);
        };
        let chosen = settings
            .licenses
            .iter()
            .filter(|l| id.is_none_or(|id| l.name == id));
        let text: String = chosen.map(|l| config::license(l, self.one_line)).collect();
        match id {
            Some(id) if text.is_empty() => {
                self.print(&format!("License name {} not found\n", show::clean(id)));
                exit::FAILED
            }
            None if text.is_empty() => self.print("No licenses configured in Slurm.\n"),
            Some(_) | None => self.print(&text),
        }
    }

    /// The whole configuration as text.
    pub(super) fn config_text(&self) -> Option<String> {
        self.config(config::text)
    }

    fn config(&self, writer: impl FnOnce(config::ConfigFacts<'_>) -> String) -> Option<String> {
        let settings = self.settings()?;
        let queues = self.queues();
        Some(writer(config::ConfigFacts {
            settings: &settings,
            memory: partition::common_memory(&queues),
            version: crate::slurm::command_line::VERSION.trim_start_matches("slurm "),
            user: &crate::users::name(settings.uid.0),
            zone: &self.zone,
        }))
    }

    fn show_config(&self, name: Option<&str>) -> u8 {
        let text = match name {
            None => self.config_text(),
            Some(name) => self.config(|facts| config::parameter(facts, name)),
        };
        let Some(text) = text else {
            return self.no_list("slurm_load_ctl_conf", &CallError::Unexpected);
        };
        if name.is_some() {
            return self.print(&text);
        }
        output::print(&text);
        output::print("\n");
        self.ping()
    }

    pub(super) fn ping(&self) -> u8 {
        let settings = self.settings();
        let host = settings.as_ref().map_or("", |s| s.host.as_str());
        let rows = match settings.is_some() {
            true => crate::controllers::all(self.context),
            false => Vec::new(),
        };
        if rows.is_empty() {
            output::print(&config::ping(host, None, settings.is_some()));
        }
        let backups = rows.len().saturating_sub(1);
        for (at, row) in rows.iter().enumerate() {
            let backup = (at > 0).then_some((at, backups));
            output::print(&config::ping(&row.name, backup, row.is_heard()));
        }
        if settings.is_some() {
            exit::OK
        } else {
            exit::FAILED
        }
    }

    fn show_associations(&self, words: &[String]) -> u8 {
        let selection = match assoc_mgr::Selection::read(words) {
            Ok(selection) => selection,
            Err((line, code)) => {
                say(&line);
                return code;
            }
        };
        match policy::with_usage(self.context) {
            Ok((view, qos_usage)) => {
                let facts = assoc_mgr::Facts {
                    qos_usage: &qos_usage,
                    uid: &crate::users::number,
                    one_line: self.one_line,
                };
                self.print(&assoc_mgr::text(&view, &selection, facts))
            }
            Err(e) => self.no_list("slurm_load_assoc_mgr_info", &e),
        }
    }
}

/// The host list given, else that of the job around the command; where it names a file, the lines
/// of the file.
fn list_of(id: Option<&str>) -> Option<String> {
    let inside = || {
        let variable = |name| std::env::var(name).ok().filter(|v| !v.is_empty());
        variable("SLURM_JOB_NODELIST").or_else(|| variable("SLURM_NODELIST"))
    };
    match id {
        Some(path) if path.starts_with('/') => {
            let text = std::fs::read_to_string(path).ok()?;
            let names: Vec<&str> = text.split_whitespace().collect();
            Some(names.join(","))
        }
        Some(list) => Some(list.to_owned()),
        None => inside(),
    }
}

fn names_of(id: Option<&str>) -> Result<Vec<String>, u8> {
    let Some(list) = list_of(id) else {
        say("scontrol: error: host list is empty");
        return Err(exit::FAILED);
    };
    hosts::names(&list).map_err(|e| {
        say(&format!("Invalid hostlist: {e}"));
        exit::FAILED
    })
}

fn show_names(id: Option<&str>) -> u8 {
    match names_of(id) {
        Ok(names) => {
            let text: String = names.iter().map(|n| format!("{n}\n")).collect();
            output::print(&text);
            exit::OK
        }
        Err(code) => code,
    }
}

fn show_hostlist(id: Option<&str>, sorted: bool) -> u8 {
    match names_of(id) {
        Ok(names) => {
            let text = if sorted {
                cosy_model::fold(&names)
            } else {
                cosy_model::hostlist::fold_in_order(&names)
            };
            output::print(&format!("{text}\n"));
            exit::OK
        }
        Err(code) => code,
    }
}
