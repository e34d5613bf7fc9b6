//! The lists of `sacctmgr` as they were before there was a policy; the command uses them until the
//! controller answers for the policy.

use crate::show::clean;
use crate::table::Row;

/// A column: the name that `format=` knows it by, its title, its width.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Field {
    /// Name that `format=` knows it by, compared without regard to case.
    pub name: &'static str,
    /// Other names of it.
    pub also: &'static [&'static str],
    /// Heading over the column.
    pub title: &'static str,
    /// Characters of the column where `format=` says nothing else.
    pub width: usize,
}

impl Field {
    fn names(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name).chain(self.also.iter().copied())
    }
}

const fn field(name: &'static str, title: &'static str, width: usize) -> Field {
    also(name, &[], title, width)
}

const fn also(
    name: &'static str,
    also: &'static [&'static str],
    title: &'static str,
    width: usize,
) -> Field {
    Field {
        name,
        also,
        title,
        width,
    }
}

/// All columns of all lists. Where a shortened name fits several, the first is meant.
pub const FIELDS: &[Field] = &[
    field("Account", "Account", 10),
    field("Action", "Action", 20),
    field("Actor", "Actor", 10),
    field("AdminLevel", "Admin", 9),
    field("Allocated", "% Allocated", 11),
    field("Classification", "Class", 9),
    field("Cluster", "Cluster", 10),
    field("Comment", "Comment", 20),
    field("ControlHost", "ControlHost", 15),
    field("ControlPort", "ControlPort", 12),
    field("Coordinators", "Coord Accounts", 20),
    field("Count", "Count", 6),
    field("DefaultAccount", "Def Acct", 10),
    field("DefaultQOS", "Def QOS", 9),
    field("DefaultWCKey", "Def WCKey", 10),
    field("Description", "Descr", 20),
    field("Duration", "Duration", 13),
    field("Event", "Event", 7),
    also("Fairshare", &["Shares"], "Share", 9),
    field("Features", "Features", 20),
    field("Federation", "Federation", 10),
    field("FedState", "FedState", 12),
    field("Flags", "Flags", 20),
    field("GraceTime", "GraceTime", 10),
    field("GrpCPUMins", "GrpCPUMins", 11),
    field("GrpCPUs", "GrpCPUs", 8),
    field("GrpCPURunMins", "GrpCPURunMins", 13),
    field("GrpJobs", "GrpJobs", 7),
    field("GrpJobsAccrue", "GrpJobsAccrue", 13),
    field("GrpMemory", "GrpMem", 7),
    field("GrpNodes", "GrpNodes", 8),
    field("GrpSubmitJobs", "GrpSubmit", 9),
    field("GrpTRES", "GrpTRES", 13),
    field("GrpTRESMins", "GrpTRESMins", 13),
    field("GrpTRESRunMins", "GrpTRESRunMin", 13),
    field("GrpWall", "GrpWall", 11),
    field("ID", "ID", 6),
    field("Info", "Info", 20),
    field("LFT", "LFT", 6),
    field("MaxCPUMinsPerJob", "MaxCPUMins", 11),
    field("MaxCPUsPerJob", "MaxCPUs", 8),
    field("MaxCPUsPerUser", "MaxCPUsPU", 9),
    field("MaxJobs", "MaxJobs", 7),
    also("MaxJobsPU", &["MaxJobsPerUser"], "MaxJobsPU", 9),
    also("MaxJobsPA", &["MaxJobsPerAccount"], "MaxJobsPA", 9),
    field("MaxJobsAccrue", "MaxJobsAccrue", 13),
    also("MaxJobsAccruePU", &["MaxJobsAccruePerUser"], "MaxJobsAccruePU", 15),
    also("MaxJobsAccruePA", &["MaxJobsAccruePerAccount"], "MaxJobsAccruePA", 15),
    field("MaxNodesPerJob", "MaxNodes", 8),
    field("MaxNodesPerUser", "MaxNodesPU", 10),
    field("MaxSubmitJobs", "MaxSubmit", 9),
    also("MaxSubmitJobsPU", &["MaxSubmitJobsPerUser", "MaxSubmitPU"], "MaxSubmitPU", 11),
    also("MaxSubmitJobsPA", &["MaxSubmitJobsPerAccount", "MaxSubmitPA"], "MaxSubmitPA", 11),
    also("MaxTRES", &["MaxTRESPerJob", "MaxTRESPJ"], "MaxTRES", 13),
    also("MaxTRESMins", &["MaxTRESMinsPerJob"], "MaxTRESMins", 13),
    also("MaxTRESPA", &["MaxTRESPerAccount"], "MaxTRESPA", 13),
    also("MaxTRESPerNode", &["MaxTRESPN"], "MaxTRESPerNode", 14),
    also("MaxTRESPU", &["MaxTRESPerUser"], "MaxTRESPU", 13),
    also("MaxWall", &["MaxWallDurationPerJob"], "MaxWall", 11),
    field("MinPrioThreshold", "MinPrioThres", 12),
    also("MinTRES", &["MinTRESPerJob", "MinTRESPJ"], "MinTRES", 13),
    field("Name", "Name", 10),
    field("NodeCount", "NodeCount", 9),
    field("NodeInx", "NodeInx", 15),
    field("NodeName", "Node Name", 15),
    also("ClusterNodes", &["NodeNames"], "Cluster Nodes", 20),
    field("Organization", "Org", 20),
    field("ParentID", "Par ID", 6),
    field("ParentName", "Par Name", 10),
    field("Partition", "Partition", 10),
    field("Preempt", "Preempt", 10),
    field("PreemptExemptTime", "PreemptExemptTime", 19),
    field("PreemptMode", "PreemptMode", 11),
    field("Priority", "Priority", 10),
    field("Problem", "Problem", 40),
    also("QOS", &["QOSLevel"], "QOS", 20),
    field("QOSRAW", "QOS_RAW", 10),
    field("Reason", "Reason", 30),
    field("RGT", "RGT", 6),
    field("RPC", "RPC", 5),
    field("Server", "Server", 10),
    field("Share", "Share", 9),
    field("State", "State", 6),
    also("TimeStart", &["Start"], "TimeStart", 19),
    also("TimeEnd", &["End"], "TimeEnd", 19),
    field("Time", "Time", 19),
    field("TRES", "TRES", 20),
    field("Type", "Type", 8),
    field("UsageFactor", "UsageFactor", 11),
    field("UsageThreshold", "UsageThres", 10),
    field("User", "User", 10),
    field("WCKeys", "WCKeys", 20),
    field("Where", "Where", 20),
];

