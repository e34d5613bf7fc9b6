//! On which ports programs of a job listen on this node, and how they are connected.
//!
//! The kernel says whose a listening socket is: its user, and by its inode which processes hold it.
//! A port counts as a job's when a process of the job's user holds it that carries the job's mark or is in
//! one of its control groups.
//! Source: proc(5), `/proc/net/tcp`.

use crate::shepherd::all_processes;
use crate::sweep;
use cosy_model::Uid;
use cosy_model::limits::JOB_PORTS;
use cosy_model::step::{JobPort, TcpPair};
use cosy_model::variables::NODE_MARK;
use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Descriptors of the processes of a job that are looked at.
const DESCRIPTORS: usize = 1 << 16;
/// State of a socket that listens, as the kernel writes it.
const LISTENS: &str = "0A";
/// State of a socket that is connected.
const CONNECTED: &str = "01";
/// Connections of one process that are told.
const CONNECTIONS: usize = 4;

/// A socket that listens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Listener {
    /// Where it is reached from this host.
    pub address: SocketAddr,
    /// Its owner.
    pub uid: Uid,
    /// Its number in the kernel: no other socket has it as long as it is there.
    pub inode: u64,
}

/// A line of `/proc/net/tcp` or `tcp6`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Socket<'a> {
    local: SocketAddr,
    remote: SocketAddr,
    state: &'a str,
    uid: Uid,
    inode: u64,
}

/// All sockets of this host that listen.
pub fn listeners() -> Vec<Listener> {
    let listener = |line: String| {
        let socket = read(&line).filter(|s| s.state == LISTENS)?;
        Some(Listener {
            address: socket.local,
            uid: socket.uid,
            inode: socket.inode,
        })
    };
    lines("/proc/net").filter_map(listener).collect()
}

/// What is in both files of a folder of `/proc`.
fn lines(folder: &str) -> impl Iterator<Item = String> {
    let files = ["tcp", "tcp6"].map(|name| File::open(format!("{folder}/{name}")));
    let read = |file| BufReader::new(file).lines().skip(1).map_while(Result::ok);
    files.into_iter().flatten().flat_map(read)
}

fn read(line: &str) -> Option<Socket<'_>> {
    let words: Vec<&str> = line.split_ascii_whitespace().take(10).collect();
    let [_, local, remote, state, _, _, _, uid, _, inode] = words[..] else {
        return None;
    };
    Some(Socket {
        local: socket_address(local)?,
        remote: socket_address(remote)?,
        state,
        uid: Uid(uid.parse().ok()?),
        inode: inode.parse().ok()?,
    })
}

fn socket_address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    Some(SocketAddr::new(address_of(address)?, u16::from_str_radix(port, 16).ok()?))
}

/// How a process is connected, in the network that it is in: who has connected first, then the
/// process's own end. Blocks.
pub fn of_process(pid: i32) -> Vec<TcpPair> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter();
    let targets = entries
        .flatten()
        .flatten()
        .take(DESCRIPTORS)
        .filter_map(|entry| std::fs::read_link(entry.path()).ok());
    let own: BTreeSet<u64> = targets.filter_map(|to| socket(to.to_str()?)).collect();
    if own.is_empty() {
        return Vec::new();
    }
    let pair = |line: String| {
        let socket = read(&line).filter(|s| s.state == CONNECTED && own.contains(&s.inode))?;
        Some(TcpPair {
            from: socket.remote,
            to: socket.local,
        })
    };
    let mut all: Vec<TcpPair> = lines(&format!("/proc/{pid}/net"))
        .filter_map(pair)
        .collect();
    all.truncate(CONNECTIONS);
    all
}

/// Whether a process of the user with that mark has connected like that. Blocks: see [`of_job`].
pub fn holds(uid: Uid, mark: &str, connection: TcpPair) -> bool {
    let inode = lines("/proc/net").find_map(|line| {
        let socket = read(&line)?;
        let is_it = (socket.local, socket.remote) == (connection.from, connection.to)
            && socket.state == CONNECTED
            && socket.uid == uid;
        is_it.then_some(socket.inode)
    });
    inode.is_some_and(|inode| holders(uid, mark).contains_key(&inode))
}

/// The address, four bytes at a time in the host's order; where it is none, the host's own.
fn address_of(text: &str) -> Option<IpAddr> {
    let word = |at: usize| u32::from_str_radix(text.get(at..at + 8)?, 16).ok();
    match text.len() {
        8 => {
            let address = Ipv4Addr::from(word(0)?.to_ne_bytes());
            let own = address.is_unspecified();
            Some(if own { Ipv4Addr::LOCALHOST } else { address }.into())
        }
        32 => {
            let mut bytes = [0; 16];
            for (at, chunk) in bytes.chunks_exact_mut(4).enumerate() {
                chunk.copy_from_slice(&word(at * 8)?.to_ne_bytes());
            }
            let address = Ipv6Addr::from(bytes);
            let own = address.is_unspecified();
            Some(if own { Ipv6Addr::LOCALHOST } else { address }.to_canonical())
        }
        _ => None,
    }
}

