//! Lists are begun, gone on with piece by piece, and answered.

use crate::controller::Controller;
use crate::conversations::choosing::Sieve;
use crate::conversations::job_facts::{Around, EndedFacts, LiveFacts};
use crate::conversations::listing::{
    Answering, Entry, Fold, Ids, LISTINGS, List, ListRequest, Listing, PIECE_JOBS, PIECE_WORK,
    Stage, too_long,
};
use crate::conversations::plans::Starts;
use crate::conversations::requests::no_job;
use crate::jobs::arrays::Names;
use crate::jobs::components::rows_by_bundle;
use crate::jobs::ended::Ended;
use crate::jobs::job::{Job, Submitted};
use crate::record::JobRow;
use cosy_model::api::{Cursor, Reply};
use cosy_model::{JobId, Refusal, RefusalCode, Time};
use cosy_view::job::visible::asks_private;
use cosy_view::list::JobRows;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;

impl Controller {
    /// True while lists are under way: another turn is to follow at once.
    pub fn is_listing(&self) -> bool {
        !self.conversations.lists.line.is_empty()
    }

    /// Begins a list, with its first piece; `None` when it is answered later.
    pub(crate) fn list(&mut self, now: Time, asked: ListRequest) -> Option<Reply> {
        let list = List::Jobs(Box::new(self.listing(asked)));
        self.begin_list(now, list)
    }

    /// The same of any list.
    pub(crate) fn begin_list(&mut self, now: Time, list: List) -> Option<Reply> {
        if self.conversations.lists.line.len() >= LISTINGS {
            let why = format!("{LISTINGS} lists are being made already: try again in a moment");
            return Some(Reply::Refused(Refusal::new(RefusalCode::TooMany, why)));
        }
        // Short lists are answered at once; one piece in a turn, whoever asks.
        match std::mem::replace(&mut self.conversations.lists.made_piece, true) {
            true => self.conversations.lists.line.push_back(list),
            false => return self.go_on_listing(now, list),
        }
        None
    }

    /// A piece more; the answer with the last, else the list goes behind all others.
    fn go_on_listing(&mut self, now: Time, mut list: List) -> Option<Reply> {
        let done = match &mut list {
            List::Jobs(list) => self.list_piece(now, list),
            List::Flows(list) => self.list_flows_piece(list),
            List::Reservations(list) => self.list_reservations_piece(list),
            List::Nodes(list) => self.list_nodes_piece(list),
            List::Wait(client) => return self.go_on_waiting(*client),
        };
        match list {
            List::Jobs(list) if done => Some(self.listed(now, *list)),
            List::Flows(list) if done => Some(list.answer()),
            List::Reservations(list) if done => Some(list.answer()),
            List::Nodes(list) if done => Some(list.answer()),
            List::Jobs(_)
            | List::Flows(_)
            | List::Reservations(_)
            | List::Nodes(_)
            | List::Wait(_) => {
                self.conversations.lists.line.push_back(list);
                None
            }
        }
    }

    /// One piece of the list whose turn it is, unless this turn has had one.
    pub(crate) fn list_next(&mut self, now: Time) {
        if std::mem::take(&mut self.conversations.lists.made_piece) {
            return;
        }
        let Some(list) = self.conversations.lists.line.pop_front() else {
            return;
        };
        let client = list.client();
        if let Some(reply) = self.go_on_listing(now, list) {
            self.reply(client, reply);
        }
    }

    fn listing(&self, mut asked: ListRequest) -> Listing {
        let refs = std::mem::take(&mut asked.filter.ids);
        let rows = JobRows::new(&asked.fields);
        Listing {
            client: asked.client,
            caller: asked.caller,
            named: (!refs.is_empty()).then(|| Ids {
                names: Names::of(refs.into()),
                ..Ids::default()
            }),
            private: asks_private(&asked.filter),
            filter: asked.filter,
            fold: asked.fold,
            starts: asked.starts,
            order: BTreeSet::new(),
            places: BTreeMap::new(),
            answering: asked.answering,
            stage: match rows.needs().places {
                true => Stage::Placing(JobId(0)),
                false => Stage::Naming,
            },
            live: Vec::new(),
            folds: BTreeMap::new(),
            ended: Vec::new(),
            entries: VecDeque::new(),
            rows,
            at: None,
        }
    }

