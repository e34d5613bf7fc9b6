//! `noded.toml` as it is written, and what it says when it has been checked.

use super::devices::{Gpu, Other, Search, devices, gpu_search};
use super::values::{
    List, checked, length, number, one_of, parsed, path, size, text, texts, truth,
};
use super::{
    CgroupUse, Config, DEFAULT_KEY, DEFAULT_SPOOL, HookCommand, MIN_UID, Reserved, SAMPLE_INTERVAL,
    STALL_PERCENT, Sampling, StallAction, check_address, check_name,
};
use crate::cgroup::Processes;
use crate::private_tmp;
use crate::samples::energy::{self, EnergySearch, EnergySource};
use cosy_config::{Check, Faults, Raw};
use cosy_model::{CountedResources, Uid, limits};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::Spanned;

/// Most GPUs, where they are only counted.
const GPUS: u32 = 1024;
/// Longest run of a hook unless the configuration says otherwise.
const HOOK_TIMEOUT: Duration = Duration::from_secs(60);
/// Between two health checks unless the configuration says otherwise.
const HEALTH_INTERVAL: Duration = Duration::from_secs(300);

/// `reserved = { cores = 2, processors = "0-3", memory = "8G" }`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReservedFile {
    cores: Option<Raw>,
    processors: Option<Raw>,
    memory: Option<Raw>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: Option<Raw>,
    controller: Option<Raw>,
    controllers: Option<List>,
    controller_key: Option<Raw>,
    key: Option<Raw>,
    spool_dir: Option<Raw>,
    socket: Option<Raw>,
    step_socket: Option<Raw>,
    login_socket: Option<Raw>,
    listen: Option<Raw>,
    address: Option<Raw>,
    cores: Option<Raw>,
    memory: Option<Raw>,
    disk: Option<Raw>,
    reserved: Option<ReservedFile>,
    gpus: Option<Raw>,
    gpu_detect: Option<Raw>,
    #[serde(default)]
    gpu_types: BTreeMap<String, Raw>,
    gpu_shards: Option<Raw>,
    nvml_library: Option<Raw>,
    rocm_library: Option<Raw>,
    #[serde(default)]
    gpu: Vec<Spanned<Gpu>>,
    #[serde(default)]
    device: Vec<Spanned<Other>>,
    #[serde(default)]
    other: BTreeMap<String, Raw>,
    features: Option<List>,
    plugins: Option<List>,
    private_tmp: Option<List>,
    container_tool: Option<Raw>,
    prolog: Option<List>,
    epilog: Option<List>,
    health_check: Option<List>,
    hook_timeout: Option<Raw>,
    health_interval: Option<Raw>,
    sample_interval: Option<Raw>,
    memory_stall: Option<Raw>,
    memory_stall_action: Option<Raw>,
    gpu_idle_limit: Option<Raw>,
    gpu_idle_action: Option<Raw>,
    energy: Option<Raw>,
    energy_dir: Option<Raw>,
    cgroup: Option<Raw>,
    job_processes: Option<Raw>,
    min_uid: Option<Raw>,
    allow_root: Option<Raw>,
    log: Option<Raw>,
}

impl Config {
    /// Checks the text of a configuration file; relative paths are below the file's directory.
    ///
    /// # Errors
    /// All faults at once.
    pub fn parse(file: &Path, text: &str) -> Result<Self, Faults> {
        let mut check = Check::new(file, text, &["gpu", "device"]);
        let Some(file) = check.deserialize::<File>() else {
            return Err(check.into_faults());
        };
        match config(&mut check, &file) {
            Some(config) if check.is_good() => Ok(config),
            _ => {
                // A key that was there but wrong has its own fault already.
                if check.is_good() {
                    check.file_fault(format!("{} must be set", missing(&file).join(", ")));
                }
                Err(check.into_faults())
            }
        }
    }
}

