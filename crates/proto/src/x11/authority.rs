//! Files that say which cookie is shown to which display (`.Xauthority`). Source: Xau(3).
//!
//! An entry: family, then address, number of the display, kind and data, each with its length before
//! it; all numbers have two bytes, the high one first.

use super::MAGIC_COOKIE;

/// Largest file that is read, in bytes.
pub const FILE_BYTES: u64 = 1 << 20;
/// Longest cookie that is taken from a file, in bytes.
const DATA_BYTES: usize = 256;
/// Family of an address of IPv4.
pub const INTERNET: u16 = 0;
/// Family of an address of IPv6.
pub const INTERNET_6: u16 = 6;
/// Family of displays on the host whose name is the address.
pub const LOCAL: u16 = 256;
/// Family of entries for displays on any host.
pub const WILD: u16 = 65535;

/// A display, as entries name it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DisplayName {
    /// What the address is: [`LOCAL`] and its neighbours.
    pub family: u16,
    /// Name of the host, or the bytes of its address.
    pub address: Vec<u8>,
    /// Number of the display in decimal digits; empty in entries for all of the host.
    pub number: Vec<u8>,
}

struct Entry<'a> {
    family: u16,
    address: &'a [u8],
    number: &'a [u8],
    kind: &'a [u8],
    data: &'a [u8],
}

/// Takes the next entry from `rest`; `None` at the end, and where it is cut off.
fn next<'a>(rest: &mut &'a [u8]) -> Option<Entry<'a>> {
    let family = number(rest)?;
    Some(Entry {
        family,
        address: counted(rest)?,
        number: counted(rest)?,
        kind: counted(rest)?,
        data: counted(rest)?,
    })
}

fn number(rest: &mut &[u8]) -> Option<u16> {
    let (bytes, more) = rest.split_first_chunk::<2>()?;
    *rest = more;
    Some(u16::from_be_bytes(*bytes))
}

fn counted<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = number(rest)?;
    let (bytes, more) = rest.split_at_checked(length.into())?;
    *rest = more;
    Some(bytes)
}

/// The cookie for a display in the bytes of a file: that of the first entry that fits, as Xlib takes
/// it. `None` where none does, or what comes before it is cut off.
pub fn cookie(file: &[u8], display: &DisplayName) -> Option<Vec<u8>> {
    let mut rest = file;
    while let Some(entry) = next(&mut rest) {
        let host = entry.family == WILD
            || entry.family == display.family && entry.address == display.address;
        let number = entry.number.is_empty() || entry.number == display.number;
        let readable = entry.kind == MAGIC_COOKIE && entry.data.len() <= DATA_BYTES;
        if host && number && readable {
            return Some(entry.data.to_vec());
        }
    }
    None
}

/// Appends an entry. Texts that are too long for one are cut off.
pub fn put(file: &mut Vec<u8>, display: &DisplayName, cookie: &[u8]) {
    file.extend_from_slice(&display.family.to_be_bytes());
    for text in [&display.address[..], &display.number, MAGIC_COOKIE, cookie] {
        let length = u16::try_from(text.len()).unwrap_or(u16::MAX);
        file.extend_from_slice(&length.to_be_bytes());
        file.extend(text.iter().take(length.into()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn display(family: u16, address: &str, number: &str) -> DisplayName {
        DisplayName {
            family,
            address: address.into(),
            number: number.into(),
        }
    }

    fn file(entries: &[(DisplayName, &[u8])]) -> Vec<u8> {
        let mut file = Vec::new();
        for (display, cookie) in entries {
            put(&mut file, display, cookie);
        }
        file
    }

    #[test]
    fn the_first_entry_that_fits() {
        let entries = file(&[
            (display(INTERNET, "\x0a\0\0\x01", "0"), b"by address"),
            (display(LOCAL, "login1", "0"), b"of 0"),
            (display(LOCAL, "login1", "0"), b"later"),
            (display(LOCAL, "other", "1"), b"elsewhere"),
            (display(LOCAL, "login2", ""), b"any number"),
            (display(WILD, "", "7"), b"any host"),
        ]);
        let check = |asked: DisplayName, want: Option<&str>| {
            let got = cookie(&entries, &asked);
            assert_eq!(got.as_deref(), want.map(str::as_bytes), "{asked:?}");
        };
        check(display(LOCAL, "login1", "0"), Some("of 0"));
        check(display(LOCAL, "login1", "1"), None);
        check(display(LOCAL, "login2", "3"), Some("any number"));
        check(display(LOCAL, "login1", "7"), Some("any host"));
        check(display(INTERNET, "\x0a\0\0\x01", "0"), Some("by address"));
        check(display(INTERNET_6, "\x0a\0\0\x01", "0"), None);
    }

    /// As `xauth add unix:10 . 00112233445566778899aabbccddeeff` has written it.
    #[test]
    fn a_file_of_xauth() {
        let cookie_bytes: Vec<u8> = (0..16).map(|n| n * 0x11).collect();
        let mut bytes =
            b"\x01\x00\x00\x04host\x00\x0210\x00\x12MIT-MAGIC-COOKIE-1\x00\x10".to_vec();
        bytes.extend(&cookie_bytes);
        let asked = display(LOCAL, "host", "10");
        assert_eq!(cookie(&bytes, &asked), Some(cookie_bytes.clone()));
        assert_eq!(file(&[(asked, &cookie_bytes)]), bytes);
    }

    #[test]
    fn what_is_no_cookie() {
        let asked = display(LOCAL, "h", "0");
        let mut other_kind = file(&[(asked.clone(), b"x")]);
        other_kind[10] = b'X';
        assert_eq!(cookie(&other_kind, &asked), None);
        let long = vec![0; DATA_BYTES + 1];
        assert_eq!(cookie(&file(&[(asked.clone(), &long)]), &asked), None);
        let whole = file(&[(asked.clone(), b"0123456789abcdef")]);
        for length in 0..whole.len() {
            assert_eq!(cookie(&whole[..length], &asked), None, "cut at {length}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn hostile_files(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = cookie(&bytes, &display(LOCAL, "h", "0"));
        }
    }
}
