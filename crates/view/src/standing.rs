//! Where somebody stands in the order of queues that go by use, in words: who is ahead at which level
//! with what use, and when one overtakes.

use crate::phrase;
use cosy_model::Time;
use cosy_model::policy::{AfterUse, LevelStanding, NextAhead, Standing};

/// The lines of one standing as of `now`.
pub fn lines(standing: &Standing, now: Time) -> Vec<String> {
    let Standing {
        account,
        user,
        queue,
        rank,
        users,
        levels,
        after,
    } = standing;
    let whose = match account.as_str() {
        "" => format!("{user}, in no account"),
        account => format!("{user} in account {account}"),
    };
    let queue = match queue.as_str() {
        "" => String::new(),
        queue => format!(", queue {queue}"),
    };
    let place = place_of(*rank, *users);
    let mut lines = vec![format!(
        "{whose}{queue}: place {place} of {users} by fair share"
    )];
    for level in levels {
        lines.push(format!("  {}", has_used(level)));
        let next = level.next.as_ref();
        lines.extend(next.map(|next| format!("    {}", behind(level, next, now))));
    }
    if let Some(after) = after {
        let then = place_of(after.rank, *users);
        lines.push(format!("  {}", one_more(after, (place, then), *users)));
    }
    lines
}

/// Ranks go down, places up.
fn place_of(rank: u32, users: u32) -> u32 {
    users.saturating_sub(rank).saturating_add(1).min(users)
}

/// `after one more job of 1536.0 billing hours: place 4 of 5 instead of 2, physics behind biology with 2.0
/// billing hours and 8 shares`.
fn one_more(after: &AfterUse, (before, then): (u32, u32), users: u32) -> String {
    let place = match before == then {
        true => format!("still place {then} of {users}"),
        false => format!("place {then} of {users} instead of {before}"),
    };
    let behind = match &after.next {
        Some(next) => format!(", {} behind {}", after.behind_as, who_with(next)),
        None => String::new(),
    };
    let used = hours(after.used);
    format!("after one more job of {used} billing hours: {place}{behind}")
}

/// `biology with 2.0 billing hours and 8 shares`.
fn who_with(next: &NextAhead) -> String {
    let name = match next.name.as_str() {
        "" => "another user",
        name => name,
    };
    let shares = match next.shares {
        Some(count) => format!(" and {count} shares"),
        None => String::new(),
    };
    format!("{name} with {} billing hours{shares}", hours(next.used))
}

/// `physics has used 12.5 of 40.0 billing hours (31 %), with 4 of 16 shares (25 %)`.
fn has_used(level: &LevelStanding) -> String {
    let used = format!(
        "{} has used {} of {} billing hours{}",
        level.name,
        hours(level.used),
        hours(level.all_used),
        percent(level.used, level.all_used)
    );
    let shares = match level.shares {
        Some(own) => format!(
            ", with {own} of {} shares{}",
            level.all_shares,
            percent(own.into(), level.all_shares)
        ),
        None => ", and counts as its account".to_owned(),
    };
    let committed = match level.committed {
        0 => String::new(),
        left => format!("; its running jobs may use {} more", hours(left)),
    };
    format!("{used}{shares}{committed}")
}

fn behind(level: &LevelStanding, next: &NextAhead, now: Time) -> String {
    let head =
        format!("{} of {} come before it, at last {}", level.ahead, level.of, who_with(next));
    let when = match (next.until_overtaken, next.overtaken_at) {
        (None, _) => "; use does not change that".to_owned(),
        (Some(_), Some(at)) => {
            format!("; it overtakes in {} if all that runs goes on", phrase::span(at.since(now)))
        }
        (Some(more), None) => format!(
            "; it overtakes when that has used {} more and it nothing: time alone changes nothing, for all use fades alike",
            hours(more)
        ),
    };
    format!("{head}{when}")
}

/// Billing seconds as hours with one decimal.
pub fn hours(seconds: u64) -> String {
    let tenths = seconds.saturating_add(180) / 360;
    format!("{}.{}", tenths / 10, tenths % 10)
}

fn percent(part: u64, all: u64) -> String {
    match (u128::from(part) * 100).checked_div(u128::from(all)) {
        Some(percent) => format!(" ({percent} %)"),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        let next = NextAhead {
            name: "biology".to_owned(),
            shares: Some(8),
            used: 7200,
            until_overtaken: Some(36_000),
            overtaken_at: None,
        };
        let mut standing = Standing {
            account: "physics".to_owned(),
            user: "ann".to_owned(),
            queue: String::new(),
            rank: 4,
            users: 5,
            levels: vec![LevelStanding {
                name: "physics".to_owned(),
                shares: Some(4),
                all_shares: 16,
                used: 45_000,
                all_used: 144_000,
                committed: 3600,
                ahead: 1,
                of: 3,
                next: Some(next),
            }],
            after: None,
        };
        let told = lines(&standing, Time(0));
        assert_eq!(told[0], "ann in account physics: place 2 of 5 by fair share");
        assert_eq!(
            told[1],
            "  physics has used 12.5 of 40.0 billing hours (31 %), with 4 of 16 shares (25 %); its running jobs may use 1.0 more"
        );
        assert_eq!(
            told[2],
            "    1 of 3 come before it, at last biology with 2.0 billing hours and 8 shares; it overtakes when that has used 10.0 more and it nothing: time alone changes nothing, for all use fades alike"
        );
        assert_eq!(told.len(), 3);
        let check = |rank, next: Option<NextAhead>, want: &str| {
            let after = AfterUse {
                used: 5_529_600,
                rank,
                behind_as: "physics".to_owned(),
                next,
            };
            let told = lines(
                &Standing {
                    after: Some(after),
                    ..standing.clone()
                },
                Time(0),
            );
            let said = told[3].strip_prefix("  after one more job of 1536.0 billing hours: ");
            assert_eq!(said, Some(want));
        };
        check(
            2,
            standing.levels[0].next.clone(),
            "place 4 of 5 instead of 2, physics behind biology with 2.0 billing hours and 8 shares",
        );
        check(4, None, "still place 2 of 5");
        if let Some(next) = &mut standing.levels[0].next {
            (next.name, next.overtaken_at) = (String::new(), Some(Time::from_secs(7200)));
        }
        let told = lines(&standing, Time(0));
        assert!(told[2].contains("another user with 2.0"), "{told:?}");
        assert!(told[2].ends_with("; it overtakes in 2 h if all that runs goes on"), "{told:?}");
    }
}
