//! The records of `scontrol show`: one object as lines of `Name=value`.
//!
//! Pure: values in, text out. Tools read both forms word by word, so order, blanks and
//! empty last lines are part of what is promised. Source: scontrol(1), captures of 22.05.

pub mod assoc_mgr;
pub mod config;
pub mod held_by_node;
pub mod hosts;
pub mod job;
pub mod node;
pub mod partition;
pub mod reservation;
pub mod step;
pub mod topology;

/// One object: its lines as they stand in the long form, without the indentation.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Sheet {
    lines: Vec<String>,
}

impl Sheet {
    /// No lines yet.
    pub const fn new() -> Self {
        Self { lines: Vec::new() }
    }

    /// Adds a line.
    pub fn line(&mut self, text: impl Into<String>) -> &mut Self {
        self.lines.push(text.into());
        self
    }

    /// Adds a line when there is one.
    pub fn maybe(&mut self, text: Option<String>) -> &mut Self {
        self.lines.extend(text);
        self
    }

    /// The long form: indented lines and an empty one after them; or all on one line
    /// (`scontrol -o`).
    pub fn text(&self, one_line: bool) -> String {
        if one_line {
            format!("{}\n", self.lines.join(" "))
        } else {
            format!("{}\n\n", self.lines.join("\n   "))
        }
    }
}

/// The text, or `(null)` without one.
pub fn or_null(text: &str) -> &str {
    if text.is_empty() { "(null)" } else { text }
}

/// Control characters become `?`, so that a value of a user cannot be taken for a line or
/// drive a terminal.
pub fn clean(text: &str) -> String {
    text.replace(char::is_control, "?")
}

/// MiB as in `TRES=`: `1600M`, whole GiB as `125G`, whole TiB as `2T`. Slurm divides by
/// 1024 as long as nothing is lost.
pub fn mebibytes(mib: u64) -> String {
    let mut value = mib;
    for unit in ["M", "G", "T"] {
        if value == 0 || !value.is_multiple_of(1024) {
            return format!("{value}{unit}");
        }
        value /= 1024;
    }
    format!("{value}P")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        let mut sheet = Sheet::new();
        sheet.line("A=1 B=2").maybe(None).line("C=");
        assert_eq!(sheet.text(false), "A=1 B=2\n   C=\n\n");
        assert_eq!(sheet.text(true), "A=1 B=2 C=\n");
    }

    #[test]
    fn sizes() {
        let check = |mib, want| assert_eq!(mebibytes(mib), want);
        check(0, "0M");
        check(100, "100M");
        check(1600, "1600M");
        check(32_000, "32000M");
        check(128_000, "125G");
        check(2 * 1024 * 1024, "2T");
    }
}
