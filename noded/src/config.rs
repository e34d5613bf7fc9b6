//! The node's configuration: one flat TOML file. Every fault is told with its line.
//!
//! Knows the file and the defaults; what the machine has is found by [`crate::detect`].

mod devices;

use crate::cgroup::Processes;
use crate::devices::Devices;
use cosy_model::node::Allocation;
use cosy_model::{Counted, Gid, MiB, Span, Uid};
use cosy_plugin::Plugins;
use cosy_proto::keys::PublicKey;
use std::ffi::OsString;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Where the configuration is unless the command line says otherwise.
pub const DEFAULT_FILE: &str = "/etc/cosy/noded.toml";
/// Where the private key is unless the configuration says otherwise.
pub const DEFAULT_KEY: &str = "/var/lib/cosy/noded.key";
/// Where attempts are kept unless the configuration says otherwise.
pub const DEFAULT_SPOOL: &str = "/var/spool/cosy";
/// The variable that tells where the node reaches the controller.
pub const CONTROLLER: &str = "COSY_CONTROLLER";
/// The lowest uid whose jobs run here unless the configuration says otherwise: below are
/// the system's own users (UID_MIN of login.defs(5)).
const MIN_UID: Uid = Uid(1000);
/// Largest configuration file, in bytes.
const FILE_BYTES: u64 = 1 << 20;

/// A program that the administrator has run at certain moments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HookCommand {
    /// Program and arguments; no shell.
    pub argv: Vec<String>,
}

/// What control groups are used for, where there are some.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CgroupUse {
    /// Finding processes, limits of memory and of cores.
    #[default]
    Everything,
    /// Finding processes and limits of memory: several nodes share one machine's cores,
    /// so that numbers of cores mean nothing.
    Memory,
    /// Nothing.
    Nothing,
}

/// The configuration of one daemon.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// Name of the node; with virtual nodes what stands before their number.
    pub name: String,
    /// The controller, `HOST:PORT`.
    pub controller: String,
    /// Its public key.
    pub controller_key: PublicKey,
    /// File with the private key of this host.
    pub key: PathBuf,
    /// Where attempts are kept.
    pub spool_dir: PathBuf,
    /// Socket for commands on this host.
    pub socket: Option<PathBuf>,
    /// Socket for steps; beside `socket` or in the spool without.
    pub step_socket: Option<PathBuf>,
    /// Where other nodes connect, `HOST:PORT`; port 0: any free one.
    pub listen: Option<String>,
    /// What other nodes are told instead of where this one listens.
    pub address: Option<String>,
    /// Cores, else as many as there are.
    pub cores: Option<u32>,
    /// Memory, else what there is.
    pub memory: Option<MiB>,
    /// Disk, else what the spool's file system has.
    pub disk: Option<MiB>,
    /// GPUs and other things with numbers.
    pub devices: Devices,
    /// Other countable resources.
    pub other: Counted,
    /// Features.
    pub features: Vec<String>,
    /// Directories of MPI plugins, the most important one first; the usual ones without.
    pub plugins: Vec<PathBuf>,
    /// Before each job, as root.
    pub prolog: Option<HookCommand>,
    /// After each job, as root.
    pub epilog: Option<HookCommand>,
    /// Before each job and from time to time.
    pub health_check: Option<HookCommand>,
    /// Longest run of a hook.
    pub hook_timeout: Duration,
    /// Between two health checks.
    pub health_interval: Duration,
    /// What control groups are used for.
    pub cgroups: CgroupUse,
    /// Jobs of users with a lower uid do not run here; root is a case of its own.
    pub min_uid: Uid,
    /// Jobs of root, and with root's group, run here.
    pub allow_root: bool,
    /// Most processes and threads of a job here.
    pub job_processes: Processes,
    /// What to log.
    pub log: String,
}

/// One thing that is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// Line, from 1; 0 when it is about the whole file.
    pub line: usize,
    /// The fault in one sentence, for the administrator.
    pub text: String,
}

