//! The container in which a job's program or the tasks of a step run: what its user asks for. How it
//! is made is the business of a plugin on the node (`docs/containers.md`).
//!
//! Pure. Always holds after [`Container::check`]: no value begins with `-` or holds a character that
//! ends a line, so that none becomes an option of a tool or two lines of a list.

use crate::limits::{
    CONTAINER_BYTES, CONTAINER_ENV, CONTAINER_IMAGE_BYTES, CONTAINER_MOUNTS, NAME_BYTES, PATH_BYTES,
};
use crate::variables as v;
use serde::{Deserialize, Serialize};

/// Which root file system a container has.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, Hash)]
#[serde(rename_all = "snake_case")]
pub enum ContainerSource {
    /// That of an image: `[REGISTRY#]NAME[:TAG]`, or a file or folder.
    Image(String),
    /// That of an OCI bundle: a folder with `config.json`, seen from the working directory.
    Bundle(String),
    /// That of the named container of an earlier run.
    Named,
}

/// A folder or file of the node inside of a container.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, Hash)]
pub struct ContainerMount {
    /// Absolute path on the node.
    pub source: String,
    /// Absolute path inside.
    pub target: String,
    /// How it is mounted: words of [`MOUNT_FLAGS`].
    #[serde(default)]
    pub flags: Vec<String>,
}

/// Flags of a mount that plugins know.
pub const MOUNT_FLAGS: [&str; 14] = [
    "ro",
    "rw",
    "bind",
    "rbind",
    "nosuid",
    "nodev",
    "noexec",
    "private",
    "rprivate",
    "slave",
    "rslave",
    "shared",
    "rshared",
    "x-create=auto",
];

/// A container as it was asked for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, Hash)]
pub struct Container {
    /// Where its files come from.
    pub source: ContainerSource,
    /// What of the node is seen inside.
    #[serde(default)]
    pub mounts: Vec<ContainerMount>,
    /// Working directory inside, an absolute path; that of the job without.
    #[serde(default)]
    pub workdir: Option<String>,
    /// Name under which its files are kept on the node after the job.
    #[serde(default)]
    pub name: Option<String>,
    /// File to which its files are written as an image when the program has ended.
    #[serde(default)]
    pub save: Option<String>,
    /// The user's home directory is seen inside; as the plugin has it without.
    #[serde(default)]
    pub mount_home: Option<bool>,
    /// The user is root inside; as the plugin has it without.
    #[serde(default)]
    pub remap_root: Option<bool>,
    /// The program is started by the image's entry point.
    #[serde(default)]
    pub entrypoint: bool,
    /// The root file system can be written to.
    #[serde(default)]
    pub writable: bool,
    /// Variables whose values of the job go over those of the image.
    #[serde(default)]
    pub env: Vec<String>,
}

impl Container {
    /// Whether all of it is as long, as many and of such characters as it may be.
    ///
    /// # Errors
    /// In one line, what is not.
    pub fn check(&self) -> Result<(), String> {
        match &self.source {
            ContainerSource::Image(image) => check_image(image)?,
            ContainerSource::Bundle(bundle) => {
                check_path("--container", bundle)?;
                self.check_bundle()?;
            }
            ContainerSource::Named if self.name.is_none() => {
                return Err(
                    "a container needs --container-image, --container-name or --container".into()
                );
            }
            ContainerSource::Named => {}
        }
        if self.mounts.len() > CONTAINER_MOUNTS {
            return Err(format!(
                "--container-mounts: {} mounts are more than {CONTAINER_MOUNTS}",
                self.mounts.len()
            ));
        }
        self.mounts.iter().try_for_each(ContainerMount::check)?;
        if let Some(workdir) = &self.workdir {
            check_absolute("--container-workdir", workdir)?;
        }
        if let Some(save) = &self.save {
            check_path("--container-save", save)?;
        }
        if let Some(name) = &self.name {
            check_name(name)?;
        }
        if self.env.len() > CONTAINER_ENV {
            return Err(format!(
                "--container-env: {} names are more than {CONTAINER_ENV}",
                self.env.len()
            ));
        }
        self.env.iter().try_for_each(|name| check_variable(name))?;
        let bytes: usize = self.variables().iter().map(|(_, value)| value.len()).sum();
        match bytes > CONTAINER_BYTES {
            true => Err(format!("{bytes} bytes about a container are more than {CONTAINER_BYTES}")),
            false => Ok(()),
        }
    }

