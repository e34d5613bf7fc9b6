//! `scontrol create`, `update` and `delete` of partitions.

use super::session::Session;
use super::update::report_update_error;
use crate::exit;
use crate::slurm::messages::say;
use crate::slurm::words;
use cosy_client::CallError;
use cosy_model::api::Request;
use cosy_model::{About, QueueSpec, RefusalCode};
use cosy_slurm::control::partition::{self, PartitionUpdate};
use cosy_slurm::sentences;
use cosy_slurm::show::hosts;

impl Session<'_> {
    pub(super) fn create_partition(&self, given: &[String]) -> u8 {
        let update = match partition::read(given) {
            Ok(update) => update,
            Err(mistake) => return report_update_error(&mistake),
        };
        let mut spec = QueueSpec {
            name: update.name.clone(),
            nodes: Some(Vec::new()),
            ..QueueSpec::default()
        };
        let why = match self.set_partition(&update, &mut spec, true) {
            Ok(()) => return exit::OK,
            Err(why) => why,
        };
        say(&format!("Error creating the partition: {why}"));
        exit::FAILED
    }

    pub(super) fn update_partition(&self, given: &[String]) -> u8 {
        let update = match partition::read(given) {
            Ok(update) if update.changes => update,
            Ok(_) => {
                say("No changes specified");
                return exit::FAILED;
            }
            Err(mistake) => return report_update_error(&mistake),
        };
        if let Some(state) = update.only_state() {
            let queue = update.name;
            return self.carry_out(Request::QueueControl { queue, state }, sentences::NO_PARTITION);
        }
        let found = self
            .queues()
            .into_iter()
            .find(|q| q.spec.name == update.name);
        let done = match found {
            None if self.is_admin() => Err(sentences::NO_PARTITION),
            None => Err(sentences::NOT_YOURS),
            Some(found) if found.default && update.default == Some(false) => {
                Err("make another partition the default instead")
            }
            Some(mut found) => self.set_partition(&update, &mut found.spec, false),
        };
        match done {
            Ok(()) => exit::OK,
            Err(why) => {
                say(&format!("slurm_update error: {why}"));
                exit::FAILED
            }
        }
    }

    /// Makes or changes a queue.
    fn set_partition(
        &self,
        update: &PartitionUpdate,
        spec: &mut QueueSpec,
        new: bool,
    ) -> Result<(), &'static str> {
        if let Some(nodes) = &update.nodes {
            spec.nodes = nodes_of(nodes)?;
        }
        update.lay_over(spec);
        let request = Request::SetQueue {
            spec: Box::new(spec.clone()),
            new,
            default: update.default == Some(true),
        };
        self.request(request, sentences::NO_PARTITION)
    }

    /// Sends a request about a queue; `wrong` is the sentence for a queue whose state does not
    /// allow it.
    fn request(&self, request: Request, wrong: &'static str) -> Result<(), &'static str> {
        match self.context.ask(request) {
            Ok(_) => Ok(()),
            Err(CallError::Refused(refusal)) => Err(match (refusal.code, refusal.about) {
                (RefusalCode::Forbidden, _) => sentences::NOT_YOURS,
                (_, Some(About::Node)) => sentences::NO_NODE,
                (_, Some(About::TimeLimit)) => sentences::TIME_LIMIT,
                (RefusalCode::NotFound | RefusalCode::Invalid, _) => sentences::NO_PARTITION,
                (RefusalCode::WrongState, _) => wrong,
                (code, _) => sentences::about_job(code),
            }),
            Err(e) => Err(words::of_call(&e)),
        }
    }

    pub(super) fn delete_partition(&self, name: &str) -> u8 {
        let queue = name.to_owned();
        let request = Request::DeleteQueue { queue };
        let why = match self.request(request, sentences::PARTITION_IN_USE) {
            Ok(()) => return exit::OK,
            Err(why) => why,
        };
        say(&format!("delete_partition partitionname={name}: {why}"));
        exit::FAILED
    }
}

/// Names of nodes; `None` for `ALL`.
fn nodes_of(list: &str) -> Result<Option<Vec<String>>, &'static str> {
    match list {
        "ALL" => Ok(None),
        "" => Ok(Some(Vec::new())),
        list => hosts::names(list).map(Some).map_err(|_| sentences::NO_NODE),
    }
}
