//! The display of a step on its node: X clients connect to it, and what they say goes up to the
//! command, which alone knows the real display and whether a client shows the right cookie.
//!
//! Never waits. Always holds: of each connection at most [`limits::DISPLAY_WINDOW`] bytes are under
//! way in each direction; while much waits to go up nothing is read from clients.

use super::display_file::DisplayFile;
use super::display_socket::{self, DisplaySockets};
use crate::shepherd::child;
use crate::steps::StepTask;
use cosy_model::step::{DisplayEvent, DisplayFrame};
use cosy_model::{OsText, limits};
use nix::errno::Errno;
use std::collections::{BTreeMap, VecDeque};
use std::ffi::CString;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

/// So many bytes that were written are told at once.
const TELL: usize = limits::DISPLAY_WINDOW / 4;

/// The connection of a client.
#[derive(Debug)]
struct Client {
    socket: TcpStream,
    /// What is to be written to it.
    out: VecDeque<u8>,
    /// Bytes that were written and not yet told.
    untold: usize,
    /// Bytes that may still be read: so many the command has room for.
    room: usize,
    /// The real display has closed: it is closed when the rest is written.
    closing: bool,
}

#[derive(Debug)]
struct Display {
    node: u32,
    sockets: DisplaySockets,
    variables: Vec<CString>,
    /// Removed with it.
    _file: DisplayFile,
}

/// The display of a step here; none where no windows are shown.
#[derive(Debug, Default)]
pub struct Displays {
    display: Option<Display>,
    clients: BTreeMap<u32, Client>,
    next: u32,
    /// What is to be told of clients, in order.
    events: Vec<(u32, DisplayEvent)>,
}

impl Displays {
    /// Opens a display where the step has one on this node.
    ///
    /// # Errors
    /// In one line: there is no number left, or the file for its cookie cannot be written.
    pub fn open(task: &StepTask, node: u32) -> Result<Self, String> {
        let with_tasks = task.order.layout.nodes_with_tasks().len();
        let request = task.order.spec.display.as_ref();
        let Some(request) = request.filter(|r| r.is_for(node, with_tasks)) else {
            return Ok(Self::default());
        };
        let sockets = display_socket::open()?;
        let step = std::env::current_dir().map_err(|e| format!("no working directory: {e}"))?;
        let attempt = step.parent().unwrap_or(Path::new("/"));
        let name = task.order.key.step.to_string();
        let cookie = &request.cookie.0;
        let file = DisplayFile::write(attempt, &name, sockets.number, cookie, &task.allocation)
            .map_err(|e| format!("cannot write the file for the display's cookie: {e}"))?;
        let path = file.path();
        let variables = [
            child::c(
                format!("DISPLAY=localhost:{}.{}", sockets.number, request.screen).as_bytes(),
            )?,
            child::c(&[b"XAUTHORITY=", path.as_os_str().as_encoded_bytes()].concat())?,
        ];
        Ok(Self {
            display: Some(Display {
                node,
                sockets,
                variables: variables.into(),
                _file: file,
            }),
            ..Self::default()
        })
    }

    /// What tells programs of it, `NAME=value`.
    pub fn variables(&self) -> &[CString] {
        self.display
            .as_ref()
            .map_or(&[], |display| &display.variables)
    }

    /// Sockets at which clients knock, by their places.
    pub fn sockets(&self) -> impl Iterator<Item = (usize, BorrowedFd<'_>)> {
        let listeners = self.display.iter().flat_map(|d| &d.sockets.listeners);
        listeners.map(AsFd::as_fd).enumerate()
    }

    /// Clients: number, descriptor, something may be read, something is to be written.
    pub fn clients(&self) -> impl Iterator<Item = (u32, BorrowedFd<'_>, bool, bool)> {
        self.clients.iter().map(|(number, client)| {
            let reads = client.room > 0 && !client.closing;
            (*number, client.socket.as_fd(), reads, !client.out.is_empty())
        })
    }

