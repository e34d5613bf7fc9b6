//! What libpmix calls, in its own thread: each call is copied into an [`Event`] for the
//! helper's loop, which answers later through [`OpReply`] and [`ModexReply`]. Nothing is
//! decided here, nothing blocks.

use super::abi::{self, ModexDone, Module, OpDone, Proc, SUCCESS};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::sync::mpsc::Sender;

/// A request of a task, as the library has handed it on.
pub enum Event {
    /// All tasks of this node that take part in an exchange have come.
    Fence {
        /// The members that take part, as the tasks have named them.
        who: Vec<Member>,
        /// Data that they exchange.
        share: Vec<u8>,
        /// Takes the answer to the library.
        reply: ModexReply,
    },
    /// A task has connected.
    Joined {
        /// Rank of the task in its step, from 0.
        rank: u32,
        /// Takes the answer to the library.
        reply: OpReply,
    },
    /// A task takes leave.
    Left {
        /// Rank of the task in its step, from 0.
        rank: u32,
        /// Takes the answer to the library.
        reply: OpReply,
    },
    /// A task wants the whole step to end.
    Abort {
        /// Rank of the task in its step, from 0.
        rank: u32,
        /// With this exit code.
        code: i32,
        /// Why, in the task's words.
        reason: String,
        /// Takes the answer to the library.
        reply: OpReply,
    },
}

/// One who takes part in an exchange.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    /// Namespace without its NUL.
    pub namespace: Vec<u8>,
    /// The rank, or [`abi::RANK_WILDCARD`].
    pub rank: u32,
}

struct Mailbox {
    events: Sender<Event>,
    wake: OwnedFd,
}

// The library gives its host nothing by which a call could find its server.
static MAILBOX: OnceLock<Mailbox> = OnceLock::new();

/// Says where events go, and the descriptor that gets a byte with each. Once in a process.
///
/// # Errors
/// It was said before.
pub fn deliver_to(events: Sender<Event>, wake: OwnedFd) -> Result<(), String> {
    MAILBOX
        .set(Mailbox { events, wake })
        .map_err(|_| "a process can serve one step only".to_owned())
}

fn post(event: Event) -> c_int {
    let Some(mailbox) = MAILBOX.get() else {
        return abi::ERROR;
    };
    if mailbox.events.send(event).is_err() {
        return abi::ERROR;
    }
    // A full pipe wakes as well.
    let _ = nix::unistd::write(&mailbox.wake, &[0]);
    SUCCESS
}

/// The functions that the library is given.
pub static MODULE: Module = Module {
    client_connected: Some(connected),
    client_finalized: Some(finalized),
    abort: Some(abort),
    fence: Some(fence),
    direct_modex: Some(direct_modex),
    rest: [None; 23],
    room: [None; 12],
};

/// Where the answer to a simple request goes. To be used once.
pub struct OpReply {
    done: OpDone,
    token: *mut c_void,
}

// SAFETY: the token is only handed back; the library takes answers from any thread.
unsafe impl Send for OpReply {}

impl OpReply {
    /// Gives the library the status that it waits for.
    pub fn send(self, status: c_int) {
        if let Some(done) = self.done {
            // SAFETY: function and token came together, and are used once.
            unsafe { done(status, self.token) }
        }
    }
}

/// Where the answer to an exchange goes. To be used once.
pub struct ModexReply {
    done: ModexDone,
    token: *mut c_void,
}

// SAFETY: as for OpReply.
unsafe impl Send for ModexReply {}

impl ModexReply {
    /// Answers with what all nodes added, one after another.
    pub fn send(self, data: Vec<u8>) {
        let Some(done) = self.done else { return };
        let data = Box::into_raw(Box::new(data));
        // SAFETY: function and token came together, and are used once; the bytes stay
        // until the library calls `release` with the box.
        unsafe {
            let (at, count) = ((*data).as_ptr(), (*data).len());
            done(SUCCESS, at.cast(), count, self.token, Some(release), data.cast());
        }
    }

    /// Answers that it cannot be.
    pub fn refuse(self, status: c_int) {
        if let Some(done) = self.done {
            let nothing = std::ptr::null_mut();
            // SAFETY: as above; there are no bytes to keep.
            unsafe { done(status, std::ptr::null(), 0, self.token, None, nothing) }
        }
    }
}

unsafe extern "C" fn release(data: *mut c_void) {
    // SAFETY: the library gives back, once, what `send` made.
    drop(unsafe { Box::from_raw(data.cast::<Vec<u8>>()) });
}

unsafe extern "C" fn connected(
    task: *const Proc,
    _object: *mut c_void,
    done: OpDone,
    token: *mut c_void,
) -> c_int {
    // SAFETY: the library's task is live during the call.
    let rank = unsafe { rank_of(task) };
    let reply = OpReply { done, token };
    post(Event::Joined { rank, reply })
}

unsafe extern "C" fn finalized(
    task: *const Proc,
    _object: *mut c_void,
    done: OpDone,
    token: *mut c_void,
) -> c_int {
    // SAFETY: the library's task is live during the call.
    let rank = unsafe { rank_of(task) };
    let reply = OpReply { done, token };
    post(Event::Left { rank, reply })
}

/// # Safety
/// Null, or a live task.
unsafe fn rank_of(task: *const Proc) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { task.as_ref() }.map_or(0, |t| t.rank)
}

unsafe extern "C" fn abort(
    task: *const Proc,
    _object: *mut c_void,
    code: c_int,
    reason: *const c_char,
    _whom: *mut Proc,
    _count: usize,
    done: OpDone,
    token: *mut c_void,
) -> c_int {
    // SAFETY: the library's task is live during the call, its text null or ended by NUL.
    let (rank, reason) = unsafe {
        let rank = rank_of(task);
        let reason = match reason.is_null() {
            true => String::new(),
            false => CStr::from_ptr(reason).to_string_lossy().into_owned(),
        };
        (rank, reason)
    };
    post(Event::Abort {
        rank,
        code,
        reason,
        reply: OpReply { done, token },
    })
}

unsafe extern "C" fn fence(
    tasks: *const Proc,
    count: usize,
    _infos: *const abi::Info,
    _info_count: usize,
    data: *mut c_char,
    size: usize,
    done: ModexDone,
    token: *mut c_void,
) -> c_int {
    // SAFETY: both arrays are the library's and live during the call.
    let (tasks, share) = unsafe { (array(tasks, count), array(data.cast::<u8>(), size)) };
    let who = tasks.iter().map(member).collect();
    post(Event::Fence {
        who,
        share: share.to_vec(),
        reply: ModexReply { done, token },
    })
}

/// What a task of another node has put is brought by exchanges only.
unsafe extern "C" fn direct_modex(
    _task: *const Proc,
    _infos: *const abi::Info,
    _count: usize,
    _done: ModexDone,
    _token: *mut c_void,
) -> c_int {
    abi::NOT_FOUND
}

/// # Safety
/// Null, or `count` elements that live as long as what is returned is used.
unsafe fn array<'a, T>(at: *const T, count: usize) -> &'a [T] {
    match at.is_null() {
        true => &[],
        // SAFETY: the caller's promise.
        false => unsafe { std::slice::from_raw_parts(at, count) },
    }
}

fn member(task: &Proc) -> Member {
    let namespace = task.namespace.iter().map(|c| *c as u8);
    Member {
        namespace: namespace.take_while(|b| *b != 0).collect(),
        rank: task.rank,
    }
}
