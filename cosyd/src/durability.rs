//! What an answer promises on PostgreSQL: what its settings say, beside what the configuration asks for.

use crate::config::Durability;
use crate::store::{Location, Settings, Store, StoreError};
use anyhow::{Context, anyhow};
use tokio::sync::oneshot;

/// Looks at the server's settings, says what holds, and refuses where more was asked for.
///
/// # Errors
/// The configuration asks for more than the server keeps, or a later release has made the tables. A server
/// that cannot be reached says nothing yet: it is waited for.
pub(crate) async fn check(location: Location, asked: Durability) -> anyhow::Result<()> {
    let (done, wait) = oneshot::channel();
    std::thread::Builder::new()
        .name("settings".into())
        .spawn(move || {
            let settings = Store::open_at(&location).and_then(|store| store.settings());
            let _ = done.send(settings);
        })?;
    match wait
        .await
        .context("the settings of the database are not known")?
    {
        Ok(settings) => {
            say(&settings, asked);
            judge(&settings, asked).map_err(|why| anyhow!(why))
        }
        Err(e @ StoreError::TooNew { .. }) => Err(e.into()),
        Err(e) => {
            tracing::error!("{e}; it is waited for");
            Ok(())
        }
    }
}

/// What the server does not do that a lost power supply does not forgive.
fn careless(settings: &Settings) -> impl Iterator<Item = String> {
    let all = settings.switches().into_iter();
    all.filter(|(_, value)| *value != "on")
        .map(|(name, value)| careless_sentence(name, value))
}

fn careless_sentence(name: &str, value: &str) -> String {
    format!(
        "the database has {name} = {value}: what was answered is lost when its host loses power"
    )
}

/// Whether the settings keep what is asked for.
///
/// # Errors
/// In one sentence: what they lack, and what would work.
pub(crate) fn judge(settings: &Settings, asked: Durability) -> Result<(), String> {
    if asked == Durability::Local {
        return Ok(());
    }
    if let Some(what) = careless(settings).next() {
        return Err(format!(
            "{what}; durability = \"replicated\" asks for fsync = on and full_page_writes = on"
        ));
    }
    match settings.standby_names.is_empty() {
        true => Err(
            "durability = \"replicated\" asks for a database that waits for a second one, and its synchronous_standby_names is empty: set it, or say durability = \"local\"".to_owned(),
        ),
        false => Ok(()),
    }
}

/// Why the settings keep less than is asked for, or than the best that this leader has seen; `None` where
/// they do not.
pub(crate) fn weakness(now: &Settings, asked: Durability, best: &Settings) -> Option<String> {
    if let Err(why) = judge(now, asked) {
        return Some(why);
    }
    let mut each = best.switches().into_iter().zip(now.switches());
    let weaker = each.find(|((_, best), (_, now))| *best == "on" && *now != "on");
    if let Some((_, (name, now))) = weaker {
        return Some(careless_sentence(name, now));
    }
    (!best.standby_names.is_empty() && now.standby_names.is_empty()).then(|| {
        "the database waits for no second one any more (synchronous_standby_names is empty): what is answered now is on the disk of one server".to_owned()
    })
}

/// Says in the log what holds.
fn say(settings: &Settings, asked: Durability) {
    careless(settings).for_each(|what| tracing::error!("{what}"));
    match (asked, settings.standby_names.as_str()) {
        (Durability::Local, "") => tracing::warn!(
            "what is answered is on the disk of one server (synchronous_standby_names is empty): what that server has acknowledged and not sent on is lost with it"
        ),
        (Durability::Replicated, "") => {}
        (_, names) => tracing::info!(
            "what is answered is on the disks of two servers (synchronous_standby_names = '{names}', {} connected)",
            settings.standbys
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_there_or_refused() {
        let settings = |names: &str, fsync: &str| Settings {
            standby_names: names.into(),
            fsync: fsync.into(),
            full_page_writes: "on".into(),
            standbys: 1,
        };
        let good = |settings, asked| judge(&settings, asked).is_ok();
        assert!(good(settings("", "on"), Durability::Local));
        assert!(good(settings("", "off"), Durability::Local));
        assert!(good(settings("b", "on"), Durability::Replicated));
        assert!(!good(settings("", "on"), Durability::Replicated));
        assert!(!good(settings("b", "off"), Durability::Replicated));
    }
}
