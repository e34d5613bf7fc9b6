//! What the machine takes: energy counters of the processors (RAPL), or a power meter whose reading is
//! summed up over time. Source: the kernel's power capping framework
//! (`Documentation/power/powercap/powercap.rst`), `Documentation/ABI/testing/sysfs-class-hwmon`.
//!
//! Counters of packages and of memory are added up: those of cores and of the part beside them are in
//! their package's, and that of the platform (`psys`) holds all of them. They count the same whatever
//! the vendor: AMD's have the names of Intel's. Graphics processors, disks and power supplies are in
//! none of them; a power meter measures all of the machine.
//!
//! Nothing here knows of jobs.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Where the kernel has both kinds.
pub const CLASSES: &str = "/sys/class";
/// Name of the power meters of ACPI, which measure a machine: graphics cards have power readings too.
const METER: &str = "power_meter";
/// Readings of such a meter, in microwatts: the first one that is there counts.
const READINGS: [&str; 2] = ["power1_average", "power1_input"];
/// A power that no node takes, in microwatts: what says so is wrong.
const TOO_MUCH: u64 = 1_000_000 * 1_000_000;

/// By what energy is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum EnergySource {
    /// By counters where they can be read, else by a power meter.
    #[default]
    Auto,
    /// By counters alone.
    Rapl,
    /// By a power meter alone.
    Hwmon,
    /// Not at all.
    Off,
}

/// How energy is measured.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EnergySearch {
    /// By counters, by a power meter, or by what there is.
    pub source: EnergySource,
    /// Directory with `powercap` and `hwmon` in it.
    pub directory: PathBuf,
}

/// Measures what the machine takes from one call to the next.
#[derive(Debug, Default)]
pub enum EnergyMeter {
    /// Nothing is measured.
    #[default]
    Nothing,
    /// Energy counters, added up.
    Rapl(Vec<Counter>),
    /// A power meter, summed up over time.
    Power(PowerMeter),
}

/// A counter of energy that begins anew beyond its range.
#[derive(PartialEq, Eq, Debug)]
pub struct Counter {
    file: PathBuf,
    /// Its largest value, in microjoules.
    range: u64,
    last: u64,
}

/// A power meter, and what it said last.
#[derive(PartialEq, Eq, Debug)]
pub struct PowerMeter {
    file: PathBuf,
    microwatts: u64,
    since: Instant,
}

/// Told once, when it is known how a node measures.
impl fmt::Display for EnergyMeter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("energy is not measured"),
            Self::Rapl(counters) => {
                write!(f, "energy is measured by {} counters (RAPL)", counters.len())
            }
            Self::Power(meter) => write!(f, "energy is measured by {}", meter.file.display()),
        }
    }
}

impl EnergyMeter {
    /// What there is to measure with. Blocks: a power meter may take a second.
    ///
    /// # Errors
    /// Why nothing can be measured, in one line.
    pub fn find(search: &EnergySearch, now: Instant) -> Result<Self, String> {
        let rapl = || counters(&search.directory).map(Self::Rapl);
        let power = || power_meter(&search.directory, now).map(Self::Power);
        match search.source {
            EnergySource::Off => Ok(Self::Nothing),
            EnergySource::Rapl => rapl(),
            EnergySource::Hwmon => power(),
            EnergySource::Auto => rapl().or_else(|first| {
                power().map_err(|second| match first == second {
                    true => first,
                    false => format!("{first}; {second}"),
                })
            }),
        }
    }

    /// What was taken since this was asked last, in microjoules; `None` where nothing is measured. Of a
    /// power meter what it said last counts for all of the time since.
    pub fn passed(&mut self, now: Instant) -> Option<u64> {
        match self {
            Self::Nothing => None,
            Self::Rapl(counters) => Some(counters.iter_mut().map(Counter::passed).sum()),
            Self::Power(meter) => Some(meter.passed(now)),
        }
    }

    /// The power meter that is to be read from time to time, by [`read_power`].
    pub fn power_file(&self) -> Option<&Path> {
        match self {
            Self::Power(meter) => Some(&meter.file),
            Self::Nothing | Self::Rapl(_) => None,
        }
    }

    /// Its reading, in microwatts, counts from now on.
    pub fn power_is(&mut self, microwatts: u64) {
        if let Self::Power(meter) = self {
            meter.microwatts = microwatts;
        }
    }
}

