//! `sacctmgr`: its command line, and the columns of what it shows.
//!
//! Accounts are those of the cluster itself; there is no database beside it. Source:
//! sacctmgr(1).

use crate::show::clean;

/// A column: the name that `format=` knows it by, its title, its width.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Field {
    /// Name.
    pub name: &'static str,
    /// Title.
    pub title: &'static str,
    /// Width.
    pub width: usize,
}

const fn field(name: &'static str, title: &'static str, width: usize) -> Field {
    Field { name, title, width }
}

/// All columns of all lists.
pub const FIELDS: &[Field] = &[
    field("Account", "Account", 10),
    field("AdminLevel", "Admin", 9),
    field("Cluster", "Cluster", 10),
    field("ControlHost", "ControlHost", 15),
    field("ControlPort", "ControlPort", 12),
    field("Coordinators", "Coord Accounts", 20),
    field("DefaultAccount", "Def Acct", 10),
    field("DefaultQOS", "Def QOS", 9),
    field("DefaultWCKey", "Def WCKey", 10),
    field("Description", "Descr", 20),
    field("Fairshare", "Share", 9),
    field("Flags", "Flags", 20),
    field("GraceTime", "GraceTime", 10),
    field("GrpJobs", "GrpJobs", 7),
    field("GrpSubmitJobs", "GrpSubmit", 9),
    field("GrpTRES", "GrpTRES", 13),
    field("GrpTRESMins", "GrpTRESMins", 13),
    field("GrpTRESRunMins", "GrpTRESRunMin", 13),
    field("GrpWall", "GrpWall", 11),
    field("ID", "ID", 6),
    field("MaxJobs", "MaxJobs", 7),
    field("MaxJobsPU", "MaxJobsPU", 9),
    field("MaxSubmitJobs", "MaxSubmit", 9),
    field("MaxSubmitJobsPU", "MaxSubmitPU", 11),
    field("MaxTRES", "MaxTRES", 13),
    field("MaxTRESMins", "MaxTRESMins", 13),
    field("MaxTRESPerNode", "MaxTRESPerNode", 14),
    field("MaxTRESPU", "MaxTRESPU", 13),
    field("MaxWall", "MaxWall", 11),
    field("Name", "Name", 10),
    field("Organization", "Org", 20),
    field("ParentName", "Par Name", 10),
    field("Partition", "Partition", 10),
    field("Preempt", "Preempt", 10),
    field("PreemptMode", "PreemptMode", 11),
    field("Priority", "Priority", 10),
    field("QOS", "QOS", 20),
    field("RPC", "RPC", 5),
    field("Share", "Share", 9),
    field("UsageFactor", "UsageFactor", 11),
    field("User", "User", 10),
];

/// What can be listed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum List {
    /// Accounts.
    Accounts,
    /// Who may charge which account.
    Associations,
    /// This cluster.
    Clusters,
    /// The one quality of service.
    Qos,
    /// Users of accounts.
    Users,
    /// Nothing: there are none of these.
    Nothing,
}

/// Words for lists, shortened as far as Slurm takes them; longer ones first.
const LISTS: &[(&str, usize, List)] = &[
    ("accounts", 3, List::Accounts),
    ("associations", 2, List::Associations),
    ("clusters", 1, List::Clusters),
    ("coordinators", 4, List::Nothing),
    ("events", 1, List::Nothing),
    ("federations", 1, List::Nothing),
    ("problems", 1, List::Nothing),
    ("qos", 1, List::Qos),
    ("reservations", 3, List::Nothing),
    ("resources", 4, List::Nothing),
    ("runawayjobs", 2, List::Nothing),
    ("transactions", 1, List::Nothing),
    ("tres", 4, List::Nothing),
    ("users", 1, List::Users),
    ("wckeys", 1, List::Nothing),
];

impl List {
    /// The list that a word means.
    pub fn of(word: &str) -> Option<Self> {
        let is = |(full, least, _): &&(&str, usize, Self)| {
            word.len() >= *least
                && full
                    .get(..word.len())
                    .is_some_and(|w| w.eq_ignore_ascii_case(word))
        };
        LISTS.iter().find(is).map(|(.., list)| *list)
    }

    /// Its columns where none are named.
    pub const fn usual(self, with_associations: bool) -> &'static str {
        match self {
            Self::Accounts => "Account,Description,Organization",
            Self::Users if with_associations => {
                "User,DefaultAccount,AdminLevel,Cluster,Account,Partition,Share,Priority,MaxJobs,\
                 MaxSubmitJobs,MaxWall,QOS,DefaultQOS"
            }
            Self::Users => "User,DefaultAccount,AdminLevel",
            Self::Associations => {
                "Cluster,Account,User,Partition,Share,Priority,GrpJobs,GrpTRES,GrpSubmitJobs,\
                 GrpWall,GrpTRESMins,MaxJobs,MaxTRES,MaxTRESPerNode,MaxSubmitJobs,MaxWall,\
                 MaxTRESMins,QOS,DefaultQOS,GrpTRESRunMins"
            }
            Self::Clusters => {
                "Cluster,ControlHost,ControlPort,RPC,Share,GrpJobs,GrpTRES,GrpSubmitJobs,MaxJobs,\
                 MaxTRES,MaxSubmitJobs,MaxWall,QOS,DefaultQOS"
            }
            Self::Qos => {
                "Name,Priority,GraceTime,Preempt,PreemptMode,Flags,UsageFactor,GrpTRES,\
                 GrpTRESMins,GrpTRESRunMins,GrpJobs,GrpSubmitJobs,GrpWall,MaxTRES,MaxTRESPerNode,\
                 MaxTRESMins,MaxWall,MaxTRESPU,MaxJobsPU,MaxSubmitJobsPU"
            }
            Self::Nothing => "Name",
        }
    }
}

