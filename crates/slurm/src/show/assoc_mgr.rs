//! `scontrol show assoc_mgr`: users, associations and qualities of service with limits and use.
//! Sources: scontrol(1), "assoc_mgr"; recordings of 22.05.8.
//!
//! A limit is followed by what is used of it in brackets, `N` where there is none.

use crate::sacctmgr::view::PolicyView;
use crate::sacctmgr::words::names;
use crate::show::clean;
use cosy_model::policy::{
    AdminLevel, AssociationInfo, AssociationUsage, LimitKey, LimitKind, Limits, QosRecord, Shares,
    Tres,
};
use std::collections::{BTreeMap, BTreeSet};

/// What is to be shown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Selection {
    users: Vec<String>,
    accounts: Vec<String>,
    qos: Vec<String>,
    with_users: bool,
    with_associations: bool,
    with_qos: bool,
}

impl Default for Selection {
    fn default() -> Self {
        Self {
            users: Vec::new(),
            accounts: Vec::new(),
            qos: Vec::new(),
            with_users: true,
            with_associations: true,
            with_qos: true,
        }
    }
}

/// What is wrong with the words behind `assoc_mgr`: a line, and the exit code that Slurm has for it.
pub type Mistake = (String, u8);

impl Selection {
    /// Reads `users=`, `accounts=`, `qos=`, `flags=`.
    ///
    /// # Errors
    /// The first word that is none of these.
    pub fn read(words: &[String]) -> Result<Self, Mistake> {
        let mut it = Self::default();
        for word in words {
            let (name, list) = word.split_once('=').unwrap_or((word, ""));
            let list = names(list);
            match name.to_ascii_lowercase().as_str() {
                "users" | "user" => it.users = list,
                "accounts" | "account" => it.accounts = list,
                "qos" => it.qos = list,
                "flags" | "flag" => it.flags(&list)?,
                _ => {
                    let line =
                        format!("invalid entity: {} for keyword:show assoc_mgr", clean(word));
                    return Err((line, 1));
                }
            }
        }
        Ok(it)
    }

    fn flags(&mut self, list: &[String]) -> Result<(), Mistake> {
        (self.with_users, self.with_associations, self.with_qos) = (false, false, false);
        for flag in list {
            let flag = flag.to_ascii_lowercase();
            match flag.as_str() {
                "users" | "user" => self.with_users = true,
                "assoc" | "assocs" | "associations" => self.with_associations = true,
                "qos" => self.with_qos = true,
                _ => {
                    let line = format!(
                        "invalid flag '{}', valid options are 'Assoc, QOS, and/or Users'",
                        clean(&flag)
                    );
                    return Err((line, 0));
                }
            }
        }
        Ok(())
    }
}

fn chosen(list: &[String], name: &str) -> bool {
    list.is_empty() || list.iter().any(|n| n == name)
}

/// What the text is made of beside the policy.
#[derive(Clone, Copy)]
pub struct Facts<'a> {
    /// What qualities of service have used and hold, by name.
    pub qos_usage: &'a BTreeMap<String, AssociationUsage>,
    /// The number of a user.
    pub uid: &'a dyn Fn(&str) -> Option<i64>,
    /// Each record in one line.
    pub one_line: bool,
}

/// The whole text.
pub fn text(view: &PolicyView, selection: &Selection, facts: Facts<'_>) -> String {
    let mut text = "Current Association Manager state\n".to_owned();
    let mut part = |on: bool, title: &str, nothing: &str, records: Vec<String>| {
        let gap = if facts.one_line { "" } else { "\n" };
        if !on {
            return;
        }
        text.push_str(&match records.is_empty() {
            true => format!("{gap}No {nothing} currently cached in Slurm.\n{gap}"),
            false => format!("{gap}{title} Records\n{gap}{}", records.concat()),
        });
    };
    let users = view.users.iter().map(|u| &u.record);
    let users = users.filter(|u| chosen(&selection.users, &u.name));
    let users = users.map(|user| {
        let level = match user.admin_level {
            AdminLevel::None => "Not Set",
            AdminLevel::Operator => "Operator",
            AdminLevel::Administrator => "Administrator",
        };
        format!(
            "UserName={} DefAccount={} DefWckey={} AdminLevel={level}\n",
            with_uid(&user.name, facts.uid),
            user.default_account.as_deref().unwrap_or("(null)"),
            user.default_wckey.as_deref().unwrap_or("(null)"),
        )
    });
    part(selection.with_users, "User", "users", users.collect());
    let tree = Tree::of(view);
    let rows = view.associations.iter().filter(|row| {
        let user = row.key.user.as_deref();
        chosen(&selection.accounts, &row.key.account)
            && user.is_none_or(|user| chosen(&selection.users, user))
    });
    let rows = rows.map(|row| laid_out(association(view, &tree, row, facts.uid), facts.one_line));
    part(selection.with_associations, "Association", "associations", rows.collect());
    let qos = view.qos.iter().filter(|q| chosen(&selection.qos, &q.name));
    let qos = qos.map(|q| laid_out(quality(q, &tree, facts), facts.one_line));
    part(selection.with_qos, "QOS", "QOS", qos.collect());
    text
}

