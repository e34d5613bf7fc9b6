//! Where the cluster is: the Unix sockets that a command speaks to.
//!
//! In this order: `COSY_SOCKET`, a path or several with `:` between; the socket beside the folder that the program was
//! called from (`FOLDER/../run/cosyd.sock`, and `cosyd2.sock` ... of further controllers: private
//! clusters of `cosy dev`, found even when a script or tool strips the environment); the system's controller; the system's
//! node daemon, which passes requests on. Of the system's all that are there: where the controller of
//! this host stands by, the node daemon leads to the one that does not. Symbolic links are not followed on purpose:
//! a private cluster has its own folder of links to one program.

use cosy_model::{limits, variables};
use rustix::fs::{Mode, OFlags};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect as connect_to, socket_with,
    sockopt,
};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Socket of the controller, on the controller's own host.
pub const CONTROLLER_SOCKET: &str = "/run/cosy/cosyd.sock";
/// Socket of the node daemon, which passes requests on; on all other hosts.
pub const NODE_SOCKET: &str = "/run/noded/noded.sock";
/// Socket of the program of the web page, where the kernel tells it who asks.
pub const WEB_SOCKET: &str = "/run/cosy-web/web.sock";
/// [`NODE_SOCKET`] of earlier releases.
pub const OLD_NODE_SOCKET: &str = "/run/cosy/noded.sock";
/// Longest path that fits into a socket address, in bytes.
pub const ADDRESS_BYTES: usize = 107;

/// Whether [`variables::AS_USER`] asks for an ordinary user's rights: set, neither empty nor `0`.
pub fn as_user() -> bool {
    is_set(variables::AS_USER)
}

/// Whether [`variables::STALE_OK`] is set in the same way.
pub fn stale_ok() -> bool {
    is_set(variables::STALE_OK)
}

fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|v| !v.is_empty() && v != "0")
}

/// The sockets of the cluster that this command belongs to, at least one; see above for the order of
/// places.
pub fn find() -> Vec<PathBuf> {
    let variable = std::env::var_os(variables::SOCKET).filter(|v| !v.is_empty());
    let program = Path::new(OsStr::from_bytes(rustix::param::linux_execfn().to_bytes()));
    choose(variable, program, &|path| path.exists())
}

fn choose(
    variable: Option<OsString>,
    program: &Path,
    exists: &dyn Fn(&Path) -> bool,
) -> Vec<PathBuf> {
    if let Some(value) = variable {
        return listed(value);
    }
    if let Some(folder) = program.parent().filter(|_| !program.as_os_str().is_empty()) {
        let beside = folder.join("../run/cosyd.sock");
        if exists(&beside) || exists(&folder.join("../cosy.toml")) {
            let further =
                (2..=limits::CONTROLLERS).map(|n| folder.join(format!("../run/cosyd{n}.sock")));
            return std::iter::once(beside)
                .chain(further.filter(|socket| exists(socket)))
                .collect();
        }
    }
    let places = [CONTROLLER_SOCKET, NODE_SOCKET, OLD_NODE_SOCKET].map(Path::new);
    let there = places.into_iter().filter(|place| exists(place));
    let there: Vec<PathBuf> = there.map(Path::to_owned).collect();
    match there.is_empty() {
        true => vec![CONTROLLER_SOCKET.into()],
        false => there,
    }
}

/// The paths of a list; what is not absolute throughout is one path that has a `:` in it.
fn listed(value: OsString) -> Vec<PathBuf> {
    let parts = value.as_bytes().split(|byte| *byte == b':');
    let paths: Vec<PathBuf> = parts
        .filter(|part| !part.is_empty())
        .map(|part| OsStr::from_bytes(part).into())
        .collect();
    match paths.iter().all(|path| path.is_absolute()) && !paths.is_empty() {
        true => paths,
        false => vec![value.into()],
    }
}

