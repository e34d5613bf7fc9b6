//! Tokens that say who somebody is: signed with HMAC-SHA256 after RFC 7519, short of life, and revocable.
//!
//! Claims as Slurm's tokens have them (`sun`, `iat`, `exp`; source: slurm.schedmd.com/jwt.html), with an
//! identifier and a purpose beside them: what logs a browser in is no token for programs, nor the
//! other way round. With Slurm's key file as `key`, tokens of either are good for both.

use crate::limits;
use crate::problem::{Problem, Result};
use anyhow::{Context as _, bail};
use cosy_proto::keys::random_hex;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Least bytes of a key: those of the digest.
const KEY_BYTES: u64 = 32;
/// Most bytes of a key file.
const MOST_KEY_BYTES: u64 = 4096;
/// What a token of the page is for.
const PAGE: &str = "cosy-page";

/// What a token says.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Claims {
    /// Login name of the user.
    #[serde(alias = "username")]
    pub sun: String,
    /// When it was made, in seconds since 1970.
    pub iat: u64,
    /// Until when it is good, in seconds since 1970.
    pub exp: u64,
    /// Its own name, by which it is revoked.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub jti: String,
    /// What it is for; without, it is for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aud: Option<String>,
}

impl Claims {
    /// Whether it logs a browser in.
    pub fn is_of_page(&self) -> bool {
        self.aud.as_deref() == Some(PAGE)
    }
}

/// What was taken back.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Revoked {
    /// Users whose tokens that were made before that second are no good.
    users: BTreeMap<String, u64>,
    /// Single tokens, until they would have ended by themselves.
    tokens: BTreeMap<String, u64>,
}

/// Makes tokens and reads them.
pub struct Tokens {
    sign: EncodingKey,
    check: DecodingKey,
    secret: ring::hmac::Key,
    file: PathBuf,
    revoked: Mutex<Revoked>,
}

