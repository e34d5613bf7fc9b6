//! Requests that concern many jobs go on piece by piece, a turn each.

use crate::controller::Controller;
use crate::conversations::bulk::{
    BulkRequest, IN_LINE, IN_LINE_OF_USER, LOOKS, PIECE, UNDER_WAY, UNDER_WAY_OF_USER, Work,
    order_of_ends,
};
use crate::conversations::choosing::Choosing;
use crate::event::{Caller, ClientId};
use crate::jobs::job::Job;
use crate::jobs::reviews::weight;
use cosy_model::api::{JobFilter, Reply};
use cosy_model::{JobId, Refusal, RefusalCode, Time, Uid, User};

impl Controller {
    /// Does something to each job that a filter names: at once, or in pieces, when the answer
    /// comes later.
    pub(crate) fn each_in_pieces(
        &mut self,
        now: Time,
        (client, key): (ClientId, Option<[u8; 16]>),
        caller: &Caller,
        filter: JobFilter,
        work: Work,
    ) -> Result<Option<Reply>, Refusal> {
        let with_ended = matches!(work, Work::Requeue(_));
        let (until, uid) = (self.jobs.next_id(), caller.user.uid);
        let later = (!self.may_be_under_way(uid)).then(|| filter.clone());
        let choosing = Choosing::new(filter, with_ended, until)?;
        let mut bulk = BulkRequest::new(Some(choosing), caller, work);
        (bulk.clients, bulk.key) = (vec![client], key);
        let chosen = self.look_for_jobs(&mut bulk);
        let waits = || self.all_bulk().any(|other| other.clashes(&bulk));
        if chosen && self.is_one_piece(&bulk.left) && !waits() {
            self.do_piece(now, &mut bulk);
            return Ok(Some(bulk.answer()));
        }
        bulk.number = self.next_number();
        let Some(filter) = later else {
            self.conversations.bulk.under_way.push_back(bulk);
            if chosen && self.conversations.bulk.under_way.len() == 1 {
                self.next_piece(now);
            }
            return Ok(None);
        };
        self.may_stand_in_line(caller)?;
        bulk.forget(Choosing::new(filter, with_ended, until)?);
        self.conversations.bulk.line.push_back(bulk);
        Ok(None)
    }

    /// Cancels jobs of which nobody waits for the end: those that hold nodes and a piece of the
    /// others at once, the rest in pieces. Should the controller die meanwhile, these go on
    /// waiting, with the reason for which they were to be cancelled.
    pub(crate) fn cancel_all(&mut self, now: Time, ids: Vec<JobId>, (uid, who): (Uid, &str)) {
        let waits = |id: &JobId| self.jobs.get(id).is_some_and(Job::is_waiting);
        let (mut waiting, running): (Vec<JobId>, Vec<JobId>) = ids.into_iter().partition(waits);
        let later = waiting.split_off(waiting.len().min(PIECE));
        for id in waiting.into_iter().chain(running) {
            self.cancel_job(now, id, who);
        }
        if later.is_empty() {
            return;
        }
        let user = User {
            uid,
            name: who.to_owned(),
            ..User::default()
        };
        let mut bulk = BulkRequest::new(None, &Caller::known(user), Work::Cancel);
        bulk.number = self.next_number();
        bulk.left = order_of_ends(later, Vec::new());
        self.conversations.bulk.line.push_back(bulk);
        self.begin_next();
    }

    /// Higher than those of all that are there.
    fn next_number(&self) -> u64 {
        let last = self.all_bulk().map(|other| other.number).max();
        last.map_or(0, |last| last + 1)
    }

    /// Those under way and those in line.
    fn all_bulk(&self) -> impl Iterator<Item = &BulkRequest> {
        self.conversations
            .bulk
            .under_way
            .iter()
            .chain(&self.conversations.bulk.line)
    }

    /// Whether a further request of a user may be under way.
    fn may_be_under_way(&self, uid: Uid) -> bool {
        let mine = self
            .conversations
            .bulk
            .under_way
            .iter()
            .filter(|b| b.caller.user.uid == uid);
        self.conversations.bulk.under_way.len() < UNDER_WAY && mine.count() < UNDER_WAY_OF_USER
    }