/// Everything that is wrong with a file.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub struct Faults {
    /// The file.
    pub file: PathBuf,
    /// At least one.
    pub faults: Vec<Fault>,
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, fault) in self.faults.iter().enumerate() {
            let newline = if at > 0 { "\n" } else { "" };
            write!(f, "{newline}{}", self.file.display())?;
            if fault.line > 0 {
                write!(f, ":{}", fault.line)?;
            }
            write!(f, ": {}", fault.text)?;
        }
        Ok(())
    }
}

/// Reads a configuration file.
///
/// # Errors
/// All faults at once.
pub fn read(file: &Path) -> Result<Config, Faults> {
    let whole = |text: String| Faults {
        file: file.to_owned(),
        faults: vec![Fault { line: 0, text }],
    };
    let length = std::fs::metadata(file).map_err(|e| whole(e.to_string()))?;
    if length.len() > FILE_BYTES {
        return Err(whole(format!(
            "{} bytes are more than a configuration has",
            length.len()
        )));
    }
    let text = std::fs::read_to_string(file).map_err(|e| whole(e.to_string()))?;
    let base = file.parent().unwrap_or(Path::new("."));
    parse(&text, base).map_err(|faults| Faults {
        file: file.to_owned(),
        faults,
    })
}

/// Reads the text of a configuration; relative paths are below `base`.
///
/// # Errors
/// All faults at once.
pub fn parse(text: &str, base: &Path) -> Result<Config, Vec<Fault>> {
    let line = |span: &Range<usize>| line_of(text, span.start);
    let table = DeTable::parse(text).map_err(|e| {
        vec![Fault {
            line: e.span().map_or(0, |s| line(&s)),
            text: e.message().to_owned(),
        }]
    })?;
    let mut reader = Reader {
        text,
        base,
        faults: Vec::new(),
        draft: Draft::default(),
    };
    for (key, value) in table.get_ref() {
        reader.take(key, value);
    }
    reader.finish()
}

fn line_of(text: &str, at: usize) -> usize {
    let before = text.as_bytes().get(..at).unwrap_or_default();
    before.iter().filter(|b| **b == b'\n').count() + 1
}

#[derive(Default)]
struct Draft {
    name: Option<String>,
    controller: Option<String>,
    controller_key: Option<PublicKey>,
    key: Option<PathBuf>,
    spool_dir: Option<PathBuf>,
    socket: Option<PathBuf>,
    step_socket: Option<PathBuf>,
    listen: Option<String>,
    address: Option<String>,
    cores: Option<u32>,
    memory: Option<MiB>,
    disk: Option<MiB>,
    gpus: Option<u32>,
    devices: Devices,
    other: Counted,
    features: Vec<String>,
    plugins: Vec<PathBuf>,
    prolog: Option<HookCommand>,
    epilog: Option<HookCommand>,
    health_check: Option<HookCommand>,
    hook_timeout: Option<Duration>,
    health_interval: Option<Duration>,
    cgroups: CgroupUse,
    min_uid: Option<u32>,
    allow_root: bool,
    job_processes: Processes,
    log: Option<String>,
}

type Value<'a> = Spanned<DeValue<'a>>;

struct Reader<'t> {
    text: &'t str,
    base: &'t Path,
    faults: Vec<Fault>,
    draft: Draft,
}

const KEYS: &str = "name, controller, controller_key, key, spool_dir, socket, step_socket, \
    listen, address, cores, memory, disk, \
    gpus, gpu, device, other, features, plugins, prolog, epilog, health_check, hook_timeout, health_interval, \
    cgroup, job_processes, min_uid, allow_root, log";

