//! The configuration as the controller uses it: checked, names expanded.

mod power;
mod preemption;
mod priority;

pub use power::{KeptNodes, PowerConfig};
pub use preemption::{PreemptBy, PreemptionConfig, QueuePreemption};
pub use priority::{PriorityConfig, QueuePriority};

use cosy_model::policy::Enforce;
use cosy_model::reservation::Rule;
use cosy_model::{JobId, NodeSpec, QueueSpec, Span, Su, SwitchSpec, Uid};
use cosy_policy::day_times::DayTimes;
use cosy_sched::Depth;
use cosy_sched::appraise::Tariff;
use cosy_sched::notice::Curve;
use std::collections::BTreeMap;

/// Which jobs an ordinary user sees.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Visibility {
    /// Only the user's own.
    #[default]
    Own,
    /// Of those of others their states, sizes and times: see `job::visible` in the crate `view`.
    States,
    /// Everything of everyone's jobs.
    Everything,
}

/// Numbers that steer the controller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PolicyConfig {
    /// Whether jobs may pass a waiting head.
    pub backfill: bool,
    /// How many waiting jobs get a guaranteed place.
    pub depth: Depth,
    /// How often a node reports being alive.
    pub heartbeat: Span,
    /// A node that was silent for so long is lost.
    pub node_timeout: Span,
    /// A node that does not reach the controller for so long ends those of its jobs that may
    /// run again; they are started elsewhere only after that.
    pub self_fencing: bool,
    /// A job that was lost with nodes more often is held; 0 is no limit.
    pub max_requeues: u32,
    /// So long after it was lost with a node it goes to others; zero is not at all.
    pub requeue_avoids: Span,
    /// No job waits longer for few switches.
    pub max_switch_wait: Span,
    /// A node whose clock is ahead or behind by more takes no jobs.
    pub clock_skew: Span,
    /// Between SIGTERM and SIGKILL.
    pub grace: Span,
    /// Most tasks of one array.
    pub max_array_tasks: u32,
    /// Most jobs of one user that wait or run at once, administrators excepted; 0 is no
    /// limit.
    pub max_jobs_per_user: u32,
    /// Most jobs of all users that wait or run at once.
    pub max_jobs: u32,
    /// Ended jobs are listed with the others for so long.
    pub keep_ended: Span,
    /// A user's groups are looked up again after so long.
    pub user_ttl: Span,
    /// Who sees what.
    pub visibility: Visibility,
    /// Nodes are counted on so long after a job's limit: until then it has been ended with
    /// force and its nodes are clean. What makes exact starts exact.
    pub clearance: Span,
    /// Most interactive jobs of one user that run at once (COSY, section 3.1); 0 is no
    /// limit.
    pub interactive_per_user: u32,
    /// A command that stays with a job may come again within so long when its connection
    /// broke without its doing.
    pub attend_grace: Span,
    /// A batch job starts this long after its submission at the earliest. Source: slurm.conf(5), `batch_sched_delay`.
    pub batch_delay: Span,
    /// What can never fit into a limit of the accounts' policy waits instead of being refused, unless
    /// its quality of service says `DenyOnLimit` or it has none.
    pub limits_pend: bool,
}

/// How requests are weighed in the shares and waits of the notice rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Weigh {
    /// Each request counts once (COSY).
    Counts,
    /// By the core-hours asked for: a thousand tiny jobs do not change much.
    #[default]
    CoreHours,
}

/// The notice rule (COSY, section 4.4).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NoticePolicy {
    /// n over p.
    pub curve: Curve,
    /// How far back waits and shares are looked at.
    pub window: Span,
    /// The share counts only from so many accepted requests in the window on.
    pub least_requests: u64,
    /// How requests are weighed.
    pub weigh: Weigh,
    /// The notice is at least the wait that this very request is predicted in the queue
    /// now.
    pub predicted_wait: bool,
    /// Overlapping and adjoining bookings of the same account are judged as one.
    pub together: bool,
}

impl Default for NoticePolicy {
    fn default() -> Self {
        Self {
            curve: Curve::default(),
            window: Span::from_secs(7 * 86_400),
            least_requests: 20,
            weigh: Weigh::CoreHours,
            predicted_wait: true,
            together: true,
        }
    }
}

