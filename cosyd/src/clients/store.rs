//! Questions that the store answers alone: what has ended, scripts, events, the ledger.

use super::lock::lock;
use super::services::Services;
use crate::budget::Requester;
use crate::ledger;
use crate::pool::Pool;
use crate::store::bookings::LedgerQuery;
use crate::store::steps::StepReading;
use crate::store::{Store, StoreError};
use crate::store_answers;
use cosy_control::{Caller, Eyes, is_admin};
use cosy_model::api::{JobFilter, JobRef, Reply, Request};
use cosy_model::{Refusal, RefusalCode, Time};
use std::time::Instant;

impl Services {
    /// Runs a query in the user's turn on a reading thread.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        pool: &Pool<Option<Store>>,
        caller: &Caller,
        kind: &'static str,
        query: impl FnOnce(&Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Refusal> {
        let who = Requester {
            uid: caller.user.uid,
            trusted: caller.via.is_none() && is_admin(&lock(&self.cluster), caller),
        };
        let (database, meter) = (self.database.clone(), self.meter.clone());
        let read = move |kept: &mut Option<Store>| {
            let begun = Instant::now();
            let store = match kept.take().filter(Store::still_answers) {
                Some(store) => store,
                None => Store::open_reader(&database)?,
            };
            let result = query(kept.insert(store));
            meter.read(kind, who.uid, begun.elapsed());
            result
        };
        pool.run(who, read).await?.map_err(|e: StoreError| {
            Refusal::new(RefusalCode::Unavailable, format!("the store cannot be read: {e}"))
        })
    }

    /// What is missing in the answer is said in `notices`.
    pub(super) async fn out_of_store(
        &self,
        caller: Caller,
        request: Request,
        notices: &mut Vec<String>,
    ) -> Reply {
        let admin = is_admin(&lock(&self.cluster), &caller);
        let uid = caller.user.uid;
        let only = (!admin).then_some(uid);
        if !admin && matches!(request, Request::Events { .. }) {
            return Reply::Refused(Refusal::new(
                RefusalCode::Forbidden,
                "only administrators may read the history of everyone",
            ));
        }
        let kind = request.kind();
        let (requester, cluster) = (caller.clone(), self.cluster.clone());
        let query = move |store: &Store, said: &mut Vec<String>| match request {
            Request::History { filter, fields } => {
                let eyes = Eyes::of(&lock(&cluster), &requester, &filter);
                store_answers::history(store, &filter, &fields, eyes, said)
            }
            Request::Script { job } => store_answers::script(store, job, only, said),
            Request::Steps { jobs, pages, after } => {
                let jobs = &jobs;
                let reading = StepReading {
                    jobs,
                    only,
                    pages,
                    after,
                };
                let (rows, more) = store.steps_everywhere(&reading, said)?;
                Ok(match (pages, more) {
                    (true, more) => Reply::StepsPage { rows, more },
                    (false, None) => Reply::Steps(rows),
                    (false, Some(_)) => Reply::Refused(Refusal::new(
                        RefusalCode::TooMany,
                        "these jobs have more steps than one answer holds: name fewer jobs, or use a command of this release, which asks for the rest",
                    )),
                })
            }
            Request::Events {
                after,
                most,
                latest,
            } => store.events(after, most, latest).map(Reply::Events),
            Request::Ledger {
                account,
                reservation,
                after,
                most,
            } => {
                let query = LedgerQuery {
                    account,
                    reservation,
                    after,
                    most,
                    reader: None,
                };
                let read = ledger::read(store, query, (!admin).then_some(&requester))?;
                Ok(read.unwrap_or_else(Reply::Refused))
            }
            _ => Ok(Reply::Refused(Refusal::invalid("this is not answered out of the store"))),
        };
        self.read_with_notices(&caller, kind, query, notices).await
    }

    async fn read_with_notices(
        &self,
        caller: &Caller,
        kind: &'static str,
        query: impl FnOnce(&Store, &mut Vec<String>) -> Result<Reply, StoreError> + Send + 'static,
        notices: &mut Vec<String>,
    ) -> Reply {
        let query = move |store: &Store| {
            let mut said = Vec::new();
            let reply = query(store, &mut said)?;
            Ok((reply, said))
        };
        match self.read(&self.pools.history, caller, kind, query).await {
            Ok((reply, said)) => {
                notices.extend(said);
                reply
            }
            Err(refusal) => Reply::Refused(refusal),
        }
    }

    /// Archives for a while, in the user's turn on a reading thread.
    pub(super) async fn archive(
        &self,
        caller: &Caller,
        before: Option<Time>,
        dry_run: bool,
    ) -> Reply {
        if !is_admin(&lock(&self.cluster), caller) {
            return Reply::Refused(Refusal::new(
                RefusalCode::Forbidden,
                "only administrators may archive jobs",
            ));
        }
        let who = Requester {
            uid: caller.user.uid,
            trusted: caller.via.is_none(),
        };
        let archiver = self.archiver.clone();
        let work = move |_: &mut Option<Store>| archiver.by_hand(before, dry_run);
        match self.pools.history.run(who, work).await {
            Ok(Ok(archived)) => Reply::Archived(archived),
            Ok(Err(refusal)) | Err(refusal) => Reply::Refused(refusal),
        }
    }

    /// A job that the controller no longer has in memory.
    pub(super) async fn explain_old(
        &self,
        caller: Caller,
        job: JobRef,
        notices: &mut Vec<String>,
    ) -> Reply {
        let eyes = Eyes::of(&lock(&self.cluster), &caller, &JobFilter::default());
        let query = move |store: &Store, said: &mut Vec<String>| {
            store_answers::explain(store, job, eyes, said)
        };
        self.read_with_notices(&caller, "explain", query, notices)
            .await
    }
}
