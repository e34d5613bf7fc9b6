//! Those who look on at a running step: they get what is kept of its output, then
//! everything that comes. Nobody waits for them: one that is too slow is let go.

use super::frame_socket::{FrameSocket, encode};
use super::queue::{Bytes, Queue};
use cosy_model::step::UpFrame;
use cosy_proto::step::{self, StepFrame};
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{BorrowedFd, OwnedFd};

/// Most that is kept of one task's output, and of all, in bytes.
const TAIL: usize = 64 << 10;
const TAILS: usize = 32 << 20;
/// What a kept frame costs beside its bytes.
const OVERHEAD: usize = 64;
/// A watcher that has so many bytes to read yet is too slow.
const SLOW: usize = 4 << 20;
/// Most watchers of a step.
const MOST: usize = 64;

#[derive(Debug, Default)]
struct Tail {
    frames: VecDeque<Bytes>,
    bytes: usize,
}

/// What is kept and who looks on.
#[derive(Debug)]
pub struct Watchers {
    each: usize,
    tails: BTreeMap<u32, Tail>,
    /// Ends of tasks and nodes so far.
    ends: Vec<Bytes>,
    watching: Vec<FrameSocket>,
}

impl Watchers {
    /// For a step of so many tasks.
    pub fn new(tasks: u32) -> Self {
        Self {
            each: TAIL.min(TAILS / tasks.max(1) as usize),
            tails: BTreeMap::new(),
            ends: Vec::new(),
            watching: Vec::new(),
        }
    }

    /// A further one; nothing happens when there are too many.
    pub fn add(&mut self, socket: OwnedFd) {
        let mut way = FrameSocket::new(Queue::plain());
        if self.watching.len() >= MOST || way.connect(socket, Vec::new()).is_err() {
            return;
        }
        let kept = self.tails.values().flat_map(|t| &t.frames);
        for frame in kept.chain(&self.ends) {
            way.queue.push(frame.clone());
        }
        way.flush();
        self.watching.push(way);
    }

    /// A frame of output.
    pub fn output(&mut self, frame: &Bytes) {
        self.send(frame);
        let body = frame.get(step::HEADER..).unwrap_or_default();
        let Ok((rank, stream, bytes)) = step::output(body) else {
            return;
        };
        let kept = match bytes.len() > self.each {
            true => {
                let mut cut = Vec::with_capacity(self.each + 10);
                step::put_output(&mut cut, rank, stream, &bytes[bytes.len() - self.each..]);
                Bytes::new(cut)
            }
            false => frame.clone(),
        };
        let tail = self.tails.entry(rank).or_default();
        tail.bytes += kept.len() + OVERHEAD;
        tail.frames.push_back(kept);
        while tail.bytes > self.each + step::HEADER + OVERHEAD + 5 {
            let Some(oldest) = tail.frames.pop_front() else {
                break;
            };
            tail.bytes -= oldest.len() + OVERHEAD;
        }
    }

    /// A task, a node, or all hope of it has ended.
    pub fn end(&mut self, up: &UpFrame) {
        if let Some(frame) = encode(&StepFrame::Up(up.clone())) {
            self.send(&frame);
            self.ends.push(frame);
        }
    }

    fn send(&mut self, frame: &Bytes) {
        for way in &mut self.watching {
            way.queue.push(frame.clone());
        }
    }

    /// Writes what can be written; lets those go who left or are too slow.
    pub fn flush(&mut self) {
        for way in &mut self.watching {
            way.flush();
        }
        self.watching
            .retain(|way| way.is_connected() && way.queue.waiting() <= SLOW);
    }

    /// Nobody has anything to read yet.
    pub fn is_flushed(&self) -> bool {
        self.watching.iter().all(|way| way.queue.is_empty())
    }

    /// The descriptor of each, and whether something is to be written.
    pub fn fds(&self) -> impl Iterator<Item = (usize, BorrowedFd<'_>, bool)> {
        let ways = self.watching.iter().enumerate();
        ways.filter_map(|(at, way)| Some((at, way.fd()?, way.queue.wants_to_write())))
    }

    /// One said something or left. What they say is nobody's business.
    pub fn hear(&mut self, at: usize, buffer: &mut [u8]) {
        if let Some(way) = self.watching.get_mut(at) {
            way.fill(buffer);
            if way.is_connected() {
                way.forget_incoming();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::step::Stream;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    fn output(rank: u32, bytes: &[u8]) -> Bytes {
        let mut frame = Vec::new();
        step::put_output(&mut frame, rank, Stream::Output, bytes);
        Bytes::new(frame)
    }

    #[test]
    fn the_last_of_each_task_is_kept() {
        let mut watchers = Watchers::new(2);
        for number in 0..1000u32 {
            watchers.output(&output(0, &number.to_le_bytes().repeat(100)));
        }
        watchers.output(&output(1, &vec![b'x'; 200_000]));
        let (here, mut there) = UnixStream::pair().unwrap();
        there.set_nonblocking(true).unwrap();
        watchers.add(here.into());
        let mut got = Vec::new();
        while !watchers.is_flushed() {
            watchers.flush();
            let _ = there.read_to_end(&mut got);
        }
        let _ = there.read_to_end(&mut got);
        let (mut rest, mut of) = (&got[..], [Vec::new(), Vec::new()]);
        while let Some((StepFrame::Up(UpFrame::Output { rank, bytes, .. }), length)) =
            step::first(rest).unwrap()
        {
            of[rank as usize].extend(bytes);
            rest = &rest[length..];
        }
        assert_eq!(of[1], vec![b'x'; TAIL]);
        assert!(of[0].len() <= TAIL && of[0].len() > TAIL / 2);
        assert!(of[0].ends_with(&999u32.to_le_bytes()));
    }

    #[test]
    fn a_slow_one_is_let_go() {
        let mut watchers = Watchers::new(1);
        let (here, there) = UnixStream::pair().unwrap();
        watchers.add(here.into());
        for _ in 0..100 {
            watchers.output(&output(0, &[0; 100_000]));
            watchers.flush();
        }
        assert_eq!(watchers.fds().count(), 0);
        drop(there);
    }
}
