//! Points in time within sentences: the controller knows no zones and writes them in UTC, and
//! commands tell them in the zone of whoever reads.

use cosy_model::Time;
use jiff::Timestamp;

/// `2026-11-21T14:30:00Z`. A part of a second counts as a whole one, so that a time told as
/// the earliest that passes does pass. Times beyond the years -9999 to 9999 are told as the
/// last moment inside.
pub fn utc(time: Time) -> String {
    let part = i64::from(time.0.rem_euclid(1000) != 0);
    let secs = time.secs().saturating_add(part);
    let inside = secs.clamp(Timestamp::MIN.as_second(), Timestamp::MAX.as_second());
    Timestamp::from_second(inside)
        .unwrap_or_default()
        .to_string()
}

/// A piece of a sentence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Piece<'a> {
    /// What stands before, between and behind points in time.
    Text(&'a str),
    /// A point in time, to the second.
    Moment(Time),
}

/// The pieces of a sentence in their order. Points in time of years with more than four digits
/// are not found.
pub fn pieces(sentence: &str) -> Vec<Piece<'_>> {
    const LENGTH: usize = "2026-11-21T15:49:46Z".len();
    let mut pieces = Vec::new();
    let (mut told, mut at) = (0, 0);
    while let Some(c) = sentence.get(at..).and_then(|rest| rest.chars().next()) {
        let Some(moment) = sentence.get(at..at + LENGTH).and_then(read) else {
            at += c.len_utf8();
            continue;
        };
        pieces.extend(text_of(sentence, told, at));
        pieces.push(Piece::Moment(moment));
        at += LENGTH;
        told = at;
    }
    pieces.extend(text_of(sentence, told, at));
    pieces
}

fn text_of(sentence: &str, from: usize, to: usize) -> Option<Piece<'_>> {
    let text = sentence.get(from..to)?;
    (!text.is_empty()).then_some(Piece::Text(text))
}

/// A text that [`utc`] may have written, and no other form of the same moment.
fn read(text: &str) -> Option<Time> {
    let digit = text.starts_with(|c: char| c.is_ascii_digit());
    let form = digit && text.ends_with('Z') && text.as_bytes().get(10) == Some(&b'T');
    let stamp: Timestamp = form.then(|| text.parse().ok())??;
    Some(Time(stamp.as_millisecond()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sentences_in_pieces() {
        let check = |text: &str, want: &[Piece<'_>]| assert_eq!(pieces(text), want, "{text}");
        let (a, b) = (Time(1_795_275_600_000), Time(1_795_276_186_000));
        check(
            &format!("from {} to {}: no", utc(a), utc(b)),
            &[
                Piece::Text("from "),
                Piece::Moment(a),
                Piece::Text(" to "),
                Piece::Moment(b),
                Piece::Text(": no"),
            ],
        );
        check("", &[]);
        for other in [
            "2026-11-21T15:49:46",
            "2026-13-21T15:49:46Z",
            "2026-11-21 15:49:46Z",
            "\u{e9} 7 T\n Z",
        ] {
            check(other, &[Piece::Text(other)]);
        }
    }

    proptest! {
        #[test]
        fn moments_are_found_again(
            secs in 0i64..253_402_200_000,
            before in "[ a-z0-9é:-]{0,4}[ é:]",
            behind in "[ é:TZ0-9-]{0,9}",
        ) {
            let text = format!("{before}{}{behind}", utc(Time(secs * 1000)));
            let found = pieces(&text);
            prop_assert_eq!(found.get(1), Some(&Piece::Moment(Time(secs * 1000))), "{}", text);
            let told: String = found.iter().map(|piece| match piece {
                Piece::Text(text) => (*text).to_owned(),
                Piece::Moment(time) => utc(*time),
            }).collect();
            prop_assert_eq!(told, text);
        }

        #[test]
        fn any_text_has_pieces(text in "\\PC{0,40}") {
            prop_assert_eq!(pieces(&text).is_empty(), text.is_empty());
        }
    }

    #[test]
    fn times() {
        let check = |ms: i64, want: &str| assert_eq!(utc(Time(ms)), want);
        check(0, "1970-01-01T00:00:00Z");
        check(1, "1970-01-01T00:00:01Z"); // rounded up
        check(-1, "1970-01-01T00:00:00Z");
        check(-1000, "1969-12-31T23:59:59Z");
        check(951_782_400_000, "2000-02-29T00:00:00Z");
        check(951_868_800_000, "2000-03-01T00:00:00Z");
        check(1_709_164_800_000, "2024-02-29T00:00:00Z");
        check(4_107_542_400_000, "2100-03-01T00:00:00Z");
        check(1_795_271_400_000, "2026-11-21T14:30:00Z");
        check(253_402_207_199_000, "9999-12-30T21:59:59Z");
    }

    /// Counted day by day, with the lengths of months as every child learns them.
    #[test]
    fn every_day_of_eight_hundred_years() {
        let leap = |y: i64| (y % 4 == 0 && y % 100 != 0) || y % 400 == 0;
        let (mut y, mut m, mut d) = (1970, 1, 1);
        for day in 0..800 * 366 {
            let want = format!("{y:04}-{m:02}-{d:02}T00:00:00Z");
            assert_eq!(utc(Time(day * 86_400_000)), want, "day {day}");
            let last = match m {
                2 if leap(y) => 29,
                2 => 28,
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            (y, m, d) = match (m, d == last) {
                (12, true) => (y + 1, 1, 1),
                (_, true) => (y, m + 1, 1),
                (_, false) => (y, m, d + 1),
            };
        }
    }

    #[test]
    fn absurd_times_do_not_panic() {
        for ms in [i64::MIN, i64::MAX, i64::MIN + 1, i64::MAX - 1] {
            assert!(utc(Time(ms)).ends_with('Z'));
        }
    }
}
