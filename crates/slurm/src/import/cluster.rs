//! Parameters of the cluster as a whole.

use super::enforced::enforced;
use super::ignored_names::means_nothing;
use super::lines::Line;
use super::reader::Reader;
use super::write::quoted;
use cosy_model::{Span, limits};

/// Those of `SchedulerParameters` that mean something here: how long batch jobs are not looked at.
const BATCH_DELAY: &str = "batch_sched_delay=";
/// How long a job may wait for few switches.
const SWITCH_WAIT: &str = "max_switch_wait=";
/// A node says so often that it is alive: silence cannot be shorter.
const HEARTBEAT: Span = Span::from_secs(10);

/// Parameters without a counterpart, in small letters, and what is different without them.
const LOST: &[(&str, &str)] = &[
    ("clifilterplugins", "commands here call no such plugin; [submit] judges what arrives"),
    ("defcpupergpu", "jobs get the cores that they ask for"),
    ("defmempergpu", "jobs get the memory that they ask for"),
    ("defmempernode", "write default_memory_per_core into the queues"),
    ("enforcepartlimits", "jobs beyond a queue's limits are refused when they are submitted"),
    ("jobcontainertype", "private_tmp in noded.toml gives each job a /tmp of its own"),
    ("jobrequeue", "jobs run again after a node was lost unless they say --no-requeue"),
    ("maxmempercpu", "a job holds the memory and the cores that it asks for"),
    ("overtimelimit", "jobs end at their time limit"),
    ("prologflags", "the prolog runs on every node before the job's first program there"),
];

impl Reader {
    pub(super) fn parameter(&mut self, line: &Line, name: &str, value: &str) {
        match name.to_ascii_lowercase().as_str() {
            "clustername" => self.cluster_name(line, value),
            "killwait" => self.cluster.grace = self.seconds(line, name, value),
            "slurmdtimeout" => self.node_timeout(line, value),
            "maxbatchrequeue" => {
                let most = value.parse().ok().filter(|most| *most > 0);
                self.cluster.max_requeues = self.told(line, name, value, most);
            }
            "minjobage" => {
                self.cluster.keep_ended = self.seconds(line, name, value).filter(some_time);
            }
            "maxarraysize" => self.array_size(line, value),
            "firstjobid" => {
                let ids = 1..=limits::FIRST_JOB;
                let id = value.parse().ok().filter(|id| ids.contains(id));
                self.cluster.first_job = self.told(line, name, value, id);
            }
            "schedulerparameters" => {
                self.cluster.batch_delay = batch_delay(value);
                self.cluster.switch_wait = parameter(value, SWITCH_WAIT);
                let known = |p: &str| p.starts_with(BATCH_DELAY) || p.starts_with(SWITCH_WAIT);
                if value.split(',').any(|p| !known(p.trim())) {
                    self.without_meaning.insert(name.to_owned());
                }
            }
            "topologyplugin" => {
                let tree = [
                    "topology/tree",
                    "topology/block",
                    "topology/none",
                    "topology/default",
                ];
                if !tree.iter().any(|known| value.eq_ignore_ascii_case(known)) {
                    self.lost(line, name, value);
                }
            }
            "schedulertype" => {
                self.cluster.no_backfill = value.eq_ignore_ascii_case("sched/builtin");
            }
            "selecttype" => {
                self.cluster.whole_nodes = value.eq_ignore_ascii_case("select/linear");
            }
            "privatedata" => {
                self.cluster.private = value.to_ascii_lowercase().contains("jobs");
            }
            "defmempercpu" => self.cluster.memory_per_core = self.mebibytes(line, name, value),
            "maxmempernode" => self.cluster.max_memory = self.mebibytes(line, name, value),
            "licenses" => self.licenses(line, value),
            "accountingstorageenforce" => self.cluster.enforced = enforced(value),
            "jobsubmitplugins" => self.submit_plugins(line, value),
            "disablerootjobs" if value.eq_ignore_ascii_case("yes") => self.no_root_jobs(),
            "disablerootjobs" => {}
            "mailprog" => self.mail(line, value),
            "prolog" | "epilog" => self.hook(line, name, &name.to_ascii_lowercase(), value),
            "healthcheckprogram" => self.hook(line, name, "health_check", value),
            "healthcheckinterval" if value == "0" => {}
            "healthcheckinterval" => match value.parse::<u32>() {
                Ok(seconds) => self.note(
                    line,
                    &format!("{name}: write health_interval = \"{seconds}s\" into noded.toml"),
                ),
                Err(_) => self.note(line, &format!("{name}={value} is not understood")),
            },
            "include" => self.missing(line),
            _ if name.to_ascii_lowercase().starts_with("include") => self.missing(line),
            _ => self.other(line, name, value),
        }
    }

    fn other(&mut self, line: &Line, name: &str, value: &str) {
        if means_nothing(name) {
            self.without_meaning.insert(name.to_owned());
        } else if !self.priority(line, name, value)
            && !self.preempt(line, name, value)
            && !self.power(line, name, value)
        {
            self.lost(line, name, value);
        }
    }

    /// A parameter that has no counterpart, with what that means where it is known.
    fn lost(&mut self, line: &Line, name: &str, value: &str) {
        let meaning = LOST
            .iter()
            .find(|(lost, _)| lost.eq_ignore_ascii_case(name));
        let meaning = meaning.map_or(String::new(), |(_, meaning)| format!(": {meaning}"));
        self.note(line, &format!("{name}={value} is not carried over{meaning}"));
    }