/// Connects to a Unix socket; waits at most `timeout` for a place in its queue of connections. A
/// path that is longer than [`ADDRESS_BYTES`] is reached through its opened directory.
///
/// # Errors
/// Errors of the system; `TimedOut` when the queue of the socket stays full.
pub fn connect(path: &Path, timeout: Duration) -> io::Result<UnixStream> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(timeout))?;
    let connected = if path.as_os_str().len() <= ADDRESS_BYTES {
        connect_to(&socket, &SocketAddrUnix::new(path)?)
    } else {
        let folder = path.parent().unwrap_or(Path::new("."));
        let folder = rustix::fs::open(
            folder,
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        let name = path.file_name().unwrap_or_default();
        let short = Path::new("/proc/self/fd")
            .join(folder.as_raw_fd().to_string())
            .join(name);
        connect_to(&socket, &SocketAddrUnix::new(&short)?)
    };
    match connected {
        Ok(()) => Ok(UnixStream::from(socket)),
        Err(rustix::io::Errno::AGAIN) => {
            Err(io::Error::new(io::ErrorKind::TimedOut, "it does not accept connections"))
        }
        Err(e) => Err(e.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_of_places() {
        let check_all = |variable: Option<&str>, program: &str, there: &[&str], want: &[&str]| {
            let exists = |p: &Path| there.iter().any(|t| Path::new(t) == p);
            let got = choose(variable.map(Into::into), Path::new(program), &exists);
            let want: Vec<PathBuf> = want.iter().map(Into::into).collect();
            assert_eq!(got, want, "{variable:?} {program} {there:?}");
        };
        let check = |variable, program, there: &[&str], want| {
            check_all(variable, program, there, &[want]);
        };
        let beside = "/d/bin/../run/cosyd.sock";
        check(Some("/x"), "/d/bin/csub", &[beside], "/x");
        check(None, "/d/bin/csub", &[beside, CONTROLLER_SOCKET], beside);
        check(None, "/d/bin/csub", &["/d/bin/../cosy.toml"], beside);
        let second = "/d/bin/../run/cosyd2.sock";
        check_all(None, "/d/bin/csub", &[beside, second], &[beside, second]);
        check(None, "csub", &["../run/cosyd.sock"], "../run/cosyd.sock");
        check(None, "/usr/bin/csub", &[CONTROLLER_SOCKET], CONTROLLER_SOCKET);
        check(None, "/usr/bin/csub", &[NODE_SOCKET], NODE_SOCKET);
        let both = [OLD_NODE_SOCKET, NODE_SOCKET];
        check_all(None, "/usr/bin/csub", &both, &[NODE_SOCKET, OLD_NODE_SOCKET]);
        check(None, "/usr/bin/csub", &both[..1], OLD_NODE_SOCKET);
        let host = [NODE_SOCKET, CONTROLLER_SOCKET];
        check_all(None, "/usr/bin/csub", &host, &[CONTROLLER_SOCKET, NODE_SOCKET]);
        check_all(Some("/x:/y"), "/usr/bin/csub", &host, &["/x", "/y"]);
        check(Some("/x:"), "/usr/bin/csub", &[], "/x");
        check(Some("/a:b/x"), "/usr/bin/csub", &[], "/a:b/x");
        check(Some("x"), "/usr/bin/csub", &[], "x");
        check(Some(":"), "/usr/bin/csub", &[], ":");
        check(None, "/usr/bin/csub", &[], CONTROLLER_SOCKET);
        check(None, "", &[], CONTROLLER_SOCKET);
    }

    #[test]
    fn long_paths() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("d".repeat(120));
        std::fs::create_dir(&deep).unwrap();
        // Bind through a short link, connect through the long path.
        let link = dir.path().join("l");
        std::os::unix::fs::symlink(&deep, &link).unwrap();
        let _listener = std::os::unix::net::UnixListener::bind(link.join("s")).unwrap();
        connect(&deep.join("s"), Duration::from_secs(1)).unwrap();
        assert!(connect(&deep.join("t"), Duration::from_secs(1)).is_err());
    }
}
