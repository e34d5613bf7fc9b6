//! What a daemon knows of its GPUs: which there are, and what is wrong with them.

use super::ask::{self, FIRST_PATIENCE, SHORT_PATIENCE, look};
use super::list::GpuList;
use super::{GpuFigures, GpuSearch, GpusFound};
use crate::config::Config;
use crate::detect;
use crate::devices::Devices;
use crate::spool::attempts_in;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What the daemon knows of its GPUs.
#[derive(Debug, Default)]
pub struct Gpus {
    /// Those that were found, by number.
    list: GpuList,
    /// They are being looked at.
    looking: bool,
    /// What is wrong with them.
    problem: Option<String>,
    /// Configured devices that have lost their files.
    gone: Option<String>,
    /// What they did at the last look, by number, and when that was.
    figures: Vec<GpuFigures>,
    looked: Option<Instant>,
    /// Files of devices that were none at the start.
    never_there: Vec<PathBuf>,
}

impl Gpus {
    /// Looks which GPUs there are, and adds them to what the configuration says.
    pub async fn at_start(config: &mut Config) -> Self {
        let bad = config.devices.bad_files();
        let mut gpus = Self {
            never_there: bad.into_iter().map(Path::to_owned).collect(),
            ..Self::default()
        };
        if !config.gpu_search.off {
            gpus.find(config).await;
        }
        gpus
    }

    async fn find(&mut self, config: &mut Config) {
        let search = config.gpu_search.clone();
        let own_dir = config.spool_dir.join(&config.name);
        let earlier = GpuList::load(&own_dir);
        if !ask::worth_it(&search) && earlier.gpus.is_empty() {
            return;
        }
        let patience = match earlier.gpus.is_empty() {
            true => FIRST_PATIENCE,
            false => SHORT_PATIENCE,
        };
        match look(&search, patience, None).await.0 {
            Ok(found) => {
                self.list = earlier.with(&found, has_jobs(&own_dir));
                self.problem = self.list.problem(&found);
            }
            Err(why) => {
                tracing::warn!("{why}");
                // What is known of earlier holds until the next look, which has more time.
                self.problem = earlier.gpus.is_empty().then_some(why);
                self.list = earlier;
            }
        }
        let found = self.list.devices(&search);
        let count = self.list.gpus.len();
        tracing::info!("GPUs found: {count} ({})", found.words());
        config.devices.add(found);
    }

    /// Keeps the list for daemons that come later.
    pub fn keep(&self, own_dir: &Path) {
        if !self.list.gpus.is_empty()
            && let Err(e) = self.list.keep(own_dir)
        {
            tracing::warn!("the list of GPUs cannot be kept: {e}");
        }
    }

    /// Adds them to a configuration that was read again: their numbers stay.
    pub fn add_to(&self, config: &mut Config) {
        if !config.gpu_search.off {
            config.devices.add(self.list.devices(&config.gpu_search));
        }
    }

    /// What is configured now: of files that are new, those that are no devices do not count as gone.
    pub fn reconfigured(&mut self, old: &Devices, new: &Devices) {
        let files: Vec<&Path> = old.files().collect();
        let bad = new.bad_files().into_iter();
        let never = bad.filter(|file| !files.contains(file));
        self.never_there.extend(never.map(Path::to_owned));
    }

    /// What is wrong with them and with files of other devices, a line each.
    pub fn problems(&self) -> impl Iterator<Item = &str> {
        let both = [&self.problem, &self.gone];
        both.into_iter().flatten().map(String::as_str)
    }

    /// A look begins, unless they are being looked at, or there are none: false then.
    pub fn begin(&mut self, search: &GpuSearch) -> bool {
        let known = !self.list.gpus.is_empty() || self.problem.is_some();
        let begins = !search.off && !self.looking && (known || ask::worth_it(search));
        self.looking |= begins;
        begins
    }

    /// The helper has ended: there may be another one.
    pub fn end(&mut self) {
        self.looking = false;
    }

    /// Notes what a look says of them; true when what is wrong is new.
    pub fn note_look(&mut self, result: Result<GpusFound, String>) -> bool {
        let problem = match result {
            Ok(found) => {
                self.figures = self.list.figures(&found);
                self.looked = Some(Instant::now());
                self.list.problem(&found)
            }
            Err(why) => Some(why),
        };
        note(&mut self.problem, problem)
    }

    /// What they did at the last look, by number; nothing where that is older than `age`.
    pub fn figures(&self, age: Duration) -> &[GpuFigures] {
        match self.looked.is_some_and(|at| at.elapsed() <= age) {
            true => &self.figures,
            false => &[],
        }
    }

    /// Notes which configured devices have lost their files; true when what is wrong is new. Of GPUs
    /// that are configured now, what a library said is no matter any more.
    pub fn note_files(&mut self, devices: &Devices, search: &GpuSearch) -> bool {
        let forgotten = search.off && note(&mut self.problem, None);
        note(&mut self.gone, devices.gone(&self.never_there, search.off)) || forgotten
    }
}

/// Whether jobs of this boot hold something here.
fn has_jobs(own_dir: &Path) -> bool {
    detect::is_same_boot(own_dir) && attempts_in(own_dir).is_ok_and(|all| !all.is_empty())
}

/// Notes what is so now; true when that is new.
fn note(what: &mut Option<String>, now: Option<String>) -> bool {
    let new = *what != now;
    *what = now;
    new
}