    /// One piece; true when it was the last.
    fn list_piece(&mut self, now: Time, listing: &mut Listing) -> bool {
        let named = |l: &Listing| l.named.as_ref().map_or(0, |named| named.ids.len());
        let (before, mut left) = (listing.rows.len() + named(listing), PIECE_JOBS);
        let done = self.list_some(now, listing, &mut left);
        let more = listing.rows.len() + named(listing) - before;
        self.turn.looked((PIECE_JOBS - left + more) as u64);
        done
    }

    fn list_some(&self, now: Time, listing: &mut Listing, left: &mut usize) -> bool {
        let filter = std::mem::take(&mut listing.filter);
        let sieve = &self.sieve(&filter);
        let mut done = false;
        while *left > 0 {
            match listing.stage {
                Stage::Placing(after) => self.look_at_order(listing, after, left),
                Stage::Ranking(place) => listing.rank(place, left),
                Stage::Naming => self.look_up(listing, left),
                Stage::Live(at, after) => self.look_at_live(listing, sieve, (at, after), left),
                Stage::Ended(at, after) => {
                    self.look_at_ended(listing, sieve, (at, after), left);
                }
                Stage::Rows => {
                    done = self.make_rows(now, listing, sieve);
                    break;
                }
            }
        }
        listing.filter = filter;
        done
    }

    fn look_at_order(&self, listing: &mut Listing, after: JobId, left: &mut usize) {
        let range = (Bound::Excluded(after), Bound::Unbounded);
        let mut piece = self.jobs.range(range).take(*left).peekable();
        if piece.peek().is_none() {
            listing.stage = Stage::Ranking(1);
            return;
        }
        let mut last = after;
        for (id, job) in piece {
            let key = job
                .is_waiting()
                .then(|| self.planning.cluster().order_of(*id));
            listing.order.extend(key.flatten());
            last = *id;
        }
        listing.stage = Stage::Placing(last);
        *left = 0;
    }

    /// Each job once, however often it is named. The id of a part stands for its job.
    fn look_up(&self, listing: &mut Listing, left: &mut usize) {
        let Some(named) = &mut listing.named else {
            listing.stage = Stage::Live(0, JobId(0));
            return;
        };
        while *left > 0 {
            let Some(mut expanding) = named.names.next(left) else {
                if named.names.are_over() {
                    listing.stage = Stage::Live(0, JobId(0));
                }
                return;
            };
            let (mut ids, over) = self.some_of(&mut expanding, *left);
            *left = left.saturating_sub(ids.len());
            ids.retain(|id| self.jobs.contains_key(id) || self.jobs.has_ended(*id));
            expanding.known |= !ids.is_empty();
            if over && !expanding.known {
                ids.extend(self.whole_of(expanding.target.job));
            }
            if !over {
                named.names.goes_on(expanding);
            }
            let new = ids.into_iter().filter(|id| named.seen.insert(*id));
            named.ids.extend(new);
        }
    }

    fn look_at_live(
        &self,
        listing: &mut Listing,
        sieve: &Sieve<'_>,
        (at, after): (usize, JobId),
        left: &mut usize,
    ) {
        let over = match &listing.named {
            Some(named) => {
                let piece = named.ids.iter().skip(at).take(*left);
                let jobs: Vec<&Job> = piece.filter_map(|id| self.jobs.get(id)).collect();
                let next = at + *left;
                let over = next >= named.ids.len();
                jobs.into_iter()
                    .for_each(|job| self.look_at(listing, sieve, job));
                listing.stage = Stage::Live(next, after);
                *left = 0;
                over
            }
            None => {
                let range = (Bound::Excluded(after), Bound::Unbounded);
                let mut last = after;
                let before = *left;
                for (id, job) in self.jobs.range(range).take(before) {
                    self.look_at(listing, sieve, job);
                    last = *id;
                    *left -= 1;
                }
                listing.stage = Stage::Live(0, last);
                *left > 0
            }
        };
        if over {
            *left = (*left).max(1); // what is left to do may be nothing
            listing.stage = Stage::Ended(0, JobId(0));
        }
    }

