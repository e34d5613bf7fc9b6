//! Plugins for containers: a script `DIRECTORY/containers/NAME/container`, named for the tool that it
//! needs. The contract is in `docs/containers.md`.

use crate::{NAME_BYTES, Plugins};
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Which tools are tried first where none is chosen; others come after them, by name.
const FIRST: [&str; 3] = ["podman", "apptainer", "enroot"];
/// What runs OCI bundles.
const FOR_BUNDLES: &str = "crun";
/// Where tools are looked for after the places of `PATH`.
const USUAL_PLACES: [&str; 3] = ["/usr/local/bin", "/usr/bin", "/bin"];

/// A plugin for containers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ContainerPlugin {
    /// Name, which is that of its tool.
    pub name: String,
    /// Its script.
    pub script: PathBuf,
}

/// Why there is none.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NoContainerPlugin {
    /// None has that name.
    #[error("there is no container plugin '{name}'; there are: {known}")]
    Unknown {
        /// Name that was asked for.
        name: String,
        /// Names of those that there are, in one line.
        known: String,
    },
    /// Its tool is not installed.
    #[error("the program '{0}' is not installed here")]
    NotInstalled(String),
    /// No tool is installed.
    #[error("none of these programs is installed here: {0}")]
    NoneInstalled(String),
}

/// Whether a container plugin can have that name.
///
/// # Errors
/// In one line, why not.
pub fn check_container_tool(name: &str) -> Result<(), String> {
    let fine = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    match !name.is_empty() && name.len() <= NAME_BYTES && name.bytes().all(fine) {
        true => Ok(()),
        false => Err("a container plugin is named with letters, digits, '-' and '_'".to_owned()),
    }
}

impl Plugins {
    /// The plugin to use: the chosen one, else that for bundles, else the first whose tool is in one
    /// of the places of `path`.
    ///
    /// # Errors
    /// [`NoContainerPlugin`].
    pub fn container(
        &self,
        chosen: Option<&str>,
        bundle: bool,
        path: Option<&OsStr>,
    ) -> Result<ContainerPlugin, NoContainerPlugin> {
        let all = self.containers();
        let chosen = match bundle {
            true => Some(FOR_BUNDLES),
            false => chosen,
        };
        if let Some(name) = chosen {
            let plugin = all.iter().find(|p| p.name == name);
            let plugin = plugin.ok_or_else(|| NoContainerPlugin::Unknown {
                name: name.to_owned(),
                known: names(&all),
            })?;
            return match is_installed(name, path) {
                true => Ok(plugin.clone()),
                false => Err(NoContainerPlugin::NotInstalled(name.to_owned())),
            };
        }
        let images: Vec<ContainerPlugin> =
            all.into_iter().filter(|p| p.name != FOR_BUNDLES).collect();
        let found = images.iter().find(|p| is_installed(&p.name, path));
        found
            .cloned()
            .ok_or_else(|| NoContainerPlugin::NoneInstalled(names(&images)))
    }

    /// All of them, in the order in which they are tried.
    fn containers(&self) -> Vec<ContainerPlugin> {
        let mut all: Vec<ContainerPlugin> = Vec::new();
        for found in self.below("containers", |directory| directory.join("container").is_file()) {
            if all.iter().all(|p| p.name != found.name) {
                let script = found.directory.join("container");
                all.push(ContainerPlugin {
                    name: found.name,
                    script,
                });
            }
        }
        let place = |name: &str| FIRST.iter().position(|f| *f == name).unwrap_or(FIRST.len());
        all.sort_by(|a, b| (place(&a.name), &a.name).cmp(&(place(&b.name), &b.name)));
        all
    }
}

fn names(all: &[ContainerPlugin]) -> String {
    let names: Vec<&str> = all.iter().map(|p| p.name.as_str()).collect();
    names.join(", ")
}

fn is_installed(tool: &str, path: Option<&OsStr>) -> bool {
    let of_path = path.into_iter().flat_map(std::env::split_paths);
    let mut places = of_path.chain(USUAL_PLACES.map(PathBuf::from));
    places.any(|place| place.is_absolute() && is_program(&place.join(tool)))
}

fn is_program(path: &Path) -> bool {
    let data = path.metadata();
    data.is_ok_and(|d| d.is_file() && d.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn put(path: PathBuf) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn the_chosen_one_or_the_first_that_is_there() {
        let work = tempfile::tempdir().unwrap();
        let (site, ours, bin) =
            (work.path().join("site"), work.path().join("ours"), work.path().join("bin"));
        for name in ["xpodman", "xa", "crun"] {
            put(ours.join("containers").join(name).join("container"));
        }
        put(site.join("containers/xa/container"));
        fs::create_dir_all(ours.join("containers/empty")).unwrap();
        let plugins = Plugins::new(vec![site.clone(), ours]);
        assert!(plugins.all().is_empty(), "they are no MPI plugins");
        let find =
            |chosen: Option<&str>, bundle| plugins.container(chosen, bundle, Some(bin.as_os_str()));
        let none = find(None, false).unwrap_err().to_string();
        assert_eq!(none, "none of these programs is installed here: xa, xpodman");
        put(bin.join("xpodman"));
        assert_eq!(find(None, false).unwrap().name, "xpodman");
        let missing = find(Some("xa"), false).unwrap_err().to_string();
        assert_eq!(missing, "the program 'xa' is not installed here");
        put(bin.join("xa"));
        put(bin.join("crun"));
        let first = find(None, false).unwrap();
        assert_eq!(first.script, site.join("containers/xa/container"));
        assert_eq!(find(Some("xpodman"), false).unwrap().name, "xpodman");
        assert_eq!(find(None, true).unwrap().name, "crun");
        let unknown = find(Some("../xa"), false).unwrap_err().to_string();
        assert!(unknown.ends_with("there are: crun, xa, xpodman"), "{unknown}");
    }

    #[test]
    fn names_of_tools() {
        for (name, good) in [("podman", true), ("", false), ("a/b", false), ("..", false)] {
            assert_eq!(check_container_tool(name).is_ok(), good, "{name}");
        }
    }
}
