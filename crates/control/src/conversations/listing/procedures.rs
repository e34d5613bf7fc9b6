//! Lists are begun, gone on with piece by piece, and answered.

use crate::config::{ClusterConfig, Visibility};
use crate::conversations::choosing::Sieve;
use crate::conversations::choosing::procedures::sieve;
use crate::conversations::explain::{lines, planner_reason};
use crate::conversations::job_facts::{Around, EndedFacts, LiveFacts};
use crate::conversations::listing::{
    Answering, Entry, Fold, FoldedTask, Ids, List, ListRequest, Listing, PIECE_JOBS, PIECE_WORK,
    PLACED_ALONE, Stage, too_long,
};
use crate::conversations::plans::Starts;
use crate::conversations::replies::reply_to;
use crate::conversations::requests::no_job;
use crate::conversations::visible::{is_told_all, may_find, may_see};
use crate::conversations::waits::procedures::go_on_waiting;
use crate::event::Caller;
use crate::jobs::Jobs;
use crate::jobs::arrays::Names;
use crate::jobs::components::{component_of, rows_by_component};
use crate::jobs::ended::Ended;
use crate::jobs::job::{Job, Submitted};
use crate::jobs::limits::procedures::sentence;
use crate::jobs::limits::{ageing, guarantee};
use crate::machine::nodes::procedures::list_nodes_piece;
use crate::planning::Planning;
use crate::planning::making_room::room_lines;
use crate::queues::access::procedures::is_administrator;
use crate::queues::demand::procedures::least_nodes;
use crate::record::JobRow;
use crate::reservations::show::procedures::list_reservations_piece;
use crate::rooms::Rooms;
use crate::turn::Turn;
use crate::workflows::show::procedures::list_flows_piece;
use cosy_model::api::{Cursor, Reply};
use cosy_model::{JobId, Time};
use cosy_view::job::visible::asks_private;
use cosy_view::list::JobRows;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;

/// A piece more; the answer with the last, else the list goes behind all others.
pub(crate) fn go_on_listing(rooms: &mut Rooms, turn: &mut Turn, mut list: List) -> Option<Reply> {
    let now = turn.now();
    let done = match &mut list {
        List::Jobs(list) => list_piece(rooms, turn, list),
        List::Flows(list) => list_flows_piece(
            &rooms.machine,
            &rooms.jobs,
            &rooms.reservations,
            &rooms.workflows,
            turn,
            list,
        ),
        List::Reservations(list) => {
            list_reservations_piece(&rooms.config, &rooms.machine, &rooms.reservations, turn, list)
        }
        List::Nodes(list) => list_nodes_piece(
            &rooms.config,
            &rooms.machine,
            &rooms.queues,
            &rooms.planning,
            turn,
            list,
        ),
        List::Wait(client) => {
            return go_on_waiting(
                &rooms.config,
                &rooms.jobs,
                &mut rooms.conversations,
                turn,
                *client,
            );
        }
    };
    match list {
        List::Jobs(list) if done => Some(listed(rooms, now, *list)),
        List::Flows(list) if done => Some(list.answer()),
        List::Reservations(list) if done => Some(list.answer()),
        List::Nodes(list) if done => Some(list.answer()),
        List::Jobs(_) | List::Flows(_) | List::Reservations(_) | List::Nodes(_) | List::Wait(_) => {
            rooms.conversations.lists.line.push_back(list);
            None
        }
    }
}

/// One piece of the list whose turn it is, unless this turn has had one.
pub(crate) fn list_next(rooms: &mut Rooms, turn: &mut Turn) {
    if std::mem::take(&mut rooms.conversations.lists.made_piece) {
        return;
    }
    let Some(list) = rooms.conversations.lists.line.pop_front() else {
        return;
    };
    let client = list.client();
    if let Some(reply) = go_on_listing(rooms, turn, list) {
        reply_to(turn, client, reply);
    }
}

