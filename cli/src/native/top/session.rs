//! The command while it is there: waits for keys, answers, signals and the clock, and does what the state
//! wants done.

use crate::exit;
use crate::launch::signal_pipe::SignalPipe;
use crate::native::top::asker::{Post, Threads};
use crate::native::top::event::{Effect, Event, Moment};
use crate::native::top::input::Input;
use crate::native::top::screen::Screen;
use crate::native::top::state::{Settings, Top};
use crate::times;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGWINCH};
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Between two looks at the clock.
const TICK: Duration = Duration::from_millis(500);
/// What an escape begins comes within that.
const ESCAPE: Duration = Duration::from_millis(50);
const SIGNALS: [i32; 7] = [SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH];

/// What waiting has brought.
#[derive(Clone, Copy, Default)]
struct Ready {
    keys: bool,
    signals: bool,
}

struct Session {
    top: Top,
    screen: Screen,
    threads: Threads,
    events: Receiver<Event>,
    bell: UnixStream,
    signals: SignalPipe,
    input: Input,
    begun: Instant,
    /// How the command ends.
    code: Option<u8>,
}

/// Shows the state until the user has seen enough; the exit code.
///
/// # Errors
/// The terminal cannot be taken or written to.
pub fn run(settings: Settings) -> anyhow::Result<u8> {
    let (bell, ring) = UnixStream::pair()?;
    bell.set_nonblocking(true)?;
    ring.set_nonblocking(true)?;
    let (sender, events) = channel();
    let signals = SignalPipe::new(&SIGNALS)?;
    let screen = Screen::enter()?;
    let begun = Instant::now();
    let top = Top::new(settings, screen.size(), moment(begun));
    let mut session = Session {
        top,
        screen,
        threads: Threads::start(&Post::new(sender, ring)),
        events,
        bell,
        signals,
        input: Input::default(),
        begun,
        code: None,
    };
    session.happens(Event::Ticked)?;
    loop {
        session.screen.draw(&session.top)?;
        session.wait()?;
        if let Some(code) = session.code {
            return Ok(code);
        }
    }
}

fn moment(begun: Instant) -> Moment {
    Moment {
        now: times::now(),
        passed: begun.elapsed(),
    }
}

impl Session {
    fn happens(&mut self, event: Event) -> anyhow::Result<()> {
        for effect in self.top.event(moment(self.begun), event) {
            match effect {
                Effect::Ask(ask) => self.threads.ask(ask),
                Effect::Follow(path) => self.threads.follow(path),
                Effect::Redraw => self.screen.take_again()?,
                Effect::Suspend => self.suspend()?,
                Effect::Quit => self.code = Some(exit::OK),
            }
        }
        Ok(())
    }

    /// Waits for whatever comes first, and tells the state.
    fn wait(&mut self) -> anyhow::Result<()> {
        let timeout = match self.input.is_waiting() {
            true => ESCAPE,
            false => TICK,
        };
        let ready = self.ready(timeout)?;
        if ready.signals {
            for signal in self.signals.take() {
                self.signal(signal)?;
            }
        }
        if ready.keys {
            self.keys()?;
        } else if self.input.is_waiting() {
            for key in self.input.end() {
                self.happens(Event::Key(key))?;
            }
        }
        while let Ok(event) = self.events.try_recv() {
            self.happens(event)?;
        }
        self.happens(Event::Ticked)
    }

    fn ready(&self, timeout: Duration) -> anyhow::Result<Ready> {
        let stdin = rustix::stdio::stdin();
        let signals = self.signals.fd();
        let mut fds = [
            PollFd::new(&stdin, PollFlags::IN),
            PollFd::new(&signals, PollFlags::IN),
            PollFd::new(&self.bell, PollFlags::IN),
        ];
        let timeout = Timespec::try_from(timeout)?;
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(Ready::default()),
            Err(e) => return Err(e.into()),
        }
        let [keys, signals, bell] = fds.map(|fd| !fd.revents().is_empty());
        if bell {
            let _ = (&self.bell).read(&mut [0; 256]);
        }
        Ok(Ready { keys, signals })
    }

    fn keys(&mut self) -> anyhow::Result<()> {
        let mut bytes = [0; 1024];
        let count = match rustix::io::read(rustix::stdio::stdin(), &mut bytes) {
            Ok(count) => count,
            Err(Errno::INTR | Errno::AGAIN) => return Ok(()),
            // The terminal is gone.
            Err(_) => 0,
        };
        if count == 0 {
            self.code = Some(ended_by(SIGHUP));
            return Ok(());
        }
        for key in self.input.push(bytes.get(..count).unwrap_or_default()) {
            self.happens(Event::Key(key))?;
            if self.code.is_some() {
                break;
            }
        }
        Ok(())
    }

    fn signal(&mut self, signal: i32) -> anyhow::Result<()> {
        match signal {
            SIGTSTP => self.suspend(),
            // Somebody has stopped it meanwhile, and the shell has used the terminal.
            SIGCONT => {
                self.screen.take_again()?;
                self.resized()
            }
            SIGWINCH => self.resized(),
            signal => {
                self.code = Some(ended_by(signal));
                Ok(())
            }
        }
    }

    fn resized(&mut self) -> anyhow::Result<()> {
        let (columns, rows) = self.screen.size();
        self.happens(Event::Resized(columns, rows))
    }

    /// Stops as any other program does; goes on when it is told to.
    fn suspend(&mut self) -> anyhow::Result<()> {
        self.screen.leave();
        signal_hook::low_level::emulate_default_handler(SIGTSTP)?;
        self.screen.take_again()?;
        self.resized()
    }
}

fn ended_by(signal: i32) -> u8 {
    u8::try_from(exit::SIGNAL_BASE + signal).unwrap_or(u8::MAX)
}
