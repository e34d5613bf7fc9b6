//! What goes to the user: whole texts in one piece, errors as one line.

use std::io::{self, IsTerminal, Write};

/// Exit code when nobody reads the output: that of a program that SIGPIPE ended.
pub const NOBODY_READS: i32 = 141;

/// Writes text to standard output. Whoever reads it may go away early: then the program
/// ends quietly, as others do.
pub fn print(text: &str) {
    let mut out = io::stdout().lock();
    let done = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    match done {
        Ok(()) => {}
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => std::process::exit(NOBODY_READS),
        Err(e) => {
            complain("cosy", &format!("cannot write the output: {e}"));
            std::process::exit(i32::from(crate::exit::FAILED));
        }
    }
}

/// One line on standard error: who and what. Line breaks and control characters in it
/// become blanks, and it is cut to a readable length.
pub fn complain(program: &str, text: &str) {
    // In one piece: others may write to the same place.
    let line = format!("{program}: {}\n", one_line(text));
    let _ = io::stderr().write_all(line.as_bytes());
}

fn one_line(text: &str) -> String {
    const LONGEST: usize = 600;
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut line: String = words
        .join(" ")
        .chars()
        .map(harmless)
        .take(LONGEST + 1)
        .collect();
    if line.chars().count() > LONGEST {
        line.pop();
        line.push_str(" ...");
    }
    line
}

/// The character itself, or `?` for one that could change a terminal, or the order in which it shows
/// what follows: control characters, line separators, and the marks that override the direction of
/// writing. Names and texts come from other users.
pub fn harmless(c: char) -> char {
    match c {
        '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '?',
        c if c.is_control() => '?',
        c => c,
    }
}

/// True when colours are welcome: a terminal, and no `NO_COLOR`.
pub fn colour() -> bool {
    io::stdout().is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
        && std::env::var_os("TERM").is_none_or(|t| t != "dumb")
}

/// Columns of the terminal; `None` when the output goes elsewhere and is not cut.
pub fn width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(rustix::stdio::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|w| *w >= 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_each() {
        assert_eq!(one_line("a\n b\t\u{1b}[31mc"), "a b ?[31mc");
        assert!(one_line(&"x".repeat(10_000)).len() < 700);
    }

    #[test]
    fn harmless_characters() {
        let check = |text: &str, want: &str| {
            assert_eq!(text.chars().map(harmless).collect::<String>(), want);
        };
        check("a b~\u{8ba1}\u{1f680}e\u{301}", "a b~\u{8ba1}\u{1f680}e\u{301}");
        check("\u{1b}[2J\u{7}\r\n\t\u{9b}\u{7f}", "?[2J??????");
        check("exe\u{202e}gpj.\u{2066}x\u{2069}\u{2028}", "exe?gpj.?x??");
        // Arabic and Hebrew are written with these.
        check("\u{5d0}\u{200f}\u{200d}", "\u{5d0}\u{200f}\u{200d}");
    }
}
