//! Splits a line into words as a shell does: blanks, quotes, backslash, comment.
//! Nothing is expanded.

/// The words of `line`; from a `#` that starts a word on, it is comment.
///
/// # Errors
/// A quote that is not closed, or a backslash at the end.
pub fn split(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            c if c.is_whitespace() => words.extend(word.take()),
            '#' if word.is_none() => break,
            '\'' | '"' => quoted(c, &mut chars, word.get_or_insert_default())?,
            '\\' => {
                let next = chars.next().ok_or("a backslash stands at the end")?;
                word.get_or_insert_default().push(next);
            }
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Ok(words)
}

fn quoted(quote: char, chars: &mut std::str::Chars<'_>, word: &mut String) -> Result<(), String> {
    loop {
        match chars.next() {
            None => return Err(format!("a quote {quote} is not closed")),
            Some(c) if c == quote => return Ok(()),
            Some('\\') if quote == '"' => match chars.next() {
                Some(c @ ('"' | '\\' | '$' | '`')) => word.push(c),
                Some(c) => word.extend(['\\', c]),
                None => return Err(format!("a quote {quote} is not closed")),
            },
            Some(c) => word.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits() {
        let check = |line: &str, want: Option<&[&str]>| {
            let got = split(line).ok();
            let want = want.map(|w| w.iter().map(|s| (*s).to_owned()).collect());
            assert_eq!(got, want, "{line}");
        };
        check("", Some(&[]));
        check(" -N 2\t--time=10 ", Some(&["-N", "2", "--time=10"]));
        check("-J 'a b' # why", Some(&["-J", "a b"]));
        check("-J a#b", Some(&["-J", "a#b"]));
        check(
            r#"--comment "a \"b\" \n" x\ y"#,
            Some(&["--comment", "a \"b\" \\n", "x y"]),
        );
        check("''", Some(&[""]));
        check("'a", None);
        check("\"a", None);
        check("a\\", None);
    }
}
