//! `[licenses]` of `cosy.toml`: names of licences and how many of each there are, perhaps by the time
//! of day.

use cosy_config::Check;
use cosy_model::{CountedResources, limits};
use cosy_policy::day_times::{DAY, DayTimes, Window};
use jiff::tz::TimeZone;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use toml::Spanned;

/// Counts by name as the file has them, with their places in it.
pub type Table = BTreeMap<String, Spanned<Count>>;

/// How many there are.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "how many there are is a number, or { count = 10, at = [{ from = \"08:00\", until = \"18:00\", count = 4 }] }"
)]
pub enum Count {
    /// Always as many.
    Always(u32),
    /// Others at some times of the day.
    ByTime(ByTime),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ByTime {
    count: u32,
    at: Vec<Part>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Part {
    #[serde(default)]
    days: Vec<String>,
    from: String,
    until: String,
    count: u32,
}

/// Windows of one licence, at most.
const WINDOWS: usize = 20;
/// Days as they are written, from Monday on.
const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/// Counts by name, the most that there are at any time, with a fault for each name that cannot be one.
pub fn read(check: &mut Check<'_>, table: &Table) -> CountedResources {
    let mut all = CountedResources::default();
    for (name, count) in table.iter().take(limits::LICENSES) {
        let fine = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if name.is_empty() || name.len() > limits::LICENSE_NAME_BYTES || !name.chars().all(fine) {
            let why = "a licence has a name of up to 64 letters, digits, '-', '_' and '.'";
            check.fault(count.span().start, why);
        }
        let most = match count.get_ref() {
            Count::Always(count) => *count,
            Count::ByTime(by) => by
                .at
                .iter()
                .fold(by.count, |most, part| most.max(part.count)),
        };
        all.set(name, most);
    }
    if let Some((_, count)) = table.iter().nth(limits::LICENSES) {
        check.fault(count.span().start, format!("more than {} licences", limits::LICENSES));
    }
    all
}

/// Those whose number depends on the time of day, in that zone, with a fault for each that is none.
pub fn times(check: &mut Check<'_>, table: &Table, zone: &TimeZone) -> BTreeMap<String, DayTimes> {
    let mut all = BTreeMap::new();
    for (name, count) in table.iter().take(limits::LICENSES) {
        let Count::ByTime(by) = count.get_ref() else {
            continue;
        };
        if by.at.len() > WINDOWS {
            check.fault(count.span().start, format!("more than {WINDOWS} times for one licence"));
            continue;
        }
        let windows: Result<Vec<Window>, String> = by.at.iter().map(window).collect();
        match windows {
            Ok(windows) => {
                let times = DayTimes {
                    usual: by.count,
                    windows,
                    zone: zone.clone(),
                };
                all.insert(name.clone(), times);
            }
            Err(why) => check.fault(count.span().start, why),
        }
    }
    all
}

fn window(part: &Part) -> Result<Window, String> {
    let day = |word: &String| -> Result<u8, String> {
        let at = DAYS.iter().position(|day| day == word);
        let at = at.and_then(|at| u8::try_from(at).ok());
        at.ok_or_else(|| format!("'{word}' is no day: use {}", DAYS.join(", ")))
    };
    let days: Result<BTreeSet<u8>, String> = part.days.iter().map(day).collect();
    let (from, until) = (minute(&part.from)?, minute(&part.until)?);
    if from == DAY || from == until {
        return Err(format!("from '{}' until '{}' is no part of a day", part.from, part.until));
    }
    Ok(Window {
        days: days?,
        from,
        until,
        count: part.count,
    })
}

/// The minute of the day of `08:30`; `24:00` is its end.
fn minute(text: &str) -> Result<u16, String> {
    let read = || {
        let (hours, minutes) = text.split_once(':')?;
        let two_digits = |part: &str| -> Option<u16> {
            let fine = part.len() == 2 && part.bytes().all(|b| b.is_ascii_digit());
            part.parse().ok().filter(|_| fine)
        };
        let (hours, minutes) = (two_digits(hours)?, two_digits(minutes)?);
        let minute = hours * 60 + minutes;
        (minutes < 60 && minute <= DAY).then_some(minute)
    };
    read().ok_or_else(|| format!("'{text}' is no time of the day: 08:30, up to 24:00"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_the_day() {
        let check = |text: &str, want: Option<u16>| assert_eq!(minute(text).ok(), want, "{text}");
        check("00:00", Some(0));
        check("08:30", Some(510));
        check("24:00", Some(DAY));
        for bad in [
            "", "8:30", "24:01", "12:60", "+1:00", "08:3x", "0830", "99:99", "2000:00", "00:65535",
        ] {
            check(bad, None);
        }
    }

    #[test]
    fn parts_of_days() {
        let part = |days: &[&str], from: &str, until: &str| {
            window(&Part {
                days: days.iter().map(|day| (*day).to_owned()).collect(),
                from: from.to_owned(),
                until: until.to_owned(),
                count: 3,
            })
        };
        let night = part(&["fri", "sat"], "22:00", "06:00").unwrap();
        assert_eq!((night.days, night.from, night.until), ([4, 5].into(), 1320, 360));
        assert!(part(&[], "00:00", "24:00").is_ok());
        assert!(
            part(&["friday"], "08:00", "18:00")
                .unwrap_err()
                .contains("use mon, tue")
        );
        assert!(part(&[], "08:00", "08:00").is_err());
        assert!(part(&[], "24:00", "08:00").is_err());
    }

    const BASE: &str = "[controller]\nstate_dir = '/s'\nsocket = '/s/sock'\n[[queue]]\nname = 'day'\n\
        [priority]\ntime_zone = 'UTC'\n[licenses]\n";

    #[test]
    fn counts_by_the_time_of_day_are_read() {
        let parse = |text: &str| {
            let text = format!("{BASE}{text}\n");
            super::super::parse(std::path::Path::new("x"), &text)
        };
        let text = "m = 5\nl = { count = 2, at = [{ days = ['fri'], from = '08:00', until = '18:00', count = 4 }] }";
        let cluster = parse(text).unwrap().cluster;
        assert_eq!((cluster.licenses.get("m"), cluster.licenses.get("l")), (5, 4), "the most");
        let own = &cluster.license_times["l"];
        assert_eq!((cluster.license_times.len(), own.usual, own.windows.len()), (1, 2, 1));
        assert_eq!(own.zone, cluster.priority.zone);
        let check = |text: &str, want: &str| {
            let told = parse(text).unwrap_err().to_string();
            assert!(told.contains("x:9: ") && told.contains(want), "{text}: {told}");
        };
        let part = "from = '08:00', until = '18:00', count = 4";
        check("l = 'many'", "is a number, or { count");
        check("l = -1", "is a number, or { count");
        check("l = { count = 2 }", "is a number, or { count");
        check(&format!("l = {{ count = 2, at = [{{ {part}, more = 1 }}] }}"), "is a number, or");
        check(
            &format!("l = {{ count = 2, at = [{{ days = ['fr'], {part} }}] }}"),
            "'fr' is no day",
        );
        check(
            "l = { count = 2, at = [{ from = '8', until = '18:00', count = 4 }] }",
            "'8' is no time",
        );
        let many = vec![format!("{{ {part} }}"); WINDOWS + 1].join(", ");
        check(&format!("l = {{ count = 2, at = [{many}] }}"), "more than 20 times");
    }
}
