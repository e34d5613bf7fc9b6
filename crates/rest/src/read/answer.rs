//! The document of each endpoint.

use crate::call::Endpoint;
use crate::document::{Client, Document};
use crate::fault::{Fault, Warning};
use crate::json::Misfit;
use crate::read::needs::{Gathered, HISTORY};
use crate::read::reading::Reading;
use crate::read::{db_job, job, node, partition, policy, reservation, small, stats};
use crate::shape::Kind;
use cosy_model::api::{JobField as F, NodeInfo, QueueInfo, StepRow};
use cosy_model::policy::{AccountEntry, AssociationInfo, Tres, UserEntry};
use cosy_model::reservation::{ReservationInfo, ReservationState};
use cosy_model::{Span, Time};
use cosy_slurm::diagnosis::Counts;
use cosy_slurm::job::{ClusterFacts, JobView};
use cosy_slurm::json_yaml::Data;
use cosy_slurm::sacct::rows::Row;
use cosy_slurm::sacct::window;
use cosy_slurm::show;
use std::collections::{BTreeMap, BTreeSet};

impl Reading {
    /// The status of the answer: known before it is written.
    pub fn status(&self) -> u16 {
        let first = self.faults.first().map(Fault::status);
        first
            .or_else(|| self.missing().map(|fault| fault.status()))
            .unwrap_or(200)
    }

    /// Writes the answer, piece by piece, and gives what did not fit into it: nothing, or there is a
    /// mistake here.
    pub fn write(&self, client: &Client<'_>, print: &mut dyn FnMut(&str)) -> Vec<Misfit> {
        let mut faults = self.faults.clone();
        faults.extend(if faults.is_empty() {
            self.missing()
        } else {
            None
        });
        let mut warnings = self.warnings.clone();
        let mut document = Document::new(self.call.version, print);
        self.body(&mut document, client);
        if faults.is_empty() && document.rows == 0 && self.call.endpoint.is_of_accounting() {
            warnings.push(Warning::new("slurmdb", "Nothing found with query"));
        }
        let told: usize = self.got.ended.iter().map(|table| table.rows).sum();
        if u32::try_from(told).is_ok_and(|told| told >= HISTORY) {
            let why = format!("only the latest {HISTORY} jobs are told: ask for a shorter time");
            warnings.push(Warning::new("jobs", why));
        }
        document.close(&self.call.endpoint, client, &self.got.settings.cluster, &faults, &warnings)
    }

    /// What was named and is not there.
    fn missing(&self) -> Option<Fault> {
        let got = &self.got;
        let none = match &self.call.endpoint {
            Endpoint::Job(_) if got.jobs.iter().all(|table| table.rows == 0) => 2017,
            Endpoint::Node(name) if !got.nodes.iter().any(|n| n.name == *name) => 2018,
            Endpoint::Partition(name) if !got.queues.iter().any(|q| q.spec.name == *name) => 2000,
            Endpoint::Reservation(name) if !got.reservations.iter().any(|r| is_named(r, name)) => {
                2053
            }
            _ => return None,
        };
        let fault = Fault::new(none, "", "path");
        let description = fault.sentence().to_owned();
        Some(Fault {
            description,
            ..fault
        })
    }

    fn now(&self) -> Time {
        Time(self.now.timestamp().as_millisecond())
    }

