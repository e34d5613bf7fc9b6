//! `scontrol create`, `delete` and `update` of reservations.
//!
//! As in Slurm these are an administrator's; users book with `cresv`.

use super::session::{Session, too_few};
use super::update::report_update_error;
use crate::slurm::messages::say;
use crate::slurm::{names, words};
use crate::{exit, output, times, users};
use cosy_client::CallError;
use cosy_model::api::{Reply, Request};
use cosy_model::reservation::{
    ReservationAlteration, ReservationInfo, ReservationSpec, StartChoice,
};
use cosy_model::{RefusalCode, ReservationId, Time};
use cosy_slurm::control::pairs::Pair;
use cosy_slurm::control::reservation::{self, ReservationChange};
use cosy_slurm::sentences;
use cosy_slurm::show::reservation as shown;

/// Slurm's note on standard output when nodes are not free.
const NOTE: &str = "Note, unless nodes are directly requested a reservation must exist in a \
                    single partition.\nIf no partition is requested the default partition is \
                    assumed.\n";

impl Session<'_> {
    pub(super) fn is_admin(&self) -> bool {
        self.settings().is_some_and(|s| s.you_are_admin)
    }

    pub(super) fn create(&self, keyword: &str, given: &[String]) -> u8 {
        let Some((first, rest)) = given.split_first() else {
            return too_few(keyword);
        };
        let lower = first.to_ascii_lowercase();
        let is_one = |word: &str, key: &str| Pair::of(word).key(&[key]).is_some();
        if !lower.contains('=') && "reservation".starts_with(&lower) {
            return self.create_reservation(rest);
        }
        if given.iter().any(|w| is_one(w, "ReservationName")) {
            return self.create_reservation(given);
        }
        if is_one(first, "PartitionName") || "partition".starts_with(&lower) {
            return self.create_partition(given);
        }
        say("No valid entity in create command");
        say("Input line must include \"Reservation\" or \"Partition\"");
        exit::FAILED
    }

    fn create_reservation(&self, given: &[String]) -> u8 {
        let now = times::now();
        let change = match reservation::read(given, &now) {
            Ok(change) => change,
            Err(mistake) => return report_update_error(&mistake),
        };
        let all = if change.all_nodes {
            self.nodes_of(&change)
        } else {
            Vec::new()
        };
        let ask = match change.ask(&now, &all) {
            Ok(ask) => ask,
            Err(mistake) => return report_update_error(&mistake),
        };
        match self.book(ask) {
            Ok(name) => self.print(&format!("Reservation created: {name}\n")),
            Err(why) => {
                if why == sentences::NODES_BUSY {
                    output::print(NOTE);
                }
                say(&format!("Error creating the reservation: {why}"));
                exit::FAILED
            }
        }
    }

    fn nodes_of(&self, change: &ReservationChange) -> Vec<String> {
        let queues = self.queues();
        let named = |q: &&cosy_model::api::QueueInfo| match &change.partition {
            Some(name) => q.spec.name == *name,
            None => q.default,
        };
        let queue = queues.iter().find(named).map(|q| q.spec.name.clone());
        let of = |n: &cosy_model::api::NodeInfo| {
            queue.as_ref().is_some_and(|queue| n.queues.contains(queue))
        };
        let nodes = self.nodes().into_iter().filter(of);
        nodes.map(|n| n.name).collect()
    }

    /// Books a reservation; gives its name.
    fn book(&self, ask: ReservationSpec) -> Result<String, &'static str> {
        let unknown = |user: &String| !users::exists(user);
        if !self.is_admin() || ask.sharing.users.iter().any(unknown) {
            return Err(sentences::NOT_YOURS);
        }
        let live = names::reservations(self.context);
        if !ask.name.is_empty() && live.iter().any(|r| shown::name(r) == ask.name) {
            return Err(sentences::RESERVATION_NAME);
        }
        let overlaps = overlaps(&live, &ask);
        let request = Request::Reserve {
            ask: Box::new(ask),
            hold: false,
            job: None,
        };
        match self.context.ask(request) {
            Ok(Reply::Reserved { reservations, .. }) => {
                let first = reservations.first().ok_or(sentences::NODES_BUSY)?;
                Ok(shown::name(first))
            }
            Ok(_) => Err(sentences::UNSPECIFIED),
            Err(CallError::Refused(refusal)) => Err(match refusal.code {
                RefusalCode::NotFree if overlaps => sentences::RESERVATION_OVERLAP,
                RefusalCode::Invalid | RefusalCode::NotFound => sentences::NODES_BUSY,
                code => sentences::about_reservation(code),
            }),
            Err(e) => Err(words::of_call(&e)),
        }
    }

    pub(super) fn delete(&self, keyword: &str, given: &[String]) -> u8 {
        let Some(word) = given.first() else {
            return too_few(keyword);
        };
        let pair = Pair::of(word);
        if pair.key(&["PartitionName"]).is_some() {
            return self.delete_partition(pair.text());
        }
        if pair.key(&["ReservationName"]).is_none() {
            say("No valid entity in delete command");
            say("Input line must include \"ReservationName\" or \"PartitionName\"");
            return exit::FAILED;
        }
        let why = match self.cancel_reservation(pair.text()) {
            Ok(()) => return exit::OK,
            Err(why) => why,
        };
        say(&format!("delete_reservation reservationname={}: {why}", pair.text()));
        exit::FAILED
    }

    fn cancel_reservation(&self, name: &str) -> Result<(), &'static str> {
        let id = names::reservation(self.context, name).ok_or(sentences::NO_RESERVATION)?;
        let request = Request::CancelReservation {
            ids: vec![id],
            series: true,
        };
        match self.context.ask(request) {
            Ok(Reply::Done { refused, .. }) => match refused.first() {
                Some((_, refusal)) => Err(sentences::about_reservation(refusal.code)),
                None => Ok(()),
            },
            Ok(_) => Err(sentences::UNSPECIFIED),
            Err(CallError::Refused(refusal)) => Err(sentences::about_reservation(refusal.code)),
            Err(e) => Err(words::of_call(&e)),
        }
    }

    pub(super) fn update_reservation(&self, given: &[String]) -> u8 {
        let change = match reservation::read(given, &times::now()) {
            Ok(change) => change,
            Err(mistake) => return report_update_error(&mistake),
        };
        let why = match self.alter(&change) {
            Ok(()) => return self.print("Reservation updated.\n"),
            Err(why) => why,
        };
        say(&format!("Error updating the reservation: {why}"));
        say(&format!("slurm_update error: {why}"));
        exit::FAILED
    }

    /// Changes the end of a reservation, its licences and who may use it; other changes are refused,
    /// because they would make another reservation.
    fn alter(&self, change: &ReservationChange) -> Result<(), String> {
        if !self.is_admin() {
            return Err(sentences::NOT_YOURS.to_owned());
        }
        let live = names::reservations(self.context);
        let found = live.iter().find(|r| shown::name(r) == change.name);
        let found = found.ok_or(sentences::NO_RESERVATION)?;
        if !change.others.is_empty() {
            return Err(
                "only its end, its licences and who may use it can be changed here: delete it and create another"
                    .into(),
            );
        }
        let sharing = &change.sharing_change;
        if sharing.users.add.iter().any(|user| !users::exists(user)) {
            return Err(sentences::NOT_YOURS.to_owned());
        }
        let end = change.length.map(|length| found.start + length);
        let altered = ReservationAlteration {
            end: end.or(change.end),
            licenses: change.licenses.clone(),
            sharing: sharing.clone(),
        };
        if altered == ReservationAlteration::default() {
            return Err("No changes specified".into());
        }
        let overlaps = |end| {
            let beside = |r: &&ReservationInfo| r.id != found.id && r.start < end;
            live.iter().filter(beside).any(|r| found.end < r.end)
        };
        let overlaps = altered.end.is_some_and(overlaps);
        self.ask_altered(found.id, altered, overlaps)
    }

    fn ask_altered(
        &self,
        id: ReservationId,
        change: ReservationAlteration,
        overlaps: bool,
    ) -> Result<(), String> {
        let of_licenses = change.licenses.is_some();
        let request = Request::AlterReservation {
            id,
            change: Box::new(change),
        };
        match self.context.ask(request) {
            Ok(Reply::Reserved { .. }) => Ok(()),
            Ok(_) => Err(sentences::UNSPECIFIED.to_owned()),
            Err(CallError::Refused(r)) => Err(match r.code {
                // The sentence says which licence it is, and with figures.
                code if of_licenses && code != RefusalCode::Forbidden => r.message,
                RefusalCode::NotFree if overlaps => sentences::RESERVATION_OVERLAP.to_owned(),
                RefusalCode::WrongState | RefusalCode::Invalid => r.message,
                code => sentences::about_reservation(code).to_owned(),
            }),
            Err(e) => Err(words::of_call(&e).to_owned()),
        }
    }
}

/// Whether another reservation has some of these nodes at that time.
fn overlaps(live: &[ReservationInfo], ask: &ReservationSpec) -> bool {
    let StartChoice::At(start) = ask.pick else {
        return false;
    };
    let end: Time = start + ask.length;
    let shares = |r: &ReservationInfo| {
        let nodes = cosy_model::expand(&r.nodes).unwrap_or_default();
        ask.request.require.is_empty() || nodes.iter().any(|n| ask.request.require.contains(n))
    };
    live.iter()
        .any(|r| r.start < end && start < r.end && shares(r))
}
