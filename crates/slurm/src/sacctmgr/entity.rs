//! What commands of `sacctmgr` are about.

use super::words::lookup;

/// What a command is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entity {
    /// An account of the tree.
    Account,
    /// A user in an account.
    Association,
    /// The one cluster there is.
    Cluster,
    /// Parts of the configuration.
    Configuration,
    /// Who may change what is below an account.
    Coordinator,
    /// What happened to nodes.
    Event,
    /// Clusters together.
    Federation,
    /// What an ended job says of itself.
    Job,
    /// Associations that make no sense.
    Problem,
    /// A quality of service.
    Qos,
    /// A reservation of nodes.
    Reservation,
    /// A licence of the cluster.
    Resource,
    /// Jobs that the accounting lost.
    RunawayJobs,
    /// Statistics of the controller.
    Stats,
    /// Changes of the policy.
    Transaction,
    /// A resource that is counted.
    Tres,
    /// A user of accounts.
    User,
    /// A key that jobs are counted under.
    Wckey,
}

const ENTITIES: &[(&str, Entity)] = &[
    ("accounts", Entity::Account),
    ("associations", Entity::Association),
    ("clusters", Entity::Cluster),
    ("configuration", Entity::Configuration),
    ("coordinators", Entity::Coordinator),
    ("events", Entity::Event),
    ("federations", Entity::Federation),
    ("jobs", Entity::Job),
    ("problems", Entity::Problem),
    ("qos", Entity::Qos),
    ("reservations", Entity::Reservation),
    ("resources", Entity::Resource),
    ("runawayjobs", Entity::RunawayJobs),
    ("stats", Entity::Stats),
    ("transactions", Entity::Transaction),
    ("txn", Entity::Transaction),
    ("tres", Entity::Tres),
    ("users", Entity::User),
    ("wckeys", Entity::Wckey),
];

impl Entity {
    /// The entity that a word means, shortened as far as it is clear.
    pub fn of(word: &str) -> Option<Self> {
        lookup(ENTITIES, word).map(|(_, entity)| entity)
    }
}

/// The names of all entities.
pub fn names() -> impl Iterator<Item = &'static str> {
    ENTITIES.iter().map(|(name, _)| *name)
}

/// The lines about a missing or unknown entity, by command.
pub fn no_entity(command: &str) -> Vec<String> {
    let lines: &[&str] = match command {
        "list" => &[
            "Input line must include \"Account\", \"Association\", \"Cluster\", \"Configuration\",",
            "\"Event\", \"Federation\", \"Problem\", \"QOS\", \"Resource\", \"Reservation\",",
            "\"RunAwayJobs\", \"Stats\", \"Transaction\", \"TRES\", \"User\", or \"WCKey\"",
        ],
        "modify" => &[
            "Input line must include \"Account\", \"Cluster\", \"Federation\", \"Job\", \"QOS\", \
             \"Resource\" or \"User\"",
        ],
        _ => &[
            "Input line must include \"Account\", \"Cluster\", \"Coordinator\", \"Federation\", \
             \"QOS\", \"Resource\", or \"User\"",
        ],
    };
    let first = format!("No valid entity in {command} command");
    std::iter::once(first)
        .chain(lines.iter().map(|l| (*l).to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        let check = |word: &str, want| assert_eq!(Entity::of(word), want, "{word}");
        check("user", Some(Entity::User));
        check("Users", Some(Entity::User));
        check("assoc", Some(Entity::Association));
        check("account", Some(Entity::Account));
        check("acc", Some(Entity::Account));
        check("qos", Some(Entity::Qos));
        check("cluster", Some(Entity::Cluster));
        check("tres", Some(Entity::Tres));
        check("coord", Some(Entity::Coordinator));
        check("res", None);
        check("foo", None);
        check("", None);
    }
}
