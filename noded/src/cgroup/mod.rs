//! Control groups: what there is on this machine, and the groups of attempts, steps and
//! tasks.
//!
//! Version 2 where it is; on machines with version 1, or with both side by side, version
//! 1 controllers limit memory and cores, and an (often empty) version 2 hierarchy still
//! serves to find and kill everything that a job started. Where neither may be used,
//! processes are tracked as descendants of the shepherd; then memory limits are not
//! enforced, which is said once.
//!
//! ```text
//! PARENT/JOB.ATTEMPT            limits of the job; its batch program, or ...
//! PARENT/JOB.ATTEMPT/batch      ... here where version 2 has controllers, which allow no
//!                               processes in a group with groups inside
//! PARENT/JOB.ATTEMPT/s.STEP     limits of a step; its tasks
//! PARENT/JOB.ATTEMPT/s.STEP/t.N a task's own devices (version 2 without version 1's)
//! PARENT/JOB.ATTEMPT/login      sessions of its user that began elsewhere
//! PARENT/JOB.ATTEMPT/keep       supervisors of steps, where the job's memory is limited or
//!                               version 2 has controllers
//! ```
//!
//! A supervisor keeps what its tasks have said: so its memory is the job's. It is beside the
//! tasks, and goes on when a step is killed.
//!
//! So no step gets more than its job has, and what the job used is what all of it used.
//!
//! Each job pays for every file operation here. So there is a group only for what is
//! asked: memory only with a limit; and in version 1 the groups for a set of cores or
//! devices are shared by all jobs and steps with the same set and stay, so that a process
//! only joins them.
//!
//! The daemon decides ([`Cgroups::groups_for`], [`Cgroups::groups_for_step`]), the
//! shepherd makes, the child joins.

mod bounds;
mod find;
mod group;
pub mod jobs_unit;
mod program;
mod values;

pub use bounds::{AttemptLimits, JobGroups, JobUsage, Processes, StepLimits};
pub use group::{Group, GroupError, ParentGroup};
pub(crate) use group::{keyed, number, peak_memory};

use crate::devices::DeviceNumber;
use cosy_model::step::StepId;
use cosy_model::{OsText, limits};
use group::remove_tree;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use values::{PERIOD_US, TOGETHER, hash, least, quota_of, ranges, together};

/// How long what is left of a job may take to be killed when its groups are removed.
const REMOVAL: Duration = Duration::from_secs(1);
/// Name of the group of a job's supervisors in the job's.
const KEEP: &str = "keep";
/// Name of the group of the sessions of a job's user in the job's.
const LOGIN: &str = "login";
/// What the names of groups begin with that are shared and stay.
const SHARED: [&[u8]; 2] = [b"cpus-", b"devices-"];

/// What of version 2 limits something here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Controllers {
    memory: bool,
    cpu: bool,
    cpuset: bool,
    pids: bool,
}

impl Controllers {
    fn any(self) -> bool {
        self.memory || self.cpu || self.cpuset || self.pids
    }

    /// What is written to `cgroup.subtree_control` to switch them on.
    fn text(self) -> String {
        let all = [
            (self.memory, "+memory"),
            (self.cpu, "+cpu"),
            (self.cpuset, "+cpuset"),
            (self.pids, "+pids"),
        ];
        let some: Vec<&str> = all.iter().filter(|(is, _)| *is).map(|(_, t)| *t).collect();
        some.join(" ")
    }
}

/// What can be used on this machine, and where this daemon's groups are.
#[derive(Debug, Default)]
pub struct Cgroups {
    unified: Option<PathBuf>,
    controllers: Controllers,
    memory: Option<PathBuf>,
    swap: bool,
    cpuset: Option<PathBuf>,
    cpu: Option<PathBuf>,
    devices: Option<PathBuf>,
    pids: Option<PathBuf>,
    /// Most processes of a job.
    processes: Processes,
    /// Version 2 groups take programs that decide about devices.
    programs: bool,
    /// Processors of this machine that may be used; the place is a core's number.
    processors: Vec<u32>,
    /// The configured cores are real ones.
    real: bool,
    /// Jobs are kept to their cores.
    limit_cores: bool,
}

