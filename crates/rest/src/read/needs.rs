//! What an answer is made of, and the requests that bring it, one after another.

use crate::call::Endpoint;
use crate::read::{db_job, job};
use cosy_model::api::{
    ControllerRow, Cursor, JobField, JobFilter, JobRef, MeterRow, NodeInfo, QueueInfo, Reply,
    Request, StepCursor, StepRow, Table,
};
use cosy_model::limits::STEP_JOBS as JOBS_WITH_STEPS;
use cosy_model::policy::{
    AccountEntry, AssociationInfo, PolicyAnswer, PolicyQuery, QosInfo, UserEntry,
};
use cosy_model::reservation::{ReservationFilter, ReservationInfo};
use cosy_model::{JobState, Settings, Time};
use cosy_slurm::diagnosis;
use std::collections::BTreeSet;

/// Jobs out of history in one answer, at most: the latest.
pub const HISTORY: u32 = 100_000;

/// Something that has to be asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need {
    Settings,
    Controllers,
    Meter,
    Queues,
    Nodes,
    Reservations,
    /// Live jobs and those that ended moments ago.
    Jobs,
    /// Live jobs for the accounting.
    Living,
    Ended,
    EarlierRuns,
    Steps,
    /// Jobs since midnight, to be counted.
    Today,
    Users,
    Accounts,
    Associations,
    Qos,
}

impl Need {
    /// Whether an answer can do without it.
    pub const fn is_spare(self) -> bool {
        match self {
            Self::Controllers | Self::Meter => true,
            Self::Settings
            | Self::Queues
            | Self::Nodes
            | Self::Reservations
            | Self::Jobs
            | Self::Living
            | Self::Ended
            | Self::EarlierRuns
            | Self::Steps
            | Self::Today
            | Self::Users
            | Self::Accounts
            | Self::Associations
            | Self::Qos => false,
        }
    }

    /// The name of what failed, as `source` of an error.
    pub const fn source(self) -> &'static str {
        match self {
            Self::Settings => "slurm_load_ctl_conf",
            Self::Controllers => "slurm_ping",
            Self::Meter | Self::Today => "slurm_get_statistics",
            Self::Queues => "slurm_load_partitions",
            Self::Nodes => "slurm_load_node",
            Self::Reservations => "slurm_load_reservations",
            Self::Jobs => "slurm_load_jobs",
            Self::Living | Self::Ended | Self::EarlierRuns | Self::Steps => "slurmdb_jobs_get",
            Self::Users => "slurmdb_users_get",
            Self::Accounts => "slurmdb_accounts_get",
            Self::Associations => "slurmdb_associations_get",
            Self::Qos => "slurmdb_qos_get",
        }
    }
}

/// What was brought.
#[derive(Clone, Debug, Default)]
pub struct Gathered {
    pub settings: Settings,
    pub controllers: Vec<ControllerRow>,
    pub meter: Vec<MeterRow>,
    pub queues: Vec<QueueInfo>,
    pub nodes: Vec<NodeInfo>,
    pub reservations: Vec<ReservationInfo>,
    pub jobs: Vec<Table>,
    pub ended: Vec<Table>,
    pub earlier: Vec<Table>,
    pub steps: Vec<StepRow>,
    pub today: Table,
    pub users: Vec<UserEntry>,
    pub accounts: Vec<AccountEntry>,
    pub associations: Vec<AssociationInfo>,
    pub qos: Vec<QosInfo>,
}

/// Which of them are meant.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Which jobs.
    pub filter: JobFilter,
    /// With predicted starts, which take a plan.
    pub predicted: bool,
    /// Users, accounts, qualities of service, by name; all when empty.
    pub names: Vec<String>,
    /// Accounts of associations.
    pub accounts: Vec<String>,
    /// With what was used.
    pub usage: bool,
    /// The start of the present day.
    pub midnight: Time,
}

/// Where a list goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Place {
    jobs: Option<Cursor>,
    steps: Option<StepCursor>,
    /// Number of the first job of this request for steps.
    first_job: usize,
}

