//! Where plugins are.

use crate::{FILE_BYTES, NAME_BYTES, PLUGINS, SITE_DIRECTORY};
use cosy_model::step::Wireup;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Why a plugin cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PluginError {
    /// None has that name.
    #[error("there is no MPI plugin '{name}'; there are: {known}")]
    Unknown {
        /// Name that was asked for.
        name: String,
        /// Names of the plugins that there are, in one line.
        known: String,
    },
    /// One of its files cannot be read.
    #[error("{0}: {1}")]
    Unreadable(PathBuf, #[source] io::Error),
    /// Its wire-up is none that we know.
    #[error("{0}: a wire-up is 'none', 'pmi' or 'pmix', not '{1}'")]
    BadWireup(PathBuf, String),
    /// A program that is to be looked into cannot be.
    #[error("{0}: {1}")]
    Program(PathBuf, #[source] crate::ElfError),
}

/// An MPI plugin: a name, and the directory of its scripts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plugin {
    /// Name, which is its directory's.
    pub name: String,
    /// Directory with its files.
    pub directory: PathBuf,
}

impl Plugin {
    /// How tasks that are launched directly find each other; not at all where it does not
    /// say.
    ///
    /// # Errors
    /// [`PluginError`].
    pub fn wireup(&self) -> Result<Wireup, PluginError> {
        let file = self.directory.join("wireup");
        let text = read(&file)?;
        word(text.trim()).ok_or_else(|| PluginError::BadWireup(file, text.trim().to_owned()))
    }

    /// Sonames by which a program is known to need it: one in each line, `#` begins a
    /// comment.
    ///
    /// # Errors
    /// [`PluginError`].
    pub fn libraries(&self) -> Result<Vec<String>, PluginError> {
        let text = read(&self.directory.join("libraries"))?;
        let names = text
            .lines()
            .map(|l| l.split('#').next().unwrap_or("").trim());
        Ok(names.filter(|n| !n.is_empty()).map(str::to_owned).collect())
    }

    /// Used only where it is asked for by its name.
    pub fn by_name_only(&self) -> bool {
        self.directory.join("by-name-only").exists()
    }

    /// Its script for jobs, when it has one.
    pub fn job(&self) -> Option<PathBuf> {
        Some(self.directory.join("job")).filter(|p| p.is_file())
    }
}

/// A wire-up by its word; the empty one is none.
pub(crate) fn word(text: &str) -> Option<Wireup> {
    match text {
        "" | "none" => Some(Wireup::None),
        "pmi" => Some(Wireup::Pmi),
        "pmix" => Some(Wireup::Pmix),
        _ => None,
    }
}

/// The text of a small file; empty when it is not there.
fn read(path: &Path) -> Result<String, PluginError> {
    let mut text = String::new();
    let read = File::open(path).and_then(|f| f.take(FILE_BYTES).read_to_string(&mut text));
    match read {
        Ok(_) => Ok(text),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(text),
        Err(e) => Err(PluginError::Unreadable(path.to_owned(), e)),
    }
}

/// Directories of plugins, the most important one first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plugins(Vec<PathBuf>);

impl Plugins {
    /// The plugins in these directories; of equal names the first counts.
    pub fn new(directories: Vec<PathBuf>) -> Self {
        Self(directories)
    }

    /// Those that [`cosy_model::variables::PLUGIN_PATH`] names; without it the site's own, then those
    /// installed with `program`, an absolute path: `PREFIX/share/cosy/plugins` for
    /// `PREFIX/bin/PROGRAM`, and the source tree's for a program that was built in it.
    pub fn search(variable: Option<&OsStr>, program: Option<&Path>) -> Self {
        if let Some(value) = variable.filter(|v| !v.is_empty()) {
            let absolute = std::env::split_paths(value).filter(|p| p.is_absolute());
            return Self(absolute.collect());
        }
        let mut all = vec![PathBuf::from(SITE_DIRECTORY)];
        all.extend(program.and_then(installed_with));
        Self(all)
    }

    /// The directories as a variable holds them.
    pub fn path(&self) -> OsString {
        std::env::join_paths(&self.0).unwrap_or_default()
    }

    /// All plugins by name.
    pub fn all(&self) -> Vec<Plugin> {
        let mut found = BTreeMap::new();
        for directory in &self.0 {
            for plugin in in_directory(directory, is_plugin) {
                found.entry(plugin.name.clone()).or_insert(plugin);
            }
        }
        found.into_values().collect()
    }

    /// What lies in a folder of each directory, the most important directory first.
    pub(crate) fn below(&self, folder: &str, good: fn(&Path) -> bool) -> Vec<Plugin> {
        let directories = self.0.iter().map(|d| d.join(folder));
        directories.flat_map(|d| in_directory(&d, good)).collect()
    }

    /// All that are used without being asked for.
    pub fn usual(&self) -> Vec<Plugin> {
        let mut all = self.all();
        all.retain(|p| !p.by_name_only());
        all
    }

    /// The plugin of that name.
    ///
    /// # Errors
    /// [`PluginError::Unknown`].
    pub fn named(&self, name: &str) -> Result<Plugin, PluginError> {
        let all = self.all();
        if let Some(plugin) = all.iter().find(|p| p.name == name) {
            return Ok(plugin.clone());
        }
        let names: Vec<&str> = all.iter().map(|p| p.name.as_str()).collect();
        let known = match names.is_empty() {
            true => format!("none in {}", self.path().to_string_lossy()),
            false => names.join(", "),
        };
        Err(PluginError::Unknown {
            name: name.to_owned(),
            known,
        })
    }

    /// What an mpirun calls in place of ssh.
    pub fn remote_shell(&self) -> Option<PathBuf> {
        let places = self.0.iter().map(|d| d.join("cosy-rsh"));
        places.into_iter().find(|p| p.is_file())
    }
}

fn installed_with(program: &Path) -> Option<PathBuf> {
    let folder = program.parent()?;
    let build = folder.ends_with("debug") || folder.ends_with("release");
    match build {
        true => Some(folder.parent()?.parent()?.join("plugins")),
        false => Some(folder.parent()?.join("share/cosy/plugins")),
    }
}

fn in_directory(directory: &Path, is_one: fn(&Path) -> bool) -> Vec<Plugin> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut found: Vec<Plugin> = entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let directory = entry.path();
            let good = is_name(&name) && is_one(&directory);
            good.then_some(Plugin { name, directory })
        })
        .take(PLUGINS)
        .collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

