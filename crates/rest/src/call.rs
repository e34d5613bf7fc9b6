//! What is called: paths, methods and parameters of `slurm/...` and `slurmdb/...`.

use crate::fault::{Fault, UNKNOWN_URL, UNKNOWN_URL_METHOD, Warning};
use crate::query::{Parameters, decoded, short};
use crate::value::{self, Given};
use crate::version::ApiVersion;

/// Methods of HTTP that are served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Method {
    /// It looks, and changes nothing.
    Get,
    /// Submits, or changes.
    Post,
    /// It cancels jobs.
    Delete,
}

impl Method {
    /// The method of that name.
    pub fn of_word(word: &str) -> Option<Self> {
        Some(match word {
            "GET" => Self::Get,
            "POST" => Self::Post,
            "DELETE" => Self::Delete,
            _ => return None,
        })
    }
}

/// Something that is served. Texts are ids and names out of the path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Endpoint {
    /// `GET slurm/V/ping`.
    Ping,
    /// `GET slurm/V/diag`.
    Diag,
    /// `GET slurm/V/jobs`.
    Jobs,
    /// `GET slurm/V/jobs/state`.
    JobStates,
    /// `GET slurm/V/job/ID`.
    Job(String),
    /// `GET slurm/V/nodes`.
    Nodes,
    /// `GET slurm/V/node/NAME`.
    Node(String),
    /// `GET slurm/V/partitions`.
    Partitions,
    /// `GET slurm/V/partition/NAME`.
    Partition(String),
    /// `GET slurm/V/reservations`.
    Reservations,
    /// `GET slurm/V/reservation/NAME`.
    Reservation(String),
    /// `GET slurm/V/licenses`.
    Licenses,
    /// `GET slurm/V/shares`.
    Shares,
    /// `GET slurmdb/V/jobs`.
    DbJobs,
    /// `GET slurmdb/V/job/ID`.
    DbJob(String),
    /// `GET slurmdb/V/users`.
    DbUsers,
    /// `GET slurmdb/V/user/NAME`.
    DbUser(String),
    /// `GET slurmdb/V/accounts`.
    DbAccounts,
    /// `GET slurmdb/V/account/NAME`.
    DbAccount(String),
    /// `GET slurmdb/V/associations`.
    DbAssociations,
    /// `GET slurmdb/V/association`: the first that fits.
    DbAssociation,
    /// `GET slurmdb/V/qos`.
    DbQos,
    /// `GET slurmdb/V/qos/NAME`.
    DbOneQos(String),
    /// `GET slurmdb/V/clusters`.
    DbClusters,
    /// `GET slurmdb/V/cluster/NAME`.
    DbCluster(String),
    /// `GET slurmdb/V/tres`.
    DbTres,
    /// `GET slurmdb/V/wckeys`.
    DbWckeys,
    /// `GET slurmdb/V/instances`.
    DbInstances,
    /// `GET slurmdb/V/config`.
    DbConfig,
    /// `GET slurmdb/V/diag`.
    DbDiag,
    /// `GET slurmdb/V/ping`.
    DbPing,
    /// `POST slurm/V/job/submit`.
    Submit,
    /// `POST slurm/V/job/ID`.
    Change(String),
    /// `DELETE slurm/V/job/ID`.
    Cancel(String),
    /// `DELETE slurm/V/jobs`.
    CancelSeveral,
}