impl Cgroups {
    /// No control groups at all.
    pub fn none() -> Self {
        Self::default()
    }

    /// True when processes can be kept from opening devices.
    pub fn limits_devices(&self) -> bool {
        self.devices.is_some() || self.programs
    }

    /// The same with that limit on the processes of a job.
    pub fn with_processes(self, processes: Processes) -> Self {
        Self { processes, ..self }
    }

    /// The groups of an attempt's batch program, in the order in which they are made.
    pub fn groups_for(&self, wanted: AttemptLimits<'_>) -> Vec<Group> {
        let mut groups = Vec::new();
        if let Some(parent) = &self.unified {
            groups.push(self.unified_batch(parent, wanted));
        }
        if let (Some(parent), Some(bytes)) = (&self.memory, wanted.memory_bytes) {
            groups.push(Group {
                directory: text_of(&parent.join(wanted.name)),
                memory: true,
                settings: self.memory_settings(bytes),
                ..Group::default()
            });
        }
        let quota = match wanted.trigger {
            true => quota_of(1),
            false => self.quota_settings(wanted.cores),
        };
        if let (Some(parent), Some(settings)) = (&self.cpu, quota) {
            // It may be made by the first that needs it.
            let _ = fs::create_dir(parent);
            groups.push(Group {
                directory: text_of(&parent.join(wanted.name)),
                settings,
                ..Group::default()
            });
        }
        groups.extend(self.counted(wanted));
        groups.extend(self.shared_groups(wanted.cores, wanted.denied));
        groups
    }

    /// The groups that the supervisor of a step joins itself before it makes anything else: its
    /// own memory is the job's, and the tasks count among the job's processes from their first
    /// instruction. In version 2 it is started in [`Self::keep_of`].
    pub fn groups_for_supervisor(&self, job: AttemptLimits<'_>) -> Vec<Group> {
        let mut groups = Vec::new();
        if let (Some(parent), Some(bytes)) = (&self.memory, job.memory_bytes) {
            groups.push(Group {
                directory: text_of(&parent.join(job.name).join(KEEP)),
                strict: true,
                within: Some(ParentGroup {
                    directory: text_of(&parent.join(job.name)),
                    settings: self.memory_settings(bytes),
                    must: true,
                    own: false,
                }),
                ..Group::default()
            });
        }
        groups.extend(self.counted(job));
        groups
    }

    /// Version 2: the group in a job's in which the supervisors of its steps are started, beside
    /// those of their tasks. Nothing where nothing is limited.
    pub fn keep_of(&self, job: AttemptLimits<'_>) -> Option<Group> {
        let parent = self.unified.as_ref().filter(|_| self.controllers.any())?;
        let directory = parent.join(job.name);
        Some(Group {
            directory: text_of(&directory.join(KEEP)),
            unified: true,
            within: Some(self.unified_job(&directory, job, false)),
            ..Group::default()
        })
    }

    /// Version 1: the group that counts the processes of a job. It stays until the job is
    /// over.
    fn counted(&self, job: AttemptLimits<'_>) -> Option<Group> {
        let parent = self.pids.as_ref()?;
        Some(Group {
            directory: text_of(&parent.join(job.name)),
            shared: true,
            strict: true,
            settings: vec![("pids.max".into(), self.most_processes(job)?.to_string())],
            ..Group::default()
        })
    }

    fn most_processes(&self, job: AttemptLimits<'_>) -> Option<u64> {
        let own = match self.processes {
            Processes::ByCores => {
                let (any, each) = limits::JOB_PROCESSES;
                Some(any.saturating_add(each.saturating_mul(job.cores.len() as u64)))
            }
            Processes::Most(most) => Some(u64::from(most)),
            Processes::Unlimited => None,
        };
        match job.trigger {
            true => least(own, Some(limits::TRIGGER_PROCESSES)),
            false => own,
        }
    }

