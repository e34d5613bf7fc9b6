//! The helper process (`noded --pmix`): serves the tasks of one step on one node with
//! libpmix, as the user, until its supervisor closes the connection.
//!
//! One loop, which hears the supervisor and what [`super::callbacks`] left for it. The
//! library's own thread speaks with the tasks.

use super::abi;
use super::callbacks::{self, Event, ModexReply};
use super::infos::Infos;
use super::library::{self, Library};
use super::scope::{self, Scope};
use super::words::{FRAME, FromHelper, Setup, ToHelper};
use super::{EXCHANGE_BYTES, facts};
use crate::sys;
use crate::sys::library::c_name;
use cosy_model::OsText;
use cosy_proto::frame::{self, Decoder};
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout};
use nix::sys::signal::{SigHandler, Signal};
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder};
use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver};

/// Seconds that the library may take to end.
const END_S: u32 = 10;

/// Serves the supervisor at the other end of an inherited descriptor.
pub fn run_and_exit(fd: RawFd) -> ! {
    let _ = nix::sys::prctl::set_name(c"cosy-pmix");
    be_deaf();
    take_descriptors();
    let Ok(socket) = sys::inherited(fd) else {
        sys::exit_now(2);
    };
    let mut link = Link::new(socket);
    let Some(ToHelper::Setup(setup)) = link.read() else {
        sys::exit_now(2);
    };
    let directory = PathBuf::from(OsStr::from_bytes(&setup.directory.0));
    let result = serve(&mut link, *setup, &directory);
    if let Err(reason) = &result {
        let reason = reason.clone();
        let _ = link.write(&FromHelper::Failed { reason });
    }
    let _ = fs::remove_dir_all(&directory);
    sys::exit_now(i32::from(result.is_err()));
}

/// The tasks decide what signals mean; the helper ends with its supervisor.
fn be_deaf() {
    for signal in [
        Signal::SIGHUP,
        Signal::SIGINT,
        Signal::SIGQUIT,
        Signal::SIGTERM,
        Signal::SIGUSR1,
        Signal::SIGUSR2,
        Signal::SIGPIPE,
    ] {
        // SAFETY: to ignore a signal runs no code of ours.
        let _ = unsafe { nix::sys::signal::signal(signal, SigHandler::SigIgn) };
    }
}

/// Each task here needs a descriptor.
fn take_descriptors() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

fn serve(link: &mut Link, setup: Setup, directory: &Path) -> Result<(), String> {
    make_directories(&setup, directory)?;
    let name = c_name(&setup.library.0)?;
    let library = Library::open(&name).map_err(|e| not_installed(&setup, &e))?;
    let (sender, events) = mpsc::channel();
    let (ear, wake) = nix::unistd::pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)
        .map_err(|e| format!("a pipe: {e}"))?;
    callbacks::deliver_to(sender, wake)?;
    let mut server = Server {
        variables: start(&library, &setup)?,
        setup,
        events,
        ear,
        pending: VecDeque::new(),
    };
    let result = server.run(link);
    // A library that hangs must not keep the step.
    nix::unistd::alarm::set(END_S);
    library.finish();
    result
}

fn not_installed(setup: &Setup, error: &str) -> String {
    let node = setup.layout.nodes.get(setup.node as usize);
    let node = node.map_or("this node", String::as_str);
    format!("PMIx is not installed on {node}: {error}")
}

fn make_directories(setup: &Setup, directory: &Path) -> Result<(), String> {
    let make = |path: &Path| {
        let made = DirBuilder::new().mode(0o700).create(path);
        made.map_err(|e| format!("cannot make the directory {}: {e}", path.display()))
    };
    make(directory)?;
    let ranks = setup.layout.ranks_of(setup.node);
    ranks
        .iter()
        .try_for_each(|rank| make(&directory.join(rank.to_string())))
}

type Variables = Vec<(u32, Vec<OsText>)>;

/// Starts the server and tells it everything about the step.
fn start(library: &Library, setup: &Setup) -> Result<Variables, String> {
    let mut infos = Infos::new(&facts::of_server(setup), library)?;
    library.start(&callbacks::MODULE, &mut infos)?;
    let ranks = setup.layout.ranks_of(setup.node);
    let mut infos = Infos::new(&facts::of_job(setup), library)?;
    let name = c_name(setup.namespace.as_bytes())?;
    library.register_namespace(&name, ranks.len(), &mut infos)?;
    let (uid, gid) = (nix::unistd::geteuid(), nix::unistd::getegid());
    let variables = |rank: u32| {
        let task = library::process(&setup.namespace, rank)?;
        library.register_client(&task, uid.as_raw(), gid.as_raw())?;
        let variables = library.variables(&task)?;
        Ok((rank, variables.into_iter().map(OsText).collect()))
    };
    ranks.into_iter().map(variables).collect()
}

struct Server {
    setup: Setup,
    variables: Variables,
    events: Receiver<Event>,
    ear: OwnedFd,
    /// Exchanges over all nodes that are not answered, oldest first. Of the oldest this
    /// node's share is under way.
    pending: VecDeque<(Vec<u8>, ModexReply)>,
}

