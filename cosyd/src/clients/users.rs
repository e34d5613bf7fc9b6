//! Who a uid is: looked up in the directory, and remembered for a while.

use super::lock::lock;
use super::services::Services;
use crate::budget::Requester;
use crate::directory;
use cosy_control::{Caller, LookupFailure, NamedRights, Via, may_name};
use cosy_model::api::Request;
use cosy_model::{Gid, Refusal, RefusalCode, Uid, User};
use cosy_proto::client::RequestFrame;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// A look-up is good for so long.
const USER_TTL: Duration = Duration::from_secs(60);

impl Services {
    /// Who a uid is. Look-ups run on a thread of their own; a directory that does not
    /// answer leaves the caller unresolved.
    pub async fn caller(&self, uid: Uid, gid: Gid, via: Option<Via>) -> Caller {
        let found = match known_user(&self.users, uid) {
            Some(user) => Ok(user),
            None => self.look_up(uid).await,
        };
        match found {
            Ok(user) => Caller {
                user,
                gid,
                resolved: true,
                via,
                as_user: false,
                given: Vec::new(),
            },
            Err(_) => Caller {
                user: User {
                    uid,
                    gid,
                    name: uid.to_string(),
                    ..User::default()
                },
                gid,
                resolved: false,
                via,
                as_user: false,
                given: Vec::new(),
            },
        }
    }

    /// Whom a request is for: the caller, or the user that the caller may name. Root on the nodes is
    /// nobody's to name.
    ///
    /// # Errors
    /// The caller may name nobody, or the directory does not know the user.
    pub async fn named(&self, caller: Caller, frame: &RequestFrame) -> Result<Caller, Refusal> {
        let Some(uid) = frame.for_user.filter(|uid| *uid != caller.user.uid) else {
            return Ok(caller);
        };
        let rights = may_name(&lock(&self.cluster), &caller)?;
        if uid == Uid(0) && matches!(frame.request, Request::Pass { .. }) {
            let text = "nobody gets a pass for root but root: use the commands on a node";
            return Err(Refusal::new(RefusalCode::Forbidden, text));
        }
        let named = self.caller(uid, caller.gid, None).await;
        if !named.resolved {
            let text = format!("the directory does not say who user {uid} is: try again later");
            return Err(Refusal::new(RefusalCode::Unavailable, text));
        }
        Ok(Caller {
            gid: named.user.gid,
            as_user: match rights {
                NamedRights::Whole => false,
                NamedRights::OfUsers => true,
            },
            ..named
        })
    }

    async fn look_up(&self, uid: Uid) -> Result<User, LookupFailure> {
        let command = self.lookup_command.clone();
        let users = self.users.clone();
        let work = move |(): &mut ()| {
            // Another request of the same user may have found out meanwhile.
            let known = known_user(&users, uid);
            known.map_or_else(
                || {
                    let user = directory::look_up(uid, command.as_deref())?;
                    lock(&users).insert(uid, (Instant::now(), user.clone()));
                    Ok(user)
                },
                Ok,
            )
        };
        let who = Requester {
            uid,
            trusted: uid == Uid(0),
        };
        let work = self.pools.directory.run(who, work);
        tokio::time::timeout(directory::PATIENCE, work)
            .await
            .map_err(|_| LookupFailure::Down)?
            .map_err(|_| LookupFailure::Down)?
    }
}

/// A user that was looked up lately.
fn known_user(users: &Mutex<BTreeMap<Uid, (Instant, User)>>, uid: Uid) -> Option<User> {
    let users = lock(users);
    let (at, user) = users.get(&uid)?;
    (at.elapsed() < USER_TTL).then(|| user.clone())
}
