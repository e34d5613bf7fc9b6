//! The names of clusters and the sockets by which they are reached.
//!
//! ```toml
//! [cluster.a]
//! socket = "/run/cosy/a.sock"
//! ```
//!
//! The file that `COSY_CLUSTERS` names counts alone; without it the system's file and, over it, the
//! user's own.

use cosy_model::variables;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

/// The file for all users of the host.
pub const SYSTEM_FILE: &str = "/etc/cosy/clusters.toml";
/// The user's own file, in the home directory.
const OWN_FILE: &str = ".config/cosy/clusters.toml";
/// Clusters that can be named at once, at most.
pub const MOST_CLUSTERS: usize = 64;
/// Largest file, in bytes.
const FILE_BYTES: u64 = 1 << 20;

/// A cluster as the broker knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cluster {
    /// Name, as `[cluster.NAME]` has it.
    pub name: String,
    /// Socket of its controller, or of a relay to it.
    pub socket: PathBuf,
}

/// Why there are no clusters to ask.
#[derive(Debug, thiserror::Error)]
pub enum ClustersError {
    /// None of the files exists.
    #[error("no clusters are configured: write [cluster.NAME] with socket = \"PATH\" into {0}")]
    NoFile(String),
    /// A file exists and cannot be read.
    #[error("cannot read {path}: {cause}")]
    Read {
        /// The file that was read.
        path: String,
        /// The system's error.
        cause: io::Error,
    },
    /// A file is no TOML, has unknown keys, or a socket that is no absolute path.
    #[error("{path}: {why}")]
    Bad {
        /// The file that was read.
        path: String,
        /// What is wrong, in one line.
        why: String,
    },
    /// No file names this cluster.
    #[error("there is no cluster '{name}' in {files}; there are: {known}")]
    Unknown {
        /// Name as the user typed it.
        name: String,
        /// The files that were read.
        files: String,
        /// Names of all clusters in them.
        known: String,
    },
    /// The argument is no list of different names.
    #[error("'{text}' is no list of clusters: {why}")]
    List {
        /// The argument, shortened.
        text: String,
        /// What is wrong with the list.
        why: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    cluster: BTreeMap<String, Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    socket: PathBuf,
}

/// The clusters named `a,b,c`, in that order.
///
/// # Errors
/// [`ClustersError`].
pub fn names(list: &str) -> Result<Vec<Cluster>, ClustersError> {
    let files = files(std::env::var_os(variables::CLUSTERS), std::env::var_os("HOME"));
    choose(list, &files)
}

/// The files to read, the one that counts most last.
fn files(named: Option<OsString>, home: Option<OsString>) -> Vec<PathBuf> {
    if let Some(named) = named.filter(|n| !n.is_empty()) {
        return vec![named.into()];
    }
    let own = home.filter(|h| !h.is_empty());
    let own = own.map(|h| Path::new(&h).join(OWN_FILE));
    [SYSTEM_FILE.into()].into_iter().chain(own).collect()
}

fn choose(list: &str, files: &[PathBuf]) -> Result<Vec<Cluster>, ClustersError> {
    let shown: Vec<String> = files.iter().map(|f| f.display().to_string()).collect();
    let shown = shown.join(" or ");
    let names = split(list)?;
    let mut known: BTreeMap<String, Entry> = BTreeMap::new();
    let mut found = false;
    for path in files {
        if let Some(entries) = read(path)? {
            found = true;
            known.extend(entries);
        }
    }
    if !found {
        return Err(ClustersError::NoFile(shown));
    }
    let one = |name: &str| match known.get(name) {
        Some(entry) => Ok(Cluster {
            name: name.to_owned(),
            socket: entry.socket.clone(),
        }),
        None => Err(ClustersError::Unknown {
            name: name.to_owned(),
            files: shown.clone(),
            known: known.keys().cloned().collect::<Vec<_>>().join(", "),
        }),
    };
    names.into_iter().map(one).collect()
}

fn split(list: &str) -> Result<Vec<&str>, ClustersError> {
    let bad = |why: String| ClustersError::List {
        text: list.chars().take(60).collect(),
        why,
    };
    let names: Vec<&str> = list.split(',').map(str::trim).collect();
    if names.len() > MOST_CLUSTERS {
        return Err(bad(format!("it has {} names, at most {MOST_CLUSTERS}", names.len())));
    }
    for (at, name) in names.iter().enumerate() {
        if name.is_empty() {
            return Err(bad("a name is empty".to_owned()));
        }
        if names[..at].contains(name) {
            return Err(bad(format!("'{name}' stands there twice")));
        }
    }
    Ok(names)
}

/// The entries of a file; `None` when it is not there.
fn read(path: &Path) -> Result<Option<BTreeMap<String, Entry>>, ClustersError> {
    let shown = || path.display().to_string();
    let unreadable = |cause| ClustersError::Read {
        path: shown(),
        cause,
    };
    let bad = |why: String| ClustersError::Bad { path: shown(), why };
    match std::fs::metadata(path) {
        Ok(about) if about.len() > FILE_BYTES => {
            let why = format!("it has {} bytes, at most {FILE_BYTES}", about.len());
            return Err(bad(why));
        }
        Ok(_) => {}
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(unreadable(e)),
    }
    let text = std::fs::read_to_string(path).map_err(unreadable)?;
    let file: File = toml::from_str(&text).map_err(|e| bad(e.to_string()))?;
    match file.cluster.iter().find(|(_, e)| !e.socket.is_absolute()) {
        Some((name, entry)) => Err(bad(format!(
            "cluster.{name}: the socket '{}' must be a whole path from / on",
            entry.socket.display()
        ))),
        None => Ok(Some(file.cluster)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(own: Option<&str>, list: &str, want: Result<&str, &str>) {
        let dir = tempfile::tempdir().unwrap();
        let system = dir.path().join("system.toml");
        let text = "[cluster.a]\nsocket = \"/s/a\"\n[cluster.b]\nsocket = \"/s/b\"\n";
        std::fs::write(&system, text).unwrap();
        let file = dir.path().join("own.toml");
        if let Some(own) = own {
            std::fs::write(&file, own).unwrap();
        }
        let got = choose(list, &[system, file]);
        let show = |all: Vec<Cluster>| -> String {
            let each = all
                .iter()
                .map(|c| format!("{}={}", c.name, c.socket.display()));
            each.collect::<Vec<_>>().join(" ")
        };
        match (got.map(show), want) {
            (Ok(got), Ok(want)) => assert_eq!(got, want),
            (Err(e), Err(want)) => assert!(e.to_string().contains(want), "{e}"),
            (got, want) => panic!("{got:?}, wanted {want:?}"),
        }
    }

    #[test]
    fn named_ones_in_their_order() {
        check(None, "b, a", Ok("b=/s/b a=/s/a"));
        let own = "[cluster.b]\nsocket = \"/own/b\"\n[cluster.c]\nsocket = \"/own/c\"\n";
        check(Some(own), "a,b,c", Ok("a=/s/a b=/own/b c=/own/c"));
    }

    #[test]
    fn mistakes_are_told() {
        check(None, "a,z", Err("there is no cluster 'z'"));
        check(None, "a,z", Err("there are: a, b"));
        check(None, "a,", Err("a name is empty"));
        check(None, "a,b,a", Err("'a' stands there twice"));
        check(None, &"x,".repeat(70), Err("at most 64"));
        check(Some("[cluster.c]\nsocket = \"run/c\"\n"), "c", Err("whole path"));
        check(Some("[cluster.c]\nsock = \"/c\"\n"), "c", Err("own.toml: "));
        check(Some("nonsense"), "a", Err("own.toml: "));
    }

    #[test]
    fn the_example_is_fine() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../etc/clusters.toml");
        let all = choose("b,a", &[file]).unwrap();
        assert_eq!(all[0].socket, Path::new("/run/cosy/b.sock"));
    }

    #[test]
    fn which_files() {
        let check = |named: Option<&str>, home: Option<&str>, want: &[&str]| {
            let got = files(named.map(Into::into), home.map(Into::into));
            assert_eq!(got, want.iter().map(PathBuf::from).collect::<Vec<_>>());
        };
        check(Some("/x"), Some("/home/u"), &["/x"]);
        check(Some(""), Some("/home/u"), &[SYSTEM_FILE, "/home/u/.config/cosy/clusters.toml"]);
        check(None, None, &[SYSTEM_FILE]);
        let none = choose("a", &[PathBuf::from("/no/such/file")]);
        assert!(
            none.unwrap_err()
                .to_string()
                .contains("no clusters are configured")
        );
    }
}
