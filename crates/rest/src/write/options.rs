//! A job as it is described in a body, as options of `sbatch` and what has no option.

use super::fields::{self, Becomes};
use crate::fault::{Fault, Warning};
use crate::query::short;
use crate::shape::Shapes;
use crate::value::Given;
use crate::version::ApiVersion;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// What a body asks for.
#[derive(Clone, Debug, Default)]
pub struct Described {
    /// `--name=value`, as `sbatch` would be given them.
    pub options: Vec<String>,
    /// Text of the script.
    pub script: String,
    /// Arguments of the script.
    pub arguments: Vec<String>,
    /// `NAME=value`, each once.
    pub environment: Option<Vec<String>>,
    /// Working directory.
    pub workdir: Option<String>,
    /// Resource limits by name, soft and hard.
    pub rlimits: Vec<(String, u64, u64)>,
    /// An administrator's comment.
    pub admin_comment: String,
    /// Points that the site adds to the priority.
    pub site_factor: Option<i64>,
    /// What has no effect.
    pub warnings: Vec<Warning>,
}

/// Who asks: what a job may say of that only repeats it.
#[derive(Clone, Copy, Debug)]
pub struct Person<'p> {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// Login name.
    pub name: &'p str,
}

impl Described {
    /// Reads a job out of a body.
    ///
    /// # Errors
    /// The first field that cannot be read, or asks for something that there is not.
    pub fn read(
        job: &Map<String, Value>,
        version: ApiVersion,
        person: Person<'_>,
    ) -> Result<Self, Fault> {
        let known = Shapes::of(version).record("job_request");
        let mut described = Self::default();
        let mut own = BTreeMap::new();
        for (name, value) in job {
            if !known.iter().any(|field| field.name == name) {
                let why = format!("Ignoring unknown field \"{}\"", short(name));
                described.warnings.push(Warning::new(short(name), why));
                continue;
            }
            match name.as_str() {
                "environment" => described.environment = Some(environment(value)?),
                "rlimits" => described.rlimits = rlimits(value)?,
                "crontab" | "step_id" => described.empty(name, value)?,
                _ => {
                    if let Some(given) = Given::read(name, value)? {
                        described.take(name, given, &mut own)?;
                    }
                }
            }
        }
        described.finish(&own, person)?;
        Ok(described)
    }

    /// An object that is not taken where it has anything in it.
    fn empty(&self, name: &str, value: &Value) -> Result<(), Fault> {
        fn says(value: &Value) -> bool {
            match value {
                Value::Null => false,
                Value::Bool(flag) => *flag,
                Value::Number(n) => n.as_i64() != Some(0),
                Value::String(text) => !text.is_empty(),
                Value::Array(all) => !all.is_empty(),
                Value::Object(entries) => entries.values().any(says),
            }
        }
        match says(value) {
            true => Err(Fault::unsupported(name)),
            false => Ok(()),
        }
    }

    fn option(&mut self, name: &str, value: impl std::fmt::Display) {
        self.options.push(format!("--{name}={value}"));
    }

    fn take(
        &mut self,
        name: &str,
        given: Given,
        own: &mut BTreeMap<String, Given>,
    ) -> Result<(), Fault> {
        match fields::of(name) {
            Some(Becomes::Option(option)) => self.option(option, given.text()),
            Some(Becomes::Flag(option)) => {
                let yes = given.flag(name)?;
                self.options.extend(yes.then(|| format!("--{option}")));
            }
            Some(Becomes::Minutes(option)) => match given {
                Given::Infinite => self.option(option, "UNLIMITED"),
                given => {
                    let minutes = given.number(name)?;
                    self.option(option, minutes);
                }
            },
            Some(Becomes::Mebibytes(option)) => {
                let mebibytes = given.number(name)?;
                self.option(option, format!("{mebibytes}M"));
            }
            Some(Becomes::Moment(option)) => {
                let seconds = given.number(name)?;
                if seconds != 0 {
                    self.option(option, format!("uts{seconds}"));
                }
            }
            Some(Becomes::Count(option)) => {
                let count = given.number(name)?;
                if count != 0 {
                    self.option(option, count);
                }
            }
            Some(Becomes::Own) => {
                own.insert(name.to_owned(), given);
            }
            Some(Becomes::Refused) => return Err(Fault::unsupported(name)),
            Some(Becomes::Nothing(why)) => {
                self.warnings
                    .push(Warning::new(name, format!("{name} has no effect: {why}")));
            }
            None => {}
        }
        Ok(())
    }

