//! Accounts, users and qualities of service are asked for and changed.

use crate::config::Visibility;
use crate::event::Caller;
use crate::jobs::limits::procedures::counted_now;
use crate::policy::books::follow;
use crate::policy::limits::party::Meter;
use crate::policy::rights::{Author, Used};
use crate::policy::show;
use crate::procedures::limits::policy_changed;
use crate::queues::access::procedures::{is_administrator, may_enter};
use crate::queues::scores::layout::Layout;
use crate::queues::scores::procedures::{charge_anew, rate_of};
use crate::reservations::account::account_control;
use crate::rooms::Rooms;
use crate::turn::Turn;
use cosy_model::api::Reply;
use cosy_model::policy::{AdminLevel, MoreUse, PolicyAnswer, PolicyChange, PolicyQuery};
use cosy_model::reservation::AccountAction;
use cosy_model::{QueueId, QueueOrder, QueueSpec, Refusal, RefusalCode, Span, Time};
use cosy_policy::billing::Held;

pub(crate) fn policy_query(
    rooms: &mut Rooms,
    now: Time,
    caller: &Caller,
    query: &PolicyQuery,
) -> Result<Reply, Refusal> {
    if matches!(query, PolicyQuery::Standing { .. } | PolicyQuery::Associations { usage: true, .. })
    {
        rooms.queues.scores_mut().asked(now);
    }
    let rooms = &*rooms;
    let author = author(rooms, caller);
    if let PolicyQuery::Standing { user, more } = query {
        return standing(rooms, now, caller, user.as_deref(), more.as_ref());
    }
    let mut answer = show::answer(&rooms.config, &rooms.policy, author, query)?;
    if let (
        PolicyAnswer::Associations { rows, .. },
        PolicyQuery::Associations { usage: true, .. },
    ) = (&mut answer, query)
    {
        let shares = rooms.queues.scores().shares();
        for row in rows {
            let known = shares.told(&row.key, now);
            let mut told = known.clone().unwrap_or_default();
            let counted = counted_now(rooms, Meter::Association(row.id), now, &mut told);
            row.usage = known.map(|_| told.clone()).or(counted.then_some(told));
        }
    }
    if let (PolicyAnswer::Qos(rows), PolicyQuery::Qos { usage: true, .. }) = (&mut answer, query) {
        let shares = rooms.queues.scores().shares();
        for row in rows {
            let mut told = shares.qos_told(&row.record.name, now);
            counted_now(rooms, Meter::Qos(row.record.id), now, &mut told);
            row.usage = Some(told);
        }
    }
    Ok(Reply::Policy(answer))
}

/// Where a user stands: the asking one, or any for who may see everything. Names of other users are told
/// where the cluster tells whose jobs there are.
fn standing(
    rooms: &Rooms,
    now: Time,
    caller: &Caller,
    user: Option<&str>,
    more: Option<&MoreUse>,
) -> Result<Reply, Refusal> {
    let own = &caller.user.name;
    let user = user.unwrap_or(own);
    let all = rooms.policy.level(author(rooms, caller)) != AdminLevel::None;
    if user != own && !all {
        return Err(Refusal::new(
            RefusalCode::AccessDenied,
            format!("where {user} stands is told to {user} and to administrators"),
        ));
    }
    let scores = rooms.queues.scores();
    if !scores.orders() {
        return Err(Refusal::invalid(
            "no queue orders jobs by use: within a level they go first come, first served",
        ));
    }
    let names = all || rooms.config.policy.visibility != Visibility::Own;
    let more = more.map(|more| worth_of(rooms, caller, more)).transpose()?;
    Ok(Reply::Policy(PolicyAnswer::Standing(scores.standing_of(user, names, more, now))))
}

/// What one more job uses, in thousandths of billing units times milliseconds.
fn worth_of(rooms: &Rooms, caller: &Caller, more: &MoreUse) -> Result<u128, Refusal> {
    if more.cores == 0 || more.length <= Span::ZERO || more.length.is_unlimited() {
        return Err(Refusal::invalid(
            "one more job uses something where it has cores and a time: 64x24:00:00",
        ));
    }
    let queue = queue_of(rooms, caller, more.queue.as_deref())?;
    let held = Held {
        cores: more.cores.into(),
        ..Held::default()
    };
    let rate = rate_of(&rooms.config, rooms.queues.name(queue), &held);
    let length = u128::try_from(more.length.0).unwrap_or(0);
    Ok(u128::from(rate).saturating_mul(length))
}

/// The queue by which one more job is billed: that named, the default one, else the only one that orders by
/// use and that the asking user may enter.
fn queue_of(rooms: &Rooms, caller: &Caller, name: Option<&str>) -> Result<QueueId, Refusal> {
    if name.is_some() || rooms.config.default_queue.is_some() {
        return rooms.queues.find_queue(&rooms.config, name);
    }
    let specs = rooms.queues.all().iter().map(|queue| queue.spec());
    let scored = specs.filter(|spec| spec.order != QueueOrder::Fcfs);
    let may_enter = |spec: &&QueueSpec| may_enter(&rooms.config, caller, spec).is_ok();
    let own: Vec<&str> = scored.filter(may_enter).map(|spec| &*spec.name).collect();
    match own[..] {
        [only] => rooms.queues.find_queue(&rooms.config, Some(only)),
        [] => Err(Refusal::invalid(
            "no queue that you may use orders jobs by use: name another one with --queue",
        )),
        _ => Err(Refusal::invalid(format!(
            "what one more job uses is billed by its queue, and there is no default queue: choose one with --queue ({})",
            own.join(", ")
        ))),
    }
}

