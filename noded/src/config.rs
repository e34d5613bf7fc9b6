//! The node's configuration: one TOML file. Every fault is told with its line.
//!
//! Knows the file and the defaults; what the machine has is found by [`crate::detect`].

mod devices;
mod file;
mod values;

use crate::cgroup::Processes;
use crate::devices::Devices;
use crate::gpus::GpuSearch;
use crate::samples::energy::EnergySearch;
use cosy_config::Faults;
use cosy_model::node::Allocation;
use cosy_model::{CountedResources, Gid, MiB, Uid, variables};
use cosy_plugin::Plugins;
use cosy_proto::keys::PublicKey;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where the configuration is unless the command line says otherwise.
pub const DEFAULT_FILE: &str = "/etc/cosy/noded.toml";
/// Where the private key is unless the configuration says otherwise.
pub const DEFAULT_KEY: &str = "/var/lib/cosy/noded.key";
/// Where attempts are kept unless the configuration says otherwise.
pub const DEFAULT_SPOOL: &str = "/var/spool/cosy";
/// The lowest uid whose jobs run here unless the configuration says otherwise: below are
/// the system's own users (UID_MIN of login.defs(5)).
const MIN_UID: Uid = Uid(1000);
/// Between two measurements of jobs unless the configuration says otherwise.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(30);
/// Per cent of a minute that a job may wait for memory unless the configuration says otherwise.
const STALL_PERCENT: u32 = 50;
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
    /// No control groups: processes are found by their environment.
    Nothing,
}

/// The configuration of one daemon.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// Name of the node; with virtual nodes what stands before their number.
    pub name: String,
    /// The controllers, `HOST:PORT`: at least one, and each once. Of several one leads at a time.
    pub controllers: Vec<String>,
    /// Public key of the controller.
    pub controller_key: PublicKey,
    /// File with the private key of this host.
    pub key: PathBuf,
    /// Directory in which attempts are kept.
    pub spool_dir: PathBuf,
    /// Socket for commands on this host.
    pub socket: Option<PathBuf>,
    /// Socket for steps; beside `socket` or in the spool without.
    pub step_socket: Option<PathBuf>,
    /// Socket for logins; beside `socket` or in the spool without.
    pub login_socket: Option<PathBuf>,
    /// Where other nodes connect, `HOST:PORT`; port 0: any free one.
    pub listen: Option<String>,
    /// What other nodes are told instead of where this one listens.
    pub address: Option<String>,
    /// Cores, else as many as there are.
    pub cores: Option<u32>,
    /// What is left to others on this machine.
    pub reserved: Reserved,
    /// Memory, else what there is.
    pub memory: Option<MiB>,
    /// Disk, else what the spool's file system has.
    pub disk: Option<MiB>,
    /// GPUs and other things with numbers: what is configured, and from the start of the daemon on
    /// what was found.
    pub devices: Devices,
    /// How GPUs are looked for.
    pub gpu_search: GpuSearch,
    /// Other countable resources.
    pub other: CountedResources,
    /// Words that jobs may ask nodes for.
    pub features: Vec<String>,
    /// Directories of MPI plugins, the most important one first; the usual ones without.
    pub plugins: Vec<PathBuf>,
    /// Directories that each job has to itself.
    pub private_tmp: Vec<PathBuf>,
    /// Container plugin that is used here; the first one whose tool is there without.
    pub container_tool: Option<String>,
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
    /// What jobs use is measured.
    pub sampling: Sampling,
    /// How the energy that jobs take is measured.
    pub energy: EnergySearch,
    /// What control groups are used for.
    pub cgroups: CgroupUse,
    /// Jobs of users with a lower uid do not run here; root is a case of its own.
    pub min_uid: Uid,
    /// Jobs of root, and with root's group, run here.
    pub allow_root: bool,
    /// Most processes and threads of a job here.
    pub job_processes: Processes,
    /// What is logged: a level, or a filter of `tracing`.
    pub log: String,
}

/// What of the machine jobs do not get: it is for daemons, or for another manager.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reserved {
    /// So many processors, those with the lowest numbers.
    pub cores: u32,
    /// These processors, by the kernel's numbers.
    pub processors: Vec<u32>,
    /// So much memory.
    pub memory: MiB,
}

impl Reserved {
    /// What is left of `processors` for jobs.
    pub fn left_of(&self, processors: Vec<u32>) -> Vec<u32> {
        let others = processors
            .into_iter()
            .filter(|p| !self.processors.contains(p));
        others.skip(self.cores as usize).collect()
    }
}

/// How what jobs use is measured, and what is done when one thrashes or leaves its GPUs idle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sampling {
    /// Between two measurements; `None`: nothing is measured.
    pub interval: Option<Duration>,
    /// Per mille of a minute that a job may wait for memory; `None`: as it likes.
    pub stall_limit: Option<u16>,
    /// What is done with one that waits longer.
    pub stall_action: StallAction,
    /// How long all GPUs of a job may be idle; `None`: as long as it likes.
    pub gpu_idle_limit: Option<Duration>,
    /// What is done with one whose GPUs are idle for longer.
    pub gpu_idle_action: StallAction,
}

