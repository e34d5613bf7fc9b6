//! `--cpu-bind` and `--mem-bind`: what tasks are bound to. Source: srun(1), "--cpu-bind",
//! "--mem-bind"; observed.

use super::count::cut;
use super::{Fault, Line};
use cosy_model::step::GpuBind;

/// What tasks are bound to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum BindTarget {
    /// The cores of their step; also where a map or mask was given, which is not followed.
    #[default]
    Nothing,
    /// Their own cores.
    Cores,
    /// The cores around them.
    Sockets,
}

/// A value of `--cpu-bind`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CpuBind {
    /// What tasks are bound to.
    pub target: BindTarget,
    /// Each task tells it.
    pub verbose: bool,
    /// Only an explanation is wanted.
    pub help: bool,
}

/// Reads `verbose,cores`, `map_cpu:0,1`.
///
/// # Errors
/// A word that means nothing, or a map without a list.
pub fn read(text: &str) -> Result<CpuBind, Fault> {
    let mut bind = CpuBind::default();
    let mut in_list = false;
    for word in text.split([',', ';']).filter(|w| !w.is_empty()) {
        let small = word.to_ascii_lowercase();
        if let Some(kind) = small.split_once([':', '=']).map(|(kind, _)| kind) {
            in_list = matches!(kind, "map_cpu" | "mask_cpu" | "map_ldom" | "mask_ldom");
            match in_list {
                true => continue,
                false => return Err(unknown(word)),
            }
        }
        match small.as_str() {
            _ if in_list && small.starts_with(|c: char| c.is_ascii_hexdigit()) => {}
            "q" | "quiet" => bind.verbose = false,
            "v" | "verbose" => bind.verbose = true,
            "help" => bind.help = true,
            "no" | "none" => bind.target = BindTarget::Nothing,
            "cores" | "core" | "threads" | "thread" | "rank" => bind.target = BindTarget::Cores,
            "sockets" | "socket" | "ldoms" | "ldom" | "rank_ldom" => {
                bind.target = BindTarget::Sockets
            }
            "boards" | "board" | "one_thread" => {}
            "map_cpu" | "mask_cpu" | "map_ldom" | "mask_ldom" => {
                return Err(failed(format!("missing list for \"--cpu-bind={small}:<list>\"")));
            }
            _ => return Err(unknown(word)),
        }
    }
    Ok(bind)
}

fn unknown(word: &str) -> Fault {
    let word = cut(word);
    failed(format!("unrecognized --cpu-bind argument \"{word}\""))
}

fn failed(why: String) -> Fault {
    let mut fault = Fault::fatal("Failed to parse --cpu-bind= values.");
    fault.lines.insert(0, Line::Error(why));
    fault
}

/// A value of `--gpu-bind` without the resource that other interfaces write before it.
pub fn without_resource(text: &str) -> &str {
    text.strip_prefix("gres/gpu:").unwrap_or(text)
}

/// Reads a value of `--gpu-bind`, also as other interfaces write it (`gres/gpu:closest`).
///
/// # Errors
/// What Slurm says to a value that it does not take, with what is wrong with it.
pub fn gpus(text: &str) -> Result<GpuBind, Fault> {
    let text = without_resource(text);
    text.parse().map_err(|why| {
        let mut fault = Fault::fatal("Invalid --gpu-bind argument: ".to_owned() + &cut(text));
        fault.lines.insert(0, Line::Error(why));
        fault
    })
}

/// Reads a value of `--accel-bind`: `g` binds to the closest GPUs, `n` is for network devices.
///
/// # Errors
/// A letter that means nothing.
pub fn accelerators(text: &str) -> Result<GpuBind, Fault> {
    if text.is_empty() || !text.chars().all(|c| "gnv".contains(c)) {
        return Err(Fault::error(format!("Invalid --accel-bind specification: {}", cut(text))));
    }
    Ok(match text.contains('g') {
        true => GpuBind::Closest,
        false => GpuBind::Default,
    })
}

/// Checks a value of `--mem-bind`, which nothing is done with.
///
/// # Errors
/// As for `--cpu-bind`.
pub fn check_memory(text: &str) -> Result<(), Fault> {
    let mut in_list = false;
    for word in text.split([',', ';']).filter(|w| !w.is_empty()) {
        let small = word.to_ascii_lowercase();
        let kind = small.split_once([':', '=']).map(|(kind, _)| kind);
        in_list |= matches!(kind, Some("map_mem" | "mask_mem"));
        match small.as_str() {
            _ if in_list => {}
            "q" | "quiet" | "v" | "verbose" | "no" | "none" | "rank" | "local" | "sort"
            | "nosort" | "p" | "prefer" | "help" => {}
            "map_mem" | "mask_mem" => {
                let text = format!("missing list for \"--mem-bind={small}:<list>\"");
                return Err(Fault::value(text));
            }
            _ => {
                let word = cut(word);
                let text = format!("unrecognized --mem-bind argument \"{word}\"");
                return Err(Fault::value(text));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::submit::Program;

    #[test]
    fn cores() {
        let check = |text: &str, target, verbose| {
            let bind = read(text).unwrap();
            assert_eq!((bind.target, bind.verbose), (target, verbose), "{text}");
        };
        check("verbose", BindTarget::Nothing, true);
        check("v,cores", BindTarget::Cores, true);
        check("quiet", BindTarget::Nothing, false);
        check("none", BindTarget::Nothing, false);
        check("Sockets", BindTarget::Sockets, false);
        check("v,map_cpu:0,1", BindTarget::Nothing, true);
        check("mask_cpu:0x3,c", BindTarget::Nothing, false);
        check("", BindTarget::Nothing, false);
        assert!(read("help").unwrap().help);
    }

    #[test]
    fn gpus_of_tasks() {
        assert_eq!(gpus("closest").unwrap(), GpuBind::Closest);
        assert_eq!(gpus("gres/gpu:single:2").unwrap(), GpuBind::Single(2));
        let fault = gpus("foo").unwrap_err().text(Program::Srun);
        assert!(fault.ends_with("srun: fatal: Invalid --gpu-bind argument: foo\n"), "{fault}");
        assert_eq!(accelerators("gv").unwrap(), GpuBind::Closest);
        assert_eq!(accelerators("n").unwrap(), GpuBind::Default);
        assert!(accelerators("x").is_err() && accelerators("").is_err());
    }

    #[test]
    fn mistakes_as_observed() {
        let check = |text: &str, want: &str| {
            let fault = read(text).unwrap_err();
            let end = "srun: fatal: Failed to parse --cpu-bind= values.\n";
            let got = fault.text(Program::Srun);
            assert_eq!((got, fault.code), (format!("srun: error: {want}\n{end}"), 1));
        };
        check("foo", "unrecognized --cpu-bind argument \"foo\"");
        check("foo:1", "unrecognized --cpu-bind argument \"foo:1\"");
        check("map_cpu", "missing list for \"--cpu-bind=map_cpu:<list>\"");
        let check = |text: &str, want: Result<(), &str>| {
            let got = check_memory(text);
            assert_eq!(got, want.map_err(Fault::value), "{text}");
        };
        check("local,verbose", Ok(()));
        check("map_mem:0,1", Ok(()));
        check("foo", Err("unrecognized --mem-bind argument \"foo\""));
        check("map_mem", Err("missing list for \"--mem-bind=map_mem:<list>\""));
    }
}
