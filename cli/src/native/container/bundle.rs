//! The bundle of a program: `config.json` beside which an OCI runtime finds all that it needs. Made of an
//! image's root file system and configuration, or of a bundle of the user's.

use super::config::{Identity, Image, Wanted, changed};
use cosy_model::limits::CONTAINER_CONFIG_BYTES;
use cosy_model::variables as v;
use nix::unistd::{getegid, geteuid};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Where a bundle comes from and where it goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BundlePaths {
    /// Folder for `config.json`.
    pub into: PathBuf,
    /// Root file system of an image.
    pub rootfs: Option<PathBuf>,
    /// File with the image's configuration.
    pub image: Option<PathBuf>,
    /// A bundle of the user's.
    pub from: Option<PathBuf>,
}

/// Writes the configuration.
///
/// # Errors
/// In one line, what cannot be read or written, or what is no configuration.
pub fn write(paths: &BundlePaths, argv: &[OsString]) -> Result<(), String> {
    let before = match (&paths.rootfs, &paths.from) {
        (Some(rootfs), None) => json!({
            "ociVersion": "1.0.0",
            "root": {"path": absolute(rootfs)?, "readonly": true},
        }),
        (None, Some(bundle)) => of_bundle(bundle)?,
        (Some(_), Some(_)) | (None, None) => {
            return Err("--rootfs or --from is needed".to_owned());
        }
    };
    let image = match &paths.image {
        Some(file) => Image::read(&json_of(file)?),
        None => Image::default(),
    };
    let config = changed(before, &wanted(argv, image)?)?;
    let file = paths.into.join("config.json");
    let text = serde_json::to_vec(&config).map_err(|e| e.to_string())?;
    fs::write(&file, text).map_err(|e| format!("{}: {e}", file.display()))
}

fn of_bundle(bundle: &Path) -> Result<Value, String> {
    let mut config = json_of(&bundle.join("config.json"))?;
    let root = config.pointer("/root/path").and_then(Value::as_str);
    let root = root.ok_or_else(|| format!("{}: no root.path", bundle.display()))?;
    let root = absolute(&bundle.join(root))?;
    config["root"]["path"] = json!(root);
    Ok(config)
}

fn json_of(file: &Path) -> Result<Value, String> {
    let shown = |why: &dyn std::fmt::Display| format!("{}: {why}", file.display());
    let mut text = Vec::new();
    let most = CONTAINER_CONFIG_BYTES;
    let opened = File::open(file).map_err(|e| shown(&e))?;
    let read = opened.take(most + 1).read_to_end(&mut text);
    read.map_err(|e| shown(&e))?;
    if text.len() as u64 > most {
        return Err(shown(&format_args!("more than {most} bytes")));
    }
    let value: Value = serde_json::from_slice(&text).map_err(|e| shown(&e))?;
    match value.is_object() {
        true => Ok(value),
        false => Err(shown(&"no JSON object")),
    }
}

fn absolute(path: &Path) -> Result<String, String> {
    let whole = fs::canonicalize(path).map_err(|e| format!("{}: {e}", path.display()))?;
    text(whole.into_os_string())
}

/// A configuration is JSON, which has no other texts.
fn text(word: OsString) -> Result<String, String> {
    word.into_string().map_err(|word| {
        let shown: String = word.to_string_lossy().escape_debug().take(100).collect();
        format!("'{shown}' is no UTF-8, which a container's program must be started with")
    })
}

fn wanted(argv: &[OsString], image: Image) -> Result<Wanted, String> {
    let variable = |name: &str| std::env::var(name).ok();
    let switch = |name: &str| variable(name).as_deref() == Some("1");
    let names = variable(v::CONTAINER_ENV).unwrap_or_default();
    let mounts = variable(v::CONTAINER_MOUNTS).unwrap_or_default();
    let environment = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    Ok(Wanted {
        argv: argv.iter().cloned().map(text).collect::<Result<_, _>>()?,
        image,
        environment: environment.collect(),
        own_variables: names.split(',').map(str::to_owned).collect(),
        workdir: variable(v::CONTAINER_WORKDIR).filter(|d| !d.is_empty()),
        mounts: mounts.lines().map(str::to_owned).collect(),
        entrypoint: switch(v::CONTAINER_ENTRYPOINT),
        writable: switch(v::CONTAINER_WRITABLE),
        identity: Identity {
            uid: geteuid().as_raw(),
            gid: getegid().as_raw(),
            root: switch(v::CONTAINER_REMAP_ROOT),
        },
        present: ["/etc/resolv.conf", "/etc/hosts"]
            .into_iter()
            .filter(|file| Path::new(file).exists())
            .map(str::to_owned)
            .collect(),
    })
}
