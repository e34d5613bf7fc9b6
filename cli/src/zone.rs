//! The user's time zone, found without a look at all others.
//!
//! `TimeZone::system` lists the whole database of zones before it opens the one that is
//! meant: a hundred system calls, more than everything else that a short command does. Here
//! the zone's file is opened by its name; whatever is not as usual is left to `system`.

use jiff::tz::TimeZone;
use std::ffi::OsStr;
use std::path::Path;

const DATABASE: &str = "/usr/share/zoneinfo";
/// Zones are a few kilobytes.
const MOST_BYTES: u64 = 1 << 20;

/// The zone that `TZ` or the system says.
pub fn local() -> TimeZone {
    system_zone().unwrap_or_else(TimeZone::system)
}

fn system_zone() -> Option<TimeZone> {
    let set = std::env::var_os("TZ");
    if std::env::var_os("TZDIR").is_some() {
        return None;
    }
    let link = || std::fs::read_link("/etc/localtime").ok();
    let name = match &set {
        Some(set) => name_of(set)?.to_owned(),
        None => zone_of_link(&link()?)?.to_owned(),
    };
    let path = Path::new(DATABASE).join(&name);
    let file = std::fs::metadata(&path).ok()?;
    if !file.is_file() || file.len() > MOST_BYTES {
        return None;
    }
    let bytes = std::fs::read(&path).ok()?;
    TimeZone::tzif(&name, &bytes).ok()
}

/// A plain name of a zone, as `Europe/Berlin`.
fn name_of(text: &OsStr) -> Option<&str> {
    let text = text.to_str()?;
    let plain = |part: &str| {
        let good = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'+');
        !part.is_empty() && part.bytes().all(good)
    };
    text.split('/').all(plain).then_some(text)
}

/// The zone that a link to its file names.
fn zone_of_link(target: &Path) -> Option<&str> {
    let (_, name) = target.to_str()?.split_once("/zoneinfo/")?;
    name_of(OsStr::new(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_zones() {
        let check = |text: &str, want: Option<&str>| {
            assert_eq!(name_of(OsStr::new(text)), want, "{text}");
        };
        for name in [
            "UTC",
            "Europe/Berlin",
            "Etc/GMT+5",
            "America/Port-au-Prince",
        ] {
            check(name, Some(name));
        }
        for other in [
            "",
            ":UTC",
            "/etc/zone",
            "../passwd",
            "a//b",
            "CET-1CEST,M3.5.0",
        ] {
            check(other, None);
        }
    }

    #[test]
    fn links_to_zones() {
        let check = |text: &str, want: Option<&str>| {
            assert_eq!(zone_of_link(Path::new(text)), want, "{text}");
        };
        check("/usr/share/zoneinfo/Etc/UTC", Some("Etc/UTC"));
        check("../usr/share/zoneinfo/Europe/Berlin", Some("Europe/Berlin"));
        check("/usr/share/zoneinfo/", None);
        check("/usr/share/zoneinfo/../../x", None);
        check("/etc/zone", None);
    }

    #[test]
    fn the_same_zone_as_the_long_way() {
        let now = jiff::Timestamp::UNIX_EPOCH;
        assert_eq!(local().to_offset(now), TimeZone::system().to_offset(now));
    }
}
