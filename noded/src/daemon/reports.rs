//! What the controller is told: the nodes of this daemon, what came up, figures.

use super::{Daemon, Nodes};
use crate::node::Node;
use crate::{detect, sys};
use cosy_model::limits;
use cosy_model::node::{NodeReport, NodeSelf};
use cosy_proto::frame;
use tokio::sync::mpsc;

impl Daemon {
    pub(super) fn register(&mut self, sender: mpsc::UnboundedSender<Vec<u8>>) {
        // What came up while there was no link is in the inventory.
        drop(self.take_reports());
        self.out.clear();
        self.link = Some(sender);
        let inventory = match &self.nodes {
            Nodes::Real(node) => node.inventory(),
            Nodes::Virtual(nodes) => nodes.inventory(),
        };
        let nodes = self.describe();
        self.lease.registers(sys::since_boot());
        self.say(&NodeReport::Register {
            nodes,
            inventory,
            seen: self.lease.seen(),
            clock: Some(sys::now()),
        });
        self.say_figures();
        self.real(Node::repeat_reports);
        if self.health_problem().is_some() {
            self.say_health();
        }
        self.send_reports();
    }

    pub(super) fn describe(&self) -> Vec<NodeSelf> {
        let names = match &self.nodes {
            Nodes::Real(_) => std::slice::from_ref(&self.config.name),
            Nodes::Virtual(nodes) => nodes.names(),
        };
        let real = matches!(self.nodes, Nodes::Real(_));
        let own = sys::own_uid();
        let amounts = detect::amounts(&self.config);
        let boot_id = detect::boot_id();
        let machine = detect::machine();
        names
            .iter()
            .map(|name| NodeSelf {
                name: name.clone(),
                amounts: amounts.clone(),
                gpu_types: self.config.devices.gpu_types(),
                devices: self.config.devices.others.keys().cloned().collect(),
                shards: self.config.devices.shards(),
                features: self.config.features.clone(),
                boot_id: boot_id.clone(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                only_uid: (real && own.0 != 0).then_some(own),
                listen: self.reached_at.clone(),
                step_socket: self.step_socket_path(),
                machine: machine.clone(),
            })
            .collect()
    }

    fn step_socket_path(&self) -> String {
        match &self.step_socket {
            Some(_) => self.config.step_socket().display().to_string(),
            None => String::new(),
        }
    }

    pub(super) fn link_down(&mut self) {
        self.link = None;
        if let Some(relay) = &self.relay {
            relay.drop_all();
        }
    }

    pub(super) fn say(&mut self, report: &NodeReport) {
        if self.link.is_none() {
            return;
        }
        match frame::encode(report, limits::FRAME_BYTES) {
            Ok(bytes) => self.out.extend(bytes),
            Err(e) => tracing::error!("a report cannot be sent: {e}"),
        }
    }

    pub(super) fn say_figures(&mut self) {
        let mut figures = detect::figures();
        if let Nodes::Real(_) = &self.nodes {
            figures.number = self.lease.next_report(sys::since_boot());
        }
        self.say(&NodeReport::Figures(figures));
    }

    fn take_reports(&mut self) -> Vec<NodeReport> {
        match &mut self.nodes {
            Nodes::Real(node) => node.take_reports(),
            Nodes::Virtual(nodes) => nodes.take_reports(),
        }
    }

    pub(super) fn send_reports(&mut self) {
        for report in self.take_reports() {
            self.say(&report);
        }
        if let (Some(link), false) = (&self.link, self.out.is_empty()) {
            let _ = link.send(std::mem::take(&mut self.out));
        }
    }
}
