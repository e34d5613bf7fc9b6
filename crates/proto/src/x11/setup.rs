//! The first words of an X client, in which it shows its cookie, and the other cookie that is put in
//! its place.
//!
//! ```text
//! byte order 'B' | 'l', unused, version (2 × 2), lengths of kind and data (2 × 2), unused (2)
//! kind of authorization, filled up to a multiple of four
//! data, filled up to a multiple of four
//! ```

use super::MAGIC_COOKIE;

/// Bytes before the kind of authorization.
const HEAD: usize = 12;
/// Longest kind of authorization, and longest data, in bytes.
pub const FIELD_BYTES: usize = 256;
/// Most bytes of these words: more of a client are never looked at.
pub const SETUP_BYTES: usize = HEAD + 2 * FIELD_BYTES;
/// Version of the protocol, which a refusal names.
const VERSION: u16 = 11;

/// Why a client is not let in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SetupError {
    /// No client of X11.
    #[error("no client of X11: its first byte is {0}")]
    Order(u8),
    /// Longer than any cookie.
    #[error("its authorization has {0} bytes, and {FIELD_BYTES} are the most")]
    Long(usize),
    /// Another cookie than that of the step, or none.
    #[error("it does not show the cookie of this step (XAUTHORITY names its file)")]
    Cookie,
}

#[derive(Clone, Copy)]
enum Order {
    HighFirst,
    LowFirst,
}

impl Order {
    fn of(byte: u8) -> Result<Self, SetupError> {
        match byte {
            b'B' => Ok(Self::HighFirst),
            b'l' => Ok(Self::LowFirst),
            other => Err(SetupError::Order(other)),
        }
    }

    const fn read(self, bytes: [u8; 2]) -> u16 {
        match self {
            Self::HighFirst => u16::from_be_bytes(bytes),
            Self::LowFirst => u16::from_le_bytes(bytes),
        }
    }

    fn write(self, number: usize) -> [u8; 2] {
        let number = u16::try_from(number).unwrap_or(u16::MAX);
        match self {
            Self::HighFirst => number.to_be_bytes(),
            Self::LowFirst => number.to_le_bytes(),
        }
    }
}

const fn filled(length: usize) -> usize {
    length.next_multiple_of(4)
}

fn put(words: &mut Vec<u8>, field: &[u8]) {
    words.extend_from_slice(field);
    words.resize(filled(words.len()), 0);
}

/// Looks at what a client has sent so far. When its first words are whole and show the cookie
/// `shown`, gives how many bytes they have and what the display gets in their place: the same with
/// the cookie `real`, or without any. `None` when more bytes are needed, never beyond
/// [`SETUP_BYTES`].
///
/// # Errors
/// It is not to be let in.
pub fn exchange(
    came: &[u8],
    shown: &[u8],
    real: Option<&[u8]>,
) -> Result<Option<(usize, Vec<u8>)>, SetupError> {
    let Some(first) = came.first() else {
        return Ok(None);
    };
    let order = Order::of(*first)?;
    let Some((head, rest)) = came.split_first_chunk::<HEAD>() else {
        return Ok(None);
    };
    let [
        _,
        _,
        major_0,
        major_1,
        minor_0,
        minor_1,
        kind_0,
        kind_1,
        data_0,
        data_1,
        ..,
    ] = *head;
    let kind_length = usize::from(order.read([kind_0, kind_1]));
    let data_length = usize::from(order.read([data_0, data_1]));
    let longest = kind_length.max(data_length);
    if longest > FIELD_BYTES {
        return Err(SetupError::Long(longest));
    }
    let fields = filled(kind_length) + filled(data_length);
    let Some(fields) = rest.get(..fields) else {
        return Ok(None);
    };
    let kind = fields.get(..kind_length).unwrap_or_default();
    let data = fields.get(filled(kind_length)..).unwrap_or_default();
    let data = data.get(..data_length).unwrap_or_default();
    if kind != MAGIC_COOKIE || !is_same(data, shown) {
        return Err(SetupError::Cookie);
    }
    let (kind, data) = real.map_or((&[][..], &[][..]), |real| (MAGIC_COOKIE, real));
    let mut words = vec![*first, 0, major_0, major_1, minor_0, minor_1];
    words.extend(order.write(kind.len()));
    words.extend(order.write(data.len()));
    words.extend([0; 2]);
    put(&mut words, kind);
    put(&mut words, data);
    Ok(Some((HEAD + fields.len(), words)))
}

