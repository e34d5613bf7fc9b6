//! What `where`, `show` and `delete` say: which accounts, users, associations are meant.

use super::view::PolicyView;
use super::words::{Word, lookup, names};
use crate::show::clean;
use cosy_model::policy::{AdminLevel, AssociationInfo};

/// What a condition looks at.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Subject {
    /// The name of what is listed.
    Name,
    /// The account of an association.
    Account,
    /// The user of an association.
    User,
    /// Cluster; there is one.
    Cluster,
    /// A quality of service in the list.
    Qos,
    /// Default quality of service.
    DefaultQos,
    /// The account above an account.
    Parent,
    /// The queue of an association.
    Partition,
    /// Text about an account.
    Description,
    /// Text about an account.
    Organization,
    /// Right of a user.
    AdminLevel,
    /// Account of a user's jobs that name none.
    DefaultAccount,
    /// The number of an association.
    Id,
    /// From when on something happened.
    Start,
    /// Until when it happened.
    End,
    /// State that a node was in.
    State,
    /// The node that it happened to.
    Node,
    /// Events of nodes, or of the cluster.
    Event,
    /// What was done to the policy.
    Action,
    /// Who did it.
    Actor,
    /// Why a node was set down or drained.
    Reason,
    /// `Open`: only what still goes on.
    CondFlags,
    /// Key of a user's jobs; or anything else by which nothing is chosen here.
    Other,
}

const SUBJECTS: &[(&str, Subject)] = &[
    ("Names", Subject::Name),
    ("Accounts", Subject::Account),
    ("Accts", Subject::Account),
    ("Users", Subject::User),
    ("Clusters", Subject::Cluster),
    ("QOS", Subject::Qos),
    ("QosLevel", Subject::Qos),
    ("DefaultQOS", Subject::DefaultQos),
    ("Parents", Subject::Parent),
    ("Partitions", Subject::Partition),
    ("Descriptions", Subject::Description),
    ("Organizations", Subject::Organization),
    ("AdminLevel", Subject::AdminLevel),
    ("DefaultAccount", Subject::DefaultAccount),
    ("IDs", Subject::Id),
    ("Servers", Subject::Other),
    ("ServerType", Subject::Other),
    ("Type", Subject::Other),
    ("Start", Subject::Start),
    ("End", Subject::End),
    ("States", Subject::State),
    ("Nodes", Subject::Node),
    ("Events", Subject::Event),
    ("Actions", Subject::Action),
    ("Actors", Subject::Actor),
    ("Reason", Subject::Reason),
    ("CondFlags", Subject::CondFlags),
    ("MaxCPUs", Subject::Other),
    ("MinCPUs", Subject::Other),
    ("PreemptMode", Subject::Other),
    ("DefaultWCKey", Subject::Other),
];

/// What is to be shown beside and how, said by words alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Switch {
    Associations,
    Coordinators,
    SubAccounts,
    Tree,
    OnlyDefaults,
    /// Accepted; changes nothing here.
    Nothing,
}

const SWITCHES: &[(&str, Switch)] = &[
    ("WithAssociations", Switch::Associations),
    ("WithAssoc", Switch::Associations),
    ("WithCoordinators", Switch::Coordinators),
    ("WithSubAccounts", Switch::SubAccounts),
    ("Tree", Switch::Tree),
    ("OnlyDefaults", Switch::OnlyDefaults),
    ("WithDeleted", Switch::Nothing),
    ("WithRawQOS", Switch::Nothing),
    ("WithClusters", Switch::Nothing),
    ("WOPInfo", Switch::Nothing),
    ("WOPLimits", Switch::Nothing),
    ("WOLimits", Switch::Nothing),
    ("All_Clusters", Switch::Nothing),
    ("All_Time", Switch::Nothing),
];

/// Conditions, and what is to be shown.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Conditions {
    chosen: Vec<(Subject, Vec<String>)>,
    /// The columns that are shown.
    pub format: Option<String>,
    /// A row for each association.
    pub associations: bool,
    /// A column of coordinators.
    pub coordinators: bool,
    /// Accounts below those named too.
    pub sub_accounts: bool,
    /// Accounts stand under those above them.
    pub tree: bool,
    /// Only default accounts of users.
    pub only_defaults: bool,
}

impl Conditions {
    /// Reads one word.
    ///
    /// # Errors
    /// The lines about a word that is no condition.
    pub fn read(&mut self, text: &str) -> Result<(), Vec<String>> {
        let word = Word::of(text);
        let Some((_, value)) = word.value else {
            match lookup(SWITCHES, word.name).map(|(_, switch)| switch) {
                Some(Switch::Associations) => self.associations = true,
                Some(Switch::Coordinators) => self.coordinators = true,
                Some(Switch::SubAccounts) => self.sub_accounts = true,
                Some(Switch::Tree) => self.tree = true,
                Some(Switch::OnlyDefaults) => self.only_defaults = true,
                Some(Switch::Nothing) => {}
                None => self.add(Subject::Name, text),
            }
            return Ok(());
        };
        if word.name.len() >= 3 && "formats".starts_with(&word.name.to_ascii_lowercase()) {
            self.format = Some(value.to_owned());
            return Ok(());
        }
        let subject = lookup(SUBJECTS, word.name).map(|(_, subject)| subject);
        let unknown = || {
            vec![
                format!(" Unknown condition: {}", clean(text)),
                " Use keyword 'set' to modify value".to_owned(),
            ]
        };
        self.add(subject.ok_or_else(unknown)?, value);
        Ok(())
    }

