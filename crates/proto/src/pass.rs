//! Passes: the controller's word to node daemons that whoever shows one asks for a user. They are
//! for programs that speak for others, such as that of the web page: no node daemon has to know or
//! trust it.
//!
//! A MessagePack map of [`PassClaims`] followed by 64 bytes of Ed25519 signature over a fixed prefix
//! and that map. A pass is shown to the node daemon of the host that it is used on, and goes no further.

use crate::frame;
use crate::keys::{KeyPair, PublicKey};
use cosy_model::step::PassClaims;
use cosy_model::{OsText, Time};

const PURPOSE: &[u8] = b"cosy user pass 1\0";
const SIGNATURE: usize = 64;
const LIMIT: usize = 1 << 20;

/// Why a pass is not good.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum PassError {
    /// Not signed by the pinned controller.
    #[error("the pass is not signed by this cluster's controller")]
    Forged,
    /// It was good until a time that is over.
    #[error("the pass has expired")]
    Expired,
    /// It is for something else.
    #[error("the pass is for something else")]
    Mismatch,
}

/// The claims in text with the controller's signature.
pub fn sign(claims: &PassClaims, key: &KeyPair) -> OsText {
    // A user has far fewer groups than fit; what is empty is good for nothing.
    let frame = frame::encode(claims, LIMIT).unwrap_or_default();
    let body = frame.get(frame::HEADER..).unwrap_or_default();
    let signature = key.sign(&[PURPOSE, body].concat());
    OsText([body, &signature].concat())
}

/// The claims of a pass that this controller signed and that has not expired.
///
/// # Errors
/// [`PassError::Forged`], [`PassError::Expired`].
pub fn verify(pass: &OsText, controller: &PublicKey, now: Time) -> Result<PassClaims, PassError> {
    let at = pass.0.len().checked_sub(SIGNATURE);
    let (body, signature) = pass.0.split_at(at.ok_or(PassError::Forged)?);
    if !controller.verifies(&[PURPOSE, body].concat(), signature) {
        return Err(PassError::Forged);
    }
    let claims: PassClaims = frame::decode(body).map_err(|_| PassError::Forged)?;
    match claims.expiry < now {
        true => Err(PassError::Expired),
        false => Ok(claims),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::{Gid, JobId, Uid};

    #[test]
    fn only_the_controllers_word_and_only_for_a_while() {
        let key = KeyPair::generate().unwrap();
        let claims = PassClaims {
            uid: Uid(7),
            gid: Gid(8),
            groups: vec![Gid(8), Gid(9)],
            job: Some(JobId(3)),
            expiry: Time(1000),
        };
        let pass = sign(&claims, &key);
        let controller = key.public();
        assert_eq!(verify(&pass, &controller, Time(1000)), Ok(claims.clone()));
        assert_eq!(verify(&pass, &controller, Time(1001)), Err(PassError::Expired));
        for at in 0..pass.0.len() {
            let mut other = pass.clone();
            other.0[at] ^= 1;
            assert_eq!(verify(&other, &controller, Time(0)), Err(PassError::Forged), "byte {at}");
        }
        let short = OsText(pass.0[..SIGNATURE - 1].to_vec());
        assert_eq!(verify(&short, &controller, Time(0)), Err(PassError::Forged));
        // Nor is a ticket one, whatever it says.
        let ticket = crate::ticket::sign(&ticket_of(&claims), &key);
        assert_eq!(verify(&ticket, &controller, Time(0)), Err(PassError::Forged));
    }

    fn ticket_of(claims: &PassClaims) -> crate::ticket::Claims {
        crate::ticket::Claims {
            key: cosy_model::node::AttemptKey {
                job: JobId(3),
                attempt: cosy_model::Attempt(1),
            }
            .into(),
            uid: claims.uid,
            gid: claims.gid,
            groups: claims.groups.clone(),
            nodes: String::new(),
            expiry: claims.expiry,
            holder: String::new(),
            seal: OsText::default(),
            epoch: 0,
        }
    }
}
