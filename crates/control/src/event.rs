//! What happens to the controller and what it wants done.

mod power;

use crate::config::ClusterConfig;
use crate::record::Record;
use cosy_model::api::{JobRef, QueueInfo, Reply, Request};
use cosy_model::node::{Allocation, Launch, NodeOrder, NodeReport, StoreMark};
use cosy_model::policy::UserAccounts;
use cosy_model::step::{AllocationRoute, PassClaims};
use cosy_model::{Gid, JobId, JobSpec, Refusal, Time, Uid, User};
use cosy_sched::appraise::{Appraisal, Inquiry};
use cosy_sched::workflow::live::{LiveError, LiveFlow, LivePlan};
use cosy_sched::{PlannedStart, Prediction, Scheduler};
use std::collections::BTreeMap;
use std::net::IpAddr;

pub use power::{PowerEnd, PowerOrder, PowerProgram, ResumedJob, WakeQuestion};

/// A command's connection, numbered by the shell around the controller.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ClientId(pub u64);

/// A node daemon's connection, numbered by the shell around the controller.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LinkId(pub u64);

/// Who asks, as the kernel tells.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Caller {
    /// The user: the uid as the kernel says, everything else as the directory says.
    pub user: User,
    /// The group of the asking process, as the kernel of its host says. Only a group that
    /// the directory gives is acted on: [`Caller::group`].
    pub gid: Gid,
    /// False when the directory did not answer: only the uid is sure.
    pub resolved: bool,
    /// The node whose daemon passed the request on.
    pub via: Option<Via>,
    /// Asks as an ordinary user would, whoever it is.
    pub as_user: bool,
    /// What rules at submission have given to what is asked for.
    pub given: Vec<AdminField>,
}

/// What only administrators may give a job, and what rules at submission may give any.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum AdminField {
    /// A remark for administrators.
    AdminComment,
    /// A nice value below 0.
    Nice,
    /// A priority in the place of its own.
    Priority,
    /// Points of the site.
    SiteFactor,
}

impl Caller {
    /// A user whom the directory knows, on the controller's host, with the user's own group.
    pub fn known(user: User) -> Self {
        Self {
            gid: user.gid,
            user,
            resolved: true,
            via: None,
            as_user: false,
            given: Vec::new(),
        }
    }

    /// The group that what is asked for is to have: that of the asking process if the
    /// directory gives it to the user, else the user's own. While the directory does not
    /// answer it is what the process said, to be judged when a ticket is signed.
    pub fn group(&self) -> Gid {
        match self.resolved {
            true => self.user.granted(self.gid),
            false => self.gid,
        }
    }
}

/// A request that came over a node's daemon.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Via {
    /// The node, as its daemon says.
    pub node: String,
    /// The connection; the controller knows which nodes it may speak for.
    pub link: LinkId,
}

/// A job that ended long ago, looked up in the store by the shell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OldJob {
    /// Which was asked for.
    pub job: JobRef,
    /// Whose it is.
    pub owner: Option<Uid>,
    /// Whether it (or all its tasks) ended with exit code 0; `None`: there is no such job.
    pub ok: Option<bool>,
}

/// A fresh join token.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TokenSeed {
    /// What the administrator hands out.
    pub text: String,
    /// What the store keeps.
    pub hash: String,
}

/// What the shell has found out for a request beforehand.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Facts {
    /// Jobs named in dependencies that are in the store.
    pub old_jobs: Vec<OldJob>,
    /// Randomness for [`Request::JoinToken`].
    pub token: Option<TokenSeed>,
    /// Why the rules at submission refuse it, or that there is no memory for it. The answer to a
    /// request that was carried out before and is repeated stays what it was.
    pub refused: Option<Refusal>,
}

/// A live job as rules at submission are to know it before they judge a change of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DescribedJob {
    /// What it is called: `12`, `12_3`.
    pub name: String,
    /// Whose it is.
    pub uid: Uid,
    /// Login name of its owner.
    pub user: String,
    /// What it asks for, with the queue that it stands in, without its variables.
    pub spec: JobSpec,
    /// Number of the array's tasks; `None` where it is none.
    pub array: Option<u64>,
}

