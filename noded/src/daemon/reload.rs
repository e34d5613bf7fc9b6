//! SIGHUP: the configuration is read again.

use super::Daemon;
use crate::config::{self, Config};
use std::sync::Arc;

impl Daemon {
    /// Reads the configuration again: hooks, features, log. What a running daemon cannot
    /// change is left and said.
    pub(super) fn reload(&mut self) {
        let new = match config::read(&self.options.config) {
            Ok(new) => new,
            Err(faults) => {
                return tracing::error!("the configuration stays as it was: {faults}");
            }
        };
        let old = &*self.config;
        let same = old.name == new.name
            && old.controllers == new.controllers
            && old.controller_key == new.controller_key
            && old.key == new.key
            && old.spool_dir == new.spool_dir
            && old.socket == new.socket
            && old.step_socket == new.step_socket
            && old.login_socket == new.login_socket
            && old.listen == new.listen
            && old.address == new.address
            && old.cgroups == new.cgroups
            && old.reserved == new.reserved
            && old.job_processes == new.job_processes;
        if !same {
            tracing::warn!(
                "name, controllers, keys, spool, sockets, addresses, cgroup, reserved and job_processes change only with a restart"
            );
        }
        let mut merged = Config {
            name: old.name.clone(),
            controllers: old.controllers.clone(),
            controller_key: old.controller_key,
            key: old.key.clone(),
            spool_dir: old.spool_dir.clone(),
            socket: old.socket.clone(),
            step_socket: old.step_socket.clone(),
            login_socket: old.login_socket.clone(),
            listen: old.listen.clone(),
            address: old.address.clone(),
            cgroups: old.cgroups,
            reserved: old.reserved.clone(),
            job_processes: old.job_processes,
            ..new
        };
        self.gpus.add_to(&mut merged);
        self.gpus.reconfigured(&old.devices, &merged.devices);
        let described = self.describe();
        if self.options.log.is_none()
            && let Err(e) = (self.set_log)(&merged.log)
        {
            tracing::error!("log: {e:#}");
        }
        self.config = Arc::new(merged);
        let config = Arc::clone(&self.config);
        self.real(|node| node.reconfigure(config));
        if described != self.describe() {
            // Without its sender the link ends; the next one tells what is new.
            self.link = None;
        }
        self.check_health();
        tracing::info!("configuration read again");
    }
}
