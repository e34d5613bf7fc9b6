//! X clients of a step, and their connections to the real display. Never waits.
//!
//! A client is connected to the display when it has shown the cookie of the step, and gets to know
//! no other. Always holds: there are at most [`limits::DISPLAY_CONNECTIONS`] clients, and of each at
//! most [`limits::DISPLAY_WINDOW`] bytes in each direction; a node that says more loses its client,
//! and all of them when it does not even read.

use super::real::RealDisplay;
use crate::launch::outbox::Outbox;
use crate::launch::tty::say;
use cosy_model::step::{DisplayEvent, DisplayFrame, DisplayRequest, DownFrame, StepLayout};
use cosy_model::{OsText, limits};
use cosy_proto::x11::setup;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::SendFlags;
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// While so many bytes wait to go to the step, the display is not read.
const WAITING: usize = 1 << 20;
/// More never wait where nodes read what they are sent.
const FLOOD: usize = limits::DISPLAY_CONNECTIONS * limits::DISPLAY_WINDOW * 2;
/// So many bytes that were written are told at once.
const TELL: usize = limits::DISPLAY_WINDOW / 4;
/// How long the display may take what was drawn last, after the end of the step.
const LAST: Duration = Duration::from_secs(2);

/// Frames of nodes about clients, on their way from one thread to the other.
#[derive(Debug, Default)]
pub struct ClientFrames {
    frames: Vec<DisplayFrame>,
    bytes: usize,
    /// Nodes said more than they may.
    flooded: bool,
    /// Numbers of nodes from which nothing more comes.
    over: Vec<u32>,
}

impl ClientFrames {
    /// Adds one. More than nodes may say is dropped, and that is the end of all clients.
    pub fn push(&mut self, frame: DisplayFrame) {
        let bytes = match &frame.event {
            DisplayEvent::Bytes(bytes) => bytes.0.len(),
            DisplayEvent::Opened | DisplayEvent::Taken(_) | DisplayEvent::Closed => 0,
        };
        let all = self.bytes.saturating_add(bytes + size_of::<DisplayFrame>());
        self.flooded |= all > FLOOD;
        if !self.flooded {
            self.bytes = all;
            self.frames.push(frame);
        }
    }

    /// Nothing more comes from a node: its clients are gone.
    pub fn node_is_over(&mut self, node: u32) {
        self.over.push(node);
    }

    fn take(&mut self) -> Vec<DisplayFrame> {
        self.bytes = 0;
        std::mem::take(&mut self.frames)
    }
}

#[derive(Debug)]
struct Client {
    /// The connection to the display, when the client has shown the cookie.
    display: Option<OwnedFd>,
    /// What goes to the display; before that what the client has said.
    out: VecDeque<u8>,
    /// How many of the next bytes are ours and not the client's: the cookie that was exchanged.
    ours: usize,
    /// Bytes of the client that were written and not yet told.
    untold: usize,
    /// Bytes that may still be read from the display: so many the node has room for.
    room: usize,
    /// The client has gone: the display is closed when it has the rest.
    closing: bool,
    since: Instant,
}

/// All clients of a step.
pub struct Clients {
    program: String,
    real: RealDisplay,
    request: DisplayRequest,
    nodes: Vec<String>,
    clients: BTreeMap<(u32, u32), Client>,
    /// One refusal is reported; whoever else can reach the port on the node could make many.
    reported: bool,
    /// A node does not keep to what was agreed: nobody is listened to any more.
    over: bool,
}

impl Clients {
    /// Nobody has come yet.
    pub fn new(
        program: &str,
        real: RealDisplay,
        request: DisplayRequest,
        layout: &StepLayout,
    ) -> Self {
        Self {
            program: program.to_owned(),
            real,
            request,
            nodes: layout.nodes_with_tasks().to_vec(),
            clients: BTreeMap::new(),
            reported: false,
            over: false,
        }
    }

