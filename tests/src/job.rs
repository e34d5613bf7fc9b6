//! Jobs to submit, and jobs as they are.

use cosy_model::api::{JobField, Submission, Table};
use cosy_model::{JobId, JobSpec, JobState, OsText, Program, Span};
use std::path::Path;

/// A job that runs a shell script in `workdir`; an hour at most.
pub fn script(workdir: &Path, text: &str) -> Submission {
    let program = Program::Script {
        name: "test.sh".into(),
        args: Vec::new(),
    };
    let text = format!("#!/bin/sh\n{text}\n");
    submission(workdir, program, text.into())
}

/// A job that writes its beginning and its end with the number of the attempt into a file of `marks`,
/// sleeps in between for that long (`0.3` seconds), and ends with that code.
pub fn marked(workdir: &Path, marks: &Path, sleep: &str, exit: i64) -> Submission {
    let text = format!(
        "echo start $COSY_JOB_ATTEMPT >> {0}/$COSY_JOB_ID\nsleep {sleep}\n\
         echo end $COSY_JOB_ATTEMPT >> {0}/$COSY_JOB_ID\nexit {exit}",
        marks.display()
    );
    script(workdir, &text)
}

/// A job that runs a command in `workdir`; an hour at most.
pub fn command(workdir: &Path, argv: &[&str]) -> Submission {
    let program = Program::Command {
        argv: argv.iter().map(|a| OsText::from(*a)).collect(),
    };
    submission(workdir, program, OsText::default())
}

fn submission(workdir: &Path, program: Program, script: OsText) -> Submission {
    let workdir = workdir.to_string_lossy().into_owned().into();
    let spec = JobSpec {
        time_limit: Some(Span::from_minutes(60)),
        requeue: true,
        environment: "PATH=/usr/local/bin:/usr/bin:/bin".into(),
        ..JobSpec::plain("test", program, workdir)
    };
    Submission {
        spec,
        script,
        array: None,
    }
}

/// A row of a list of jobs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    /// Number that the controller gave it.
    pub id: JobId,
    /// Id as users name it.
    pub name: String,
    /// State at the time of the list.
    pub state: JobState,
    /// Why it waits or ended so.
    pub reason: String,
    /// Exit code of its program, once it has ended.
    pub exit_code: Option<i64>,
    /// Signal that ended the script.
    pub signal: Option<i64>,
    /// How often it has been given nodes.
    pub attempt: i64,
    /// Nodes as a host list.
    pub nodes: String,
    /// Start in milliseconds.
    pub start: Option<i64>,
    /// End in milliseconds.
    pub end: Option<i64>,
    /// Number of the owner.
    pub uid: i64,
}

impl Row {
    /// All rows of a table that was asked for with all fields.
    ///
    /// # Panics
    /// When the table is not whole.
    pub fn all(table: &Table) -> Vec<Self> {
        assert!(table.is_sound());
        (0..table.rows).map(|row| Self::of(table, row)).collect()
    }

    fn of(table: &Table, row: usize) -> Self {
        let number = |field| table.number(row, field);
        let text = |field| table.text(row, field).to_owned();
        let id = number(JobField::Id).expect("every job has an id");
        Self {
            id: JobId(id.try_into().expect("ids are positive")),
            name: text(JobField::Ref),
            state: text(JobField::State).parse().expect("a state word"),
            reason: text(JobField::Reason),
            exit_code: number(JobField::ExitCode),
            signal: number(JobField::Signal),
            attempt: number(JobField::Attempt).unwrap_or(0),
            nodes: text(JobField::Nodes),
            start: number(JobField::Start),
            end: number(JobField::End),
            uid: number(JobField::Uid).unwrap_or(-1),
        }
    }

    /// State and exit code.
    pub fn outcome(&self) -> (JobState, i64) {
        (self.state, self.exit_code.unwrap_or(0))
    }
}