    fn finish(&mut self, own: &BTreeMap<String, Given>, person: Person<'_>) -> Result<(), Fault> {
        for (name, given) in own {
            self.one(name, given, person)?;
        }
        self.nodes(own)?;
        self.tasks(own)?;
        self.distribution(own)?;
        self.switches(own)?;
        self.signal(own)
    }

    /// A field that needs no other beside it.
    fn one(&mut self, name: &str, given: &Given, person: Person<'_>) -> Result<(), Fault> {
        match name {
            "admin_comment" => self.admin_comment = given.text(),
            "site_factor" => self.site_factor = Some(given.number(name)?),
            "argv" => self.arguments = given.words(),
            "script" => self.script = given.text(),
            "current_working_directory" => self.workdir = Some(given.text()),
            "flags" => self.flags(given)?,
            "mail_type" => self.mail(given),
            "open_mode" => self.option("open-mode", given.text().to_ascii_lowercase()),
            "shared" => self.shared(given)?,
            "requeue" => {
                let option = if given.flag(name)? {
                    "--requeue"
                } else {
                    "--no-requeue"
                };
                self.options.push(option.to_owned());
            }
            "priority" => {
                let priority = given.number(name)?;
                self.option("priority", priority);
            }
            "profile" => {
                let says = |word: &String| !matches!(word.as_str(), "NOT_SET" | "NONE");
                if given.words().iter().any(says) {
                    self.option("profile", given.text());
                }
            }
            "required_nodes" => self.hosts("nodelist", name, given)?,
            "excluded_nodes" => self.hosts("exclude", name, given)?,
            "tres_per_job" => self.gpus("gpus", name, given)?,
            "tres_per_task" => self.gpus("gpus-per-task", name, given)?,
            "tres_per_socket" => self.gpus("gpus-per-socket", name, given)?,
            "cpus_per_tres" => self.per_gpu("cpus-per-gpu", name, given)?,
            "memory_per_tres" => self.per_gpu("mem-per-gpu", name, given)?,
            "user_id" => repeats(name, given, person.uid, person.name)?,
            "group_id" => repeats(name, given, person.gid, "")?,
            "kill_on_node_fail" => {
                let stays = !given.flag(name)?;
                self.options.extend(stays.then(|| "--no-kill".to_owned()));
            }
            "end_time" | "job_id" | "hetjob_group" | "reserve_ports" | "x11_target_port"
                if given.number(name)? != 0 =>
            {
                return Err(Fault::unsupported(name));
            }
            "immediate" if given.flag(name)? => return Err(Fault::unsupported(name)),
            "clusters" => return Err(Fault::unsupported(name)),
            // These are read together.
            _ => {}
        }
        Ok(())
    }

    /// A number of switches, and for how many seconds it waits for them.
    fn switches(&mut self, own: &BTreeMap<String, Given>) -> Result<(), Fault> {
        let number = |name: &str| {
            let given = own.get(name);
            given.map_or(Ok(0), |given| given.number(name))
        };
        let (most, wait) = (number("required_switches")?, number("wait_for_switch")?);
        if most > 0 && wait > 0 {
            self.option("switches", format!("{most}@{}:{:02}", wait / 60, wait % 60));
        } else if most > 0 {
            self.option("switches", most);
        }
        Ok(())
    }

    fn flags(&mut self, given: &Given) -> Result<(), Fault> {
        for word in given.words() {
            match word.as_str() {
                "KILL_INVALID_DEPENDENCY" => self.option("kill-on-invalid-dep", "yes"),
                "NO_KILL_INVALID_DEPENDENCY" => self.option("kill-on-invalid-dep", "no"),
                "SPREAD_JOB" => self.options.push("--spread-job".to_owned()),
                "PREFER_MINIMUM_NODE_COUNT" => self.options.push("--use-min-nodes".to_owned()),
                "SEND_JOB_ENVIRONMENT" | "GRES_BINDING_DISABLED" | "GRES_BINDING_ENFORCED" => {
                    self.warnings
                        .push(Warning::new("flags", format!("{word} has no effect")));
                }
                other => return Err(Fault::unsupported(format!("flags {}", short(other)))),
            }
        }
        Ok(())
    }

