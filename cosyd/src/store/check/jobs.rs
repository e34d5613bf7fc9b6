//! Submissions and jobs, and what belongs to them.

use super::super::rows::decode;
use super::super::sql::postgres::number;
use super::super::sql::value::without_nul;
use super::super::sql::{self, Row, Rows, params};
use super::super::{StoreError, start_of};
use super::{Check, Remedy};
use cosy_control::{JobRow, SubmissionRow};

/// Where a column differs from the row.
const LISTS: Remedy = Remedy::Other(
    "lists that ask for that column go wrong, the job itself does not; cosyd store restore has it as it was",
);
const NOT_TOLD: Remedy = Remedy::Harmless("nobody is told of it");
const ORPHAN: Remedy = Remedy::Other(
    "no list has it, and its id is not given out again: cosyd store restore, if it is missed",
);

/// A submission whose jobs come next.
struct Open {
    base: u64,
    end: u64,
    live: bool,
    aside: bool,
    /// How many jobs it has; components of a job have ids and no row.
    jobs: u64,
    ended: u64,
}

/// Columns of a submission.
struct SubmissionColumns {
    base: u64,
    ids: u64,
    uid: u64,
    texts: [String; 4],
    submit: i64,
    flow: Option<u64>,
    row: Vec<u8>,
    live: bool,
}

/// Columns of a job.
#[derive(PartialEq)]
struct JobColumns {
    id: u64,
    base: u64,
    state: String,
    start: Option<i64>,
    ended: Option<i64>,
    body: u32,
}

fn submission(r: &Row<'_>) -> sql::Result<SubmissionColumns> {
    Ok(SubmissionColumns {
        base: r.get(0)?,
        ids: r.get(1)?,
        uid: r.get(2)?,
        texts: [r.get(3)?, r.get(4)?, r.get(5)?, r.get(6)?],
        submit: r.get(7)?,
        flow: r.get(8)?,
        row: r.get(9)?,
        live: r.get(10)?,
    })
}

fn job(r: &Row<'_>) -> sql::Result<(JobColumns, Vec<u8>)> {
    let columns = JobColumns {
        id: r.get(0)?,
        base: r.get(1)?,
        state: r.get(2)?,
        start: r.get(3)?,
        ended: r.get(4)?,
        body: r.get(5)?,
    };
    Ok((columns, r.get(6)?))
}