    fn body(&self, document: &mut Document<'_>, client: &Client<'_>) {
        let got = &self.got;
        match &self.call.endpoint {
            Endpoint::Ping => {
                document.list("pings", "ping", small::pings(&got.controllers, &got.settings.host))
            }
            Endpoint::Diag => document.one("statistics", "stats", &self.statistics()),
            Endpoint::Jobs | Endpoint::JobStates | Endpoint::Job(_) => self.jobs(document, client),
            Endpoint::Nodes => self.nodes(document, None),
            Endpoint::Node(name) => self.nodes(document, Some(name)),
            Endpoint::Partitions => self.partitions(document, None),
            Endpoint::Partition(name) => self.partitions(document, Some(name)),
            Endpoint::Reservations => self.reservations(document, None),
            Endpoint::Reservation(name) => self.reservations(document, Some(name)),
            Endpoint::Licenses => {
                let all = got.settings.licenses.iter();
                document.list("licenses", "license", all.map(small::of_license));
                self.updated(document);
            }
            Endpoint::Shares => self.shares(document),
            Endpoint::DbJobs | Endpoint::DbJob(_) => self.db_jobs(document, client),
            Endpoint::DbPing => {
                document.list("pings", "db_ping", [small::db_ping(&got.settings.host)])
            }
            Endpoint::DbDiag => document.one("statistics", "db_stats", &Data::Null),
            Endpoint::DbConfig => {
                self.cluster(document, None);
                self.tres(document);
                self.accounts(document);
                self.users(document);
                self.qos(document);
                self.wckeys(document);
                self.associations(document, false);
                document.list("instances", "instance", []);
            }
            Endpoint::DbUsers | Endpoint::DbUser(_) => self.users(document),
            Endpoint::DbAccounts | Endpoint::DbAccount(_) => self.accounts(document),
            Endpoint::DbAssociations => self.associations(document, false),
            Endpoint::DbAssociation => self.associations(document, true),
            Endpoint::DbQos | Endpoint::DbOneQos(_) => self.qos(document),
            Endpoint::DbClusters => self.cluster(document, None),
            Endpoint::DbCluster(name) => self.cluster(document, Some(name)),
            Endpoint::DbTres => self.tres(document),
            Endpoint::DbWckeys => self.wckeys(document),
            Endpoint::DbInstances => document.list("instances", "instance", []),
            // These are written where they are carried out.
            Endpoint::Submit
            | Endpoint::Change(_)
            | Endpoint::Cancel(_)
            | Endpoint::CancelSeveral => {}
        }
    }

    fn updated(&self, document: &mut Document<'_>) {
        let now = self.now().secs();
        document.value("last_update", Kind::Number(64), now.into());
    }

    fn statistics(&self) -> Data {
        let since = self.wanted.selection.midnight;
        let counts = Counts::of(&self.got.queues, &self.got.today, since);
        stats::of_counts(&counts, &self.got.meter, self.now(), since)
    }

    fn jobs(&self, document: &mut Document<'_>, client: &Client<'_>) {
        let around = facts(&self.got, client);
        let tables = self.got.jobs.iter();
        let rows = tables.flat_map(|table| (0..table.rows).map(move |row| (table, row)));
        let mut seen = BTreeSet::new();
        // One that ended while pages were fetched is on two of them.
        let views = rows
            .map(|(table, row)| JobView::new(table, row, &around))
            .filter(|view| self.got.jobs.len() < 2 || seen.insert(view.text(F::Ref).to_owned()));
        document.list("jobs", "job", views.map(|view| job::of_job(&view)));
        document.value("last_backfill", Kind::Number(64), self.now().secs().into());
        self.updated(document);
    }

    fn nodes(&self, document: &mut Document<'_>, only: Option<&str>) {
        let got = &self.got;
        let active = got
            .reservations
            .iter()
            .filter(|r| r.state == ReservationState::Active);
        let mut reserved: BTreeMap<String, String> = BTreeMap::new();
        for r in active {
            let names = cosy_model::expand(&r.nodes).unwrap_or_default();
            let name = show::reservation::name(r);
            reserved.extend(names.into_iter().map(|node| (node, name.clone())));
        }
        let release = self.call.version.release().join(".");
        let all = got
            .nodes
            .iter()
            .filter(|node| only.is_none_or(|name| node.name == name));
        let one = |node: &NodeInfo| {
            let reservation = reserved.get(&node.name);
            node::of_node(node, &got.settings.cluster, reservation.map(String::as_str), &release)
        };
        document.list("nodes", "node", all.map(one));
        self.updated(document);
    }

    fn partitions(&self, document: &mut Document<'_>, only: Option<&str>) {
        let got = &self.got;
        let all = got
            .queues
            .iter()
            .filter(|q| only.is_none_or(|name| q.spec.name == name));
        let one = |queue| partition::of_queue(queue, &got.nodes, &got.settings.cluster);
        document.list("partitions", "partition", all.map(one));
        self.updated(document);
    }