    /// What to wait for.
    pub fn fds(&self, outbox: &Outbox) -> Vec<PollFd<'_>> {
        let reads = outbox.waiting() < WAITING;
        let clients = self.clients.values();
        clients
            .filter_map(|client| {
                let display = client.display.as_ref()?;
                let mut flags = PollFlags::empty();
                flags.set(PollFlags::IN, reads && client.room > 0 && !client.closing);
                flags.set(PollFlags::OUT, !client.out.is_empty());
                let fd = PollFd::from_borrowed_fd(display.as_fd(), flags);
                (!flags.is_empty()).then_some(fd)
            })
            .collect()
    }

    /// When a client must have shown its cookie.
    pub fn deadline(&self) -> Option<Instant> {
        let waiting = self.clients.values().filter(|c| c.display.is_none());
        waiting.map(|c| c.since + limits::DISPLAY_SETUP).min()
    }

    /// Does all that can be done without waiting.
    pub fn advance(&mut self, came: &mut ClientFrames, outbox: &mut Outbox) {
        for frame in came.take() {
            self.hear(frame, outbox);
        }
        for node in std::mem::take(&mut came.over) {
            let of_it = self.clients.range_mut((node, 0)..=(node, u32::MAX));
            of_it.for_each(|(_, client)| client.close());
        }
        let now = Instant::now();
        let late = self.clients.iter().filter(|(_, client)| {
            client.display.is_none() && now >= client.since + limits::DISPLAY_SETUP
        });
        let late: Vec<(u32, u32)> = late.map(|(key, _)| *key).collect();
        for key in late {
            self.refuse(key, "it has shown no cookie in time", outbox);
        }
        let keys: Vec<(u32, u32)> = self.clients.keys().copied().collect();
        for key in keys {
            if !self.write(key, outbox) || !self.read(key, outbox) {
                self.clients.remove(&key);
                tell(key, DisplayEvent::Closed, outbox);
            }
        }
        self.clients.retain(|_, c| !c.closing || !c.out.is_empty());
        if (came.flooded || outbox.waiting() > FLOOD) && !self.over {
            self.over = true;
            self.clients.clear();
            let text =
                "a node says more than it may, or reads nothing: windows are no longer shown";
            say(&self.program, text);
        }
    }

    fn hear(&mut self, frame: DisplayFrame, outbox: &mut Outbox) {
        if self.over || !self.request.is_for(frame.node, self.nodes.len()) {
            return;
        }
        let key = (frame.node, frame.connection);
        match frame.event {
            DisplayEvent::Opened if self.clients.contains_key(&key) => {}
            DisplayEvent::Opened if self.clients.len() >= limits::DISPLAY_CONNECTIONS => {
                tell(key, DisplayEvent::Closed, outbox);
            }
            DisplayEvent::Opened => drop(self.clients.insert(key, Client::new())),
            DisplayEvent::Bytes(bytes) => self.said(key, &bytes.0, outbox),
            DisplayEvent::Taken(count) => {
                if let Some(client) = self.clients.get_mut(&key) {
                    let room = client.room.saturating_add(count as usize);
                    client.room = room.min(limits::DISPLAY_WINDOW);
                }
            }
            DisplayEvent::Closed => {
                if let Some(client) = self.clients.get_mut(&key) {
                    client.close();
                }
            }
        }
    }

    /// A client has said something: to us as long as it has not shown the cookie.
    fn said(&mut self, key: (u32, u32), bytes: &[u8], outbox: &mut Outbox) {
        let Some(client) = self.clients.get_mut(&key) else {
            return;
        };
        if client.out.len().saturating_add(bytes.len()) > 2 * limits::DISPLAY_WINDOW {
            self.clients.remove(&key);
            return tell(key, DisplayEvent::Closed, outbox);
        }
        client.out.extend(bytes);
        if client.display.is_some() {
            return;
        }
        let real = self.real.cookie.as_deref();
        match setup::exchange(client.out.make_contiguous(), &self.request.cookie.0, real) {
            Ok(None) => {}
            Ok(Some((length, words))) => match self.real.connect() {
                Ok(display) => client.let_in(display, length, &words),
                Err(e) => {
                    let why = format!("cannot connect to the display '{}': {e}", self.real.name);
                    self.refuse(key, &why, outbox);
                }
            },
            Err(e) => self.refuse(key, &e.to_string(), outbox),
        }
    }

    fn refuse(&mut self, key: (u32, u32), why: &str, outbox: &mut Outbox) {
        let Some(mut client) = self.clients.remove(&key) else {
            return;
        };
        let words = setup::refusal(client.out.make_contiguous(), why);
        if !words.is_empty() {
            tell(key, DisplayEvent::Bytes(OsText(words)), outbox);
        }
        tell(key, DisplayEvent::Closed, outbox);
        if !std::mem::replace(&mut self.reported, true) {
            let node = self.nodes.get(key.0 as usize).map_or("?", |name| name);
            say(&self.program, &format!("an X client on {node} was refused: {why}"));
        }
    }

    /// Writes what the display takes; false when it has closed.
    fn write(&mut self, key: (u32, u32), outbox: &mut Outbox) -> bool {
        let Some(client) = self.clients.get_mut(&key) else {
            return true;
        };
        let open = client.write();
        if client.untold >= TELL && open {
            let count = u32::try_from(client.untold).unwrap_or(u32::MAX);
            client.untold = 0;
            tell(key, DisplayEvent::Taken(count), outbox);
        }
        open
    }

    /// Reads what the display says, as long as the node has room; false when it has closed.
    fn read(&mut self, key: (u32, u32), outbox: &mut Outbox) -> bool {
        let Some(client) = self.clients.get_mut(&key) else {
            return true;
        };
        while let Some(display) = client.display.as_ref().filter(|_| !client.closing)
            && client.room > 0
            && outbox.waiting() < WAITING
        {
            let mut bytes = vec![0; client.room.min(limits::DISPLAY_CHUNK)];
            match rustix::io::read(display, &mut bytes[..]) {
                Ok(0) => return false,
                Ok(count) => {
                    client.room -= count;
                    bytes.truncate(count);
                    tell(key, DisplayEvent::Bytes(OsText(bytes)), outbox);
                }
                Err(Errno::INTR) => {}
                Err(e) => return matches!(e, Errno::AGAIN | Errno::NOTCONN),
            }
        }
        true
    }

    /// The step is over: what its programs have drawn last is still shown.
    pub fn finish(&mut self, came: &mut ClientFrames) {
        let until = Instant::now() + LAST;
        // Nobody takes it any more.
        let mut outbox = Outbox::new();
        loop {
            self.advance(came, &mut outbox);
            outbox.clear();
            let wait = until.saturating_duration_since(Instant::now());
            self.clients
                .retain(|_, c| c.display.is_some() && !c.out.is_empty());
            if self.clients.is_empty() || wait.is_zero() {
                return;
            }
            let mut fds: Vec<PollFd<'_>> =
                self.clients.values().filter_map(Client::writes).collect();
            let _ = poll(&mut fds, Timespec::try_from(wait).ok().as_ref());
        }
    }
}

