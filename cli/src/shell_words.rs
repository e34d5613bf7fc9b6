//! Splits a line into words as a shell does: blanks, quotes, backslash, comment.
//! Nothing is expanded.

/// The words of `line`; from a `#` that starts a word on, it is comment. The line may end as
/// lines of Windows do.
///
/// # Errors
/// A quote that is not closed, or a backslash at the end.
pub fn split(line: &str) -> Result<Vec<String>, String> {
    let words = shlex::split(line.trim_end_matches(['\r', '\n']));
    words.ok_or_else(|| "a quote is not closed, or a backslash stands at the end".to_owned())
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
        check(r#"--comment "a \"b\" \n" x\ y"#, Some(&["--comment", "a \"b\" \\n", "x y"]));
        check("''", Some(&[""]));
        check("-N 2\r\n", Some(&["-N", "2"]));
        check("'a", None);
        check("\"a", None);
        check("a\\", None);
    }
}
