//! Advance reservations: what is asked for, what is quoted, what is promised.
//!
//! Source: COSY paper, section 3.2; what-if paper, sections 3 and 4; pricing paper,
//! sections 2 and 3.

mod room_maker;

use crate::job::ResourceRequest;
use crate::{CountedResources, JobId, ReservationId, Span, Su, Time, Uid};
use serde::{Deserialize, Serialize};
use std::fmt;

pub use room_maker::RoomMaker;

/// The time of an accepted reservation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Slot {
    /// The reservation that the slot belongs to.
    pub reservation: ReservationId,
    /// Start that was promised when it was confirmed.
    pub start: Time,
    /// Length that was promised when it was confirmed.
    pub length: Span,
}

/// Which of the possible starts a reservation takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StartChoice {
    /// Exactly then (COSY, 3.2 "Exact start time").
    At(Time),
    /// To end exactly at the window's latest end; moved to an earlier start later on, when
    /// nodes come free and nobody is delayed by it (COSY, 3.2 "Latest end time").
    FinishBy,
    /// The first possible start in the window.
    Soonest,
    /// The cheapest start in the window; of equals the first.
    Cheapest,
    /// The pricing paper's cost function (section 4): 0 is the soonest, 1000 the cheapest.
    Balance {
        /// alpha in thousandths.
        alpha_permille: u32,
    },
}

/// Starts that repeat: already worked out by the command, which knows zones.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Repeat {
    /// The rule as typed (RFC 5545), to be shown.
    pub rule: String,
    /// All starts, ascending, the first one included.
    pub starts: Vec<Time>,
    /// True: the starts that are possible are booked, the others listed. False: all or none.
    pub as_many_as_fit: bool,
}

/// Who may use a reservation beside its owner.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Sharing {
    /// Login names of users.
    pub users: Vec<String>,
    /// Names of groups: their members.
    pub groups: Vec<String>,
    /// Accounts: their members.
    pub accounts: Vec<String>,
}

/// Another answer to who may use a reservation.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SharingChange {
    /// Login names of users.
    pub users: NamesChange,
    /// Names of groups: their members.
    pub groups: NamesChange,
    /// Accounts: their members.
    pub accounts: NamesChange,
}

/// A change of one list of names.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NamesChange {
    /// Of those that were there none stays.
    pub anew: bool,
    /// Names that come to it.
    pub add: Vec<String>,
    /// Names that leave it.
    pub remove: Vec<String>,
}

/// What becomes other of a reservation: all of it, or nothing where something of it cannot be.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ReservationAlteration {
    /// When it is to end.
    pub end: Option<Time>,
    /// The licences that it keeps from now on; administrators alone change them.
    pub licenses: Option<CountedResources>,
    /// Who may use it.
    pub sharing: SharingChange,
}

impl Sharing {
    /// What it is after the change; each name is there once.
    pub fn after(&self, change: &SharingChange) -> Self {
        Self {
            users: change.users.of(&self.users),
            groups: change.groups.of(&self.groups),
            accounts: change.accounts.of(&self.accounts),
        }
    }
}

impl NamesChange {
    fn of(&self, names: &[String]) -> Vec<String> {
        let kept = names.iter().filter(|_| !self.anew);
        let mut all: Vec<String> = Vec::new();
        for name in kept.chain(&self.add) {
            if !all.contains(name) && !self.remove.contains(name) {
                all.push(name.clone());
            }
        }
        all
    }
}