/// A column as it is to be printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Column {
    /// Which.
    pub field: Field,
    /// How wide.
    pub width: usize,
    /// Blanks behind instead of before.
    pub left: bool,
}

/// Widest column.
const WIDEST: usize = 4096;

/// Reads `User,Account%20,QOS%-30`.
///
/// # Errors
/// `Unknown field 'x'`.
pub fn columns(format: &str) -> Result<Vec<Column>, String> {
    let one = |item: &str| {
        let (name, width) = match item.split_once('%') {
            Some((name, width)) => (name, Some(width)),
            None => (item, None),
        };
        let field = find(name).ok_or_else(|| format!(" Unknown field '{}'", clean(name)))?;
        let number = width.and_then(|w| w.trim_start_matches('-').parse::<usize>().ok());
        Ok(Column {
            field,
            width: number.unwrap_or(field.width).min(WIDEST),
            left: width.is_some_and(|w| w.starts_with('-')),
        })
    };
    let items = format.split(',').filter(|item| !item.is_empty());
    items.take(FIELDS.len()).map(one).collect()
}

/// The column of that name, or the first that begins so.
fn find(name: &str) -> Option<Field> {
    let exact = |f: &&Field| f.name.eq_ignore_ascii_case(name);
    let begins = |f: &&Field| {
        !name.is_empty()
            && f.name
                .get(..name.len())
                .is_some_and(|n| n.eq_ignore_ascii_case(name))
    };
    let found = FIELDS.iter().find(exact);
    found.or_else(|| FIELDS.iter().find(begins)).copied()
}

/// How a list is printed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Look {
    /// Without titles.
    pub bare: bool,
    /// With `|` instead of columns.
    pub parsable: bool,
    /// And one behind the last.
    pub trailing: bool,
}

/// Rows as text: `cell` gives the value of a column in a row.
pub fn text<R>(
    columns: &[Column],
    rows: &[R],
    look: &Look,
    cell: impl Fn(&R, &str) -> String,
) -> String {
    let mut text = String::new();
    if !look.bare {
        let titles: Vec<String> = columns.iter().map(|c| c.field.title.to_owned()).collect();
        line(&mut text, columns, &titles, look);
        if !look.parsable {
            for column in columns {
                text.push_str(&"-".repeat(column.width));
                text.push(' ');
            }
            text.push('\n');
        }
    }
    for row in rows {
        let cells: Vec<String> = columns
            .iter()
            .map(|c| clean(&cell(row, c.field.name)))
            .collect();
        line(&mut text, columns, &cells, look);
    }
    text
}

fn line(text: &mut String, columns: &[Column], cells: &[String], look: &Look) {
    if look.parsable {
        text.push_str(&cells.join("|"));
        text.push_str(if look.trailing { "|\n" } else { "\n" });
        return;
    }
    for (column, cell) in columns.iter().zip(cells) {
        let width = column.width;
        let mut shown: String = cell.chars().take(width).collect();
        if cell.chars().count() > width && width > 0 {
            shown.pop();
            shown.push('+');
        }
        text.push_str(&if column.left {
            format!("{shown:<width$} ")
        } else {
            format!("{shown:>width$} ")
        });
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        let check = |word: &str, want| assert_eq!(List::of(word), want, "{word}");
        check("user", Some(List::Users));
        check("Users", Some(List::Users));
        check("assoc", Some(List::Associations));
        check("account", Some(List::Accounts));
        check("qos", Some(List::Qos));
        check("cluster", Some(List::Clusters));
        check("foo", None);
        check("", None);
    }

    #[test]
    fn texts() {
        let rows = [("ann", "physics-long-name")];
        let cell = |row: &(&str, &str), name: &str| match name {
            "User" => row.0.to_owned(),
            "DefaultAccount" => row.1.to_owned(),
            _ => "None".to_owned(),
        };
        let check = |format: &str, look: Look, want: &str| {
            let columns = columns(format).unwrap();
            assert_eq!(text(&columns, &rows, &look, cell), want, "{format}");
        };
        let usual = List::Users.usual(false);
        check(
            usual,
            Look::default(),
            "      User   Def Acct     Admin \n---------- ---------- --------- \n       \
             ann physics-l+      None \n",
        );
        let bare = Look {
            bare: true,
            parsable: true,
            ..Look::default()
        };
        check("user,defaulta", bare.clone(), "ann|physics-long-name\n");
        check(
            "user%-5",
            Look {
                parsable: false,
                ..bare
            },
            "ann   \n",
        );
        assert_eq!(columns("nosuch"), Err(" Unknown field 'nosuch'".to_owned()));
    }

    #[test]
    fn usual_columns_are_known() {
        for (.., list) in LISTS {
            assert!(columns(list.usual(false)).is_ok() && columns(list.usual(true)).is_ok());
        }
    }
}
