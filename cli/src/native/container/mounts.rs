//! What of the node is seen in every container: the working directory, the batch script, folders for
//! temporary files, those through which parallel programs find each other.

use cosy_model::variables as v;
use std::path::{Component, Path, PathBuf};

/// Folders of a root file system: nothing of the node is put in their place.
const OF_THE_SYSTEM: [&str; 10] = [
    "bin", "boot", "dev", "etc", "lib", "lib64", "proc", "sbin", "sys", "usr",
];
/// Variables that name folders which tasks on one node have in common.
const WIREUP: [&str; 4] = [
    "OMPI_MCA_btl_vader_backing_directory",
    "OMPI_MCA_btl_sm_backing_directory",
    "PMIX_SERVER_TMPDIR",
    "PMIX_SYSTEM_TMPDIR",
];

/// Mounts of a container, and where its program starts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Mounts {
    /// Lines as in [`v::CONTAINER_MOUNTS`].
    pub lines: Vec<String>,
    /// Working directory inside; the image's own without.
    pub workdir: Option<String>,
}

/// What is asked of the process that enters a container.
pub struct Surroundings<'a> {
    /// Tells a variable.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// Where this process is.
    pub here: PathBuf,
    /// The program that is to run inside.
    pub program: &'a Path,
    /// Whether there is such a folder.
    pub is_folder: &'a dyn Fn(&Path) -> bool,
}

impl Surroundings<'_> {
    /// Everything that is mounted: first what always is, then what was asked for, which so goes over it.
    ///
    /// # Errors
    /// In one line, what cannot be mounted.
    pub fn mounts(&self) -> Result<Mounts, String> {
        let mut all = Mounts {
            workdir: (self.variable)(v::CONTAINER_WORKDIR),
            lines: Vec::new(),
        };
        all.add(Path::new("/tmp"), "")?;
        let folders = ["TMPDIR"].iter().chain(&WIREUP);
        for folder in folders.filter_map(|name| (self.variable)(name)) {
            let folder = PathBuf::from(folder);
            if may_be_covered(&folder) && (self.is_folder)(&folder) {
                all.add(&folder, "")?;
            }
        }
        if (self.variable)(v::CONTAINER_MOUNT_HOME).as_deref() == Some("1") {
            let home = (self.variable)("HOME").ok_or("HOME is not set")?;
            all.add(Path::new(&home), "")?;
        }
        if all.workdir.is_none() && may_be_covered(&self.here) {
            let here = all.add(&self.here, "").map_err(|why| {
                format!("the working directory: {why}; --container-workdir names another one")
            })?;
            all.workdir = Some(here);
        }
        if let Some(script) = self.script() {
            all.add(script, "ro")?;
        }
        let asked = (self.variable)(v::CONTAINER_MOUNTS).unwrap_or_default();
        all.lines.extend(asked.lines().map(str::to_owned));
        Ok(all)
    }

    /// The batch script, which lies beside the folder for the container's files.
    fn script(&self) -> Option<&Path> {
        let files = PathBuf::from((self.variable)(v::CONTAINER_FILES)?);
        Some(self.program).filter(|p| p.starts_with(files.parent().unwrap_or(&files)))
    }
}

impl Mounts {
    /// Mounts a path at its own place; gives it as text.
    fn add(&mut self, path: &Path, flags: &str) -> Result<String, String> {
        let fine = |text: &&str| !text.contains([':', ',']) && !text.contains(char::is_control);
        let text = path.to_str().filter(fine).ok_or_else(|| {
            let shown: String = path.to_string_lossy().escape_debug().take(200).collect();
            format!("'{shown}' has characters that cannot be in a mount")
        })?;
        let line = format!("{text}:{text}:{flags}");
        if !self.lines.contains(&line) {
            self.lines.push(line);
        }
        Ok(text.to_owned())
    }
}

/// Whether a folder of the node may be put over what a root file system has there.
fn may_be_covered(path: &Path) -> bool {
    let mut parts = path.components();
    let absolute = parts.next() == Some(Component::RootDir);
    let (first, second) = (parts.next(), parts.next());
    let Some(Component::Normal(first)) = first else {
        return false;
    };
    let lone = second.is_none() && ["var", "opt", "run", "srv"].iter().any(|p| first == *p);
    absolute && !lone && !OF_THE_SYSTEM.iter().any(|p| first == *p)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mounts(here: &str, program: &str, variables: &[(&str, &str)]) -> Result<Mounts, String> {
        let variable = |name: &str| {
            let found = variables.iter().find(|(n, _)| *n == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let around = Surroundings {
            variable: &variable,
            here: here.into(),
            program: Path::new(program),
            is_folder: &|path| path != Path::new("/nowhere"),
        };
        around.mounts()
    }

    #[test]
    fn what_is_seen_inside() {
        let check = |here, program, variables: &[(&str, &str)], lines: &[&str], workdir| {
            let got = mounts(here, program, variables).unwrap();
            assert_eq!(got.lines, lines, "{here} {program}");
            assert_eq!(got.workdir.as_deref(), workdir, "{here} {program}");
        };
        check("/work", "ls", &[], &["/tmp:/tmp:", "/work:/work:"], Some("/work"));
        check("/", "ls", &[], &["/tmp:/tmp:"], None);
        check("/usr/src", "ls", &[], &["/tmp:/tmp:"], None);
        check("/var", "ls", &[], &["/tmp:/tmp:"], None);
        let given = ("COSY_CONTAINER_WORKDIR", "/inside");
        check("/work", "ls", &[given], &["/tmp:/tmp:"], Some("/inside"));
        let all = [
            ("TMPDIR", "/scratch/1"),
            ("PMIX_SERVER_TMPDIR", "/nowhere"),
            ("OMPI_MCA_btl_sm_backing_directory", "/etc"),
            ("HOME", "/home/ann"),
            ("COSY_CONTAINER_MOUNT_HOME", "1"),
            ("COSY_CONTAINER_FILES", "/spool/1.1/containers"),
            ("COSY_CONTAINER_MOUNTS", "/a:/tmp:ro\n/b:/b:"),
        ];
        let lines = [
            "/tmp:/tmp:",
            "/scratch/1:/scratch/1:",
            "/home/ann:/home/ann:",
            "/work:/work:",
            "/spool/1.1/script:/spool/1.1/script:ro",
            "/a:/tmp:ro",
            "/b:/b:",
        ];
        check("/work", "/spool/1.1/script", &all, &lines, Some("/work"));
    }

    #[test]
    fn what_cannot_be_named_in_a_mount() {
        for here in ["/a:b", "/a,b", "/a\nb"] {
            let why = mounts(here, "ls", &[]).unwrap_err();
            assert!(why.contains("--container-workdir") && !why.contains('\n'), "{why}");
        }
    }
}
