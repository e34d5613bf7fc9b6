//! Hosts that have several networks of their own on one machine, each of which can be cut.
//!
//! ```text
//!                   this thread: 10.78.N.254
//!        ┌──────────── bridge of network N ────────────┐
//!   host 1: 10.78.N.1                             host 2: 10.78.N.2
//! ```
//!
//! Everything is inside namespaces that only this thread and its children are in: when
//! they have gone, however that came, nothing is left.

use crate::{namespaces, run};
use std::fmt::Write as _;
use std::process::Command;

/// How a host is cut from a network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cut {
    /// The cable is pulled: the host sees that.
    Cable,
    /// Nothing that is sent arrives, and nobody is told.
    Silence,
}

/// Puts this thread into namespaces of its own with `hosts` hosts beside it, each of them in that many
/// networks; false, and a sentence, where the machine does not allow that.
pub fn enter_or_skip(hosts: usize, networks: usize) -> bool {
    namespaces::made_or_skip(&script(hosts, networks))
}

fn script(hosts: usize, networks: usize) -> String {
    let mut text = namespaces::BEGINNING.to_owned();
    for network in 1..=networks {
        let _ = writeln!(
            text,
            "ip link add cosybr{network} type bridge\n\
             ip addr add {}/24 dev cosybr{network}\nip link set cosybr{network} up",
            here(network)
        );
    }
    for host in 1..=hosts {
        let _ = writeln!(text, "ip netns add h{host}\nip -n h{host} link set lo up");
        for network in 1..=networks {
            let (port, address) = (port(host, network), address(host, network));
            let _ = writeln!(
                text,
                "ip link add {port} type veth peer name eth{network} netns h{host}\n\
                 ip link set {port} master cosybr{network} up\n\
                 ip -n h{host} addr add {address}/24 dev eth{network}\n\
                 ip -n h{host} link set eth{network} up"
            );
        }
    }
    // A program that is missing shows here, not when something is to be cut.
    text.push_str("bridge link show > /dev/null\n");
    text
}

/// Where this thread is in a network (counted from 1).
pub fn here(network: usize) -> String {
    format!("10.78.{network}.254")
}

/// Where a host (counted from 1) is in a network.
pub fn address(host: usize, network: usize) -> String {
    format!("10.78.{network}.{host}")
}

fn port(host: usize, network: usize) -> String {
    format!("v{host}n{network}")
}

/// What starts a program as if on that host: see [`crate::daemon::Daemon::before`].
pub fn before(host: usize) -> Vec<String> {
    let enter = format!("--net=/run/netns/h{host}");
    ["nsenter", &enter].map(str::to_owned).into()
}

/// Cuts a host from a network.
///
/// # Panics
/// When that cannot be done.
pub fn cut(host: usize, network: usize, how: Cut) {
    let port = port(host, network);
    let command = match how {
        Cut::Cable => format!("ip link set {port} down"),
        Cut::Silence => format!("bridge link set dev {port} state 0"),
    };
    sh(&command);
}

/// Mends what was cut.
///
/// # Panics
/// When that cannot be done.
pub fn mend(host: usize, network: usize, how: Cut) {
    let port = port(host, network);
    let command = match how {
        Cut::Cable => format!("ip link set {port} up"),
        Cut::Silence => format!("bridge link set dev {port} state 3"),
    };
    sh(&command);
}

fn sh(command: &str) {
    run::run(Command::new("sh").args(["-c", command])).expect(0);
}
