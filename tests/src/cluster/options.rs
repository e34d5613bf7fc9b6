//! How a cluster is configured.

use std::path::{Path, PathBuf};

/// How a cluster is configured.
#[derive(Clone, Debug)]
pub struct Options {
    /// Cores of each node; with 0 it finds out what it has, memory too.
    pub cores: u32,
    /// Memory of each node.
    pub memory: &'static str,
    /// Lines of `[policy]`.
    pub policy: String,
    /// Lines of `[cluster]` and what follows it.
    pub head: String,
    /// Lines of `[controller]`.
    pub controller: String,
    /// The queues; one with all nodes without.
    pub queues: Option<String>,
    /// Lines of a node's entry in `cosy.toml`, by its number from 1.
    pub entry: fn(usize) -> String,
    /// Lines of a node's `noded.toml`; `DIR` stands for the cluster's directory.
    pub noded: fn(usize) -> String,
    /// Where the controller listens for nodes.
    pub host: &'static str,
    /// Variables of cosyd.
    pub variables: Vec<(String, String)>,
    /// Whether node daemons play virtual nodes, and how many each.
    pub virtual_nodes: u32,
    /// Where the controller keeps its state, instead of its directory.
    pub state_dir: Option<PathBuf>,
    /// Several controllers on a database, instead of one.
    pub controllers: Option<Controllers>,
}

/// Several controllers.
#[derive(Clone, Debug)]
pub struct Controllers {
    /// For each, how it reaches the database, in libpq's words.
    pub databases: Vec<String>,
    /// Further lines of `[store]`.
    pub store: String,
    /// For a node (counted from 0), where it reaches each controller (`HOST:PORT`), instead of the
    /// controller itself.
    pub ways: Vec<Vec<String>>,
}

impl Options {
    /// What is mailed is written there instead: its subject, then the rest.
    #[must_use]
    pub fn mailed_to(mut self, file: &Path) -> Self {
        let shown = file.display();
        let program = format!("{{ echo \"$2\"; cat; }} > {shown}.new; mv {shown}.new {shown}");
        self.policy
            .push_str(&format!("mail_command = [\"/bin/sh\", \"-c\", '{program}', \"mail\"]\n"));
        self
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            cores: 4,
            memory: "2G",
            policy: "heartbeat = \"1s\"\nnode_timeout = \"20s\"\ngrace = \"1s\"\n".into(),
            head: String::new(),
            controller: String::new(),
            queues: None,
            entry: |_| String::new(),
            noded: |_| String::new(),
            host: "127.0.0.1",
            variables: Vec::new(),
            virtual_nodes: 0,
            state_dir: None,
            controllers: None,
        }
    }
}
