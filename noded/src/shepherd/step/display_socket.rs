//! The display of a step on its node: a number that nobody has here, and sockets for it on both
//! addresses of loopback.
//!
//! Both, because `localhost` may be either: whoever had the same port of the other one would be
//! shown the step's cookie.

use cosy_proto::x11::FIRST_PORT;
use nix::errno::Errno;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};

/// Numbers that displays of steps have; those before are left to displays of the host itself.
const NUMBERS: std::ops::Range<u16> = 10..1000;

/// A display that programs here can connect to.
#[derive(Debug)]
pub struct DisplaySockets {
    /// Number of the display, after `localhost:`.
    pub number: u16,
    /// What listens for it: one socket, or one for each kind of address.
    pub listeners: Vec<TcpListener>,
}

/// Opens the next free display.
///
/// # Errors
/// In one line: all are taken, or there is no loopback.
pub fn open() -> Result<DisplaySockets, String> {
    for number in NUMBERS {
        match listen(FIRST_PORT + number) {
            Ok(listeners) => return Ok(DisplaySockets { number, listeners }),
            Err(e) if e.kind() == ErrorKind::AddrInUse => {}
            Err(e) => return Err(format!("cannot listen for X clients on loopback: {e}")),
        }
    }
    Err(format!(
        "the displays localhost:{} to localhost:{} are all taken on this node; end some of the \
         steps and logins with X11 forwarding",
        NUMBERS.start,
        NUMBERS.end - 1
    ))
}

/// A port on both addresses of loopback, or on the one that the host has.
fn listen(port: u16) -> io::Result<Vec<TcpListener>> {
    let addresses: [SocketAddr; 2] = [
        (Ipv4Addr::LOCALHOST, port).into(),
        (Ipv6Addr::LOCALHOST, port).into(),
    ];
    let mut listeners = Vec::new();
    let mut missing = None;
    for address in addresses {
        match TcpListener::bind(address) {
            Ok(listener) => {
                listener.set_nonblocking(true)?;
                listeners.push(listener);
            }
            // The host has no such address.
            Err(e) if is_absent(&e) => missing = Some(e),
            Err(e) => return Err(e),
        }
    }
    match missing {
        Some(e) if listeners.is_empty() => Err(e),
        _ => Ok(listeners),
    }
}

fn is_absent(error: &io::Error) -> bool {
    let absent = [Errno::EADDRNOTAVAIL, Errno::EAFNOSUPPORT];
    let code = error.raw_os_error();
    absent.iter().any(|errno| code == Some(*errno as i32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_not_taken_twice() {
        let one = open().unwrap();
        let other = open().unwrap();
        assert!(one.number < other.number && one.number >= NUMBERS.start);
        for listener in &one.listeners {
            assert!(listener.local_addr().unwrap().ip().is_loopback());
            assert_eq!(listener.local_addr().unwrap().port(), FIRST_PORT + one.number);
        }
    }

    #[test]
    fn one_address_alone_is_not_enough_when_somebody_has_the_other() {
        let Ok(other) = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)) else {
            eprintln!("skipped: no IPv6 here");
            return;
        };
        let port = other.local_addr().unwrap().port();
        assert_eq!(listen(port).unwrap_err().kind(), ErrorKind::AddrInUse);
    }
}