/// The ports on which processes with that mark listen, in order, with their sockets. Blocks: it
/// reads `/proc`, and belongs on a thread of its own.
pub fn of_job(uid: Uid, mark: &str) -> Vec<(JobPort, Listener)> {
    let own: Vec<Listener> = listeners().into_iter().filter(|l| l.uid == uid).collect();
    if own.is_empty() {
        return Vec::new();
    }
    let holders = holders(uid, mark);
    let mut all: Vec<(JobPort, Listener)> = own
        .into_iter()
        .filter_map(|listener| {
            let program = holders.get(&listener.inode)?.clone();
            let port = listener.address.port();
            Some((JobPort { port, program }, listener))
        })
        .collect();
    all.sort_by_key(|(port, listener)| (port.port, listener.address.is_ipv6()));
    all.dedup_by_key(|(port, _)| port.port);
    all.truncate(JOB_PORTS);
    all
}

/// The sockets of the processes with that mark, and what the processes are called.
fn holders(uid: Uid, mark: &str) -> HashMap<u64, String> {
    let variable = format!("{NODE_MARK}={mark}").into_bytes();
    let mut left = DESCRIPTORS;
    let mut all = HashMap::new();
    for pid in all_processes() {
        let is_own = sweep::user_of(pid) == Some(uid.0)
            && (sweep::mark_of(pid).is_some_and(|other| is_of(&other, &variable))
                || is_in_group(pid, mark));
        if !is_own {
            continue;
        }
        let name = std::fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
        let name = String::from_utf8_lossy(&name).trim_end().to_owned();
        let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter();
        for entry in descriptors.flatten().flatten().take(left) {
            left -= 1;
            let target = std::fs::read_link(entry.path()).unwrap_or_default();
            if let Some(inode) = target.to_str().and_then(socket) {
                all.entry(inode).or_insert_with(|| name.clone());
            }
        }
    }
    all
}

/// Whether a process is in a control group of the job, whatever its environment says: these are called
/// like the mark.
fn is_in_group(pid: i32, mark: &str) -> bool {
    let groups = std::fs::read(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    groups
        .split(|b| *b == b'\n')
        .any(|line| is_group(line, mark))
}

/// Source: cgroups(7), `/proc/PID/cgroup`.
fn is_group(line: &[u8], mark: &str) -> bool {
    let inside = format!("/{mark}");
    let mut places = line.windows(inside.len()).enumerate();
    places.any(|(at, found)| {
        let next = line.get(at + inside.len());
        found == inside.as_bytes() && next.is_none_or(|b| *b == b'/')
    })
}

/// Whether a mark is the job's own, or that of one of its steps.
fn is_of(mark: &[u8], job: &[u8]) -> bool {
    mark.strip_prefix(job)
        .is_some_and(|rest| rest.first().is_none_or(|b| *b == b'/'))
}

/// The inode in `socket:[123]`.
fn socket(target: &str) -> Option<u64> {
    let number = target.strip_prefix("socket:[")?.strip_suffix(']')?;
    number.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel() {
        let line = |local: &str, state: &str| {
            format!(
                "   0: {local} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000  1000 \
                 0 4242 1 0000000000000000 100 0 0 10 0"
            )
        };
        let check = |local: &str, want: &str| {
            let line = line(local, "0A");
            let found = read(&line).unwrap();
            assert_eq!(
                (found.local.to_string().as_str(), found.state, found.uid.0, found.inode),
                (want, LISTENS, 1000, 4242)
            );
        };
        check("0100007F:1F90", "127.0.0.1:8080");
        check("00000000:0016", "127.0.0.1:22");
        check("0A01A8C0:1F90", "192.168.1.10:8080");
        check("00000000000000000000000000000000:1F90", "[::1]:8080");
        check("00000000000000000000000001000000:1F90", "[::1]:8080");
        check("0000000000000000FFFF00000100007F:1F90", "127.0.0.1:8080");
        for odd in [
            "",
            "0: x",
            "0100007F:1F90 0A",
            &line("01:1F90", "0A"),
            &line("zz00007F:1", "0A"),
        ] {
            assert_eq!(read(odd), None, "{odd}");
        }
    }

    #[test]
    fn groups_of_a_job() {
        let check = |line: &str, want: bool| {
            assert_eq!(is_group(line.as_bytes(), "cosy-n1-ab/7.1"), want, "{line}");
        };
        check("0::/cosy.slice/cosy-n1-ab/7.1", true);
        check("1:cpu:/cosy-n1-ab/7.1/s.0", true);
        check("0::/cosy-n1-ab/7.12", false);
        check("0::/cosy-n1-ab/17.1", false);
        check("0::/cosy-n1-abc/7.1", false);
        check("0::/", false);
        check("", false);
    }

    #[test]
    fn marks_of_a_job() {
        assert!(is_of(b"M=x/1.1", b"M=x/1.1") && is_of(b"M=x/1.1/s.0", b"M=x/1.1"));
        assert!(!is_of(b"M=x/1.12", b"M=x/1.1") && !is_of(b"M=y/1.1", b"M=x/1.1"));
        assert_eq!((socket("socket:[7]"), socket("pipe:[7]"), socket("/x")), (Some(7), None, None));
    }

    #[test]
    fn a_socket_of_this_process_is_listed() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let own = listeners();
        let address = socket.local_addr().unwrap();
        let found = own.iter().find(|l| l.address == address).unwrap();
        assert_eq!(found.uid, crate::sys::own_uid());
    }

    #[test]
    fn connections_of_this_process_are_told() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let client = std::net::TcpStream::connect(to).unwrap();
        let from = client.local_addr().unwrap();
        let own = std::process::id().cast_signed();
        let (_server, _) = listener.accept().unwrap();
        assert!(of_process(own).contains(&TcpPair { from, to }));
        // It is of no job.
        assert!(!holds(crate::sys::own_uid(), "x/1.1", TcpPair { from, to }));
        assert_eq!(of_process(0), []);
    }
}