/// How much one user or account may have booked. `None` is no limit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Quotas {
    /// Live reservations at once; a series counts once.
    pub open: Option<u32>,
    /// Largest part of the nodes of any node class, in millionths.
    pub share_ppm: Option<u32>,
    /// Largest part of the number of any licence, in millionths.
    pub license_share_ppm: Option<u32>,
    /// Longest reservation that its users may book; `None` is not limited.
    pub longest: Option<Span>,
    /// How far ahead the start may be.
    pub ahead: Option<Span>,
    /// The start is at least so far ahead, whatever the rules say.
    pub notice: Option<Span>,
}

impl Quotas {
    /// Nothing is limited.
    pub const NONE: Self = Self {
        open: None,
        share_ppm: None,
        license_share_ppm: None,
        longest: None,
        ahead: None,
        notice: None,
    };
}

impl Default for Quotas {
    fn default() -> Self {
        Self {
            open: Some(2),
            share_ppm: Some(200_000),
            license_share_ppm: None,
            longest: Some(Span::from_secs(48 * 3600)),
            ahead: Some(Span::from_secs(14 * 86_400)),
            notice: None,
        }
    }
}

/// What is given back of a confirmed reservation that ends early.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum EarlyEnd {
    /// The time that is left.
    #[default]
    Refund,
    /// Nothing: the whole period is charged.
    Charge,
}

/// The rules of admission of one queue, or of the cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReservationPolicy {
    /// Whether users may reserve at all.
    pub enabled: bool,
    /// All of these must admit.
    pub all_of: Vec<Rule>,
    /// One of these must admit, unless there is none.
    pub any_of: Vec<Rule>,
    /// The notice rule.
    pub notice: NoticePolicy,
    /// Least availability for the what-if rule, in millionths.
    pub availability_ppm: u32,
    /// Weight of the makespan in the availability, in millionths.
    pub makespan_weight_ppm: u32,
    /// Prices. Weights of queues are by name in [`ReservationPolicy::delay_cost`], prices of
    /// licences in [`ReservationPolicy::license_hour`].
    pub tariff: Tariff,
    /// For one licence for one hour, by its name; nothing where none is given.
    pub license_hour: BTreeMap<String, Su>,
    /// Weight of delays by queue, in thousandths.
    pub delay_cost: BTreeMap<String, u32>,
    /// Behind the end of the present plan, f is at least what that hour of the week
    /// usually costs.
    pub price_floor: bool,
    /// Quotas of a user.
    pub per_user: Quotas,
    /// Quotas of an account; no limits without.
    pub per_account: Option<Quotas>,
    /// Quotas of single users, by name, in place of [`ReservationPolicy::per_user`].
    pub users: BTreeMap<String, Quotas>,
    /// Quotas of single accounts, by name, in place of
    /// [`ReservationPolicy::per_account`].
    pub accounts: BTreeMap<String, Quotas>,
    /// No waiting job is pushed back by reservations by more than this in all.
    pub delay_cap: Option<Span>,
    /// How long a hold lasts.
    pub hold: Span,
    /// Holds of one user at once.
    pub holds: Option<u32>,
    /// After a hold expired, its account gets no overlapping hold for so long.
    pub rehold: Option<Span>,
    /// A reservation in which nothing was started for so long is given back and charged.
    pub no_show: Option<Span>,
    /// What is given back of one that ends early.
    pub early_end: EarlyEnd,
    /// Cancelling is free until the notice limit; after that it costs what others can no
    /// longer use. Without it cancelling is always free.
    pub cancel_fee: bool,
    /// Use below this is reported to owner and administrators, in millionths.
    pub low_use_ppm: Option<u32>,
    /// Only the owner, members of the paying account and named users get in. Without it
    /// everyone who may use the queue.
    pub closed: bool,
    /// Most candidate slots of a quote.
    pub candidates: usize,
    /// Least distance of evenly spaced candidates.
    pub gap: Span,
    /// Nodes of running jobs that the queue may preempt count as free.
    pub preempt: bool,
}

impl ReservationPolicy {
    /// True when that rule is in force, alone or beside others.
    pub fn asks(&self, rule: Rule) -> bool {
        self.all_of.contains(&rule) || self.any_of.contains(&rule)
    }

    /// Whether the wait that a request is predicted as a plain job decides on it.
    pub fn asks_own_wait(&self) -> bool {
        self.asks(Rule::Notice) && self.notice.predicted_wait
    }

    /// The same of the wait of all bookings of its payer that it touches, together.
    pub fn asks_joint_wait(&self) -> bool {
        self.asks(Rule::Notice) && self.notice.together
    }
}