/// What can be listed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum List {
    /// Accounts with their members.
    Accounts,
    /// Who may charge which account.
    Associations,
    /// The cluster that this controller runs, alone.
    Clusters,
    /// The one quality of service.
    Qos,
    /// Kinds of resources that are counted.
    Tres,
    /// Users of accounts.
    Users,
    /// Nothing: there are none of these here. Its columns where none are named.
    Nothing(&'static str),
}

/// Words for lists, shortened as far as Slurm takes them; longer ones first.
const LISTS: &[(&str, usize, List)] = &[
    ("accounts", 3, List::Accounts),
    ("associations", 2, List::Associations),
    ("clusters", 1, List::Clusters),
    ("coordinators", 4, List::Nothing("Account,User")),
    ("events", 1, List::Nothing("Cluster,NodeName,TimeStart,TimeEnd,State,Reason,User")),
    ("federations", 1, List::Nothing("Federation,Cluster,ID,Features,FedState")),
    ("problems", 1, List::Nothing("Cluster,Account,User,Problem")),
    ("qos", 1, List::Qos),
    ("reservations", 3, List::Nothing("Cluster,Name,TRES,TimeStart,TimeEnd")),
    ("resources", 4, List::Nothing("Name,Server,Type,Count,Allocated,Flags")),
    ("runawayjobs", 2, List::Nothing("ID,Name,Partition,Cluster,State,TimeStart,TimeEnd")),
    ("transactions", 2, List::Nothing("Time,Action,Actor,Where,Info")),
    ("tres", 3, List::Tres),
    ("users", 1, List::Users),
    ("wckeys", 1, List::Nothing("Name,Cluster,User")),
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
            Self::Tres => "Type,Name,ID",
            Self::Nothing(columns) => columns,
        }
    }
}

/// Commands, and what each does.
const COMMANDS: &[(&str, &str)] = &[
    ("add <ENTITY> <SPECS>", "an account, or users of one"),
    ("delete <ENTITY> <SPECS>", "the same, gone"),
    ("list <ENTITY> [<SPECS>]", "what there is"),
    ("modify <ENTITY> <SPECS>", "refused: limits are in cosy.toml"),
    ("show <ENTITY> [<SPECS>]", "the same as list"),
    ("version", "display tool version number"),
];