pub(crate) fn change_policy(
    rooms: &mut Rooms,
    turn: &mut Turn,
    caller: &Caller,
    changes: &[PolicyChange],
    dry_run: bool,
) -> Result<Reply, Refusal> {
    let now = turn.now();
    let who = caller.user.name.clone();
    let author = author(rooms, caller);
    let used = match changes.iter().any(takes_away) {
        true => used_by_jobs(rooms),
        false => Used::new(),
    };
    let draft = rooms.policy.draft(&rooms.config, author, changes, &used);
    let (draft, effect) = draft?;
    let books = rooms.reservations.books().clone();
    let followed = follow(&mut rooms.reservations, now, &who, &effect);
    match followed {
        Ok(records) if !dry_run => {
            let (rows, said) = draft.done();
            let changed = rows.len() as u64;
            records
                .into_iter()
                .chain(rows)
                .for_each(|record| turn.record(record));
            for said in said {
                turn.happened(now, said.kind, &who, said.object, said.detail);
            }
            let changed = changed + forget_usage(rooms, now, changes);
            if effect.touched.layout {
                tell_policy_to_others(rooms);
            }
            rooms.planning.room_mut().ask_all_anew();
            if rooms.config.enforce.binds() {
                rooms.jobs.reviews_mut().policy_changed();
            }
            policy_changed(rooms, turn, &effect.touched);
            Ok(done(changed))
        }
        other => {
            draft.undone();
            *rooms.reservations.books_mut() = books;
            other.map(|_| done(0))
        }
    }
}

/// Forgets what was used where changes say so; tells how many do.
fn forget_usage(rooms: &mut Rooms, now: Time, changes: &[PolicyChange]) -> u64 {
    let scores = rooms.queues.scores_mut();
    let mut resets = 0;
    for change in changes {
        if let PolicyChange::ResetUsage { association, qos } = change {
            resets += 1;
            if let Some(key) = association {
                scores.shares_mut().reset(key, now);
            }
            if let Some(name) = qos {
                scores.shares_mut().reset_qos(name, now);
            }
        }
    }
    if resets > 0 {
        scores.give_ranks(now); // who asks next is told what it is now
    }
    resets
}

fn author<'a>(rooms: &Rooms, caller: &'a Caller) -> Author<'a> {
    Author {
        name: &caller.user.name,
        admin: is_administrator(&rooms.config, caller),
    }
}

const fn done(changed: u64) -> Reply {
    Reply::Done {
        changed,
        refused: Vec::new(),
    }
}

const fn takes_away(change: &PolicyChange) -> bool {
    matches!(
        change,
        PolicyChange::RemoveAccount { .. }
            | PolicyChange::RemoveAssociation { .. }
            | PolicyChange::RemoveUser { .. }
    )
}

/// Associations that jobs which wait or run are in.
fn used_by_jobs(rooms: &Rooms) -> Used {
    let mut used = Used::new();
    for job in rooms.jobs.all() {
        let submitted = job.submitted();
        let account = job.spec().account.as_deref();
        let Some(account) = account.filter(|account| rooms.policy.account(account).is_some())
        else {
            continue;
        };
        let policy = &rooms.policy;
        let key = policy.key_for(account, &submitted.user, &submitted.queue);
        used.entry(key).or_default().add(job.id());
    }
    used
}

/// The tree has every account of the books, and the books know who is in which account.
pub(crate) fn books_are_in_the_tree(rooms: &mut Rooms, turn: &mut Turn) {
    let names = rooms.reservations.books().names().cloned();
    let names: Vec<String> = names.collect();
    rooms.policy.take_up(turn, names.into_iter());
    tell_policy_to_others(rooms);
    rooms.planning.room_mut().ask_all_anew();
}

/// The books know who is in which account, and queues in which shares use is compared.
fn tell_policy_to_others(rooms: &mut Rooms) {
    let users = rooms.policy.users_by_account();
    rooms.reservations.books_mut().associate(users);
    let mut layout = Layout::default();
    rooms.policy.lay_out(&mut layout);
    rooms.queues.scores_mut().laid_out(layout);
    charge_anew(&rooms.config, &rooms.machine, &mut rooms.queues, &rooms.jobs);
}

/// Makes, funds, changes or removes an account in the books; the tree follows.
pub(crate) fn fund_account(
    rooms: &mut Rooms,
    turn: &mut Turn,
    caller: &Caller,
    name: &str,
    action: &AccountAction,
) -> Result<Reply, Refusal> {
    let removes = *action == AccountAction::Remove && rooms.reservations.books().has(name);
    if removes {
        let change = PolicyChange::RemoveAccount {
            name: name.to_owned(),
        };
        return change_policy(rooms, turn, caller, &[change], false);
    }
    let (config, reservations) = (&rooms.config, &mut rooms.reservations);
    let reply = account_control(config, reservations, turn, caller, name, action)?;
    books_are_in_the_tree(rooms, turn);
    Ok(reply)
}
