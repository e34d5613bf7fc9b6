//! Programs of jobs that are open in browsers: a link leads in once, and a cookie of the program's own
//! host name is good from then on.

use super::names::AppName;
use crate::limits::{APP_LINK_FOR, APPS, APPS_OF_USER, SESSION_FOR};
use crate::problem::{Problem, Result};
use cosy_model::Uid;
use cosy_proto::keys::{random_hex, sha256_hex};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Whose browser may see which program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Opened {
    /// The user, who owns the job.
    pub user: Uid,
    /// The program.
    pub name: AppName,
}

/// All of them, by the digest of a word that only the browser has.
#[derive(Default)]
pub struct OpenedApps {
    links: Mutex<HashMap<String, (Instant, Opened)>>,
    cookies: Mutex<HashMap<String, (Instant, Opened)>>,
}

type All<'a> = MutexGuard<'a, HashMap<String, (Instant, Opened)>>;

fn locked(all: &Mutex<HashMap<String, (Instant, Opened)>>) -> All<'_> {
    all.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Puts one in under a new word; of a user who has too many the oldest goes.
fn put(mut all: All<'_>, opened: Opened, good_for: Duration) -> Result<String> {
    let word = random_hex(24).map_err(|e| Problem::unavailable(e.to_string()))?;
    all.retain(|_, (at, _)| at.elapsed() < good_for);
    let own = all
        .iter()
        .filter(|(_, (_, other))| other.user == opened.user);
    if own.clone().count() >= APPS_OF_USER {
        let oldest = own.min_by_key(|(_, (at, _))| *at);
        if let Some(word) = oldest.map(|(word, _)| word.clone()) {
            all.remove(&word);
        }
    }
    if all.len() >= APPS {
        return Err(Problem::busy("too many programs are open: try again later"));
    }
    all.insert(sha256_hex(word.as_bytes()), (Instant::now(), opened));
    Ok(word)
}

impl OpenedApps {
    /// The ticket of a link that leads in.
    ///
    /// # Errors
    /// Too many are open.
    pub fn link(&self, opened: Opened) -> Result<String> {
        put(locked(&self.links), opened, APP_LINK_FOR)
    }

    /// Uses a link up: the cookie that the browser gets, if the link is for that program.
    ///
    /// # Errors
    /// Too many are open.
    pub fn enter(&self, ticket: &str, name: AppName) -> Result<Option<String>> {
        let found = locked(&self.links).remove(&sha256_hex(ticket.as_bytes()));
        match found {
            Some((at, opened)) if at.elapsed() < APP_LINK_FOR && opened.name == name => {
                put(locked(&self.cookies), opened, SESSION_FOR).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Whose a cookie is, if it is for that program.
    pub fn user(&self, cookie: &str, name: AppName) -> Option<Uid> {
        let all = locked(&self.cookies);
        let (at, opened) = all.get(&sha256_hex(cookie.as_bytes()))?;
        (at.elapsed() < SESSION_FOR && opened.name == name).then_some(opened.user)
    }

    /// Forgets what a user has open, as when logging out.
    pub fn leave(&self, user: Uid) {
        locked(&self.links).retain(|_, (_, opened)| opened.user != user);
        locked(&self.cookies).retain(|_, (_, opened)| opened.user != user);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::JobId;

    #[test]
    fn a_link_is_good_once_and_for_its_program() {
        let all = OpenedApps::default();
        let name = |port| AppName {
            job: JobId(1),
            port,
        };
        let own = Opened {
            user: Uid(7),
            name: name(80),
        };
        let ticket = all.link(own).unwrap();
        let cookie = all.enter(&ticket, name(80)).unwrap().unwrap();
        assert_eq!(all.enter(&ticket, name(80)).unwrap(), None);
        assert_eq!(all.user(&cookie, name(80)), Some(Uid(7)));
        assert_eq!((all.user(&cookie, name(81)), all.user("x", name(80))), (None, None));
        let other = all.link(own).unwrap();
        assert_eq!(all.enter(&other, name(81)).unwrap(), None);
        all.leave(Uid(7));
        assert_eq!(all.user(&cookie, name(80)), None);
    }

    #[test]
    fn one_user_has_so_many() {
        let all = OpenedApps::default();
        let own = Opened {
            user: Uid(7),
            name: AppName {
                job: JobId(1),
                port: 80,
            },
        };
        let enter = || {
            let ticket = all.link(own).unwrap();
            all.enter(&ticket, own.name).unwrap().unwrap()
        };
        let first = enter();
        for _ in 0..APPS_OF_USER {
            enter();
        }
        assert_eq!(all.user(&first, own.name), None);
        assert_eq!(locked(&all.cookies).len(), APPS_OF_USER);
    }
}