    /// Those whose turn has come leave the line, in its order.
    fn begin_next(&mut self) {
        let mut at = 0;
        while self.conversations.bulk.under_way.len() < UNDER_WAY
            && let Some(next) = self.conversations.bulk.line.get(at)
        {
            if !self.may_be_under_way(next.caller.user.uid) {
                at += 1;
                continue;
            }
            self.conversations
                .bulk
                .under_way
                .extend(self.conversations.bulk.line.remove(at));
        }
    }

    /// Looks at some jobs whether they are meant; true when all have been looked at.
    fn look_for_jobs(&mut self, bulk: &mut BulkRequest) -> bool {
        let Some(mut choosing) = bulk.choosing.take() else {
            return true;
        };
        let mut left = LOOKS;
        let done = self.choose(&bulk.caller, &mut choosing, &mut left);
        self.turn.looked((LOOKS - left) as u64);
        if !done {
            bulk.choosing = Some(choosing);
            return false;
        }
        bulk.named = choosing.is_named();
        let (ids, ended) = (choosing.ids, choosing.ended);
        bulk.left = match bulk.work.ends() {
            true => order_of_ends(ids, choosing.running),
            false => ended
                .into_iter()
                .rev()
                .chain(ids.into_iter().rev())
                .collect(),
        };
        bulk.bases = choosing.bases;
        bulk.tallies = choosing.tallies;
        bulk.refused = choosing.refused;
        true
    }

    fn may_stand_in_line(&self, caller: &Caller) -> Result<(), Refusal> {
        let mine = self.conversations.bulk.line.iter();
        let mine = mine.filter(|other| other.caller.user.uid == caller.user.uid);
        let (mine, all) = (mine.count(), self.conversations.bulk.line.len());
        let most = match self.is_admin(caller) {
            true => IN_LINE + IN_LINE_OF_USER,
            false => IN_LINE,
        };
        if all < most && (mine < IN_LINE_OF_USER || self.is_admin(caller)) {
            return Ok(());
        }
        Err(Refusal::new(
            RefusalCode::TooMany,
            format!(
                "{all} requests for many jobs wait for others, {mine} of them of user {}: nothing was changed, ask again when one is answered",
                caller.user.name
            ),
        ))
    }

    /// The next piece of the request whose turn it is.
    pub(crate) fn next_piece(&mut self, now: Time) {
        let waits = |bulk: &BulkRequest| {
            let mut others = self.conversations.bulk.under_way.iter();
            others.any(|other| other.clashes(bulk) && other.comes_before(bulk))
        };
        // Who only looks for jobs need not wait: what is done to them comes in its turn.
        let may_go_on = |bulk: &BulkRequest| bulk.choosing.is_some() || !waits(bulk);
        let next = self.conversations.bulk.under_way.iter().position(may_go_on);
        let Some(mut bulk) = next.and_then(|at| self.conversations.bulk.under_way.remove(at))
        else {
            return;
        };
        if bulk.choosing.is_some() {
            self.look_for_jobs(&mut bulk);
            return self.conversations.bulk.under_way.push_back(bulk);
        }
        self.do_piece(now, &mut bulk);
        if bulk.left.is_empty() {
            self.done(now, bulk);
            self.begin_next();
        } else {
            self.conversations.bulk.under_way.push_back(bulk);
        }
    }

    fn is_one_piece(&self, ids: &[JobId]) -> bool {
        // None is less than one.
        ids.len() <= PIECE && ids.iter().map(|id| self.weight(*id)).sum::<usize>() <= PIECE
    }

    fn weight(&self, id: JobId) -> usize {
        let job = self.jobs.get(&id);
        // Who waits for it may be told.
        job.map_or(1, |job| weight(job.spec())) + self.conversations.waits.count(id) / 4
    }

    fn do_piece(&mut self, now: Time, bulk: &mut BulkRequest) {
        if !std::mem::replace(&mut bulk.begun, true) {
            self.change_throttles(now, bulk);
            for base in self.covered_by(bulk) {
                self.steer_whole(now, bulk, base);
            }
        }
        let mut work = 0;
        while work < PIECE
            && let Some(id) = bulk.left.pop()
        {
            work += self.weight(id);
            self.turn.looked(1);
            match self.do_one(now, bulk, id) {
                Ok(()) => bulk.changed += 1,
                Err(_) if bulk.work.ends() && !bulk.named => {}
                Err(refusal) => bulk.refused.push(self.name_of(id), refusal),
            }
        }
        self.tell_of_piece(now, bulk);
    }