    fn mail(&mut self, given: &Given) {
        let word = |word: &String| match word.as_str() {
            "TIME=100%" => "TIME_LIMIT".to_owned(),
            "INVALID_DEPENDENCY" => "INVALID_DEPEND".to_owned(),
            other => match other
                .strip_prefix("TIME=")
                .and_then(|rest| rest.strip_suffix('%'))
            {
                Some(share) => format!("TIME_LIMIT_{share}"),
                None => other.to_owned(),
            },
        };
        let words: Vec<String> = given.words().iter().map(word).collect();
        self.option("mail-type", words.join(","));
    }

    fn shared(&mut self, given: &Given) -> Result<(), Fault> {
        for word in given.words() {
            match word.as_str() {
                "none" => self.options.push("--exclusive".to_owned()),
                "oversubscribe" => self.options.push("--oversubscribe".to_owned()),
                other @ ("user" | "mcs" | "topo") => self.option("exclusive", other),
                other => {
                    let why = format!("\"{}\" is no way to share nodes", short(other));
                    return Err(Fault::value("shared", why));
                }
            }
        }
        Ok(())
    }

    /// A list of hosts; with a slash `sbatch` would take it for a file.
    fn hosts(&mut self, option: &str, name: &str, given: &Given) -> Result<(), Fault> {
        let text = given.text();
        if text.contains('/') {
            return Err(Fault::value(name, "there is no such name of a node"));
        }
        self.option(option, text);
        Ok(())
    }

    /// `gres/gpu:2`, `gres:gpu:a100:1`: of other devices `sbatch` has no option for that.
    fn gpus(&mut self, option: &str, name: &str, given: &Given) -> Result<(), Fault> {
        let one = |word: &String| {
            let device = word
                .strip_prefix("gres/")
                .or_else(|| word.strip_prefix("gres:"));
            let count = device.unwrap_or(word).strip_prefix("gpu");
            let count = count.and_then(|rest| {
                rest.strip_prefix([':', '='])
                    .or_else(|| rest.is_empty().then_some("1"))
            });
            count
                .map(str::to_owned)
                .ok_or_else(|| Fault::unsupported(format!("{name} {}", short(word))))
        };
        let counts: Vec<String> = given.words().iter().map(one).collect::<Result<_, _>>()?;
        self.option(option, counts.join(","));
        Ok(())
    }

    /// `gres/gpu:4`: so much for each GPU.
    fn per_gpu(&mut self, option: &str, name: &str, given: &Given) -> Result<(), Fault> {
        let text = given.text();
        let amount = text
            .strip_prefix("gres/gpu")
            .or_else(|| text.strip_prefix("gres:gpu"));
        let amount = amount.and_then(|rest| rest.strip_prefix([':', '=']));
        let amount =
            amount.ok_or_else(|| Fault::unsupported(format!("{name} {}", short(&text))))?;
        self.option(option, amount);
        Ok(())
    }

    /// Fewest and most nodes; `nodes` says both.
    fn nodes(&mut self, own: &BTreeMap<String, Given>) -> Result<(), Fault> {
        let number = |name: &str| {
            let given = own.get(name).map(|given| given.number(name)).transpose()?;
            Ok::<_, Fault>(given.filter(|n| *n != 0))
        };
        match (number("minimum_nodes")?, number("maximum_nodes")?) {
            (None, None) => {}
            _ if self
                .options
                .iter()
                .any(|option| option.starts_with("--nodes=")) => {}
            (Some(least), None) => self.option("nodes", least),
            (least, Some(most)) => {
                let least = least.unwrap_or(1);
                self.option("nodes", format!("{least}-{most}"));
            }
        }
        Ok(())
    }

    fn counted(&self, option: &str) -> Option<i64> {
        let given = |text: &String| text.strip_prefix(option)?.strip_prefix('=')?.parse().ok();
        self.options.iter().rev().find_map(given)
    }

