//! Lists of jobs as text: which columns, and the lines.

use super::cells::{ValueStyle, cell};
use super::fields::Field;
use super::options::{Format, Query};
use crate::job::JobView;
use crate::layout::{Layout, all, is_all};

const USUAL: &str = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R";
const LONG: &str = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R";
const ALL: &str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
const START: &str = "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %20Y %R";

/// The columns that are asked for.
pub fn layout(query: &Query) -> Layout<Field> {
    match &query.format {
        Some(Format::Letters(text)) if is_all(text) => {
            Layout::of_letters(&all(ALL, ""), Field::of_letter)
        }
        Some(Format::Letters(text)) => Layout::of_letters(text, Field::of_letter),
        Some(Format::Names(text)) => Layout::of_names(text, Field::of_word),
        None => {
            let usual = match (query.start, query.long) {
                (true, _) => START,
                (false, true) => LONG,
                (false, false) => USUAL,
            };
            Layout::of_letters(usual, Field::of_letter)
        }
    }
}

/// The lines about columns that mean nothing.
pub fn complaints<F>(layout: &Layout<F>) -> Vec<String> {
    let one = |word: &String| format!("Invalid job format specification: {word}");
    layout.unknown.iter().map(one).collect()
}

/// The line of headings.
pub fn heading(layout: &Layout<Field>) -> String {
    let mut out = String::new();
    layout.line(&mut out, |field, out| out.push_str(field.head()));
    out
}