    /// About how much memory it takes, in bytes.
    pub fn bytes(&self) -> usize {
        let texts: usize = self.variables().iter().map(|(_, value)| value.len()).sum();
        let mounts = self.mounts.len() * 2 * size_of::<ContainerMount>();
        size_of::<Self>() + texts + mounts + self.env.len() * size_of::<String>()
    }

    /// What only an image has.
    fn check_bundle(&self) -> Result<(), String> {
        let given = [
            (self.name.is_some(), "--container-name"),
            (self.save.is_some(), "--container-save"),
            (self.entrypoint, "--container-entrypoint"),
        ];
        match given.iter().find(|(given, _)| *given) {
            Some((_, option)) => Err(format!("{option} is for images, not for --container")),
            None => Ok(()),
        }
    }

    /// What a plugin's script is told of it.
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        let mut all = Vec::new();
        match &self.source {
            ContainerSource::Image(image) => all.push((v::CONTAINER_IMAGE, image.clone())),
            ContainerSource::Bundle(bundle) => all.push((v::CONTAINER_BUNDLE, bundle.clone())),
            ContainerSource::Named => {}
        }
        let mounts: Vec<String> = self.mounts.iter().map(ContainerMount::line).collect();
        let texts = [
            (v::CONTAINER_MOUNTS, (!mounts.is_empty()).then(|| mounts.join("\n"))),
            (v::CONTAINER_WORKDIR, self.workdir.clone()),
            (v::CONTAINER_NAME, self.name.clone()),
            (v::CONTAINER_SAVE, self.save.clone()),
            (v::CONTAINER_ENV, (!self.env.is_empty()).then(|| self.env.join(","))),
        ];
        all.extend(
            texts
                .into_iter()
                .filter_map(|(name, value)| Some((name, value?))),
        );
        let switches = [
            (v::CONTAINER_MOUNT_HOME, self.mount_home),
            (v::CONTAINER_REMAP_ROOT, self.remap_root),
            (v::CONTAINER_ENTRYPOINT, Some(self.entrypoint)),
            (v::CONTAINER_WRITABLE, Some(self.writable)),
        ];
        let word = |on: bool| if on { "1" } else { "0" }.to_owned();
        all.extend(
            switches
                .into_iter()
                .filter_map(|(name, on)| Some((name, word(on?)))),
        );
        all
    }
}

impl ContainerMount {
    /// Reads `SOURCE[:TARGET[:FLAG+FLAG]]`.
    ///
    /// # Errors
    /// In one line, what is wrong with it.
    pub fn read(text: &str) -> Result<Self, String> {
        let mut parts = text.splitn(3, ':');
        let source = parts.next().unwrap_or_default().to_owned();
        let target = parts.next().unwrap_or(&source).to_owned();
        let flags = parts.next().unwrap_or_default().split('+');
        let flags = flags.filter(|f| !f.is_empty()).map(str::to_owned).collect();
        let mount = Self {
            source,
            target,
            flags,
        };
        mount.check().map(|()| mount)
    }

    /// The same as a line, always with two colons.
    pub fn line(&self) -> String {
        format!("{}:{}:{}", self.source, self.target, self.flags.join("+"))
    }

    fn check(&self) -> Result<(), String> {
        for path in [&self.source, &self.target] {
            check_absolute("--container-mounts", path)?;
            if path.contains([':', ',']) {
                let path = shown(path);
                return Err(format!("--container-mounts: '{path}' has a ':' or ','"));
            }
        }
        match self
            .flags
            .iter()
            .find(|f| !MOUNT_FLAGS.contains(&f.as_str()))
        {
            Some(flag) => Err(format!(
                "--container-mounts: '{}' is no flag; there are {}",
                shown(flag),
                MOUNT_FLAGS.join(", ")
            )),
            None => Ok(()),
        }
    }
}

/// Enough of a text to know it again, on one line.
fn shown(text: &str) -> String {
    text.chars().take(60).flat_map(char::escape_debug).collect()
}

