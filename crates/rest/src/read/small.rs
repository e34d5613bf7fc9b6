//! Records with little in them: licences, pings, the cluster.

use crate::tree::{Tree, number};
use cosy_model::Settings;
use cosy_model::api::{ControllerRole, ControllerRow, NodeInfo};
use cosy_model::settings::License;
use cosy_slurm::json_yaml::{Data, map};

/// A licence.
pub fn of_license(license: &License) -> Data {
    let kept = license.reserved.saturating_sub(license.reserved_in_use);
    let taken = license.used.saturating_add(license.outside());
    map([
        ("LicenseName", license.name.as_str().into()),
        ("Total", number(license.total)),
        ("Used", number(taken.min(license.total))),
        ("Free", number(license.total.saturating_sub(taken.saturating_add(kept)))),
        ("Remote", license.told.is_some().into()),
        ("Reserved", number(license.reserved)),
    ])
}

/// Controllers that are there, the one that leads first; of a cluster with one controller that one.
pub fn pings(controllers: &[ControllerRow], host: &str) -> Vec<Data> {
    let ping = |name: &str, heard: bool, leads: bool, mode: &str| {
        map([
            ("hostname", name.into()),
            ("pinged", if heard { "UP" } else { "DOWN" }.into()),
            ("responding", heard.into()),
            ("mode", mode.into()),
            ("primary", leads.into()),
        ])
    };
    if controllers.is_empty() {
        return vec![ping(host, true, true, "primary")];
    }
    let mut all: Vec<(bool, Data)> = controllers
        .iter()
        .enumerate()
        .map(|(at, row)| {
            let leads = row.role == ControllerRole::Leads;
            let mode = if leads {
                "primary".to_owned()
            } else {
                format!("backup{at}")
            };
            (leads, ping(&row.name, leads || row.is_heard(), leads, &mode))
        })
        .collect();
    all.sort_by_key(|(leads, _)| !leads);
    all.into_iter().map(|(_, ping)| ping).collect()
}

/// The accounting's daemon, which is the controller.
pub fn db_ping(host: &str) -> Data {
    map([
        ("hostname", host.into()),
        ("responding", true.into()),
        ("latency", 0.into()),
        ("primary", true.into()),
    ])
}

/// The cluster itself.
pub fn of_cluster(settings: &Settings, nodes: &[NodeInfo]) -> Data {
    let names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
    let sum =
        |of: fn(&NodeInfo) -> u64| nodes.iter().fold(0u64, |all, n| all.saturating_add(of(n)));
    let cores = sum(|node| node.amounts.cores.into());
    let amounts = [
        ("cpu", "", cores),
        ("mem", "", sum(|node| node.amounts.memory.0)),
        ("node", "", u64::try_from(nodes.len()).unwrap_or(u64::MAX)),
        ("billing", "", cores),
        ("gres", "gpu", sum(|node| node.amounts.gpus.into())),
    ];
    let amounts = amounts.iter().map(|(kind, name, n)| {
        crate::tree::tres_of(kind, name, i64::try_from(*n).unwrap_or(i64::MAX))
    });
    let mut tree = Tree::default();
    tree.at("controller.host", settings.host.as_str())
        .set("name", settings.cluster.as_str())
        .set("nodes", cosy_model::fold(&names))
        .set("select_plugin", "select/cons_tres")
        .at("associations.root.account", "root")
        .at("associations.root.cluster", settings.cluster.as_str())
        .set("tres", Data::List(amounts.collect()));
    tree.done()
}