impl Sampling {
    /// Until it is to be looked at again whether jobs are to be measured.
    pub fn pause(&self) -> Duration {
        self.interval.unwrap_or(SAMPLE_INTERVAL)
    }
}

/// What is done with a job that uses what it has badly.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum StallAction {
    /// Its output says so.
    #[default]
    Tell,
    /// It is ended.
    End,
}

/// Reads and checks a configuration file.
///
/// # Errors
/// All faults at once.
pub fn read(file: &Path) -> Result<Config, Faults> {
    Config::parse(file, &cosy_config::read(file, FILE_BYTES)?)
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
    /// Where jobs on this node find MPI plugins, as [`variables::PLUGIN_PATH`] holds
    /// it: as configured, else as this daemon's own environment says, else the usual
    /// places.
    pub fn plugin_path(&self) -> OsString {
        if !self.plugins.is_empty() {
            return Plugins::new(self.plugins.clone()).path();
        }
        let variable = std::env::var_os(variables::PLUGIN_PATH);
        let program = std::env::current_exe().ok();
        Plugins::search(variable.as_deref(), program.as_deref()).path()
    }

    /// What everything that runs on this node is told of it, `NAME=value`.
    pub fn variables(&self) -> Vec<String> {
        let mut all = vec![
            format!("{}={}", variables::NODENAME, self.name),
            format!("{}={}", variables::STEP_SOCKET, self.step_socket().display()),
        ];
        if let Some(first) = self.controllers.first() {
            all.push(format!("{}={first}", variables::CONTROLLER));
        }
        if let Some(tool) = &self.container_tool {
            all.push(format!("{}={tool}", variables::CONTAINER_TOOL));
        }
        if let Some(socket) = &self.socket {
            all.push(format!("{}={}", variables::SOCKET, socket.display()));
        }
        if self.cgroups == CgroupUse::Memory {
            all.push(format!("{}=1", variables::MACHINE_SHARED));
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
        self.socket_for("steps", self.step_socket.as_deref())
    }

    /// Where the socket for logins is, in the same way.
    pub fn login_socket(&self) -> PathBuf {
        self.socket_for("login", self.login_socket.as_deref())
    }

    fn socket_for(&self, what: &str, configured: Option<&Path>) -> PathBuf {
        match (configured, &self.socket) {
            (Some(path), _) => path.to_owned(),
            (None, Some(socket)) => beside(socket, what),
            (None, None) => self.spool_dir.join(&self.name).join(format!("{what}.sock")),
        }
    }
}

/// `/run/cosy/noded.sock` gives `/run/cosy/noded.steps.sock`.
fn beside(socket: &Path, what: &str) -> PathBuf {
    let extension = match socket.extension() {
        Some(old) => format!("{what}.{}", old.to_string_lossy()),
        None => what.to_owned(),
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
    use crate::samples::energy::EnergySource;

    const KEY: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

    fn parse(text: &str, base: &Path) -> Result<Config, Faults> {
        Config::parse(&base.join("x"), text)
    }

    fn faults(text: &str) -> Vec<(usize, String)> {
        let Err(faults) = parse(text, Path::new("/etc")) else {
            return Vec::new();
        };
        let parsed = |fault: String| {
            let rest = fault.strip_prefix("/etc/x:").unwrap();
            let (line, what) = rest.split_once(": ").unwrap_or_default();
            match line.parse() {
                Ok(line) => (line, what.to_owned()),
                Err(_) => (0, rest.trim_start().to_owned()),
            }
        };
        faults.0.into_iter().map(parsed).collect()
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
    fn what_is_left_to_others() {
        let read = |reserved: &str| {
            let text = format!(
                "name = 'n'\ncontroller = 'h:1'\ncontroller_key = '{KEY}'\nreserved = {reserved}\n"
            );
            parse(&text, Path::new("/etc")).map(|config| config.reserved)
        };
        let left = |reserved: &str| read(reserved).unwrap().left_of((4..10).collect());
        assert_eq!(left("{ cores = 2 }"), [6, 7, 8, 9]);
        assert_eq!(left("{ processors = '0-5,9' }"), [6, 7, 8]);
        assert_eq!(left("{ processors = '5', cores = 1 }"), [6, 7, 8, 9]);
        assert!(left("{ cores = 6 }").is_empty());
        assert_eq!(read("{ memory = '2G' }").unwrap().memory, MiB(2048));
        let fault = |reserved: &str, want: &str| {
            let faults = read(reserved).unwrap_err().to_string();
            assert!(faults.contains(want), "{reserved}: {faults}");
        };
        fault("{ processors = '3-1' }", "3-1");
        fault("{ processors = '0-99999999' }", "processors");
        fault("{ processors = '' }", "processors");
        fault("{ core = 1 }", "unknown field `core`");
        fault("2", "reserved");
    }

    #[test]
    fn one_controller_or_several() {
        let check = |controllers: &str, want: Result<&[&str], (usize, &str)>| {
            let text = format!("name = 'n1'\ncontroller_key = '{KEY}'\n{controllers}\n");
            match (parse(&text, Path::new("/etc")), want) {
                (Ok(config), Ok(want)) => assert_eq!(config.controllers, want),
                (Err(_), Err((line, what))) => {
                    let found = faults(&text);
                    assert!(found[0].0 == line && found[0].1.contains(what), "{found:?}");
                }
                (got, want) => panic!("{controllers}: {got:?}, not {want:?}"),
            }
        };
        check("controller = 'a:1'", Ok(&["a:1"]));
        check("controllers = ['a:1']", Ok(&["a:1"]));
        check("controllers = ['a:1', 'b:2']", Ok(&["a:1", "b:2"]));
        check("controller = 'a:1'\ncontrollers = ['b:2']", Err((4, "'controller' is set too")));
        check("controllers = []", Err((3, "at least one")));
        check("controllers = ['a:1',\n'b']", Err((4, "controllers 'b' is not HOST:PORT")));
        check("controllers = ['a:1', 'a:1']", Err((3, "'a:1' twice")));
        let nine: Vec<String> = (1..=9).map(|n| format!("'a:{n}'")).collect();
        check(&format!("controllers = [{}]", nine.join(",")), Err((3, "at most 8")));
        check("", Err((0, "controller must be set")));
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
    fn a_fault_says_what_would_work() {
        let check = |text: &str, want: &[&str]| {
            let got: Vec<String> = faults(text).into_iter().map(|(_, what)| what).collect();
            assert_eq!(got, want, "{text}");
        };
        check(
            "nmae = 1",
            &[
                "unknown field `nmae`, expected one of `name`, `controller`, `controllers`, `controller_key`, \
               `key`, `spool_dir`, `socket`, `step_socket`, `login_socket`, `listen`, `address`, \
               `cores`, `memory`, `disk`, `reserved`, `gpus`, `gpu_detect`, `gpu_types`, `gpu_shards`, `nvml_library`, `rocm_library`, \
               `gpu`, `device`, `other`, `features`, `plugins`, `private_tmp`, `container_tool`, \
               `prolog`, `epilog`, `health_check`, `hook_timeout`, `health_interval`, \
               `sample_interval`, `memory_stall`, `memory_stall_action`, `gpu_idle_limit`, `gpu_idle_action`, \
               `energy`, `energy_dir`, `cgroup`, `job_processes`, `min_uid`, `allow_root`, `log`; did you mean `name`?",
            ],
        );
        check("name = 3", &["name must be a text, not integer"]);
        check(
            "other = 3\nprolog = '/x'",
            &[
                "other: invalid type: integer `3`, expected a table like {a = 1}",
                "prolog: invalid type: string \"/x\", expected a list like [\"a\", \"b\"]",
            ],
        );
        check(
            "features = [\n'a',\n1\n]\ncores = 9999999999",
            &[
                "features must be a text, not integer",
                "cores must be a whole number from 1 to 8192",
            ],
        );
        check("energy = 'ipmi'", &["energy is 'auto', 'rapl', 'hwmon' or 'off', not 'ipmi'"]);
        check("[gpu]\ncount = 1", &["write [[gpu]] instead of [gpu]: there can be several"]);
    }

    #[test]
    fn how_energy_is_measured() {
        let search = |extra: &str| {
            let text = format!("name = 'n'\ncontroller = 'h:1'\ncontroller_key = '{KEY}'\n{extra}");
            let search = parse(&text, Path::new("/etc")).unwrap().energy;
            (search.source, search.directory)
        };
        let usual = (EnergySource::Auto, PathBuf::from("/sys/class"));
        assert_eq!(search(""), usual);
        let own = (EnergySource::Rapl, PathBuf::from("/host/sys/class"));
        assert_eq!(search("energy = 'rapl'\nenergy_dir = '/host/sys/class'"), own);
        assert_eq!(search("energy = 'off'").0, EnergySource::Off);
    }

    #[test]
    fn there_is_always_a_socket_for_steps() {
        let check = |extra: &str, expected: &str| {
            let text = format!(
                "name = 'n1'\ncontroller = 'h:1'\ncontroller_key = '{KEY}'\nspool_dir = '/s'\n{extra}"
            );
            let config = parse(&text, Path::new("/etc")).unwrap();
            assert_eq!(config.step_socket(), Path::new(expected), "{extra}");
            let login = expected.replace("steps", "login");
            assert!(login == expected || config.login_socket() == Path::new(&login), "{extra}");
        };
        check("socket = '/run/cosy/noded.sock'", "/run/cosy/noded.steps.sock");
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
