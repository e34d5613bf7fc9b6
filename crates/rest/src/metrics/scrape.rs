//! A look at the figures that is under way: one request after another, and at last the text.

use super::figures::{FIELDS, Figures};
use super::text::Text;
use super::{exporters, native, own};
use cosy_model::api::{Cursor, JobFilter, Reply, Request};
use cosy_model::policy::{PolicyAnswer, PolicyQuery};
use cosy_model::reservation::ReservationFilter;
use cosy_model::{Refusal, Time};
use std::collections::VecDeque;

/// Which families are told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Families {
    /// `/metrics`: all but series of users and of nodes, which are told where they are asked for.
    All {
        /// With series of users and accounts.
        users: bool,
        /// With series of each node.
        nodes: bool,
    },
    /// Those of `/metrics/jobs`.
    Jobs,
    /// Those of `/metrics/jobs-users-accts`.
    UsersAndAccounts,
    /// Those of `/metrics/nodes`.
    Nodes,
    /// Those of `/metrics/partitions`.
    Partitions,
    /// Those of `/metrics/scheduler`.
    Scheduler,
}

impl Families {
    /// Those of a path behind `/metrics`; `None`: nothing is there.
    pub fn of_path(rest: &str, users: bool, nodes: bool) -> Option<Self> {
        Some(match rest.trim_matches('/') {
            "" => Self::All { users, nodes },
            "jobs" => Self::Jobs,
            "jobs-users-accts" => Self::UsersAndAccounts,
            "nodes" => Self::Nodes,
            "partitions" => Self::Partitions,
            "scheduler" => Self::Scheduler,
            _ => return None,
        })
    }

    fn needs(self) -> Vec<Need> {
        use Need as N;
        match self {
            Self::All { users, .. } => {
                let always = [
                    N::Settings,
                    N::Nodes,
                    N::Queues,
                    N::Jobs,
                    N::Meter,
                    N::Reservations,
                    N::Accounts,
                    N::Controllers,
                ];
                always
                    .into_iter()
                    .chain(users.then_some(N::Associations))
                    .collect()
            }
            Self::Jobs | Self::UsersAndAccounts => vec![N::Jobs],
            Self::Nodes => vec![N::Nodes, N::Reservations],
            Self::Partitions => vec![N::Queues, N::Nodes, N::Reservations, N::Jobs],
            Self::Scheduler => vec![N::Jobs, N::Meter],
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Need {
    Settings,
    Nodes,
    Queues,
    Jobs,
    Meter,
    Reservations,
    Accounts,
    Controllers,
    Associations,
}

/// A look that is under way.
#[derive(Clone, Debug)]
pub struct Scrape {
    families: Families,
    needs: VecDeque<Need>,
    after: Option<Cursor>,
    figures: Figures,
    failed: Option<Refusal>,
}

impl Scrape {
    /// Begins at that time.
    pub fn new(families: Families, now: Time) -> Self {
        Self {
            families,
            needs: families.needs().into(),
            after: None,
            figures: Figures {
                now,
                ..Figures::default()
            },
            failed: None,
        }
    }

    /// The next request to send; `None` when the text can be made.
    pub fn ask(&self) -> Option<Request> {
        Some(match self.needs.front()? {
            Need::Settings => Request::Settings,
            Need::Nodes => Request::Nodes,
            Need::Queues => Request::Queues,
            Need::Jobs => Request::Jobs {
                filter: JobFilter {
                    pages: true,
                    after: self.after,
                    ..JobFilter::default()
                },
                fields: FIELDS.to_vec(),
                fold_arrays: true,
            },
            Need::Meter => Request::Meter,
            Need::Reservations => Request::Reservations {
                filter: ReservationFilter {
                    ended: true,
                    ..ReservationFilter::default()
                },
            },
            Need::Accounts => Request::Accounts { names: Vec::new() },
            Need::Controllers => Request::Controllers,
            Need::Associations => Request::Policy(PolicyQuery::Associations {
                accounts: Vec::new(),
                users: Vec::new(),
                usage: true,
                skip: u32::try_from(self.figures.associations.len()).unwrap_or(u32::MAX),
            }),
        })
    }

    /// Takes the answer to that request. What is refused is left out; without nodes, queues or jobs
    /// there is nothing to tell.
    pub fn take(&mut self, reply: Result<Reply, Refusal>) {
        let Some(need) = self.needs.pop_front() else {
            return;
        };
        let figures = &mut self.figures;
        match (need, reply) {
            (Need::Settings, Ok(Reply::Settings(settings))) => figures.settings = *settings,
            (Need::Nodes, Ok(Reply::Nodes(all))) => figures.nodes = all,
            (Need::Queues, Ok(Reply::Queues(all))) => figures.queues = all,
            (Need::Jobs, Ok(Reply::Jobs(page))) if page.is_sound() => {
                figures.jobs.add(&page);
                if page.more.is_some() && page.more != self.after {
                    self.after = page.more;
                    self.needs.push_front(Need::Jobs);
                }
            }
            (Need::Meter, Ok(Reply::Meter { kinds, budgets })) => {
                (figures.meter, figures.budgets) = (kinds, budgets);
            }
            (Need::Reservations, Ok(Reply::Reservations(all))) => figures.reservations = all,
            (Need::Accounts, Ok(Reply::Accounts(all))) => figures.accounts = all,
            (Need::Controllers, Ok(Reply::Controllers(all))) => figures.controllers = all,
            (
                Need::Associations,
                Ok(Reply::Policy(PolicyAnswer::Associations { rows, more, .. })),
            ) => {
                if more && !rows.is_empty() {
                    self.needs.push_front(Need::Associations);
                }
                figures.associations.extend(rows);
            }
            (
                Need::Nodes | Need::Queues | Need::Jobs,
                Ok(Reply::Refused(refusal)) | Err(refusal),
            ) => {
                self.failed = Some(refusal);
                self.needs.clear();
            }
            (_, Ok(_) | Err(_)) => {}
        }
    }

    /// The text.
    ///
    /// # Errors
    /// Why the controller does not say the least.
    pub fn text(&self) -> Result<String, Refusal> {
        match &self.failed {
            Some(refusal) => Err(refusal.clone()),
            None => Ok(render(self.families, &self.figures)),
        }
    }
}

/// The text of some families.
pub fn render(families: Families, figures: &Figures) -> String {
    let mut text = Text::default();
    match families {
        Families::All { users, nodes } => {
            native::jobs(&mut text, figures);
            native::nodes(&mut text, figures);
            native::partitions(&mut text, figures);
            native::scheduler(&mut text, figures);
            exporters::all(&mut text, figures);
            own::all(&mut text, figures);
            if users {
                native::users_and_accounts(&mut text, figures);
                exporters::users_and_accounts(&mut text, figures);
            }
            if nodes {
                native::each_node(&mut text, figures);
                exporters::each_node(&mut text, figures);
            }
        }
        Families::Jobs => native::jobs(&mut text, figures),
        Families::UsersAndAccounts => native::users_and_accounts(&mut text, figures),
        Families::Nodes => {
            native::nodes(&mut text, figures);
            native::each_node(&mut text, figures);
        }
        Families::Partitions => native::partitions(&mut text, figures),
        Families::Scheduler => native::scheduler(&mut text, figures),
    }
    text.done()
}
