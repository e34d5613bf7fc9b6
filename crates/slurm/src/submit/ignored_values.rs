//! Values of options that change nothing here: what the original refuses is refused all the
//! same, since a script with such a mistake means something else than it says. Source:
//! sbatch(1), srun(1); observed.

use super::count::cut;
use super::{Fault, Line, times};
use crate::getopt::GivenOption;

/// Looks at a value.
///
/// # Errors
/// What the original says of it.
pub fn check(found: &GivenOption) -> Result<(), Fault> {
    let text = found.text();
    match found.name {
        "extra-node-info" => parts(&text),
        "threads" => number(&text, 1, found.name),
        "cpu-freq" => frequencies(&text),
        "profile" => profile(&text),
        "delay-boot" => match times::limit(&text) {
            Some(_) => Ok(()),
            None => Err(Fault::specification("delay-boot")),
        },
        "hint" => hint(&text),
        _ => Ok(()),
    }
}

fn number(text: &str, least: u32, option: &str) -> Result<(), Fault> {
    match text.trim().parse::<u32>() {
        Ok(n) if n >= least => Ok(()),
        Ok(_) | Err(_) => {
            Err(Fault::error(format!("Invalid numeric value \"{}\" for --{option}.", cut(text))))
        }
    }
}

/// `S[:C[:T]]`, each a number, a range or `*`.
fn parts(text: &str) -> Result<(), Fault> {
    const PLACES: [&str; 3] = ["first", "second", "third"];
    for (part, place) in text.split(':').zip(PLACES) {
        let range = part.split('-').all(|n| n.parse::<u32>().is_ok());
        if part != "*" && !range {
            let part = cut(part);
            return Err(Fault::error(format!(
                "Invalid numeric value \"{part}\" for {place} arg of -B."
            )));
        }
    }
    Ok(())
}

/// `high`, `1000-2000:performance`: clock rates and how they are chosen.
fn frequencies(text: &str) -> Result<(), Fault> {
    const WORDS: [&str; 10] = [
        "low",
        "medium",
        "highm1",
        "high",
        "conservative",
        "ondemand",
        "performance",
        "powersave",
        "schedutil",
        "userspace",
    ];
    for word in text.split(['-', ':', ',']) {
        let known = WORDS.iter().any(|w| w.eq_ignore_ascii_case(word));
        if !known && !word.starts_with(|c: char| c.is_ascii_digit()) {
            let mut fault = Fault::value("Invalid --cpu-freq argument");
            let line = format!("unrecognized --cpu-freq argument \"{}\"", cut(word));
            fault.lines.insert(0, Line::Error(line));
            return Err(fault);
        }
    }
    Ok(())
}

fn profile(text: &str) -> Result<(), Fault> {
    const KINDS: [&str; 7] = [
        "none",
        "all",
        "energy",
        "task",
        "lustre",
        "filesystem",
        "network",
    ];
    let known = |word: &str| KINDS.iter().any(|k| k.eq_ignore_ascii_case(word));
    match text.split(',').all(known) {
        true => Ok(()),
        false => Err(Fault::value(format!("invalid --profile={} option", cut(text)))),
    }
}

fn hint(text: &str) -> Result<(), Fault> {
    const HINTS: [&str; 4] = [
        "compute_bound",
        "memory_bound",
        "multithread",
        "nomultithread",
    ];
    if HINTS.contains(&text) {
        return Ok(());
    }
    Err(Fault::error(format!("unrecognized --hint argument \"{}\", see --hint=help", cut(text))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::submit::Program;

    #[test]
    fn values_as_observed() {
        let told = |name: &'static str, text: &str| {
            let found = GivenOption {
                name,
                value: Some(text.into()),
            };
            check(&found).err().map(|fault| {
                let text = fault.text(Program::Srun).replace("srun: error: ", "");
                (fault.code, text.trim_end().replace('\n', "|"))
            })
        };
        let good = |name, text| assert_eq!(told(name, text), None, "{text}");
        let bad = |name, text, code, want: &str| {
            assert_eq!(told(name, text), Some((code, want.to_owned())), "{text}");
        };
        good("extra-node-info", "1:2:1");
        good("extra-node-info", "*:*");
        good("extra-node-info", "1:2:3:4");
        bad("extra-node-info", "1:x", 1, "Invalid numeric value \"x\" for second arg of -B.");
        bad("threads", "0", 1, "Invalid numeric value \"0\" for --threads.");
        good("cpu-freq", "1000-2000:performance");
        good("cpu-freq", "10k");
        good("cpu-freq", "low-high");
        bad(
            "cpu-freq",
            "1000-foo",
            255,
            "unrecognized --cpu-freq argument \"foo\"|Invalid --cpu-freq argument",
        );
        good("profile", "none,task");
        bad("profile", "foo", 255, "invalid --profile=foo option");
        good("delay-boot", "1:00");
        bad("delay-boot", "foo", 255, "Invalid --delay-boot specification");
    }
}
