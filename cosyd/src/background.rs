//! Effects that take their time: looking users up, planning, appraising reservations, mail,
//! reading the configuration again. Each has threads or a task of its own and comes back as
//! an event; none of them waits for another.

use crate::archiver::Archiver;
use crate::budget::Requester;
use crate::config::{self, Config, DaemonConfig};
use crate::directory;
use crate::engine::Input;
use crate::hub::Hub;
use crate::memory::Memory;
use crate::pool::{Bounds, Pool};
use crate::power;
use crate::program;
use crate::submit::Gate;
use cosy_control::{
    ClusterConfig, Effect, Event, InsidePlan, LookupFailure, PowerEnd, PowerOrder, WakeQuestion,
    predictions,
};
use cosy_model::api::Reply;
use cosy_model::{JobId, Refusal, RefusalCode, Time, Uid, fold, text};
use cosy_sched::Scheduler;
use cosy_sched::appraise::{Appraisal, Inquiry, Starts};
use cosy_sched::workflow::live::{LiveError, LiveFlow};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::mpsc;

/// Work for a thread of its own.
pub struct BackgroundWork {
    /// Computes what happened.
    pub run: Box<dyn FnOnce() -> Event + Send>,
    /// What happened when that fails: nobody waits for ever.
    pub failed: Event,
}

/// How much a thread gives way to others: its nice value, 0 to 19.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Nice(pub i32);

/// Starts a thread that does one work after another. It ends when nobody can ask it any
/// more.
///
/// A fault in the planner is told in the log and answered with [`BackgroundWork::failed`].
///
/// # Errors
/// The system gives no thread.
pub fn start_worker(
    name: &'static str,
    nice: Nice,
    core: mpsc::Sender<Input>,
) -> std::io::Result<std::sync::mpsc::Sender<BackgroundWork>> {
    let (sender, works) = std::sync::mpsc::channel::<BackgroundWork>();
    std::thread::Builder::new()
        .name(name.into())
        .spawn(move || {
            give_way(name, nice);
            for work in works {
                let event = catch_unwind(AssertUnwindSafe(work.run)).unwrap_or_else(|_| {
                    tracing::error!("the {name} has failed at {:?}", work.failed);
                    work.failed
                });
                let _ = core.blocking_send(Input::Event(Box::new(event)));
            }
        })?;
    Ok(sender)
}

/// On Linux a nice value is a thread's own.
fn give_way(name: &str, nice: Nice) {
    if let Err(e) = rustix::process::nice(nice.0) {
        tracing::warn!("the {name} does not give way to other threads: {e}");
    }
}

/// The threads that compute, each with its own line of work.
pub struct Workers {
    /// Makes plans: a deep plan takes a core for a while.
    pub planner: std::sync::mpsc::Sender<BackgroundWork>,
    /// Appraises a few starts, for bookings: never waits behind a long quote.
    pub appraiser: std::sync::mpsc::Sender<BackgroundWork>,
    /// Appraises many starts, for quotes.
    pub quoter: std::sync::mpsc::Sender<BackgroundWork>,
    /// Makes plans of workflows, one after another.
    pub flows: std::sync::mpsc::Sender<BackgroundWork>,
}

impl Workers {
    /// Starts them. Those for reservations give way to the core and the writer, on which
    /// every command waits.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(core: &mpsc::Sender<Input>) -> std::io::Result<Self> {
        let start = |name, nice| start_worker(name, nice, core.clone());
        Ok(Self {
            planner: start("planner", Nice(0))?,
            appraiser: start("appraiser", Nice(2))?,
            quoter: start("quoter", Nice(10))?,
            flows: start("flow planner", Nice(5))?,
        })
    }

    fn of(&self, starts: &Starts) -> &std::sync::mpsc::Sender<BackgroundWork> {
        if starts.are_few() {
            &self.appraiser
        } else {
            &self.quoter
        }
    }
}

/// Performs slow effects.
pub struct Background {
    /// The core's mailbox, which takes results.
    pub core: mpsc::Sender<Input>,
    /// The way of replies to commands.
    pub hub: Arc<Hub>,
    /// The file to read again.
    pub config_file: PathBuf,
    /// As which controller it is read.
    pub config_name: Option<String>,
    /// The present configuration of the daemon.
    pub daemon: DaemonConfig,
    /// Takes what is read again.
    pub in_force: InForce,
    /// Compute plans and prices.
    pub workers: Workers,
    /// Where results wait for room in the core's mailbox.
    pub runtime: tokio::runtime::Handle,
    /// Looks up those whose jobs are to start.
    pub resolver: Pool<()>,
    /// Runs the mail command, once for each mail.
    pub post: Pool<()>,
    /// Runs the programs that switch nodes.
    pub power: Pool<()>,
}

