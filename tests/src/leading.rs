//! Which of several controllers leads, and who stands by.

use crate::client::{Client, leads};
use crate::cluster::Cluster;
use crate::wait;
use cosy_model::api::{ControllerRole, Reply, Request};

/// Controllers are counted from 0.
impl Cluster {
    /// Waits until a controller leads, and answers.
    ///
    /// # Panics
    /// When it does not.
    pub fn until_leads(&self, at: usize) {
        let socket = &self.sockets()[at];
        wait::until_true("that controller leads", || leads(socket));
    }

    /// Waits until the leader has heard of another one lately that it stands by.
    ///
    /// # Panics
    /// When it does not.
    pub fn until_stands_by(&self, at: usize, leader: usize) {
        let (name, socket) = (format!("c{}", at + 1), &self.sockets()[leader]);
        wait::until_true("that controller stands by", || {
            let asked = Client::impatient(socket);
            let reply = asked.and_then(|mut client| client.ask(Request::Controllers));
            let Ok(Reply::Controllers(rows)) = reply else {
                return false;
            };
            rows.iter().any(|row| {
                row.name == name && row.role == ControllerRole::StandsBy && row.is_heard()
            })
        });
    }

    /// Waits until a controller that led has seen that it leads no more. What others say of it is not
    /// enough: what they heard of it before is young still.
    ///
    /// # Panics
    /// When it does not.
    pub fn until_begins_anew(&self, at: usize) {
        let daemon = match at.checked_sub(1) {
            None => &self.cosyd,
            Some(further) => &self.others[further],
        };
        wait::until_true("the former leader begins anew", || {
            daemon
                .log()
                .contains("another controller leads: this one begins anew")
        });
    }
}
