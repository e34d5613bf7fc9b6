//! Nodes with network interfaces and host names of their own on one machine.
//!
//! ```text
//!   this thread: 10.77.0.254   n1: 10.77.0.1   n2: 10.77.0.2 ...
//!        └───────────── bridge ───┴───────────────┘
//! ```
//!
//! Everything is inside namespaces that only this thread and its children are in: when
//! they have gone, however that came, nothing is left.

use crate::{run, system};
use nix::sched::{CloneFlags, unshare};
use std::fmt::Write as _;
use std::process::Command;

/// Where this thread is reached by the nodes.
pub const HERE: &str = "10.77.0.254";

/// Puts this thread into namespaces of its own with those of `nodes` nodes beside it;
/// false, and a sentence, where the machine does not allow that.
pub fn enter_or_skip(nodes: usize) -> bool {
    made_or_skip(&script(nodes))
}

/// What a script for [`made_or_skip`] begins with.
pub(crate) const BEGINNING: &str = "set -e\nmount --make-rprivate /\nmkdir -p /run/netns\n\
    mount -t tmpfs none /run/netns\nip link set lo up\n";

/// Puts this thread into namespaces of its own and carries out a script there; false, and a sentence,
/// where the machine does not allow that.
pub(crate) fn made_or_skip(script: &str) -> bool {
    if !system::root_or_skip() {
        return false;
    }
    if let Err(e) = unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS) {
        system::skip(&format!("no namespaces here: {e}"));
        return false;
    }
    let made = run::run(Command::new("sh").args(["-c", script]));
    if made.code != 0 {
        system::skip(&format!("no network of its own here: {}", made.err.trim()));
        return false;
    }
    true
}

fn script(nodes: usize) -> String {
    let mut text = format!(
        "{BEGINNING}ip link add cosybr type bridge\nip addr add {HERE}/24 dev cosybr\n\
         ip link set cosybr up\nprintf '127.0.0.1 localhost\\n' > /run/netns/hosts\n"
    );
    for n in 1..=nodes {
        let _ = write!(
            text,
            "ip netns add n{n}\nip link add v{n} type veth peer name eth0 netns n{n}\n\
             ip link set v{n} master cosybr up\nip -n n{n} addr add {0} dev eth0\n\
             ip -n n{n} link set eth0 up\nip -n n{n} link set lo up\n\
             echo '{1} n{n}' >> /run/netns/hosts\n",
            format_args!("10.77.0.{n}/24"),
            address(n),
        );
    }
    text.push_str("mount --bind /run/netns/hosts /etc/hosts\n");
    text
}

/// Address of a node (counted from 1).
pub fn address(node: usize) -> String {
    format!("10.77.0.{node}")
}

/// What starts a program as if on that node: see [`crate::daemon::Daemon::before`].
pub fn before(node: usize) -> Vec<String> {
    let enter = format!("--net=/run/netns/n{node}");
    let name = format!("hostname n{node}; exec \"$0\" \"$@\"");
    ["nsenter", &enter, "unshare", "--uts", "sh", "-c", &name]
        .map(str::to_owned)
        .into()
}