fn check_image(image: &str) -> Result<(), String> {
    let file = ["/", "./", "../"]
        .iter()
        .any(|start| image.starts_with(start));
    let begins = file || image.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    // Registries have no others in the names of images.
    let plain = |c: char| match file {
        true => !c.is_whitespace() && !c.is_control() && !"'\"\\`$".contains(c),
        false => c.is_ascii_alphanumeric() || "._-/:@#+".contains(c),
    };
    if image.len() > CONTAINER_IMAGE_BYTES {
        return Err(format!(
            "--container-image: {} bytes are more than {CONTAINER_IMAGE_BYTES}",
            image.len()
        ));
    }
    match begins && image.chars().all(plain) {
        true => Ok(()),
        false => Err(format!(
            "--container-image: '{}' is no image: [REGISTRY#]NAME[:TAG] of letters, digits and '._-/:@#+', or a file that begins with / or ./, without blanks and quotes",
            shown(image)
        )),
    }
}

fn check_path(option: &str, path: &str) -> Result<(), String> {
    if path.len() > PATH_BYTES {
        return Err(format!(
            "{option}: a path of {} bytes is longer than {PATH_BYTES}",
            path.len()
        ));
    }
    match !path.is_empty() && !path.starts_with('-') && !path.contains(char::is_control) {
        true => Ok(()),
        false => Err(format!("{option}: '{}' is no path", shown(path))),
    }
}

fn check_absolute(option: &str, path: &str) -> Result<(), String> {
    check_path(option, path)?;
    match path.starts_with('/') {
        true => Ok(()),
        false => Err(format!("{option}: '{}' is no absolute path", shown(path))),
    }
}

fn check_name(name: &str) -> Result<(), String> {
    let fine = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let good = name.len() <= NAME_BYTES
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(fine);
    match good {
        true => Ok(()),
        false => Err(format!(
            "--container-name: '{}' is no name: it has letters, digits, '-', '_' and '.'",
            shown(name)
        )),
    }
}

fn check_variable(name: &str) -> Result<(), String> {
    let fine = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let good = name.len() <= NAME_BYTES
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(fine);
    match good {
        true => Ok(()),
        false => Err(format!("--container-env: '{}' is no name of a variable", shown(name))),
    }
}

/// The options by which users ask for a container, as far as they were given.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ContainerOptions {
    image: Option<String>,
    bundle: Option<String>,
    mounts: Vec<ContainerMount>,
    workdir: Option<String>,
    name: Option<String>,
    save: Option<String>,
    mount_home: Option<bool>,
    remap_root: Option<bool>,
    entrypoint: Option<bool>,
    writable: Option<bool>,
    env: Vec<String>,
}

