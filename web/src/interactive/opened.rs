//! Programs of jobs that are open in browsers: a link leads in once, and a cookie of the program's own
//! host name is good from then on.

use super::names::AppName;
use crate::limits::{APP_LINK_FOR, APPS, APPS_OF_USER, SESSION_FOR};
use crate::problem::Result;
use crate::tickets::Tickets;
use cosy_model::Uid;

/// Whose browser may see which program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Opened {
    /// The user, who owns the job.
    pub user: Uid,
    /// The program.
    pub name: AppName,
}

/// All of them.
pub struct OpenedApps {
    links: Tickets<Opened>,
    cookies: Tickets<Opened>,
}

impl Default for OpenedApps {
    fn default() -> Self {
        let too_many = "too many programs are open: try again later";
        Self {
            links: Tickets::new(APP_LINK_FOR, APPS, too_many),
            cookies: Tickets::new(SESSION_FOR, APPS, too_many),
        }
    }
}

/// Of a user who has too many the oldest goes.
fn put(all: &Tickets<Opened>, opened: Opened) -> Result<String> {
    all.make_among(opened, APPS_OF_USER, |other| other.user == opened.user)
}

impl OpenedApps {
    /// The ticket of a link that leads in.
    ///
    /// # Errors
    /// Too many are open.
    pub fn link(&self, opened: Opened) -> Result<String> {
        put(&self.links, opened)
    }

    /// Uses a link up: the cookie that the browser gets, if the link is for that program.
    ///
    /// # Errors
    /// Too many are open.
    pub fn enter(&self, ticket: &str, name: AppName) -> Result<Option<String>> {
        let found = self.links.take(ticket).filter(|found| found.name == name);
        found.map(|opened| put(&self.cookies, opened)).transpose()
    }

    /// Whose a cookie is, if it is for that program.
    pub fn user(&self, cookie: &str, name: AppName) -> Option<Uid> {
        let found = self.cookies.get(cookie)?;
        (found.name == name).then_some(found.user)
    }

    /// Forgets what a user has open, as when logging out.
    pub fn leave(&self, user: Uid) {
        self.links.forget(|opened| opened.user == user);
        self.cookies.forget(|opened| opened.user == user);
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
        assert_eq!(all.cookies.count(), APPS_OF_USER);
    }
}
