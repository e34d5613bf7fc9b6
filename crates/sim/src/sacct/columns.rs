//! The columns of `sacct` that a replay wants, by their names in the first line.

/// A column, whatever its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Column {
    JobId,
    JobIdRaw,
    Submit,
    Eligible,
    Start,
    End,
    Elapsed,
    ElapsedRaw,
    AllocCpus,
    NCpus,
    ReqCpus,
    NNodes,
    AllocNodes,
    ReqNodes,
    TimeLimit,
    TimeLimitRaw,
    User,
    Account,
    Partition,
    Qos,
    State,
}

use Column::{
    Account, AllocCpus, AllocNodes, Elapsed, ElapsedRaw, Eligible, End, JobId, JobIdRaw, NCpus,
    NNodes, Partition, Qos, ReqCpus, ReqNodes, Start, State, Submit, TimeLimit, TimeLimitRaw, User,
};

/// All of them in the order of their declaration, as `sacct` spells them.
const SPELLED: [(Column, &str); 21] = [
    (JobId, "JobID"),
    (JobIdRaw, "JobIDRaw"),
    (Submit, "Submit"),
    (Eligible, "Eligible"),
    (Start, "Start"),
    (End, "End"),
    (Elapsed, "Elapsed"),
    (ElapsedRaw, "ElapsedRaw"),
    (AllocCpus, "AllocCPUS"),
    (NCpus, "NCPUS"),
    (ReqCpus, "ReqCPUS"),
    (NNodes, "NNodes"),
    (AllocNodes, "AllocNodes"),
    (ReqNodes, "ReqNodes"),
    (TimeLimit, "Timelimit"),
    (TimeLimitRaw, "TimelimitRaw"),
    (User, "User"),
    (Account, "Account"),
    (Partition, "Partition"),
    (Qos, "QOS"),
    (State, "State"),
];

/// Of each line one column at least must be there.
const NEEDED: [(&[Column], &str); 5] = [
    (&[Submit], "Submit"),
    (&[Start], "Start"),
    (&[End, Elapsed, ElapsedRaw], "End (or Elapsed)"),
    (&[AllocCpus, NCpus, ReqCpus, NNodes, AllocNodes, ReqNodes], "AllocCPUS (or NNodes)"),
    (&[TimeLimit, TimeLimitRaw], "Timelimit"),
];

impl std::fmt::Display for Column {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(SPELLED[*self as usize].1)
    }
}

/// Which column is at which place of a row.
#[derive(Debug)]
pub struct Columns {
    places: Vec<Option<Column>>,
}

/// What a row has in each column; nothing is an empty text.
#[derive(Debug)]
pub struct Cells<'a>([&'a str; SPELLED.len()]);

impl Columns {
    /// From the first line.
    ///
    /// # Errors
    /// The needed columns that are missing.
    pub fn read(header: &str) -> Result<Self, String> {
        let known = |name: &str| {
            let is_it = |spelled: &&(Column, &str)| spelled.1.eq_ignore_ascii_case(name.trim());
            SPELLED.iter().find(is_it).map(|spelled| spelled.0)
        };
        let places: Vec<Option<Column>> = header.split('|').map(known).collect();
        let is_there = |column: &Column| places.contains(&Some(*column));
        let missing: Vec<&str> = NEEDED
            .iter()
            .filter(|(columns, _)| !columns.iter().any(is_there))
            .map(|(_, name)| *name)
            .collect();
        match missing.is_empty() {
            true => Ok(Self { places }),
            false => Err(missing.join(", ")),
        }
    }

    /// How many a row has.
    pub fn count(&self) -> usize {
        self.places.len()
    }

    /// Whether the text has that column.
    pub fn has(&self, column: Column) -> bool {
        self.places.contains(&Some(column))
    }

    /// The cells of a row.
    ///
    /// # Errors
    /// How many cells there are instead of [`Self::count`].
    pub fn cells<'a>(&self, row: &'a str) -> Result<Cells<'a>, usize> {
        let mut cells = Cells([""; SPELLED.len()]);
        let mut found = 0;
        for text in row.split('|') {
            if let Some(Some(column)) = self.places.get(found) {
                cells.0[*column as usize] = text.trim();
            }
            found += 1;
        }
        match found == self.places.len() {
            true => Ok(cells),
            false => Err(found),
        }
    }
}

impl<'a> Cells<'a> {
    /// The text of a column; `None` when there is none.
    pub fn get(&self, column: Column) -> Option<&'a str> {
        Some(self.0[column as usize]).filter(|text| !text.is_empty())
    }

    /// The first of some columns that has a text.
    pub fn first_of(&self, columns: &[Column]) -> Option<(Column, &'a str)> {
        let mut texts = columns
            .iter()
            .filter_map(|column| Some((*column, self.get(*column)?)));
        texts.next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spelled_in_the_order_of_declaration() {
        for (place, (column, name)) in SPELLED.iter().enumerate() {
            assert_eq!(*column as usize, place, "{name}");
        }
    }

    fn check(header: &str, missing: Option<&str>) {
        let found = Columns::read(header).err();
        assert_eq!(found.as_deref(), missing, "{header}");
    }

    #[test]
    fn needed_columns() {
        check("Submit|Start|End|NNodes|Timelimit", None);
        check("elapsed|TIMELIMITRAW|reqcpus|start|submit|", None);
        check("Submit|Start|NCPUS|Timelimit|JobName", Some("End (or Elapsed)"));
        let all = "Submit, Start, End (or Elapsed), AllocCPUS (or NNodes), Timelimit";
        check("", Some(all));
        check("12|root|COMPLETED", Some(all));
    }

    #[test]
    fn cells_of_a_row() {
        let columns = Columns::read("Submit|Start|x|End|NNodes|Timelimit|").unwrap();
        let cells = columns.cells("a| b |c|||5|").unwrap();
        assert_eq!(cells.get(Column::Start), Some("b"));
        assert_eq!(cells.get(Column::End), None);
        assert_eq!(cells.get(Column::User), None);
        let first = cells.first_of(&[Column::NNodes, Column::TimeLimit]);
        assert_eq!(first, Some((Column::TimeLimit, "5")));
        assert_eq!(columns.cells("a|b|c|d|e|5|6|7").unwrap_err(), 8);
        assert_eq!(columns.cells("").unwrap_err(), 1);
    }
}