fn laid_out(lines: Vec<String>, one_line: bool) -> String {
    match one_line {
        true => format!("{}\n", lines.join(" ")),
        false => format!("{}\n", lines.join("\n    ")),
    }
}

fn with_uid(user: &str, uid: &dyn Fn(&str) -> Option<i64>) -> String {
    // What Slurm shows of a user whom the system does not know.
    let uid = uid(user).unwrap_or(4_294_967_294);
    format!("{user}({uid})")
}

/// What is known of all associations together.
struct Tree<'a> {
    /// Sum of the shares below each account.
    shares: BTreeMap<&'a str, u64>,
    /// Numbers of associations in the order of the tree, from 1 on.
    lft: BTreeMap<u32, usize>,
    tres: Vec<Tres>,
    extra: Vec<&'static str>,
}

impl<'a> Tree<'a> {
    fn of(view: &'a PolicyView) -> Self {
        let mut shares: BTreeMap<&str, u64> = BTreeMap::new();
        let mut lft = BTreeMap::new();
        for (at, row) in view.associations.iter().enumerate() {
            lft.insert(row.id, at + 1);
            if let Shares::Count(count) = row.own.shares {
                *shares.entry(above(row)).or_default() += u64::from(count);
            }
        }
        let of_qos = view.qos.iter().flat_map(|q| q.limits.iter());
        let own = view.associations.iter().flat_map(|a| a.own.limits.iter());
        let named = of_qos.chain(own).filter_map(|(key, _)| key.tres.clone());
        let named: BTreeSet<Tres> = named.filter(|t| t.to_string().contains('/')).collect();
        Self {
            shares,
            lft,
            tres: named.into_iter().collect(),
            extra: vec!["fs/disk", "vmem", "pages"],
        }
    }

    /// A word for each resource, in Slurm's order; those that are not counted here are 0.
    fn each(&self, one: impl Fn(&Tres) -> String) -> String {
        let mut items: Vec<String> = vec![
            format!("cpu={}", one(&Tres::Cpu)),
            format!("mem={}", one(&Tres::Memory)),
            "energy=N(0)".to_owned(),
            format!("node={}", one(&Tres::Node)),
            format!("billing={}", one(&Tres::Billing)),
        ];
        items.extend(self.extra.iter().map(|name| format!("{name}=N(0)")));
        items.extend(self.tres.iter().map(|tres| format!("{tres}={}", one(tres))));
        items.join(",")
    }
}

/// The account whose child an association is; empty for the root.
fn above(row: &AssociationInfo) -> &str {
    match row.key.user {
        Some(_) => &row.key.account,
        None => &row.parent,
    }
}

fn limit_or_n(limit: Option<u64>) -> String {
    limit.map_or_else(|| "N".to_owned(), |limit| limit.to_string())
}

/// Thousand millionths as a number with two digits.
fn hundredths(ppb: u64) -> String {
    let hundredths = ppb.saturating_add(5_000_000) / 10_000_000;
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

/// Seconds as minutes with two digits.
fn minutes(seconds: u64) -> String {
    let hundredths = seconds.saturating_mul(100) / 60;
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

fn of<'m>(map: &'m BTreeMap<Tres, u64>) -> impl Fn(&Tres) -> u64 + 'm {
    |tres| map.get(tres).copied().unwrap_or_default()
}

/// The three lines of what a group holds, has used and may still use.
fn groups(limits: &Limits, tree: &Tree<'_>, usage: &AssociationUsage) -> [String; 3] {
    let line = |word: &str, kind: LimitKind, used: &dyn Fn(&Tres) -> u64| {
        let one = |tres: &Tres| {
            let limit = limits.get(&LimitKey::of(kind, tres.clone()));
            format!("{}({})", limit_or_n(limit), used(tres))
        };
        format!("{word}={}", tree.each(one))
    };
    let used = of(&usage.used_seconds);
    let run = of(&usage.run_seconds);
    [
        line("GrpTRES", LimitKind::GrpTres, &of(&usage.held)),
        line("GrpTRESMins", LimitKind::GrpTresMins, &|tres| used(tres) / 60),
        line("GrpTRESRunMins", LimitKind::GrpTresRunMins, &|tres| run(tres) / 60),
    ]
}