impl Server {
    /// Serves until the supervisor closes the link.
    fn run(&mut self, link: &mut Link) -> Result<(), String> {
        let variables = std::mem::take(&mut self.variables);
        link.write(&FromHelper::Ready { variables })?;
        loop {
            let [heard, woken] = wait(&link.socket, &self.ear)?;
            if woken {
                self.take_events(link)?;
            }
            if heard && !link.fill() {
                return Ok(());
            }
            while let Some(message) = link.next()? {
                match message {
                    ToHelper::Spread { parts } => self.spread(parts, link)?,
                    ToHelper::Setup(_) => return Err("set up a second time".to_owned()),
                }
            }
        }
    }

    fn take_events(&mut self, link: &mut Link) -> Result<(), String> {
        while nix::unistd::read(&self.ear, &mut [0; 64]).is_ok_and(|n| n == 64) {}
        while let Ok(event) = self.events.try_recv() {
            match event {
                Event::Fence { who, share, reply } => self.fence(&who, share, reply, link)?,
                Event::Joined { rank, reply } => {
                    link.write(&FromHelper::Joined { rank })?;
                    reply.send(abi::SUCCESS);
                }
                Event::Left { rank, reply } => {
                    link.write(&FromHelper::Left { rank })?;
                    reply.send(abi::SUCCESS);
                }
                Event::Abort {
                    rank,
                    code,
                    reason,
                    reply,
                } => {
                    link.write(&FromHelper::Abort {
                        rank,
                        code,
                        reason: one_line(&reason),
                    })?;
                    reply.send(abi::SUCCESS);
                }
            }
        }
        Ok(())
    }

    fn fence(
        &mut self,
        who: &[callbacks::Member],
        share: Vec<u8>,
        reply: ModexReply,
        link: &mut Link,
    ) -> Result<(), String> {
        match scope::of(who, &self.setup) {
            Scope::Here => reply.send(share),
            Scope::Partly => reply.refuse(abi::NOT_SUPPORTED),
            Scope::Everywhere => {
                self.pending.push_back((share, reply));
                if self.pending.len() == 1 {
                    self.contribute(link)?;
                }
            }
        }
        Ok(())
    }

    /// Sends this node's share of the oldest exchange.
    fn contribute(&mut self, link: &mut Link) -> Result<(), String> {
        let Some((share, _)) = self.pending.front_mut() else {
            return Ok(());
        };
        if share.len() > EXCHANGE_BYTES {
            return Err(format!(
                "the tasks here exchange {} bytes; a node's share may have {EXCHANGE_BYTES}",
                share.len()
            ));
        }
        let bytes = OsText(std::mem::take(share));
        link.write(&FromHelper::Contribute { bytes })
    }

    fn spread(&mut self, mut parts: Vec<(u32, OsText)>, link: &mut Link) -> Result<(), String> {
        let Some((_, reply)) = self.pending.pop_front() else {
            return Err("an answer to no exchange".to_owned());
        };
        parts.sort_by_key(|(node, _)| *node);
        reply.send(parts.into_iter().flat_map(|(_, share)| share.0).collect());
        self.contribute(link)
    }
}

fn one_line(text: &str) -> String {
    let line = text.split(char::is_control).find(|l| !l.is_empty());
    line.unwrap_or_default().chars().take(500).collect()
}

/// Waits until the supervisor, an event, or both can be heard.
fn wait(socket: &UnixStream, ear: &OwnedFd) -> Result<[bool; 2], String> {
    let mut fds = [socket.as_fd(), ear.as_fd()].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
    loop {
        match nix::poll::poll(&mut fds, PollTimeout::NONE) {
            Ok(_) => return Ok(fds.each_ref().map(|fd| fd.any().unwrap_or(true))),
            Err(nix::errno::Errno::EINTR) => {}
            Err(e) => return Err(format!("poll: {e}")),
        }
    }
}

/// The connection with the supervisor.
struct Link {
    socket: UnixStream,
    decoder: Decoder,
}

impl Link {
    fn new(socket: OwnedFd) -> Self {
        Self {
            socket: UnixStream::from(socket),
            decoder: Decoder::new(FRAME),
        }
    }

    fn write(&mut self, message: &FromHelper) -> Result<(), String> {
        frame::write(&mut self.socket, message, FRAME).map_err(|e| e.to_string())
    }

    /// Reads once; false at the end.
    fn fill(&mut self) -> bool {
        let mut chunk = [0; 64 << 10];
        match self.socket.read(&mut chunk) {
            Ok(n) => {
                self.decoder.push(&chunk[..n]);
                n > 0
            }
            Err(e) => matches!(e.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock),
        }
    }

    fn next(&mut self) -> Result<Option<ToHelper>, String> {
        let body = self.decoder.next_frame().map_err(|e| e.to_string())?;
        body.map(frame::decode)
            .transpose()
            .map_err(|e| e.to_string())
    }

    /// Waits for one message; `None` at the end or when it is none.
    fn read(&mut self) -> Option<ToHelper> {
        loop {
            if let Some(message) = self.next().ok()? {
                return Some(message);
            }
            if !self.fill() {
                return None;
            }
        }
    }
}