    fn look_at(&self, listing: &mut Listing, sieve: &Sieve<'_>, job: &Job) {
        let (caller, private) = (&listing.caller, listing.private);
        if !sieve.passes(job) || !self.may_find(caller, private, &job.submitted) {
            return;
        }
        let rank = job.rank();
        // What has run before is no longer like the others.
        let alike = job.is_waiting() && !job.own && job.attempt.0 == 0;
        let folds = listing.fold && alike;
        match job.member.filter(|_| folds) {
            Some(member) => {
                let submitted = &job.submitted;
                let key = (submitted.base, submitted.body, job.held.is_some());
                let fold = listing.folds.entry(key).or_insert_with(|| Fold {
                    rank,
                    tasks: Vec::new(),
                });
                fold.rank = fold.rank.min(rank);
                fold.tasks.push((member.index, job.id));
            }
            None => listing.live.push((rank, job.id)),
        }
    }

    fn look_at_ended(
        &self,
        listing: &mut Listing,
        sieve: &Sieve<'_>,
        (at, after): (usize, JobId),
        left: &mut usize,
    ) {
        let over = match &listing.named {
            Some(named) => {
                let caller = &listing.caller;
                let wanted =
                    |e: &&Ended| self.may_see(caller, &e.submitted) && sieve.passes_state(e.state);
                let piece = named.ids.iter().skip(at).take(*left);
                let ended = piece.filter_map(|id| self.jobs.ended(*id)).filter(wanted);
                listing.ended.extend(ended.map(|e| e.row.id));
                let next = at + *left;
                listing.stage = Stage::Ended(next, after);
                *left = 0;
                next >= named.ids.len()
            }
            None => {
                let range = (Bound::Excluded(after), Bound::Unbounded);
                let mut last = after;
                let before = *left;
                for (id, ended) in self.jobs.ended_between(range).take(before) {
                    if self.lists_ended(listing, sieve, ended) {
                        listing.ended.push(id);
                    }
                    last = id;
                    *left -= 1;
                }
                listing.stage = Stage::Ended(0, last);
                *left > 0
            }
        };
        if over {
            *left = 0; // sorting is a piece of its own
            listing.sort();
        }
    }

    fn lists_ended(&self, listing: &Listing, sieve: &Sieve<'_>, ended: &Ended) -> bool {
        sieve.passes_state(ended.state)
            && !sieve.names_nodes()
            && sieve.passes_submitted(&ended.submitted)
            && self.may_find(&listing.caller, listing.private, &ended.submitted)
    }

    /// Rows until the work of a piece is done; true when there are no more to make.
    fn make_rows(&self, now: Time, listing: &mut Listing, sieve: &Sieve<'_>) -> bool {
        let until = listing.rows.work() + PIECE_WORK;
        while listing.rows.work() < until && !listing.is_full() {
            let Some(entry) = listing.entries.pop_front() else {
                return true;
            };
            listing.at = Some(match &entry {
                Entry::Live { rank, .. } | Entry::Fold { rank, .. } => Cursor {
                    part: 0,
                    at: rank.0,
                },
                Entry::Ended(id) => Cursor { part: 1, at: id.0 },
            });
            self.make_row(now, listing, sieve, entry);
        }
        listing.is_full() || listing.entries.is_empty()
    }