    /// `minimum_cpus` is tasks times cores of each; alone it says how many tasks there are.
    fn tasks(&mut self, own: &BTreeMap<String, Given>) -> Result<(), Fault> {
        let number = |name: &str| {
            let given = own.get(name).map(|given| given.number(name)).transpose()?;
            Ok::<_, Fault>(given.filter(|n| *n != 0))
        };
        let each = self.counted("--cpus-per-task").unwrap_or(1).max(1);
        let tasks = self.counted("--ntasks");
        if let Some(cores) = number("minimum_cpus")? {
            match tasks {
                None if cores % each == 0 => self.option("ntasks", cores / each),
                Some(tasks) if tasks.saturating_mul(each) >= cores => {}
                Some(_) | None => {
                    let why = format!(
                        "{cores} cores are not whole tasks of {each} cores: say how many tasks there are"
                    );
                    return Err(Fault::value("minimum_cpus", why));
                }
            }
        }
        let asked = self.counted("--ntasks").unwrap_or(1).saturating_mul(each);
        match number("maximum_cpus")? {
            Some(most) if most < asked => {
                let why = format!("{most} cores are fewer than the {asked} that the tasks have");
                Err(Fault::value("maximum_cpus", why))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn distribution(&mut self, own: &BTreeMap<String, Given>) -> Result<(), Fault> {
        let plane = own.get("distribution_plane_size");
        match (own.get("distribution").map(Given::text), plane) {
            (Some(text), Some(size)) if text == "plane" => {
                let size = size.number("distribution_plane_size")?;
                self.option("distribution", format!("plane={size}"));
            }
            (Some(text), _) => self.option("distribution", text),
            (None, Some(_)) => {
                return Err(Fault::value(
                    "distribution_plane_size",
                    "the distribution is no plane",
                ));
            }
            (None, None) => {}
        }
        Ok(())
    }

    /// What is behind `--signal=`: `[B:]SIGNAL[@SECONDS]`.
    fn signal(&mut self, own: &BTreeMap<String, Given>) -> Result<(), Fault> {
        let Some(signal) = own.get("kill_warning_signal") else {
            return match own.contains_key("kill_warning_flags") {
                true => Err(Fault::value(
                    "kill_warning_flags",
                    "there is no signal that they are about",
                )),
                false => Ok(()),
            };
        };
        let mut to = "";
        for word in own
            .get("kill_warning_flags")
            .map(Given::words)
            .unwrap_or_default()
        {
            match word.as_str() {
                "BATCH_JOB" => to = "B:",
                other => {
                    return Err(Fault::unsupported(format!("kill_warning_flags {}", short(other))));
                }
            }
        }
        let delay = own
            .get("kill_warning_delay")
            .map(|delay| delay.number("kill_warning_delay"));
        let delay = delay
            .transpose()?
            .map_or_else(String::new, |seconds| format!("@{seconds}"));
        self.option("signal", format!("{to}{}{delay}", signal.text()));
        Ok(())
    }
}

/// Whose job it is may be said, not chosen.
fn repeats(name: &str, given: &Given, number: u32, word: &str) -> Result<(), Fault> {
    let text = given.text();
    match text == number.to_string() || (!word.is_empty() && text == word) {
        true => Ok(()),
        false => Err(Fault::new(2002, format!("{name} is not the one of who asks"), name)),
    }
}

/// Variables: a list of `NAME=value`, or an object.
fn environment(value: &Value) -> Result<Vec<String>, Fault> {
    let bad = || Fault::value("environment", "variables are NAME=value");
    let one = |text: &str| match text.split_once('=') {
        Some((name, _)) if !name.is_empty() && !text.contains('\0') => Ok(text.to_owned()),
        Some(_) | None => Err(bad()),
    };
    match value {
        Value::Null => Ok(Vec::new()),
        Value::Array(all) => all
            .iter()
            .map(|v| one(v.as_str().ok_or_else(bad)?))
            .collect(),
        Value::Object(entries) => entries
            .iter()
            .map(|(name, value)| one(&format!("{name}={}", value.as_str().ok_or_else(bad)?)))
            .collect(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => Err(bad()),
    }
}

fn rlimits(value: &Value) -> Result<Vec<(String, u64, u64)>, Fault> {
    let Value::Object(entries) = value else {
        return match value {
            Value::Null => Ok(Vec::new()),
            _ => Err(Fault::value("rlimits", "limits are an object")),
        };
    };
    const NAMES: [&str; 10] = [
        "cpu", "fsize", "data", "stack", "core", "rss", "nproc", "nofile", "memlock", "as",
    ];
    let mut all = Vec::new();
    for (name, value) in entries {
        if !NAMES.contains(&name.as_str()) {
            return Err(Fault::unsupported(format!("rlimits {}", short(name))));
        }
        let limit = match Given::read(name, value)? {
            None => continue,
            Some(Given::Infinite) => u64::MAX,
            Some(given) => {
                let number = given.number(name)?;
                u64::try_from(number)
                    .map_err(|_| Fault::value("rlimits", format!("{number} is no limit")))?
            }
        };
        all.push((name.to_ascii_uppercase(), limit, limit));
    }
    Ok(all)
}
