//! Tickets: what the controller signs for each allocation, so that no node acts on
//! anybody else's word.
//!
//! The signed bytes are a MessagePack map of [`Claims`] followed by 64 bytes of
//! Ed25519 signature over a fixed prefix and that map.

use crate::frame;
use crate::keys::{KeyPair, PublicKey};
use cosy_model::node::{Allocation, AllocationKey};
use cosy_model::{Gid, OsText, Time, Uid};
use serde::{Deserialize, Serialize};

const PURPOSE: &[u8] = b"cosy allocation ticket 1\0";
const SEAL: &[u8] = b"cosy attempt seal 1\0";
const SIGNATURE: usize = 64;
const LIMIT: usize = 4 << 20;

/// What a ticket says of its allocation.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Claims {
    /// Job and attempt.
    pub key: AllocationKey,
    /// Owner of the job.
    pub uid: Uid,
    /// Primary group of the owner.
    pub gid: Gid,
    /// All groups of the owner.
    pub groups: Vec<Gid>,
    /// Nodes, as a host list.
    pub nodes: String,
    /// No node acts on it afterwards.
    pub expiry: Time,
    /// The key of the host that it was given to, in hexadecimal: other nodes take it only
    /// over a connection of that key, so that a ticket is of no use to whoever else gets
    /// hold of it. Empty in one of an earlier release.
    #[serde(default)]
    pub holder: String,
    /// The same for all nodes of the attempt, and known to nobody else ([`seal`]). Empty
    /// in one for a passage and in those of an earlier release.
    #[serde(default)]
    pub seal: OsText,
    /// The leadership of the cluster that has signed it ([`crate::link::HelloReply::Welcome`]);
    /// 0 where the cluster has one controller, and of an earlier release.
    #[serde(default, skip_serializing_if = "crate::link::is_zero")]
    pub epoch: u64,
}

/// Why a ticket is not good.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum TicketError {
    /// Not signed by the pinned controller.
    #[error("the allocation's ticket is not signed by this cluster's controller")]
    Forged,
    /// The ticket was good until a time that is over.
    #[error("the allocation's ticket has expired")]
    Expired,
    /// Somebody else shows it than the host that it was given to.
    #[error("the allocation's ticket was given to another host")]
    Stolen,
    /// The ticket is for another allocation.
    #[error("the allocation's ticket is for another {0}")]
    Mismatch(&'static str),
    /// Signed by a controller that leads no more.
    #[error("the allocation's ticket is of a deposed controller (epoch {epoch}, known is {known})")]
    Deposed {
        /// The epoch in the ticket.
        epoch: u64,
        /// The highest one that is known.
        known: u64,
    },
}

/// The claims in text with the controller's signature.
pub fn sign(claims: &Claims, key: &KeyPair) -> OsText {
    let frame = frame::encode(claims, LIMIT).expect("claims are far below the limit");
    let body = &frame[frame::HEADER..];
    let signature = key.sign(&[PURPOSE, body].concat());
    OsText([body, &signature].concat())
}

/// The claims of a ticket that this controller signed and that has not expired.
///
/// # Errors
/// [`TicketError::Forged`], [`TicketError::Expired`].
pub fn verify(ticket: &OsText, controller: &PublicKey, now: Time) -> Result<Claims, TicketError> {
    let claims = verify_signature(ticket, controller)?;
    if claims.expiry < now {
        return Err(TicketError::Expired);
    }
    Ok(claims)
}

/// The claims of a ticket that this controller signed, however old it is.
///
/// # Errors
/// [`TicketError::Forged`].
pub fn verify_signature(ticket: &OsText, controller: &PublicKey) -> Result<Claims, TicketError> {
    let at = ticket
        .0
        .len()
        .checked_sub(SIGNATURE)
        .ok_or(TicketError::Forged)?;
    let (body, signature) = ticket.0.split_at(at);
    if !controller.verifies(&[PURPOSE, body].concat(), signature) {
        return Err(TicketError::Forged);
    }
    frame::decode(body).map_err(|_| TicketError::Forged)
}

