//! Threads that ask the controller and read the file that is followed, so that the screen never waits.
//!
//! What is looked at again and again has one thread, what changes jobs another: it does not wait behind
//! a list. Each has its own connection.

use crate::native::follow::LOOK;
use crate::native::follow::files::{From as Begin, Growing, Progress};
use crate::native::top::event::{Answer, Ask, Event, Failure, Got, Listing, News, Said};
use crate::native::top::jobs::{Jobs, MOST_ROWS};
use crate::native::top::quote::ASKED_SLOTS;
use cosy_client::{CallError, Caller, RetryPolicy, cluster, pages};
use cosy_model::JobId;
use cosy_model::api::{JobField, JobFilter, QueueInfo, Reply, Request, Table};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// Waiting jobs in the plan, at most.
const PLANNED_JOBS: u32 = 2000;
/// Lines of a file that are read at first.
const FIRST_LINES: u64 = 500;
/// Bytes of a file that are told at once; of more only the last.
const MOST_BYTES: usize = 1 << 20;
/// A question that is asked again anyway is not repeated for long.
const RECONNECT_FOR: Duration = Duration::from_secs(1);

/// Where threads put what has happened.
#[derive(Clone)]
pub struct Post {
    events: Sender<Event>,
    /// Wakes who waits for events and keys at once.
    bell: Arc<UnixStream>,
}

impl Post {
    /// Puts events there, and writes a byte to `bell`.
    pub fn new(events: Sender<Event>, bell: UnixStream) -> Self {
        Self {
            events,
            bell: Arc::new(bell),
        }
    }

    /// False when nobody listens any more.
    fn put(&self, event: Event) -> bool {
        let heard = self.events.send(event).is_ok();
        // Where it is full somebody has been woken already.
        let _ = (&*self.bell).write(&[1]);
        heard
    }
}

/// The threads.
pub struct Threads {
    looks: Sender<Ask>,
    changes: Sender<Ask>,
    follow: Sender<Option<PathBuf>>,
}

impl Threads {
    /// Starts them.
    pub fn start(post: &Post) -> Self {
        let retry = RetryPolicy {
            reconnect_for: RECONNECT_FOR,
            ..RetryPolicy::default()
        };
        Self {
            looks: asking(post.clone(), retry),
            changes: asking(post.clone(), RetryPolicy::default()),
            follow: following(post.clone()),
        }
    }

    /// Asks; the answer comes as an event.
    pub fn ask(&self, ask: Ask) {
        let thread = match ask.is_look() {
            true => &self.looks,
            false => &self.changes,
        };
        // Its end would have ended the program.
        let _ = thread.send(ask);
    }

    /// Follows that file from now on.
    pub fn follow(&self, path: Option<PathBuf>) {
        let _ = self.follow.send(path);
    }
}

/// Someone who asks the controller. What is to be told meanwhile, as that an answer is old, is given to
/// `notice`: standard error is the screen.
pub fn caller(retry: RetryPolicy, notice: impl FnMut(&str) + 'static) -> Caller {
    Caller::of_sockets(cluster::find(), retry, notice)
}

fn asking(post: Post, retry: RetryPolicy) -> Sender<Ask> {
    let (sender, questions) = channel();
    std::thread::spawn(move || {
        let told = post.clone();
        let mut caller = caller(retry, move |text| {
            told.put(Event::Noted(text.to_owned()));
        });
        for ask in questions {
            let answer = answer(&mut caller, ask);
            if !post.put(Event::Answered(Box::new(answer))) {
                break;
            }
        }
    });
    sender
}

/// Asks, and waits for the answer.
pub fn answer(caller: &mut Caller, ask: Ask) -> Answer {
    let begun = Instant::now();
    let got = got(caller, &ask).map_err(Failure::from);
    Answer {
        ask,
        got,
        took: begun.elapsed(),
    }
}

fn got(caller: &mut Caller, ask: &Ask) -> Result<Got, CallError> {
    match ask {
        Ask::Jobs(filter) => jobs(caller, filter).map(Got::Jobs),
        Ask::Nodes => match caller.ask(Request::Nodes)? {
            Reply::Nodes(all) => Ok(Got::Nodes(all)),
            _ => Err(CallError::Unexpected),
        },
        Ask::Plan { until, own } => {
            let request = Request::PlanChart {
                until: Some(*until),
                most: PLANNED_JOBS,
            };
            let Reply::PlanChart(chart) = caller.ask(request)? else {
                return Err(CallError::Unexpected);
            };
            let own = own_jobs(caller, *own)?;
            Ok(Got::Plan { chart, own })
        }
        Ask::Job(job) => match caller.ask(Request::Explain { job: *job })? {
            Reply::Explained { table, lines } if table.is_sound() => Ok(Got::Job {
                table: Box::new(table),
                told: lines,
            }),
            _ => Err(CallError::Unexpected),
        },
        Ask::Change { request, .. } => match caller.ask((**request).clone())? {
            Reply::Done { changed, refused } => Ok(Got::Changed {
                changed,
                refused: refused
                    .iter()
                    .map(|(object, why)| format!("{object}: {}", why.message))
                    .collect(),
            }),
            _ => Err(CallError::Unexpected),
        },
        Ask::Quote { spec, .. } => {
            let request = Request::Quote {
                ask: spec.clone(),
                most: Some(ASKED_SLOTS),
                as_job: None,
            };
            match caller.ask(request)? {
                Reply::Quote(quote) => Ok(Got::Quote(quote)),
                _ => Err(CallError::Unexpected),
            }
        }
    }
}

