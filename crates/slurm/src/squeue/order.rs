//! The order of `squeue --sort`. Source: squeue(1).
//!
//! Each key sorts all rows, the last key first, and leaves equal rows as they are; a key
//! that is turned round turns equal rows round, too, as Slurm's own does.

use super::fields::Field;
use crate::job::JobView;
use crate::state::SlurmState;
use cosy_model::api::JobField as F;

/// Partition, state, and then the highest priority first.
pub const USUAL: &str = "P,t,-p";

/// A field to sort by, and which way round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SortKey {
    /// Field that rows are compared by.
    pub field: Field,
    /// The other way round.
    pub turned: bool,
}

/// Reads letters of `-o`, each perhaps with `+` or `-` before it, with commas or without.
///
/// # Errors
/// The rest from what is no key on.
pub fn read(text: &str) -> Result<Vec<SortKey>, String> {
    let mut keys = Vec::new();
    let mut turned = false;
    for (at, letter) in text.char_indices() {
        match letter {
            '-' => turned = true,
            '+' => turned = false,
            ',' => {}
            letter => {
                let field = Field::of_letter(letter).ok_or_else(|| text[at..].to_owned())?;
                keys.push(SortKey { field, turned });
                turned = false;
            }
        }
    }
    Ok(keys)
}

/// What rows are compared by.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum SortValue<'t> {
    Number(i64),
    Text(&'t str),
    State(SlurmState),
}

fn sort_value<'t>(field: Field, job: &JobView<'t>) -> SortValue<'t> {
    match field {
        Field::JobId | Field::JobArrayId => SortValue::Number(job.raw_id()),
        Field::ArrayJobId => SortValue::Number(job.base_id()),
        Field::ArrayTaskId => SortValue::Number(job.task().unwrap_or(0)),
        Field::MinCpus => SortValue::Number(job.cores_per_node()),
        Field::Cpus => SortValue::Number(job.cores()),
        Field::Nodes => SortValue::Number(job.nodes()),
        Field::EndTime => SortValue::Number(job.end().map_or(i64::MAX, |t| t.0)),
        Field::StartTime => SortValue::Number(job.start().map_or(i64::MAX, |t| t.0)),
        Field::TimeLeft => {
            let limit = job.count(F::TimeLimit);
            SortValue::Number(limit.saturating_sub(job.elapsed().0))
        }
        Field::Partition => SortValue::Text(job.partition()),
        Field::Reason => SortValue::Text(job.reason()),
        Field::ReasonList if job.waits() => SortValue::Text(job.reason()),
        Field::ReasonList => SortValue::Text(job.text(F::Nodes)),
        Field::State | Field::StateCompact => SortValue::State(job.state()),
        other => match other.needs().first() {
            Some(need) => match job.number(*need) {
                Some(n) => SortValue::Number(n),
                None => SortValue::Text(job.text(*need)),
            },
            None => SortValue::Number(0),
        },
    }
}

/// Sorts rows by the first key, those that are equal there by the next, and so on.
pub fn sort(rows: &mut Vec<JobView<'_>>, keys: &[SortKey]) {
    for key in keys.iter().rev() {
        rows.sort_by_cached_key(|job| sort_value(key.field, job));
        if key.turned {
            rows.reverse();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::ClusterFacts;
    use crate::job::tests::table;
    use proptest::prelude::*;

    #[test]
    fn keys() {
        let check = |text: &str, want: Result<&str, &str>| {
            let got = read(text).map(|keys| {
                let one = |k: &SortKey| {
                    let sign = if k.turned { "-" } else { "" };
                    format!("{sign}{:?}", k.field)
                };
                keys.iter().map(one).collect::<Vec<_>>().join(" ")
            });
            assert_eq!(
                got.as_deref(),
                want.as_ref()
                    .map(|t| *t)
                    .map_err(|t| (*t).to_owned())
                    .as_deref(),
                "{text}"
            );
        };
        check("P,t,-p", Ok("Partition StateCompact -Priority"));
        check("-i", Ok("-JobArrayId"));
        check("+i-M", Ok("JobArrayId -TimeUsed"));
        check("i,^", Err("^"));
    }

    /// As captured: waiting ones before running ones, high priority first, `short` last;
    /// tasks of one array with one priority the last first.
    #[test]
    fn usual_order() {
        let row = |name, queue, state, priority| {
            [
                (F::Name, name),
                (F::Queue, queue),
                (F::State, state),
                (F::Priority, priority),
            ]
        };
        let rows = [
            row("filler", "main", "running", "70"),
            row("shortjob", "short", "running", "69"),
            row("heldjob", "main", "waiting", "0"),
            row("later", "main", "waiting", "68"),
            row("arr", "main", "waiting", "67"),
            row("a0", "main", "running", "66"),
            row("a1", "main", "running", "66"),
        ];
        let rows: Vec<&[(F, &str)]> = rows.iter().map(|r| &r[..]).collect();
        let table = table(&rows);
        let around = ClusterFacts::default();
        let mut views: Vec<_> = (0..table.rows)
            .map(|r| JobView::new(&table, r, &around))
            .collect();
        sort(&mut views, &read(USUAL).unwrap());
        let names: Vec<_> = views.iter().map(|v| v.text(F::Name)).collect();
        assert_eq!(names, ["later", "arr", "heldjob", "filler", "a1", "a0", "shortjob"]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_text_is_read(text in "\\PC{0,20}|[-+,a-zA-Z]{0,20}") {
            let _ = read(&text);
        }
    }
}
