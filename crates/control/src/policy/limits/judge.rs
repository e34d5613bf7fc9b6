//! A job beside its limits: whether it may be submitted at all, whether it may start now, and what is
//! told of the limit that it hits.
//!
//! What can never fit is refused at once, unless the cluster says that it waits (`limits_pend`): then
//! only a quality of service with `DenyOnLimit` refuses it, and a job without any. How many jobs may
//! be submitted is always refused. Source: the resource limits guide of Slurm; sacctmgr(1), `Flags`.

use super::party::Meter;
use super::rules::{Owner, Rule, Rules};
use super::tally::{Amounts, LONGEST, Tally, WHOLE_PPM};
use cosy_model::policy::{LimitHit, LimitKey, LimitKind, Measure, Tres};
use cosy_model::{NodeId, Span, Time};

/// Milliseconds of a minute.
const MINUTE: u128 = 60_000;

/// What a job asks for, or what it would hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Wanted {
    /// In all. What is not known yet is left out: at least so much.
    pub amounts: Amounts,
    /// The most that it has on one node; the least that this can be where nodes are not chosen.
    pub on_node: Amounts,
    /// Its nodes, once they are chosen.
    pub nodes: Option<Box<[NodeId]>>,
    /// Its time limit.
    pub limit: Span,
    /// So many jobs that are alike.
    pub jobs: u32,
}

/// What has been used under a limit; the past of it decays.
pub(crate) trait Past {
    /// Amounts of a resource times minutes, or minutes on the wall without a resource.
    fn minutes(&self, of: &Owner, tres: Option<&Tres>) -> u64;
}

/// Everything that limits are compared with.
pub(crate) struct Present<'a> {
    pub tallies: &'a dyn Fn(Meter) -> Option<&'a Tally>,
    pub past: &'a dyn Past,
    pub now: Time,
    /// A job starts only if its whole limit fits into what is left.
    pub safe: bool,
}

/// How many jobs that are counted there are in planners' queues, and how much of a resource they want.
pub(crate) type InLine<'a> = &'a dyn Fn(Meter, Option<&Tres>) -> (u64, u64);

/// A limit that a job hits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Hit<'a> {
    pub rule: &'a Rule,
    /// In use, in the measure of the limit.
    pub used: u64,
    /// What the job adds.
    pub wanted: u64,
}

impl Wanted {
    fn amount(&self, tres: &Tres) -> u64 {
        self.amounts.get(tres).copied().unwrap_or(0)
    }

    /// Amounts times the time limit, in milliseconds.
    fn product_ms(&self, tres: &Tres) -> u128 {
        u128::from(self.amount(tres)).saturating_mul(millis(self.limit.min(LONGEST)))
    }
}

fn millis(length: Span) -> u128 {
    length.ms().max(0).unsigned_abs().into()
}

/// What a job may still use, with the usage factor that counts beforehand.
fn planned(ms: u128, planned_ppm: u32) -> u128 {
    ms.saturating_mul(planned_ppm.into()) / u128::from(WHOLE_PPM)
}

/// Minutes, rounded up: what is beyond a limit by a second is beyond it.
fn minutes(ms: u128) -> u64 {
    u64::try_from(ms.div_ceil(MINUTE)).unwrap_or(u64::MAX)
}