    /// An amount of memory; 0 stands for none.
    fn mebibytes(&mut self, line: &Line, name: &str, value: &str) -> Option<u64> {
        let read = value.parse().ok().filter(|n| *n <= super::nodes::MOST_MIB);
        self.told(line, name, value, read).filter(|n| *n > 0)
    }

    fn missing(&mut self, line: &Line) {
        self.incomplete = true;
        self.note(line, "an included file was not found");
    }

    fn seconds(&mut self, line: &Line, name: &str, value: &str) -> Option<Span> {
        let read = value.parse::<u32>().ok();
        let read = self.told(line, name, value, read)?;
        Some(Span::from_secs(read.into()))
    }

    fn cluster_name(&mut self, line: &Line, value: &str) {
        let fine = |c: &char| c.is_ascii_alphanumeric() || "-_".contains(*c);
        let name: String = value.chars().filter(fine).collect();
        let name = if name.is_empty() {
            "cluster".to_owned()
        } else {
            name
        };
        if name != value {
            self.note(line, &format!("ClusterName={value}: here it is called {name}"));
        }
        self.cluster.name = name;
    }

    fn node_timeout(&mut self, line: &Line, value: &str) {
        let Some(span) = self.seconds(line, "SlurmdTimeout", value) else {
            return;
        };
        if span > HEARTBEAT {
            self.cluster.node_timeout = Some(span);
        } else {
            let text = format!(
                "SlurmdTimeout={value} is not carried over: node_timeout is longer than {} s here, 60 s without",
                HEARTBEAT.secs()
            );
            self.note(line, &text);
        }
    }

    fn array_size(&mut self, line: &Line, value: &str) {
        let size = value.parse::<u64>().ok();
        let Some(size) = self.told(line, "MaxArraySize", value, size) else {
            return;
        };
        let most = u64::from(limits::ARRAY_INDEX);
        if size == 0 {
            self.note(line, "MaxArraySize=0: there are arrays here");
        }
        self.cluster.max_array_tasks =
            Some(size.saturating_sub(1).clamp(1, most)).filter(|_| size > 0);
    }

    /// `name:count` or `name*count`. What cannot be named here there is none of.
    fn licenses(&mut self, line: &Line, text: &str) {
        for item in text
            .split([',', ';'])
            .map(str::trim)
            .filter(|i| !i.is_empty())
        {
            let (name, count) = item.split_once([':', '*']).unwrap_or((item, "1"));
            let fine = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            let named = !name.is_empty()
                && name.len() <= limits::LICENSE_NAME_BYTES
                && name.chars().all(fine);
            let room = self.cluster.licenses.len() < limits::LICENSES;
            match count.parse::<u32>() {
                Ok(count) if named && room => {
                    self.cluster.licenses.insert(name.to_owned(), count);
                }
                Ok(_) if named => self.note(line, &format!("licence {item} is left out: {} kinds are enough", limits::LICENSES)),
                Ok(_) => self.note(
                    line,
                    &format!("licence {item} is left out, and jobs that ask for it are refused: names have letters, digits, '-', '_' and '.' here"),
                ),
                Err(_) => self.note(line, &format!("licence {item} is not understood and left out")),
            }
        }
    }

    fn mail(&mut self, line: &Line, value: &str) {
        if value.starts_with('/') {
            self.cluster.mail = Some(value.to_owned());
            self.note(
                line,
                &format!("MailProg: mail_command calls {value} as mail(1) is called, -s SUBJECT RECIPIENT, with nothing to read and no SLURM_* variables"),
            );
        } else {
            self.note(line, &format!("MailProg={value} is not carried over: no whole path"));
        }
    }

    fn hook(&mut self, line: &Line, name: &str, key: &str, value: &str) {
        if !value.starts_with('/') {
            return self.note(line, &format!("{name}={value} is not carried over: no whole path"));
        }
        self.hooks = true;
        let command = match value.contains(['*', '?', '[']) {
            false => quoted(value),
            true => every(value),
        };
        self.note(line, &format!("{name}: write {key} = [{command}] into noded.toml"));
    }
}

/// A pattern is for the shell: all programs that it names, until one fails.
fn every(pattern: &str) -> String {
    let pattern: String = pattern
        .chars()
        .flat_map(|c| {
            let plain = c.is_ascii_alphanumeric() || "/._-+*?[]".contains(c);
            let escape = (!plain).then_some('\\');
            escape.into_iter().chain([c])
        })
        .collect();
    let script =
        format!("for each in {pattern}; do [ ! -x \"$each\" ] || \"$each\" || exit 1; done");
    format!("\"/bin/sh\", \"-c\", {}", quoted(&script))
}

/// How long batch jobs are not looked at, if it is said.
fn batch_delay(parameters: &str) -> Option<Span> {
    let delay = parameter(parameters, BATCH_DELAY).filter(some_time);
    delay.map(|delay| delay.min(limits::BATCH_DELAY))
}

/// A number of seconds among the parameters of the scheduler.
fn parameter(parameters: &str, name: &str) -> Option<Span> {
    let mut each = parameters.split(',').map(str::trim);
    let seconds = each.find_map(|p| p.strip_prefix(name))?;
    seconds
        .parse::<u32>()
        .ok()
        .map(|seconds| Span::from_secs(seconds.into()))
}

fn some_time(span: &Span) -> bool {
    *span > Span::ZERO
}
