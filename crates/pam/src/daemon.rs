//! One question to the node's daemon, and its answer.

use crate::answer::{self, Answer};
use crate::options::OfSeveral;
use libc::{c_int, c_void, socklen_t};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// For all of it.
const PATIENCE: Duration = Duration::from_secs(2);
/// Bytes that are read at once.
const PIECE: usize = 4096;

/// Asks whether a user may in: this process is part of the job then.
///
/// # Errors
/// In one line, why there is no answer.
pub fn ask(socket: &str, uid: u32, of_several: OfSeveral) -> Result<Answer, String> {
    let word = match of_several {
        OfSeveral::Newest => "newest",
        OfSeveral::Allow | OfSeveral::Deny => "tell",
    };
    let question = format!("login 1 {uid} {word}\n");
    let until = Instant::now() + PATIENCE;
    let failed = |e: io::Error| format!("{socket}: {e}");
    let stream = connect(socket, until).map_err(failed)?;
    if user_of(&stream).map_err(failed)? != 0 {
        return Err(format!("{socket}: it is not root who listens"));
    }
    say(&stream, question.as_bytes(), until).map_err(failed)?;
    let bytes = hear(&stream, until).map_err(failed)?;
    Answer::read(&bytes).ok_or_else(|| format!("{socket}: what is answered is no answer"))
}

fn connect(path: &str, until: Instant) -> io::Result<OwnedFd> {
    // SAFETY: the call takes numbers only.
    let fd = unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made it, and nobody else has it.
    let stream = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: an address is plain data, and all of it may be zero.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    if path.len() >= address.sun_path.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (place, byte) in address.sun_path.iter_mut().zip(path.bytes()) {
        *place = byte as libc::c_char;
    }
    retried(until, || {
        wait_at_most(&stream, libc::SO_SNDTIMEO, until)?;
        let length = size_of::<libc::sockaddr_un>() as socklen_t;
        let address = (&raw const address).cast();
        // SAFETY: the address is a live variable of that length.
        let done = unsafe { libc::connect(stream.as_raw_fd(), address, length) };
        count(done as isize).map(drop)
    })?;
    Ok(stream)
}

/// Who listens, as the kernel says.
fn user_of(stream: &OwnedFd) -> io::Result<u32> {
    let mut who = libc::ucred {
        pid: 0,
        uid: u32::MAX,
        gid: u32::MAX,
    };
    let mut length = size_of::<libc::ucred>() as socklen_t;
    let place = (&raw mut who).cast();
    // SAFETY: both pointers are to live variables, of that length.
    let done = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            place,
            &raw mut length,
        )
    };
    count(done as isize).map(|_| who.uid)
}

fn say(stream: &OwnedFd, bytes: &[u8], until: Instant) -> io::Result<()> {
    let mut left = bytes;
    while !left.is_empty() {
        let sent = retried(until, || {
            wait_at_most(stream, libc::SO_SNDTIMEO, until)?;
            let (place, length) = (left.as_ptr().cast::<c_void>(), left.len());
            // SAFETY: the bytes are live and of that length.
            count(unsafe { libc::send(stream.as_raw_fd(), place, length, libc::MSG_NOSIGNAL) })
        })?;
        left = left.get(sent..).unwrap_or_default();
    }
    Ok(())
}

/// Until it is whole, or the other side has nothing more to say.
fn hear(stream: &OwnedFd, until: Instant) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    while !answer::is_whole(&all) {
        let mut piece = [0u8; PIECE];
        let got = retried(until, || {
            wait_at_most(stream, libc::SO_RCVTIMEO, until)?;
            let place = piece.as_mut_ptr().cast::<c_void>();
            // SAFETY: the buffer is live and of that length.
            count(unsafe { libc::recv(stream.as_raw_fd(), place, PIECE, 0) })
        })?;
        all.extend(piece.get(..got).unwrap_or_default());
        if got == 0 || all.len() > answer::BYTES {
            break;
        }
    }
    Ok(all)
}

/// The next call waits no longer than until then.
fn wait_at_most(stream: &OwnedFd, which: c_int, until: Instant) -> io::Result<()> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    // Nothing at all would be for ever.
    let time = libc::timeval {
        tv_sec: left.as_secs() as libc::time_t,
        tv_usec: left.subsec_micros().max(1) as libc::suseconds_t,
    };
    let length = size_of::<libc::timeval>() as socklen_t;
    let place = (&raw const time).cast();
    // SAFETY: the value is a live variable of that length.
    let done =
        unsafe { libc::setsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, which, place, length) };
    count(done as isize).map(drop)
}

/// Signals are the program's, and go on.
fn retried<T>(until: Instant, mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(e) if e.kind() == io::ErrorKind::Interrupted && Instant::now() < until => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                let text = format!("no answer within {} s", PATIENCE.as_secs());
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
            other => return other,
        }
    }
}

fn count(done: isize) -> io::Result<usize> {
    usize::try_from(done).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixListener;

    /// Asks somebody who does that with the connection.
    fn ask_one(work: impl FnOnce(std::os::unix::net::UnixStream) + Send) -> Result<Answer, String> {
        let dir = std::env::temp_dir().join(format!(
            "cosy-pam-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        ));
        let _ = std::fs::remove_file(&dir);
        let listener = UnixListener::bind(&dir).unwrap();
        let answer = std::thread::scope(|scope| {
            scope.spawn(|| work(listener.accept().unwrap().0));
            ask(dir.to_str().unwrap(), 1000, OfSeveral::Newest)
        });
        std::fs::remove_file(&dir).unwrap();
        answer
    }

    fn is_root() -> bool {
        // SAFETY: it takes nothing and cannot fail.
        unsafe { libc::geteuid() == 0 }
    }

    #[test]
    fn an_answer() {
        let answer = ask_one(|mut stream| {
            let mut question = [0; 20];
            let got = stream.read(&mut question).unwrap();
            assert!(!is_root() || question[..got] == *b"login 1 1000 newest\n");
            let _ = stream.write_all(b"none n1\nend\n");
        });
        match is_root() {
            true => assert_eq!(answer, Ok(Answer::NoJobs("n1".into()))),
            // Only root is believed.
            false => assert!(answer.unwrap_err().ends_with("not root who listens")),
        }
    }

    #[test]
    fn no_answer() {
        let check = |bytes: &'static [u8]| {
            let answer = ask_one(move |mut stream| {
                let _ = stream.write_all(bytes);
            });
            answer.unwrap_err();
        };
        check(b"");
        check(b"\0\xff garbage");
        check(b"adopted 1\n");
        let endless = ask_one(|mut stream| while stream.write_all(&[b'x'; 1000]).is_ok() {});
        endless.unwrap_err();
        ask("/nowhere/at/all", 1, OfSeveral::Deny).unwrap_err();
        ask(&format!("/{}", "x".repeat(200)), 1, OfSeveral::Deny).unwrap_err();
    }
}