impl Tokens {
    /// With the key in that file, which is made when it is not there, and what was revoked in that
    /// folder.
    ///
    /// # Errors
    /// A file cannot be read or made, others may read the key, or it is too short.
    pub fn open(key: &Path, folder: &Path) -> anyhow::Result<Self> {
        if !key.exists() {
            make_key(key)?;
        }
        let secret = read_key(key)?;
        let file = folder.join("revoked.json");
        let revoked = match fs::read_to_string(&file) {
            Ok(text) => serde_json::from_str(&text)
                .with_context(|| format!("'{}' is damaged", file.display()))?,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Revoked::default(),
            Err(e) => return Err(e).with_context(|| format!("cannot read '{}'", file.display())),
        };
        Ok(Self {
            sign: EncodingKey::from_secret(&secret),
            check: DecodingKey::from_secret(&secret),
            secret: ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &secret),
            file,
            revoked: Mutex::new(revoked),
        })
    }

    /// A token for programs, good for so many seconds.
    ///
    /// # Errors
    /// There is no randomness.
    pub fn make(&self, user: &str, now: u64, seconds: u64) -> Result<(String, Claims)> {
        self.signed(user, now, seconds, None)
    }

    /// One that logs a browser in, for so many seconds.
    ///
    /// # Errors
    /// There is no randomness.
    pub fn make_session(&self, user: &str, now: u64, seconds: u64) -> Result<(String, Claims)> {
        self.signed(user, now, seconds, Some(PAGE.to_owned()))
    }

    fn signed(
        &self,
        user: &str,
        now: u64,
        seconds: u64,
        aud: Option<String>,
    ) -> Result<(String, Claims)> {
        let claims = Claims {
            sun: user.to_owned(),
            iat: now,
            exp: now.saturating_add(seconds),
            jti: random_hex(16).map_err(|e| Problem::unavailable(e.to_string()))?,
            aud,
        };
        let token = jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &self.sign);
        let token = token.map_err(|e| Problem::unavailable(e.to_string()))?;
        Ok((token, claims))
    }

    /// What a token says, if it is good now.
    ///
    /// # Errors
    /// It is none of ours, has ended or was revoked.
    pub fn read(&self, token: &str, now: u64) -> Result<Claims> {
        let bad = |why: &str| Problem::unauthenticated(format!("the token is no good: {why}"));
        if token.len() > limits::TOKEN_BYTES {
            return Err(bad("it is too long"));
        }
        let mut rules = Validation::new(Algorithm::HS256);
        // The time is handed in, and what it is for is looked at by who asks.
        (rules.validate_exp, rules.validate_aud) = (false, false);
        rules.required_spec_claims.clear();
        let read = jsonwebtoken::decode::<Claims>(token, &self.check, &rules);
        let claims = read.map_err(|_| bad("it was not made here"))?.claims;
        if claims.exp <= now {
            return Err(bad("its time is over; make another one with 'cosy token'"));
        }
        if claims.sun.is_empty() {
            return Err(bad("it names no user"));
        }
        let revoked = self.revoked.lock().unwrap_or_else(PoisonError::into_inner);
        let before = revoked.users.get(&claims.sun);
        if before.is_some_and(|before| claims.iat <= *before)
            || revoked.tokens.contains_key(&claims.jti)
        {
            return Err(bad("it was revoked"));
        }
        Ok(claims)
    }

    /// Takes one token back. What is acknowledged is on the disk.
    ///
    /// # Errors
    /// It cannot be written down.
    pub fn revoke(&self, claims: &Claims, now: u64) -> Result<()> {
        self.write_down(now, |revoked| {
            revoked.tokens.insert(claims.jti.clone(), claims.exp);
        })
    }

    /// Takes all tokens of a user back that were made up to now, and logs the user out everywhere.
    ///
    /// # Errors
    /// It cannot be written down.
    pub fn revoke_all(&self, user: &str, now: u64) -> Result<()> {
        self.write_down(now, |revoked| {
            revoked.users.insert(user.to_owned(), now);
        })
    }

    fn write_down(&self, now: u64, change: impl FnOnce(&mut Revoked)) -> Result<()> {
        let mut revoked = self.revoked.lock().unwrap_or_else(PoisonError::into_inner);
        let mut new = revoked.clone();
        let longest = limits::TOKEN_MOST.as_secs();
        new.tokens.retain(|_, until| *until > now);
        new.users
            .retain(|_, before| before.saturating_add(longest) > now);
        change(&mut new);
        if new.tokens.len() + new.users.len() > limits::REVOCATIONS {
            return Err(Problem::unavailable("too many tokens are revoked: ask an administrator"));
        }
        let written = serde_json::to_vec(&new)
            .map_err(anyhow::Error::from)
            .and_then(|text| write_file(&self.file, &text));
        if let Err(e) = written {
            tracing::error!("cannot write what was revoked: {e:#}");
            return Err(Problem::unavailable("it cannot be written down; nothing was revoked"));
        }
        *revoked = new;
        Ok(())
    }

    /// What a page sends along with every change, to show that it was loaded from here.
    pub fn csrf(&self, claims: &Claims) -> String {
        let tag = ring::hmac::sign(&self.secret, format!("csrf:{}", claims.jti).as_bytes());
        let each = tag.as_ref().iter().take(16);
        each.map(|byte| format!("{byte:02x}")).collect()
    }

    /// Some letters that differ between keys, and say nothing of them.
    pub fn mark(&self) -> String {
        let tag = ring::hmac::sign(&self.secret, b"mark");
        let each = tag.as_ref().iter().take(4);
        each.map(|byte| format!("{byte:02x}")).collect()
    }
}

fn make_key(path: &Path) -> anyhow::Result<()> {
    let mut secret = vec![0; KEY_BYTES as usize];
    ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut secret)
        .map_err(|_| anyhow::anyhow!("there is no randomness for a key"))?;
    write_file(path, &secret).with_context(|| format!("cannot make the key '{}'", path.display()))
}

