//! Which controller leads: what a standby says to commands, and how the leader hands over.

use super::frames::{ReadEnd, encode, encode_stale, read, send, understand};
use super::lock::lock;
use super::services::{Answering, Services};
use crate::end::End;
use crate::standby::Standby;
use crate::store::Store;
use cosy_control::{Caller, is_admin};
use cosy_model::api::{ControllerRole, Reply, Request};
use cosy_model::{Gid, Refusal, RefusalCode, Uid};
use cosy_proto::frame::Decoder;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::UnixStream;

/// Longest request that a standby reads, in bytes: it carries nothing out.
const REQUEST_BYTES: usize = 1 << 20;
/// A command that says nothing for so long is hung up on.
const SILENCE: Duration = Duration::from_secs(10);

/// Tells a command that this controller stands by, until it leads or the command has gone.
pub async fn talk(stream: UnixStream, mut answering: Answering, standby: Arc<Standby>) {
    let mut stream = stream;
    tokio::select! {
        () = answer(&mut stream, &standby) => {}
        _ = answering.wait_for(Option::is_some) => {}
    }
}

async fn answer(stream: &mut UnixStream, standby: &Standby) {
    let Ok(peer) = stream.peer_cred() else { return };
    let (uid, gid) = (Uid(peer.uid()), Gid(peer.gid()));
    let mut decoder = Decoder::new(REQUEST_BYTES);
    loop {
        let bytes = match decoder.next_body() {
            Ok(Some(body)) => match understand(&body) {
                Ok(frame) if matches!(frame.request, Request::Controllers) => {
                    encode(Reply::Controllers(standby.controllers()))
                }
                Ok(frame) if frame.stale_ok => match standby.answer(uid, gid, frame).await {
                    Ok((reply, age)) => encode_stale(reply, age),
                    Err(refusal) => encode(Reply::Refused(refusal)),
                },
                Ok(_) => encode(Reply::Refused(standby.refusal())),
                Err(refusal) => encode(Reply::Refused(refusal)),
            },
            Ok(None) => match read(stream, &mut decoder, Some(Instant::now() + SILENCE)).await {
                Ok(ReadEnd::Some) => continue,
                Ok(ReadEnd::Over) | Err(_) => return,
            },
            // Too long to be looked at here: the leader does.
            Err(_) => {
                let _ = send(stream, &encode(Reply::Refused(standby.refusal())), SILENCE).await;
                return;
            }
        };
        decoder.shrink();
        if send(stream, &bytes, SILENCE).await.is_err() {
            return;
        }
    }
}

impl Services {
    /// All controllers; none where there is one.
    pub(super) async fn controllers(&self, caller: &Caller) -> Reply {
        if self.epoch == 0 {
            return Reply::Controllers(Vec::new());
        }
        let query = |store: &Store| store.controllers();
        match self
            .read(&self.pools.facts, caller, "controllers", query)
            .await
        {
            Ok(rows) => Reply::Controllers(rows),
            Err(refusal) => Reply::Refused(refusal),
        }
    }

    /// The end of this lead begins, if somebody is there to take it.
    pub(super) async fn hand_over(&self, caller: &Caller, to: Option<String>) -> Reply {
        let refused = |code, text: String| Reply::Refused(Refusal::new(code, text));
        if !is_admin(&lock(&self.cluster), caller) {
            return refused(
                RefusalCode::Forbidden,
                "only administrators may hand the lead over".to_owned(),
            );
        }
        let rows = match self.controllers(caller).await {
            Reply::Controllers(rows) => rows,
            other => return other,
        };
        let heard = rows.iter().filter(|row| {
            let named = to.as_ref().is_none_or(|name| *name == row.name);
            named && row.role == ControllerRole::StandsBy && row.is_heard()
        });
        // It must be named: the former leader begins anew at once, and would come first.
        let next = heard.min_by_key(|row| row.silent_ms);
        let Some(next) = next.map(|row| row.name.clone()) else {
            let who = match to {
                None => "no other controller stands by".to_owned(),
                Some(name) => format!("controller {name} does not stand by"),
            };
            return refused(
                RefusalCode::WrongState,
                format!("{who}: start it first ('cadm ping' shows all)"),
            );
        };
        match self.end.send(End::HandOver(next)).await {
            Ok(()) => Reply::Controllers(rows),
            Err(_) => refused(RefusalCode::Unavailable, "the controller stops already".to_owned()),
        }
    }
}