/// What must be set and is not.
fn missing(file: &File) -> Vec<&'static str> {
    let all = [
        ("name", &file.name),
        ("controller", &file.controller),
        ("controller_key", &file.controller_key),
    ];
    let missing = all.into_iter().filter(|(_, value)| value.is_none());
    let instead = |key: &str| key == "controller" && file.controllers.is_some();
    missing
        .map(|(key, _)| key)
        .filter(|key| !instead(key))
        .collect()
}

/// What the file says; `None` without something that must be set.
fn config(check: &mut Check<'_>, file: &File) -> Option<Config> {
    let gpus = get(check, "gpus", &file.gpus, whole(0, GPUS));
    let other = other(check, &file.other);
    let devices = devices(check, (gpus, &file.gpu), (&other, &file.device));
    let keys = Search {
        told: gpus.is_some() || !file.gpu.is_empty(),
        detect: file.gpu_detect.as_ref(),
        types: &file.gpu_types,
        shards: file.gpu_shards.as_ref(),
        nvml: file.nvml_library.as_ref(),
        rocm: file.rocm_library.as_ref(),
    };
    let gpu_search = gpu_search(check, &keys);
    let name =
        get(check, "name", &file.name, |check, key, value| checked(check, key, value, check_name));
    let controllers = controllers(check, file);
    let controller_key = get(check, "controller_key", &file.controller_key, parsed);
    let config = Config {
        key: get(check, "key", &file.key, path).unwrap_or_else(|| DEFAULT_KEY.into()),
        spool_dir: get(check, "spool_dir", &file.spool_dir, path)
            .unwrap_or_else(|| DEFAULT_SPOOL.into()),
        socket: get(check, "socket", &file.socket, path),
        step_socket: get(check, "step_socket", &file.step_socket, path),
        login_socket: get(check, "login_socket", &file.login_socket, path),
        listen: get(check, "listen", &file.listen, listen),
        address: get(check, "address", &file.address, address),
        cores: get(check, "cores", &file.cores, whole(1, limits::NODE_CORES)),
        reserved: reserved(check, file.reserved.as_ref()),
        memory: get(check, "memory", &file.memory, size),
        disk: get(check, "disk", &file.disk, size),
        devices,
        gpu_search,
        other,
        features: get(check, "features", &file.features, texts).unwrap_or_default(),
        plugins: get(check, "plugins", &file.plugins, directories).unwrap_or_default(),
        private_tmp: get(check, "private_tmp", &file.private_tmp, directories).unwrap_or_default(),
        container_tool: get(check, "container_tool", &file.container_tool, |check, key, value| {
            checked(check, key, value, cosy_plugin::check_container_tool)
        }),
        prolog: get(check, "prolog", &file.prolog, hook),
        epilog: get(check, "epilog", &file.epilog, hook),
        health_check: get(check, "health_check", &file.health_check, hook),
        hook_timeout: get(check, "hook_timeout", &file.hook_timeout, length)
            .unwrap_or(HOOK_TIMEOUT),
        health_interval: get(check, "health_interval", &file.health_interval, length)
            .unwrap_or(HEALTH_INTERVAL),
        sampling: sampling(check, file),
        energy: energy(check, file),
        cgroups: get(check, "cgroup", &file.cgroup, cgroup).unwrap_or_default(),
        min_uid: get(check, "min_uid", &file.min_uid, whole(0, u32::MAX)).map_or(MIN_UID, Uid),
        allow_root: get(check, "allow_root", &file.allow_root, truth).unwrap_or_default(),
        job_processes: get(check, "job_processes", &file.job_processes, processes)
            .unwrap_or_default(),
        log: get(check, "log", &file.log, text).unwrap_or_else(|| "info".to_owned()),
        // Last, so that everything else has been checked.
        name: name?,
        controllers: controllers?,
        controller_key: controller_key?,
    };
    private_places(check, file, &config);
    Some(config)
}