const UPDATE_TIME: &[&str] = &["update_time"];
const USERS: &[&str] = &[
    "admin_level",
    "default_account",
    "default_wckey",
    "with_assocs",
    "with_coords",
    "with_deleted",
    "with_wckeys",
    "without_defaults",
];
const ACCOUNTS: &[&str] = &[
    "description",
    "DELETED",
    "WithAssociations",
    "WithCoordinators",
    "NoUsersAreCoords",
    "UsersAreCoords",
    "with_assocs",
    "with_coords",
    "with_deleted",
];
const QOS: &[&str] = &[
    "description",
    "id",
    "format",
    "name",
    "preempt_mode",
    "with_deleted",
];
const CLUSTER: &[&str] = &[
    "classification",
    "cluster",
    "federation",
    "flags",
    "format",
    "rpc_version",
    "usage_end",
    "usage_start",
    "with_deleted",
    "with_usage",
];
const WCKEYS: &[&str] = &[
    "cluster",
    "format",
    "id",
    "name",
    "only_defaults",
    "usage_end",
    "usage_start",
    "user",
    "with_usage",
    "with_deleted",
];
const INSTANCES: &[&str] = &[
    "cluster",
    "extra",
    "format",
    "instance_id",
    "instance_type",
    "node_list",
    "time_end",
    "time_start",
];
const LOADS: &[&str] = &["update_time", "flags"];
const ASSOCIATIONS: &[&str] = &[
    "account",
    "cluster",
    "default_qos",
    "format",
    "id",
    "only_defaults",
    "parent_account",
    "partition",
    "qos",
    "usage_end",
    "usage_start",
    "user",
    "with_usage",
    "with_deleted",
    "with_raw_qos",
    "with_sub_accts",
    "without_parent_info",
    "without_parent_limits",
    "Include deleted associations",
    "Include usage",
    "Filter to only defaults",
    "Include the raw QOS or delta_qos",
    "Include sub acct information",
    "Exclude parent id/name",
    "Exclude limits from parents",
];
const DB_JOBS: &[&str] = &[
    "account",
    "association",
    "cluster",
    "constraints",
    "scheduler_unset",
    "scheduled_on_submit",
    "scheduled_by_main",
    "scheduled_by_backfill",
    "job_started",
    "job_altered",
    "exit_code",
    "show_duplicates",
    "skip_steps",
    "disable_truncate_usage_time",
    "whole_hetjob",
    "disable_whole_hetjob",
    "disable_wait_for_result",
    "usage_time_as_submit_time",
    "show_batch_script",
    "show_job_environment",
    "format",
    "groups",
    "job_name",
    "partition",
    "qos",
    "reason",
    "reservation",
    "reservation_id",
    "state",
    "step",
    "end_time",
    "start_time",
    "node",
    "users",
    "wckey",
    "cpus_max",
    "cpus_min",
    "nodes_max",
    "nodes_min",
    "timelimit_max",
    "timelimit_min",
];

impl Endpoint {
    /// The parameters that Slurm has for it.
    pub(crate) const fn parameters(&self) -> &'static [&'static str] {
        match self {
            Self::Jobs
            | Self::Job(_)
            | Self::Nodes
            | Self::Node(_)
            | Self::Partitions
            | Self::Partition(_) => LOADS,
            Self::Reservations | Self::Reservation(_) | Self::DbClusters => UPDATE_TIME,
            Self::JobStates => &["job_id"],
            Self::Shares => &["accounts", "users"],
            Self::DbJobs => DB_JOBS,
            Self::DbUsers | Self::DbUser(_) => USERS,
            Self::DbAccounts | Self::DbAccount(_) => ACCOUNTS,
            Self::DbAssociations | Self::DbAssociation => ASSOCIATIONS,
            Self::DbQos | Self::DbOneQos(_) => QOS,
            Self::DbCluster(_) => CLUSTER,
            Self::DbWckeys => WCKEYS,
            Self::DbInstances => INSTANCES,
            Self::Cancel(_) => &["signal", "flags"],
            Self::Ping
            | Self::Diag
            | Self::Licenses
            | Self::DbJob(_)
            | Self::DbTres
            | Self::DbConfig
            | Self::DbDiag
            | Self::DbPing
            | Self::Submit
            | Self::Change(_)
            | Self::CancelSeveral => &[],
        }
    }

    /// Whether it belongs to `slurmdb`.
    pub const fn is_of_accounting(&self) -> bool {
        match self {
            Self::DbJobs
            | Self::DbJob(_)
            | Self::DbUsers
            | Self::DbUser(_)
            | Self::DbAccounts
            | Self::DbAccount(_)
            | Self::DbAssociations
            | Self::DbAssociation
            | Self::DbQos
            | Self::DbOneQos(_)
            | Self::DbClusters
            | Self::DbCluster(_)
            | Self::DbTres
            | Self::DbWckeys
            | Self::DbInstances
            | Self::DbConfig
            | Self::DbDiag
            | Self::DbPing => true,
            Self::Ping
            | Self::Diag
            | Self::Jobs
            | Self::JobStates
            | Self::Job(_)
            | Self::Nodes
            | Self::Node(_)
            | Self::Partitions
            | Self::Partition(_)
            | Self::Reservations
            | Self::Reservation(_)
            | Self::Licenses
            | Self::Shares
            | Self::Submit
            | Self::Change(_)
            | Self::Cancel(_)
            | Self::CancelSeveral => false,
        }
    }
}

