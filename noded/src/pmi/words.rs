//! What tasks ask and are answered, in both versions of the interface: the wire formats
//! ([`super::pmi1`], [`super::pmi2`]) turn bytes into [`PmiRequest`]s and [`Reply`]s into bytes, and
//! know nothing else.

/// What is asked, without its particulars: an answer names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verb {
    Limits,
    Program,
    Universe,
    SpaceName,
    FullInit,
    Barrier,
    Put,
    Get,
    Numbered,
    JobAttribute,
    PutNodeAttribute,
    NodeAttribute,
    Publish,
    Lookup,
    Unpublish,
    Spawn,
    Connect,
    Disconnect,
    Finalize,
}

/// A request of a task, in whichever version.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PmiRequest {
    /// The task has come to a barrier.
    Barrier,
    /// The task will send nothing more.
    Finalize,
    /// End the step. Nothing is answered.
    Abort { code: i32, reason: String },
    /// Leave something for the tasks of this node.
    PutNodeAttribute { key: Vec<u8>, value: Vec<u8> },
    /// What a task of this node has left; wait until one does.
    NodeAttribute { key: Vec<u8>, wait: bool },
    /// Something that is answered at once and concerns nobody else.
    Now(Question),
}

/// What is answered at once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Question {
    /// How long keys and values may be.
    Limits,
    /// The number of the task's program.
    Program,
    /// How many tasks there could be.
    Universe,
    /// The name of the key-value space.
    SpaceName,
    /// PMI-2's second greeting; the rank that the task believes to have.
    FullInit { rank: Option<u32> },
    /// Put a value.
    Put { key: Vec<u8>, value: Vec<u8> },
    /// Get a value; of another step's space when one is named.
    Get {
        space: Option<Vec<u8>>,
        key: Vec<u8>,
    },
    /// Get the value of this number.
    Numbered { number: usize },
    /// What is known of the step.
    JobAttribute { key: Vec<u8> },
    /// Publish a name.
    Publish { name: Vec<u8>, port: Vec<u8> },
    /// Look a name up.
    Lookup { name: Vec<u8> },
    /// Take a name back.
    Unpublish { name: Vec<u8> },
    /// Start further processes.
    Spawn,
    /// Connect with another step.
    Connect,
    /// Leave it again.
    Disconnect,
}

impl From<Question> for PmiRequest {
    fn from(question: Question) -> Self {
        Self::Now(question)
    }
}

/// The answer to a request, in whichever version.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reply<'a> {
    /// Done; nothing to tell.
    Done,
    /// The number that was asked for.
    Number(u32),
    /// Value of a key, as its writer put it.
    Value(&'a [u8]),
    /// An entry of the space and the number of the next.
    Entry {
        key: &'a [u8],
        value: &'a [u8],
        next: usize,
    },
    /// Rank, number of tasks and of its program.
    Greeting { rank: u32, tasks: u32, program: u32 },
    /// There is no such thing.
    Missing,
    /// No, and why.
    Refused(String),
}

/// Which of a task's threads asks (PMI-2): a short word that is repeated in the answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Thread {
    word: [u8; Self::LONGEST],
    length: usize,
}

impl Thread {
    /// Programs write an address or a number.
    const LONGEST: usize = 32;

    /// `None` for what is no short word.
    pub fn new(word: &[u8]) -> Option<Self> {
        let fits = word.len() <= Self::LONGEST && word.iter().all(u8::is_ascii_alphanumeric);
        fits.then(|| {
            let mut kept = [0; Self::LONGEST];
            kept[..word.len()].copy_from_slice(word);
            Self {
                word: kept,
                length: word.len(),
            }
        })
    }

    /// The identifier as it was sent.
    pub fn bytes(&self) -> &[u8] {
        &self.word[..self.length]
    }
}

/// A message and to whose thread an answer goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// What the task asks of the server.
    pub request: PmiRequest,
    /// Number of the task's thread, repeated in the answer (PMI-2).
    pub thread: Option<Thread>,
}

/// A part of what a task said, for a message: printable and short.
pub fn shown(bytes: &[u8]) -> String {
    let short = &bytes[..bytes.len().min(40)];
    let more = if bytes.len() > short.len() { "..." } else { "" };
    format!("`{}`{more}", short.escape_ascii())
}

/// A decimal number, or `None`.
pub fn number<T: std::str::FromStr>(bytes: &[u8]) -> Option<T> {
    std::str::from_utf8(bytes).ok()?.trim().parse().ok()
}