/// What jobs need of this daemon is not where they have directories of their own.
fn private_places(check: &mut Check<'_>, file: &File, config: &Config) {
    let (steps, logins) = (config.step_socket(), config.login_socket());
    let mut needed = vec![
        ("spool_dir", config.spool_dir.as_path()),
        ("step_socket", &steps),
        ("login_socket", &logins),
    ];
    needed.extend(config.socket.as_deref().map(|path| ("socket", path)));
    let wrong = private_tmp::check(&config.private_tmp, &needed).err();
    if let (Some(list), Some(why)) = (&file.private_tmp, wrong) {
        check.fault(list.span().start, why);
    }
}

/// Reads a value that is there.
fn get<V, T>(
    check: &mut Check<'_>,
    key: &str,
    value: &Option<V>,
    read: impl FnOnce(&mut Check<'_>, &str, &V) -> Option<T>,
) -> Option<T> {
    read(check, key, value.as_ref()?)
}

/// Reads a whole number from `least` to `most`.
fn whole(least: u32, most: u32) -> impl FnOnce(&mut Check<'_>, &str, &Raw) -> Option<u32> {
    move |check, key, value| number(check, key, value, (least, most))
}

fn address(check: &mut Check<'_>, key: &str, value: &Raw) -> Option<String> {
    checked(check, key, value, |text| check_address(key, text))
}

/// One, or several.
fn controllers(check: &mut Check<'_>, file: &File) -> Option<Vec<String>> {
    let one = get(check, "controller", &file.controller, address);
    let Some(list) = &file.controllers else {
        return one.map(|one| vec![one]);
    };
    let at = list.span().start;
    if file.controller.is_some() {
        check.fault(at, "'controller' is set too: name all controllers in 'controllers' alone");
        return None;
    }
    let items = list.get_ref().iter();
    let all: Option<Vec<String>> = items
        .map(|item| address(check, "controllers", item))
        .collect();
    let all = all?;
    let twice = (1..all.len()).find_map(|n| {
        let (before, rest) = all.split_at(n);
        rest.first().filter(|address| before.contains(address))
    });
    let fault = match (all.len(), twice) {
        (0, _) => "controllers must name at least one".to_owned(),
        (n, _) if n > limits::CONTROLLERS => {
            format!("controllers has {n}: there are at most {}", limits::CONTROLLERS)
        }
        (_, Some(address)) => format!("controllers has '{address}' twice"),
        (_, None) => return Some(all),
    };
    check.fault(at, fault);
    None
}

/// Where to listen: an address of this host, not a name, and port 0 is allowed.
fn listen(check: &mut Check<'_>, key: &str, value: &Raw) -> Option<String> {
    checked(check, key, value, |text| {
        let address = text.parse::<std::net::SocketAddr>();
        address.map(drop).map_err(|e| {
            let shown: String = text.chars().take(100).collect();
            format!("listen '{}' is not IP:PORT (like \"[::]:7818\"): {e}", shown.escape_debug())
        })
    })
}

fn directories(check: &mut Check<'_>, key: &str, list: &List) -> Option<Vec<PathBuf>> {
    let all = texts(check, key, list)?;
    if all
        .iter()
        .any(|d| !d.starts_with('/') || d.contains([':', '\0']))
    {
        let what = format!("{key} must be absolute paths without ':'");
        check.fault(list.span().start, what);
    }
    Some(all.into_iter().map(PathBuf::from).collect())
}

fn reserved(check: &mut Check<'_>, file: Option<&ReservedFile>) -> Reserved {
    let Some(file) = file else {
        return Reserved::default();
    };
    let cores = get(check, "cores", &file.cores, whole(0, limits::NODE_CORES));
    let memory = get(check, "memory", &file.memory, size);
    Reserved {
        cores: cores.unwrap_or_default(),
        processors: get(check, "processors", &file.processors, processors).unwrap_or_default(),
        memory: memory.unwrap_or_default(),
    }
}

/// Numbers of processors as the kernel writes them, `0-3,8`.
fn processors(check: &mut Check<'_>, key: &str, value: &Raw) -> Option<Vec<u32>> {
    let text = text(check, key, value)?;
    let all = crate::bind::processors(&text);
    if all.is_none() {
        let shown: String = text.chars().take(60).collect();
        let what = format!(
            "{key} '{}' is no list of numbers below {} like '0-3,8'",
            shown.escape_debug(),
            limits::NODE_CORES
        );
        check.fault(value.span().start, what);
    }
    all
}

fn hook(check: &mut Check<'_>, key: &str, list: &List) -> Option<HookCommand> {
    let argv = texts(check, key, list)?;
    if !argv.first().is_some_and(|p| p.starts_with('/')) {
        let what = format!("{key} must begin with the absolute path of a program");
        check.fault(list.span().start, what);
        return None;
    }
    Some(HookCommand { argv })
}

fn other(check: &mut Check<'_>, table: &BTreeMap<String, Raw>) -> CountedResources {
    let mut other = CountedResources::default();
    for (name, amount) in table {
        if let Err(why) = cosy_model::device::check_name(name) {
            check.fault(amount.span().start, format!("other: {why}"));
        } else if let Some(n) = number(check, name, amount, (0, u32::MAX)) {
            other.set(name, n);
        }
    }
    other
}

fn cgroup(check: &mut Check<'_>, key: &str, value: &Raw) -> Option<CgroupUse> {
    let all = [
        ("auto", CgroupUse::Everything),
        ("memory", CgroupUse::Memory),
        ("none", CgroupUse::Nothing),
    ];
    one_of(check, key, value, &all)
}

fn sampling(check: &mut Check<'_>, file: &File) -> Sampling {
    let percent = get(check, "memory_stall", &file.memory_stall, whole(0, 100));
    let percent = percent.unwrap_or(STALL_PERCENT);
    Sampling {
        interval: get(check, "sample_interval", &file.sample_interval, pause)
            .unwrap_or(Some(SAMPLE_INTERVAL)),
        stall_limit: u16::try_from(percent * 10).ok().filter(|limit| *limit > 0),
        stall_action: get(check, "memory_stall_action", &file.memory_stall_action, stall_action)
            .unwrap_or_default(),
        gpu_idle_limit: get(check, "gpu_idle_limit", &file.gpu_idle_limit, pause).flatten(),
        gpu_idle_action: get(check, "gpu_idle_action", &file.gpu_idle_action, stall_action)
            .unwrap_or_default(),
    }
}

fn energy(check: &mut Check<'_>, file: &File) -> EnergySearch {
    let source = |check: &mut Check<'_>, key: &str, value: &Raw| {
        let all = [
            ("auto", EnergySource::Auto),
            ("rapl", EnergySource::Rapl),
            ("hwmon", EnergySource::Hwmon),
            ("off", EnergySource::Off),
        ];
        one_of(check, key, value, &all)
    };
    let directory = get(check, "energy_dir", &file.energy_dir, path);
    EnergySearch {
        source: get(check, "energy", &file.energy, source).unwrap_or_default(),
        directory: directory.unwrap_or_else(|| energy::CLASSES.into()),
    }
}

/// A length of time, or `off`.
fn pause(check: &mut Check<'_>, key: &str, value: &Raw) -> Option<Option<Duration>> {
    if value.get_ref().as_str() == Some("off") {
        return Some(None);
    }
    let pause = length(check, key, value)?;
    if pause < Duration::from_secs(1) {
        check.fault(value.span().start, format!("{key} is at least 1s, or 'off'"));
        return None;
    }
    Some(Some(pause))
}

fn stall_action(check: &mut Check<'_>, key: &str, value: &Raw) -> Option<StallAction> {
    let all = [("tell", StallAction::Tell), ("end", StallAction::End)];
    one_of(check, key, value, &all)
}

fn processes(check: &mut Check<'_>, key: &str, value: &Raw) -> Option<Processes> {
    Some(match number(check, key, value, (0, limits::PROCESSES))? {
        0 => Processes::Unlimited,
        most => Processes::Most(most),
    })
}
