//! What a supervisor waits for: descriptors and moments.

use super::run::{BROKEN, Child, LAST_WORDS, Ready, SILENT, Supervisor, WATCHERS};
use cosy_model::step::Stream;
use nix::poll::{PollFd, PollFlags, PollTimeout};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

/// While more than this waits to go down to a child, nothing is read from above, in bytes.
const WAITING_DOWN: usize = 32 << 20;

impl Supervisor<'_> {
    /// Waits for whatever comes first.
    pub(super) fn wait(&mut self) -> Vec<(Ready, PollFlags)> {
        let timeout = self.timeout();
        let (tokens, mut fds) = self.interests();
        let _ = nix::poll::poll(&mut fds, timeout);
        let ready = tokens.into_iter().zip(fds);
        ready
            .filter_map(|(token, fd)| Some((token, fd.revents()?)))
            .filter(|(_, flags)| !flags.is_empty())
            .collect()
    }

    fn interests(&self) -> (Vec<Ready>, Vec<PollFd<'_>>) {
        let mut all = PollSet::default();
        all.add(Ready::Signals, Some(self.signals.as_fd()), true, false);
        all.add(Ready::Lifeline, self.lifeline.map(AsFd::as_fd), true, false);
        all.add(Ready::Failures, self.failures.as_ref().map(AsFd::as_fd), true, false);
        let room_below = |c: &Child| c.way.queue.waiting() < WAITING_DOWN;
        let hears = self.children.iter().all(room_below);
        all.add(Ready::Up, self.up.fd(), hears, self.up.queue.wants_to_write());
        all.add(Ready::Door, self.io_socket.fd(), true, false);
        for fd in self.io_socket.newcomers() {
            all.add(Ready::Newcomer, Some(fd), true, false);
        }
        let room = self.has_room();
        for (at, child) in self.children.iter().enumerate() {
            let writes = child.way.queue.wants_to_write();
            all.add(Ready::Child(at), child.way.fd(), room, writes);
        }
        for (at, fd, writes) in self.watchers.fds() {
            all.add(Ready::Watcher(at), Some(fd), true, writes);
        }
        self.task_interests(&mut all, room);
        if let Some((fd, writes)) = self.exchange.helper() {
            all.add(Ready::Helper, Some(fd), true, writes);
        }
        if let Some((fd, writes)) = self.labels.fd() {
            all.add(Ready::Writer, Some(fd), true, writes);
        }
        for (at, fd) in self.displays.sockets() {
            all.add(Ready::DisplaySocket(at), Some(fd), room, false);
        }
        for (connection, fd, reads, writes) in self.displays.clients() {
            all.add(Ready::Display(connection), Some(fd), reads && room, writes);
        }
        for (rank, fd, reads, writes) in self.exchange.lines() {
            all.add(Ready::Line(rank), Some(fd), reads, writes);
        }
        (all.tokens, all.fds)
    }

    fn task_interests<'b>(&'b self, all: &mut PollSet<'b>, room: bool) {
        let count = self.tasks.len();
        for step in 0..count {
            let place = (self.turn + step) % count;
            let task = &self.tasks[place];
            if room {
                for stream in [Stream::Output, Stream::Error] {
                    if self.labels.is_full() && self.labels.has(task.rank, stream) {
                        continue;
                    }
                    let fd = task.ends.of(stream).map(AsFd::as_fd);
                    all.add(Ready::Output(place, stream), fd, true, false);
                }
            }
            if !self.input.next_of(place).is_empty() {
                let fd = task.ends.input.as_ref().map(AsFd::as_fd);
                all.add(Ready::Input, fd, false, true);
            }
        }
    }

    fn timeout(&self) -> PollTimeout {
        let ending = self.ending.next_timer().filter(|_| self.processes);
        let mut timers: Vec<Instant> = ending.into_iter().collect();
        if self.ending.is_running() {
            timers.extend(self.clock.next());
        }
        if !self.up_gone && !self.up.is_connected() {
            timers.push(self.up.broken_since + BROKEN);
        }
        let silent = |c: &&Child| !c.over && !c.way.is_connected();
        let silent = self.children.iter().filter(silent);
        timers.extend(silent.map(|c| c.way.broken_since + SILENT));
        let forced = self.nothing_left_since.filter(|_| self.forced);
        timers.extend(forced.filter(|_| !self.up_gone).map(|s| s + LAST_WORDS));
        timers.extend(self.files_late());
        timers.extend(self.helper_late());
        timers.extend(self.displays_late());
        let watchers = self.concluded.map(|since| since + WATCHERS);
        timers.extend(watchers.filter(|at| *at > Instant::now()));
        let Some(at) = timers.into_iter().min() else {
            return PollTimeout::NONE;
        };
        let left = at.saturating_duration_since(Instant::now());
        // Rounded up: a timer is never early. Far ones are cut and looked at again.
        let ms = left.as_micros().div_ceil(1000).min(60_000);
        PollTimeout::from(ms as u16)
    }
}

/// Descriptors to wait for, and what each of them means.
#[derive(Default)]
struct PollSet<'a> {
    tokens: Vec<Ready>,
    fds: Vec<PollFd<'a>>,
}

impl<'a> PollSet<'a> {
    /// One that is to be read, written, or both; neither: it is left out, so that what
    /// has broken does not wake us while nobody may look at it.
    fn add(&mut self, token: Ready, fd: Option<BorrowedFd<'a>>, reads: bool, writes: bool) {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::POLLIN, reads);
        flags.set(PollFlags::POLLOUT, writes);
        if let Some(fd) = fd.filter(|_| !flags.is_empty()) {
            self.tokens.push(token);
            self.fds.push(PollFd::new(fd, flags));
        }
    }
}