/// A reservation as its user asks for it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ReservationSpec {
    /// Name; `resv` and the id without.
    #[serde(default)]
    pub name: String,
    /// Queue whose nodes and rules count; the default queue without.
    #[serde(default)]
    pub queue: Option<String>,
    /// Resources and places, as for jobs.
    pub request: ResourceRequest,
    /// Licences that it keeps for the jobs inside, counted over the cluster.
    #[serde(default, skip_serializing_if = "CountedResources::is_empty")]
    pub licenses: CountedResources,
    /// How long the reservation lasts.
    pub length: Span,
    /// Not before; now without. With [`StartChoice::FinishBy`] also the earliest start that it is
    /// ever moved to.
    #[serde(default)]
    pub earliest: Option<Time>,
    /// When it must be over; any time without.
    #[serde(default)]
    pub latest_end: Option<Time>,
    /// Which start of the window is taken.
    pub pick: StartChoice,
    /// Starts that repeat; [`ReservationSpec::pick`] is then the first of them.
    #[serde(default)]
    pub repeat: Option<Repeat>,
    /// Account that pays; the user's default account without.
    #[serde(default)]
    pub account: Option<String>,
    /// Refused when it would cost more.
    #[serde(default)]
    pub max_price: Option<Su>,
    /// Users beside its owner who may use it.
    #[serde(default)]
    pub sharing: Sharing,
    /// Remark of its owner, at most [`limits::COMMENT_BYTES`](crate::limits::COMMENT_BYTES).
    #[serde(default)]
    pub comment: String,
    /// Words of Slurm's that it was made with; recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<String>,
}

impl ReservationSpec {
    /// With nothing special about it: no name, the default queue, any time from now on.
    pub fn plain(request: ResourceRequest, length: Span, pick: StartChoice) -> Self {
        Self {
            name: String::new(),
            queue: None,
            request,
            licenses: CountedResources::default(),
            length,
            earliest: None,
            latest_end: None,
            pick,
            repeat: None,
            account: None,
            max_price: None,
            sharing: Sharing::default(),
            comment: String::new(),
            flags: Vec::new(),
        }
    }
}

/// What the place of a plain job depends on beside what a reservation may ask for.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PlainTerms {
    /// Quality of service; the user's default one without.
    #[serde(default)]
    pub qos: Option<String>,
    /// As [`JobSpec::nice`](crate::JobSpec::nice).
    #[serde(default)]
    pub nice: i64,
}

/// What has become of a reservation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReservationState {
    /// Kept for its holder until the hold expires.
    Held,
    /// Booked: its nodes are promised.
    Confirmed,
    /// It has begun and not yet ended.
    Active,
    /// Its time is over, or its job ended before.
    Ended,
    /// Given back by its owner or an administrator.
    Cancelled,
    /// The hold was not confirmed in time.
    Expired,
    /// Nothing was started in it in time: given back.
    Unused,
    /// Its nodes were not there at its start and never came.
    Failed,
}

impl ReservationState {
    /// Every state, in the order of the declaration.
    pub const ALL: [Self; 8] = [
        Self::Held,
        Self::Confirmed,
        Self::Active,
        Self::Ended,
        Self::Cancelled,
        Self::Expired,
        Self::Unused,
        Self::Failed,
    ];

    /// True when it holds nodes, now or later.
    pub const fn is_live(self) -> bool {
        matches!(self, Self::Held | Self::Confirmed | Self::Active)
    }

    /// One word, as users see and type it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Confirmed => "confirmed",
            Self::Active => "active",
            Self::Ended => "ended",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
            Self::Unused => "unused",
            Self::Failed => "failed",
        }
    }
}

impl fmt::Display for ReservationState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl std::str::FromStr for ReservationState {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|s| s.word() == text);
        found.ok_or_else(|| {
            let words: Vec<_> = Self::ALL.iter().map(|s| s.word()).collect();
            format!("'{text}' is no state of a reservation: use {}", words.join(", "))
        })
    }
}

/// A rule of admission (design, "Admission of reservations").
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// Notice time (COSY, 4.4).
    Notice,
    /// Availability by the what-if method (what-if paper, eq. 4).
    WhatIf,
    /// The load method (what-if paper, eq. 1).
    Load,
    /// Price (pricing paper): the account must be able to pay.
    Price,
}