    fn add(&mut self, subject: Subject, list: &str) {
        let values = names(list).into_iter().map(|n| match subject {
            Subject::Account | Subject::Parent | Subject::Qos | Subject::Cluster => {
                n.to_lowercase()
            }
            _ => n,
        });
        let values: Vec<String> = values.collect();
        match self.chosen.iter_mut().find(|(s, _)| *s == subject) {
            Some((_, all)) => all.extend(values),
            None => self.chosen.push((subject, values)),
        }
    }

    /// Whether anything is chosen at all.
    pub fn any(&self) -> bool {
        self.chosen.iter().any(|(_, values)| !values.is_empty())
    }

    /// What was named of a subject; empty without a word about it.
    pub fn values(&self, subject: Subject) -> &[String] {
        let found = self.chosen.iter().find(|(s, _)| *s == subject);
        found.map_or(&[], |(_, values)| values.as_slice())
    }

    /// The values of several subjects, in the order of the command line.
    pub fn all(&self, subjects: &[Subject]) -> Vec<String> {
        let of = |s: &Subject| self.values(*s).iter().cloned();
        subjects.iter().flat_map(of).collect()
    }

    /// Whether a value passes; everything does without a condition about it.
    pub fn passes(&self, subject: Subject, value: &str) -> bool {
        let values = self.values(subject);
        values.is_empty() || values.iter().any(|v| v.eq_ignore_ascii_case(value))
    }

    /// Whether the cluster passes.
    pub fn cluster(&self, view: &PolicyView) -> bool {
        self.passes(Subject::Cluster, &view.cluster)
    }

    /// Whether an account passes, its name chosen by `Name` or `Account`.
    pub fn account(&self, view: &PolicyView, name: &str) -> bool {
        let Some(account) = view.account(name) else {
            return false;
        };
        let parent = account.parent.as_deref().unwrap_or_default();
        let own = view.own(name);
        self.cluster(view)
            && self.passes(Subject::Name, name)
            && self.passes(Subject::Account, name)
            && self.passes(Subject::Parent, parent)
            && self.passes(Subject::Description, &account.description)
            && self.passes(Subject::Organization, &account.organization)
            && own.is_none_or(|own| self.qos(own))
    }

    /// Whether a user passes, the name chosen by `Name` or `User`; associations are not looked at.
    pub fn user(&self, view: &PolicyView, name: &str) -> bool {
        let user = view.user(name);
        let level = user.map_or(AdminLevel::None, |u| u.level);
        let default = user.and_then(|u| u.record.default_account.as_deref());
        self.cluster(view)
            && self.passes(Subject::Name, name)
            && self.passes(Subject::User, name)
            && (self.values(Subject::AdminLevel).is_empty()
                || self.values(Subject::AdminLevel).iter().any(|v| {
                    let word = level_word(level).to_ascii_lowercase();
                    !v.is_empty() && word.starts_with(&v.to_ascii_lowercase())
                }))
            && self.passes(Subject::DefaultAccount, default.unwrap_or_default())
    }

    /// Whether an association passes; `Name` is not looked at.
    pub fn association(&self, view: &PolicyView, row: &AssociationInfo) -> bool {
        let accounts = self.values(Subject::Account);
        let account = accounts.is_empty()
            || accounts.iter().any(|a| match self.sub_accounts {
                true => view.is_within(&row.key.account, a),
                false => *a == row.key.account,
            });
        let user = row.key.user.as_deref().unwrap_or_default();
        let queue = row.key.queue.as_deref().unwrap_or_default();
        account
            && self.cluster(view)
            && self.passes(Subject::User, user)
            && self.passes(Subject::Partition, queue)
            && (self.values(Subject::Parent).is_empty()
                || (user.is_empty() && self.passes(Subject::Parent, &row.parent)))
            && self.passes(Subject::Id, &row.id.to_string())
            && (!self.only_defaults || row.is_default)
            && self.qos(row)
    }

    fn qos(&self, row: &AssociationInfo) -> bool {
        let wanted = self.values(Subject::Qos);
        let listed = wanted.is_empty() || wanted.iter().any(|q| row.qos.contains(q));
        let default = row.default_qos.as_deref().unwrap_or_default();
        listed && self.passes(Subject::DefaultQos, default)
    }
}

/// The word for a right.
pub const fn level_word(level: AdminLevel) -> &'static str {
    match level {
        AdminLevel::None => "None",
        AdminLevel::Operator => "Operator",
        AdminLevel::Administrator => "Administrator",
    }
}
