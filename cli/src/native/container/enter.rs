//! A program goes into its container: the plugin is found, the image fetched by the first who comes on
//! this node, and the plugin's script executed in the place of this process.

use super::mounts::Surroundings;
use cosy_model::{ContainerMount, variables as v};
use cosy_plugin::{ContainerPlugin, Plugins};
use std::convert::Infallible;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// File that says that an image is there.
const FETCHED: &str = "fetched";

/// Becomes the program in its container.
///
/// # Errors
/// In one line, why not.
pub fn enter(argv: &[OsString]) -> Result<Infallible, String> {
    let program = argv.first().ok_or("a program is needed")?;
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let own = std::env::current_exe().ok();
    let plugins = Plugins::search(std::env::var_os(v::PLUGIN_PATH).as_deref(), own.as_deref());
    let chosen = variable(v::CONTAINER_TOOL);
    let bundle = variable(v::CONTAINER_BUNDLE);
    let path = std::env::var_os("PATH");
    let plugin = plugins
        .container(chosen.as_deref(), bundle.is_some(), path.as_deref())
        .map_err(|e| e.to_string())?;
    let around = Surroundings {
        variable: &variable,
        here: std::env::current_dir().map_err(|e| format!("the working directory: {e}"))?,
        program: Path::new(program),
        is_folder: &Path::is_dir,
    };
    let mounts = around.mounts()?;
    for line in &mounts.lines {
        let source = ContainerMount::read(line)?.source;
        if !Path::new(&source).exists() {
            return Err(format!("--container-mounts: '{source}' is not there"));
        }
    }
    let name = variable(v::CONTAINER_NAME).map(|name| format!("the container '{name}'"));
    let image = variable(v::CONTAINER_IMAGE).or(bundle).or(name);
    let image = image.ok_or("no image, bundle or name of a container is set")?;
    let files = files_of(&variable, &image)?;
    let call = |verb: &str| {
        let mut command = Command::new(&plugin.script);
        command.arg(verb).env(v::CONTAINER_FILES, &files);
        command.env(v::CONTAINER_MOUNTS, mounts.lines.join("\n"));
        if let Some(workdir) = &mounts.workdir {
            command.env(v::CONTAINER_WORKDIR, workdir);
        }
        command
    };
    fetch(&plugin, call("fetch"), &files, &image)?;
    let error = call("run").arg("--").args(argv).exec();
    Err(format!("{}: {error}", plugin.script.display()))
}

/// The folder for the files of an image, which all tasks of the job on this node share.
fn files_of(variable: &dyn Fn(&str) -> Option<String>, image: &str) -> Result<PathBuf, String> {
    let all = variable(v::CONTAINER_FILES).ok_or("this is no program of a job with a container")?;
    let mut hasher = DefaultHasher::new();
    (image, variable(v::CONTAINER_NAME)).hash(&mut hasher);
    let files = Path::new(&all).join(format!("{:016x}", hasher.finish()));
    match DirBuilder::new().mode(0o700).create(&files) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
            Err(format!("{}: {e}", files.display()))
        }
        _ => Ok(files),
    }
}

/// Has the plugin fetch the image unless another task has done so; the others wait.
fn fetch(
    plugin: &ContainerPlugin,
    mut command: Command,
    files: &Path,
    image: &str,
) -> Result<(), String> {
    let failed = |e: io::Error| format!("{}: {e}", files.display());
    let lock = File::create(files.join("lock")).map_err(failed)?;
    lock.lock().map_err(failed)?;
    let fetched = files.join(FETCHED);
    if fetched.exists() {
        return Ok(());
    }
    let errors = io::stderr().as_fd().try_clone_to_owned().map_err(failed)?;
    command.stdin(Stdio::null()).stdout(Stdio::from(errors));
    let status = command.status();
    let status = status.map_err(|e| format!("{}: {e}", plugin.script.display()))?;
    if !status.success() {
        return Err(format!("{} cannot get {image} ({status})", plugin.name));
    }
    fs::write(fetched, "").map_err(failed)
}
