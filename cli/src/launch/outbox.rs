//! Frames that go to the step: kept here until the connection takes them, so that nothing blocks on
//! a connection whose buffer is full.

use cosy_model::step::DownFrame;
use cosy_proto::step::{self, StepFrame};
use rustix::net::SendFlags;
use std::io;
use std::os::unix::net::UnixStream;

/// So many bytes that were sent are forgotten at once.
const FORGET: usize = 1 << 20;

/// Frames that wait to be sent.
#[derive(Debug, Default)]
pub struct Outbox {
    buffer: Vec<u8>,
    sent: usize,
}

impl Outbox {
    /// Nothing waits to be sent.
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts a frame at the end.
    pub fn push(&mut self, down: DownFrame) {
        // Frames from commands are far below the limit.
        let _ = step::put(&mut self.buffer, &StepFrame::Down(down));
    }

    /// True when nothing waits.
    pub const fn is_empty(&self) -> bool {
        self.sent == self.buffer.len()
    }

    /// How many bytes wait.
    pub const fn waiting(&self) -> usize {
        self.buffer.len() - self.sent
    }

    /// What waits.
    #[cfg(test)]
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[self.sent..]
    }

    /// Drops all that waits.
    pub fn clear(&mut self) {
        self.buffer.clear();
        self.sent = 0;
    }

    /// Sends as much as the connection takes without blocking. On a broken connection the frames are
    /// dropped: the error shows itself where the connection is read.
    pub fn send(&mut self, to: &UnixStream) {
        while !self.is_empty() {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match rustix::net::send(to, &self.buffer[self.sent..], flags) {
                Ok(n) => self.sent += n,
                Err(rustix::io::Errno::INTR) => {}
                Err(e) if io::Error::from(e).kind() == io::ErrorKind::WouldBlock => {
                    return self.forget_sent();
                }
                Err(_) => self.sent = self.buffer.len(),
            }
        }
        self.clear();
    }

    /// What is sent takes no memory, also where something always waits.
    fn forget_sent(&mut self) {
        if self.sent >= FORGET {
            self.buffer.drain(..self.sent);
            self.sent = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn a_full_connection_is_not_waited_for() {
        let (mut here, there) = UnixStream::pair().unwrap();
        let mut outbox = Outbox::new();
        for n in 0..100u8 {
            outbox.push(DownFrame::Stdin {
                bytes: vec![n; 50_000],
            });
        }
        outbox.send(&there);
        assert!(!outbox.is_empty());
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            here.read_to_end(&mut all).unwrap();
            all
        });
        while !outbox.is_empty() {
            outbox.send(&there);
            std::thread::yield_now();
        }
        drop(there);
        let all = reader.join().unwrap();
        assert_eq!(all.len(), 100 * (50_000 + step::HEADER));
        let (first, _) = step::first(&all).unwrap().unwrap();
        assert!(matches!(first, StepFrame::Down(DownFrame::Stdin { bytes }) if bytes[0] == 0));
    }

    #[test]
    fn nobody_there() {
        let (here, there) = UnixStream::pair().unwrap();
        drop(here);
        let mut outbox = Outbox::new();
        outbox.push(DownFrame::Kill);
        outbox.send(&there);
        assert!(outbox.is_empty());
    }
}