/// A request as it came: what is called, in which version, with which parameters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Call {
    /// The version out of the path.
    pub version: ApiVersion,
    /// What is called.
    pub endpoint: Endpoint,
    /// The parameters behind `?`.
    pub parameters: Parameters,
    /// Parameters that have no effect.
    pub warnings: Vec<Warning>,
}

impl Call {
    /// Reads method, path (`/slurm/v0.0.44/jobs/`) and what stands behind `?`.
    ///
    /// # Errors
    /// Nothing is served there; with the version in which that is to be said.
    pub fn read(method: &str, path: &str, query: &str) -> Result<Self, (ApiVersion, Fault)> {
        let mut words = path.trim_matches('/').split('/');
        let (family, word) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let Some(version) = ApiVersion::of_word(word) else {
            let why = format!(
                "nothing is served at \"{}\": versions are v0.0.42 to v0.0.44",
                short(path)
            );
            return Err((ApiVersion::V44, Fault::new(UNKNOWN_URL, why, "path")));
        };
        let rest: Vec<&str> = words.collect();
        let with_version = |fault| (version, fault);
        let endpoint = endpoint(method, path, family, &rest).map_err(with_version)?;
        let parameters = Parameters::read(query).map_err(with_version)?;
        let warnings = parameters.unknown(endpoint.parameters());
        Ok(Self {
            version,
            endpoint,
            parameters,
            warnings,
        })
    }
}

impl Call {
    /// The same with what a body says beside the address: Slurm takes conditions of a look there too.
    ///
    /// # Errors
    /// The body is no object, or one whose values are no conditions.
    pub fn with_body(mut self, body: &[u8]) -> Result<Self, Fault> {
        if body.iter().all(u8::is_ascii_whitespace) {
            return Ok(self);
        }
        for (name, value) in &value::object(body)? {
            if let Some(given) = Given::read(name, value)? {
                self.parameters.add(name, given.text());
            }
        }
        self.warnings = self.parameters.unknown(self.endpoint.parameters());
        Ok(self)
    }
}

fn endpoint(method: &str, path: &str, family: &str, words: &[&str]) -> Result<Endpoint, Fault> {
    let mut served = false;
    for each in [Method::Get, Method::Post, Method::Delete] {
        let found = match family {
            "slurm" => of_controller(each, words)?,
            "slurmdb" => of_accounting(each, words)?,
            _ => None,
        };
        match found {
            Some(endpoint) if Method::of_word(method) == Some(each) => return Ok(endpoint),
            Some(_) => served = true,
            None => {}
        }
    }
    Err(match served {
        true => Fault::new(
            UNKNOWN_URL_METHOD,
            format!("{} is not served here", short(method)),
            "method",
        ),
        false => {
            Fault::new(UNKNOWN_URL, format!("nothing is served at \"{}\"", short(path)), "path")
        }
    })
}

fn of_controller(method: Method, words: &[&str]) -> Result<Option<Endpoint>, Fault> {
    Ok(Some(match (method, words) {
        (Method::Get, ["ping"]) => Endpoint::Ping,
        (Method::Get, ["diag"]) => Endpoint::Diag,
        (Method::Get, ["jobs"]) => Endpoint::Jobs,
        (Method::Get, ["jobs", "state"]) => Endpoint::JobStates,
        (Method::Post, ["job", "submit"]) => Endpoint::Submit,
        (Method::Get, ["job", id]) if *id != "submit" => Endpoint::Job(decoded(id)?),
        (Method::Post, ["job", id]) => Endpoint::Change(decoded(id)?),
        (Method::Delete, ["job", id]) if *id != "submit" => Endpoint::Cancel(decoded(id)?),
        (Method::Delete, ["jobs"]) => Endpoint::CancelSeveral,
        (Method::Get, ["nodes"]) => Endpoint::Nodes,
        (Method::Get, ["node", name]) => Endpoint::Node(decoded(name)?),
        (Method::Get, ["partitions"]) => Endpoint::Partitions,
        (Method::Get, ["partition", name]) => Endpoint::Partition(decoded(name)?),
        (Method::Get, ["reservations"]) => Endpoint::Reservations,
        (Method::Get, ["reservation", name]) => Endpoint::Reservation(decoded(name)?),
        (Method::Get, ["licenses"]) => Endpoint::Licenses,
        (Method::Get, ["shares"]) => Endpoint::Shares,
        _ => return Ok(None),
    }))
}