/// What an endpoint needs, in the order in which it is asked for.
pub fn of(endpoint: &Endpoint, more: Extras) -> Vec<Need> {
    use Need as N;
    let mut all = vec![N::Settings];
    all.extend(match endpoint {
        Endpoint::Ping | Endpoint::DbPing | Endpoint::DbDiag => vec![N::Controllers],
        Endpoint::Diag => vec![N::Meter, N::Queues, N::Today],
        Endpoint::Jobs | Endpoint::JobStates | Endpoint::Job(_) => {
            vec![N::Queues, N::Reservations, N::Jobs]
        }
        Endpoint::Nodes | Endpoint::Node(_) => vec![N::Reservations, N::Nodes],
        Endpoint::Partitions | Endpoint::Partition(_) => vec![N::Queues, N::Nodes],
        Endpoint::Reservations | Endpoint::Reservation(_) => vec![N::Reservations],
        Endpoint::Shares | Endpoint::DbAssociations | Endpoint::DbAssociation => {
            vec![N::Associations]
        }
        Endpoint::DbJobs | Endpoint::DbJob(_) => {
            let earlier = more.earlier_runs.then_some(N::EarlierRuns);
            let steps = (!more.without_steps).then_some(N::Steps);
            [N::Queues, N::Reservations, N::Living, N::Ended]
                .into_iter()
                .chain(earlier)
                .chain(steps)
                .collect()
        }
        Endpoint::DbUsers | Endpoint::DbUser(_) => with(N::Users, more.associations),
        Endpoint::DbAccounts | Endpoint::DbAccount(_) => with(N::Accounts, more.associations),
        Endpoint::DbWckeys => vec![N::Users],
        Endpoint::DbQos | Endpoint::DbOneQos(_) => vec![N::Qos],
        Endpoint::DbClusters | Endpoint::DbCluster(_) => vec![N::Nodes],
        Endpoint::DbTres => vec![N::Nodes, N::Qos],
        Endpoint::DbConfig => vec![N::Nodes, N::Users, N::Accounts, N::Associations, N::Qos],
        Endpoint::Licenses
        | Endpoint::DbInstances
        | Endpoint::Submit
        | Endpoint::Change(_)
        | Endpoint::Cancel(_)
        | Endpoint::CancelSeveral => Vec::new(),
    });
    all
}

fn with(need: Need, associations: bool) -> Vec<Need> {
    let mut all = vec![need];
    all.extend(associations.then_some(Need::Associations));
    all
}

/// What parameters add to an answer, or leave out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Extras {
    pub associations: bool,
    pub earlier_runs: bool,
    pub without_steps: bool,
}

impl Gathered {
    /// The request that brings something, or the next part of it; nothing where nothing is left to ask.
    pub fn request(&self, need: Need, place: &Place, selection: &Selection) -> Option<Request> {
        let of = |filter: JobFilter, states: Vec<JobState>| JobFilter {
            states,
            pages: true,
            after: place.jobs,
            ..filter
        };
        let filter = || selection.filter.clone();
        Some(match need {
            Need::Settings => Request::Settings,
            Need::Controllers => Request::Controllers,
            Need::Meter => Request::Meter,
            Need::Queues => Request::Queues,
            Need::Nodes => Request::Nodes,
            Need::Reservations => Request::Reservations {
                filter: ReservationFilter::default(),
            },
            Need::Jobs => Request::Jobs {
                fields: job_fields(selection.predicted),
                fold_arrays: filter().ids.iter().all(|id| id.task.is_none()),
                filter: of(filter(), filter().states),
            },
            Need::Living => Request::Jobs {
                fields: db_job::needs(),
                fold_arrays: filter().ids.iter().all(|id| id.task.is_none()),
                filter: JobFilter {
                    since: None,
                    until: None,
                    most: None,
                    earlier_runs: false,
                    ..of(filter(), states(false))
                },
            },
            Need::Ended => self.history(JobFilter {
                earlier_runs: false,
                ..of(filter(), states(true))
            }),
            Need::EarlierRuns => self.history(JobFilter {
                earlier_runs: true,
                ..of(filter(), Vec::new())
            }),
            Need::Today => Request::History {
                filter: JobFilter {
                    since: Some(selection.midnight),
                    ..of(JobFilter::default(), Vec::new())
                },
                fields: diagnosis::NEEDS.to_vec(),
            },
            Need::Steps => {
                let all = self.started();
                let jobs: Vec<JobRef> = all
                    .into_iter()
                    .skip(place.first_job)
                    .take(JOBS_WITH_STEPS)
                    .collect();
                if jobs.is_empty() {
                    return None;
                }
                Request::Steps {
                    jobs,
                    pages: true,
                    after: place.steps,
                }
            }
            Need::Users | Need::Accounts | Need::Associations | Need::Qos => {
                Request::Policy(self.policy(need, selection))
            }
        })
    }

    fn history(&self, filter: JobFilter) -> Request {
        let had: usize = match filter.earlier_runs {
            true => self.earlier.iter().map(|table| table.rows).sum(),
            false => self.ended.iter().map(|table| table.rows).sum(),
        };
        let left = HISTORY.saturating_sub(u32::try_from(had).unwrap_or(u32::MAX));
        Request::History {
            filter: JobFilter {
                most: Some(left),
                ..filter
            },
            fields: db_job::needs(),
        }
    }

