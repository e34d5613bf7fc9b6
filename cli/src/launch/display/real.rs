//! The display that windows are shown on, and the cookie that it wants to see.

use super::address::{self, DisplayAddress, DisplayPlace};
use anyhow::anyhow;
use cosy_model::step::{DISPLAY_COOKIE_BYTES, DisplayNodes, DisplayRequest};
use cosy_model::{Dialect, OsText};
use cosy_proto::x11::authority::{self, DisplayName};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::rand::{GetRandomFlags, getrandom};
use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

/// How long a display on another host may take to answer.
const CONNECTING: Duration = Duration::from_secs(5);

/// Where the display listens.
#[derive(Clone, Debug)]
enum Target {
    Socket(PathBuf),
    Address(SocketAddr),
}

/// The display of this command.
#[derive(Clone, Debug)]
pub struct RealDisplay {
    /// Its name, as in `DISPLAY`.
    pub name: String,
    target: Target,
    /// What it wants to see; nothing where it lets in this user without.
    pub cookie: Option<Vec<u8>>,
}

/// Finds the display of this command, and makes the request for a step whose windows are shown on
/// it, with a new cookie.
///
/// # Errors
/// `DISPLAY` is not set or names no display, or nobody listens there.
pub fn find(
    nodes: DisplayNodes,
    dialect: Dialect,
) -> anyhow::Result<(DisplayRequest, RealDisplay)> {
    let name = std::env::var("DISPLAY").unwrap_or_default();
    if name.is_empty() {
        return Err(match dialect {
            Dialect::Slurm => anyhow!("No DISPLAY variable set, cannot setup x11 forwarding."),
            Dialect::Cosy => anyhow!(
                "--x11: DISPLAY is not set, so there is no display to show windows on; log in with \
                 'ssh -X', or start it in a graphical session"
            ),
        });
    }
    let Some(address) = address::parse(&name) else {
        return Err(anyhow!("--x11: DISPLAY is '{name}', which names no display (as ':0' does)"));
    };
    let nobody = |e: io::Error| anyhow!("--x11: cannot connect to the display '{name}': {e}");
    let target = target(&address).map_err(nobody)?;
    let mut own = [0; DISPLAY_COOKIE_BYTES];
    getrandom(&mut own[..], GetRandomFlags::empty())?;
    let request = DisplayRequest {
        nodes,
        cookie: OsText(own.to_vec()),
        screen: address.screen,
    };
    let cookie = cookie(&address, &target);
    Ok((
        request,
        RealDisplay {
            name,
            target,
            cookie,
        },
    ))
}

/// Where somebody listens at that address. Names are looked up here and not again.
fn target(address: &DisplayAddress) -> io::Result<Target> {
    match &address.place {
        DisplayPlace::Socket(path) => {
            let target = Target::Socket(path.clone());
            open(&target).map(|_| target)
        }
        DisplayPlace::Host { name, port } => {
            let mut failure = io::Error::other("no such host");
            for ip in addresses(name) {
                let address = SocketAddr::from((ip, *port));
                match TcpStream::connect_timeout(&address, CONNECTING) {
                    Ok(_) => return Ok(Target::Address(address)),
                    Err(e) => failure = e,
                }
            }
            Err(failure)
        }
    }
}

/// The addresses of a host. By `getent` for the reason that [`crate::users`] tells.
fn addresses(name: &str) -> Vec<IpAddr> {
    if let Ok(address) = name.parse() {
        return vec![address];
    }
    if name.eq_ignore_ascii_case("localhost") {
        return vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    }
    let answer = Command::new("getent")
        .args(["--", "ahosts", name])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    let answer = answer.map(|a| a.stdout).unwrap_or_default();
    let text = String::from_utf8_lossy(&answer);
    let streams = text.lines().filter(|line| line.contains("STREAM"));
    let words = streams.filter_map(|line| line.split_whitespace().next());
    words.filter_map(|word| word.parse().ok()).collect()
}