/// What of the configuration takes effect without a restart.
#[derive(Clone)]
pub struct InForce {
    /// The present configuration of the cluster.
    pub cluster: Arc<Mutex<ClusterConfig>>,
    /// Has the rules at submission.
    pub gate: Arc<Gate>,
    /// Knows how long history is kept.
    pub archiver: Arc<Archiver>,
    /// Knows how much memory there may be.
    pub memory: Arc<Memory>,
}

impl InForce {
    /// Takes a configuration that was read again.
    pub fn replace(&self, config: &Config) {
        if let Ok(mut cluster) = self.cluster.lock() {
            *cluster = config.cluster.clone();
        }
        self.gate.replace(config.submit.clone());
        self.archiver.replace(config.retention);
        self.memory.set_limit(config.daemon.memory_limit);
    }
}

/// A mail must be on its way after so long.
const MAIL_TIME: Duration = Duration::from_secs(30);

/// Threads that look users up for the core.
///
/// # Errors
/// The system gives no thread.
pub fn start_resolver() -> std::io::Result<Pool<()>> {
    let bounds = Bounds {
        threads: 4,
        per_user: 1,
        waiting_per_user: 2,
        waiting: 100_000,
    };
    Pool::start("look-ups for jobs", bounds)
}

/// Threads that send mail. What comes beyond the line is not sent.
///
/// # Errors
/// The system gives no thread.
pub fn start_post() -> std::io::Result<Pool<()>> {
    let bounds = Bounds {
        threads: 3,
        per_user: 2,
        waiting_per_user: 10_000,
        waiting: 10_000,
    };
    Pool::start("mails", bounds)
}

/// Threads that run programs which switch nodes: for as many as the controller has run at once, and one
/// for those that are told of failures.
///
/// # Errors
/// The system gives no thread.
pub fn start_power() -> std::io::Result<Pool<()>> {
    let bounds = Bounds {
        threads: 10,
        per_user: 9,
        waiting_per_user: 1000,
        waiting: 1000,
    };
    Pool::start("programs that switch nodes", bounds)
}

impl Background {
    /// Starts an effect; does not wait for it.
    pub fn perform(&self, effect: Effect) {
        match effect {
            Effect::ResolveUser(uid) => {
                let core = self.core.clone();
                let command = self.daemon.lookup_command.clone();
                let look_up = move |(): &mut ()| {
                    let result = directory::look_up(uid, command.as_deref());
                    let event = Event::UserResolved { uid, result };
                    let _ = core.blocking_send(Input::Event(Box::new(event)));
                };
                if self.resolver.submit(ordinary(uid), look_up).is_err() {
                    // It is asked for again.
                    let result = Err(LookupFailure::Down);
                    self.tell(Event::UserResolved { uid, result });
                }
            }
            Effect::TellDurable => self.tell(Event::BecameDurable),
            Effect::Plan {
                plan,
                scheduler,
                inside,
                only,
                most,
            } => {
                let _ = self
                    .workers
                    .planner
                    .send(planning(plan, scheduler, inside, only, most));
            }
            Effect::Appraise {
                appraisal,
                now,
                scheduler,
                inquiry,
            } => {
                let worker = self.workers.of(&inquiry.starts);
                let _ = worker.send(appraising(appraisal, now, scheduler, inquiry));
            }
            Effect::PlanFlow {
                plan,
                now,
                scheduler,
                flow,
            } => {
                let work = planning_flow(plan, now, scheduler, flow);
                let _ = self.workers.flows.send(work);
            }
            Effect::Reload { client } => {
                let reply = match self.reload() {
                    Ok((config, waiting)) => {
                        self.tell(Event::Reconfigured(Box::new(config)));
                        Reply::Done {
                            changed: 1,
                            refused: waiting.into_iter().map(waits_for_restart).collect(),
                        }
                    }
                    Err(why) => Reply::Refused(Refusal::invalid(why)),
                };
                self.hub.answer(client, reply);
            }
            Effect::PlanWakes(question) => {
                let _ = self.workers.planner.send(planning_wakes(question));
            }
            Effect::Power(order) => self.switch_nodes(*order),
            Effect::Mail { to, subject, body } => self.mail(to, subject, body),
            _ => {}
        }
    }