/// The file anew, whole or not at all, for its owner alone.
fn write_file(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let new = path.with_extension("new");
    let _ = fs::remove_file(&new);
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    if let Some(folder) = path.parent() {
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}

fn read_key(path: &Path) -> anyhow::Result<Vec<u8>> {
    let shown = path.display();
    let mut file = File::open(path).with_context(|| format!("cannot read the key '{shown}'"))?;
    let facts = file.metadata()?;
    if !facts.is_file() || facts.mode() & 0o077 != 0 {
        bail!("others may read the key '{shown}': chmod 600");
    }
    if !(KEY_BYTES..=MOST_KEY_BYTES).contains(&facts.size()) {
        bail!("the key '{shown}' has {} bytes: 32 to 4096 are needed", facts.size());
    }
    let mut secret = Vec::new();
    file.read_to_end(&mut secret)?;
    Ok(secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(folder: &Path) -> Tokens {
        Tokens::open(&folder.join("key"), folder).unwrap()
    }

    #[test]
    fn a_token_is_good_for_its_time() {
        let folder = tempfile::tempdir().unwrap();
        let tokens = open(folder.path());
        let (token, claims) = tokens.make("ann", 1000, 60).unwrap();
        assert_eq!(tokens.read(&token, 1059).unwrap(), claims);
        assert_eq!(claims.sun, "ann");
        let said = tokens.read(&token, 1060).unwrap_err();
        assert!(said.message.contains("its time is over"), "{said:?}");
        // The key stays the same from one start to the next.
        assert_eq!(open(folder.path()).read(&token, 1001).unwrap(), claims);
    }

    #[test]
    fn what_was_not_signed_here_is_no_token() {
        let (ours, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let tokens = open(ours.path());
        let (token, _) = open(theirs.path()).make("root", 1000, 60).unwrap();
        let bad = |token: &str| tokens.read(token, 1001).is_err();
        assert!(bad(&token) && bad("") && bad("a.b.c") && bad(&"x".repeat(5000)));
        // Without a signature, as somebody would who hopes that nobody looks.
        let (own, _) = tokens.make("ann", 1000, 60).unwrap();
        let parts: Vec<&str> = own.split('.').collect();
        // {"alg":"none"}
        assert!(bad(&format!("eyJhbGciOiJub25lIn0.{}.", parts[1])));
        assert!(bad(&format!("{}.{}.", parts[0], parts[1])));
        assert!(!bad(&own));
    }

    #[test]
    fn what_is_revoked_stays_revoked() {
        let folder = tempfile::tempdir().unwrap();
        let tokens = open(folder.path());
        let (one, claims) = tokens.make("ann", 1000, 600).unwrap();
        let (two, _) = tokens.make("ann", 1000, 600).unwrap();
        let (bob, _) = tokens.make("bob", 1000, 600).unwrap();
        tokens.revoke(&claims, 1001).unwrap();
        let check = |tokens: &Tokens, good: [bool; 3]| {
            let all = [&one, &two, &bob].map(|token| tokens.read(token, 1002).is_ok());
            assert_eq!(all, good);
        };
        check(&tokens, [false, true, true]);
        check(&open(folder.path()), [false, true, true]);
        tokens.revoke_all("ann", 1001).unwrap();
        check(&open(folder.path()), [false, false, true]);
        let (new, _) = tokens.make("ann", 1002, 600).unwrap();
        assert!(tokens.read(&new, 1003).is_ok());
    }

    #[test]
    fn a_session_is_no_token_for_programs() {
        let folder = tempfile::tempdir().unwrap();
        let tokens = open(folder.path());
        let (session, claims) = tokens.make_session("ann", 1000, 60).unwrap();
        assert!(tokens.read(&session, 1001).unwrap().is_of_page());
        let (token, other) = tokens.make("ann", 1000, 60).unwrap();
        assert!(!tokens.read(&token, 1001).unwrap().is_of_page());
        assert_ne!(tokens.csrf(&claims), tokens.csrf(&other));
    }

    #[test]
    fn keys_that_others_may_read_are_refused() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let key = folder.path().join("key");
        fs::write(&key, [7; 32]).unwrap();
        fs::set_permissions(&key, fs::Permissions::from_mode(0o640)).unwrap();
        let said = Tokens::open(&key, folder.path()).err().unwrap().to_string();
        assert!(said.contains("others may read"), "{said}");
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(Tokens::open(&key, folder.path()).is_ok());
        fs::write(&key, [7; 31]).unwrap();
        let said = Tokens::open(&key, folder.path()).err().unwrap().to_string();
        assert!(said.contains("31 bytes"), "{said}");
    }
}