/// What rules at submission are to know before they judge.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Described {
    /// Live jobs that ask for different things, each once.
    pub jobs: Vec<DescribedJob>,
    /// All queues, where they were asked for; without what is counted on their nodes.
    pub queues: Vec<QueueInfo>,
    /// Accounts of the owners of the jobs by login name, without jobs of who asks, where they were
    /// asked for.
    pub accounts: BTreeMap<String, UserAccounts>,
}

/// Why a user could not be looked up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LookupFailure {
    /// There is no such user.
    Unknown,
    /// The directory service does not answer.
    Down,
}

/// The first word of a node daemon.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LinkHello {
    /// It takes up its work.
    Node {
        /// Names of orders ([`cosy_model::node::NodeOrder`]) that its release does not know.
        lacks: Vec<&'static str>,
    },
    /// It wants to join under that name.
    Join {
        /// The node as the configuration names it.
        node: String,
        /// Hash of the token's secret.
        token_hash: String,
    },
}

/// Answer to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LinkAnswer {
    /// The node is known and may report.
    Welcome,
    /// The key is now known.
    Joined,
    /// No, and why.
    Refused(String),
}

/// Which jobs are to be described, and to whom.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DescriptionRequest {
    /// Where the answer goes.
    pub client: ClientId,
    /// The user who asks; others' jobs are described to administrators only.
    pub caller: Caller,
    /// Jobs, arrays, and tasks of arrays.
    pub jobs: Vec<JobRef>,
    /// The queues are to be described too.
    pub queues: bool,
    /// Accounts are to be described too.
    pub accounts: bool,
}

/// What the controller is told of.
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "one at a time, and in a box on its way"
)]
pub enum Event {
    /// A command asks.
    Asked {
        /// Where the answer goes.
        client: ClientId,
        /// The user who asks.
        caller: Box<Caller>,
        /// Key of a changing request.
        key: Option<[u8; 16]>,
        /// What is asked for.
        request: Request,
        /// Found out beforehand.
        facts: Facts,
    },
    /// Rules at submission are to know jobs before they judge a change. Answer:
    /// [`Effect::Describe`].
    DescriptionsWanted(Box<DescriptionRequest>),
    /// A command has gone; answers for it are dropped. For a request that attends to a
    /// job this comes when its connection ends, also long after the answer.
    ClientGone(ClientId),
    /// The way to a command broke, so that nobody knows whether it has gone.
    ClientLost(ClientId),
    /// A node daemon has connected and proved to hold a key.
    LinkOpened {
        /// The link to the daemon.
        link: LinkId,
        /// Its public key in hexadecimal.
        peer: String,
        /// Where it comes from; `None` when that is not known.
        address: Option<IpAddr>,
        /// Its first word.
        hello: LinkHello,
    },
    /// A node daemon reports.
    LinkReported {
        /// The link to the daemon.
        link: LinkId,
        /// What the node daemon has said.
        report: NodeReport,
    },
    /// The connection has ended.
    LinkClosed(LinkId),
    /// A look-up has come back.
    UserResolved {
        /// The user who was looked up.
        uid: Uid,
        /// What was found.
        result: Result<User, LookupFailure>,
    },
    /// A plan has come back.
    Planned {
        /// The number with which it was asked for.
        plan: u64,
        /// A start for each job that the plan reached.
        predictions: Vec<Prediction>,
    },
    /// An appraisal has come back.
    Appraised {
        /// The number with which it was asked for.
        appraisal: u64,
        /// What each slot costs, and whom it delays.
        result: Box<Appraisal>,
    },
    /// A workflow's plan has come back.
    FlowPlanned {
        /// The number with which it was asked for.
        plan: u64,
        /// The plan, or why there is none.
        result: Box<Result<LivePlan, LiveError>>,
    },
    /// A plan of who would have which nodes has come back.
    WakesPlanned(Vec<PlannedStart>),
    /// A program that switches nodes has ended.
    PowerEnded(Box<PowerEnd>),
    /// The configuration was read again.
    Reconfigured(Box<ClusterConfig>),
    /// The database keeps less than it should, and why; or again what it should.
    StoreJudged {
        /// In one sentence.
        weak: Option<String>,
    },
    /// The batch with [`Effect::TellDurable`] is on disk.
    BecameDurable,
    /// Time has passed.
    Ticked,
}

