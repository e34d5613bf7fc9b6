//! The controllers of a private cluster: one, or several that share a database, with which
//! takeovers can be tried.
//!
//! With one the daemon finds a port by itself. Several know each other's places from their
//! common file, so their ports are chosen before they start.

use anyhow::{Context as _, bail};
use rustix::rand::{GetRandomFlags, getrandom};
use serde::{Deserialize, Serialize};
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Ports that the system gives to nobody who asks for any.
const FIRST_PORT: u16 = 12_000;
/// So many of them.
const PORTS: u16 = 18_000;
/// Name of the script in the folder of commands.
pub const SCRIPT: &str = "dev-controller";

/// One controller.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ControllerPlan {
    /// Its name among several (`c1`); of the only one, its program's.
    pub name: String,
    /// Where it keeps its key, and its state unless that is in a database.
    pub state: PathBuf,
    /// The socket for commands.
    pub socket: PathBuf,
    /// The port for nodes on the loopback interface; 0 for any.
    pub port: u16,
}

impl ControllerPlan {
    /// The only one.
    pub fn only(dir: &Path) -> Self {
        Self {
            name: "cosyd".to_owned(),
            state: dir.join("state"),
            socket: dir.join("run/cosyd.sock"),
            port: 0,
        }
    }

    /// So many.
    ///
    /// # Errors
    /// No port is free.
    pub fn several(dir: &Path, count: u32) -> anyhow::Result<Vec<Self>> {
        let mut all: Vec<Self> = Vec::new();
        for number in 1..=count {
            let socket = match number {
                1 => "run/cosyd.sock".to_owned(),
                _ => format!("run/cosyd{number}.sock"),
            };
            let taken: Vec<u16> = all.iter().map(|c| c.port).collect();
            all.push(Self {
                name: format!("c{number}"),
                state: dir.join(format!("state{number}")),
                socket: dir.join(socket),
                port: free_port(&taken)?,
            });
        }
        Ok(all)
    }

    /// Where nodes reach it.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The file with the number of its process.
    pub fn pid_file(&self, dir: &Path) -> PathBuf {
        dir.join(format!("run/{}.pid", self.name))
    }

    /// Whether its process has that number; also where it was started again by hand.
    pub fn is_process(&self, dir: &Path, pid: i32) -> bool {
        let text = fs::read_to_string(self.pid_file(dir)).unwrap_or_default();
        text.trim().parse() == Ok(pid)
    }
}

/// A free port, by chance, so that clusters that start at one time do not choose the same.
fn free_port(taken: &[u16]) -> anyhow::Result<u16> {
    const TRIES: usize = 1000;
    for _ in 0..TRIES {
        let mut raw = [0; 2];
        getrandom(&mut raw, GetRandomFlags::empty())?;
        let port = FIRST_PORT + u16::from_ne_bytes(raw) % PORTS;
        if !taken.contains(&port) && TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no port is free for a controller")
}

/// Writes the script that ends controllers and starts them again.
///
/// # Errors
/// It cannot be written.
pub fn write_script(dir: &Path) -> anyhow::Result<()> {
    let path = dir.join("bin").join(SCRIPT);
    fs::write(&path, include_str!("dev-controller.sh"))
        .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o755)))
        .with_context(|| format!("cannot write '{}'", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_have_places_of_their_own() {
        let all = ControllerPlan::several(Path::new("/d"), 8).unwrap();
        let places = |of: fn(&ControllerPlan) -> String| {
            let mut places: Vec<String> = all.iter().map(of).collect();
            places.sort_unstable();
            places.dedup();
            places.len()
        };
        assert_eq!(places(|c| c.name.clone()), 8);
        assert_eq!(places(|c| c.state.display().to_string()), 8);
        assert_eq!(places(|c| c.socket.display().to_string()), 8);
        assert_eq!(places(ControllerPlan::address), 8);
        assert_eq!(all[0].socket, ControllerPlan::only(Path::new("/d")).socket);
    }
}
