//! `#BSUB` lines of a script: options of LSF that mean one of ours. Others are passed over,
//! as in the original. Source: sbatch(1), `--ignore-pbs`; bsub(1).

use crate::getopt::GivenOption;
use std::ffi::OsString;

/// Options that take no value.
const FLAGS: [&str; 9] = ["B", "H", "I", "K", "N", "Ip", "Is", "r", "x"];
/// Options of more than one letter that take a value.
const LONG: [&str; 3] = ["cwd", "app", "sla"];

/// The options of one line.
pub fn read(words: &[String]) -> Vec<GivenOption> {
    let mut found = Vec::new();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let Some(option) = word.strip_prefix('-').filter(|o| !o.is_empty()) else {
            continue;
        };
        if FLAGS.contains(&option) {
            flag(option, &mut found);
            continue;
        }
        let long = LONG.iter().find(|l| option.starts_with(**l));
        let letters =
            long.map_or_else(|| option.chars().next().map_or(0, char::len_utf8), |l| l.len());
        let (name, glued) = option.split_at(letters);
        let value = match glued.is_empty() {
            true => rest.next().map(String::as_str),
            false => Some(glued),
        };
        if let Some(text) = value {
            value_of(name, text, &mut found);
        }
    }
    found
}

fn put(found: &mut Vec<GivenOption>, name: &'static str, value: impl Into<OsString>) {
    let value = Some(value.into());
    found.push(GivenOption { name, value });
}

fn flag(option: &str, found: &mut Vec<GivenOption>) {
    let mut flag = |name| found.push(GivenOption { name, value: None });
    match option {
        "H" => flag("hold"),
        "r" => flag("requeue"),
        "x" => flag("exclusive"),
        "B" => put(found, "mail-type", "BEGIN"),
        "N" => put(found, "mail-type", "END"),
        _ => {}
    }
}

fn value_of(name: &str, text: &str, found: &mut Vec<GivenOption>) {
    match name {
        "cwd" => put(found, "chdir", text),
        "e" => put(found, "error", text),
        "i" => put(found, "input", text),
        "o" => put(found, "output", text),
        "J" => job_name(text, found),
        "m" => put(found, "nodelist", text.split_whitespace().collect::<Vec<_>>().join(",")),
        "M" => {
            if let Ok(kib) = text.parse::<u64>() {
                put(found, "mem-per-cpu", kib.div_ceil(1024).to_string());
            }
        }
        "n" => put(found, "ntasks", text.split(',').next().unwrap_or_default()),
        "q" => put(found, "partition", text),
        "R" => tasks_on_a_node(text, found),
        "u" => put(found, "mail-user", text),
        "W" => put(found, "time", limit(text)),
        _ => {}
    }
}

/// `name[1-10]%2` is an array.
fn job_name(text: &str, found: &mut Vec<GivenOption>) {
    let Some((name, rest)) = text.split_once('[') else {
        return put(found, "job-name", text);
    };
    let Some((indexes, most)) = rest.split_once(']') else {
        return put(found, "job-name", text);
    };
    if !name.is_empty() {
        put(found, "job-name", name);
    }
    put(found, "array", format!("{indexes}{most}"));
}

/// `span[ptile=N]` among what is asked of nodes.
fn tasks_on_a_node(text: &str, found: &mut Vec<GivenOption>) {
    let Some((_, rest)) = text.split_once("ptile=") else {
        return;
    };
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    if !digits.is_empty() {
        put(found, "ntasks-per-node", digits);
    }
}

/// `[hours:]minutes`, with the name of a host or model behind a `/`.
fn limit(text: &str) -> String {
    let plain = text.split('/').next().unwrap_or_default();
    match plain.contains(':') {
        true => format!("{plain}:00"),
        false => plain.to_owned(),
    }
}