    fn reservations(&self, document: &mut Document<'_>, only: Option<&str>) {
        let mut seen = BTreeSet::new();
        // Of a series Slurm tells the next one.
        let all = self
            .got
            .reservations
            .iter()
            .filter(|r| seen.insert(r.series.unwrap_or(r.id)));
        let all = all.filter(|r| only.is_none_or(|name| is_named(r, name)));
        document.list("reservations", "reservation", all.map(reservation::of_reservation));
        self.updated(document);
    }

    fn shares(&self, document: &mut Document<'_>) {
        let rows = self
            .got
            .associations
            .iter()
            .filter(|row| self.is_wanted(row));
        let cluster = &self.got.settings.cluster;
        let shares: Vec<Data> = rows.map(|row| policy::of_share(row, cluster)).collect();
        document.shares(&shares);
    }

    /// Whether an association is of the users and accounts that were named.
    fn is_wanted(&self, row: &AssociationInfo) -> bool {
        let among = |names: &[String], name: Option<&str>| {
            names.is_empty() || name.is_some_and(|name| names.iter().any(|own| own == name))
        };
        among(&self.wanted.accounts, Some(&row.key.account))
            && among(&self.wanted.users, row.key.user.as_deref())
    }

    fn db_jobs(&self, document: &mut Document<'_>, client: &Client<'_>) {
        let got = &self.got;
        let around = facts(got, client);
        let mut steps: BTreeMap<(String, i64), Vec<StepRow>> = BTreeMap::new();
        for row in &got.steps {
            let run = (row.job.to_string(), i64::from(row.attempt.0));
            steps.entry(run).or_default().push(row.clone());
        }
        for steps in steps.values_mut() {
            steps.sort_by_key(|step| step.record.step);
        }
        let mut all = Vec::new();
        for (tables, earlier) in [
            (&got.ended, false),
            (&got.jobs, false),
            (&got.earlier, true),
        ] {
            let rows = tables
                .iter()
                .flat_map(|table| (0..table.rows).map(move |row| (table, row)));
            all.extend(rows.map(|(table, row)| (JobView::new(table, row, &around), earlier)));
        }
        all.sort_by_key(|(job, earlier)| {
            (job.base_id(), job.task(), job.raw_id(), !earlier, job.count(F::Restarts))
        });
        // One may have ended between the two questions.
        let run = |job: &JobView<'_>, earlier| {
            (job.text(F::Ref).to_owned(), job.count(F::Restarts), earlier)
        };
        all.dedup_by_key(|(job, earlier)| run(job, *earlier));
        let now = self.now();
        let none = Vec::new();
        let rows = all.into_iter().filter_map(|(job, earlier)| {
            let id = job.text(F::Ref).to_owned();
            let own = steps
                .get(&(id, job.count(F::Restarts) + 1))
                .unwrap_or(&none);
            let rows = match earlier {
                true => Row::of_earlier_run(job, own, now),
                false => Row::of_job(job, own, &[], None, now),
            };
            let rows = if self.wanted.extras.without_steps {
                rows.into_iter().take(1).collect()
            } else {
                rows
            };
            rows.first()
                .is_some_and(|whole| window::is_meant(whole, &self.wanted.query))
                .then(|| db_job::of_job(&rows))
        });
        document.list("jobs", "db_job", rows);
    }

    fn users(&self, document: &mut Document<'_>) {
        let got = &self.got;
        let own = self.associations_by(|row| row.key.user.as_deref());
        let one = |user: &UserEntry| {
            let own = own
                .get(user.record.name.as_str())
                .map_or(&[][..], Vec::as_slice);
            policy::of_user(user, own, &got.settings.cluster)
        };
        document.list("users", "user", got.users.iter().map(one));
    }

    fn accounts(&self, document: &mut Document<'_>) {
        let got = &self.got;
        let own = self.associations_by(|row| Some(&row.key.account));
        let one = |account: &AccountEntry| {
            let own = own
                .get(account.record.name.as_str())
                .map_or(&[][..], Vec::as_slice);
            policy::of_account(account, own, &got.settings.cluster)
        };
        document.list("accounts", "account", got.accounts.iter().map(one));
    }

    /// The associations of each user or account, where they were asked for.
    fn associations_by<'r>(
        &'r self,
        name: impl Fn(&'r AssociationInfo) -> Option<&'r str>,
    ) -> BTreeMap<&'r str, Vec<&'r AssociationInfo>> {
        let mut all: BTreeMap<&str, Vec<&AssociationInfo>> = BTreeMap::new();
        if self.wanted.extras.associations {
            for row in &self.got.associations {
                if let Some(name) = name(row) {
                    all.entry(name).or_default().push(row);
                }
            }
        }
        all
    }

    fn associations(&self, document: &mut Document<'_>, first: bool) {
        let got = &self.got;
        let rows = got.associations.iter().filter(|row| self.is_wanted(row));
        let rows = rows.take(if first { 1 } else { usize::MAX });
        let places = policy::Places::of(&got.associations);
        let one = |row| policy::of_association(row, &places, &got.settings.cluster);
        document.list("associations", "association", rows.map(one));
    }

    fn qos(&self, document: &mut Document<'_>) {
        document.list("qos", "qos", self.got.qos.iter().map(policy::of_qos));
    }

    fn cluster(&self, document: &mut Document<'_>, only: Option<&str>) {
        let got = &self.got;
        let own = only.is_none_or(|name| name == got.settings.cluster)
            && !got.settings.cluster.is_empty();
        let rows = own.then(|| small::of_cluster(&got.settings, &got.nodes));
        document.list("clusters", "cluster", rows);
    }

    fn tres(&self, document: &mut Document<'_>) {
        let got = &self.got;
        let other = got
            .nodes
            .iter()
            .flat_map(|node| cosy_view::node::other_resources(&node.amounts));
        let mut more: BTreeSet<Tres> = other
            .map(|(name, _)| Tres::Gres {
                name: name.into(),
                kind: None,
            })
            .collect();
        let licenses = got.settings.licenses.iter();
        more.extend(licenses.map(|l| Tres::License(l.name.as_str().into())));
        document.list("TRES", "tres", policy::all_tres(more.into_iter()));
    }

    fn wckeys(&self, document: &mut Document<'_>) {
        let got = &self.got;
        let all = got
            .users
            .iter()
            .flat_map(|user| policy::wckeys(user, &got.settings.cluster));
        document.list("wckeys", "wckey", all);
    }
}

