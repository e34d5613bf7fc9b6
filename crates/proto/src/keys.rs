//! Host keys: Ed25519, the private half in a file of its host, the public half pinned
//! by the peer as 64 hexadecimal digits.

use ring::rand::SystemRandom;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use std::fmt;

/// The fixed start of an Ed25519 SubjectPublicKeyInfo (RFC 8410, section 4).
pub(crate) const SPKI_PREFIX: [u8; 12] = [
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];

/// Why something is no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// Text of a public key.
    #[error("'{0}' is no public key: 64 hexadecimal digits are needed")]
    Public(String),
    /// Private key file.
    #[error("not an Ed25519 private key in PKCS#8 form")]
    Private,
    /// The system gave no randomness.
    #[error("the system gives no random numbers")]
    Random,
}

/// The public half.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PublicKey(pub [u8; 32]);

impl PublicKey {
    /// The key in a SubjectPublicKeyInfo, as TLS carries it.
    pub fn from_spki(spki: &[u8]) -> Option<Self> {
        spki.strip_prefix(&SPKI_PREFIX)
            .and_then(|k| k.try_into().ok())
            .map(Self)
    }

    /// The key as TLS carries it (SubjectPublicKeyInfo).
    pub fn to_spki(self) -> Vec<u8> {
        [&SPKI_PREFIX[..], &self.0].concat()
    }

    /// True when `signature` over `message` is of this key.
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, self.0)
            .verify(message, signature)
            .is_ok()
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

impl std::str::FromStr for PublicKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let bad = || KeyError::Public(text.chars().take(70).collect());
        let text = text.trim();
        if text.len() != 64 || !text.is_ascii() {
            return Err(bad());
        }
        let mut key = [0; 32];
        for (at, byte) in key.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).map_err(|_| bad())?;
        }
        Ok(Self(key))
    }
}

/// A private key with its public half (Ed25519).
pub struct KeyPair {
    pair: Ed25519KeyPair,
    pkcs8: Vec<u8>,
}

impl KeyPair {
    /// A new pair.
    ///
    /// # Errors
    /// [`KeyError::Random`].
    pub fn generate() -> Result<Self, KeyError> {
        let document =
            Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).map_err(|_| KeyError::Random)?;
        Self::from_pkcs8(document.as_ref())
    }

    /// The pair in a private key file.
    ///
    /// # Errors
    /// [`KeyError::Private`].
    pub fn from_pkcs8(bytes: &[u8]) -> Result<Self, KeyError> {
        let pair = Ed25519KeyPair::from_pkcs8(bytes).map_err(|_| KeyError::Private)?;
        Ok(Self {
            pair,
            pkcs8: bytes.to_vec(),
        })
    }

    /// What belongs into the private key file (mode 0600).
    pub fn pkcs8(&self) -> &[u8] {
        &self.pkcs8
    }

    /// The public half.
    pub fn public(&self) -> PublicKey {
        let bytes = self.pair.public_key().as_ref();
        PublicKey(
            bytes
                .try_into()
                .expect("an Ed25519 public key has 32 bytes"),
        )
    }

    /// A signature over `message`, 64 bytes.
    pub fn sign(&self, message: &[u8]) -> Vec<u8> {
        self.pair.sign(message).as_ref().to_vec()
    }
}

/// `bytes` random bytes as hexadecimal digits: secrets of tokens.
///
/// # Errors
/// [`KeyError::Random`].
pub fn random_hex(bytes: usize) -> Result<String, KeyError> {
    let mut raw = vec![0; bytes];
    ring::rand::SecureRandom::fill(&SystemRandom::new(), &mut raw).map_err(|_| KeyError::Random)?;
    Ok(raw.iter().map(|b| format!("{b:02x}")).collect())
}

/// SHA-256 of `bytes`, 32 bytes.
pub(crate) fn sha256(bytes: &[u8]) -> Vec<u8> {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    digest.as_ref().to_vec()
}

/// SHA-256 as hexadecimal digits: the store keeps this of a token, not the token.
pub fn sha256_hex(bytes: &[u8]) -> String {
    sha256(bytes).iter().map(|b| format!("{b:02x}")).collect()
}

/// What an administrator hands to a new host: the controller's key and a secret.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JoinToken {
    /// Pins the controller.
    pub controller: PublicKey,
    /// Stands for the new host once.
    pub secret: String,
}

impl fmt::Display for JoinToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cosy1-{}-{}", self.controller, self.secret)
    }
}

impl std::str::FromStr for JoinToken {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || {
            "this is no join token: use the long word in the line that 'cadm node token NAME' printed"
                .to_owned()
        };
        let mut parts = text.trim().splitn(3, '-');
        let (Some("cosy1"), Some(key), Some(secret)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err(bad());
        };
        let fine =
            (16..=128).contains(&secret.len()) && secret.bytes().all(|b| b.is_ascii_hexdigit());
        match (key.parse(), fine) {
            (Ok(controller), true) => Ok(Self {
                controller,
                secret: secret.to_owned(),
            }),
            _ => Err(bad()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_tokens_come_back() {
        let pair = KeyPair::generate().unwrap();
        let again = KeyPair::from_pkcs8(pair.pkcs8()).unwrap();
        assert_eq!(pair.public(), again.public());
        assert_eq!(pair.public().to_string().parse::<PublicKey>().unwrap(), pair.public());
        assert_eq!(PublicKey::from_spki(&pair.public().to_spki()), Some(pair.public()));
        assert!(pair.public().verifies(b"x", &again.sign(b"x")));
        assert!(!pair.public().verifies(b"y", &again.sign(b"x")));
        let token = JoinToken {
            controller: pair.public(),
            secret: random_hex(16).unwrap(),
        };
        assert_eq!(token.to_string().parse::<JoinToken>().unwrap(), token);
        for bad in ["", "cosy1-", "cosy1-00-11", "é".repeat(32).as_str()] {
            assert!(bad.parse::<JoinToken>().is_err());
            assert!(bad.parse::<PublicKey>().is_err());
        }
    }
}
