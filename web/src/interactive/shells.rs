//! Terminals in jobs: each is a step of the job with a terminal of its own, whose other end is here.
//!
//! A shell lives as long as somebody looks at it, and a while longer: a browser that was lost finds it
//! again. It ends with its job, with this program, and when nobody has looked for long.

use super::nodes;
use super::screen::{Screen, ScreenSize, View};
use crate::limits::{SHELL_UNSEEN, SHELLS, SHELLS_OF_USER};
use crate::problem::{Problem, Result};
use crate::site::{Site, now};
use cosy_model::api::{JobFilter, JobRef, Request};
use cosy_model::limits::STDIN_WINDOW;
use cosy_model::step::{
    DownFrame, InputFrom, StepAnswer, StepAsk, StepCommand, StepKey, StepSpec, Stream, UpFrame,
    Window,
};
use cosy_model::{JobId, OsText, Span, Time, Uid};
use cosy_proto::keys::random_hex;
use cosy_proto::step::{self, StepFrame};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, watch};

/// Orders to a shell that wait: keys, sizes, its end.
const ORDERS: usize = 64;
/// How often it is looked whether anybody looks.
const LOOK: Duration = Duration::from_secs(30);
/// What a shell that is ended may take to end itself.
const GRACE: Span = Span::from_secs(5);
/// The steps of shells are called so.
const NAME: &str = "web-shell";
/// Where programs are looked for until the shell's own files say it.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// All shells, by name.
#[derive(Default)]
pub struct Shells(Mutex<BTreeMap<String, Arc<Shell>>>);

/// One of them.
pub struct Shell {
    /// Its name, which nobody guesses.
    pub id: String,
    /// Whose it is.
    pub owner: Uid,
    /// The step.
    pub key: StepKey,
    /// Since when it is there.
    pub since: Time,
    /// The job was begun for it and ends with it.
    pub ends_job: bool,
    state: Mutex<State>,
    changes: watch::Sender<u64>,
    orders: mpsc::Sender<DownFrame>,
}

struct State {
    screen: Screen,
    /// How it ended; nothing while it runs.
    ended: Option<String>,
    seen: Instant,
}

/// The user as the directory of this host knows it.
pub struct ShellUser {
    /// Login name.
    pub name: String,
    /// Home directory.
    pub home: String,
    /// Login shell.
    pub shell: String,
}

impl Shells {
    fn locked(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Shell>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those of a user.
    pub fn of(&self, owner: Uid) -> Vec<Arc<Shell>> {
        let all = self.locked();
        all.values()
            .filter(|shell| shell.owner == owner)
            .cloned()
            .collect()
    }

    /// A shell of that user.
    ///
    /// # Errors
    /// There is none.
    pub fn get(&self, owner: Uid, id: &str) -> Result<Arc<Shell>> {
        let found = self
            .locked()
            .get(id)
            .filter(|shell| shell.owner == owner)
            .cloned();
        found.ok_or_else(|| Problem::not_found("that shell is over: start another one"))
    }

    fn has_room(&self, owner: Uid) -> Result<()> {
        let mut all = self.locked();
        // What has ended stays until its place is needed, so that its last words can be read.
        let own = |all: &BTreeMap<String, Arc<Shell>>| {
            all.values().filter(|shell| shell.owner == owner).count()
        };
        if own(&all) >= SHELLS_OF_USER || all.len() >= SHELLS {
            all.retain(|_, shell| !shell.is_over());
        }
        match own(&all) >= SHELLS_OF_USER || all.len() >= SHELLS {
            true => Err(Problem::busy("too many shells are open: end one of them")),
            false => Ok(()),
        }
    }

    /// Starts a shell in an own running job.
    ///
    /// # Errors
    /// The job does not run, its node cannot be reached, or too many are open.
    pub async fn start(
        site: &Arc<Site>,
        owner: Uid,
        user: &ShellUser,
        job: JobId,
        size: ScreenSize,
        ends_job: bool,
    ) -> Result<Arc<Shell>> {
        site.shells.has_room(owner)?;
        let ask = StepAsk::Start {
            job,
            spec: Box::new(spec(user, size)),
        };
        let (answer, stream) = nodes::ask(site, owner, ask).await?;
        let StepAnswer::Created { key, .. } = answer else {
            return Err(Problem::unexpected());
        };
        let (orders, inbox) = mpsc::channel(ORDERS);
        let shell = Arc::new(Shell {
            id: random_hex(12).map_err(|e| Problem::unavailable(e.to_string()))?,
            owner,
            key,
            since: now(),
            ends_job,
            state: Mutex::new(State {
                screen: Screen::new(size),
                ended: None,
                seen: Instant::now(),
            }),
            changes: watch::Sender::new(0),
            orders,
        });
        site.shells.has_room(owner)?; // others came meanwhile
        site.shells.locked().insert(shell.id.clone(), shell.clone());
        tokio::spawn(attend(site.clone(), shell.clone(), stream, inbox));
        Ok(shell)
    }
}

/// The step: the user's login shell, beside whatever runs in the job.
fn spec(user: &ShellUser, size: ScreenSize) -> StepSpec {
    let argv = [user.shell.as_str(), "-l"].map(OsText::from).to_vec();
    let command = StepCommand::Run {
        argv,
        expand: false,
    };
    let variables = [
        ("HOME", user.home.as_str()),
        ("USER", &user.name),
        ("LOGNAME", &user.name),
        ("SHELL", &user.shell),
        ("PATH", PATH),
        ("TERM", "xterm-256color"),
        ("COLORTERM", "truecolor"),
        ("LANG", "C.UTF-8"),
    ];
    let variables = variables.map(|(name, value)| format!("{name}={value}"));
    StepSpec {
        nodes: Some(1),
        tasks: Some(1),
        overlap: true,
        patience: Some(Span::ZERO),
        grace: GRACE,
        workdir: OsText::from(user.home.as_str()),
        environment: OsText(variables.join("\0").into_bytes()),
        stdin: InputFrom::Rank(0),
        pty: Some(Window {
            rows: size.lines,
            columns: size.columns,
        }),
        ..StepSpec::plain(NAME, command)
    }
}

impl Shell {
    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it has ended.
    pub fn is_over(&self) -> bool {
        self.locked().ended.is_some()
    }