    /// The groups of a step inside its job's, in the order in which they are made.
    pub fn groups_for_step(&self, job: AttemptLimits<'_>, step: StepLimits<'_>) -> Vec<Group> {
        self.groups_inside(&step_name(step.step), job, step)
    }

    /// The groups of sessions that belong to a job: they have all of it, and nothing of their own.
    pub fn groups_for_logins(&self, job: AttemptLimits<'_>) -> Vec<Group> {
        let all = StepLimits {
            cores: job.cores,
            denied: job.denied,
            ..StepLimits::default()
        };
        let mut groups = self.groups_inside(LOGIN, job, all);
        // One that starves does not end the others: programs that let users in are among them.
        for group in &mut groups {
            group.settings.retain(|(file, _)| file != TOGETHER);
        }
        groups.extend(self.counted(job));
        groups
    }

    fn groups_inside(
        &self,
        name: &str,
        job: AttemptLimits<'_>,
        step: StepLimits<'_>,
    ) -> Vec<Group> {
        let mut groups = Vec::new();
        if let Some(parent) = &self.unified {
            groups.push(self.unified_inside(parent, name, job, step));
        }
        let least = least(job.memory_bytes, step.memory_bytes);
        if let (Some(parent), Some(_)) = (&self.memory, least) {
            let inner = step.memory_bytes.and(least);
            groups.push(Group {
                directory: text_of(&parent.join(job.name).join(name)),
                memory: true,
                settings: inner.map_or_else(Vec::new, |b| self.memory_settings(b)),
                within: Some(ParentGroup {
                    directory: text_of(&parent.join(job.name)),
                    settings: job
                        .memory_bytes
                        .map_or_else(Vec::new, |b| self.memory_settings(b)),
                    must: job.memory_bytes.is_some(),
                    own: false,
                }),
                ..Group::default()
            });
        }
        if let (Some(parent), Some(settings)) = (&self.cpu, self.quota_settings(step.cores)) {
            groups.push(Group {
                directory: text_of(&parent.join(job.name).join(name)),
                settings,
                within: Some(ParentGroup {
                    directory: text_of(&parent.join(job.name)),
                    settings: self.quota_settings(job.cores).unwrap_or_default(),
                    ..ParentGroup::default()
                }),
                ..Group::default()
            });
        }
        groups.extend(self.shared_groups(step.cores, step.denied));
        groups
    }

    /// The groups of one task of a step, beside the step's, that keep it from `denied`:
    /// joined after the step's.
    pub fn groups_for_task(
        &self,
        job: &str,
        step: StepId,
        task: u32,
        denied: &[DeviceNumber],
    ) -> Vec<Group> {
        if let Some(group) = self.device_group(denied) {
            return vec![group];
        }
        match &self.unified {
            Some(parent) if self.programs && !denied.is_empty() => vec![Group {
                directory: text_of(
                    &parent
                        .join(job)
                        .join(step_name(step))
                        .join(format!("t.{task}")),
                ),
                unified: true,
                denied: denied.to_vec(),
                ..Group::default()
            }],
            _ => Vec::new(),
        }
    }

    fn unified_batch(&self, parent: &Path, wanted: AttemptLimits<'_>) -> Group {
        let directory = parent.join(wanted.name);
        if !self.controllers.any() {
            return Group {
                directory: text_of(&directory),
                unified: true,
                denied: self.programmed(wanted.denied),
                ..Group::default()
            };
        }
        let memory = self.controllers.memory && wanted.memory_bytes.is_some();
        Group {
            directory: text_of(&directory.join("batch")),
            unified: true,
            memory,
            settings: together(memory),
            within: Some(self.unified_job(&directory, wanted, true)),
            denied: self.programmed(wanted.denied),
            ..Group::default()
        }
    }

