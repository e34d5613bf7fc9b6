//! `sshare`: shares and use of accounts and users. Sources: sshare(1); recordings of 22.05.8.

use crate::sacctmgr::values;
use crate::show::clean;
use cosy_model::policy::{AssociationInfo, AssociationUsage, LimitKind, Shares, Tres};
use std::collections::{BTreeMap, BTreeSet};

/// A column: name, which is its title too, and width; below 0 aligned to the left.
pub type Column = (&'static str, i32);

/// Columns without `--long`.
pub const USUAL: &[Column] = &[
    ("Account", -20),
    ("User", 10),
    ("RawShares", 10),
    ("NormShares", 11),
    ("RawUsage", 11),
    ("EffectvUsage", 13),
    ("FairShare", 10),
];

/// Columns with `--long`.
pub const LONG: &[Column] = &[
    ("Account", -20),
    ("User", 10),
    ("RawShares", 10),
    ("NormShares", 11),
    ("RawUsage", 11),
    ("NormUsage", 11),
    ("EffectvUsage", 13),
    ("FairShare", 10),
    ("LevelFS", 10),
    ("GrpTRESMins", 30),
    ("TRESRunMins", 30),
];

/// The column that `--partition` puts behind the user.
pub const PARTITION: Column = ("Partition", 12);

/// Columns by name, in the order of `--helpformat`.
const ALL: &[Column] = &[
    ("Account", -20),
    ("Cluster", 10),
    ("EffectvUsage", 13),
    ("FairShare", 10),
    ("GrpTRESMins", 30),
    ("GrpTRESRaw", 30),
    ("ID", 6),
    ("LevelFS", 10),
    ("NormShares", 11),
    ("NormUsage", 11),
    PARTITION,
    ("RawShares", 10),
    ("RawUsage", 11),
    ("TRESRunMins", 30),
    ("User", 10),
];

/// Widest column that may be asked for, in characters.
const WIDEST: i32 = 4096;

/// Reads `account,fairshare%20`; names may be shortened.
///
/// # Errors
/// `Invalid field requested: "x"`.
pub fn columns(text: &str) -> Result<Vec<Column>, String> {
    let one = |word: &str| {
        let (name, width) = match word.split_once('%') {
            Some((name, width)) => (name, width.parse::<i32>().ok()),
            None => (word, None),
        };
        let begins = |c: &&Column| {
            let start = c.0.get(..name.len());
            !name.is_empty() && start.is_some_and(|s| s.eq_ignore_ascii_case(name))
        };
        let found = ALL.iter().find(begins);
        let found = found.ok_or_else(|| format!("Invalid field requested: \"{}\"", clean(name)))?;
        let width = width.filter(|w| *w != 0).unwrap_or(found.1);
        Ok((found.0, width.clamp(-WIDEST, WIDEST)))
    };
    let words = text.split(',').filter(|w| !w.is_empty());
    words.take(ALL.len() * 4).map(one).collect()
}

/// The names of all columns, four in a line, as `--helpformat` prints them.
pub fn names() -> String {
    let mut text = String::new();
    for line in ALL.chunks(4) {
        for (at, (name, _)) in line.iter().enumerate() {
            let space = if at + 1 < line.len() { " " } else { "" };
            text.push_str(&format!("{name:<17}{space}"));
        }
        text.push('\n');
    }
    text
}

/// Which rows are shown.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Selection {
    /// These accounts; all when empty.
    pub accounts: BTreeSet<String>,
    /// These users; `None` for all.
    pub users: Option<BTreeSet<String>>,
    /// Only users, without accounts.
    pub users_only: bool,
}

impl Selection {
    fn shows(&self, row: &AssociationInfo) -> bool {
        let account = self.accounts.is_empty() || self.accounts.contains(&row.key.account);
        let user = match (&row.key.user, &self.users) {
            (None, _) => !self.users_only,
            (Some(_), None) => true,
            (Some(user), Some(users)) => users.contains(user),
        };
        account && user
    }
}

/// How the table is printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Style {
    /// Without headings.
    pub bare: bool,
    /// With `|` between columns, and with `true` behind the last too.
    pub separated: Option<bool>,
}