impl Rules {
    /// The limit on the number of jobs that these would be beyond. `counted`: where they are counted
    /// already.
    pub fn too_many<'a, 't>(
        &'a self,
        wanted: &Wanted,
        tallies: &dyn Fn(Meter) -> Option<&'t Tally>,
        counted: &[Meter],
    ) -> Option<Hit<'a>> {
        let all = self
            .all
            .iter()
            .filter(|rule| rule.key.kind.measure() == Measure::SubmitJobs);
        let all = all.filter(|rule| !counted.contains(&rule.meter));
        let hit = |rule: &'a Rule| Hit {
            rule,
            used: tallies(rule.meter)
                .map_or(0, |tally| tally.submitted)
                .into(),
            wanted: wanted.jobs.into(),
        };
        all.map(hit).find(Hit::is_beyond)
    }

    /// The first limit that such a job could not keep if it were alone.
    pub fn never_fits<'a>(&'a self, wanted: &Wanted) -> Option<Hit<'a>> {
        self.all
            .iter()
            .find_map(|rule| rule.alone(wanted, self.planned_ppm))
    }

    /// Whether what never fits is refused; `pend`: the cluster says that it waits.
    pub const fn refuses(&self, pend: bool) -> bool {
        !pend || self.denies || !self.has_qos
    }

    /// The longest time limit that limits allow; `None` where none says anything.
    pub fn longest(&self) -> Option<Span> {
        let wall = |rule: &&Rule| rule.key.kind.measure() == Measure::Wall;
        let minutes = self.all.iter().filter(wall).map(|rule| rule.value).min()?;
        Some(Span::from_minutes(i64::try_from(minutes).unwrap_or(i64::MAX)))
    }

    /// The first limit that keeps a job from starting now, of those that `looked_at` names.
    pub fn holds_back<'a>(
        &'a self,
        wanted: &Wanted,
        present: &Present<'_>,
        looked_at: impl Fn(LimitKind) -> bool,
    ) -> Option<Hit<'a>> {
        let mut all = self.all.iter().filter(|rule| looked_at(rule.key.kind));
        all.find_map(|rule| {
            // What is used up later ends jobs; only with `safe` it is looked at before.
            let alone = Some(wanted).filter(|_| !rule.ends_jobs());
            let alone = alone.and_then(|wanted| rule.alone(wanted, self.planned_ppm));
            alone.or_else(|| rule.beside(wanted, present, self.planned_ppm))
        })
    }

    /// The limit on what runs for which enough jobs are in planners' queues: more than could run, and
    /// `ahead` at least. `queued` tells how many of a meter are, and how much of a resource they want.
    pub fn is_crowded<'a>(
        &'a self,
        wanted: &Wanted,
        present: &Present<'_>,
        ahead: u64,
        queued: InLine<'_>,
    ) -> Option<Hit<'a>> {
        let mut all = self.all.iter().filter(|rule| rule.limits_running());
        all.find_map(|rule| {
            let tres = rule.key.tres.as_ref();
            let (jobs, amount) = queued(rule.meter, tres);
            if jobs < ahead {
                return None;
            }
            let tally = (present.tallies)(rule.meter);
            let (used, adds) = match tres {
                Some(tres) => (tally.map_or(0, |tally| tally.held(tres)), wanted.amount(tres)),
                None => (tally.map_or(0, |tally| tally.running).into(), 1),
            };
            let hit = Hit {
                rule,
                used: used.saturating_add(amount),
                wanted: adds,
            };
            (adds > 0 && hit.is_beyond()).then_some(hit)
        })
    }

    /// Whether one of these limits ends jobs that run.
    pub fn may_end_jobs(&self) -> bool {
        let minutes = |kind| kind == LimitKind::MaxTresMinsPerJob;
        let mut all = self.all.iter();
        all.any(|rule| rule.ends_jobs() || minutes(rule.key.kind))
    }

    /// The limit that is used up for all jobs under it.
    pub fn is_used_up<'a>(&'a self, past: &dyn Past) -> Option<Hit<'a>> {
        let mut all = self.all.iter().filter(|rule| rule.ends_jobs());
        all.find_map(|rule| {
            let used = past.minutes(&rule.of, rule.key.tres.as_ref());
            (used >= rule.value).then_some(Hit {
                rule,
                used,
                wanted: 0,
            })
        })
    }

    /// The limit on the minutes of one job that it has used up by running for so long.
    pub fn has_used_up<'a>(&'a self, held: &Amounts, ran: Span) -> Option<Hit<'a>> {
        let minutes = |rule: &&Rule| rule.key.kind == LimitKind::MaxTresMinsPerJob;
        let mut all = self.all.iter().filter(minutes);
        all.find_map(|rule| {
            let amount = held.get(rule.key.tres.as_ref()?).copied().unwrap_or(0);
            let ran = millis(ran);
            let used = u64::try_from(u128::from(amount).saturating_mul(ran) / MINUTE);
            let used = used.unwrap_or(u64::MAX);
            (amount > 0 && used >= rule.value).then_some(Hit {
                rule,
                used,
                wanted: 0,
            })
        })
    }
}