pub(crate) fn listing(mut asked: ListRequest, now: Time) -> Listing {
    let refs = std::mem::take(&mut asked.filter.ids);
    let rows = JobRows::new(&asked.fields);
    let by_pages = matches!(asked.answering, Answering::List { pages: true, .. });
    Listing {
        client: asked.client,
        caller: asked.caller,
        begun: now,
        named: (!refs.is_empty()).then(|| Ids {
            names: Names::of(refs.into()),
            ..Ids::default()
        }),
        private: asks_private(&asked.filter),
        most_rows: asked.filter.most.filter(|_| by_pages),
        filter: asked.filter,
        fold: asked.fold,
        starts: asked.starts,
        order: BTreeSet::new(),
        places: BTreeMap::new(),
        answering: asked.answering,
        stage: Stage::Naming,
        live: Vec::new(),
        folds: BTreeMap::new(),
        ended: Vec::new(),
        just_ended: BTreeSet::new(),
        entries: VecDeque::new(),
        rows,
        at: None,
    }
}

/// One piece; true when it was the last.
fn list_piece(rooms: &mut Rooms, turn: &mut Turn, listing: &mut Listing) -> bool {
    let now = turn.now();
    let named = |l: &Listing| l.named.as_ref().map_or(0, |named| named.ids.len());
    let (before, mut left) = (listing.rows.len() + named(listing), PIECE_JOBS);
    let done = list_some(rooms, now, listing, &mut left);
    let more = listing.rows.len() + named(listing) - before;
    turn.looked((PIECE_JOBS - left + more) as u64);
    done
}

fn list_some(rooms: &mut Rooms, now: Time, listing: &mut Listing, left: &mut usize) -> bool {
    let filter = std::mem::take(&mut listing.filter);
    let sieve = &sieve(&rooms.machine, &filter);
    let mut done = false;
    while *left > 0 {
        match listing.stage {
            Stage::Placing(after) => {
                look_at_order(&rooms.jobs, &rooms.planning, listing, after, left)
            }
            Stage::Ranking(place) => listing.rank(place, left),
            Stage::Naming => look_up(&rooms.jobs, &rooms.planning, listing, left),
            Stage::Live(at, after) => {
                look_at_live(&rooms.config, &rooms.jobs, listing, sieve, (at, after), left)
            }
            Stage::Ended(at, after) => {
                look_at_ended(&rooms.config, &rooms.jobs, listing, sieve, (at, after), left);
            }
            Stage::Rows => {
                done = make_rows(rooms, now, listing, sieve);
                break;
            }
        }
    }
    listing.filter = filter;
    done
}

fn look_at_order(
    jobs: &Jobs,
    planning: &Planning,
    listing: &mut Listing,
    after: JobId,
    left: &mut usize,
) {
    let range = (Bound::Excluded(after), Bound::Unbounded);
    let mut piece = jobs.range(range).take(*left).peekable();
    if piece.peek().is_none() {
        listing.stage = Stage::Ranking(1);
        return;
    }
    let mut last = after;
    for (id, job) in piece {
        let key = job.is_waiting().then(|| planning.cluster().order_of(*id));
        listing.order.extend(key.flatten());
        last = *id;
    }
    listing.stage = Stage::Placing(last);
    *left = 0;
}

/// Each job once, however often it is named. The id of a component stands for its job.
fn look_up(jobs: &Jobs, planning: &Planning, listing: &mut Listing, left: &mut usize) {
    let Some(named) = &mut listing.named else {
        listing.stage = after_names(planning, listing);
        return;
    };
    while *left > 0 {
        let Some(mut expanding) = named.names.next(left) else {
            if named.names.are_over() {
                listing.stage = after_names(planning, listing);
            }
            return;
        };
        let (mut ids, over) = jobs.some_of(&mut expanding, *left);
        *left = left.saturating_sub(ids.len());
        ids.retain(|id| jobs.contains_key(id) || jobs.has_ended(*id));
        expanding.known |= !ids.is_empty();
        if over && !expanding.known {
            ids.extend(jobs.whole_of(expanding.target.job));
        }
        if !over {
            named.names.goes_on(expanding);
        }
        let new = ids.into_iter().filter(|id| named.seen.insert(*id));
        named.ids.extend(new);
    }
}

