//! The submitting process, as far as a job inherits from it or records it: environment, working
//! directory, file mode mask, resource limits, host, session and command line.

use crate::job_options::EnvItem;
use cosy_model::job::Rlimits;
use cosy_model::limits::{ENVIRONMENT_BYTES, LINE_BYTES};
use cosy_model::{OsText, text};
use rustix::fs::Mode;
use rustix::process::{Resource, getrlimit};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// Names of limits as `ulimit` and the kernel have them.
const LIMITS: [(&str, Resource); 16] = [
    ("CPU", Resource::Cpu),
    ("FSIZE", Resource::Fsize),
    ("DATA", Resource::Data),
    ("STACK", Resource::Stack),
    ("CORE", Resource::Core),
    ("RSS", Resource::Rss),
    ("NPROC", Resource::Nproc),
    ("NOFILE", Resource::Nofile),
    ("MEMLOCK", Resource::Memlock),
    ("AS", Resource::As),
    ("LOCKS", Resource::Locks),
    ("SIGPENDING", Resource::Sigpending),
    ("MSGQUEUE", Resource::Msgqueue),
    ("NICE", Resource::Nice),
    ("RTPRIO", Resource::Rtprio),
    ("RTTIME", Resource::Rttime),
];

/// All resource limits of this process: name, soft and hard limit; `u64::MAX` is unlimited.
pub fn rlimits() -> Rlimits {
    LIMITS
        .iter()
        .map(|(name, resource)| {
            let limit = getrlimit(*resource);
            let number = |n: Option<u64>| n.unwrap_or(u64::MAX);
            ((*name).to_owned(), number(limit.current), number(limit.maximum))
        })
        .collect()
}

/// The file mode mask of this process (which can only be read by setting it).
pub fn umask() -> u32 {
    let mask = rustix::process::umask(Mode::RWXG | Mode::RWXO);
    rustix::process::umask(mask);
    mask.bits()
}

/// The name of this host.
pub fn hostname() -> Option<String> {
    let name = nix::unistd::gethostname().ok()?;
    Some(name.to_string_lossy().into_owned())
}

/// The session of this process; 0 when its leader is outside of the namespace of process
/// ids, as in some containers.
pub fn session_id() -> Option<u32> {
    let session = nix::unistd::getsid(None).ok()?;
    u32::try_from(session.as_raw()).ok()
}

/// The command line of this process, words with blanks between, cut to `LINE_BYTES`.
pub fn command_line() -> String {
    let words: Vec<OsString> = std::env::args_os().collect();
    let mut line = words.join(OsStr::new(" ")).to_string_lossy().into_owned();
    line.truncate(text::cut(&line, LINE_BYTES).len());
    line
}

/// The working directory, or `chdir` as seen from it.
///
/// # Errors
/// When the present directory is gone.
pub fn workdir(chdir: Option<&OsStr>) -> Result<OsText, String> {
    let chdir = chdir.map(PathBuf::from).unwrap_or_default();
    if chdir.is_absolute() {
        return Ok(OsText(chdir.into_os_string().into_vec()));
    }
    let here = std::env::current_dir()
        .map_err(|e| format!("cannot tell the present directory ({e}): use --chdir"))?;
    let whole = if chdir.as_os_str().is_empty() {
        here
    } else {
        here.join(chdir)
    };
    Ok(OsText(whole.into_os_string().into_vec()))
}

/// The variables that the job gets, separated by NUL: those that `items` keep of `present`, and those
/// that they set.
///
/// # Errors
/// More than the limit.
pub fn environment(
    items: &[EnvItem],
    present: impl Iterator<Item = (OsString, OsString)>,
) -> Result<OsText, String> {
    let everything = items.is_empty()
        || items.contains(&EnvItem::All)
        || !items
            .iter()
            .any(|i| matches!(i, EnvItem::None | EnvItem::Keep(_)));
    let kept = |name: &OsStr| {
        everything
            || items
                .iter()
                .any(|i| matches!(i, EnvItem::Keep(k) if name == &**k))
    };
    let set = |name: &OsStr| {
        items
            .iter()
            .any(|i| matches!(i, EnvItem::Set(k, _) if name == &**k))
    };
    let mut block = Vec::with_capacity(4096);
    for (name, value) in present {
        if kept(&name) && !set(&name) {
            add(&mut block, name.as_bytes(), value.as_bytes());
        }
    }
    for item in items {
        if let EnvItem::Set(name, value) = item {
            add(&mut block, name.as_bytes(), value.as_bytes());
        }
    }
    if block.len() > ENVIRONMENT_BYTES {
        return Err(format!(
            "the environment has {} bytes; at most {ENVIRONMENT_BYTES} are allowed: \
             choose variables with --env",
            block.len()
        ));
    }
    Ok(OsText(block))
}

fn add(block: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    if !block.is_empty() {
        block.push(0);
    }
    block.extend_from_slice(name);
    block.push(b'=');
    block.extend_from_slice(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environments() {
        let present = [("A", "1"), ("B", "2"), ("C", "3")];
        let check = |items: &[EnvItem], want: &str| {
            let present = present.iter().map(|(n, v)| (n.into(), v.into()));
            let block = environment(items, present).unwrap();
            assert_eq!(block.lossy().replace('\0', " "), want, "{items:?}");
        };
        let keep = |n: &str| EnvItem::Keep(n.to_owned());
        let set = |n: &str, v: &str| EnvItem::Set(n.to_owned(), v.to_owned());
        check(&[], "A=1 B=2 C=3");
        check(&[EnvItem::All], "A=1 B=2 C=3");
        check(&[EnvItem::None], "");
        check(&[EnvItem::None, set("X", "y z")], "X=y z");
        check(&[keep("B"), keep("Z")], "B=2");
        check(&[EnvItem::All, set("B", "9")], "A=1 C=3 B=9");
        check(&[set("B", "9")], "A=1 C=3 B=9");
        check(&[keep("A"), set("B", "9")], "A=1 B=9");
        let big = [("A".into(), "x".repeat(ENVIRONMENT_BYTES).into())];
        assert!(environment(&[], big.into_iter()).is_err());
    }

    #[test]
    fn this_process() {
        let limits = rlimits();
        assert!(
            limits
                .iter()
                .any(|(n, soft, hard)| n == "NOFILE" && *soft > 0 && soft <= hard)
        );
        assert!(limits.len() <= cosy_model::limits::RLIMITS);
        assert_eq!(umask(), umask());
        assert!(workdir(Some("x".as_ref())).unwrap().lossy().ends_with("/x"));
        assert_eq!(workdir(Some("/x".as_ref())).unwrap().lossy(), "/x");
    }
}
