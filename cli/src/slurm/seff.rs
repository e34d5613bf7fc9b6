//! `seff`: how well a job used what it held.

use super::messages::say;
use super::{records, reports};
use crate::{Context, exit, output, refs, times};
use cosy_model::api::JobFilter;
use cosy_slurm::sacct::efficiency;

const USAGE: &str = "Usage: seff [Options] <JOBID>\n       Options:\n       -h    Help menu\n       \
    -v    Version\n       -d    As without\n";

/// Runs `seff`; gives its exit code.
pub fn run(context: &Context) -> u8 {
    let mut id = None;
    for word in context.args() {
        match word.to_string_lossy().as_ref() {
            "-h" | "--help" => {
                output::print(USAGE);
                return exit::FAILED;
            }
            "-v" | "-V" | "--version" => return reports::version(),
            "-d" => {}
            other => id = Some(other.to_owned()),
        }
    }
    let ids = id.as_deref().and_then(|id| refs::jobs(id).ok());
    let Some(ids) = ids.filter(|ids| ids.len() == 1) else {
        output::print(USAGE);
        return exit::FAILED;
    };
    let filter = JobFilter {
        ids,
        ..JobFilter::default()
    };
    let now = times::time_of(&times::now());
    let records = match records::fetch(context, &filter, false, now) {
        Ok(records) => records,
        Err(e) => return reports::failed("slurmdb_jobs_get", &e),
    };
    let jobs = records.rows();
    if jobs.is_empty() {
        say("Job not found.");
        return 2;
    }
    let reports: Vec<String> = jobs.iter().map(|rows| efficiency::report(rows)).collect();
    output::print(&reports.join("\n"));
    exit::OK
}