/// The lines of jobs.
pub fn lines(layout: &Layout<Field>, jobs: &[JobView<'_>], look: &ValueStyle) -> String {
    let mut out = String::with_capacity(jobs.len().saturating_mul(96));
    for job in jobs {
        layout.line(&mut out, |field, out| cell(*field, job, look, out));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::ClusterFacts;
    use crate::job::tests::table;
    use crate::squeue::cells::BITS;
    use crate::times::{TimeFormat, TimeWriter};
    use cosy_model::api::JobField as F;
    use cosy_model::{MiB, Time};

    fn look() -> ValueStyle {
        let now: jiff::Zoned = "2026-11-21T02:20:31+00:00[+00:00]".parse().unwrap();
        ValueStyle {
            now: Time(now.timestamp().as_millisecond()),
            stamps: TimeWriter::new(&now, TimeFormat::Standard),
            raw_sizes: false,
            bits: Some(BITS),
        }
    }

    const START: &str = "1795227628000";

    fn jobs() -> Vec<Vec<(F, &'static str)>> {
        let common = |mut row: Vec<(F, &'static str)>| {
            row.extend([
                (F::User, "www-data"),
                (F::Uid, "33"),
                (F::Gid, "33"),
                (F::Queue, "main"),
                (F::Submit, START),
                (F::Workdir, "WORK"),
                (F::Nice, "0"),
            ]);
            row
        };
        vec![
            common(vec![
                (F::Id, "106"),
                (F::Ref, "105_[1-20%3]"),
                (F::ArrayId, "105"),
                (F::Name, "arr"),
                (F::State, "waiting"),
                (F::Reason, "priority"),
                (F::TimeLimit, "3600000"),
                (F::NodeCount, "1"),
                (F::Cores, "16"),
                (F::CoresPerTask, "16"),
                (F::Priority, "4294901667"),
                (F::Command, "WORK/sleep.sh"),
            ]),
            common(vec![
                (F::Id, "101"),
                (F::Ref, "101"),
                (F::Name, "filler"),
                (F::State, "running"),
                (F::TimeLimit, "3000000"),
                (F::Elapsed, "3000"),
                (F::NodeCount, "4"),
                (F::MinNodes, "4"),
                (F::Cores, "64"),
                (F::CoresPerTask, "1"),
                (F::Nodes, "n[5-8]"),
                (F::Require, "n[5-8]"),
                (F::BatchHost, "n5"),
                (F::Priority, "4294901670"),
                (F::Start, START),
                (F::LatestEnd, "1795230628000"),
                (F::Exclusive, "1"),
                (F::Command, "WORK/sleep.sh"),
            ]),
        ]
    }

    fn print(query: &Query) -> String {
        let rows = jobs();
        let rows: Vec<&[(F, &str)]> = rows.iter().map(Vec::as_slice).collect();
        let table = table(&rows);
        let around = ClusterFacts {
            default_memory: [("main".to_owned(), MiB(100))].into(),
            groups: [(33, "www-data".to_owned())].into(),
            ..ClusterFacts::default()
        };
        let views: Vec<_> = (0..table.rows)
            .map(|r| JobView::new(&table, r, &around))
            .collect();
        let layout = layout(query);
        heading(&layout) + &lines(&layout, &views, &look())
    }

    #[test]
    fn usual_columns() {
        let want = "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)\n      \
            105_[1-20%3]      main      arr www-data PD       0:00      1 (Priority)\n               \
            101      main   filler www-data  R       0:03      4 n[5-8]\n";
        assert_eq!(print(&Query::default()), want);
        let long = Query {
            long: true,
            ..Query::default()
        };
        let want = "             JOBID PARTITION     NAME     USER    STATE       TIME TIME_LIMI  NODES NODELIST(REASON)\n      \
            105_[1-20%3]      main      arr www-data  PENDING       0:00   1:00:00      1 (Priority)\n               \
            101      main   filler www-data  RUNNING       0:03     50:00      4 n[5-8]\n";
        assert_eq!(print(&long), want);
    }

    #[test]
    fn every_letter_as_captured() {
        let letters = "%A|%F|%K|%i|%j|%T|%t|%u|%U|%P|%l|%L|%D|%C|%c|%m|%N|%r|%R|%Q|%p|%S|%e|%V|%y|%Z|%o|%k|%E|%f|%b|%h|%a|%g|%H|%I|%J|%X|%W|%w|%q|%v|%x|%Y|%z|%B|%d|%n|%O|%G";
        let query = Query {
            format: Some(Format::Letters(letters.to_owned())),
            ..Query::default()
        };
        let text = print(&query);
        let mut lines = text.lines().skip(1);
        assert_eq!(
            lines.next().unwrap(),
            "105|105|1-20%3|105_[1-20%3]|arr|PENDING|PD|www-data|33|main|1:00:00|1:00:00|1|16|16|100M||Priority|(Priority)|4294901667|0.99998471979051|N/A|N/A|2026-11-21T02:20:28|0|WORK|WORK/sleep.sh|(null)|(null)|(null)|N/A|OK|(null)|www-data|*|*|*|N/A|(null)|(null)|(null)|(null)||(null)|*:*:*|n/a|0||0|33"
        );
        assert_eq!(
            lines.next().unwrap(),
            "101|101|N/A|101|filler|RUNNING|R|www-data|33|main|50:00|49:57|4|64|1|100M|n[5-8]|None|n[5-8]|4294901670|0.99998472048901|2026-11-21T02:20:28|2026-11-21T03:10:28|2026-11-21T02:20:28|0|WORK|WORK/sleep.sh|(null)|(null)|(null)|N/A|NO|(null)|www-data|*|*|*|N/A|(null)|(null)|(null)|(null)||(null)|*:*:*|n5|0|n[5-8]|0|33"
        );
    }

    /// As the original has it: one letter more shows nothing.
    #[test]
    fn all_columns() {
        let query = Query {
            format: Some(Format::Letters("%all".to_owned())),
            ..Query::default()
        };
        let text = print(&query);
        let mut lines = text.lines();
        assert_eq!(
            lines.next().unwrap(),
            "ACCOUNT|TRES_PER_NODE|MIN_CPUS|MIN_TMP_DISK|END_TIME|FEATURES|GROUP|OVER_SUBSCRIBE|JOBID|NAME|COMMENT|TIME_LIMIT|MIN_MEMORY|REQ_NODES|COMMAND|PRIORITY|QOS|REASON||ST|USER|RESERVATION|WCKEY|EXC_NODES|NICE|S:C:T|JOBID|EXEC_HOST|CPUS|NODES|DEPENDENCY|ARRAY_JOB_ID|GROUP|SOCKETS_PER_NODE|CORES_PER_SOCKET|THREADS_PER_CORE|ARRAY_TASK_ID|TIME_LEFT|TIME|NODELIST|CONTIGUOUS|PARTITION|PRIORITY|NODELIST(REASON)|START_TIME|STATE|UID|SUBMIT_TIME|LICENSES|CORE_SPEC|SCHEDNODES|WORK_DIR"
        );
        assert!(lines.all(|line| line.contains("|33|main|") || line.contains("|*:*:*|")));
    }

    #[test]
    fn names_as_captured() {
        let query = Query {
            format: Some(Format::Names(
                "JobID,JobArrayID:10,Name,State,StateCompact,TimeUsed,NumNodes,ReasonList,Reason,tres-alloc:40,Dependency".to_owned(),
            )),
            ..Query::default()
        };
        let want = "JOBID               JOBID     NAME                STATE               ST                  TIME                NODES               NODELIST(REASON)    REASON              TRES_ALLOC                              DEPENDENCY          \n\
            105                 105_[1-20%arr                 PENDING             PD                  0:00                1                   (Priority)          Priority            cpu=16,mem=1600M,node=1,billing=16      (null)              \n\
            101                 101       filler              RUNNING             R                   0:03                4                   n[5-8]              None                cpu=64,mem=6400M,node=4,billing=64      (null)              \n";
        assert_eq!(print(&query), want);
    }

    #[test]
    fn what_means_nothing_is_told() {
        let query = Query {
            format: Some(Format::Letters("%!%i".to_owned())),
            ..Query::default()
        };
        let layout = layout(&query);
        assert_eq!(complaints(&layout), ["Invalid job format specification: !"]);
        assert_eq!(print(&query).lines().next(), Some("%!JOBID"));
    }

    #[test]
    fn long_expressions_of_tasks_are_cut() {
        let mut rows = jobs();
        let tasks: Vec<String> = (0..40).map(|n| (2 * n).to_string()).collect();
        let text = format!("105_[{}%3]", tasks.join(","));
        rows[0].retain(|c| c.0 != F::Ref);
        let mut first = rows.swap_remove(0);
        first.push((F::Ref, &text));
        let table = table(&[&first]);
        let around = ClusterFacts::default();
        let mut out = String::new();
        cell(Field::JobArrayId, &JobView::new(&table, 0, &around), &look(), &mut out);
        assert!(out.ends_with("...%3]") && out.len() < 80, "{out}");
    }
}