impl Reader<'_> {
    fn fault(&mut self, span: &Range<usize>, text: String) {
        self.faults.push(Fault {
            line: line_of(self.text, span.start),
            text,
        });
    }

    fn take(&mut self, key: &Spanned<std::borrow::Cow<'_, str>>, value: &Value<'_>) {
        let name: &str = key.get_ref();
        match name {
            "name" => self.draft.name = self.node_name(value),
            "controller" => self.draft.controller = self.address(name, value),
            "controller_key" => self.draft.controller_key = self.parsed(name, value),
            "key" => self.draft.key = self.path(name, value),
            "spool_dir" => self.draft.spool_dir = self.path(name, value),
            "socket" => self.draft.socket = self.path(name, value),
            "step_socket" => self.draft.step_socket = self.path(name, value),
            "listen" => self.draft.listen = self.listen(value),
            "address" => self.draft.address = self.address(name, value),
            "cores" => {
                self.draft.cores =
                    self.number(name, value, 1, i64::from(cosy_model::limits::NODE_CORES));
            }
            "memory" => self.draft.memory = self.size(name, value),
            "disk" => self.draft.disk = self.size(name, value),
            "gpus" => self.draft.gpus = self.number(name, value, 0, 1024),
            "gpu" => self.gpus(value),
            "device" => self.devices(value),
            "other" => self.other(value),
            "features" => self.draft.features = self.texts(name, value).unwrap_or_default(),
            "plugins" => self.draft.plugins = self.directories(name, value),
            "prolog" => self.draft.prolog = self.hook(name, value),
            "epilog" => self.draft.epilog = self.hook(name, value),
            "health_check" => self.draft.health_check = self.hook(name, value),
            "hook_timeout" => self.draft.hook_timeout = self.span(name, value),
            "health_interval" => self.draft.health_interval = self.span(name, value),
            "cgroup" => self.cgroup(value),
            "min_uid" => self.draft.min_uid = self.number(name, value, 0, i64::from(u32::MAX)),
            "allow_root" => match value.get_ref() {
                DeValue::Boolean(allowed) => self.draft.allow_root = *allowed,
                _ => self.fault(&value.span(), "allow_root is true or false".to_owned()),
            },
            "job_processes" => self.job_processes(value),
            "log" => self.draft.log = self.string(name, value),
            _ => self.fault(
                &key.span(),
                format!("unknown key '{name}': there are {KEYS}"),
            ),
        }
    }

    fn string(&mut self, name: &str, value: &Value<'_>) -> Option<String> {
        match value.get_ref() {
            DeValue::String(text) => Some(text.to_string()),
            other => {
                let text = format!("{name} must be a text, not {}", other.type_str());
                self.fault(&value.span(), text);
                None
            }
        }
    }

    fn parsed<T: std::str::FromStr<Err: fmt::Display>>(
        &mut self,
        name: &str,
        value: &Value<'_>,
    ) -> Option<T> {
        let text = self.string(name, value)?;
        match text.parse() {
            Ok(parsed) => Some(parsed),
            Err(e) => {
                self.fault(&value.span(), format!("{name}: {e}"));
                None
            }
        }
    }

    fn node_name(&mut self, value: &Value<'_>) -> Option<String> {
        let name = self.string("name", value)?;
        if let Err(why) = check_name(&name) {
            self.fault(&value.span(), why);
            return None;
        }
        Some(name)
    }

    fn address(&mut self, name: &str, value: &Value<'_>) -> Option<String> {
        let text = self.string(name, value)?;
        if let Err(why) = check_address(name, &text) {
            self.fault(&value.span(), why);
            return None;
        }
        Some(text)
    }

    /// Where to listen: an address of this host, not a name, and port 0 is allowed.
    fn listen(&mut self, value: &Value<'_>) -> Option<String> {
        let text = self.string("listen", value)?;
        if let Err(e) = text.parse::<std::net::SocketAddr>() {
            let text = format!(
                "listen '{}' is not IP:PORT (like \"[::]:7818\"): {e}",
                text.chars().take(100).collect::<String>().escape_debug()
            );
            self.fault(&value.span(), text);
            return None;
        }
        Some(text)
    }

    fn path(&mut self, name: &str, value: &Value<'_>) -> Option<PathBuf> {
        let text = self.string(name, value)?;
        if text.is_empty() || text.contains('\0') {
            self.fault(&value.span(), format!("{name} is no path"));
            return None;
        }
        let joined = self.base.join(text);
        std::path::absolute(&joined).ok().or(Some(joined))
    }

    fn number(&mut self, name: &str, value: &Value<'_>, least: i64, most: i64) -> Option<u32> {
        let number = match value.get_ref() {
            DeValue::Integer(n) => i64::from_str_radix(n.as_str(), n.radix()).ok(),
            _ => None,
        };
        let good = number.filter(|n| (least..=most).contains(n));
        if good.is_none() {
            self.fault(
                &value.span(),
                format!("{name} must be a whole number from {least} to {most}"),
            );
        }
        good.and_then(|n| u32::try_from(n).ok())
    }

    fn size(&mut self, name: &str, value: &Value<'_>) -> Option<MiB> {
        match value.get_ref() {
            DeValue::Integer(_) => self
                .number(name, value, 0, i64::from(u32::MAX))
                .map(|n| MiB(u64::from(n))),
            _ => self.parsed(name, value),
        }
    }

    fn span(&mut self, name: &str, value: &Value<'_>) -> Option<Duration> {
        let span: Span = self.parsed(name, value)?;
        if span.ms() <= 0 || span.is_unlimited() {
            self.fault(
                &value.span(),
                format!("{name} must be more than nothing and have an end"),
            );
            return None;
        }
        Some(Duration::from_millis(span.ms().unsigned_abs()))
    }

    fn texts(&mut self, name: &str, value: &Value<'_>) -> Option<Vec<String>> {
        let DeValue::Array(items) = value.get_ref() else {
            self.fault(&value.span(), format!("{name} must be a list of texts"));
            return None;
        };
        items.iter().map(|item| self.string(name, item)).collect()
    }

    fn directories(&mut self, name: &str, value: &Value<'_>) -> Vec<PathBuf> {
        let all = self.texts(name, value).unwrap_or_default();
        if all
            .iter()
            .any(|d| !d.starts_with('/') || d.contains([':', '\0']))
        {
            let text = format!("{name} must be absolute paths without ':'");
            self.fault(&value.span(), text);
        }
        all.into_iter().map(PathBuf::from).collect()
    }

    fn hook(&mut self, name: &str, value: &Value<'_>) -> Option<HookCommand> {
        let argv = self.texts(name, value)?;
        if !argv.first().is_some_and(|p| p.starts_with('/')) {
            self.fault(
                &value.span(),
                format!("{name} must begin with the absolute path of a program"),
            );
            return None;
        }
        Some(HookCommand { argv })
    }

    fn other(&mut self, value: &Value<'_>) {
        let DeValue::Table(table) = value.get_ref() else {
            let text = "other must be a table like {fpga = 2}".to_owned();
            return self.fault(&value.span(), text);
        };
        for (name, amount) in table {
            let span = name.span();
            let name: &str = name.get_ref();
            if let Err(why) = cosy_model::device::check_name(name) {
                self.fault(&span, format!("other: {why}"));
            } else if let Some(n) = self.number(name, amount, 0, i64::from(u32::MAX)) {
                self.draft.other.set(name, n);
            }
        }
    }

    fn cgroup(&mut self, value: &Value<'_>) {
        match self.string("cgroup", value).as_deref() {
            Some("auto") | None => {}
            Some("memory") => self.draft.cgroups = CgroupUse::Memory,
            Some("none") => self.draft.cgroups = CgroupUse::Nothing,
            Some(other) => {
                let text = format!("cgroup is 'auto', 'memory' or 'none', not '{other}'");
                self.fault(&value.span(), text);
            }
        }
    }

    fn job_processes(&mut self, value: &Value<'_>) {
        let most = i64::from(cosy_model::limits::PROCESSES);
        match self.number("job_processes", value, 0, most) {
            Some(0) => self.draft.job_processes = Processes::Unlimited,
            Some(most) => self.draft.job_processes = Processes::Most(most),
            None => {}
        }
    }

    /// A fault of the file as a whole.
    fn whole(&mut self, text: String) {
        self.faults.push(Fault { line: 0, text });
    }

    fn finish(mut self) -> Result<Config, Vec<Fault>> {
        self.settle_devices();
        let missing: Vec<_> = [
            ("name", self.draft.name.is_none()),
            ("controller", self.draft.controller.is_none()),
            ("controller_key", self.draft.controller_key.is_none()),
        ]
        .into_iter()
        .filter(|(_, is)| *is)
        .map(|(name, _)| name)
        .collect();
        // A key that was there but wrong has its own fault already.
        if self.faults.is_empty() && !missing.is_empty() {
            self.whole(format!("{} must be set", missing.join(", ")));
        }
        let draft = self.draft;
        match (draft.name, draft.controller, draft.controller_key) {
            (Some(name), Some(controller), Some(controller_key)) if self.faults.is_empty() => {
                Ok(Config {
                    name,
                    controller,
                    controller_key,
                    key: draft.key.unwrap_or_else(|| DEFAULT_KEY.into()),
                    spool_dir: draft.spool_dir.unwrap_or_else(|| DEFAULT_SPOOL.into()),
                    socket: draft.socket,
                    step_socket: draft.step_socket,
                    listen: draft.listen,
                    address: draft.address,
                    cores: draft.cores,
                    memory: draft.memory,
                    disk: draft.disk,
                    devices: draft.devices,
                    other: draft.other,
                    features: draft.features,
                    plugins: draft.plugins,
                    prolog: draft.prolog,
                    epilog: draft.epilog,
                    health_check: draft.health_check,
                    hook_timeout: draft.hook_timeout.unwrap_or(Duration::from_secs(60)),
                    health_interval: draft.health_interval.unwrap_or(Duration::from_secs(300)),
                    cgroups: draft.cgroups,
                    min_uid: draft.min_uid.map_or(MIN_UID, Uid),
                    allow_root: draft.allow_root,
                    job_processes: draft.job_processes,
                    log: draft.log.unwrap_or_else(|| "info".into()),
                })
            }
            _ => {
                self.faults.sort_by_key(|f| f.line);
                Err(self.faults)
            }
        }
    }
}