fn is_name(name: &str) -> bool {
    let good = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    name.len() <= NAME_BYTES && name.bytes().all(good)
}

fn is_plugin(directory: &Path) -> bool {
    ["job", "libraries", "wireup"]
        .iter()
        .any(|f| directory.join(f).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn put(path: PathBuf, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn names(plugins: &[Plugin]) -> Vec<&str> {
        plugins.iter().map(|p| p.name.as_str()).collect()
    }

    #[test]
    fn the_first_directory_wins() {
        let work = tempfile::tempdir().unwrap();
        let (site, ours) = (work.path().join("site"), work.path().join("ours"));
        put(site.join("mpich/wireup"), "none\n");
        put(site.join("zeta/job"), "");
        put(site.join("zeta/by-name-only"), "");
        put(ours.join("mpich/wireup"), "pmi\n");
        put(ours.join("openmpi/libraries"), "# a\nliba.so.1\n\n libb.so # b\n");
        put(ours.join("cosy-rsh"), "");
        put(ours.join("no plugin/job"), "");
        put(ours.join("empty/README.md"), "");
        symlink("/", ours.join("loop")).unwrap();
        let plugins = Plugins::new(vec![site, ours.clone()]);
        assert_eq!(names(&plugins.all()), ["mpich", "openmpi", "zeta"]);
        assert_eq!(names(&plugins.usual()), ["mpich", "openmpi"]);
        let mpich = plugins.named("mpich").unwrap();
        assert_eq!(mpich.wireup().unwrap(), Wireup::None);
        assert_eq!(mpich.job(), None);
        let openmpi = plugins.named("openmpi").unwrap();
        assert_eq!(openmpi.libraries().unwrap(), ["liba.so.1", "libb.so"]);
        assert_eq!(plugins.remote_shell(), Some(ours.join("cosy-rsh")));
        let unknown = plugins.named("lam").unwrap_err().to_string();
        assert!(unknown.ends_with("there are: mpich, openmpi, zeta"), "{unknown}");
    }

    #[test]
    fn a_wireup_that_nobody_knows() {
        let work = tempfile::tempdir().unwrap();
        put(work.path().join("x/wireup"), "telepathy\n");
        let plugins = Plugins::new(vec![work.path().to_owned()]);
        let error = plugins.named("x").unwrap().wireup().unwrap_err();
        assert!(error.to_string().contains("not 'telepathy'"), "{error}");
    }

    #[test]
    fn where_they_are_looked_for() {
        let check = |variable: Option<&str>, program: &str, expected: &str| {
            let found = Plugins::search(variable.map(OsStr::new), Some(Path::new(program)));
            assert_eq!(found.path(), OsStr::new(expected));
        };
        check(Some("/a:/b"), "/usr/bin/cosy", "/a:/b");
        check(Some("a:/b"), "/usr/bin/cosy", "/b");
        check(None, "/usr/bin/cosy", "/etc/cosy/plugins:/usr/share/cosy/plugins");
        check(Some(""), "/s/target/debug/noded", "/etc/cosy/plugins:/s/plugins");
    }
}