/// Compares cookies in a time that does not tell where they differ.
fn is_same(shown: &[u8], own: &[u8]) -> bool {
    let differ = shown.iter().zip(own).fold(0, |all, (a, b)| all | (a ^ b));
    std::hint::black_box(differ) == 0 && shown.len() == own.len() && !own.is_empty()
}

/// What a client that has sent `came` is told instead of being let in: a refusal as displays make
/// it, which Xlib prints. Empty for what is no client of X11.
pub fn refusal(came: &[u8], reason: &str) -> Vec<u8> {
    let Some(order) = came.first().and_then(|first| Order::of(*first).ok()) else {
        return Vec::new();
    };
    let reason = reason.as_bytes();
    let reason = reason.get(..reason.len().min(200)).unwrap_or_default();
    let mut words = vec![0, u8::try_from(reason.len()).unwrap_or(u8::MAX)];
    words.extend(order.write(VERSION.into()));
    words.extend(order.write(0));
    words.extend(order.write(filled(reason.len()) / 4));
    put(&mut words, reason);
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OWN: &[u8] = b"0123456789abcdef";

    fn words(order: u8, kind: &[u8], data: &[u8]) -> Vec<u8> {
        let write = Order::of(order).unwrap();
        let mut words = vec![order, 0];
        words.extend(write.write(11));
        words.extend(write.write(0));
        words.extend(write.write(kind.len()));
        words.extend(write.write(data.len()));
        words.extend([0; 2]);
        put(&mut words, kind);
        put(&mut words, data);
        words
    }

    #[test]
    fn the_cookie_is_exchanged() {
        for order in [b'B', b'l'] {
            let own = words(order, MAGIC_COOKIE, OWN);
            let mut came = own.clone();
            came.extend(b"further requests");
            let real: &[u8] = b"another one";
            let want = words(order, MAGIC_COOKIE, real);
            assert_eq!(exchange(&came, OWN, Some(real)), Ok(Some((own.len(), want))));
            let without = words(order, b"", b"");
            assert_eq!(exchange(&came, OWN, None), Ok(Some((own.len(), without))));
            for length in 0..own.len() {
                assert_eq!(exchange(&own[..length], OWN, None), Ok(None), "{length} bytes");
            }
        }
    }

    #[test]
    fn who_is_not_let_in() {
        let check = |came: &[u8], want: SetupError| {
            assert_eq!(exchange(came, OWN, Some(b"real")), Err(want));
        };
        for order in [b'B', b'l'] {
            check(&words(order, MAGIC_COOKIE, b"0123456789abcdeF"), SetupError::Cookie);
            check(&words(order, MAGIC_COOKIE, b"0123456789abcde"), SetupError::Cookie);
            check(&words(order, MAGIC_COOKIE, b"0123456789abcdef!"), SetupError::Cookie);
            check(&words(order, MAGIC_COOKIE, b""), SetupError::Cookie);
            check(&words(order, b"XDM-AUTHORIZATION-1", OWN), SetupError::Cookie);
            check(&words(order, b"", b""), SetupError::Cookie);
            let long = words(order, &[b'x'; FIELD_BYTES + 1], OWN);
            // Told by its head alone.
            check(&long[..HEAD], SetupError::Long(FIELD_BYTES + 1));
        }
        check(b"GET / HTTP/1.0", SetupError::Order(b'G'));
        assert!(exchange(&words(b'l', MAGIC_COOKIE, b""), b"", None).is_err());
        let longest = words(b'l', &[b'x'; FIELD_BYTES], &[b'y'; FIELD_BYTES]);
        assert_eq!(longest.len(), SETUP_BYTES);
    }

    #[test]
    fn refusals_are_those_of_a_display() {
        let told = refusal(b"l\0", "no");
        assert_eq!(told, [0, 2, 11, 0, 0, 0, 1, 0, b'n', b'o', 0, 0]);
        assert_eq!(refusal(b"B", "yes")[2..8], [0, 11, 0, 0, 0, 1]);
        assert!(refusal(b"GET", "no").is_empty() && refusal(b"", "no").is_empty());
        let long = refusal(b"l", &"x".repeat(1000));
        assert_eq!((long.len(), long[1], long[6]), (208, 200, 50));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn hostile_clients(mut came in proptest::collection::vec(any::<u8>(), 0..600), low: bool) {
            if let Some(first) = came.first_mut() {
                *first = if low { b'l' } else { b'B' };
            }
            let done = exchange(&came, OWN, Some(b"real"));
            prop_assert!(!matches!(done, Ok(Some(_))));
            prop_assert!(came.len() < SETUP_BYTES || done.is_err());
        }
    }
}