impl Rule {
    /// Jobs that run are ended when it is used up.
    fn ends_jobs(&self) -> bool {
        matches!(self.key.kind, LimitKind::GrpTresMins | LimitKind::GrpWall)
    }

    /// The limit hit by a job that is alone, where it is one that this can be said of.
    fn alone(&self, wanted: &Wanted, planned_ppm: u32) -> Option<Hit<'_>> {
        let hit = |amount: u64| Hit {
            rule: self,
            used: 0,
            wanted: amount,
        };
        let tres = self.key.tres.as_ref();
        let found = match (self.key.kind, tres) {
            (
                LimitKind::GrpTres
                | LimitKind::MaxTresPerUser
                | LimitKind::MaxTresPerAccount
                | LimitKind::MaxTresPerJob,
                Some(tres),
            ) => hit(wanted.amount(tres)),
            (LimitKind::MaxTresPerNode, Some(tres)) => {
                hit(wanted.on_node.get(tres).copied().unwrap_or(0))
            }
            (LimitKind::MinTresPerJob, Some(tres)) => {
                let amount = wanted.amount(tres);
                return (amount < self.value).then(|| hit(amount));
            }
            (
                LimitKind::GrpTresRunMins
                | LimitKind::MaxTresMinsPerJob
                | LimitKind::MaxTresRunMinsPerUser
                | LimitKind::MaxTresRunMinsPerAccount,
                Some(tres),
            ) => hit(minutes(wanted.product_ms(tres))),
            (LimitKind::GrpTresMins, Some(tres)) => {
                hit(minutes(planned(wanted.product_ms(tres), planned_ppm)))
            }
            (LimitKind::GrpWall, _) => hit(minutes(planned(millis(wanted.limit), planned_ppm))),
            (LimitKind::MaxWall, _) => hit(minutes(millis(wanted.limit))),
            _ => return None,
        };
        found.is_beyond().then_some(found)
    }

    /// The limit hit by a job beside those that run.
    fn beside<'a>(
        &'a self,
        wanted: &Wanted,
        present: &Present<'_>,
        planned_ppm: u32,
    ) -> Option<Hit<'a>> {
        let tally = (present.tallies)(self.meter);
        let tres = self.key.tres.as_ref();
        let (used, adds) = match (self.key.kind.measure(), self.key.kind, tres) {
            (Measure::Jobs, ..) => (tally.map_or(0, |tally| tally.running).into(), 1),
            (
                Measure::Tres,
                LimitKind::GrpTres | LimitKind::MaxTresPerUser | LimitKind::MaxTresPerAccount,
                Some(tres),
            ) => {
                let adds = match (tres, &wanted.nodes, tally) {
                    (Tres::Node, Some(nodes), Some(tally)) => tally.new_nodes(nodes),
                    // They may be nodes on which others of them are.
                    (Tres::Node, None, Some(tally)) if tally.running > 0 => 0,
                    _ => wanted.amount(tres),
                };
                if adds == 0 {
                    return None;
                }
                (tally.map_or(0, |tally| tally.held(tres)), adds)
            }
            (Measure::TresRunMinutes, _, Some(tres)) => {
                let left = tally.map_or(0, |tally| tally.remaining_ms(tres, present.now));
                let adds = wanted.product_ms(tres);
                let all = minutes(left.saturating_add(adds));
                (all.saturating_sub(minutes(adds)), minutes(adds))
            }
            (Measure::TresMinutes, LimitKind::GrpTresMins, _)
            | (Measure::Wall, LimitKind::GrpWall, _) => {
                return self.of_the_past(wanted, present, planned_ppm);
            }
            _ => return None,
        };
        let hit = Hit {
            rule: self,
            used,
            wanted: adds,
        };
        hit.is_beyond().then_some(hit)
    }

    /// What has been used under a limit in minutes, whole ones.
    fn past(&self, present: &Present<'_>) -> u64 {
        present.past.minutes(&self.of, self.key.tres.as_ref())
    }

    /// What is used up is so for all; with `safe` the whole limit of the job has to fit, beside what
    /// running jobs may still use, each by its usage factor where that counts beforehand.
    fn of_the_past<'a>(
        &'a self,
        wanted: &Wanted,
        present: &Present<'_>,
        planned_ppm: u32,
    ) -> Option<Hit<'a>> {
        let past = self.past(present);
        if !present.safe {
            return (past >= self.value).then_some(Hit {
                rule: self,
                used: past,
                wanted: 0,
            });
        }
        let tally = (present.tallies)(self.meter);
        let (left, adds): (u128, u128) = match &self.key.tres {
            Some(tres) => {
                let left = tally.map_or(0, |tally| tally.planned_ms(tres, present.now));
                (left, wanted.product_ms(tres))
            }
            None => (0, millis(wanted.limit.min(LONGEST))),
        };
        let hit = Hit {
            rule: self,
            used: past.saturating_add(minutes(left)),
            wanted: minutes(planned(adds, planned_ppm)),
        };
        hit.is_beyond().then_some(hit)
    }
}