/// A secret that all nodes of an attempt have in common, 32 bytes: only the controller can
/// make it, and it makes the same one each time.
pub fn seal(attempt: AllocationKey, key: &KeyPair) -> OsText {
    let text = format!("{}.{}", attempt.number(), attempt.attempt());
    let signature = key.sign(&[SEAL, text.as_bytes()].concat());
    OsText(crate::keys::sha256(&signature).to_vec())
}

/// What all nodes of an attempt, and nobody else, know of it, out of a ticket that was
/// looked at before.
pub fn common_secret(ticket: &OsText) -> Vec<u8> {
    let at = ticket.0.len().saturating_sub(SIGNATURE);
    match frame::decode::<Claims>(&ticket.0[..at]) {
        Ok(claims) if !claims.seal.0.is_empty() => claims.seal.0,
        // Of an earlier release: then all nodes have the same ticket.
        Ok(_) | Err(_) => ticket.0.clone(),
    }
}

impl Claims {
    /// Checks that the host with this key may show the ticket.
    ///
    /// # Errors
    /// [`TicketError::Stolen`].
    pub fn shown_by(&self, key: &PublicKey) -> Result<(), TicketError> {
        match self.holder.is_empty() || self.holder == key.to_string() {
            true => Ok(()),
            false => Err(TicketError::Stolen),
        }
    }

    /// Checks that no later leadership is known than the one that has signed it. Only for an
    /// allocation that is new here: jobs outlive takeovers, and so do their tickets.
    ///
    /// # Errors
    /// [`TicketError::Deposed`].
    pub const fn not_before(&self, known: u64) -> Result<(), TicketError> {
        let epoch = self.epoch;
        match epoch == 0 || epoch >= known {
            true => Ok(()),
            false => Err(TicketError::Deposed { epoch, known }),
        }
    }
}