impl Rule {
    /// Its word in configuration and messages.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Notice => "notice",
            Self::WhatIf => "what-if",
            Self::Load => "load",
            Self::Price => "price",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// A slot that could be booked, with what it would do.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct QuotedSlot {
    /// When it would begin.
    pub start: Time,
    /// When it would end.
    pub end: Time,
    /// The nodes are free then.
    pub feasible: bool,
    /// True when the rules of admission would let it pass.
    pub admitted: bool,
    /// Why it is not feasible, or which rule would refuse it, with figures; else empty.
    pub reason: String,
    /// Availability by what-if in millionths (what-if paper, eq. 4).
    pub availability_ppm: u32,
    /// Availability by load: yes or no (what-if paper, eq. 1).
    pub by_load: bool,
    /// p·n·d: for the time itself, licences included.
    pub base: Su,
    /// The part of that which is for licences.
    #[serde(default)]
    pub license_price: Su,
    /// f: for the delay of others (pricing paper, figure 2), or the floor if that is more.
    pub extra: Su,
    /// Number of waiting jobs that would start later than planned.
    pub delayed_jobs: u32,
    /// By how much, all together.
    pub total_delay: Span,
    /// The asking user's own jobs among them, and by how much (at most 20, the worst).
    pub own_delayed: Vec<(JobId, Span)>,
    /// Its nodes as a host list.
    pub nodes: String,
    /// Running jobs that would have to make room for it, by id.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preempts: Vec<RoomMaker>,
}

impl QuotedSlot {
    /// p·n·d + f.
    pub fn price(&self) -> Su {
        self.base.plus(self.extra)
    }
}

/// Answer to a quote.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Quote {
    /// The controller's time.
    pub now: Time,
    /// The queue whose nodes and rules count.
    pub queue: String,
    /// When a plain job of the same size and length would start; `None`: cannot be told.
    pub plain_start: Option<Time>,
    /// Candidate slots, by start.
    pub slots: Vec<QuotedSlot>,
    /// The place in `slots` of the one that booking would take now.
    pub choice: Option<u32>,
    /// The earliest start that the notice rule allows now; `None` when it allows none, or
    /// when the rule is not in force.
    pub notice_earliest: Option<Time>,
    /// One line for each rule in force, with its figures now.
    pub rules: Vec<String>,
    /// The account that would pay, and what it has left.
    pub account: Option<(String, Option<Su>)>,
    /// Licences that a slot would keep.
    #[serde(default, skip_serializing_if = "CountedResources::is_empty")]
    pub licenses: CountedResources,
}

/// A reservation as commands show it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ReservationInfo {
    /// Number that the controller gave it.
    pub id: ReservationId,
    /// Id of the first of its series.
    pub series: Option<ReservationId>,
    /// Name; `resv` and the id where none was given.
    pub name: String,
    /// The name was given.
    #[serde(default)]
    pub name_given: bool,
    /// Login name of its owner.
    pub user: String,
    /// User id of its owner.
    pub uid: Uid,
    /// The asking user may use it.
    pub usable: bool,
    /// Account that pays.
    pub account: Option<String>,
    /// Queue whose nodes it takes.
    pub queue: String,
    /// How far it has come.
    pub state: ReservationState,
    /// Some of its nodes are lost and no others are free then.
    pub degraded: bool,
    /// When it begins or began.
    pub start: Time,
    /// When it ends or ended.
    pub end: Time,
    /// May be moved to an earlier start, not before this.
    pub movable_from: Option<Time>,
    /// A hold's end, while held.
    pub hold_until: Option<Time>,
    /// Cancelling costs nothing until then.
    pub free_until: Option<Time>,
    /// Nodes as a host list.
    pub nodes: String,
    /// Number of nodes.
    pub node_count: u32,
    /// Number of cores.
    pub cores: u64,
    /// Number of GPUs.
    pub gpus: u64,
    /// Licences that it keeps for the jobs inside.
    #[serde(default, skip_serializing_if = "CountedResources::is_empty")]
    pub licenses: CountedResources,
    /// Price of the nodes' time, p·n·d in the theory of notice.
    pub base: Su,
    /// Fee on top for what it costs others, f in the theory of notice.
    pub extra: Su,
    /// What was charged so far, or in the end.
    pub charged: Su,
    /// Users beside its owner who may use it.
    pub sharing: Sharing,
    /// The job that starts with it, if one is attached.
    pub job: Option<JobId>,
    /// Core-milliseconds used by jobs inside, once known.
    pub used_core_ms: i64,
    /// Number of waiting jobs that it pushed back when it was booked, and by how much in
    /// all.
    pub delayed_jobs: u32,
    /// How much longer they wait because of it, all together.
    pub total_delay: Span,
    /// When it was asked for.
    pub made: Time,
    /// Its nodes were asked for by name.
    #[serde(default)]
    pub named: bool,
    /// Words of Slurm's that it was made with.
    #[serde(default)]
    pub flags: Vec<String>,
    /// The rule of its series.
    pub rule: String,
    /// Comment; empty for others.
    pub comment: String,
    /// What users should know: degraded, moved, replaced nodes, why it ended.
    pub note: String,
    /// Running jobs that make room for it, or have made it, by id.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preempts: Vec<RoomMaker>,
}

