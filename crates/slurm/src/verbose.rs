//! What commands that show tell with `-v` of what they were asked for: a line for each option.
//!
//! Source: squeue and sinfo of 22.05.

const RULE: &str = "-----------------------------\n";

/// The lines, between two rules.
pub fn lines(rows: &[(&str, String)]) -> String {
    let rows = rows
        .iter()
        .map(|(name, value)| format!("{name:<12}= {value}\n"));
    format!("{RULE}{}{RULE}\n\n", rows.collect::<String>())
}

/// Words with commas, or `none`.
pub fn words(words: &[String], none: &str) -> String {
    match words {
        [] => none.to_owned(),
        _ => words.join(","),
    }
}

/// A text, or `none`.
pub fn text(text: Option<&str>, none: &str) -> String {
    text.unwrap_or(none).to_owned()
}