impl Counter {
    fn passed(&mut self) -> u64 {
        // One that cannot be read now is read later: what it counts meanwhile is not lost.
        let Ok(now) = number(&self.file) else {
            return 0;
        };
        let before = std::mem::replace(&mut self.last, now);
        match now.checked_sub(before) {
            Some(more) => more,
            None => self.range.saturating_sub(before).saturating_add(now),
        }
    }
}

impl PowerMeter {
    fn passed(&mut self, now: Instant) -> u64 {
        let time = now.saturating_duration_since(self.since);
        self.since = self.since.max(now);
        taken(self.microwatts, time)
    }
}

/// Microjoules at that power, in microwatts.
fn taken(microwatts: u64, time: Duration) -> u64 {
    let microjoules = u128::from(microwatts) * time.as_micros() / 1_000_000;
    u64::try_from(microjoules).unwrap_or(u64::MAX)
}

/// What a power meter says, in microwatts; `None` when it does not say it. Blocks.
pub fn read_power(file: &Path) -> Option<u64> {
    number(file).ok().filter(|power| *power < TOO_MUCH)
}

fn number(file: &Path) -> io::Result<u64> {
    let text = fs::read_to_string(file)?;
    let parsed = text.trim().parse::<u64>();
    parsed.map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))
}

/// Directories in there, in the order of their names.
fn directories(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let mut all: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    all.sort();
    all
}

fn name_of(directory: &Path) -> String {
    let name = fs::read_to_string(directory.join("name")).unwrap_or_default();
    name.trim().to_owned()
}

/// The counters of all packages and of their memory.
fn counters(classes: &Path) -> Result<Vec<Counter>, String> {
    let powercap = classes.join("powercap");
    // The same counters reached in another way are `intel-rapl-mmio:0`.
    let is_zone = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default();
        name.to_string_lossy().starts_with("intel-rapl:")
    };
    let is_counted = |zone: &PathBuf| {
        let name = name_of(zone);
        name.starts_with("package") || name == "dram"
    };
    let zones = directories(&powercap).into_iter();
    let zones: Vec<PathBuf> = zones.filter(is_zone).filter(is_counted).collect();
    if zones.is_empty() {
        return Err(format!("{} has no energy counters", powercap.display()));
    }
    let counter = |zone: PathBuf| {
        let file = zone.join("energy_uj");
        let last = number(&file).map_err(|e| match e.kind() {
            // Since they let programs of others be guessed at.
            io::ErrorKind::PermissionDenied => {
                format!("{}: only root may read it", file.display())
            }
            _ => format!("{}: {e}", file.display()),
        })?;
        let range = number(&zone.join("max_energy_range_uj")).unwrap_or(0);
        Ok(Counter { file, range, last })
    };
    zones.into_iter().map(counter).collect()
}