    /// The arrays of which all tasks without a row of their own are meant.
    fn covered_by(&self, bulk: &mut BulkRequest) -> Vec<JobId> {
        let tallies = std::mem::take(&mut bulk.tallies).into_iter();
        let covered = tallies.filter(|(base, tally)| {
            let group = self.jobs.group(base);
            group.is_some_and(|group| tally.covers(group.plain))
        });
        covered.map(|(base, _)| base).collect()
    }

    fn do_one(&mut self, now: Time, bulk: &mut BulkRequest, id: JobId) -> Result<(), Refusal> {
        let who = bulk.caller.user.name.clone();
        match &bulk.work {
            Work::Cancel => {
                self.cancel_job(now, id, &who);
                Ok(())
            }
            Work::Signal(signal, whom) => self.signal_job(id, *signal, *whom),
            Work::Hold { as_user } => {
                let as_user = *as_user;
                self.hold_job(now, bulk, id, as_user)
            }
            Work::Release => self.release_job(now, bulk, id),
            Work::Change(change) => {
                let change = change.clone();
                self.change_one(now, bulk, id, &change)
            }
            Work::Top => self.put_on_top(now, bulk, id),
            Work::Requeue(hold) => {
                let (caller, hold) = (bulk.caller.clone(), *hold);
                self.requeue_or_revive(now, &caller, id, hold)
            }
            Work::Suspend => self.suspend_job(now, id, &who),
            Work::Resume => self.resume_job(now, id, &who),
            Work::Notify(text) => self.notify_job(id, text),
        }
    }

    /// A line of history for each submission of which jobs have been changed in this piece.
    fn tell_of_piece(&mut self, now: Time, bulk: &mut BulkRequest) {
        let word = bulk.work.word();
        for (base, ids) in std::mem::take(&mut bulk.told) {
            let (object, detail) = match ids.as_slice() {
                [id] => (format!("job {id}"), String::new()),
                _ => (
                    format!("job {base}"),
                    format!("tasks {}", self.indices_of(&ids)),
                ),
            };
            self.happened(now, word, &bulk.caller.user.name, object, detail);
        }
    }

    /// `1-3,7`.
    fn indices_of(&self, ids: &[JobId]) -> String {
        let jobs = ids.iter().filter_map(|id| self.jobs.get(id));
        let indices = jobs.filter_map(|job| job.member.map(|m| u64::from(m.index)));
        let mut indices: Vec<u64> = indices.collect();
        indices.sort_unstable();
        cosy_model::hostlist::ranges(&indices, 1)
    }

    /// A job was changed: its row, and later a line of history, unless it is one of many that
    /// have neither.
    pub(crate) fn steered(&mut self, bulk: &mut BulkRequest, id: JobId) {
        let Some(job) = self.jobs.get(&id) else {
            return;
        };
        let base = job.submitted.base;
        if job.has_row || !bulk.whole.contains(&base) {
            self.save_job(id);
            bulk.told.entry(base).or_default().push(id);
        }
    }

    fn done(&mut self, now: Time, mut bulk: BulkRequest) {
        let clients = std::mem::take(&mut bulk.clients);
        let (uid, key) = (bulk.caller.user.uid, bulk.key);
        let reply = bulk.answer().short();
        if let Some(key) = key {
            self.remember(now, uid, key, &reply);
        }
        for client in clients {
            self.reply(client, reply.clone());
        }
    }

    /// True when this request is under way: it is then answered with that one.
    pub(crate) fn joins_bulk(&mut self, client: ClientId, uid: Uid, key: [u8; 16]) -> bool {
        let same = |b: &&mut BulkRequest| b.caller.user.uid == uid && b.key == Some(key);
        match self
            .conversations
            .bulk
            .under_way
            .iter_mut()
            .chain(&mut self.conversations.bulk.line)
            .find(same)
        {
            Some(bulk) => {
                bulk.clients.push(client);
                true
            }
            None => false,
        }
    }

    /// A job that waits, so that it can be held or changed.
    pub(crate) fn waiting_job(&self, id: JobId) -> Result<&Job, Refusal> {
        let waiting = self.jobs.get(&id).filter(|job| job.is_waiting());
        waiting.ok_or_else(|| crate::procedures::steer::runs_already(&self.name_of(id)))
    }
}
