//! What `squeue --usage` prints: the options in the short form that clients know.
//!
//! Source: capture squeue-usage.

/// The synopsis, the first line of which stands beside the program's name. The last one
/// begins with a tab, as there.
pub const SYNOPSIS: &str = "\
Usage: squeue [-A account] [--clusters names] [-i seconds] [--job jobid]
              [-n name] [-o format] [-p partitions] [--qos qos]
              [--reservation reservation] [--sort fields] [--start]
              [--step step_id] [-t states] [-u user_name] [--usage]
              [-L licenses] [-w nodes] [--federation] [--local] [--sibling]
\t      [-ahjlrsv]
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::squeue::options::OPTIONS;

    fn is_option(name: &str) -> bool {
        let long = name.strip_prefix("--");
        OPTIONS.iter().any(|row| match long {
            // Names may be cut short.
            Some(long) => row.opt.long.starts_with(long),
            None => row.opt.short == name.as_bytes().get(1).copied(),
        })
    }

    #[test]
    fn names_options_that_there_are() {
        let words = SYNOPSIS.split(['[', ']', ' ', '\n', '\t']);
        let names: Vec<&str> = words.filter(|w| w.starts_with('-')).collect();
        assert_eq!(names.len(), 21);
        let (letters, names) = names.split_last().unwrap();
        names
            .iter()
            .for_each(|name| assert!(is_option(name), "{name}"));
        for letter in letters[1..].chars() {
            assert!(is_option(&format!("-{letter}")), "{letter}");
        }
    }
}