    /// Somebody knocks at a socket. Of too many at once the last are turned away.
    pub fn accept(&mut self, at: usize) {
        let listener = self
            .display
            .as_ref()
            .and_then(|d| d.sockets.listeners.get(at));
        let Some(Ok((socket, _))) = listener.map(|listener| listener.accept()) else {
            return;
        };
        let ready = socket.set_nonblocking(true).and(socket.set_nodelay(true));
        if self.clients.len() >= limits::DISPLAY_CONNECTIONS || ready.is_err() {
            return;
        }
        let client = Client {
            socket,
            out: VecDeque::new(),
            untold: 0,
            room: limits::DISPLAY_WINDOW,
            closing: false,
        };
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        self.clients.insert(number, client);
        self.events.push((number, DisplayEvent::Opened));
    }

    /// Reads once what a client has said; true when there was something.
    pub fn read(&mut self, number: u32, buffer: &mut [u8]) -> bool {
        let Some(client) = self.clients.get_mut(&number).filter(|c| !c.closing) else {
            return false;
        };
        let most = client.room.min(limits::DISPLAY_CHUNK).min(buffer.len());
        let Some(buffer) = buffer.get_mut(..most).filter(|b| !b.is_empty()) else {
            return false;
        };
        match client.socket.read(buffer) {
            Ok(count) if count > 0 => {
                client.room = client.room.saturating_sub(count);
                let bytes = buffer.get(..count).unwrap_or_default().to_vec();
                self.events
                    .push((number, DisplayEvent::Bytes(OsText(bytes))));
                true
            }
            Err(e) if e.raw_os_error() == Some(Errno::EAGAIN as i32) => false,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => true,
            Ok(_) | Err(_) => {
                self.drop_client(number);
                false
            }
        }
    }

    /// The other end of a client's connection has said something.
    pub fn obey(&mut self, number: u32, event: &DisplayEvent) {
        let Some(client) = self.clients.get_mut(&number) else {
            return;
        };
        match event {
            DisplayEvent::Bytes(bytes) => {
                if client.out.len().saturating_add(bytes.0.len()) > limits::DISPLAY_WINDOW {
                    // More than it was given room for: not one of our commands.
                    return self.drop_client(number);
                }
                client.out.extend(&bytes.0);
            }
            DisplayEvent::Taken(count) => {
                let room = client.room.saturating_add(*count as usize);
                client.room = room.min(limits::DISPLAY_WINDOW);
            }
            DisplayEvent::Closed => client.closing = true,
            DisplayEvent::Opened => {}
        }
    }

    /// Writes what clients take, and lets those go that have it all.
    pub fn flush(&mut self) {
        let mut gone = Vec::new();
        for (number, client) in &mut self.clients {
            if !client.flush() {
                gone.push(*number);
            }
            if client.untold >= TELL {
                let count = u32::try_from(client.untold).unwrap_or(u32::MAX);
                self.events.push((*number, DisplayEvent::Taken(count)));
                client.untold = 0;
            }
        }
        gone.into_iter().for_each(|number| self.drop_client(number));
        self.clients
            .retain(|_, client| !client.closing || !client.out.is_empty());
    }

    fn drop_client(&mut self, number: u32) {
        if self
            .clients
            .remove(&number)
            .is_some_and(|client| !client.closing)
        {
            self.events.push((number, DisplayEvent::Closed));
        }
    }

    /// Numbers of the clients.
    pub fn numbers(&self) -> Vec<u32> {
        self.clients.keys().copied().collect()
    }

    /// Nobody is connected.
    pub fn is_left_alone(&self) -> bool {
        self.clients.is_empty()
    }

    /// What the command is to be told of clients since the last time, in order.
    pub fn take_events(&mut self) -> Vec<DisplayFrame> {
        let node = self.display.as_ref().map_or(0, |display| display.node);
        let events = std::mem::take(&mut self.events).into_iter();
        let frame = |(connection, event)| DisplayFrame {
            node,
            connection,
            event,
        };
        events.map(frame).collect()
    }

    /// Nobody comes any more, and all go: nothing of it is left.
    pub fn close(&mut self) {
        self.display = None;
        self.clients.clear();
        self.events.clear();
    }
}

impl Client {
    /// Writes what it takes; false when it has gone.
    fn flush(&mut self) -> bool {
        while !self.out.is_empty() {
            match self.socket.write(self.out.as_slices().0) {
                Ok(0) => return false,
                Ok(count) => {
                    self.out.drain(..count);
                    self.untold += count;
                }
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return e.kind() == std::io::ErrorKind::WouldBlock,
            }
        }
        true
    }
}