/// Checks the name of a node: it becomes a directory and part of host lists.
///
/// # Errors
/// In one line.
pub fn check_name(name: &str) -> Result<(), String> {
    let good = !name.is_empty()
        && name.len() <= 64
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
        && name.as_bytes()[0].is_ascii_alphanumeric();
    good.then_some(()).ok_or_else(|| {
        format!(
            "'{}' is no name of a node: up to 64 letters, digits, '-', '_' and '.', beginning with a letter or digit",
            name.chars().take(70).collect::<String>().escape_debug()
        )
    })
}

impl Config {
    /// Where jobs on this node find MPI plugins, as [`cosy_plugin::PATH_VARIABLE`] holds
    /// it: as configured, else as this daemon's own environment says, else the usual
    /// places.
    pub fn plugin_path(&self) -> OsString {
        if !self.plugins.is_empty() {
            return Plugins::new(self.plugins.clone()).path();
        }
        let variable = std::env::var_os(cosy_plugin::PATH_VARIABLE);
        let program = std::env::current_exe().ok();
        Plugins::search(variable.as_deref(), program.as_deref()).path()
    }

    /// What everything that runs on this node is told of it, `NAME=value`.
    pub fn variables(&self) -> Vec<String> {
        let mut all = vec![
            format!("COSY_NODENAME={}", self.name),
            format!("COSY_STEP_SOCKET={}", self.step_socket().display()),
            format!("{CONTROLLER}={}", self.controller),
        ];
        if let Some(socket) = &self.socket {
            all.push(format!("COSY_SOCKET={}", socket.display()));
        }
        if self.cgroups == CgroupUse::Memory {
            all.push("COSY_MACHINE_SHARED=1".to_owned());
        }
        all
    }