/// What an event says of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CommandEvent {
    /// It asks, and belongs to that user.
    Asks(ClientId, Uid),
    /// It is not waited for any more.
    Leaves(ClientId),
}

impl Event {
    /// What the event says of a command; `None` where it is about something else.
    pub fn of_command(&self) -> Option<CommandEvent> {
        match self {
            Self::Asked { client, caller, .. } => {
                Some(CommandEvent::Asks(*client, caller.user.uid))
            }
            Self::DescriptionsWanted(wanted) => {
                Some(CommandEvent::Asks(wanted.client, wanted.caller.user.uid))
            }
            Self::ClientGone(client) | Self::ClientLost(client) => {
                Some(CommandEvent::Leaves(*client))
            }
            Self::LinkOpened { .. }
            | Self::LinkReported { .. }
            | Self::LinkClosed(_)
            | Self::UserResolved { .. }
            | Self::Planned { .. }
            | Self::Appraised { .. }
            | Self::FlowPlanned { .. }
            | Self::WakesPlanned(_)
            | Self::PowerEnded(_)
            | Self::Reconfigured(_)
            | Self::StoreJudged { .. }
            | Self::BecameDurable
            | Self::Ticked => None,
        }
    }
}

/// A copy of the planner of a reservation, as it is or will be.
#[derive(Debug)]
pub struct InsidePlan {
    /// A copy of the planner: what is planned on it changes nothing.
    pub scheduler: Box<Scheduler>,
    /// From then on it plans.
    pub from: Time,
}

/// What the planners of a cluster and of reservations predict, of one job only where that is
/// wanted; at most so many of each.
pub fn predictions(
    now: Time,
    cluster: &Scheduler,
    inside: &[InsidePlan],
    only: Option<JobId>,
    most: usize,
) -> Vec<Prediction> {
    let of = |scheduler: &Scheduler, now: Time| match only {
        Some(job) => scheduler.predict(now, job).into_iter().collect(),
        None => scheduler.plan(now, Some(most)).predictions,
    };
    let mut all: Vec<Prediction> = of(cluster, now);
    for plan in inside {
        all.extend(of(&plan.scheduler, now.max(plan.from)));
    }
    all
}

