//! A way over which bytes go until it is cut: then both ends wait, as over a network that loses all.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Between two looks whether a way is cut.
const LOOK: Duration = Duration::from_millis(5);

/// Where a way leads.
#[derive(Clone, Debug)]
pub enum Target {
    /// A port of this host.
    Port(u16),
    /// A socket.
    Socket(PathBuf),
}

/// A way to somewhere. It ends when this is dropped.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    cut: AtomicBool,
    over: AtomicBool,
}

impl State {
    /// Waits until the way is whole; false when it is over.
    fn is_whole(&self) -> bool {
        while self.cut.load(Ordering::Relaxed) && !self.over.load(Ordering::Relaxed) {
            std::thread::sleep(LOOK);
        }
        !self.over.load(Ordering::Relaxed)
    }
}

trait End: Read + Write + Send + Sized + 'static {
    fn twin(&self) -> std::io::Result<Self>;
    fn end(&self);
    fn look_after(&self, every: Duration) -> std::io::Result<()>;
}

macro_rules! ends {
    ($($of:ty),*) => {$(
        impl End for $of {
            fn twin(&self) -> std::io::Result<Self> {
                self.try_clone()
            }
            fn end(&self) {
                let _ = self.shutdown(Shutdown::Both);
            }
            fn look_after(&self, every: Duration) -> std::io::Result<()> {
                self.set_read_timeout(Some(every))
            }
        }
    )*};
}
ends!(TcpStream, UnixStream);

impl Proxy {
    /// Opens a way.
    ///
    /// # Panics
    /// No port is free.
    pub fn to(target: Target) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let state = Arc::new(State::default());
        let own = state.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if own.over.load(Ordering::Relaxed) {
                    return;
                }
                if let Ok(stream) = stream {
                    let (state, target) = (own.clone(), target.clone());
                    std::thread::spawn(move || lead(stream, &target, &state));
                }
            }
        });
        Self { port, state }
    }

    /// Where it begins.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Nothing goes through any more.
    pub fn cut(&self) {
        self.state.cut.store(true, Ordering::Relaxed);
    }

    /// What waited goes on.
    pub fn mend(&self) {
        self.state.cut.store(false, Ordering::Relaxed);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.state.over.store(true, Ordering::Relaxed);
        // It may wait for somebody.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn lead(stream: TcpStream, target: &Target, state: &Arc<State>) {
    if !state.is_whole() {
        return;
    }
    let _ = stream.set_nodelay(true);
    match target {
        Target::Port(port) => {
            if let Ok(there) = TcpStream::connect(("127.0.0.1", *port)) {
                let _ = there.set_nodelay(true);
                join(stream, there, state);
            }
        }
        Target::Socket(path) => {
            if let Ok(there) = UnixStream::connect(path) {
                join(stream, there, state);
            }
        }
    }
}

fn join<T: End>(here: TcpStream, there: T, state: &Arc<State>) {
    let (Ok(back), Ok(forth)) = (here.twin(), there.twin()) else {
        return;
    };
    let own = state.clone();
    let other = std::thread::spawn(move || carry(forth, back, &own));
    carry(here, there, state);
    let _ = other.join();
}

fn carry(mut from: impl End, mut to: impl End, state: &State) {
    let mut bytes = [0; 16 << 10];
    let _ = from.look_after(Duration::from_millis(200));
    loop {
        match from.read(&mut bytes) {
            Ok(0) => break,
            Ok(n) => {
                if !state.is_whole() || to.write_all(&bytes[..n]).is_err() {
                    break;
                }
            }
            Err(e)
                if matches!(
                    e.kind(),
                    std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
                ) =>
            {
                if state.over.load(Ordering::Relaxed) {
                    break;
                }
            }
            Err(_) => break,
        }
    }
    state.is_whole();
    from.end();
    to.end();
}