fn is_named(r: &ReservationInfo, name: &str) -> bool {
    show::reservation::name(r) == name
}

/// What the cluster says about its jobs.
fn facts(got: &Gathered, client: &Client<'_>) -> ClusterFacts {
    let queues = got.queues.iter();
    let limit = |q: &QueueInfo| {
        let limit = q.spec.default_time.or(q.spec.max_time);
        (q.spec.name.clone(), limit.unwrap_or(Span::UNLIMITED))
    };
    let memory = |q: &QueueInfo| Some((q.spec.name.clone(), q.spec.default_memory_per_core?));
    let tables = got.jobs.iter().chain(&got.ended).chain(&got.earlier);
    let gids: BTreeSet<i64> = tables
        .flat_map(|table| (0..table.rows).filter_map(|row| table.number(row, F::Gid)))
        .collect();
    let group = |gid: i64| {
        let name = u32::try_from(gid)
            .ok()
            .and_then(|gid| (client.group_name)(gid));
        (gid, name.unwrap_or_else(|| gid.to_string()))
    };
    let name =
        |r: &ReservationInfo| Some((i64::try_from(r.id.0).ok()?, show::reservation::name(r)));
    ClusterFacts {
        default_memory: queues.clone().filter_map(memory).collect(),
        default_limits: queues.map(limit).collect(),
        reservations: got.reservations.iter().filter_map(name).collect(),
        groups: gids.into_iter().map(group).collect(),
        cluster: got.settings.cluster.clone(),
    }
}