/// What each pair of command and entity takes.
const PAIRS: &[(&str, &str)] = &[
    ("add account", "Names="),
    ("delete account", "Names="),
    ("list accounts", "Format=, Names="),
    ("add user", "Accounts=, Names="),
    ("delete user", "Accounts=, Names="),
    ("list users", "Accounts=, Format=, Names=, WithAssoc"),
    ("list associations", "Accounts=, Format=, Users="),
    ("add cluster, modify cluster", "refused: cosy.toml is the cluster"),
    ("add qos, modify qos, delete qos", "refused: there is one, normal"),
];

/// The text of `--help` and `--usage`.
pub fn help(options: &[Row]) -> String {
    let mut text = "sacctmgr [<OPTION>] [<COMMAND>]\n    Valid <OPTION> values are:\n".to_owned();
    let mut lines = |title: &str, pairs: &mut dyn Iterator<Item = (String, &str)>| {
        text.push_str(title);
        pairs.for_each(|(what, about)| text.push_str(&format!("     {what:<26} {about}\n")));
    };
    let option = |row: &Row| {
        let short = row.opt.short.map(|s| format!("-{} or ", char::from(s)));
        let spelled = format!("{}--{}:", short.unwrap_or_default(), row.opt.long);
        (spelled, row.about)
    };
    let word = |(what, about): &(&'static str, &'static str)| ((*what).to_owned(), *about);
    lines("", &mut options.iter().map(option));
    lines("\n  Valid <COMMAND> values are:\n", &mut COMMANDS.iter().map(word));
    let names: Vec<&str> = LISTS.iter().map(|(name, ..)| *name).collect();
    let title = format!(
        "\n  <ENTITY> may be one of these, shortened as you like:\n     {}\n\n  \
         <SPECS> are different for each command entity pair:\n",
        names.join(" ")
    );
    lines(&title, &mut PAIRS.iter().map(word));
    text
}

/// A column as it is to be printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Column {
    /// What is shown in the column.
    pub field: Field,
    /// Characters that the column is filled or cut to.
    pub width: usize,
    /// Blanks behind instead of before.
    pub left: bool,
}

/// Widest column that `format=` may ask for, in characters.
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
    let exact = |f: &&Field| f.names().any(|n| n.eq_ignore_ascii_case(name));
    let fits = |n: &str| {
        n.get(..name.len())
            .is_some_and(|n| n.eq_ignore_ascii_case(name))
    };
    let begins = |f: &&Field| !name.is_empty() && f.names().any(fits);
    let found = FIELDS.iter().find(exact);
    found.or_else(|| FIELDS.iter().find(begins)).copied()
}

/// How a list is printed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TableStyle {
    /// Without headings (`--noheader`).
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
    look: &TableStyle,
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

fn line(text: &mut String, columns: &[Column], cells: &[String], look: &TableStyle) {
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
        check("tres", Some(List::Tres));
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
        let check = |format: &str, look: TableStyle, want: &str| {
            let columns = columns(format).unwrap();
            assert_eq!(text(&columns, &rows, &look, cell), want, "{format}");
        };
        let usual = List::Users.usual(false);
        check(
            usual,
            TableStyle::default(),
            "      User   Def Acct     Admin \n---------- ---------- --------- \n       \
             ann physics-l+      None \n",
        );
        let bare = TableStyle {
            bare: true,
            parsable: true,
            ..TableStyle::default()
        };
        check("user,defaulta", bare.clone(), "ann|physics-long-name\n");
        check(
            "user%-5",
            TableStyle {
                parsable: false,
                ..bare
            },
            "ann   \n",
        );
        let names = |format: &str| -> Vec<&str> {
            columns(format)
                .unwrap()
                .iter()
                .map(|c| c.field.name)
                .collect()
        };
        // cluster_tools, Open OnDemand and others name limits at length.
        assert_eq!(
            names("maxsubmitjobsperuser,MaxSubmitPU,MaxTRESPJ,qoslevel,maxjobs"),
            [
                "MaxSubmitJobsPU",
                "MaxSubmitJobsPU",
                "MaxTRES",
                "QOS",
                "MaxJobs"
            ]
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