    fn unified_inside(
        &self,
        parent: &Path,
        name: &str,
        job: AttemptLimits<'_>,
        step: StepLimits<'_>,
    ) -> Group {
        let directory = parent.join(job.name);
        let least = least(job.memory_bytes, step.memory_bytes);
        let memory = self.controllers.memory && least.is_some();
        let mut settings = self.unified_settings(step.memory_bytes.and(least), step.cores);
        settings.extend(together(memory));
        Group {
            directory: text_of(&directory.join(name)),
            unified: true,
            memory,
            settings,
            within: Some(self.unified_job(&directory, job, false)),
            tree: self.programs,
            denied: self.programmed(step.denied),
            ..Group::default()
        }
    }

    /// The group of the whole job, around its program and its steps.
    fn unified_job(&self, directory: &Path, job: AttemptLimits<'_>, own: bool) -> ParentGroup {
        let mut settings = self.unified_settings(job.memory_bytes, job.cores);
        if self.controllers.cpu && job.trigger {
            settings.push(("cpu.max".into(), format!("{PERIOD_US} {PERIOD_US}")));
        }
        if let (true, Some(most)) = (self.controllers.pids, self.most_processes(job)) {
            settings.push(("pids.max".into(), most.to_string()));
        }
        if self.controllers.any() {
            settings.push(("cgroup.subtree_control".into(), self.controllers.text()));
        }
        ParentGroup {
            directory: text_of(directory),
            must: self.controllers.memory && job.memory_bytes.is_some(),
            settings,
            own,
        }
    }

    /// Memory comes first.
    fn unified_settings(&self, bytes: Option<u64>, cores: &[u32]) -> Vec<(String, String)> {
        let mut settings = Vec::new();
        if let Some(bytes) = bytes.filter(|_| self.controllers.memory) {
            settings.push(("memory.max".into(), bytes.to_string()));
            settings.push(("memory.swap.max".into(), "0".into()));
        }
        let cores = if self.limit_cores { cores } else { &[] };
        if let (true, Some(cpus)) = (self.real && self.controllers.cpuset, self.cpus(cores)) {
            settings.push(("cpuset.cpus".into(), cpus));
        }
        if !self.real && self.controllers.cpu && !cores.is_empty() {
            let quota = PERIOD_US * cores.len() as u64;
            settings.push(("cpu.max".into(), format!("{quota} {PERIOD_US}")));
        }
        settings
    }

    fn memory_settings(&self, bytes: u64) -> Vec<(String, String)> {
        let mut settings = vec![("memory.limit_in_bytes".into(), bytes.to_string())];
        if self.swap {
            settings.push(("memory.memsw.limit_in_bytes".into(), bytes.to_string()));
        }
        settings
    }

    /// A share of the processors, where numbers of cores are not those of processors.
    fn quota_settings(&self, cores: &[u32]) -> Option<Vec<(String, String)>> {
        let limited = !self.real && self.limit_cores && !cores.is_empty();
        limited.then(|| quota_of(cores.len() as u64))?
    }

    /// Version 1: groups that everybody with the same cores or devices joins.
    fn shared_groups(&self, cores: &[u32], denied: &[DeviceNumber]) -> Vec<Group> {
        let cores = if self.limit_cores { cores } else { &[] };
        let mut groups = Vec::new();
        if let (Some(parent), Some(cpus)) = (&self.cpuset, self.cpus(cores)) {
            groups.push(Group {
                directory: text_of(&parent.join(format!("cpus-{cpus}"))),
                shared: true,
                settings: vec![("cpuset.cpus".into(), cpus)],
                ..Group::default()
            });
        }
        groups.extend(self.device_group(denied));
        groups
    }

    /// Version 1: the group of everybody who is kept from the same devices. Its settings
    /// are written by each that uses it, because who made it may have been killed before.
    fn device_group(&self, denied: &[DeviceNumber]) -> Option<Group> {
        let parent = self.devices.as_ref().filter(|_| !denied.is_empty())?;
        let deny = |d: &DeviceNumber| ("devices.deny".to_owned(), format!("{d} rwm"));
        let settings: Vec<(String, String)> = denied.iter().map(deny).collect();
        let key = hash(settings.iter().map(|(_, text)| text.as_bytes()));
        Some(Group {
            directory: text_of(&parent.join(format!("devices-{key:016x}"))),
            shared: true,
            strict: true,
            settings,
            ..Group::default()
        })
    }

