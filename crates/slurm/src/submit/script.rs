//! Whether a text is a batch script, in the sentences of `sbatch`. Source: captures.

use super::{Fault, Line};

/// Looks at the text of a script.
///
/// # Errors
/// An empty one, one without an interpreter, one with NUL or the line ends of DOS.
pub fn check(text: &[u8]) -> Result<(), Fault> {
    let fault = |lines: &[&str]| {
        let lines = lines.iter().map(|l| Line::Error((*l).to_owned())).collect();
        Err(Fault { lines, code: 1 })
    };
    if text.is_empty() || text.iter().all(u8::is_ascii_whitespace) {
        return fault(&["Batch script is empty!"]);
    }
    if !text.starts_with(b"#!") {
        return fault(&[
            "This does not look like a batch script.  The first",
            "line must start with #! followed by the path to an interpreter.",
            "For instance: #!/bin/sh",
        ]);
    }
    if text.contains(&0) {
        return fault(&[
            "The SLURM controller does not allow scripts that",
            "contain a NULL character '\\0'.",
        ]);
    }
    if text.windows(2).any(|w| w == b"\r\n") {
        return fault(&[
            "Batch script contains DOS line breaks (\\r\\n)",
            "instead of expected UNIX line breaks (\\n).",
        ]);
    }
    Ok(())
}
