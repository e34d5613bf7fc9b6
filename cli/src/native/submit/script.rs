//! The batch script: read within its limit, and looked at before it is sent.

use cosy_model::limits::SCRIPT_BYTES;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, IsTerminal, Read};

/// Why a script is not sent.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// The file does not exist or cannot be read.
    #[error("cannot read the script '{name}': {cause}{hint}")]
    Read {
        /// The script as the user named it.
        name: String,
        /// The system's error.
        cause: io::Error,
        /// The end of the message: what may have been meant, or empty.
        hint: &'static str,
    },
    /// The path names a directory.
    #[error("cannot read the script '{0}': it is a directory")]
    Directory(String),
    /// No script was named, and standard input is a terminal.
    #[error("a script is needed: csub SCRIPT, csub -- COMMAND, or a script on standard input")]
    Nothing,
    /// The script has nothing but white space.
    #[error("the script '{0}' is empty")]
    Empty(String),
    /// The script is larger than the limit.
    #[error(
        "the script '{name}' has {size}; at most {} MiB are allowed: keep data in files of their own",
        SCRIPT_BYTES >> 20
    )]
    TooLarge {
        /// The script as the user named it.
        name: String,
        /// Size of the file, with its unit.
        size: String,
    },
    /// The script has NUL bytes: it is a program.
    #[error("'{0}' is no script but binary: to run a program use csub -- COMMAND")]
    Binary(String),
    /// The first line does not begin with `#!`.
    #[error("the script '{0}' does not name its interpreter: add a first line like '#!/bin/sh'")]
    NoInterpreter(String),
    /// The first line ends with a carriage return, which the kernel would take for a part of the
    /// interpreter's name.
    #[error("the script '{0}' has line ends of DOS (CR LF): convert it to LF first")]
    DosLines(String),
}

/// Name of a script that is read from standard input.
pub const STANDARD_INPUT: &str = "stdin";

/// Reads and checks the script; `None` or `-` is standard input.
///
/// # Errors
/// [`ScriptError`].
pub fn read(file: Option<&OsStr>) -> Result<Vec<u8>, ScriptError> {
    let (bytes, name) = match file.filter(|f| *f != "-") {
        Some(file) => (from_file(file)?, file.to_string_lossy().into_owned()),
        None => (from_input(file.is_some())?, STANDARD_INPUT.to_owned()),
    };
    check(&bytes, &name)?;
    Ok(bytes)
}

fn from_file(file: &OsStr) -> Result<Vec<u8>, ScriptError> {
    let name = || file.to_string_lossy().into_owned();
    let failed = |cause: io::Error| ScriptError::Read {
        name: name(),
        hint: hint(file, &cause),
        cause,
    };
    let mut open = File::open(file).map_err(failed)?;
    let meta = open.metadata().map_err(failed)?;
    if meta.is_dir() {
        return Err(ScriptError::Directory(name()));
    }
    if meta.len() > SCRIPT_BYTES as u64 {
        return Err(ScriptError::TooLarge {
            name: name(),
            size: format!("{} bytes", meta.len()),
        });
    }
    bounded(&mut open, &name(), meta.len() as usize, &failed)
}

fn hint(file: &OsStr, error: &io::Error) -> &'static str {
    let plain = !file.as_encoded_bytes().contains(&b'/');
    if plain && error.kind() == io::ErrorKind::NotFound {
        " (to run a command write: csub -- COMMAND)"
    } else {
        ""
    }
}

fn from_input(explicit: bool) -> Result<Vec<u8>, ScriptError> {
    let mut input = io::stdin().lock();
    if !explicit && input.is_terminal() {
        return Err(ScriptError::Nothing);
    }
    let failed = |cause| ScriptError::Read {
        name: STANDARD_INPUT.to_owned(),
        cause,
        hint: "",
    };
    bounded(&mut input, STANDARD_INPUT, 0, &failed)
}

fn bounded(
    from: &mut impl Read,
    name: &str,
    expected: usize,
    failed: &dyn Fn(io::Error) -> ScriptError,
) -> Result<Vec<u8>, ScriptError> {
    let mut bytes = Vec::with_capacity(expected + 1);
    from.take(SCRIPT_BYTES as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    if bytes.len() > SCRIPT_BYTES {
        return Err(ScriptError::TooLarge {
            name: name.to_owned(),
            size: "more than that".to_owned(),
        });
    }
    Ok(bytes)
}

fn check(bytes: &[u8], name: &str) -> Result<(), ScriptError> {
    let name = || name.to_owned();
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(ScriptError::Empty(name()));
    }
    if bytes.contains(&0) {
        return Err(ScriptError::Binary(name()));
    }
    if !bytes.starts_with(b"#!") {
        return Err(ScriptError::NoInterpreter(name()));
    }
    let first = bytes.split(|b| *b == b'\n').next().unwrap_or_default();
    if first.ends_with(b"\r") {
        return Err(ScriptError::DosLines(name()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks() {
        let test = |bytes: &[u8], want: &str| {
            let got = check(bytes, "s")
                .err()
                .map_or_else(String::new, |e| e.to_string());
            assert!(got.contains(want) && got.is_empty() == want.is_empty(), "{got}");
        };
        test(b"#!/bin/sh\nls\n", "");
        test(b"#!/bin/sh", "");
        test(b"", "is empty");
        test(b" \n\n", "is empty");
        test(b"\x7fELF\0\0", "binary");
        test(b"ls\n", "add a first line");
        test(b"#!/bin/sh\r\nls\r\n", "CR LF");
    }
}