    /// How it ended; nothing while it runs.
    pub fn ended(&self) -> Option<String> {
        self.locked().ended.clone()
    }

    /// What is seen now, so many lines above the last ones; somebody looks.
    pub fn view(&self, above: usize) -> View {
        let mut state = self.locked();
        state.seen = Instant::now();
        state.screen.view(above)
    }

    /// Tells when something has changed.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    /// Types something.
    ///
    /// # Errors
    /// Nothing reads it, or the shell is over.
    pub fn type_in(&self, bytes: Vec<u8>) -> Result<()> {
        self.order(DownFrame::Stdin { bytes })
    }

    /// Gives it another size.
    ///
    /// # Errors
    /// The shell is over.
    pub fn resize(&self, size: ScreenSize) -> Result<()> {
        self.order(DownFrame::Window(Window {
            rows: size.lines,
            columns: size.columns,
        }))?;
        self.locked().screen.resize(size);
        self.changed();
        Ok(())
    }

    /// Ends it.
    ///
    /// # Errors
    /// It is over.
    pub fn end(&self) -> Result<()> {
        self.order(DownFrame::Kill)
    }

    fn order(&self, frame: DownFrame) -> Result<()> {
        self.orders.try_send(frame).map_err(|e| match e {
            mpsc::error::TrySendError::Full(_) => {
                Problem::busy("the program in the shell does not read what is typed")
            }
            mpsc::error::TrySendError::Closed(_) => Problem::not_found("that shell is over"),
        })
    }
}

/// Carries everything between a shell and its step until the step is over.
async fn attend(
    site: Arc<Site>,
    shell: Arc<Shell>,
    stream: UnixStream,
    orders: mpsc::Receiver<DownFrame>,
) {
    let (from, to) = stream.into_split();
    let carried = Carrier {
        shell: &shell,
        from,
        to,
        buffer: Vec::new(),
        out: VecDeque::new(),
        sent: 0,
        taken: 0,
        words: None,
    };
    let words = carried.carry(orders).await;
    shell.locked().ended = Some(words);
    shell.changed();
    if shell.ends_job {
        give_back(&site, shell.owner, shell.key.attempt.job).await;
    }
}

/// The job was there for the shell alone.
async fn give_back(site: &Site, owner: Uid, job: JobId) {
    let only = JobRef { job, task: None };
    let cancel = Request::Cancel {
        filter: JobFilter {
            ids: vec![only],
            ..JobFilter::default()
        },
        signal: None,
        script_only: false,
        steps_only: false,
    };
    if let Err(problem) = site.cluster.ask(owner, cancel).await {
        tracing::warn!("job {job} was not given back after its shell: {}", problem.message);
    }
}

struct Carrier<'a> {
    shell: &'a Shell,
    from: OwnedReadHalf,
    to: OwnedWriteHalf,
    /// What was read and is no whole frame yet.
    buffer: Vec<u8>,
    /// What is to be written.
    out: VecDeque<u8>,
    /// Bytes of input that were sent, and that the shell has taken.
    sent: u64,
    taken: u64,
    /// How the shell ended.
    words: Option<String>,
}

