//! How lists of records are printed: columns with headings and dashes, or values with a
//! separator. Sources: sacct(1), `--parsable`; a captured `sstat`.

use super::fields::{Column, Field};

/// Whether separators stand between values, or behind each.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Form {
    /// Columns of fixed width, with dashes below the headings.
    #[default]
    Columns,
    /// `-p`: behind each.
    Ended(String),
    /// `-P`: between them.
    Between(String),
}

/// The lines above the records: names of columns, and a rule where columns are aligned.
pub fn heading(columns: &[Column], form: &Form) -> String {
    let names = columns.iter().map(|c| c.field.name().to_owned());
    let mut text = line(columns, form, names);
    if *form == Form::Columns {
        let dashes = columns.iter().map(|c| {
            let width = usize::try_from(c.width.unsigned_abs()).unwrap_or(0);
            "-".repeat(width)
        });
        text.push_str(&line(columns, form, dashes));
    }
    text
}

/// One line of values.
pub fn line(columns: &[Column], form: &Form, values: impl Iterator<Item = String>) -> String {
    let mut text = String::new();
    match form {
        Form::Columns => {
            for (column, value) in columns.iter().zip(values) {
                put(&mut text, column, &value);
                text.push(' ');
            }
        }
        Form::Ended(separator) => {
            for value in values {
                text.push_str(&value);
                text.push_str(separator);
            }
        }
        Form::Between(separator) => {
            let all: Vec<String> = values.collect();
            text.push_str(&all.join(separator));
        }
    }
    text.push('\n');
    text
}

/// What is longer than its column is cut and marked with `+`; a list of nodes loses its
/// beginning's rest in the same way.
fn put(text: &mut String, column: &Column, value: &str) {
    let width = usize::try_from(column.width.unsigned_abs()).unwrap_or(0);
    let length = value.chars().count();
    if length > width {
        text.extend(value.chars().take(width.saturating_sub(1)));
        if width > 0 {
            text.push('+');
        }
    } else if column.width < 0 {
        text.push_str(value);
        text.push_str(&" ".repeat(width - length));
    } else {
        text.push_str(&" ".repeat(width - length));
        text.push_str(value);
    }
}

/// All fields of a list as columns of their usual width.
pub fn usual(fields: &[Field]) -> Vec<Column> {
    let one = |field: &Field| Column {
        field: *field,
        width: field.width(),
    };
    fields.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sacct::fields::columns;

    #[test]
    fn forms() {
        let check = |format: &str, form: Form, want: &str| {
            let columns = columns(format).unwrap();
            let values = ["7_0.batch", "CANCELLED by 33"].iter();
            let values = values.map(|v| (*v).to_owned());
            let text = heading(&columns, &form) + &line(&columns, &form, values);
            assert_eq!(text, want);
        };
        check(
            "jobid,state",
            Form::Columns,
            "JobID             State \n------------ ---------- \n7_0.batch    CANCELLED+ \n",
        );
        check(
            "jobid%4,state%-16",
            Form::Columns,
            "Job+ State            \n---- ---------------- \n7_0+ CANCELLED by 33  \n",
        );
        check("jobid,state", Form::Between("|".into()), "JobID|State\n7_0.batch|CANCELLED by 33\n");
        check(
            "jobid,state",
            Form::Ended("^|^".into()),
            "JobID^|^State^|^\n7_0.batch^|^CANCELLED by 33^|^\n",
        );
    }
}