fn open(target: &Target) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let family = match target {
        Target::Socket(_) => AddressFamily::UNIX,
        Target::Address(SocketAddr::V4(_)) => AddressFamily::INET,
        Target::Address(SocketAddr::V6(_)) => AddressFamily::INET6,
    };
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    let connected = match target {
        Target::Socket(path) => connect(&socket, &SocketAddrUnix::new(path)?),
        Target::Address(address) => {
            rustix::net::sockopt::set_tcp_nodelay(&socket, true)?;
            connect(&socket, address)
        }
    };
    match connected {
        // What becomes of it shows itself when it is first written to.
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(e) => Err(e.into()),
    }
}

impl RealDisplay {
    /// A new connection to it, which need not be there yet; never waits.
    ///
    /// # Errors
    /// Nobody listens there any more.
    pub fn connect(&self) -> io::Result<OwnedFd> {
        open(&self.target)
    }
}

/// The cookie for a display in the user's file, if there is one.
fn cookie(address: &DisplayAddress, target: &Target) -> Option<Vec<u8>> {
    let file = std::env::var_os("XAUTHORITY").filter(|name| !name.is_empty());
    let file = file.map(PathBuf::from).or_else(|| {
        let home = std::env::var_os("HOME")?;
        Some(PathBuf::from(home).join(".Xauthority"))
    })?;
    let mut bytes = Vec::new();
    let opened = std::fs::File::open(file).ok()?;
    let read = opened.take(authority::FILE_BYTES).read_to_end(&mut bytes);
    read.ok()?;
    authority::cookie(&bytes, &name_in_file(address, target))
}

/// How files name it: one on this host by the host's name, also where it is reached over loopback.
fn name_in_file(address: &DisplayAddress, target: &Target) -> DisplayName {
    let (family, bytes) = match target {
        Target::Address(other) if !other.ip().to_canonical().is_loopback() => match other.ip() {
            IpAddr::V4(ip) => (authority::INTERNET, ip.octets().to_vec()),
            IpAddr::V6(ip) => (authority::INTERNET_6, ip.octets().to_vec()),
        },
        Target::Socket(_) | Target::Address(_) => {
            let host = nix::unistd::gethostname().unwrap_or_default();
            (authority::LOCAL, host.as_encoded_bytes().to_vec())
        }
    };
    DisplayName {
        family,
        address: bytes,
        number: address.number.clone().into_bytes(),
    }
}

#[cfg(test)]
impl RealDisplay {
    /// One at a socket, for tests.
    pub fn at(path: &std::path::Path, cookie: &[u8]) -> Self {
        Self {
            name: "test".into(),
            target: Target::Socket(path.to_owned()),
            cookie: Some(cookie.to_vec()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_displays() {
        let check = |name: &str, want: &[&str]| {
            let want: Vec<IpAddr> = want.iter().map(|ip| ip.parse().unwrap()).collect();
            assert_eq!(addresses(name), want, "{name}");
        };
        check("127.0.0.2", &["127.0.0.2"]);
        check("::1", &["::1"]);
        check("localhost", &["127.0.0.1", "::1"]);
        check("-s", &[]);
        check("no such host", &[]);
    }

    #[test]
    fn names_in_files() {
        let display = |text: &str, target: Target| {
            let name = name_in_file(&address::parse(text).unwrap(), &target);
            (name.family, name.address, String::from_utf8(name.number).unwrap())
        };
        let host = nix::unistd::gethostname().unwrap().into_encoded_bytes();
        let at = |text: &str| Target::Address(text.parse().unwrap());
        let local = (authority::LOCAL, host, "10".to_owned());
        assert_eq!(display("localhost:10.0", at("127.0.0.1:6010")), local);
        assert_eq!(display("[::1]:10", at("[::1]:6010")), local);
        assert_eq!(display(":10", Target::Socket("/x".into())), local);
        let far = (authority::INTERNET, vec![10, 0, 0, 1], "0".to_owned());
        assert_eq!(display("far:0.1", at("10.0.0.1:6000")), far);
    }
}
