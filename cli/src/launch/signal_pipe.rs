//! Signals as bytes on a socket (the self-pipe trick), so that they can be waited for with `poll`
//! together with connections and terminals.

use signal_hook::SigId;
use signal_hook::low_level::{register, unregister};
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;

/// Receives the signals that it was made for, which then no longer end the program.
#[derive(Debug)]
pub struct SignalPipe {
    reader: UnixStream,
    /// Written to by the handlers; closed after they are gone.
    _writer: UnixStream,
    ids: Vec<SigId>,
}

impl SignalPipe {
    /// Receives these signals until it is dropped.
    ///
    /// # Errors
    /// The pipe or a signal handler cannot be made.
    pub fn new(signals: &[i32]) -> io::Result<Self> {
        let (reader, writer) = UnixStream::pair()?;
        reader.set_nonblocking(true)?;
        writer.set_nonblocking(true)?;
        let mut pipe = Self {
            reader,
            _writer: writer,
            ids: Vec::new(),
        };
        let fd = pipe._writer.as_raw_fd();
        for &signal in signals {
            let number = u8::try_from(signal).unwrap_or(0);
            let handler = move || {
                // SAFETY: the descriptor stays open until the handlers are taken away
                // (see `drop`), and nothing else is done here than this one system call.
                let writer = unsafe { BorrowedFd::borrow_raw(fd) };
                let _ = rustix::io::write(writer, &[number]);
            };
            // SAFETY: the handler does one system call and touches no memory but its own.
            let id = unsafe { register(signal, handler) }?;
            pipe.ids.push(id);
        }
        Ok(pipe)
    }

    /// The descriptor to wait on: readable when a signal has come.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }

    /// The signals that have come since the last call, by number; at most 64 at once.
    pub fn take(&mut self) -> Vec<i32> {
        let mut bytes = [0; 64];
        let n = self.reader.read(&mut bytes).unwrap_or(0);
        bytes[..n].iter().map(|b| i32::from(*b)).collect()
    }
}

impl Drop for SignalPipe {
    fn drop(&mut self) {
        for id in &self.ids {
            unregister(*id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Signal, getpid, kill_process};

    #[test]
    fn signals_arrive() {
        let mut signals = SignalPipe::new(&[signal_hook::consts::SIGURG]).unwrap();
        assert!(signals.take().is_empty());
        kill_process(getpid(), Signal::URG).unwrap();
        let mut got = Vec::new();
        while got.is_empty() {
            got = signals.take();
            std::thread::yield_now();
        }
        assert_eq!(got, [signal_hook::consts::SIGURG]);
    }
}