    /// Puts an event into the core's mailbox, without waiting for room in it.
    fn tell(&self, event: Event) {
        let core = self.core.clone();
        self.runtime.spawn(async move {
            let _ = core.send(Input::Event(Box::new(event))).await;
        });
    }

    /// The configuration read again, and its keys that wait for a restart.
    fn reload(&self) -> Result<(ClusterConfig, Vec<&'static str>), String> {
        let config = config::read_as(&self.config_file, self.config_name.as_deref())
            .map_err(|f| format!("the configuration has faults; nothing was changed: {f}"))?;
        self.in_force.replace(&config);
        Ok((config.cluster, self.daemon.changed(&config.daemon)))
    }

    /// Runs a program of the site that switches nodes, and tells how it has ended.
    fn switch_nodes(&self, order: PowerOrder) {
        let (core, dir) = (self.core.clone(), self.daemon.state_dir.clone());
        let (program, nodes) = (order.program, order.nodes.clone());
        let work = move |(): &mut ()| {
            let failure = power::run(&order, &dir).err();
            let PowerOrder { program, nodes, .. } = order;
            if let Some(why) = &failure {
                tracing::warn!("nodes {}: the {} program: {why}", fold(&nodes), program.word());
            }
            let ended = Event::PowerEnded(Box::new(PowerEnd {
                program,
                nodes,
                failure,
            }));
            let _ = core.blocking_send(Input::Event(Box::new(ended)));
        };
        if let Err(refusal) = self.power.submit(ordinary(Uid(u32::MAX)), work) {
            self.tell(Event::PowerEnded(Box::new(PowerEnd {
                program,
                nodes,
                failure: Some(refusal.to_string()),
            })));
        }
    }

    /// No shell, no user text but as arguments of its own and on standard input.
    fn mail(&self, to: String, subject: String, body: String) {
        let Some(command) = self.daemon.mail_command.clone() else {
            return;
        };
        let address = to.clone();
        let work = move |(): &mut ()| match send_mail(&command, (&to, &subject, &body), MAIL_TIME) {
            Ok(()) => {}
            Err(why) => tracing::warn!("mail to {to}: {why}"),
        };
        if let Err(refusal) = self.post.submit(ordinary(Uid(u32::MAX)), work) {
            tracing::warn!("mail to {address} is not sent: {refusal}");
        }
    }
}

fn waits_for_restart(key: &str) -> (String, Refusal) {
    let why = "it has changed and takes effect when cosyd is restarted";
    let refusal = Refusal::new(RefusalCode::WrongState, why.to_owned());
    (key.to_owned(), refusal)
}

fn ordinary(uid: Uid) -> Requester {
    Requester {
        uid,
        trusted: false,
    }
}

/// A pipe in which all of the text is. More than it takes is cut: nobody waits for who does not read.
fn text_of(body: &str) -> std::io::Result<Stdio> {
    use std::io::Write;
    /// A pipe takes that much at once (pipe(7)).
    const BYTES: usize = 4096;
    let (reader, mut writer) = std::io::pipe()?;
    writer.write_all(text::cut(body, BYTES).as_bytes())?;
    Ok(reader.into())
}

/// Runs the mail command, with the text on its standard input; one that does not end is ended.
fn send_mail(
    command: &[String],
    (to, subject, body): (&str, &str, &str),
    time: Duration,
) -> Result<(), String> {
    let Some((path, args)) = command.split_first() else {
        return Ok(());
    };
    let stdin = text_of(body).map_err(|e| format!("cannot hand the text on: {e}"))?;
    let mut command = Command::new(path);
    command
        .args(args)
        .args([to, subject])
        .stdin(stdin)
        .stdout(Stdio::null());
    program::run(&mut command, time, |_| ())
}

fn planning(
    plan: u64,
    scheduler: Box<Scheduler>,
    inside: Vec<InsidePlan>,
    only: Option<JobId>,
    most: usize,
) -> BackgroundWork {
    let run = move || {
        let now = crate::clock::now();
        let predictions = predictions(now, &scheduler, &inside, only, most);
        Event::Planned { plan, predictions }
    };
    let failed = Event::Planned {
        plan,
        predictions: Vec::new(),
    };
    BackgroundWork {
        run: Box::new(run),
        failed,
    }
}