    /// Whether a node daemon that runs as root runs something with that identity, whoever
    /// signed it: the last line against a controller in wrong hands.
    ///
    /// # Errors
    /// In one line, which key of the configuration says no.
    pub fn may_run(&self, allocation: &Allocation) -> Result<(), String> {
        let groups = allocation.groups.iter().copied();
        self.may_run_as(allocation.uid, allocation.gid, groups)
    }

    fn may_run_as(
        &self,
        uid: Uid,
        gid: Gid,
        mut groups: impl Iterator<Item = Gid>,
    ) -> Result<(), String> {
        let group = gid.0 == 0 || groups.any(|group| group.0 == 0);
        let why = if uid.0 == 0 && !self.allow_root {
            "'allow_root' in its noded.toml is not set: nothing runs there as root".to_owned()
        } else if group && !self.allow_root {
            format!("'allow_root' in its noded.toml is not set: uid {uid} has root's group (0)")
        } else if uid.0 != 0 && uid < self.min_uid {
            let least = self.min_uid;
            format!("uid {uid} is below 'min_uid' ({least}) in its noded.toml")
        } else {
            return Ok(());
        };
        Err(format!("node {} refuses: {why}", self.name))
    }

    /// Where the socket for steps is: as configured, else beside the socket for commands,
    /// else in the spool, so that there is always one.
    pub fn step_socket(&self) -> PathBuf {
        match (&self.step_socket, &self.socket) {
            (Some(path), _) => path.clone(),
            (None, Some(socket)) => beside(socket),
            (None, None) => self.spool_dir.join(&self.name).join("steps.sock"),
        }
    }
}