/// The first power meter of the machine.
fn power_meter(classes: &Path, since: Instant) -> Result<PowerMeter, String> {
    let hwmon = classes.join("hwmon");
    let all = directories(&hwmon).into_iter();
    let meters = all.filter(|directory| name_of(directory) == METER);
    let mut files = meters.flat_map(|directory| READINGS.map(|name| directory.join(name)));
    let read = files.find_map(|file| {
        let microwatts = read_power(&file)?;
        Some(PowerMeter {
            file,
            microwatts,
            since,
        })
    });
    read.ok_or_else(|| format!("{} has no power meter that can be read", hwmon.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes the files of a directory like `/sys/class`, each as `PATH=TEXT`.
    fn machine(files: &[&str]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        files.iter().for_each(|file| set(dir.path(), file));
        dir
    }

    fn set(dir: &Path, file: &str) {
        let (path, text) = file.split_once('=').unwrap();
        let path = dir.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
    }

    fn find(dir: &Path, source: EnergySource) -> Result<EnergyMeter, String> {
        let search = EnergySearch {
            source,
            directory: dir.to_owned(),
        };
        EnergyMeter::find(&search, Instant::now())
    }

    const TWO_SOCKETS: &[&str] = &[
        "powercap/intel-rapl/enabled=1",
        "powercap/intel-rapl:0/name=package-0",
        "powercap/intel-rapl:0/energy_uj=900",
        "powercap/intel-rapl:0/max_energy_range_uj=1000",
        "powercap/intel-rapl:0:0/name=core",
        "powercap/intel-rapl:0:0/energy_uj=1",
        "powercap/intel-rapl:0:1/name=dram",
        "powercap/intel-rapl:0:1/energy_uj=10",
        "powercap/intel-rapl:0:1/max_energy_range_uj=1000",
        "powercap/intel-rapl:1/name=package-1",
        "powercap/intel-rapl:1/energy_uj=5",
        "powercap/intel-rapl:2/name=psys",
        "powercap/intel-rapl:2/energy_uj=2000",
        "powercap/intel-rapl-mmio:0/name=package-0",
        "powercap/intel-rapl-mmio:0/energy_uj=900",
    ];

    #[test]
    fn counters_are_counted_once() {
        let dir = machine(TWO_SOCKETS);
        let mut meter = find(dir.path(), EnergySource::Auto).unwrap();
        assert_eq!(meter.to_string(), "energy is measured by 3 counters (RAPL)");
        assert_eq!(meter.passed(Instant::now()), Some(0));
        for file in [
            "powercap/intel-rapl:0/energy_uj=950",
            "powercap/intel-rapl:0:0/energy_uj=40",
            "powercap/intel-rapl:0:1/energy_uj=17",
            "powercap/intel-rapl:1/energy_uj=6",
            "powercap/intel-rapl:2/energy_uj=9000",
            "powercap/intel-rapl-mmio:0/energy_uj=950",
        ] {
            set(dir.path(), file);
        }
        assert_eq!(meter.passed(Instant::now()), Some(50 + 7 + 1));
        assert_eq!(meter.passed(Instant::now()), Some(0));
    }

    #[test]
    fn counters_begin_anew() {
        let dir = machine(TWO_SOCKETS);
        let mut meter = find(dir.path(), EnergySource::Rapl).unwrap();
        set(dir.path(), "powercap/intel-rapl:0/energy_uj=30");
        // What does not say how far it goes: no more than what it shows.
        set(dir.path(), "powercap/intel-rapl:1/energy_uj=2");
        assert_eq!(meter.passed(Instant::now()), Some(100 + 30 + 2));
        // One that cannot be read for a while has counted on.
        set(dir.path(), "powercap/intel-rapl:0/energy_uj=");
        assert_eq!(meter.passed(Instant::now()), Some(0));
        set(dir.path(), "powercap/intel-rapl:0/energy_uj=40");
        assert_eq!(meter.passed(Instant::now()), Some(10));
    }

    #[test]
    fn a_power_meter_is_summed_up() {
        let dir = machine(&[
            "hwmon/hwmon0/name=amdgpu",
            "hwmon/hwmon0/power1_average=77000000",
            "hwmon/hwmon1/name=power_meter",
            "hwmon/hwmon1/power1_average=200000000",
        ]);
        let mut meter = find(dir.path(), EnergySource::Auto).unwrap();
        let file = dir.path().join("hwmon/hwmon1/power1_average");
        assert_eq!(meter.power_file(), Some(&*file));
        let begin = Instant::now();
        meter.passed(begin);
        let second = |n: u64| begin + Duration::from_secs(n);
        assert_eq!(meter.passed(second(2)), Some(400_000_000));
        set(dir.path(), "hwmon/hwmon1/power1_average=100000000");
        meter.power_is(read_power(&file).unwrap());
        assert_eq!(meter.passed(second(3)), Some(100_000_000));
        // A clock that goes back takes nothing.
        assert_eq!(meter.passed(second(1)), Some(0));
        assert_eq!(meter.passed(second(4)), Some(100_000_000));
        for wrong in ["", "-5", "99999999999999999"] {
            set(dir.path(), &format!("hwmon/hwmon1/power1_average={wrong}"));
            assert_eq!(read_power(&file), None, "{wrong}");
        }
    }

    #[test]
    fn why_nothing_is_measured() {
        let dir = machine(&["hwmon/hwmon0/name=coretemp"]);
        let check = |source: EnergySource, want: &[&str]| {
            let why = find(dir.path(), source).unwrap_err();
            assert!(want.iter().all(|part| why.contains(part)), "{why}");
        };
        check(EnergySource::Rapl, &["powercap has no energy counters"]);
        check(EnergySource::Hwmon, &["hwmon has no power meter"]);
        check(EnergySource::Auto, &["no energy counters; ", "no power meter"]);
        let mut off = find(dir.path(), EnergySource::Off).unwrap();
        assert_eq!((off.passed(Instant::now()), off.power_file()), (None, None));
        assert_eq!(off.to_string(), "energy is not measured");
    }
}
