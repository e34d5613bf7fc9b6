//! `scontrol update` of the job that it is called in, when that has fewer nodes now: the
//! files that set its variables anew.

use super::session::Session;
use crate::output;
use crate::slurm::messages::error;
use cosy_model::api::{JobChange, JobField, JobRef};
use cosy_slurm::control::resize::{RemainingNodes, Shell, note};
use cosy_view::words::by_node;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;

impl Session<'_> {
    /// Writes the files into the working directory, where a command of the same job has changed the
    /// job.
    pub(super) fn leave_scripts(&self, change: &JobChange, ids: &[JobRef]) {
        let resized = change.nodes.is_some() || change.keep_nodes.is_some();
        let Some(job) = std::env::var("SLURM_JOB_ID").ok().filter(|_| resized) else {
            return;
        };
        let fields = [
            JobField::Id,
            JobField::Resized,
            JobField::Nodes,
            JobField::NodeCount,
            JobField::CoresByNode,
            JobField::TasksByNode,
        ];
        let Ok(table) = self.table(ids.to_vec(), &fields, false) else {
            return;
        };
        let mine = |row: &usize| {
            let id = table.number(*row, JobField::Id).map(|id| id.to_string());
            id.as_ref() == Some(&job) && table.number(*row, JobField::Resized).is_some()
        };
        let Some(row) = (0..table.rows).find(mine) else {
            return;
        };
        let left = RemainingNodes {
            nodes: table.text(row, JobField::Nodes).to_owned(),
            count: table
                .number(row, JobField::NodeCount)
                .map_or(0, i64::unsigned_abs),
            cores: by_node::read(table.text(row, JobField::CoresByNode)),
            tasks: by_node::read(table.text(row, JobField::TasksByNode)),
        };
        for shell in [Shell::Sh, Shell::Csh] {
            let file = shell.file(&job);
            if let Err(e) = write(&file, &shell.text(&left)) {
                return error(self.context, &format!("could not write {file}: {e}"));
            }
        }
        output::print(&format!("{}\n", note(&job)));
    }
}

fn write(file: &str, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let options = options.write(true).create(true).truncate(true).mode(0o700);
    options.open(file)?.write_all(text.as_bytes())
}
