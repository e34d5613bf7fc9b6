//! Times, lengths and sums as sentences have them.

use crate::output::harmless;
use crate::times;
use cosy_model::{Su, Time};
pub use cosy_view::phrase::{balance, count, price, span};
use cosy_view::words::moment::{Piece, pieces};
use jiff::Zoned;

/// A point in time, as short as possible: `14:20`, `11-22 14:20`, `2027-01-03 14:20`; with seconds
/// unless they are 0.
pub fn clock(time: Time, now: &Zoned) -> String {
    let Some(z) = times::in_zone(time, now) else {
        return "far ahead".to_owned();
    };
    let date = if z.date() == now.date() {
        ""
    } else if z.year() == now.year() {
        "%m-%d "
    } else {
        "%Y-%m-%d "
    };
    let seconds = if z.second() == 0 { "" } else { ":%S" };
    z.strftime(&format!("{date}%H:%M{seconds}")).to_string()
}

/// Two points in time, the date of the second only where it differs.
pub fn clocks(start: Time, end: Time, now: &Zoned) -> String {
    let of = |t| times::in_zone(t, now);
    let same_day = matches!((of(start), of(end)), (Some(a), Some(b)) if a.date() == b.date());
    let last = match of(end) {
        Some(z) if same_day && z.second() == 0 => z.strftime("%H:%M").to_string(),
        Some(z) if same_day => z.strftime("%H:%M:%S").to_string(),
        Some(_) | None => clock(end, now),
    };
    format!("{} to {last}", clock(start, now))
}

/// A price with its unit, rounded.
pub fn su(sum: Su) -> String {
    format!("{} SU", price(sum))
}

/// Text of other users, with `?` for what could change the terminal.
pub fn clean(text: &str) -> String {
    text.chars().map(harmless).collect()
}

/// A sentence of the controller, in which points in time are shown in the user's zone.
pub fn local_times(text: &str, now: &Zoned) -> String {
    let shown = |piece| match piece {
        Piece::Text(text) => clean(text),
        Piece::Moment(time) => clock(time, now),
    };
    pieces(text).into_iter().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_in_sentences() {
        let now: Zoned = "2026-11-21T12:00:00+01:00[Europe/Berlin]".parse().unwrap();
        let check = |text: &str, want: &str| assert_eq!(local_times(text, &now), want);
        check(
            "from 2026-11-21T15:49:46Z to 2026-11-22T15:00:00Z: no",
            "from 16:49:46 to 11-22 16:00: no",
        );
        check("2026-11-21T15:49:46", "2026-11-21T15:49:46");
        check("2026-13-21T15:49:46Z", "2026-13-21T15:49:46Z");
        check("\u{e9} 7 T\n Z", "\u{e9} 7 T? Z");
        check("", "");
    }

    #[test]
    fn clocks_are_short() {
        let now: Zoned = "2026-11-21T12:00:00+01:00[Europe/Berlin]".parse().unwrap();
        let at = |text: &str| times::parse(text, &now, times::Direction::Future).unwrap();
        let check = |text: &str, want: &str| assert_eq!(clock(at(text), &now), want);
        check("14:20", "14:20");
        check("14:20:05", "14:20:05");
        check("tomorrow 14:20", "11-22 14:20");
        check("2027-01-03 14:20", "2027-01-03 14:20");
        assert_eq!(clock(Time::FAR, &now), "far ahead");
        let pair = |a: &str, b: &str| clocks(at(a), at(b), &now);
        assert_eq!(pair("14:20", "16:00:05"), "14:20 to 16:00:05");
        assert_eq!(pair("14:20", "tomorrow 1:00"), "14:20 to 11-22 01:00");
        assert_eq!(pair("2026-12-01 14:20", "2026-12-01 15:00"), "12-01 14:20 to 15:00");
    }
}