impl Default for ReservationPolicy {
    fn default() -> Self {
        Self {
            enabled: true,
            all_of: vec![Rule::Notice],
            any_of: Vec::new(),
            notice: NoticePolicy::default(),
            availability_ppm: 900_000,
            makespan_weight_ppm: 500_000,
            tariff: Tariff::default(),
            license_hour: BTreeMap::new(),
            delay_cost: BTreeMap::new(),
            price_floor: true,
            per_user: Quotas::default(),
            per_account: None,
            users: BTreeMap::new(),
            accounts: BTreeMap::new(),
            delay_cap: Some(Span::from_secs(4 * 3600)),
            hold: Span::from_minutes(5),
            holds: Some(1),
            rehold: Some(Span::from_secs(3600)),
            no_show: Some(Span::from_minutes(15)),
            early_end: EarlyEnd::Refund,
            cancel_fee: true,
            low_use_ppm: Some(50_000),
            closed: true,
            candidates: 100,
            gap: Span::from_minutes(15),
            preempt: false,
        }
    }
}

/// An account as configured; `cadm account` can make others.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AccountConfig {
    /// Who may charge it: user names, and groups as `@group`; empty: everyone.
    pub members: Vec<String>,
    /// Granted when the account is first seen; without, it is only counted.
    pub budget: Option<Su>,
}

impl Default for PolicyConfig {
    fn default() -> Self {
        Self {
            backfill: true,
            depth: Depth::Count(1),
            heartbeat: Span::from_secs(10),
            node_timeout: Span::from_secs(60),
            self_fencing: true,
            max_requeues: cosy_model::limits::REQUEUES,
            requeue_avoids: Span::from_minutes(60),
            max_switch_wait: Span::UNLIMITED,
            clock_skew: Span::from_minutes(5),
            grace: Span::from_secs(5),
            max_array_tasks: cosy_model::limits::ARRAY_TASKS,
            max_jobs_per_user: cosy_model::limits::JOBS_OF_USER,
            max_jobs: cosy_model::limits::JOBS,
            keep_ended: Span::from_minutes(5),
            user_ttl: Span::from_minutes(5),
            visibility: Visibility::Own,
            clearance: Span::ZERO,
            interactive_per_user: 1,
            attend_grace: Span::from_secs(60),
            batch_delay: Span::ZERO,
            limits_pend: false,
        }
    }
}

/// The program of the web page, which asks for the users who look at it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct WebConfig {
    /// Login name of the user that it runs as.
    pub user: String,
    /// Administrators whom it asks for keep their rights.
    pub administrators: bool,
}

/// The whole configuration.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ClusterConfig {
    /// Name of the cluster.
    pub name: String,
    /// Name of the controller's host, to be told.
    pub host: String,
    /// The file that it was read from, to be told.
    pub file: String,
    /// There is a command that sends mail.
    pub mails: bool,
    /// User names, and groups as `@group`, that may do everything.
    pub admins: Vec<String>,
    /// The user that the controller runs as: an administrator too.
    pub controller_uid: Uid,
    /// Who may ask for other users; nobody without.
    pub web: Option<WebConfig>,
    /// Nodes, each name once.
    pub nodes: Vec<NodeSpec>,
    /// Node sets by name.
    pub sets: BTreeMap<String, Vec<String>>,
    /// Switches of the network: a tree, each name once.
    pub switches: Vec<SwitchSpec>,
    /// Queues, each name once.
    pub queues: Vec<QueueSpec>,
    /// Name of the default queue.
    pub default_queue: Option<String>,
    /// Times and bounds that hold for all queues.
    pub policy: PolicyConfig,
    /// How queues order their jobs that do not serve first come, first served.
    pub priority: PriorityConfig,
    /// Which nodes are switched off when nobody needs them.
    pub power: PowerConfig,
    /// Who may preempt whom.
    pub preemption: PreemptionConfig,
    /// Rules of admission where the queue has none of its own.
    pub reservations: ReservationPolicy,
    /// Reservations in queues that have rules of their own.
    pub queue_reservations: BTreeMap<String, ReservationPolicy>,
    /// Accounts by name.
    pub accounts: BTreeMap<String, AccountConfig>,
    /// What of the policy binds jobs.
    pub enforce: Enforce,
    /// Licences and how many of each there are, at most.
    pub licenses: cosy_model::CountedResources,
    /// Of those whose number depends on the time of day, by name.
    pub license_times: BTreeMap<String, DayTimes>,
    /// The least id that a job gets. Source: slurm.conf(5), `FirstJobId`.
    pub first_job: JobId,
    /// Whether a job is ended when what it waits for can no longer happen, unless it says
    /// otherwise itself.
    pub end_if_never: bool,
}
