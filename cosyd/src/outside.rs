//! Effects that take their time: looking users up, planning, mail, reading the
//! configuration again. Each has a thread or task of its own and comes back as an event.

use crate::config::{self, DaemonConfig};
use crate::directory;
use crate::engine::Input;
use crate::hub::Hub;
use cosy_control::{ClusterConfig, Effect, Event};
use cosy_model::Refusal;
use cosy_model::api::Reply;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use tokio::sync::mpsc;

/// A plan to make.
pub type Plan = Box<dyn FnOnce() -> Event + Send>;

/// Starts the thread that makes plans. It ends when nobody can ask it any more.
///
/// # Errors
/// The system gives no thread.
pub fn start_planner(core: mpsc::Sender<Input>) -> std::io::Result<std::sync::mpsc::Sender<Plan>> {
    let (sender, plans) = std::sync::mpsc::channel::<Plan>();
    std::thread::Builder::new()
        .name("planner".into())
        .spawn(move || {
            for plan in plans {
                let _ = core.blocking_send(Input::Event(Box::new(plan())));
            }
        })?;
    Ok(sender)
}

/// Performs slow effects.
pub struct Outside {
    /// Where results go.
    pub core: mpsc::Sender<Input>,
    /// Where replies go.
    pub hub: Arc<Hub>,
    /// The file to read again.
    pub config_file: PathBuf,
    /// The present configuration of the daemon.
    pub daemon: DaemonConfig,
    /// The present configuration of the cluster.
    pub cluster: Arc<Mutex<ClusterConfig>>,
    /// Makes plans, one after another: a deep plan takes a core for a while.
    pub planner: std::sync::mpsc::Sender<Plan>,
    /// Where blocking work runs.
    pub runtime: tokio::runtime::Handle,
}

impl Outside {
    /// Starts an effect; does not wait for it.
    pub fn perform(&self, effect: Effect) {
        match effect {
            Effect::ResolveUser(uid) => {
                let core = self.core.clone();
                let command = self.daemon.lookup_command.clone();
                self.runtime.spawn_blocking(move || {
                    let result = directory::look_up(uid, command.as_deref());
                    let event = Event::UserResolved { uid, result };
                    let _ = core.blocking_send(Input::Event(Box::new(event)));
                });
            }
            Effect::Plan {
                plan,
                scheduler,
                only,
                most,
            } => {
                let work = Box::new(move || {
                    let now = crate::clock::now();
                    let predictions = match only {
                        Some(job) => scheduler.predict(now, job).into_iter().collect(),
                        None => scheduler.plan(now, Some(most)).predictions,
                    };
                    Event::Planned { plan, predictions }
                });
                let _ = self.planner.send(work);
            }
            Effect::Reload { client } => {
                let reply = match self.reload() {
                    Ok(config) => {
                        let core = self.core.clone();
                        let event = Event::Reconfigured(Box::new(config));
                        self.runtime.spawn(async move {
                            let _ = core.send(Input::Event(Box::new(event))).await;
                        });
                        Reply::Done {
                            changed: 1,
                            refused: Vec::new(),
                        }
                    }
                    Err(why) => Reply::Refused(Refusal::invalid(why)),
                };
                self.hub.answer(client, reply);
            }
            Effect::Mail { to, subject } => self.mail(to, subject),
            _ => {}
        }
    }

    fn reload(&self) -> Result<ClusterConfig, String> {
        let config = config::read(&self.config_file)
            .map_err(|f| format!("the configuration has faults; nothing was changed: {f}"))?;
        if let Ok(mut cluster) = self.cluster.lock() {
            *cluster = config.cluster.clone();
        }
        Ok(config.cluster)
    }

    /// No shell, no user text but as arguments of its own.
    fn mail(&self, to: String, subject: String) {
        let Some(command) = self.daemon.mail_command.clone() else {
            return;
        };
        self.runtime.spawn_blocking(move || {
            let Some((program, args)) = command.split_first() else {
                return;
            };
            let status = Command::new(program)
                .args(args)
                .args([&to, &subject])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .status();
            match status {
                Ok(status) if status.success() => {}
                Ok(status) => tracing::warn!("mail to {to}: {program} ended with {status}"),
                Err(e) => tracing::warn!("mail to {to}: {program}: {e}"),
            }
        });
    }
}
