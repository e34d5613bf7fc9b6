//! What a cluster has beside its configuration: links to programs, keys, a port.

use crate::programs;
use cosy_proto::keys::KeyPair;
use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

/// Names of the one program of the commands: its own short ones and Slurm's.
pub(super) const COMMANDS: [&str; 28] = [
    "cosy", "csub", "cstat", "ctop", "cresv", "ccancel", "chist", "cadm", "calloc", "cbcast",
    "sacct", "sacctmgr", "salloc", "sattach", "sbatch", "sbcast", "scancel", "scontrol", "sdiag",
    "seff", "sinfo", "sprio", "squeue", "sreport", "srun", "sshare", "sstat", "strigger",
];

pub(super) fn link_programs(bin: &Path) {
    let from = programs::folder();
    for name in COMMANDS {
        symlink(from.join("cosy"), bin.join(name)).expect("a link");
    }
    for name in ["cosyd", "noded"] {
        symlink(from.join(name), bin.join(name)).expect("a link");
    }
}

/// Makes a key; its public half in digits.
///
/// # Panics
/// When the file cannot be written.
pub fn new_key(path: &Path) -> String {
    let pair = KeyPair::generate().expect("a key");
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .expect("a new file");
    file.write_all(pair.pkcs8()).expect("a short file");
    pair.public().to_string()
}

pub(super) fn read_key(path: &Path) -> KeyPair {
    KeyPair::from_pkcs8(&fs::read(path).expect("a key file")).expect("a key")
}

/// A port that the controller can take again after each restart: below those that the
/// kernel gives out by itself, or a node that connects to it while the controller is
/// down could end up connected to itself.
pub(super) fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let from = std::process::id() * 37 + NEXT.fetch_add(1, Ordering::Relaxed) * 7;
    (0..1000)
        .map(|n| 12_000 + u16::try_from((from + n) % 18_000).expect("less than 18,000"))
        .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .expect("one of a thousand ports is free")
}