/// What is to be done, after the batch's records are durable.
#[derive(Debug)]
pub enum Effect {
    /// Answer a command.
    Reply {
        /// The command that asked.
        client: ClientId,
        /// What is told to who asked.
        reply: Reply,
    },
    /// Answer [`Event::DescriptionsWanted`].
    Describe {
        /// Where the answer goes.
        client: ClientId,
        /// What was asked for.
        described: Described,
    },
    /// Answer a node daemon's first word.
    LinkReply {
        /// The link to the daemon.
        link: LinkId,
        /// What the daemon is told.
        answer: LinkAnswer,
    },
    /// Close a node daemon's connection.
    CloseLink(LinkId),
    /// Send an order that is complete.
    Order {
        /// The link to the daemon.
        link: LinkId,
        /// The order as it is sent.
        order: NodeOrder,
    },
    /// Send [`NodeOrder::Heard`] with the mark signed.
    Heard {
        /// The link to the daemon.
        link: LinkId,
        /// Of the report.
        number: u64,
        /// How far the store is once the batch is durable.
        mark: StoreMark,
    },
    /// Send [`NodeOrder::Prepare`] with a ticket.
    Prepare {
        /// The link to the daemon.
        link: LinkId,
        /// The allocation, without its ticket.
        allocation: Box<Allocation>,
        /// Until when the ticket is good.
        expiry: Time,
        /// The key of the host that it is given to: nobody else can use it.
        holder: String,
    },
    /// Send [`NodeOrder::Launch`] with a ticket, the script, and the user's variables
    /// before those in `launch.environment`.
    Launch {
        /// The link to the daemon.
        link: LinkId,
        /// The launch without ticket, script and user's variables.
        launch: Box<Launch>,
        /// First id of the submission that has script and variables.
        submission: JobId,
        /// Until when the ticket is good.
        expiry: Time,
        /// The key of the host that it is given to: nobody else can use it.
        holder: String,
    },
    /// Send [`NodeOrder::Launch`] with a ticket: the program of a trigger, which has neither
    /// a script nor variables in the store.
    RunProgram {
        /// The link to the daemon.
        link: LinkId,
        /// The launch without ticket.
        launch: Box<Launch>,
        /// Until when the ticket is good.
        expiry: Time,
        /// The key of the host that it is given to: nobody else can use it.
        holder: String,
    },
    /// Answer a command with a pass ([`cosy_model::api::Reply::Pass`]).
    Pass {
        /// The command that asked.
        client: ClientId,
        /// What it says, not signed yet.
        claims: Box<PassClaims>,
    },
    /// Send [`NodeOrder::Passage`] with the allocation's ticket.
    Passage {
        /// The link to the daemon.
        link: LinkId,
        /// The number with which the route was asked for.
        number: u64,
        /// The way, without its ticket.
        passage: Box<AllocationRoute>,
        /// Groups that the ticket names.
        groups: Vec<Gid>,
        /// Nodes that the ticket names, as a host list.
        nodes: String,
        /// Until when the ticket is good.
        expiry: Time,
        /// The key of the host that it is given to: nobody else can use it.
        holder: String,
    },
    /// Say that this batch is durable: [`Event::BecameDurable`].
    TellDurable,
    /// Look a user up: [`Event::UserResolved`].
    ResolveUser(Uid),
    /// Compute a plan on another thread: [`Event::Planned`].
    Plan {
        /// The number with which it was asked for.
        plan: u64,
        /// A copy of the planner: what is planned on it changes nothing.
        scheduler: Box<Scheduler>,
        /// Planners of reservations with the jobs that wait in them.
        inside: Vec<InsidePlan>,
        /// Only this job's prediction is wanted.
        only: Option<JobId>,
        /// No more than so many predictions are wanted: those of the first in line.
        most: usize,
    },
    /// Appraise a reservation on another thread than plans: [`Event::Appraised`].
    Appraise {
        /// The number with which it was asked for.
        appraisal: u64,
        /// The time of the snapshot.
        now: Time,
        /// A copy of the planner: what is planned on it changes nothing.
        scheduler: Box<Scheduler>,
        /// What is to be appraised.
        inquiry: Box<Inquiry>,
    },
    /// Plan a workflow on another thread: [`Event::FlowPlanned`].
    PlanFlow {
        /// The number with which it was asked for.
        plan: u64,
        /// The time of the snapshot.
        now: Time,
        /// A copy of the planner: what is planned on it changes nothing.
        scheduler: Box<Scheduler>,
        /// What is to be planned.
        flow: Box<LiveFlow>,
    },
    /// Compute on another thread who would have which nodes by then: [`Event::WakesPlanned`].
    PlanWakes(Box<WakeQuestion>),
    /// Run a program that switches nodes, at once: [`Event::PowerEnded`].
    Power(Box<PowerOrder>),
    /// Read the configuration again: [`Event::Reconfigured`], then answer.
    Reload {
        /// Where the answer goes.
        client: ClientId,
    },
    /// Have a mail sent.
    Mail {
        /// The address, which begins with no `-`.
        to: String,
        /// One line, without control characters.
        subject: String,
        /// What else is to be said, in lines; may be empty.
        body: String,
    },
}

impl Effect {
    /// The command that is answered by it at once.
    pub const fn answers(&self) -> Option<ClientId> {
        match self {
            Self::Reply { client, .. } | Self::Pass { client, .. } => Some(*client),
            _ => None,
        }
    }
}

/// Everything decided in one turn.
#[derive(Debug, Default)]
pub struct Batch {
    /// To be made durable in one transaction.
    pub records: Vec<Record>,
    /// To be done afterwards, in this order.
    pub effects: Vec<Effect>,
}

impl Batch {
    /// True when there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty() && self.effects.is_empty()
    }
}