fn tell((node, connection): (u32, u32), event: DisplayEvent, outbox: &mut Outbox) {
    outbox.push(DownFrame::Display(DisplayFrame {
        node,
        connection,
        event,
    }));
}

impl Client {
    fn new() -> Self {
        Self {
            display: None,
            out: VecDeque::new(),
            ours: 0,
            untold: 0,
            room: limits::DISPLAY_WINDOW,
            closing: false,
            since: Instant::now(),
        }
    }

    /// It has gone: the display gets the rest, where it was let in.
    fn close(&mut self) {
        self.closing = true;
        if self.display.is_none() {
            self.out.clear();
        }
    }

    /// It has shown the cookie in its first `length` bytes: `words` go to the display instead.
    fn let_in(&mut self, display: OwnedFd, length: usize, words: &[u8]) {
        let rest = self.out.split_off(length);
        self.out = words.iter().copied().chain(rest).collect();
        (self.ours, self.untold) = (words.len(), length);
        self.display = Some(display);
    }

    /// Writes what the display takes; false when it has closed.
    fn write(&mut self) -> bool {
        while let Some(display) = self.display.as_ref().filter(|_| !self.out.is_empty()) {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match rustix::net::send(display, self.out.as_slices().0, flags) {
                Ok(count) => {
                    self.out.drain(..count);
                    let of_client = count.saturating_sub(self.ours);
                    self.ours = self.ours.saturating_sub(count);
                    self.untold += of_client;
                }
                Err(Errno::INTR) => {}
                Err(e) => return matches!(e, Errno::AGAIN | Errno::INPROGRESS),
            }
        }
        true
    }