/// `cpu=4,mem=1024` of limits that nothing is used of.
fn plain(limits: &[(&LimitKey, u64)], kind: LimitKind) -> String {
    let of_kind = limits.iter().filter(|(key, _)| key.kind == kind);
    let items = of_kind.filter_map(|(key, value)| Some(format!("{}={value}", key.tres.as_ref()?)));
    items.collect::<Vec<_>>().join(",")
}

fn association(
    view: &PolicyView,
    tree: &Tree<'_>,
    row: &AssociationInfo,
    uid: &dyn Fn(&str) -> Option<i64>,
) -> Vec<String> {
    let none = AssociationUsage::default();
    let usage = row.usage.as_ref().unwrap_or(&none);
    let own = |kind| limit_or_n(row.own.limits.get(&LimitKey::plain(kind)));
    let mut lines = vec![whose(view, row, uid)];
    lines.extend(place(tree, row, usage));
    lines.push(format!(
        "GrpJobs={}({}) GrpJobsAccrue={}({})",
        own(LimitKind::GrpJobs),
        usage.running,
        own(LimitKind::GrpJobsAccrue),
        usage.accruing
    ));
    lines.push(format!(
        "GrpSubmitJobs={}({}) GrpWall={}({})",
        own(LimitKind::GrpSubmitJobs),
        usage.submitted,
        own(LimitKind::GrpWall),
        minutes(usage.wall_seconds)
    ));
    lines.extend(groups(&row.own.limits, tree, usage));
    lines.extend(of_one(row, usage));
    lines
}

/// Which association it is.
fn whose(view: &PolicyView, row: &AssociationInfo, uid: &dyn Fn(&str) -> Option<i64>) -> String {
    let user = row.key.user.as_deref();
    format!(
        "ClusterName={} Account={} UserName={} Partition={} Priority={} ID={}",
        view.cluster,
        row.key.account,
        user.map_or_else(String::new, |user| with_uid(user, uid)),
        row.key.queue.as_deref().unwrap_or_default(),
        row.own.priority.unwrap_or_default(),
        row.id
    )
}

/// Shares, use and place in the tree.
fn place(tree: &Tree<'_>, row: &AssociationInfo, usage: &AssociationUsage) -> [String; 3] {
    let shares = match row.own.shares {
        Shares::Count(count) => count.to_string(),
        Shares::Parent => "parent".to_owned(),
    };
    let parent = match row.parent.is_empty() {
        true => String::new(),
        false => format!("{}({})", row.parent, row.parent_id),
    };
    [
        format!(
            "SharesRaw/Norm/Level/Factor={shares}/{}/{}/{}",
            hundredths(usage.norm_shares_ppb),
            tree.shares.get(above(row)).copied().unwrap_or_default(),
            hundredths(usage.fair_share_ppb.unwrap_or_default())
        ),
        format!(
            "UsageRaw/Norm/Efctv={}.00/{}/{}",
            usage.raw_usage,
            hundredths(usage.norm_usage_ppb),
            hundredths(usage.effective_usage_ppb)
        ),
        format!(
            "ParentAccount={parent} Lft={} DefAssoc={}",
            tree.lft.get(&row.id).copied().unwrap_or_default(),
            if row.is_default { "Yes" } else { "No" }
        ),
    ]
}

/// Limits of single jobs and users: they are inherited, so those that hold are shown.
fn of_one(row: &AssociationInfo, usage: &AssociationUsage) -> [String; 5] {
    let holds: Vec<(&LimitKey, u64)> = row.effective.iter().map(|(k, v, _)| (k, *v)).collect();
    let of_kind = |kind| {
        holds
            .iter()
            .find(|(key, _)| key.kind == kind)
            .map(|(_, v)| *v)
    };
    let counted = |kind, used: u32| match of_kind(kind) {
        Some(limit) => format!("{limit}({used})"),
        None => String::new(),
    };
    let single = |kind| of_kind(kind).map_or_else(String::new, |limit| limit.to_string());
    [
        format!(
            "MaxJobs={} MaxJobsAccrue={} MaxSubmitJobs={} MaxWallPJ={}",
            counted(LimitKind::MaxJobs, usage.running),
            counted(LimitKind::MaxJobsAccrue, usage.accruing),
            counted(LimitKind::MaxSubmitJobs, usage.submitted),
            single(LimitKind::MaxWall)
        ),
        format!("MaxTRESPJ={}", plain(&holds, LimitKind::MaxTresPerJob)),
        format!("MaxTRESPN={}", plain(&holds, LimitKind::MaxTresPerNode)),
        format!("MaxTRESMinsPJ={}", plain(&holds, LimitKind::MaxTresMinsPerJob)),
        format!("MinPrioThresh={}", single(LimitKind::MinPrioThreshold)),
    ]
}