    fn make_row(&self, now: Time, listing: &mut Listing, sieve: &Sieve<'_>, entry: Entry) {
        let by_component = listing.rows.needs().components;
        match entry {
            Entry::Ended(id) => self.row_of_ended(now, listing, sieve, id),
            Entry::Live { id, .. } => match self.jobs.get(&id) {
                Some(job) if by_component && !job.spec().bundles.is_empty() => {
                    for part in &self.by_bundle(now, job) {
                        self.push_live(now, listing, part, None);
                    }
                }
                Some(job) => self.push_live(now, listing, job, None),
                None => self.row_of_ended(now, listing, sieve, id),
            },
            Entry::Fold { mut tasks, .. } => {
                // Those that started while the list was made are still told as they were.
                let waiting = |(_, id): &(u32, JobId)| self.jobs.get(id).filter(|j| j.is_waiting());
                tasks.sort();
                let Some(job) = tasks.iter().find_map(waiting) else {
                    return;
                };
                listing.rows.worked(tasks.len() / 16);
                let indices: Vec<u32> = tasks.iter().map(|(index, _)| *index).collect();
                self.push_live(now, listing, job, Some(&indices));
            }
        }
    }

    /// One that ended moments ago, or while the list was made.
    fn row_of_ended(&self, now: Time, listing: &mut Listing, sieve: &Sieve<'_>, id: JobId) {
        let Some(ended) = self.jobs.ended(id) else {
            return;
        };
        if !sieve.passes_state(ended.state) {
            return;
        }
        if listing.rows.needs().components && !ended.submitted.spec.bundles.is_empty() {
            for (row, submitted) in &rows_by_bundle(&ended.row, &ended.submitted) {
                self.push_ended(now, listing, row, submitted);
            }
        } else {
            self.push_ended(now, listing, &ended.row, &ended.submitted);
        }
    }

    fn push_live(&self, now: Time, listing: &mut Listing, job: &Job, tasks: Option<&[u32]>) {
        let whole = self.is_told_all(&listing.caller, job.submitted.uid);
        let nodes = job.run().map_or(0, |run| run.parts.len());
        let (around, rows) = self.around(now, listing, nodes);
        let facts = LiveFacts {
            around,
            job,
            tasks,
            by_component: rows.needs().components,
        };
        rows.push(&facts, whole);
    }

    fn push_ended(&self, now: Time, listing: &mut Listing, row: &JobRow, submitted: &Submitted) {
        let whole = self.is_told_all(&listing.caller, submitted.uid);
        let nodes = row.run.as_ref().map_or(0, |run| run.parts.len());
        let (around, rows) = self.around(now, listing, nodes);
        let facts = EndedFacts {
            around: Some(around),
            row,
            submitted,
            by_component: rows.needs().components,
        };
        rows.push(&facts, whole);
    }

    /// What a row of a job on so many nodes needs, and the rows that it comes behind.
    fn around<'a>(
        &'a self,
        now: Time,
        listing: &'a mut Listing,
        nodes: usize,
    ) -> (Around<'a>, &'a mut JobRows) {
        listing.rows.worked(nodes / 4);
        let around = Around {
            controller: self,
            now,
            starts: listing
                .starts
                .as_ref()
                .unwrap_or_else(|| self.conversations.plans.last()),
            places: &listing.places,
        };
        (around, &mut listing.rows)
    }

    fn listed(&self, now: Time, listing: Listing) -> Reply {
        let full = listing.is_full() && !listing.entries.is_empty();
        let (at, rows) = (listing.at, listing.rows.len());
        let table = listing.rows.done();
        match listing.answering {
            Answering::List { pages: true, .. } => Reply::Jobs(table.going_on(at.filter(|_| full))),
            Answering::List { pages: false, .. } if full => Reply::Refused(too_long(rows)),
            Answering::List { pages: false, .. } => Reply::Jobs(table),
            Answering::Job(_) if full => Reply::Refused(too_long(rows)),
            Answering::Job(job) if rows == 0 => Reply::Refused(no_job(job)),
            Answering::Job(job) => {
                let first = self.first_of(job);
                let first = first.filter(|j| self.is_told_all(&listing.caller, j.submitted.uid));
                let none = Starts::new();
                let starts = listing.starts.as_ref().unwrap_or(&none);
                let lines = first.map_or_else(Vec::new, |job| {
                    let place = listing.places.get(&job.id).copied();
                    self.lines(now, job, (starts, place))
                });
                Reply::Explained { table, lines }
            }
        }
    }
}