/// `/run/cosy/noded.sock` gives `/run/cosy/noded.steps.sock`.
fn beside(socket: &Path) -> PathBuf {
    let extension = match socket.extension() {
        Some(old) => format!("steps.{}", old.to_string_lossy()),
        None => "steps".to_owned(),
    };
    socket.with_extension(extension)
}

/// Checks `HOST:PORT`, the value of `key`.
///
/// # Errors
/// In one line.
pub fn check_address(key: &str, text: &str) -> Result<(), String> {
    let good = text
        .rsplit_once(':')
        .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok_and(|p| p > 0));
    good.then_some(()).ok_or_else(|| {
        let shown: String = text.chars().take(100).collect();
        format!("{key} '{}' is not HOST:PORT", shown.escape_debug())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

    fn faults(text: &str) -> Vec<(usize, String)> {
        match parse(text, Path::new("/etc")) {
            Ok(_) => Vec::new(),
            Err(faults) => faults.into_iter().map(|f| (f.line, f.text)).collect(),
        }
    }

    #[test]
    fn a_whole_configuration() {
        let text = format!(
            "name = 'n1'\ncontroller = 'h:7817'\ncontroller_key = '{KEY}'\nkey = 'k'\nmemory = '2G'\n\
             cores = 4\nother = {{ fpga = 2 }}\nprolog = ['/bin/true', 'x']\nhook_timeout = '5s'\ncgroup = 'none'\n"
        );
        let config = parse(&text, Path::new("/etc/cosy")).unwrap();
        assert_eq!(config.key, Path::new("/etc/cosy/k"));
        assert_eq!(config.memory, Some(MiB(2048)));
        assert_eq!(config.other.get("fpga"), 2);
        assert_eq!(config.hook_timeout, Duration::from_secs(5));
        assert_eq!(config.cgroups, CgroupUse::Nothing);
        assert_eq!(config.spool_dir, Path::new(DEFAULT_SPOOL));
    }

    #[test]
    fn every_fault_has_its_line() {
        let text = "name = 'a/b'\nfoo = 1\ncores = 0\ncontroller = 'x'\nmemory = 'lots'\nprolog = 'x'\n\
            controller_key = 'zz'\nhealth_interval = 'unlimited'\ncgroup = 'v3'\nfeatures = [1]\n";
        let found: Vec<usize> = faults(text).into_iter().map(|(line, _)| line).collect();
        assert_eq!(found, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
        let (line, text) = &faults("name = 'n1'\n= 3\n")[0];
        assert_eq!(*line, 2, "{text}");
        assert_eq!(
            faults("name = 'n1'"),
            [(0, "controller, controller_key must be set".to_owned())]
        );
    }

    #[test]
    fn there_is_always_a_socket_for_steps() {
        let check = |extra: &str, expected: &str| {
            let text = format!(
                "name = 'n1'\ncontroller = 'h:1'\ncontroller_key = '{KEY}'\nspool_dir = '/s'\n{extra}"
            );
            let config = parse(&text, Path::new("/etc")).unwrap();
            assert_eq!(config.step_socket(), Path::new(expected), "{extra}");
        };
        check(
            "socket = '/run/cosy/noded.sock'",
            "/run/cosy/noded.steps.sock",
        );
        check("socket = '/run/a'", "/run/a.steps");
        check("socket = '/run/a'\nstep_socket = '/run/b'", "/run/b");
        check("", "/s/n1/steps.sock");
        assert_eq!(faults("listen = 'host:1'\naddress = 'x'")[0].0, 1);
        assert_eq!(faults("listen = '127.0.0.1:0'\naddress = 'x'")[0].0, 2);
    }

    #[test]
    fn who_may_run() {
        let check = |extra: &str, (uid, gid, more): (u32, u32, &[u32]), want: Option<&str>| {
            let text =
                format!("name = 'n1'\ncontroller = 'h:1'\ncontroller_key = '{KEY}'\n{extra}");
            let config = parse(&text, Path::new("/etc")).unwrap();
            let got = config.may_run_as(Uid(uid), Gid(gid), more.iter().map(|g| Gid(*g)));
            match want {
                None => assert_eq!(got, Ok(()), "{extra} {uid}"),
                Some(key) => assert!(got.unwrap_err().contains(key), "{extra} {uid}"),
            }
        };
        check("", (1000, 100, &[100, 44]), None);
        check("", (65_534, 65_534, &[]), None);
        check("", (0, 0, &[0]), Some("'allow_root'"));
        check("", (1000, 0, &[0]), Some("root's group"));
        check("", (1000, 100, &[100, 0]), Some("root's group"));
        check("", (999, 100, &[]), Some("'min_uid' (1000)"));
        check("min_uid = 500", (999, 100, &[]), None);
        check("min_uid = 0", (0, 0, &[]), Some("'allow_root'"));
        check("allow_root = true", (0, 0, &[0]), None);
        check("allow_root = true", (33, 33, &[]), Some("'min_uid'"));
        assert_eq!(faults("min_uid = -1\nallow_root = 1")[1].0, 2);
    }

    #[test]
    fn directories_of_plugins() {
        let text = format!(
            "name = 'n1'\ncontroller = 'h:1'\ncontroller_key = '{KEY}'\nplugins = ['/a', '/b']"
        );
        let config = parse(&text, Path::new("/etc")).unwrap();
        assert_eq!(config.plugin_path(), "/a:/b");
        assert_eq!(faults("\nplugins = ['a']")[0].0, 2);
        assert_eq!(faults("plugins = ['/a:/b']")[0].0, 1);
    }

    #[test]
    fn names() {
        assert!(check_name("n-1.example_x").is_ok());
        for bad in ["", ".", "..", "a b", "a/b", "n[1-2]", "-x"] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }
}
