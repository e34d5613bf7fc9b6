//! What waits to be written to one connection of the tree, and on a hop also what was
//! written and not yet acknowledged, so that a hop that broke goes on where it was.
//!
//! Pure: knows nothing of descriptors. Always holds: over any number of connections the
//! other end gets every frame once and in order, as long as it acknowledges no more than
//! it got; a frame that was begun is ended before anything else is written.
//!
//! ```text
//!   acknowledged | written | being written | to be written
//!   (forgotten)  ^ front                ^ next
//! ```

use cosy_proto::step::{self, Link, StepFrame};
use std::collections::VecDeque;
use std::io::IoSlice;
use std::rc::Rc;

/// A frame with its header, shared by all connections that it goes to.
pub type Bytes = Rc<Vec<u8>>;

/// What a frame costs beside its bytes.
const OVERHEAD: usize = 64;
/// Most pieces in one write.
const PIECES: usize = 64;
/// After so many bytes received they are acknowledged.
const ACKNOWLEDGE: usize = 64 << 10;

/// The other end said something about frames that cannot be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{acknowledged} frames were acknowledged of {sent} that were sent since {kept}")]
pub struct BadLink {
    acknowledged: u64,
    sent: u64,
    kept: u64,
}

/// One direction out, and the count of what came in.
#[derive(Debug, Default)]
pub struct Queue {
    frames: VecDeque<Bytes>,
    bytes: usize,
    /// Numbered: a hop, whose frames are kept until they are acknowledged.
    numbered: bool,
    /// Number of the front frame.
    front: u64,
    /// Place of the next frame to write, and how much of it was written.
    next: usize,
    offset: usize,
    /// Frames about the hop itself, and how much of them was written.
    links: Vec<u8>,
    links_offset: usize,
    /// A frame was ever written: on a new connection the other end speaks first.
    ever_written: bool,
    /// Nothing but links may be written until the other end says what it has.
    hold: bool,
    received: u64,
    unacknowledged: usize,
}

impl Queue {
    /// For a connection that ends for good when it ends.
    pub fn plain() -> Self {
        Self::default()
    }

    /// For a hop.
    pub fn numbered() -> Self {
        Self {
            numbered: true,
            ..Self::default()
        }
    }

    /// Appends a frame.
    pub fn push(&mut self, frame: Bytes) {
        self.bytes += frame.len() + OVERHEAD;
        self.frames.push_back(frame);
    }

    /// Bytes that are kept, written or not.
    pub fn waiting(&self) -> usize {
        self.bytes
    }