impl Check<'_> {
    /// Goes through submissions and jobs side by side, both by id.
    pub(super) fn jobs(&mut self) -> sql::Result<()> {
        let c = self.c;
        let mut submissions = c.prepare_cached(
            "SELECT s.base, s.ids, s.uid, s.\"user\", s.queue, s.name, s.account, s.submit, s.flow,
                 s.row, EXISTS (SELECT 1 FROM live_submissions l WHERE l.base = s.base)
             FROM submissions s ORDER BY s.base",
        )?;
        let mut submissions = submissions.query(params![])?;
        let mut jobs = c.prepare_cached(
            "SELECT id, base, state, start, ended, body, row FROM jobs ORDER BY id",
        )?;
        let mut jobs = jobs.query(params![])?;
        let mut next = self.next_job(&mut jobs)?;
        let mut before = 0;
        while let Some(columns) = submissions.next_with(submission)? {
            let mut open = self.submission(columns, before)?;
            before = open.end;
            while let Some((id, base, ended)) = next.filter(|(id, ..)| *id < open.end) {
                if id < open.base {
                    self.orphan(id)?;
                } else {
                    open.ended += u64::from(ended);
                    if base != open.base {
                        let what = format!(
                            "it says that it is of submission {base}, and its id is of submission {}",
                            open.base
                        );
                        self.found(format!("job {id}"), what, Remedy::Restore);
                    }
                }
                next = self.next_job(&mut jobs)?;
            }
            self.over(&open);
        }
        while let Some((id, ..)) = next {
            self.orphan(id)?;
            next = self.next_job(&mut jobs)?;
        }
        Ok(())
    }

    fn orphan(&mut self, id: u64) -> sql::Result<()> {
        // On its way into an archive.
        let leaves = "SELECT 1 FROM leaving WHERE base <= ?1 AND base + ids > ?1";
        if !self.exists(leaves, &[number(id)])? {
            self.found(format!("job {id}"), "there is no submission that it belongs to", ORPHAN);
        }
        Ok(())
    }

    /// Looks at the next job by itself: its id, its submission, whether it has ended.
    fn next_job(&mut self, jobs: &mut Rows<'_>) -> sql::Result<Option<(u64, u64, bool)>> {
        let Some((columns, row)) = jobs.next_with(job)? else {
            return Ok(None);
        };
        let next = (columns.id, columns.base, columns.ended.is_some());
        let place = format!("job {}", columns.id);
        match decode::<JobRow>("jobs", &row) {
            Ok(row) => self.job_columns(&place, &columns, &row),
            Err(e) => {
                let remedy = match columns.ended {
                    None => Remedy::SetAside,
                    Some(_) => Remedy::Restore,
                };
                if !self.is_aside("job", columns.base) {
                    self.found(place, unreadable(&e), remedy);
                }
            }
        }
        Ok(Some(next))
    }

    fn job_columns(&mut self, place: &str, columns: &JobColumns, row: &JobRow) {
        let want = JobColumns {
            id: row.id.0,
            base: row.base.0,
            state: row.state.word().to_owned(),
            start: start_of(row).map(|at| at.0),
            ended: row.end.as_ref().map(|end| end.end.0),
            body: row.body,
        };
        let each = [
            ("id", columns.id == want.id),
            ("base", columns.base == want.base),
            ("state", columns.state == want.state),
            ("start", columns.start == want.start),
            ("ended", columns.ended == want.ended),
            ("body", columns.body == want.body),
        ];
        self.columns(place, &each);
    }

    /// Tells which columns are not what their row says.
    pub(super) fn columns(&mut self, place: &str, each: &[(&str, bool)]) {
        for (name, _) in each.iter().filter(|(_, same)| !same) {
            let what = format!("column {name} is not what the row says");
            self.found(place.to_owned(), what, LISTS);
        }
    }

    fn submission(&mut self, columns: SubmissionColumns, before: u64) -> sql::Result<Open> {
        let base = columns.base;
        let place = format!("submission {base}");
        let mut open = Open {
            base,
            end: base.saturating_add(columns.ids),
            live: columns.live,
            aside: self.is_aside("job", base),
            jobs: columns.ids,
            ended: 0,
        };
        if base < before {
            let what = "its first id is of the submission before it";
            self.found(place.clone(), what, Remedy::Restore);
        }
        if let Some(flow) = columns.flow
            && !self.exists("SELECT 1 FROM flows WHERE id = ?1", &[number(flow)])?
        {
            let what = format!("there is no workflow {flow}, which it is a task of");
            self.found(place.clone(), what, Remedy::Restore);
        }
        match decode::<SubmissionRow>("submissions", &columns.row) {
            Ok(row) => {
                open.jobs = row.tasks();
                self.submission_columns(&place, &columns, &row);
            }
            Err(_) if open.aside => {}
            Err(e) => {
                let remedy = match open.live {
                    true => Remedy::SetAside,
                    false => Remedy::Restore,
                };
                self.found(place, unreadable(&e), remedy);
            }
        }
        Ok(open)
    }

    fn submission_columns(
        &mut self,
        place: &str,
        columns: &SubmissionColumns,
        row: &SubmissionRow,
    ) {
        let [user, queue, name, account] = &columns.texts;
        let each = [
            ("base", columns.base == row.base.0),
            ("ids", columns.ids == row.ids()),
            ("uid", columns.uid == u64::from(row.uid.0)),
            ("user", *user == without_nul(&row.user)),
            ("queue", *queue == without_nul(&row.queue)),
            ("name", *name == without_nul(&row.spec.name)),
            ("account", *account == without_nul(row.spec.account.as_deref().unwrap_or(""))),
            ("submit", columns.submit == row.submit.0),
            ("flow", columns.flow == row.flow.map(|of| of.flow.0)),
        ];
        self.columns(place, &each);
    }

    /// All jobs of a submission were looked at.
    fn over(&mut self, open: &Open) {
        let place = format!("submission {}", open.base);
        let over = open.ended >= open.jobs;
        if open.live && over {
            let what = "all its jobs have ended, and it is among those that live";
            let remedy = Remedy::Harmless("each start reads it for nothing");
            self.found(place, what, remedy);
        } else if !open.live && !open.aside && !over {
            let what = format!(
                "{} of its {} jobs have not ended, and it is not among those that live",
                open.jobs.saturating_sub(open.ended),
                open.jobs
            );
            let remedy = Remedy::Other(
                "no controller goes on with them: cosyd store restore, or submit them again",
            );
            self.found(place, what, remedy);
        }
    }

    /// What belongs to submissions and jobs.
    pub(super) fn belongings(&mut self) -> sql::Result<()> {
        let leaves = |id: &str| {
            format!(
                "NOT EXISTS (SELECT 1 FROM leaving v WHERE v.base <= {id} AND v.base + v.ids > {id})"
            )
        };
        let no_job = |table: &str, id: &str, rest: &str| {
            format!(
                "SELECT CAST(x.{id} AS TEXT), {rest} FROM {table} x
                 WHERE NOT EXISTS (SELECT 1 FROM jobs j WHERE j.id = x.{id}) AND {} ORDER BY x.{id}",
                leaves(&format!("x.{id}"))
            )
        };
        let no_submission = |table: &str, rest: &str| {
            format!(
                "SELECT CAST(x.base AS TEXT){rest} FROM {table} x
                 WHERE NOT EXISTS (SELECT 1 FROM submissions s WHERE s.base = x.base)
                 AND {} ORDER BY x.base",
                leaves("x.base")
            )
        };
        let attempt = "CAST(x.attempt AS TEXT)";
        let gone = "there is no submission with that number";
        let lives_for_nothing = Remedy::Harmless("a start passes over it");
        self.each_is_wrong(
            "live submission",
            &no_submission("live_submissions", ""),
            1,
            gone,
            lives_for_nothing,
        )?;
        let bodies = no_submission("bodies", ", CAST(x.number AS TEXT)");
        self.each_is_wrong("body", &bodies, 2, gone, NOT_TOLD)?;
        let standings = "SELECT CAST(x.base AS TEXT) FROM standings x
             WHERE NOT EXISTS (SELECT 1 FROM live_submissions l WHERE l.base = x.base)
             AND CAST(x.base AS TEXT) NOT IN (SELECT object FROM set_aside WHERE source = 'job')
             ORDER BY x.base";
        let what = "no submission with that number lives";
        self.each_is_wrong("standing", standings, 1, what, lives_for_nothing)?;
        let no_job_there = "there is no such job";
        let runs = no_job("runs", "id", attempt);
        self.each_is_wrong("earlier run", &runs, 2, no_job_there, NOT_TOLD)?;
        let steps = no_job("steps", "job", attempt);
        self.each_is_wrong("steps of attempt", &steps, 2, no_job_there, NOT_TOLD)?;
        let bodiless = format!(
            "SELECT CAST(j.id AS TEXT), CAST(j.body AS TEXT) FROM jobs j WHERE j.body <> 0
             AND NOT EXISTS (SELECT 1 FROM bodies b WHERE b.base = j.base AND b.number = j.body)
             AND {} ORDER BY j.id",
            leaves("j.id")
        );
        let what = "what it was changed to ask for (its body) is not there";
        let remedy = Remedy::Other(
            "it counts as it was submitted: look at it with cstat, and change it again; cosyd store restore has it",
        );
        self.each_is_wrong("job and body", &bodiless, 2, what, remedy)?;
        self.end_days()
    }

    fn end_days(&mut self) -> sql::Result<()> {
        let wrong = "SELECT CAST(x.day AS TEXT), CAST(x.least AS TEXT) FROM (
                 SELECT ended / 86400000 AS day, MIN(id) AS least FROM jobs
                 WHERE ended IS NOT NULL GROUP BY 1) x
             WHERE NOT EXISTS (
                 SELECT 1 FROM end_days d WHERE d.day = x.day AND d.least_id <= x.least)
             ORDER BY x.day";
        let what = "the least id of the jobs that ended on that day is not kept";
        let remedy = Remedy::Other(
            "lists of that time lack jobs: a copy makes it anew (cosyd store backup, then restore)",
        );
        self.each_is_wrong("day and job", wrong, 2, what, remedy)
    }
}

/// Why a row cannot be read.
pub(super) fn unreadable(e: &StoreError) -> String {
    match e {
        StoreError::Row { why, .. } => format!("the row cannot be read: {why}"),
        other => other.to_string(),
    }
}
