//! Words, numbers, texts and signs of an expression, each with its place.

use cosy_model::{MiB, Span};

/// A piece of an expression.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Token {
    Word(String),
    Number(i64),
    /// In MiB.
    Size(i64),
    /// In seconds.
    Time(i64),
    Text(String),
    Sign(&'static str),
}

/// A token and the byte where it begins.
pub(crate) type Placed = (usize, Token);

/// Longer ones before those that begin them.
const SIGNS: [&str; 17] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "+", "-", "*", "/", "(", ")", "[", "]", ",",
];

/// Takes an expression apart.
///
/// # Errors
/// What stands there that cannot, with its place.
pub(crate) fn tokens(text: &str) -> Result<Vec<Placed>, String> {
    let mut all = Vec::new();
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let first = rest.chars().next().unwrap_or_default();
        if first.is_whitespace() {
            at += first.len_utf8();
            continue;
        }
        let (token, length) = next(rest)?;
        all.push((at, token));
        at += length;
    }
    Ok(all)
}

fn next(rest: &str) -> Result<(Token, usize), String> {
    let first = rest.chars().next().unwrap_or_default();
    if first == '"' || first == '\'' {
        return quoted(rest, first);
    }
    let word: String = rest
        .chars()
        .take_while(|c| c.is_ascii_alphanumeric() || *c == '_')
        .collect();
    if first.is_ascii_digit() {
        return Ok((amount(&word)?, word.len()));
    }
    if !word.is_empty() {
        let length = word.len();
        return Ok((Token::Word(word), length));
    }
    let sign = SIGNS.into_iter().find(|sign| rest.starts_with(sign));
    match sign {
        Some("&&") => Err("'&&' is written 'and'".to_owned()),
        Some("||") => Err("'||' is written 'or'".to_owned()),
        Some(sign) => Ok((Token::Sign(sign), sign.len())),
        None if first == '=' => Err("'=' is written '=='".to_owned()),
        None if first == '!' => Err("'!' is written 'not'".to_owned()),
        None => Err(format!("'{}' means nothing here", first.escape_default())),
    }
}

fn quoted(rest: &str, quote: char) -> Result<(Token, usize), String> {
    let inside = rest.get(1..).unwrap_or_default();
    match inside.find(quote) {
        Some(end) => {
            let text = inside.get(..end).unwrap_or_default();
            Ok((Token::Text(text.to_owned()), end + 2))
        }
        None => Err(format!("a text has no {quote} at its end")),
    }
}

/// `12` is a number, `4G` a size, `90m` and `2h30m` are times.
fn amount(word: &str) -> Result<Token, String> {
    let bad = || {
        format!(
            "'{word}' is no amount: use a number like 12, a size with K, M, G or T like 4G, or a time with s, m, h or d like 2h30m"
        )
    };
    if word.bytes().all(|b| b.is_ascii_digit()) {
        return word.parse().map(Token::Number).map_err(|_| bad());
    }
    if word.ends_with(['s', 'm', 'h', 'd']) {
        let span: Span = word.parse().map_err(|_| bad())?;
        return Ok(Token::Time(span.secs()));
    }
    let size: MiB = word.parse().map_err(|_| bad())?;
    i64::try_from(size.0).map(Token::Size).map_err(|_| bad())
}