    /// Nothing is to be written and nothing waits for acknowledgement.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty() && self.links.is_empty()
    }

    /// Something can be written now.
    pub fn wants_to_write(&self) -> bool {
        !self.links.is_empty() || (!self.hold && self.next < self.frames.len())
    }

    /// Drops everything: nobody will read it.
    pub fn clear(&mut self) {
        *self = Self {
            numbered: self.numbered,
            ..Self::default()
        };
    }

    /// A new connection: on a hop both ends first say what they have received.
    pub fn connected(&mut self) {
        (self.offset, self.links_offset) = (0, 0);
        self.links.clear();
        if self.numbered {
            self.hold = self.ever_written;
            self.next = 0;
            self.link(Link::Resume(self.received));
            self.unacknowledged = 0;
        }
    }

    fn link(&mut self, link: Link) {
        // A number in a map never passes the limit of a frame.
        let _ = step::put(&mut self.links, &StepFrame::Link(link));
    }

    /// The other end said something about the hop.
    ///
    /// # Errors
    /// It was told of frames that it cannot have.
    pub fn heard(&mut self, link: Link) -> Result<(), BadLink> {
        match link {
            Link::Received(count) => self.acknowledged(count),
            Link::Resume(count) if self.hold => {
                // What was written on earlier connections may have been lost.
                self.next = self.frames.len();
                let result = self.acknowledged(count);
                self.next = 0;
                self.hold = result.is_err();
                result
            }
            Link::Resume(count) => self.acknowledged(count),
        }
    }

    fn acknowledged(&mut self, count: u64) -> Result<(), BadLink> {
        let sent = self.front + self.next as u64;
        if !self.numbered || count < self.front || count > sent {
            return Err(BadLink {
                acknowledged: count,
                sent,
                kept: self.front,
            });
        }
        while self.front < count {
            self.pop();
        }
        Ok(())
    }

    fn pop(&mut self) {
        if let Some(frame) = self.frames.pop_front() {
            self.bytes -= frame.len() + OVERHEAD;
            self.front += 1;
            self.next = self.next.saturating_sub(1);
        }
    }

    /// A frame came in, of so many bytes with its header.
    pub fn received(&mut self, bytes: usize) {
        if self.numbered {
            self.received += 1;
            self.unacknowledged += bytes;
            if self.unacknowledged >= ACKNOWLEDGE {
                self.acknowledge();
            }
        }
    }

    /// Says now what was received.
    pub fn acknowledge(&mut self) {
        if self.numbered && self.unacknowledged > 0 {
            self.unacknowledged = 0;
            self.link(Link::Received(self.received));
        }
    }

    /// What to write next, in order.
    pub fn pieces(&self) -> Vec<IoSlice<'_>> {
        let mut pieces = Vec::with_capacity(8);
        let mut from = self.next;
        let frames = if self.hold { 0 } else { self.frames.len() };
        if self.offset > 0
            && let Some(frame) = self.frames.get(from)
        {
            pieces.push(IoSlice::new(&frame[self.offset..]));
            from += 1;
        }
        if !self.links.is_empty() {
            pieces.push(IoSlice::new(&self.links[self.links_offset..]));
        }
        let room = PIECES - pieces.len();
        let rest = (from..frames).take(room).filter_map(|n| self.frames.get(n));
        pieces.extend(rest.map(|f| IoSlice::new(f)));
        pieces
    }

    /// Notes that `count` bytes of [`Self::pieces`] were written.
    pub fn written(&mut self, mut count: usize) {
        if self.offset > 0 {
            count = self.frame_written(count);
        }
        let links = count.min(self.links.len() - self.links_offset);
        self.links_offset += links;
        count -= links;
        if self.links_offset == self.links.len() {
            self.links.clear();
            self.links_offset = 0;
        }
        while count > 0 && self.next < self.frames.len() {
            count = self.frame_written(count);
        }
    }

    /// Books that `count` bytes of the next frame and the frames after it were written. Gives
    /// how many of them belong to the frames after it.
    fn frame_written(&mut self, count: usize) -> usize {
        let Some(frame) = self.frames.get(self.next) else {
            return 0;
        };
        self.ever_written = true;
        let left = frame.len() - self.offset;
        if count < left {
            self.offset += count;
            return 0;
        }
        self.offset = 0;
        self.next += 1;
        if !self.numbered {
            self.pop();
        }
        count - left
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::step::{DownFrame, UpFrame};
    use proptest::prelude::*;

    fn frame(number: u32, size: usize) -> Bytes {
        let mut bytes = Vec::new();
        step::put_output(&mut bytes, number, cosy_model::step::Stream::Output, &vec![7; size]);
        Rc::new(bytes)
    }

    fn to_write(queue: &Queue) -> Vec<u8> {
        queue.pieces().iter().flat_map(|p| p.to_vec()).collect()
    }

    /// One end: its queue, what it has read of a frame, and the frames that it got.
    #[derive(Default)]
    struct EndPoint {
        queue: Queue,
        partial: Vec<u8>,
        got: Vec<u32>,
    }

    impl EndPoint {
        fn new() -> Self {
            Self {
                queue: Queue::numbered(),
                ..Self::default()
            }
        }

        fn connect(&mut self) {
            self.partial.clear();
            self.queue.connected();
        }

        fn write(&mut self, most: usize) -> Vec<u8> {
            let mut bytes = to_write(&self.queue);
            bytes.truncate(most);
            self.queue.written(bytes.len());
            bytes
        }

        fn read(&mut self, bytes: &[u8]) {
            self.partial.extend_from_slice(bytes);
            while let Some((frame, length)) = step::first(&self.partial).unwrap() {
                self.partial.drain(..length);
                match frame {
                    StepFrame::Link(link) => self.queue.heard(link).unwrap(),
                    StepFrame::Up(UpFrame::Output { rank, .. }) => {
                        self.got.push(rank);
                        self.queue.received(length);
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
    }

    impl EndPoint {
        fn drain(&mut self) -> Vec<u8> {
            let mut all = Vec::new();
            while self.queue.wants_to_write() {
                all.extend(self.write(usize::MAX));
            }
            all
        }
    }

    #[derive(Clone, Debug)]
    enum Move {
        Push { up: bool, size: usize },
        Carry { up: bool, most: usize },
        Acknowledge { up: bool },
        Break { lost_up: usize, lost_down: usize },
    }

    fn moves() -> impl Strategy<Value = Move> {
        prop_oneof![
            4 => (any::<bool>(), 0usize..100_000).prop_map(|(up, size)| Move::Push { up, size }),
            6 => (any::<bool>(), 1usize..150_000).prop_map(|(up, most)| Move::Carry { up, most }),
            1 => any::<bool>().prop_map(|up| Move::Acknowledge { up }),
            1 => (0usize..200_000, 0usize..200_000)
                .prop_map(|(lost_up, lost_down)| Move::Break { lost_up, lost_down }),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        /// Whatever breaks whenever, and whatever a link had taken and then lost.
        #[test]
        fn nothing_is_lost_or_doubled(moves in proptest::collection::vec(moves(), 0..60)) {
            let (mut a, mut b) = (EndPoint::new(), EndPoint::new());
            let (mut sent_a, mut sent_b) = (0, 0);
            for end in [&mut a, &mut b] {
                end.connect();
            }
            for one in moves {
                match one {
                    Move::Push { up: true, size } => { a.queue.push(frame(sent_a, size)); sent_a += 1; }
                    Move::Push { up: false, size } => { b.queue.push(frame(sent_b, size)); sent_b += 1; }
                    Move::Carry { up: true, most } => { let bytes = a.write(most); b.read(&bytes); }
                    Move::Carry { up: false, most } => { let bytes = b.write(most); a.read(&bytes); }
                    Move::Acknowledge { up: true } => a.queue.acknowledge(),
                    Move::Acknowledge { up: false } => b.queue.acknowledge(),
                    Move::Break { lost_up, lost_down } => {
                        a.write(lost_up);
                        b.write(lost_down);
                        a.connect();
                        b.connect();
                    }
                }
            }
            for _ in 0..4 {
                a.queue.acknowledge();
                b.queue.acknowledge();
                let (up, down) = (a.drain(), b.drain());
                b.read(&up);
                a.read(&down);
            }
            prop_assert_eq!(b.got, (0..sent_a).collect::<Vec<_>>());
            prop_assert_eq!(a.got, (0..sent_b).collect::<Vec<_>>());
            prop_assert!(a.queue.is_empty() && b.queue.is_empty());
            prop_assert_eq!(a.queue.waiting(), 0);
        }
    }

    #[test]
    fn a_plain_queue_keeps_nothing() {
        let mut queue = Queue::plain();
        queue.connected();
        queue.push(frame(0, 10));
        queue.push(frame(1, 10));
        let all = to_write(&queue);
        queue.written(7);
        assert_eq!(to_write(&queue), all[7..]);
        queue.written(all.len() - 7);
        assert!(queue.is_empty() && queue.waiting() == 0);
    }

    #[test]
    fn acknowledging_what_was_not_sent_is_an_error() {
        let check = |sent: u32, link: Link, good: bool| {
            let mut queue = Queue::numbered();
            queue.connected();
            queue.written(to_write(&queue).len());
            for n in 0..sent {
                queue.push(frame(n, 1));
            }
            queue.written(to_write(&queue).len());
            assert_eq!(queue.heard(link).is_ok(), good, "{sent} {link:?}");
        };
        check(0, Link::Resume(0), true);
        check(0, Link::Resume(1), false);
        check(3, Link::Received(3), true);
        check(3, Link::Received(4), false);
        check(3, Link::Resume(2), true);
        let mut plain = Queue::plain();
        assert!(plain.heard(Link::Received(0)).is_err());
        let mut bytes = Vec::new();
        step::put(&mut bytes, &StepFrame::Down(DownFrame::Kill)).unwrap();
        plain.push(Rc::new(bytes));
        assert!(plain.heard(Link::Received(1)).is_err());
    }
}