fn planning_wakes(question: Box<WakeQuestion>) -> BackgroundWork {
    let WakeQuestion {
        now,
        until,
        scheduler,
    } = *question;
    BackgroundWork {
        run: Box::new(move || Event::WakesPlanned(scheduler.starts_until(now, until))),
        failed: Event::WakesPlanned(Vec::new()),
    }
}

fn appraising(
    appraisal: u64,
    now: Time,
    scheduler: Box<Scheduler>,
    inquiry: Box<Inquiry>,
) -> BackgroundWork {
    let run = move || Event::Appraised {
        appraisal,
        result: Box::new(scheduler.appraise(now, &inquiry)),
    };
    // Without a slot: what was asked for is refused.
    let nothing = Appraisal {
        now,
        plain_start: None,
        joint_start: None,
        load_end: now,
        plan_end: now,
        slots: Vec::new(),
    };
    let failed = Event::Appraised {
        appraisal,
        result: Box::new(nothing),
    };
    BackgroundWork {
        run: Box::new(run),
        failed,
    }
}

fn planning_flow(
    plan: u64,
    now: Time,
    scheduler: Box<Scheduler>,
    flow: Box<LiveFlow>,
) -> BackgroundWork {
    let run = move || Event::FlowPlanned {
        plan,
        result: Box::new(scheduler.plan_flow(now, &flow)),
    };
    let failed = Event::FlowPlanned {
        plan,
        result: Box::new(Err(LiveError::Failed)),
    };
    BackgroundWork {
        run: Box::new(run),
        failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tick(panics: bool) -> BackgroundWork {
        let run = move || {
            assert!(!panics, "as told");
            Event::Ticked
        };
        BackgroundWork {
            run: Box::new(run),
            failed: Event::Planned {
                plan: 7,
                predictions: Vec::new(),
            },
        }
    }

    #[test]
    fn a_fault_is_answered_and_the_next_work_is_done() {
        let (core, mut inbox) = mpsc::channel(4);
        let worker = start_worker("worker", Nice(0), core).unwrap();
        for panics in [true, false] {
            worker.send(tick(panics)).unwrap();
        }
        let mut next = || match inbox.blocking_recv() {
            Some(Input::Event(event)) => *event,
            other => panic!("{other:?}"),
        };
        assert!(matches!(next(), Event::Planned { plan: 7, .. }));
        assert!(matches!(next(), Event::Ticked));
    }

    #[test]
    fn a_mail_command_that_hangs_is_ended() {
        let sleep: Vec<String> = ["/bin/sh", "-c", "sleep 1000 & wait"]
            .map(str::to_owned)
            .into();
        let why = send_mail(&sleep, ("ann", "x", ""), Duration::from_millis(10)).unwrap_err();
        assert!(why.contains("was ended"), "{why}");
        let long = Duration::from_secs(60);
        let fine = ["/bin/sh", "-c", "test $0-$1-`cat` = ann-x-y"].map(str::to_owned);
        assert_eq!(send_mail(&fine, ("ann", "x", "y\n"), long), Ok(()));
        assert!(send_mail(&fine, ("bob", "x", "y\n"), long).is_err());
        assert!(send_mail(&fine, ("ann", "x", ""), long).is_err());
        // One that reads nothing, and a text that no pipe takes.
        let blind = ["/bin/true".to_owned()];
        assert_eq!(send_mail(&blind, ("ann", "x", &"ä".repeat(1 << 20)), long), Ok(()));
    }

    #[test]
    fn only_the_worker_gives_way() {
        let (core, mut inbox) = mpsc::channel(4);
        let worker = start_worker("worker", Nice(10), core).unwrap();
        let (sender, receiver) = std::sync::mpsc::channel();
        let mine = || rustix::process::getpriority_process(None).unwrap();
        let before = mine();
        let work = BackgroundWork {
            run: Box::new(move || {
                let _ = sender.send(mine());
                Event::Ticked
            }),
            failed: Event::Ticked,
        };
        worker.send(work).unwrap();
        assert!(inbox.blocking_recv().is_some());
        assert_eq!(receiver.recv().unwrap(), (before + 10).min(19));
        assert_eq!(mine(), before);
    }
}