impl Hit<'_> {
    fn is_beyond(&self) -> bool {
        self.used.saturating_add(self.wanted) > self.rule.value
    }

    /// The limit as jobs are told that wait for it.
    pub fn reason(&self) -> LimitHit {
        self.rule.hit()
    }

    /// When enough of the minutes of running jobs has passed, if nobody comes or goes; `None` where time
    /// alone does not help, or it is not known when.
    pub fn passes(&self, wanted: &Wanted, tally: Option<&Tally>, now: Time) -> Option<Time> {
        let Rule { key, value, .. } = self.rule;
        let tres = key
            .tres
            .as_ref()
            .filter(|_| key.kind.measure() == Measure::TresRunMinutes)?;
        let tally = tally?;
        let most = u128::from(*value).saturating_mul(MINUTE);
        let free = most.checked_sub(wanted.product_ms(tres))?;
        let over = tally.remaining_ms(tres, now).checked_sub(free)?;
        let after = over.div_ceil(tally.passing(tres)?.into());
        Some(now + Span(i64::try_from(after).unwrap_or(i64::MAX)))
    }

    /// `account physics: GrpTRES cpu=16, in use 14, wanted 4`.
    pub fn sentence(&self) -> String {
        let Rule { of, key, value, .. } = self.rule;
        let figure = |number| figure(key, number);
        let limit = match &key.tres {
            Some(tres) => format!("{} {tres}={}", key.kind.word(), figure(*value)),
            None => format!("{}={}", key.kind.word(), figure(*value)),
        };
        let share = self.rule.percent;
        let share = share.map_or(String::new(), |part| format!(" ({part} % of what there is)"));
        let over = format!("{share}{}", self.of_whom());
        match (self.used, self.wanted) {
            (0, wanted) => format!("{of}: {limit}{over}, wanted {}", figure(wanted)),
            (used, 0) => format!("{of}: {limit}{over}, used {}", figure(used)),
            (used, wanted) => {
                format!("{of}: {limit}{over}, in use {}, wanted {}", figure(used), figure(wanted))
            }
        }
    }

    /// Over whose jobs a limit of a quality of service counts, where its word does not tell.
    const fn of_whom(&self) -> &'static str {
        match self.rule.meter {
            Meter::UserInQos(..) => " of all jobs of the user in it",
            Meter::AccountInQos(..) => " of all jobs of the account in it",
            Meter::Association(_) | Meter::Qos(_) => "",
        }
    }
}

/// A figure of a limit: memory with its unit, minutes of the wall as a length of time.
fn figure(key: &LimitKey, number: u64) -> String {
    let minutes = i64::try_from(number).unwrap_or(i64::MAX / MINUTE as i64);
    match (key.kind.measure(), &key.tres) {
        (Measure::Tres | Measure::LeastTres, Some(Tres::Memory)) => format!("{number}M"),
        (Measure::TresMinutes | Measure::TresRunMinutes, _) => format!("{number} minutes"),
        (Measure::Wall, _) => Span::from_minutes(minutes).to_string(),
        _ => number.to_string(),
    }
}