fn of_accounting(method: Method, words: &[&str]) -> Result<Option<Endpoint>, Fault> {
    if method != Method::Get {
        return Ok(None);
    }
    Ok(Some(match words {
        ["jobs"] => Endpoint::DbJobs,
        ["job", id] => Endpoint::DbJob(decoded(id)?),
        ["users"] => Endpoint::DbUsers,
        ["user", name] => Endpoint::DbUser(decoded(name)?),
        ["accounts"] => Endpoint::DbAccounts,
        ["account", name] => Endpoint::DbAccount(decoded(name)?),
        ["associations"] => Endpoint::DbAssociations,
        ["association"] => Endpoint::DbAssociation,
        ["qos"] => Endpoint::DbQos,
        ["qos", name] => Endpoint::DbOneQos(decoded(name)?),
        ["clusters"] => Endpoint::DbClusters,
        ["cluster", name] => Endpoint::DbCluster(decoded(name)?),
        ["tres"] => Endpoint::DbTres,
        ["wckeys"] => Endpoint::DbWckeys,
        ["instances"] => Endpoint::DbInstances,
        ["config"] => Endpoint::DbConfig,
        ["diag"] => Endpoint::DbDiag,
        ["ping"] => Endpoint::DbPing,
        _ => return Ok(None),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn paths() {
        let check = |method: &str, path: &str, want: Endpoint| {
            let call = Call::read(method, path, "").unwrap();
            assert_eq!((call.version, call.endpoint), (ApiVersion::V43, want), "{path}");
        };
        check("GET", "/slurm/v0.0.43/jobs/", Endpoint::Jobs);
        check("GET", "/slurm/v0.0.43/jobs", Endpoint::Jobs);
        check("GET", "/slurm/v0.0.43/jobs/state/", Endpoint::JobStates);
        check("GET", "/slurm/v0.0.43/job/12_3", Endpoint::Job("12_3".into()));
        check("POST", "/slurm/v0.0.43/job/submit", Endpoint::Submit);
        check("POST", "/slurm/v0.0.43/job/7", Endpoint::Change("7".into()));
        check("DELETE", "/slurm/v0.0.43/job/7", Endpoint::Cancel("7".into()));
        check("DELETE", "/slurm/v0.0.43/jobs/", Endpoint::CancelSeveral);
        check("GET", "/slurmdb/v0.0.43/qos/a%20b", Endpoint::DbOneQos("a b".into()));
    }

    #[test]
    fn what_is_not_served() {
        let check = |method: &str, path: &str, status: u16| {
            assert_eq!(Call::read(method, path, "").unwrap_err().1.status(), status, "{path}");
        };
        check("GET", "/slurm/v0.0.41/jobs", 404);
        check("GET", "/slurm/v0.0.44/nothing", 404);
        check("GET", "/", 404);
        check("PUT", "/slurm/v0.0.44/jobs", 405);
        check("POST", "/slurm/v0.0.44/jobs", 405);
        check("GET", "/slurm/v0.0.44/job/submit", 405);
        check("POST", "/slurmdb/v0.0.44/jobs", 405);
        check("GET", "/slurm/v0.0.44/job/%zz", 422);
    }

    #[test]
    fn strange_parameters_are_told() {
        let call = Call::read("GET", "/slurm/v0.0.44/jobs", "update_time=5&colour=red").unwrap();
        assert_eq!(call.warnings.len(), 1);
        assert_eq!(call.warnings[0].source, "colour");
    }

    #[test]
    fn conditions_in_a_body() {
        let call = Call::read("GET", "/slurmdb/v0.0.44/jobs", "users=ann").unwrap();
        let call = call
            .with_body(br#"{"state": ["FAILED", "TIMEOUT"], "users": "bob", "x": 1}"#)
            .unwrap();
        assert_eq!(call.parameters.get("state"), Some("FAILED,TIMEOUT"));
        assert_eq!(call.parameters.get("users"), Some("bob"));
        assert_eq!(call.warnings.len(), 1);
        let call = Call::read("GET", "/slurmdb/v0.0.44/jobs", "").unwrap();
        assert!(call.clone().with_body(b" ").is_ok());
        assert!(call.with_body(b"[]").is_err());
    }

    proptest! {
        #[test]
        fn nothing_panics(method in "[A-Z]{0,6}", path in "(/?(slurm|slurmdb|v0.0.44|job|[%a-z0-9]{0,4})){0,6}", query in "\\PC{0,60}") {
            let _ = Call::read(&method, &path, &query);
        }
    }
}