fn quality(qos: &QosRecord, tree: &Tree<'_>, facts: Facts<'_>) -> Vec<String> {
    let none = AssociationUsage::default();
    let usage = facts.qos_usage.get(&qos.name).unwrap_or(&none);
    let own = |kind| limit_or_n(qos.limits.get(&LimitKey::plain(kind)));
    let all: Vec<(&LimitKey, u64)> = qos.limits.iter().collect();
    let single = |kind| {
        let limit = qos.limits.get(&LimitKey::plain(kind));
        limit.map_or_else(String::new, |limit| limit.to_string())
    };
    let [grp, mins, run] = groups(&qos.limits, tree, usage);
    let (accounts, users) = match facts.one_line {
        true => ("Account Limits=No Accounts".to_owned(), "User Limits=No Users".to_owned()),
        false => (
            "Account Limits\n        No Accounts".to_owned(),
            "User Limits\n        No Users".to_owned(),
        ),
    };
    vec![
        format!("QOS={}({})", qos.name, qos.id),
        format!("UsageRaw={}.000000", usage.raw_usage),
        format!(
            "GrpJobs={}({}) GrpJobsAccrue={}({}) GrpSubmitJobs={}({}) GrpWall={}({})",
            own(LimitKind::GrpJobs),
            usage.running,
            own(LimitKind::GrpJobsAccrue),
            usage.accruing,
            own(LimitKind::GrpSubmitJobs),
            usage.submitted,
            own(LimitKind::GrpWall),
            minutes(usage.wall_seconds)
        ),
        grp,
        mins,
        run,
        format!("MaxWallPJ={}", single(LimitKind::MaxWall)),
        format!("MaxTRESPJ={}", plain(&all, LimitKind::MaxTresPerJob)),
        format!("MaxTRESPN={}", plain(&all, LimitKind::MaxTresPerNode)),
        format!("MaxTRESMinsPJ={}", plain(&all, LimitKind::MaxTresMinsPerJob)),
        format!("MinPrioThresh={} ", single(LimitKind::MinPrioThreshold)),
        format!("MinTRESPJ={}", plain(&all, LimitKind::MinTresPerJob)),
        format!(
            "PreemptMode={}",
            qos.preempt_words()
                .unwrap_or("off".to_owned())
                .to_uppercase()
        ),
        format!("Priority={}", qos.priority),
        accounts,
        users,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::policy::{
        AccountRecord, AssociationKey, AssociationSettings, UserEntry, UserRecord,
    };

    const RECORDED: &str = include_str!("../../recordings/assoc_mgr.txt");

    fn usage(held: bool, shares: u64, norm: u64, used: u64, effective: u64) -> AssociationUsage {
        let mut usage = AssociationUsage {
            norm_shares_ppb: shares * 10_000_000,
            norm_usage_ppb: used * 10_000_000,
            effective_usage_ppb: effective * 10_000_000,
            fair_share_ppb: Some(norm * 10_000_000),
            ..AssociationUsage::default()
        };
        if held {
            (usage.running, usage.submitted) = (1, 2);
            let all = [
                (Tres::Cpu, 2),
                (Tres::Memory, 200),
                (Tres::Node, 1),
                (Tres::Billing, 2),
            ];
            usage.held = all.iter().cloned().collect();
            usage.run_seconds = all.iter().map(|(t, n)| (t.clone(), n * 1800)).collect();
        }
        usage
    }

    fn row(
        (id, account, user): (u32, &str, Option<&str>),
        (parent, parent_id): (&str, u32),
        usage: AssociationUsage,
        limits: &[(&str, u64)],
    ) -> AssociationInfo {
        let key = AssociationKey {
            account: account.to_owned(),
            user: user.map(str::to_owned),
            queue: None,
        };
        let mut own = AssociationSettings::default();
        for (limit, value) in limits {
            own.limits.set(limit.parse().unwrap(), Some(*value));
        }
        let effective = own.limits.iter();
        let effective = effective
            .map(|(k, v)| (k.clone(), v, key.clone()))
            .collect();
        AssociationInfo {
            id,
            parent: parent.to_owned(),
            parent_id,
            depth: 0,
            own,
            effective,
            qos: Vec::new(),
            default_qos: None,
            is_default: user.is_some(),
            usage: Some(usage),
            key,
        }
    }

    /// The site of the recording.
    fn site() -> PolicyView {
        let user = |name: &str, account: Option<&str>, wckey: Option<&str>, level| UserEntry {
            record: UserRecord {
                name: name.to_owned(),
                default_account: account.map(str::to_owned),
                default_wckey: wckey.map(str::to_owned),
                admin_level: level,
                ..UserRecord::default()
            },
            coordinates: Vec::new(),
            level,
        };
        let of_quarks = [
            ("GrpTRES=cpu", 16),
            ("GrpTRES=mem", 10240),
            ("GrpTRES=node", 2),
            ("GrpJobs", 5),
            ("MaxJobs", 2),
            ("MaxSubmitJobs", 9),
            ("MaxWall", 1440),
        ];
        let mut www = row(
            (5, "quarks", Some("www-data")),
            ("", 0),
            usage(true, 100, 0, 100, 0),
            &[("MaxJobs", 2), ("MaxSubmitJobs", 9), ("MaxWall", 1440)],
        );
        www.own.limits = Limits::default();
        let qos = |id, name: &str, priority| QosRecord {
            id,
            name: name.to_owned(),
            priority,
            ..QosRecord::default()
        };
        PolicyView {
            cluster: "base".to_owned(),
            accounts: vec![AccountRecord::default()],
            users: vec![
                user("root", Some("root"), Some(""), AdminLevel::Administrator),
                user("www-data", Some("quarks"), None, AdminLevel::None),
                user("ann", None, None, AdminLevel::None),
            ],
            associations: vec![
                row((1, "root", None), ("", 0), usage(true, 0, 0, 100, 100), &[]),
                row((2, "root", Some("root")), ("", 0), usage(false, 50, 100, 0, 0), &[]),
                row((3, "physics", None), ("root", 1), usage(true, 50, 0, 100, 0), &[]),
                row((6, "physics", Some("ann")), ("", 0), usage(false, 50, 0, 100, 0), &[]),
                row((4, "quarks", None), ("physics", 3), usage(true, 50, 0, 100, 0), &of_quarks),
                www,
            ],
            qos: vec![qos(1, "normal", 0), qos(2, "high", 10)],
        }
    }

    /// Without the numbers of the tree, which depend on the past, and without the counters of each
    /// account and user in a quality of service, which are not told here.
    fn comparable(text: &str) -> String {
        let lines = text.lines().map(|line| {
            let words = line.split(' ').filter(|word| !word.starts_with("Lft="));
            words.collect::<Vec<_>>().join(" ")
        });
        let kept = lines.filter(|line| {
            let counter = ["MaxJobsPA=", "MaxTRESPA=", "MaxJobsPU=", "MaxTRESPU="];
            let words = line.trim_start_matches("1 ").trim();
            !counter.iter().any(|word| line.contains(word))
                && !matches!(words, "No Accounts" | "No Users" | "quarks" | "33")
        });
        kept.map(|line| format!("{line}\n")).collect()
    }

    #[test]
    fn as_recorded() {
        let uid = |name: &str| match name {
            "root" => Some(0),
            "www-data" => Some(33),
            _ => None,
        };
        let qos_usage = BTreeMap::from([("high".to_owned(), usage(true, 0, 0, 0, 0))]);
        let mut compared = 0;
        for block in RECORDED.split("$ scontrol ").skip(1) {
            let (command, want) = block.split_once('\n').unwrap();
            // Numbers of the tree and counters are parts of those lines.
            let Some(words) = command.strip_prefix("show assoc_mgr") else {
                continue;
            };
            let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
            let told = match Selection::read(&words) {
                Ok(selection) => {
                    let facts = Facts {
                        qos_usage: &qos_usage,
                        uid: &uid,
                        one_line: false,
                    };
                    let text = text(&site(), &selection, facts);
                    let lines = text.lines().map(|line| format!("1 {line}\n"));
                    format!("{}= 0\n", lines.collect::<String>())
                }
                Err((line, code)) => format!("2 {line}\n= {code}\n"),
            };
            let want = want.split("$ ").next().unwrap();
            assert_eq!(comparable(&told), comparable(want), "{command}");
            compared += 1;
        }
        assert_eq!(compared, 10);
    }

    #[test]
    fn one_line_each() {
        let facts = Facts {
            qos_usage: &BTreeMap::new(),
            uid: &|_| None,
            one_line: true,
        };
        let text = text(&site(), &Selection::default(), facts);
        assert_eq!(text.lines().count(), 4 + 3 + 6 + 2, "{text}");
        assert!(text.contains("Account Limits=No Accounts User Limits=No Users\n"), "{text}");
    }
}
