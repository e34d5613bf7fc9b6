//! Splits the beginning of a command line into words as a shell does, the last of which is not
//! finished.

/// The words, the last one as far as it was typed: empty after a blank. Never none.
pub fn words(line: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut quote: Option<char> = None;
    let mut fresh = true;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        let last = all.len() - 1;
        match (c, quote) {
            ('\\', None | Some('"')) => all[last].extend(chars.next()),
            ('\'' | '"', None) => quote = Some(c),
            (c, Some(q)) if c == q => quote = None,
            (' ' | '\t' | '\n', None) => {
                if !fresh {
                    all.push(String::new());
                }
                fresh = true;
                continue;
            }
            (c, _) => all[last].push(c),
        }
        fresh = false;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn splits() {
        let check = |line: &str, want: &[&str]| assert_eq!(words(line), want, "{line}");
        check("", &[""]);
        check("csub", &["csub"]);
        check("csub ", &["csub", ""]);
        check("  csub  -q  ma", &["csub", "-q", "ma"]);
        check("csub -J 'a b' -q \"m", &["csub", "-J", "a b", "-q", "m"]);
        check("csub a\\ b\\", &["csub", "a b"]);
        check("csub '' ", &["csub", "", ""]);
    }
}
