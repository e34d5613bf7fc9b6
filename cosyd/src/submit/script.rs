//! `job_submit.lua`: read from a file that only root or the controller's own user can change, and
//! handed to the program that runs it.

use super::policy::{Script, SubmitPolicy};
use super::worker::Worker;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Most bytes of a script.
pub const SCRIPT_BYTES: u64 = 1 << 20;
/// The program that runs scripts, beside this one or below `libexec`.
const PROGRAMS: [&str; 2] = ["cosy-lua", "../libexec/cosy/cosy-lua"];
/// Longest time in which a script may be loaded when the configuration is read: other requests
/// wait so long.
const LOADING: Duration = Duration::from_secs(5);

/// Reads the script that the configuration names and has it loaded once, so that one with faults
/// never gets into force.
///
/// # Errors
/// What is wrong with it, in a line.
pub fn load(policy: &mut SubmitPolicy) -> Result<(), String> {
    let Some(lua) = &mut policy.lua else {
        return Ok(());
    };
    let path = match &lua.script {
        Some(script) => script.path.clone(),
        None => return Ok(()),
    };
    let shown = path.clone();
    let text = read(&path).map_err(|why| format!("{}: {why}", shown.display()))?;
    lua.command = vec![program()?.display().to_string()];
    lua.script = Some(Arc::new(Script { path, text }));
    let until = Instant::now() + lua.timeout.min(LOADING);
    let started = Worker::start(lua, until).map(drop);
    started.map_err(|why| format!("{}: {why}", shown.display()))
}

/// Where the program is that runs scripts.
fn program() -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|e| e.to_string())?;
    let folder = own.parent().unwrap_or_else(|| Path::new("/"));
    let mut places = PROGRAMS.iter().map(|place| folder.join(place));
    places.find(|place| place.is_file()).ok_or_else(|| {
        let folder = folder.display();
        format!("lua: there is no cosy-lua in {folder} nor in {folder}/../libexec/cosy: it runs the script")
    })
}

/// The text of a file that nobody else can change.
fn read(path: &Path) -> Result<String, String> {
    // A pipe in its place does not keep the controller waiting.
    let mut options = File::options();
    let opened = options
        .read(true)
        .custom_flags(nix::libc::O_NONBLOCK)
        .open(path);
    let file = opened.map_err(|e| e.to_string())?;
    let facts = file.metadata().map_err(|e| e.to_string())?;
    let own = nix::unistd::geteuid().as_raw();
    if !facts.is_file() {
        return Err("it is no file".to_owned());
    }
    if ![0, own].contains(&facts.uid()) {
        return Err(format!(
            "it belongs to user {}, who could change what every job has to pass: it must belong to root or to user {own}",
            facts.uid()
        ));
    }
    if facts.mode() & 0o022 != 0 {
        return Err("its group or others may write to it: chmod go-w".to_owned());
    }
    if facts.len() > SCRIPT_BYTES {
        return Err(format!("it has more than {SCRIPT_BYTES} bytes"));
    }
    let mut text = String::new();
    let read = file.take(SCRIPT_BYTES + 1).read_to_string(&mut text);
    read.map_err(|e| e.to_string())?;
    match text.len() as u64 <= SCRIPT_BYTES {
        true => Ok(text),
        false => Err(format!("it has more than {SCRIPT_BYTES} bytes")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn whose_file_it_must_be() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("job_submit.lua");
        fs::write(&file, "x = 1\n").unwrap();
        let mode = |mode| fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        mode(0o644);
        assert_eq!(read(&file).unwrap(), "x = 1\n");
        mode(0o664);
        assert!(read(&file).unwrap_err().contains("chmod go-w"));
        mode(0o646);
        assert!(read(&file).unwrap_err().contains("chmod go-w"));
        mode(0o600);
        assert!(read(folder.path()).unwrap_err().contains("no file"));
        assert!(read(&folder.path().join("none")).is_err());
        let pipe = folder.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(read(&pipe).unwrap_err().contains("no file"));
        fs::write(&file, vec![b' '; 1 << 21]).unwrap();
        assert!(read(&file).unwrap_err().contains("more than 1048576 bytes"));
        fs::write(&file, b"-- \xff").unwrap();
        assert!(read(&file).unwrap_err().contains("UTF-8"));
        if nix::unistd::geteuid().is_root() {
            fs::write(&file, "").unwrap();
            std::os::unix::fs::chown(&file, Some(1234), None).unwrap();
            assert!(read(&file).unwrap_err().contains("belongs to user 1234"));
        }
    }
}