/// Which reservations: all conditions that are not empty must hold.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ReservationFilter {
    /// Only these; all when empty.
    pub ids: Vec<ReservationId>,
    /// Only those of these owners, by login name; all when empty.
    pub users: Vec<String>,
    /// States; live ones when empty and no ids are given.
    pub states: Vec<ReservationState>,
    /// Ended ones too, of the time that the controller remembers.
    pub ended: bool,
}

/// An account as commands show it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct AccountInfo {
    /// Name that jobs charge it by.
    pub name: String,
    /// Users who may charge it: login names, and groups as `@group`; empty: everyone, unless
    /// `listed`.
    pub members: Vec<String>,
    /// Without members nobody may charge it.
    #[serde(default)]
    pub listed: bool,
    /// Whether it has a budget; without, what is booked is only counted.
    pub budget: bool,
    /// Granted in all.
    pub granted: Su,
    /// Held for booked reservations that are not charged yet.
    pub held: Su,
    /// Charged in all, for reservations that have begun.
    pub charged: Su,
    /// What can still be spent.
    pub available: Su,
}

/// What an administrator does with an account.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccountAction {
    /// Makes a new account.
    Create {
        /// Users who may charge it; empty: everyone.
        members: Vec<String>,
        /// Its first grant; without, it has no budget and is only counted.
        budget: Option<Su>,
    },
    /// Adds to its budget; it has one from then on.
    Grant(Su),
    /// Takes from what is left of its budget.
    Withdraw(Su),
    /// Says anew who may charge it.
    Members(Vec<String>),
    /// Removes it; refused while a live reservation is charged to it.
    Remove,
}

/// One line of the ledger: a sum that goes from one book to another.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LedgerEntry {
    /// Number, ever growing.
    pub seq: u64,
    /// Time on the wall's clock.
    pub at: Time,
    /// From this book: `ACCOUNT`, `ACCOUNT:held`, `grants` or `income`.
    pub from: String,
    /// The book that the sum goes to.
    pub to: String,
    /// The sum that is moved; never negative.
    pub sum: Su,
    /// For which reservation.
    pub reservation: Option<ReservationId>,
    /// Why, in words: `hold`, `charge`, `extra`, `return`, `grant`, `withdraw`.
    pub why: String,
    /// User who has caused it, or the controller.
    pub who: String,
}

/// One bar of a planned Gantt chart.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PlanBar {
    /// What the bar stands for.
    pub kind: BarKind,
    /// `12` for a job, `r12` for a reservation; empty when the asking user may not see it.
    pub label: String,
    /// When the bar begins.
    pub start: Time,
    /// When the bar ends.
    pub end: Time,
    /// Nodes by their place in [`PlanChart::nodes`].
    pub nodes: Vec<u32>,
}

/// What a bar of a planned Gantt chart stands for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BarKind {
    /// A running job until its limit.
    Running,
    /// A waiting job in its planned place.
    Planned,
    /// A held reservation.
    Held,
    /// A confirmed or active reservation.
    Reserved,
}

/// The plan as a Gantt chart.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PlanChart {
    /// The controller's time.
    pub now: Time,
    /// Names of the nodes, one row each.
    pub nodes: Vec<String>,
    /// Bars by start.
    pub bars: Vec<PlanBar>,
    /// Number of waiting jobs beyond those in the chart.
    pub beyond: u32,
}
