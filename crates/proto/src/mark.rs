//! Marks: how far the controller's store is, signed, for nodes to keep.
//!
//! A mark is its bytes ([`StoreMark::to_bytes`]) followed by 64 bytes of Ed25519 signature over
//! a fixed prefix and them. So no node can make the controller believe that its store is old.

use crate::keys::{KeyPair, PublicKey};
use cosy_model::OsText;
use cosy_model::node::StoreMark;

const PURPOSE: &[u8] = b"cosy store mark 1\0";
const SIGNATURE: usize = 64;

/// Signs a mark.
pub fn sign(mark: &StoreMark, key: &KeyPair) -> OsText {
    let body = mark.to_bytes();
    let signature = key.sign(&[PURPOSE, &body].concat());
    OsText([body.as_slice(), &signature].concat())
}

/// The mark, if this controller has signed it.
pub fn verify(signed: &OsText, controller: &PublicKey) -> Option<StoreMark> {
    if signed.0.len() != StoreMark::BYTES + SIGNATURE {
        return None;
    }
    let (body, signature) = signed.0.split_at(StoreMark::BYTES);
    let good = controller.verifies(&[PURPOSE, body].concat(), signature);
    StoreMark::from_bytes(body).filter(|_| good)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_signed_counts() {
        let key = KeyPair::generate().unwrap();
        let mark = StoreMark {
            events: 1 << 40,
            jobs: 7,
            reservations: 3,
            flows: 2,
            triggers: 1,
        };
        let signed = sign(&mark, &key);
        assert_eq!(verify(&signed, &key.public()), Some(mark));
        let other = KeyPair::generate().unwrap();
        assert_eq!(verify(&signed, &other.public()), None);
        for at in 0..signed.0.len() {
            let mut bad = signed.clone();
            bad.0[at] ^= 1;
            assert_eq!(verify(&bad, &key.public()), None, "byte {at}");
        }
        assert_eq!(verify(&OsText(signed.0[1..].to_vec()), &key.public()), None);
        assert_eq!(verify(&OsText::default(), &key.public()), None);
    }
}
