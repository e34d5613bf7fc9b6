//! What answering needs, and how much of it users may hold at once.

use crate::archiver::Archiver;
use crate::budget::{self, Budget};
use crate::end::End;
use crate::engine::Input;
use crate::hub::Hub;
use crate::memory::Memory;
use crate::meter::Meter;
use crate::pool::{Bounds, Pool};
use crate::standing::Standing;
use crate::store::Store;
use crate::submit::Gate;
use cosy_control::ClusterConfig;
use cosy_model::{Uid, User};
use cosy_proto::keys::PublicKey;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};

/// Connections beside those of commands that the daemon itself needs, in file descriptors:
/// nodes, the store, standard streams.
const OTHER_FILES: u64 = 1024;
/// Most connections of commands, whatever the system allows.
const CONNECTIONS: u64 = 4096;
/// Commands on other hosts that talk with the controller at once.
const RELAYED: u64 = 10_000;

const MIB: u64 = 1 << 20;

/// How long connections of commands may keep the daemon waiting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Times {
    /// The first byte of a connection must come within so long.
    pub first: Duration,
    /// A connection that asks nothing any more, and stays with no job, ends after so long.
    pub idle: Duration,
    /// A frame that has begun must be whole after so long.
    pub frame: Duration,
    /// An answer of which nothing is taken for so long is not waited for any more.
    pub take: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            first: Duration::from_secs(30),
            idle: Duration::from_secs(600),
            frame: Duration::from_secs(20),
            take: Duration::from_secs(30),
        }
    }
}

/// What users may hold of the controller at once.
pub struct Budgets {
    /// Connections to the local socket.
    pub connections: Arc<Budget>,
    /// Commands on other hosts.
    pub relayed: Arc<Budget>,
    /// Bytes of requests that are not whole yet.
    pub unfinished: Arc<Budget>,
    /// Bytes of requests that are not answered yet, as they are in memory.
    pub requests: Arc<Budget>,
    /// Bytes of answers that are being made, or not taken yet.
    pub answers: Arc<Budget>,
    /// Bytes of what node daemons report, whole or not, until its turn comes. The key of each
    /// stands for a user.
    pub reports: Arc<Budget>,
}

impl Budgets {
    /// `per_user`: connections of one user; `files`: file descriptors that the daemon may have.
    pub fn new(per_user: u64, files: u64) -> Self {
        let limits = |per_user, in_all, reserve| budget::Limits {
            per_user,
            in_all,
            reserve,
        };
        let all = files
            .saturating_sub(OTHER_FILES)
            .max(files / 2)
            .min(CONNECTIONS);
        let reserve = (all / 16).max(4);
        let connections = limits(per_user, all - reserve, reserve);
        Self {
            connections: Budget::new("connections", connections),
            relayed: Budget::new("connections over nodes", limits(per_user, RELAYED, 0)),
            unfinished: Budget::new(
                "bytes of unfinished requests",
                limits(32 * MIB, 80 * MIB, 32 * MIB),
            ),
            requests: Budget::new(
                "bytes of requests under way",
                limits(48 * MIB, 96 * MIB, 48 * MIB),
            ),
            answers: Budget::new(
                "bytes of answers under way",
                limits(48 * MIB, 96 * MIB, 48 * MIB),
            ),
            reports: Budget::new("bytes of nodes' reports", limits(32 * MIB, 96 * MIB, 0)),
        }
    }

    pub(super) fn all(&self) -> [&Arc<Budget>; 6] {
        [
            &self.connections,
            &self.relayed,
            &self.unfinished,
            &self.requests,
            &self.answers,
            &self.reports,
        ]
    }
}

/// Threads for what may block. None of them waits for another.
pub struct Pools {
    /// Questions that are answered out of the store.
    pub history: Pool<Option<Store>>,
    /// What submissions need to know out of the store.
    pub facts: Pool<Option<Store>>,
    /// Looks users up in the directory.
    pub directory: Pool<()>,
    /// Decodes large requests and encodes answers.
    pub codes: Pool<()>,
}

impl Pools {
    /// Starts the threads.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start() -> std::io::Result<Self> {
        let bounds = |threads, per_user, waiting_per_user| Bounds {
            threads,
            per_user,
            waiting_per_user,
            waiting: 4096,
        };
        Ok(Self {
            history: Pool::start("reads of history", bounds(3, 1, 64))?,
            facts: Pool::start("look-ups of jobs", bounds(3, 1, 1024))?,
            directory: Pool::start("look-ups of users", bounds(4, 1, 1024))?,
            codes: Pool::start("large messages", bounds(2, 1, 1024))?,
        })
    }
}

/// Who answers commands: nobody but the standby, until this controller leads.
pub type Answering = watch::Receiver<Option<Arc<Services>>>;

/// What the answering of commands needs.
pub struct Services {
    /// The core's mailbox.
    pub core: mpsc::Sender<Input>,
    /// Connections that answers are written to.
    pub hub: Arc<Hub>,
    /// The present configuration.
    pub cluster: Arc<Mutex<ClusterConfig>>,
    /// Looks users up instead of the system.
    pub lookup_command: Option<Vec<String>>,
    /// For questions about history.
    pub database: crate::store::Location,
    /// Goes into join tokens.
    pub public_key: PublicKey,
    /// Users looked up lately.
    pub users: Arc<Mutex<BTreeMap<Uid, (Instant, User)>>>,
    /// What users may hold at once.
    pub budgets: Budgets,
    /// Threads that do what would hold up connections.
    pub pools: Pools,
    /// Moves old jobs into archives.
    pub archiver: Arc<Archiver>,
    /// Durations of turns and reads.
    pub meter: Arc<Meter>,
    /// Memory in use, and how much may be.
    pub memory: Arc<Memory>,
    /// How long connections may keep it waiting.
    pub times: Times,
    /// What requests pass on their way to the core.
    pub gate: Arc<Gate>,
    /// How the database stands.
    pub standing: Arc<Standing>,
    /// In which epoch this controller leads; 0 where there is only one.
    pub epoch: u64,
    /// Ends the lead.
    pub end: mpsc::Sender<End>,
}