/// The first rows of a list, and whether there are more.
fn jobs(caller: &mut Caller, filter: &JobFilter) -> Result<Listing, CallError> {
    let (table, cut) = first_rows(caller, filter, Jobs::fields())?;
    // Only of everybody's jobs it is known without a list how many there are.
    let in_all = match cut && filter.users.is_empty() && filter.queues.is_empty() {
        true => match caller.ask(Request::Queues)? {
            Reply::Queues(all) => Some(all.iter().map(in_queue).sum()),
            _ => return Err(CallError::Unexpected),
        },
        false => None,
    };
    Ok(Listing { table, cut, in_all })
}

fn in_queue(queue: &QueueInfo) -> u64 {
    u64::from(queue.waiting) + u64::from(queue.running)
}

/// As many rows as are shown, and whether there are more.
fn first_rows(
    caller: &mut Caller,
    filter: &JobFilter,
    fields: Vec<JobField>,
) -> Result<(Table, bool), CallError> {
    let request = Request::Jobs {
        filter: JobFilter {
            most: u32::try_from(MOST_ROWS).ok(),
            ..filter.clone()
        },
        fields,
        fold_arrays: true,
    };
    let mut table = pages::jobs(|request| caller.ask(request), request)?;
    // A controller of an earlier release fills its answer.
    let cut = table.more.take().is_some() || table.rows > MOST_ROWS;
    if table.rows > MOST_ROWS {
        let kept: Vec<bool> = (0..table.rows).map(|row| row < MOST_ROWS).collect();
        table.keep(&kept);
    }
    Ok((table, cut))
}

/// Ids of a user's jobs, of arrays the first.
fn own_jobs(caller: &mut Caller, uid: u32) -> Result<Vec<JobId>, CallError> {
    let filter = JobFilter {
        users: vec![uid.to_string()],
        ..JobFilter::default()
    };
    let (table, _) = first_rows(caller, &filter, vec![JobField::Ref])?;
    let id = |row| {
        let name = table.text(row, JobField::Ref);
        name.split(['_', '+']).next()?.parse().ok().map(JobId)
    };
    Ok((0..table.rows).filter_map(id).collect())
}

fn following(post: Post) -> Sender<Option<PathBuf>> {
    let (sender, paths) = channel();
    std::thread::spawn(move || follow(&post, &paths));
    sender
}

fn follow(post: &Post, paths: &Receiver<Option<PathBuf>>) {
    let mut file: Option<Followed> = None;
    loop {
        let next = match &file {
            Some(_) => paths.recv_timeout(LOOK),
            None => paths.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match next {
            Ok(path) => file = path.map(Followed::new),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let news = file.iter_mut().flat_map(Followed::look);
        if !news.into_iter().all(|news| post.put(Event::Output(news))) {
            return;
        }
    }
}

/// A file that is followed.
pub struct Followed {
    file: Growing,
    /// What was told last, where that was not that it goes on.
    told: Option<Said>,
}

impl Followed {
    /// The file at a path, which need not be there.
    pub const fn new(path: PathBuf) -> Self {
        Self {
            file: Growing::new(path, Begin::LastLines(FIRST_LINES)),
            told: None,
        }
    }

    /// What there is new of it.
    pub fn look(&mut self) -> Vec<News> {
        let mut all = Vec::new();
        let mut last = Last(Vec::new());
        let said = match self.file.look_again() {
            Ok(again) => {
                if again {
                    all.push(Said::Anew);
                }
                match self.file.copy(&mut last) {
                    Ok(Progress::Absent) => Some(Said::Absent),
                    Ok(Progress::Read(0)) => None,
                    Ok(Progress::Read(_)) => Some(Said::More(last.0)),
                    Err(e) => Some(Said::Unreadable(e.to_string())),
                }
            }
            Err(e) => Some(Said::Unreadable(e.to_string())),
        };
        // That it is not there is told once.
        if said.is_some() && said != self.told {
            all.extend(said.clone());
        }
        if said.is_some() || !all.is_empty() {
            self.told = said.filter(|said| !matches!(said, Said::More(_)));
        }
        let path = self.file.path();
        let news = |said| News {
            path: path.to_owned(),
            said,
        };
        all.into_iter().map(news).collect()
    }
}

/// Keeps the last bytes.
struct Last(Vec<u8>);

impl Write for Last {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.extend_from_slice(bytes);
        if self.0.len() > 2 * MOST_BYTES {
            self.0.drain(..self.0.len() - MOST_BYTES);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn files_are_followed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        let mut followed = Followed::new(path.clone());
        let mut check = |want: &[Said]| {
            let said: Vec<Said> = followed.look().into_iter().map(|news| news.said).collect();
            assert_eq!(said, want);
        };
        check(&[Said::Absent]);
        check(&[]);
        fs::write(&path, "one\n").unwrap();
        check(&[Said::More(b"one\n".to_vec())]);
        check(&[]);
        fs::write(&path, "").unwrap();
        check(&[Said::Anew]);
        fs::write(&path, "two\n").unwrap();
        check(&[Said::More(b"two\n".to_vec())]);
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        check(&[Said::Unreadable("it is no regular file".into())]);
        check(&[]);
    }

    #[test]
    fn of_much_the_last_is_told() {
        let mut last = Last(Vec::new());
        for _ in 0..100 {
            last.write_all(&[b'x'; 64 << 10]).unwrap();
        }
        last.write_all(b"end").unwrap();
        assert!(last.0.len() <= 2 * MOST_BYTES + (64 << 10) && last.0.ends_with(b"end"));
    }
}