impl Carrier<'_> {
    async fn carry(mut self, mut orders: mpsc::Receiver<DownFrame>) -> String {
        let mut look = tokio::time::interval(LOOK);
        loop {
            let has_room = self.sent.saturating_sub(self.taken) < STDIN_WINDOW / 2;
            let is_writing = !self.out.is_empty();
            tokio::select! {
                read = self.from.read_buf(&mut self.buffer) => match read {
                    Ok(0) | Err(_) => return self.words.take().unwrap_or_else(|| "the node was lost".to_owned()),
                    Ok(_) => if let Some(words) = self.take_frames() {
                        return words;
                    },
                },
                written = self.to.write(self.out.make_contiguous()), if is_writing => match written {
                    Ok(bytes) => drop(self.out.drain(..bytes)),
                    Err(_) => self.out.clear(),
                },
                order = orders.recv(), if has_room => if let Some(order) = order {
                    self.send(order);
                },
                _ = look.tick() => if self.shell.locked().seen.elapsed() > SHELL_UNSEEN {
                    self.words = Some("nobody has looked at it for long".to_owned());
                    self.send(DownFrame::Kill);
                },
            }
        }
    }

    fn send(&mut self, frame: DownFrame) {
        if let DownFrame::Stdin { bytes } = &frame {
            self.sent = self.sent.saturating_add(bytes.len() as u64);
        }
        let mut bytes = Vec::new();
        if step::put(&mut bytes, &StepFrame::Down(frame)).is_ok() {
            self.out.extend(bytes);
        }
    }

    /// Takes the whole frames; gives how the shell ended, at its end.
    fn take_frames(&mut self) -> Option<String> {
        let mut at = 0;
        let mut over = None;
        let buffer = std::mem::take(&mut self.buffer);
        while over.is_none() {
            match step::first(&buffer[at..]) {
                Ok(Some((StepFrame::Up(frame), length))) => {
                    at += length;
                    over = self.take(frame);
                }
                Ok(Some((_, length))) => at += length,
                Ok(None) => break,
                Err(_) => over = Some("the node speaks another language".to_owned()),
            }
        }
        self.buffer = buffer;
        self.buffer.drain(..at);
        over
    }

    fn take(&mut self, frame: UpFrame) -> Option<String> {
        match frame {
            UpFrame::Output {
                stream: Stream::Output | Stream::Error,
                bytes,
                ..
            } => {
                let answers = self.shell.locked().screen.write(&bytes);
                if !answers.is_empty() {
                    self.send(DownFrame::Stdin { bytes: answers });
                }
                self.shell.changed();
            }
            UpFrame::StdinTaken { bytes } => self.taken = self.taken.max(bytes),
            UpFrame::TaskEnded { end, .. } => {
                let words = match (end.failure, end.signal, end.exit_code) {
                    (Some(why), _, _) => why,
                    (None, 0, 0) => "it has ended".to_owned(),
                    (None, 0, code) => format!("it has ended with code {code}"),
                    (None, signal, _) => format!("signal {signal} has ended it"),
                };
                self.words.get_or_insert(words);
            }
            UpFrame::Lost { reason, .. } => drop(self.words.get_or_insert(reason)),
            UpFrame::NodeEnded { .. } => {
                return Some(
                    self.words
                        .take()
                        .unwrap_or_else(|| "it has ended".to_owned()),
                );
            }
            UpFrame::Started { .. }
            | UpFrame::Ending { .. }
            | UpFrame::Gather { .. }
            | UpFrame::Display(_)
            | UpFrame::Abort { .. } => {}
        }
        None
    }
}