    /// What a version 2 group is to deny: version 1 does it where it can.
    fn programmed(&self, denied: &[DeviceNumber]) -> Vec<DeviceNumber> {
        if self.programs {
            denied.to_vec()
        } else {
            Vec::new()
        }
    }

    /// The processors behind core numbers; `None` where that is no restriction or a
    /// number has no processor.
    fn cpus(&self, cores: &[u32]) -> Option<String> {
        let real: Vec<u32> = self.behind(cores)?;
        let all = real.len() == self.processors.len();
        (!real.is_empty() && !all).then(|| ranges(real))
    }

    fn behind(&self, cores: &[u32]) -> Option<Vec<u32>> {
        let one = |core: &u32| self.processors.get(*core as usize).copied();
        cores.iter().map(one).collect()
    }

    /// The processors behind core numbers; none where numbers of cores mean nothing.
    pub fn processors_of(&self, cores: &[u32]) -> Vec<u32> {
        if self.real && self.limit_cores {
            self.behind(cores).unwrap_or_default()
        } else {
            Vec::new()
        }
    }

    fn parents(&self) -> impl Iterator<Item = &PathBuf> {
        [
            &self.unified,
            &self.memory,
            &self.cpuset,
            &self.cpu,
            &self.pids,
            &self.devices,
        ]
        .into_iter()
        .flatten()
    }

    /// What an attempt used so far, its steps included.
    pub fn usage_of_job(&self, name: &str) -> JobUsage {
        let JobGroups { unified, memory } = self.groups_of_job(name);
        let peak = match (&memory, &unified) {
            (Some(path), _) => group::peak_memory(path, false),
            (None, Some(path)) => group::peak_memory(path, true),
            (None, None) => None,
        };
        JobUsage {
            peak_bytes: peak,
            cpu_us: unified.and_then(|path| group::cpu_time(&path)),
        }
    }

    /// The groups in which the whole of an attempt is counted, its steps included.
    pub fn groups_of_job(&self, name: &str) -> JobGroups {
        let within = |parent: &Option<PathBuf>| parent.as_ref().map(|p| p.join(name));
        JobGroups {
            unified: within(&self.unified),
            memory: within(&self.memory),
        }
    }

    /// Removes what is left of an attempt's groups, killing what is in them: for the end
    /// of an allocation, when its program and its steps are over. Most often there is
    /// nothing.
    pub fn remove_job(&self, name: &str) {
        for parent in [&self.unified, &self.memory, &self.cpu, &self.pids]
            .into_iter()
            .flatten()
        {
            remove_tree(&parent.join(name), REMOVAL);
        }
    }

    /// Kills and removes every group of this daemon but those called as `keep` says.
    pub fn clean(&self, keep: impl Fn(&str) -> bool) {
        for parent in self.parents() {
            for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
                let directory = entry.file_type().is_ok_and(|t| t.is_dir());
                let kept = entry.file_name().to_str().is_none_or(&keep);
                if !directory || kept {
                    continue;
                }
                // A shared one may serve a job that runs; then it is busy and stays.
                if is_shared(entry.file_name().as_bytes()) {
                    let _ = fs::remove_dir(entry.path());
                } else {
                    remove_tree(&entry.path(), REMOVAL);
                }
            }
        }
    }

    /// Removes the parents, as far as nothing is in them.
    pub fn remove_parents(&self) {
        for parent in self.parents() {
            remove_parent(parent);
        }
    }
}

/// Removes the parent of an attempt's groups with its shared groups, if all are empty.
pub fn remove_parent(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if is_shared(entry.file_name().as_bytes()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
    let _ = fs::remove_dir(parent);
}

fn is_shared(name: &[u8]) -> bool {
    SHARED.iter().any(|p| name.starts_with(p))
}

fn step_name(step: StepId) -> String {
    format!("s.{step}")
}

fn text_of(path: &Path) -> OsText {
    OsText(path.as_os_str().as_bytes().to_vec())
}

#[cfg(test)]
mod tests;