    fn policy(&self, need: Need, selection: &Selection) -> PolicyQuery {
        let names = selection.names.clone();
        match need {
            Need::Users => PolicyQuery::Users {
                names,
                after: self.users.last().map(|user| user.record.name.clone()),
            },
            Need::Accounts => PolicyQuery::Accounts { names },
            Need::Qos => PolicyQuery::Qos {
                names,
                usage: false,
            },
            _ => PolicyQuery::Associations {
                // For a place in the tree all have to be there.
                accounts: selection.accounts.clone(),
                users: Vec::new(),
                usage: selection.usage,
                skip: u32::try_from(self.associations.len()).unwrap_or(u32::MAX),
            },
        }
    }

    /// Jobs that may have steps, each once.
    fn started(&self) -> Vec<JobRef> {
        let tables = self.jobs.iter().chain(&self.ended).chain(&self.earlier);
        let rows = tables.flat_map(|table| (0..table.rows).map(move |row| (table, row)));
        let started = rows.filter(|(table, row)| table.number(*row, JobField::Start).is_some());
        let all: BTreeSet<JobRef> = started
            .filter_map(|(table, row)| table.text(row, JobField::Ref).parse().ok())
            .collect();
        all.into_iter().collect()
    }

    /// Takes an answer up. Gives where the list goes on; `None`: it is whole.
    ///
    /// # Errors
    /// An answer to something else.
    pub fn take(&mut self, need: Need, reply: Reply, place: &Place) -> Result<Option<Place>, ()> {
        match (need, reply) {
            (Need::Settings, Reply::Settings(settings)) => self.settings = *settings,
            (Need::Controllers, Reply::Controllers(all)) => self.controllers = all,
            (Need::Meter, Reply::Meter { kinds, .. }) => self.meter = kinds,
            (Need::Queues, Reply::Queues(all)) => self.queues = all,
            (Need::Nodes, Reply::Nodes(all)) => self.nodes = all,
            (Need::Reservations, Reply::Reservations(all)) => self.reservations = all,
            (Need::Jobs | Need::Living, Reply::Jobs(page)) => {
                return page_of(&mut self.jobs, page, place);
            }
            (Need::Ended, Reply::Jobs(page)) => return page_of(&mut self.ended, page, place),
            (Need::EarlierRuns, Reply::Jobs(page)) => {
                return page_of(&mut self.earlier, page, place);
            }
            (Need::Today, Reply::Jobs(page)) => {
                let mut pages = vec![std::mem::take(&mut self.today)];
                pages.retain(|page| page.rows > 0);
                let next = page_of(&mut pages, page, place)?;
                self.today = Table::joined(pages);
                return Ok(next);
            }
            (Need::Steps, Reply::StepsPage { rows, more }) => {
                self.steps.extend(rows);
                return self.steps_after(more, place);
            }
            (Need::Steps, Reply::Steps(rows)) => {
                self.steps.extend(rows);
                return self.steps_after(None, place);
            }
            (_, Reply::Policy(answer)) => return self.take_policy(answer),
            _ => return Err(()),
        }
        Ok(None)
    }

    fn steps_after(&self, more: Option<StepCursor>, place: &Place) -> Result<Option<Place>, ()> {
        if more.is_some() && more == place.steps {
            return Err(());
        }
        let first_job = match more {
            Some(_) => place.first_job,
            None => place.first_job + JOBS_WITH_STEPS,
        };
        Ok(Some(Place {
            steps: more,
            first_job,
            jobs: None,
        }))
    }

    fn take_policy(&mut self, answer: PolicyAnswer) -> Result<Option<Place>, ()> {
        let on = |more: bool, grown: bool| match (more, grown) {
            (true, true) => Ok(Some(Place::default())),
            (true, false) => Err(()),
            (false, _) => Ok(None),
        };
        match answer {
            PolicyAnswer::Accounts(all) => self.accounts = all,
            PolicyAnswer::Qos(all) => self.qos = all,
            PolicyAnswer::Users { users, more } => {
                let grown = !users.is_empty();
                self.users.extend(users);
                return on(more, grown);
            }
            PolicyAnswer::Associations { rows, more, .. } => {
                let grown = !rows.is_empty();
                self.associations.extend(rows);
                return on(more, grown);
            }
            PolicyAnswer::Standing(_) => return Err(()),
        }
        Ok(None)
    }
}

fn job_fields(predicted: bool) -> Vec<JobField> {
    let mut fields = job::needs();
    if !predicted {
        fields.retain(|field| *field != JobField::PredictedStart);
    }
    fields
}

/// States of jobs that are over, or of all others.
fn states(over: bool) -> Vec<JobState> {
    JobState::ALL
        .into_iter()
        .filter(|state| state.is_end() == over)
        .collect()
}

/// Adds a page to a list.
fn page_of(pages: &mut Vec<Table>, page: Table, place: &Place) -> Result<Option<Place>, ()> {
    if !page.is_sound() || (page.more.is_some() && page.more == place.jobs) {
        return Err(());
    }
    let more = page.more;
    pages.push(page);
    Ok(more.map(|more| Place {
        jobs: Some(more),
        ..Place::default()
    }))
}