    fn writes(&self) -> Option<PollFd<'_>> {
        let display = self.display.as_ref()?;
        Some(PollFd::from_borrowed_fd(display.as_fd(), PollFlags::OUT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::step::{DisplayNodes, RankRun};
    use cosy_proto::step::{self, StepFrame};
    use cosy_proto::x11::MAGIC_COOKIE;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixListener;

    const OWN: [u8; 16] = *b"of the step only";
    const REAL: &[u8] = b"the real one";

    /// Clients of a step on two nodes, the first of which has a display, and that display.
    struct World {
        clients: Clients,
        came: ClientFrames,
        display: UnixListener,
        _folder: tempfile::TempDir,
    }

    impl World {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("X0");
            let run = RankRun {
                first: 0,
                count: 1,
                stride: 1,
            };
            let layout = StepLayout {
                nodes: vec!["n1".into(), "n2".into()],
                ranks: vec![vec![run], vec![run]],
                tasks: 2,
                cores_per_task: 1,
            };
            let request = DisplayRequest {
                nodes: DisplayNodes::First,
                cookie: OsText(OWN.to_vec()),
                screen: 0,
            };
            let display = UnixListener::bind(&path).unwrap();
            display.set_nonblocking(true).unwrap();
            Self {
                clients: Clients::new("test", RealDisplay::at(&path, REAL), request, &layout),
                came: ClientFrames::default(),
                display,
                _folder: folder,
            }
        }

        fn hear(&mut self, node: u32, connection: u32, event: DisplayEvent) {
            self.came.push(DisplayFrame {
                node,
                connection,
                event,
            });
        }

        /// What goes to the nodes.
        fn advance(&mut self) -> Vec<(u32, DisplayEvent)> {
            let mut outbox = Outbox::new();
            self.clients.advance(&mut self.came, &mut outbox);
            let (mut rest, mut all) = (outbox.bytes(), Vec::new());
            while let Some((frame, length)) = step::first(rest).unwrap() {
                rest = &rest[length..];
                let StepFrame::Down(DownFrame::Display(frame)) = frame else {
                    panic!("{frame:?}")
                };
                all.push((frame.connection, frame.event));
            }
            all
        }
    }

    fn setup(cookie: &[u8]) -> DisplayEvent {
        let mut words = vec![b'B', 0, 0, 11, 0, 0, 0, 18, 0, 16, 0, 0];
        words.extend(MAGIC_COOKIE);
        words.extend([0; 2]);
        words.extend(cookie);
        DisplayEvent::Bytes(OsText(words))
    }

    fn bytes(text: &str) -> DisplayEvent {
        DisplayEvent::Bytes(text.into())
    }

    #[test]
    fn a_client_is_let_in_with_the_real_cookie() {
        let mut world = World::new();
        world.hear(0, 3, DisplayEvent::Opened);
        world.hear(0, 3, setup(&OWN));
        world.hear(0, 3, bytes("requests"));
        assert!(world.advance().is_empty());
        let (mut display, _) = world.display.accept().unwrap();
        display.set_nonblocking(false).unwrap();
        let mut got = vec![0; 12 + 20 + 12 + 8];
        display.read_exact(&mut got).unwrap();
        assert_eq!(got[..12], [b'B', 0, 0, 11, 0, 0, 0, 18, 0, 12, 0, 0]);
        assert_eq!((&got[32..44], &got[44..]), (REAL, &b"requests"[..]));
        display.write_all(b"events").unwrap();
        assert_eq!(world.advance(), [(3, bytes("events"))]);
        drop(display);
        assert_eq!(world.advance(), [(3, DisplayEvent::Closed)]);
        assert!(world.clients.clients.is_empty());
    }

    #[test]
    fn nobody_else_reaches_the_display() {
        let mut world = World::new();
        // On a node without a display; never announced; with another cookie; no client at all.
        world.hear(1, 0, DisplayEvent::Opened);
        world.hear(1, 0, setup(&OWN));
        world.hear(7, 0, DisplayEvent::Opened);
        world.hear(0, 9, setup(&OWN));
        assert!(world.advance().is_empty() && world.clients.clients.is_empty());
        world.hear(0, 1, DisplayEvent::Opened);
        world.hear(0, 1, setup(b"0123456789abcdef"));
        let told = world.advance();
        assert!(matches!(&told[0], (1, DisplayEvent::Bytes(b)) if b.0[0] == 0), "{told:?}");
        assert_eq!(told[1..], [(1, DisplayEvent::Closed)]);
        world.hear(0, 2, DisplayEvent::Opened);
        world.hear(0, 2, bytes("GET / HTTP/1.0"));
        assert_eq!(world.advance(), [(2, DisplayEvent::Closed)]);
        assert!(world.display.accept().is_err(), "the display was connected to");
    }

    #[test]
    fn what_a_node_may_say_is_limited() {
        let mut world = World::new();
        let most = limits::DISPLAY_CONNECTIONS as u32;
        (0..=most).for_each(|n| world.hear(0, n, DisplayEvent::Opened));
        assert_eq!(world.advance(), [(most, DisplayEvent::Closed)]);
        world.hear(0, 0, setup(&OWN));
        world.advance();
        // The display reads nothing, and the node goes on.
        let much = "x".repeat(limits::DISPLAY_WINDOW);
        (0..8).for_each(|_| world.hear(0, 0, bytes(&much)));
        assert_eq!(world.advance().last(), Some(&(0, DisplayEvent::Closed)));
        let all = 2 * FLOOD / limits::DISPLAY_WINDOW;
        (0..all).for_each(|_| world.hear(0, 99, bytes(&much)));
        assert!(world.came.bytes <= FLOOD);
        world.advance();
        assert!(world.clients.over && world.clients.clients.is_empty());
        world.hear(0, 100, DisplayEvent::Opened);
        world.hear(0, 100, setup(&OWN));
        assert!(world.advance().is_empty() && world.clients.clients.is_empty());
    }

    #[test]
    fn who_says_nothing_is_not_waited_for() {
        let mut world = World::new();
        world.hear(0, 1, DisplayEvent::Opened);
        world.hear(0, 1, bytes("B"));
        world.advance();
        let deadline = world.clients.deadline().unwrap();
        assert!(deadline > Instant::now());
        let client = world.clients.clients.get_mut(&(0, 1)).unwrap();
        client.since = client.since.checked_sub(limits::DISPLAY_SETUP).unwrap();
        let told = world.advance();
        assert_eq!(told.last(), Some(&(1, DisplayEvent::Closed)));
        assert_eq!(world.clients.deadline(), None);
    }

    #[test]
    fn clients_of_a_node_go_with_it() {
        let mut world = World::new();
        world.hear(0, 1, DisplayEvent::Opened);
        world.hear(0, 1, setup(&OWN));
        world.hear(0, 1, bytes("the last"));
        world.hear(0, 2, DisplayEvent::Opened);
        world.came.node_is_over(0);
        assert!(world.advance().is_empty() && world.clients.clients.is_empty());
        let (mut display, _) = world.display.accept().unwrap();
        display.set_nonblocking(false).unwrap();
        let mut got = Vec::new();
        display.read_to_end(&mut got).unwrap();
        assert!(got.ends_with(b"the last"));
    }
}