impl ContainerOptions {
    /// Takes an option by its long name; the last of several counts. False for one that is about
    /// something else.
    ///
    /// # Errors
    /// In one line, what is wrong with its value.
    pub fn apply(&mut self, option: &str, value: &str) -> Result<bool, String> {
        let text = || Some(value.to_owned());
        match option {
            "container" => self.bundle = text(),
            "container-image" => self.image = text(),
            "container-mounts" => self.mounts = mounts(value)?,
            "container-workdir" => self.workdir = text(),
            "container-name" => self.name = text(),
            "container-save" => self.save = text(),
            "container-env" => self.env = value.split(',').map(str::to_owned).collect(),
            "container-mount-home" => self.mount_home = Some(true),
            "no-container-mount-home" => self.mount_home = Some(false),
            "container-remap-root" => self.remap_root = Some(true),
            "no-container-remap-root" => self.remap_root = Some(false),
            "container-entrypoint" => self.entrypoint = Some(true),
            "no-container-entrypoint" => self.entrypoint = Some(false),
            "container-writable" => self.writable = Some(true),
            "container-readonly" => self.writable = Some(false),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The container that they describe; `None` where none was asked for.
    ///
    /// # Errors
    /// In one line, what is wrong with it.
    pub fn container(&self) -> Result<Option<Container>, String> {
        if *self == Self::default() {
            return Ok(None);
        }
        let source = match (&self.image, &self.bundle) {
            (Some(_), Some(_)) => {
                return Err("--container and --container-image exclude each other".to_owned());
            }
            (Some(image), None) => ContainerSource::Image(image.clone()),
            (None, Some(bundle)) => ContainerSource::Bundle(bundle.clone()),
            (None, None) => ContainerSource::Named,
        };
        let container = Container {
            source,
            mounts: self.mounts.clone(),
            workdir: self.workdir.clone(),
            name: self.name.clone(),
            save: self.save.clone(),
            mount_home: self.mount_home,
            remap_root: self.remap_root,
            entrypoint: self.entrypoint.unwrap_or(false),
            writable: self.writable.unwrap_or(false),
            env: self.env.clone(),
        };
        container.check().map(|()| Some(container))
    }
}

fn mounts(value: &str) -> Result<Vec<ContainerMount>, String> {
    let count = value.split(',').count();
    if count > CONTAINER_MOUNTS {
        return Err(format!("--container-mounts: {count} mounts are more than {CONTAINER_MOUNTS}"));
    }
    value.split(',').map(ContainerMount::read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(options: &[(&str, &str)]) -> Result<Option<Container>, String> {
        let mut all = ContainerOptions::default();
        for (option, value) in options {
            assert!(all.apply(option, value)?, "{option}");
        }
        all.container()
    }

    #[test]
    fn options_make_a_container() {
        assert_eq!(read(&[]), Ok(None));
        let container = read(&[
            ("container-image", "nvcr.io#nvidia/pytorch:24.01"),
            ("container-mounts", "/data,/scratch/ann:/work:ro+nosuid"),
            ("container-workdir", "/work"),
            ("container-mount-home", ""),
            ("no-container-mount-home", ""),
            ("container-env", "A,B_2"),
            ("container-writable", ""),
        ]);
        let container = container.unwrap().unwrap();
        let told = container.variables();
        let told: Vec<String> = told.iter().map(|(n, v)| format!("{n}={v}")).collect();
        assert_eq!(
            told,
            [
                "COSY_CONTAINER_IMAGE=nvcr.io#nvidia/pytorch:24.01",
                "COSY_CONTAINER_MOUNTS=/data:/data:\n/scratch/ann:/work:ro+nosuid",
                "COSY_CONTAINER_WORKDIR=/work",
                "COSY_CONTAINER_ENV=A,B_2",
                "COSY_CONTAINER_MOUNT_HOME=0",
                "COSY_CONTAINER_ENTRYPOINT=0",
                "COSY_CONTAINER_WRITABLE=1",
            ]
        );
    }

    #[test]
    fn what_could_become_something_else_is_refused() {
        let check = |option: &str, value: &str, want: &str| {
            let image = ("container-image", "busybox");
            let got = read(&[image, (option, value)]).unwrap_err();
            assert!(got.contains(want), "{option}={value}: {got}");
            assert!(!got.contains('\n') && got.len() < 300, "{got}");
        };
        for image in [
            "-v",
            "--privileged",
            "",
            " x",
            "a b",
            "a\nb",
            "a'b",
            "$(x)",
            "a\0",
        ] {
            check("container-image", image, "is no image");
        }
        check("container-image", &"a".repeat(5000), "more than");
        for mount in ["x:/y", "/x:y", "/x:/y\n/z", "", "/a,", "-v:/x", "/x:/y\0"] {
            check("container-mounts", mount, "--container-mounts");
        }
        check("container-mounts", "/x:/y:ro,upperdir=/etc", "no absolute path");
        check("container-mounts", "/x:/y:suid", "is no flag");
        check("container-mounts", "/x:/y:ro:rw", "is no flag");
        check("container-mounts", &vec!["/x"; 10_000].join(","), "10000 mounts");
        check("container-workdir", "work", "no absolute path");
        check("container-workdir", "/a\nb", "no path");
        check("container-name", "../x", "no name");
        check("container-name", "a:exec", "no name");
        check("container-save", "-o", "no path");
        check("container-env", "A,B=2", "no name of a variable");
        check("container-env", "", "no name of a variable");
        check("container", "/b", "exclude each other");
        let bundle = ("container", "/b");
        let got = read(&[bundle, ("container-name", "x")]).unwrap_err();
        assert!(got.contains("is for images"), "{got}");
        let got = read(&[("container-workdir", "/x")]).unwrap_err();
        assert!(got.contains("needs --container-image"), "{got}");
    }
}