/// The table of the associations chosen, in the order of the tree.
pub fn table(
    cluster: &str,
    rows: &[AssociationInfo],
    selection: &Selection,
    columns: &[Column],
    style: Style,
) -> String {
    let mut text = String::new();
    if !style.bare {
        let titles: Vec<String> = columns.iter().map(|c| c.0.to_owned()).collect();
        line(&mut text, columns, &titles, style);
        if style.separated.is_none() {
            for (_, width) in columns {
                let width = usize::try_from(width.unsigned_abs()).unwrap_or(0);
                text.push_str(&"-".repeat(width));
                text.push(' ');
            }
            text.push('\n');
        }
    }
    let shown: Vec<&AssociationInfo> = rows.iter().filter(|r| selection.shows(r)).collect();
    // Depth below the topmost account that is shown.
    let mut depths: BTreeMap<&str, usize> = BTreeMap::new();
    for row in shown {
        let depth = match &row.key.user {
            Some(_) => depths.get(row.key.account.as_str()).map_or(0, |d| d + 1),
            None => {
                let depth = depths.get(row.parent.as_str()).map_or(0, |d| d + 1);
                depths.insert(&row.key.account, depth);
                depth
            }
        };
        let cells: Vec<String> = columns
            .iter()
            .map(|(name, _)| match *name {
                "Cluster" => cluster.to_owned(),
                "Account" => format!("{}{}", " ".repeat(depth), row.key.account),
                name => cell(row, name),
            })
            .collect();
        line(&mut text, columns, &cells, style);
    }
    text
}

fn line(text: &mut String, columns: &[Column], cells: &[String], style: Style) {
    if let Some(trailing) = style.separated {
        text.push_str(&cells.join("|"));
        text.push_str(if trailing { "|\n" } else { "\n" });
        return;
    }
    for ((_, width), cell) in columns.iter().zip(cells) {
        let size = usize::try_from(width.unsigned_abs()).unwrap_or(0);
        let mut shown: String = clean(cell).chars().take(size).collect();
        if cell.chars().count() > size {
            shown.pop();
            shown.push('+');
        }
        text.push_str(&match *width < 0 {
            true => format!("{shown:<size$} "),
            false => format!("{shown:>size$} "),
        });
    }
    text.push('\n');
}

fn cell(row: &AssociationInfo, name: &str) -> String {
    let none = AssociationUsage::default();
    let usage = row.usage.as_ref().unwrap_or(&none);
    let is_root = row.key.user.is_none() && row.parent.is_empty();
    let or_empty = |shown: bool, text: String| if shown { text } else { String::new() };
    match name {
        "User" => row.key.user.clone().unwrap_or_default(),
        "Partition" => row.key.queue.clone().unwrap_or_default(),
        "ID" => row.id.to_string(),
        "RawShares" => match row.own.shares {
            Shares::Count(count) => or_empty(!is_root, count.to_string()),
            Shares::Parent => "parent".to_owned(),
        },
        "NormShares" => match is_root {
            true => billionths(0),
            false => billionths(usage.norm_shares_ppb),
        },
        "RawUsage" => usage.raw_usage.to_string(),
        "NormUsage" => or_empty(!is_root, billionths(usage.norm_usage_ppb)),
        "EffectvUsage" => match is_root {
            true => billionths(1_000_000_000),
            false => billionths(usage.effective_usage_ppb),
        },
        "FairShare" => usage.fair_share_ppb.map_or_else(String::new, billionths),
        "LevelFS" => or_empty(!is_root, level(usage.level_fs_ppb)),
        "GrpTRESMins" => {
            let set = row.own.limits.of_kind(LimitKind::GrpTresMins);
            list(set.filter_map(|(key, value)| Some((key.tres.as_ref()?, value))))
        }
        "GrpTRESRaw" => list(
            with_fixed(&usage.used_seconds)
                .iter()
                .map(|(t, v)| (t, v / 60)),
        ),
        "TRESRunMins" => list(
            with_fixed(&usage.run_seconds)
                .iter()
                .map(|(t, v)| (t, v / 60)),
        ),
        _ => String::new(),
    }
}

/// With the resources that are always counted, as 0 where nothing was.
fn with_fixed(amounts: &BTreeMap<Tres, u64>) -> BTreeMap<Tres, u64> {
    let fixed = [Tres::Cpu, Tres::Memory, Tres::Node, Tres::Billing];
    let mut all: BTreeMap<Tres, u64> = fixed.into_iter().map(|t| (t, 0)).collect();
    all.extend(amounts.iter().map(|(t, v)| (t.clone(), *v)));
    all
}

fn list<'a>(items: impl Iterator<Item = (&'a Tres, u64)>) -> String {
    let items: Vec<String> = items
        .map(|(tres, value)| match value {
            0 => format!("{tres}=0"),
            value => values::amount(tres, Some(value)),
        })
        .collect();
    items.join(",")
}

/// Billionths with six digits, rounded to the nearest.
fn billionths(ppb: u64) -> String {
    let millionths = ppb.saturating_add(500) / 1000;
    format!("{}.{:06}", millionths / 1_000_000, millionths % 1_000_000)
}