/// Checks that an allocation is what its ticket says, on the node that it names; gives what the
/// ticket says.
///
/// # Errors
/// As [`verify`], and [`TicketError::Mismatch`].
pub fn check(
    allocation: &Allocation,
    controller: &PublicKey,
    now: Time,
) -> Result<Claims, TicketError> {
    let claims = verify(&allocation.ticket, controller, now)?;
    let named =
        cosy_model::expand(&claims.nodes).is_ok_and(|names| names.contains(&allocation.node));
    let checks = [
        ("job", claims.key == allocation.key),
        ("user", claims.uid == allocation.uid && claims.gid == allocation.gid),
        ("list of groups", claims.groups == allocation.groups),
        ("node", named && claims.nodes == allocation.nodes),
    ];
    match checks.into_iter().find(|(_, good)| !good) {
        Some((what, _)) => Err(TicketError::Mismatch(what)),
        None => Ok(claims),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::Attempt;

    #[test]
    fn only_what_was_signed_is_good() {
        let key = KeyPair::generate().unwrap();
        let claims = Claims {
            key: AllocationKey::numbered(7, Attempt(1)),
            uid: Uid(1000),
            gid: Gid(100),
            groups: vec![Gid(100), Gid(4)],
            nodes: "n[1-2]".into(),
            expiry: Time(500),
            holder: String::new(),
            seal: OsText::default(),
            epoch: 3,
        };
        let ticket = sign(&claims, &key);
        assert_eq!(verify(&ticket, &key.public(), Time(499)).unwrap(), claims);
        assert_eq!(verify(&ticket, &key.public(), Time(501)), Err(TicketError::Expired));
        let other = KeyPair::generate().unwrap().public();
        assert_eq!(verify(&ticket, &other, Time(0)), Err(TicketError::Forged));
        for at in 0..ticket.0.len() {
            let mut bytes = ticket.0.clone();
            bytes[at] ^= 1;
            assert_eq!(verify(&OsText(bytes), &key.public(), Time(0)), Err(TicketError::Forged));
        }
        assert_eq!(verify(&OsText(vec![1, 2]), &key.public(), Time(0)), Err(TicketError::Forged));
    }

    #[test]
    fn each_host_has_a_ticket_of_its_own_and_all_the_same_secret() {
        let (key, one, other) = (
            KeyPair::generate().unwrap(),
            KeyPair::generate().unwrap().public(),
            KeyPair::generate().unwrap().public(),
        );
        let attempt = |job| AllocationKey::numbered(job, Attempt(1));
        let ticket = |job, holder: String| {
            let claims = Claims {
                key: attempt(job),
                uid: Uid(1000),
                gid: Gid(100),
                groups: vec![Gid(100)],
                nodes: "n[1-2]".into(),
                expiry: Time(500),
                holder,
                seal: seal(attempt(job), &key),
                epoch: 0,
            };
            sign(&claims, &key)
        };
        let (first, second) = (ticket(7, one.to_string()), ticket(7, other.to_string()));
        assert_ne!(first, second);
        assert_eq!(common_secret(&first), common_secret(&second));
        assert_ne!(common_secret(&first), common_secret(&ticket(8, one.to_string())));
        let claims = verify(&first, &key.public(), Time(0)).unwrap();
        assert_eq!(claims.shown_by(&one), Ok(()));
        assert_eq!(claims.shown_by(&other), Err(TicketError::Stolen));
        let old = verify(&ticket(7, String::new()), &key.public(), Time(0)).unwrap();
        assert_eq!(old.shown_by(&other), Ok(()), "an earlier release names none");
    }

    #[test]
    fn what_a_deposed_controller_has_signed() {
        let claims = |epoch| Claims {
            key: AllocationKey::numbered(7, Attempt(1)),
            uid: Uid(1000),
            gid: Gid(100),
            groups: Vec::new(),
            nodes: "n1".into(),
            expiry: Time(500),
            holder: String::new(),
            seal: OsText::default(),
            epoch,
        };
        let check = |epoch, known, good: bool| {
            assert_eq!(claims(epoch).not_before(known).is_ok(), good, "{epoch} {known}");
        };
        check(5, 5, true);
        check(6, 5, true);
        check(4, 5, false);
        check(0, 5, true); // one controller, or an earlier release
    }

    /// As a release without epochs reads and writes them.
    #[derive(PartialEq, Eq, Debug, Serialize, Deserialize)]
    struct Earlier {
        key: AllocationKey,
        uid: Uid,
        gid: Gid,
        groups: Vec<Gid>,
        nodes: String,
        expiry: Time,
        holder: String,
        seal: OsText,
    }

    #[test]
    fn tickets_of_a_release_without_epochs() {
        let pair = KeyPair::generate().unwrap();
        let (key, seal) = (AllocationKey::numbered(7, Attempt(1)), OsText(vec![1; 32]));
        let earlier = || Earlier {
            key,
            uid: Uid(1000),
            gid: Gid(100),
            groups: vec![Gid(100)],
            nodes: "n[1-2]".into(),
            expiry: Time(500),
            holder: "aa".into(),
            seal: seal.clone(),
        };
        let now = |epoch| Claims {
            key,
            uid: Uid(1000),
            gid: Gid(100),
            groups: vec![Gid(100)],
            nodes: "n[1-2]".into(),
            expiry: Time(500),
            holder: "aa".into(),
            seal: seal.clone(),
            epoch,
        };
        for epoch in [0, 7] {
            let ticket = sign(&now(epoch), &pair);
            let body = &ticket.0[..ticket.0.len() - SIGNATURE];
            assert_eq!(frame::decode::<Earlier>(body).unwrap(), earlier());
        }
        let body = frame::encode(&earlier(), LIMIT).unwrap()[frame::HEADER..].to_vec();
        let ticket = sign(&now(0), &pair);
        assert_eq!(ticket.0[..body.len()], body, "one controller: the bytes are those of before");
        assert_eq!(frame::decode::<Claims>(&body).unwrap(), now(0));
    }
}