/// What follows when it is known which jobs are named. Few of them are given their places at once.
fn after_names(planning: &Planning, listing: &mut Listing) -> Stage {
    if !listing.rows.needs().places {
        return Stage::Live(0, JobId(0));
    }
    let named = listing.named.as_ref();
    let Some(named) = named.filter(|named| named.ids.len() <= PLACED_ALONE) else {
        return Stage::Placing(JobId(0));
    };
    let cluster = planning.cluster();
    for id in named.ids.iter().filter(|id| cluster.is_waiting(**id)) {
        let Some(before) = cluster.served_before(*id) else {
            return Stage::Placing(JobId(0));
        };
        let place = i64::try_from(before).unwrap_or(i64::MAX).saturating_add(1);
        listing.places.insert(*id, place);
    }
    Stage::Live(0, JobId(0))
}

fn look_at_live(
    config: &ClusterConfig,
    jobs: &Jobs,
    listing: &mut Listing,
    sieve: &Sieve<'_>,
    (at, after): (usize, JobId),
    left: &mut usize,
) {
    let over = match &listing.named {
        Some(named) => {
            let piece = named.ids.iter().skip(at).take(*left);
            let jobs: Vec<&Job> = piece.filter_map(|id| jobs.get(id)).collect();
            let next = at + *left;
            let over = next >= named.ids.len();
            jobs.into_iter()
                .for_each(|job| look_at(config, listing, sieve, job));
            listing.stage = Stage::Live(next, after);
            *left = 0;
            over
        }
        None => {
            let range = (Bound::Excluded(after), Bound::Unbounded);
            let mut last = after;
            let before = *left;
            for (id, job) in jobs.range(range).take(before) {
                look_at(config, listing, sieve, job);
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

fn look_at(config: &ClusterConfig, listing: &mut Listing, sieve: &Sieve<'_>, job: &Job) {
    let (caller, private) = (&listing.caller, listing.private);
    if job.member().is_none() && listing.was_told(job.id()) {
        return;
    }
    if !sieve.passes(job) || !may_find(config, caller, private, job.submitted()) {
        return;
    }
    let rank = job.rank();
    // What has run before is no longer like the others.
    let alike = job.is_waiting() && !job.own() && job.attempt().0 == 0;
    let folds = listing.fold && alike;
    match job.member().filter(|_| folds) {
        Some(member) => {
            let submitted = &job.submitted();
            let key = (submitted.base, submitted.body, job.held().is_some());
            let fold = listing.folds.entry(key).or_insert_with(|| Fold {
                rank,
                base: submitted.base,
                tasks: Vec::new(),
            });
            fold.rank = fold.rank.min(rank);
            fold.tasks.push(FoldedTask {
                index: member.index,
                at: member.at,
                id: job.id(),
            });
        }
        None => listing.live.push((rank, job.id())),
    }
}

fn look_at_ended(
    config: &ClusterConfig,
    jobs: &Jobs,
    listing: &mut Listing,
    sieve: &Sieve<'_>,
    (at, after): (usize, JobId),
    left: &mut usize,
) {
    let over = match &listing.named {
        Some(named) => {
            let caller = &listing.caller;
            let wanted =
                |e: &&Ended| may_see(config, caller, &e.submitted) && sieve.passes_state(e.state);
            let piece = named.ids.iter().skip(at).take(*left);
            let ended = piece.filter_map(|id| jobs.ended(*id)).filter(wanted);
            let ended: Vec<(JobId, Time)> = ended.map(|e| (e.row.id, e.at)).collect();
            let next = at + *left;
            let over = next >= named.ids.len();
            for (id, at) in ended {
                listing.found_ended(id, at);
            }
            listing.stage = Stage::Ended(next, after);
            *left = 0;
            over
        }
        None => {
            let range = (Bound::Excluded(after), Bound::Unbounded);
            let mut last = after;
            let before = *left;
            for (id, ended) in jobs.ended_between(range).take(before) {
                if lists_ended(config, listing, sieve, ended) {
                    listing.found_ended(id, ended.at);
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

fn lists_ended(
    config: &ClusterConfig,
    listing: &Listing,
    sieve: &Sieve<'_>,
    ended: &Ended,
) -> bool {
    sieve.passes_state(ended.state)
        && !sieve.names_nodes()
        && sieve.passes_submitted(&ended.submitted)
        && may_find(config, &listing.caller, listing.private, &ended.submitted)
}

/// Rows until the work of a piece is done; true when there are no more to make.
fn make_rows(rooms: &mut Rooms, now: Time, listing: &mut Listing, sieve: &Sieve<'_>) -> bool {
    let until = listing.rows.work() + PIECE_WORK;
    while listing.rows.work() < until && !listing.is_full() {
        let Some(entry) = listing.entries.pop_front() else {
            return true;
        };
        listing.at = Some(match &entry {
            Entry::Live { rank, .. } | Entry::Fold(Fold { rank, .. }) => Cursor {
                part: 0,
                at: rank.0,
            },
            Entry::Ended(id) => Cursor { part: 1, at: id.0 },
        });
        if let Entry::Live { id, .. } = &entry
            && listing.rows.needs().reasons
        {
            rooms.planning.cluster_mut().know_whether_it_fits(*id);
        }
        make_row(rooms, now, listing, sieve, entry);
    }
    listing.is_full() || listing.entries.is_empty()
}

fn make_row(rooms: &Rooms, now: Time, listing: &mut Listing, sieve: &Sieve<'_>, entry: Entry) {
    let by_component = listing.rows.needs().components;
    match entry {
        Entry::Ended(id) => row_of_ended(rooms, now, listing, sieve, id),
        Entry::Live { id, .. } => match rooms.jobs.get(&id) {
            Some(job) if by_component && job.spec().has_several_components() => {
                for component in &jobs_by_component(rooms, now, job) {
                    push_live(rooms, now, listing, component, None);
                }
            }
            Some(job) => push_live(rooms, now, listing, job, None),
            None => row_of_ended(rooms, now, listing, sieve, id),
        },
        Entry::Fold(mut fold) => {
            listing.rows.worked(fold.tasks.len() / 16);
            // Those that started while the list was made are still told as they were.
            let waiting = |task: &FoldedTask| rooms.jobs.get(&task.id).filter(|j| j.is_waiting());
            fold.tasks.sort();
            let Some(job) = fold.tasks.iter().find_map(waiting) else {
                return listing.unfold(fold);
            };
            let indices: Vec<u32> = fold.tasks.iter().map(|task| task.index).collect();
            push_live(rooms, now, listing, job, Some(&indices));
        }
    }
}

/// One that ended moments ago, or while the list was made.
fn row_of_ended(rooms: &Rooms, now: Time, listing: &mut Listing, sieve: &Sieve<'_>, id: JobId) {
    let Some(ended) = rooms.jobs.ended(id) else {
        return;
    };
    if !sieve.passes_state(ended.state) {
        return;
    }
    if listing.rows.needs().components && ended.submitted.spec.has_several_components() {
        for (row, submitted) in &rows_by_component(&ended.row, &ended.submitted) {
            push_ended(rooms, now, listing, row, submitted);
        }
    } else {
        push_ended(rooms, now, listing, &ended.row, &ended.submitted);
    }
}

fn push_live(rooms: &Rooms, now: Time, listing: &mut Listing, job: &Job, tasks: Option<&[u32]>) {
    let whole = is_told_all(&rooms.config, &listing.caller, job.submitted().uid);
    let nodes = job.run().map_or(0, |run| run.parts().len());
    let (around, rows) = around(rooms, now, listing, nodes);
    let facts = LiveFacts {
        around,
        job,
        tasks,
        by_component: rows.needs().components,
    };
    rows.push(&facts, whole);
}

fn push_ended(
    rooms: &Rooms,
    now: Time,
    listing: &mut Listing,
    row: &JobRow,
    submitted: &Submitted,
) {
    let whole = is_told_all(&rooms.config, &listing.caller, submitted.uid);
    let nodes = row.run.as_ref().map_or(0, |run| run.parts.len());
    let (around, rows) = around(rooms, now, listing, nodes);
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
    rooms: &'a Rooms,
    now: Time,
    listing: &'a mut Listing,
    nodes: usize,
) -> (Around<'a>, &'a mut JobRows) {
    listing.rows.worked(nodes / 4);
    let around = Around {
        rooms,
        now,
        starts: listing
            .starts
            .as_ref()
            .unwrap_or_else(|| rooms.conversations.plans.last()),
        places: &listing.places,
    };
    (around, &mut listing.rows)
}

fn listed(rooms: &Rooms, now: Time, listing: Listing) -> Reply {
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
            let first = rooms.jobs.first_of(job);
            let first =
                first.filter(|j| is_told_all(&rooms.config, &listing.caller, j.submitted().uid));
            let none = Starts::new();
            let starts = listing.starts.as_ref().unwrap_or(&none);
            let lines = first.map_or_else(Vec::new, |job| {
                let place = listing.places.get(&job.id()).copied();
                let limit = sentence(rooms, now, job);
                let mut all = lines(
                    &rooms.config,
                    &rooms.machine,
                    &rooms.planning,
                    &rooms.reservations,
                    now,
                    job,
                    (starts, place, limit.as_deref()),
                );
                all.extend(prediction_line(rooms, now, job, starts));
                all.extend(guarantee::line(rooms, job));
                all.extend(ageing::line(rooms, job.id()));
                all.extend(room_lines(rooms, now, job));
                all.extend(standing_lines(rooms, now, &listing.caller, job));
                all
            });
            Reply::Explained { table, lines }
        }
    }
}

/// A job of several components as one job for each.
pub(crate) fn jobs_by_component(rooms: &Rooms, now: Time, job: &Job) -> Vec<Job> {
    let of_component = |number: u16| {
        let submitted = component_of(job.submitted(), number, |spec| {
            let queue = rooms
                .queues
                .find_queue(&rooms.config, spec.queue.as_deref())
                .ok();
            queue
                .map_or(1, |queue| least_nodes(&rooms.machine, &rooms.queues, &spec.request, queue))
        });
        // The planner knows the whole job only.
        let reason =
            || planner_reason(&rooms.machine, &rooms.planning, &rooms.reservations, now, job);
        job.component(number, submitted, reason)
    };
    let numbers = 0..job.spec().component_count() as u16;
    numbers.map(of_component).collect()
}

/// How often starts came true that were told as long before as that of this job.
fn prediction_line(rooms: &Rooms, now: Time, job: &Job, starts: &Starts) -> Option<String> {
    let start = starts.get(&job.id())?.start.filter(|start| *start > now)?;
    let predictions = rooms.conversations.predictions();
    job.is_waiting()
        .then(|| predictions.line(now, &job.submitted().queue, start))?
}

/// Sentences about the place of a job whose queue orders by more than dates.
fn standing_lines(rooms: &Rooms, now: Time, caller: &Caller, job: &Job) -> Vec<String> {
    let Some(queue) = rooms.queues.id_of(&job.submitted().queue) else {
        return Vec::new();
    };
    let names = rooms.config.policy.visibility != Visibility::Own
        || is_administrator(&rooms.config, caller);
    let queue = rooms.queues.get(queue).spec();
    rooms.queues.scores().lines_of(queue, job, names, now)
}