fn level(ppb: u64) -> String {
    match ppb {
        u64::MAX => "inf".to_owned(),
        ppb => billionths(ppb),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::policy::{AssociationKey, AssociationSettings};

    const RECORDED: &str = include_str!("../recordings/sshare.txt");

    /// What was recorded of a command: its standard output.
    fn recorded(command: &str) -> String {
        let from = format!("$ {command}\n");
        let (_, rest) = RECORDED.split_once(&from).unwrap();
        let lines = rest.lines().take_while(|l| l.starts_with("1 "));
        lines.map(|l| format!("{}\n", &l[2..])).collect()
    }

    fn row(
        account: &str,
        user: Option<&str>,
        parent: &str,
        shares: u32,
        usage: [u64; 4],
    ) -> AssociationInfo {
        let [norm, raw, effective, level_fs] = usage;
        AssociationInfo {
            id: 1,
            key: AssociationKey {
                account: account.to_owned(),
                user: user.map(str::to_owned),
                queue: None,
            },
            parent: parent.to_owned(),
            parent_id: 0,
            depth: 0,
            own: AssociationSettings {
                shares: Shares::Count(shares),
                ..AssociationSettings::default()
            },
            effective: Vec::new(),
            qos: Vec::new(),
            default_qos: None,
            is_default: false,
            usage: Some(AssociationUsage {
                norm_shares_ppb: norm,
                raw_usage: raw,
                effective_usage_ppb: effective,
                level_fs_ppb: level_fs,
                norm_usage_ppb: effective,
                fair_share_ppb: user.map(|_| if raw > 0 { 200_000_000 } else { 1_000_000_000 }),
                ..AssociationUsage::default()
            }),
        }
    }

    /// The tree that was recorded.
    fn tree() -> Vec<AssociationInfo> {
        const ONE: u64 = 1_000_000_000;
        const INF: u64 = u64::MAX;
        let third = ONE / 3;
        vec![
            row("root", None, "", 1, [ONE, 223, ONE, ONE]),
            row("root", Some("root"), "", 1, [66_666_667, 0, 0, INF]),
            row("a", None, "root", 5, [third, 223, ONE, third]),
            row("a", Some("www-data"), "", 1, [ONE, 223, ONE, ONE]),
            row("atoms", None, "root", 1, [66_666_667, 0, 0, INF]),
            row("atoms", Some("anna"), "", 1, [third, 0, 0, INF]),
            row("atoms", Some("bob"), "", 1, [third, 0, 0, INF]),
            row("atoms", Some("dan"), "", 1, [third, 0, 0, INF]),
            row("b", None, "root", 1, [66_666_667, 0, 0, INF]),
            row("chem", None, "root", 7, [466_666_667, 0, 0, INF]),
        ]
    }

    #[test]
    fn tables_as_recorded() {
        let check = |command: &str, selection: &Selection, columns: &[Column], style: Style| {
            let told = table("base", &tree(), selection, columns, style);
            assert_eq!(told, recorded(command), "{command}");
        };
        let of = |user: &str| Selection {
            users: Some(BTreeSet::from([user.to_owned()])),
            ..Selection::default()
        };
        let (all, style) = (Selection::default(), Style::default());
        check("sshare", &of("root"), USUAL, style);
        check("sshare -a", &all, USUAL, style);
        check("sshare -a -u www-data", &of("www-data"), USUAL, style);
        check("sshare -u nosuch", &of("nosuch"), USUAL, style);
        let only = Selection {
            users_only: true,
            ..of("www-data")
        };
        check("sshare -a -U -u www-data", &only, USUAL, style);
        let account = Selection {
            accounts: BTreeSet::from(["a".to_owned()]),
            ..Selection::default()
        };
        check("sshare -A a -a", &account, USUAL, style);
        let some = columns("account,user,rawshares,levelfs,fairshare").unwrap();
        check("sshare -a -o account,user,rawshares,levelfs,fairshare", &all, &some, style);
        let between = Style {
            separated: Some(false),
            ..style
        };
        check("sshare -a -P", &all, USUAL, between);
        let bare = Style {
            bare: true,
            separated: Some(true),
        };
        check("sshare -a -p -n", &all, USUAL, bare);
        let mut with_queue = USUAL.to_vec();
        with_queue.insert(2, PARTITION);
        check("sshare -a -m", &all, &with_queue, style);
    }

    /// Of `--long` all but the resources, which are others here: there is no energy to count.
    #[test]
    fn long_table_as_recorded() {
        let cut = |text: &str| -> Vec<String> {
            text.lines()
                .map(|l| l.chars().take(115).collect())
                .collect()
        };
        let told = table("base", &tree(), &Selection::default(), LONG, Style::default());
        assert_eq!(cut(&told), cut(&recorded("sshare -al")));
    }

    #[test]
    fn fields() {
        assert_eq!(names(), recorded("sshare -e"));
        let wrong = "Invalid field requested: \"nosuch\"".to_owned();
        assert_eq!(columns("nosuch"), Err(wrong));
        assert_eq!(columns("raws%5,eff"), Ok(vec![("RawShares", 5), ("EffectvUsage", 13)]));
    }
}
