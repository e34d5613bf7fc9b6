//! Files that options name: lists of hosts, variables, the batch script.

use cosy_model::limits::{ENVIRONMENT_BYTES, HOST_LIST_BYTES, SCRIPT_BYTES};
use cosy_slurm::submit::Fault;
use cosy_slurm::submit::options::SubmitOptions;
use cosy_slurm::submit::script::check;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Puts the hosts of files into the lists: `-F FILE`, `-w ./FILE`, `-x ./FILE`.
///
/// # Errors
/// A file that cannot be read.
pub fn read_host_files(job_options: &mut SubmitOptions) -> Result<(), Fault> {
    if let Some(file) = &job_options.nodefile {
        job_options.nodelist = Some(hosts(file)?);
    }
    for list in [&mut job_options.nodelist, &mut job_options.exclude] {
        if let Some(text) = list.as_ref().filter(|t| t.contains('/')) {
            *list = Some(hosts(OsStr::new(text))?);
        }
    }
    Ok(())
}

/// The host lists of a file, separated by commas.
///
/// # Errors
/// The file cannot be read.
pub fn hosts(file: &OsStr) -> Result<String, Fault> {
    let failed = |_| Fault::error(format!("Unable to open file {}", file.to_string_lossy()));
    let mut bytes = Vec::new();
    let open = File::open(file).map_err(failed)?;
    open.take(HOST_LIST_BYTES as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    let text = String::from_utf8_lossy(&bytes);
    let lines = text
        .lines()
        .map(|l| l.split('#').next().unwrap_or_default());
    let names: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
    Ok(names.join(","))
}

/// The variables of `--export-file`: a file, or the number of an open one.
///
/// # Errors
/// The file cannot be read, or is too large.
pub fn variables(file: &OsStr) -> Result<Vec<u8>, Fault> {
    let shown = file.to_string_lossy();
    let failed =
        |e: io::Error| Fault::error(format!("Unable to read environment from {shown}: {e}"));
    let mut bytes = Vec::new();
    let number = shown.parse::<u32>().ok();
    let open = number.map(|n| Path::new("/proc/self/fd").join(n.to_string()));
    let path = open.filter(|p| p.exists()).unwrap_or_else(|| file.into());
    let open = File::open(path).map_err(failed)?;
    open.take(ENVIRONMENT_BYTES as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    if bytes.last() == Some(&0) {
        bytes.pop();
    }
    Ok(bytes)
}

/// A batch script that was read.
pub struct Script {
    /// Absolute path; empty for standard input.
    pub path: PathBuf,
    /// Contents of the script.
    pub text: Vec<u8>,
}

/// Reads the script of that name (here, or on the search path), or standard input.
///
/// # Errors
/// In the original's words.
pub fn script(name: Option<&OsString>) -> Result<Script, Fault> {
    let script = match name {
        Some(name) => {
            let path = locate(name);
            let text = read_script(File::open(&path), &name.to_string_lossy())?;
            Script { path, text }
        }
        None => Script {
            path: PathBuf::new(),
            text: read_script(Ok(io::stdin().lock()), "(standard input)")?,
        },
    };
    check(&script.text)?;
    Ok(script)
}

/// A script with the text of a file behind its first line, which names the interpreter.
///
/// # Errors
/// The file cannot be read, or both are too long together.
pub fn with_preamble(script: &[u8], file: &OsStr) -> Result<Vec<u8>, Fault> {
    let unreadable = |_| Fault::error("Invalid --bbf specification");
    let mut text = Vec::new();
    let open = File::open(file).map_err(unreadable)?;
    let most = SCRIPT_BYTES as u64 + 1;
    let read = open.take(most).read_to_end(&mut text);
    read.map_err(unreadable)?;
    if text.last().is_some_and(|last| *last != b'\n') {
        text.push(b'\n');
    }
    let first = script.iter().position(|b| *b == b'\n');
    let (head, rest) = script.split_at(first.map_or(script.len(), |at| at + 1));
    let head = match first {
        Some(_) => head.to_vec(),
        None => [head, b"\n"].concat(),
    };
    let whole = [&head[..], &text, rest].concat();
    if whole.len() > SCRIPT_BYTES {
        return Err(too_long());
    }
    check(&whole)?;
    Ok(whole)
}

fn too_long() -> Fault {
    Fault::refusal("Pathname of a file, directory or other parameter too long")
}

/// A name without a folder is looked for here first and then on the search path.
fn locate(name: &OsStr) -> PathBuf {
    let here = std::env::current_dir().unwrap_or_default().join(name);
    if name.as_encoded_bytes().contains(&b'/') || here.exists() {
        return here;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).map(|folder| folder.join(name));
    places.find(|p| p.is_file()).unwrap_or(here)
}

fn read_script(open: io::Result<impl Read>, name: &str) -> Result<Vec<u8>, Fault> {
    let unreadable = || Fault::error(format!("Unable to open file {name}"));
    let mut text = Vec::new();
    let from = open.map_err(|_| unreadable())?;
    match from.take(SCRIPT_BYTES as u64 + 1).read_to_end(&mut text) {
        Ok(_) => {}
        // A directory opens, and has nothing to read.
        Err(e) if e.kind() == io::ErrorKind::IsADirectory => text.clear(),
        Err(_) => return Err(unreadable()),
    }
    if text.len() > SCRIPT_BYTES {
        return Err(too_long());
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_slurm::submit::Program;

    #[test]
    fn scripts() {
        let test = |text: &[u8], want: &str| {
            let got = check(text)
                .err()
                .map_or_else(String::new, |f| f.text(Program::Sbatch));
            assert!(got.contains(want) && got.is_empty() == want.is_empty(), "{got}");
        };
        test(b"#!/bin/sh\nls\n", "");
        test(b"", "Batch script is empty!");
        test(b"echo\n", "does not look like a batch script");
        test(b"\x7fELF\0", "does not look like a batch script");
        test(b"#!/bin/sh\r\n", "DOS line breaks");
        test(b"#!/bin/sh\n\0", "NULL character");
    }

    #[test]
    fn files_in_front_of_scripts() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("front");
        let check = |script: &str, front: &str, want: &str| {
            std::fs::write(&file, front).unwrap();
            let got = with_preamble(script.as_bytes(), file.as_os_str()).unwrap();
            assert_eq!(String::from_utf8_lossy(&got), want);
        };
        check("#!/bin/sh\nls\n", "echo a", "#!/bin/sh\necho a\nls\n");
        check("#!/bin/sh", "echo a\n", "#!/bin/sh\necho a\n");
        let gone = dir.path().join("gone");
        let fault = with_preamble(b"#!/bin/sh\n", gone.as_os_str()).unwrap_err();
        let text = fault.text(Program::Sbatch);
        assert_eq!(text, "sbatch: error: Invalid --bbf specification\n");
    }

    #[test]
    fn lists_of_hosts() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("hosts");
        std::fs::write(&file, "n1 n2\n# no\nn[3-4] # yes\n").unwrap();
        let mut job_options = SubmitOptions {
            nodelist: Some(file.to_string_lossy().into_owned()),
            exclude: Some("n9".to_owned()),
            ..SubmitOptions::default()
        };
        read_host_files(&mut job_options).unwrap();
        assert_eq!(job_options.nodelist.as_deref(), Some("n1,n2,n[3-4]"));
        assert_eq!(job_options.exclude.as_deref(), Some("n9"));
        job_options.nodefile = Some("/nonexistent".into());
        assert!(read_host_files(&mut job_options).is_err());
    }
}
