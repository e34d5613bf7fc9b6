//! Who may submit at all: `AccountingStorageEnforce`, and what judges submissions. What judges them
//! and cannot be carried over leaves the cluster to administrators.

use super::lines::Line;
use super::reader::Reader;
use super::records::{Enforced, Rule};

/// Plugins of `JobSubmitPlugins` that refuse no job.
const HARMLESS: &[&str] = &[
    "all_partitions",
    "cray_aries",
    "defaults",
    "logging",
    "partition",
    "pbs",
];

/// What `AccountingStorageEnforce` asks for. A word that is not known stands for everything.
pub(super) fn enforced(value: &str) -> Enforced {
    let mut all = Enforced {
        words: value.to_owned(),
        ..Enforced::default()
    };
    for word in value.split(',').map(str::trim) {
        match word.to_ascii_lowercase().as_str() {
            "" | "0" | "none" | "nojobs" | "nosteps" => continue,
            "associations" | "1" => {}
            "limits" | "2" => all.limits = true,
            "safe" => (all.limits, all.safe) = (true, true),
            "qos" => all.qos = true,
            "wckeys" => all.wckeys = true,
            _ => (all.limits, all.safe, all.qos, all.wckeys) = (true, true, true, true),
        }
        all.associations = true;
    }
    all
}

/// Rules beside which there is room for those of the cluster.
const MOST_RULES: usize = 900;
/// Root asks for a job; what root changes of others' jobs is none.
pub(super) const BY_ROOT: &str = "user == \"root\" and request != \"change\"";

impl Reader {
    /// `JobSubmitPlugins`: a rule in place of each that may refuse jobs.
    pub(super) fn submit_plugins(&mut self, line: &Line, value: &str) {
        for plugin in value.split(',').map(str::trim).filter(|p| !p.is_empty()) {
            let name = plugin.strip_prefix("job_submit/").unwrap_or(plugin);
            if HARMLESS.contains(&name) {
                self.note(
                    line,
                    &format!("JobSubmitPlugins={plugin} is not carried over: it refuses no job"),
                );
            } else if name == "require_timelimit" {
                self.rule(Rule {
                    name: "require_timelimit".into(),
                    comment: "In Slurm: JobSubmitPlugins=require_timelimit.".into(),
                    when: String::new(),
                    require: "time_limit is set".into(),
                    refuse: "a job needs a time limit here: use --time".into(),
                });
            } else if let Some(path) = self.lua.clone().filter(|_| name == "lua") {
                self.note(line, &format!("JobSubmitPlugins={plugin}: {path} judges submissions here too; 'cadm rule test' tries it"));
                self.cluster.lua = Some(path);
            } else {
                self.unknown_plugin(line, plugin);
            }
        }
    }

    fn unknown_plugin(&mut self, line: &Line, plugin: &str) {
        let shown: String = plugin.chars().take(60).collect();
        self.note(
            line,
            &format!("JobSubmitPlugins={plugin} is not carried over and may refuse jobs: nobody but administrators may submit until rule '{shown}' in [submit] is replaced"),
        );
        self.rule(Rule {
            name: shown,
            comment: format!("In Slurm: JobSubmitPlugins={plugin}, which may have refused jobs. Write its rules here ([submit] in the administrator's guide), then remove this one."),
            when: "not admin".into(),
            require: String::new(),
            refuse: "this cluster was moved from Slurm, and what judged jobs there is not here yet: jobs are taken when the administrators have said by which rules".into(),
        });
    }

    /// `DisableRootJobs` of the cluster.
    pub(super) fn no_root_jobs(&mut self) {
        self.rule(Rule {
            name: "DisableRootJobs".into(),
            comment: "In Slurm: DisableRootJobs=YES.".into(),
            when: BY_ROOT.into(),
            require: String::new(),
            refuse: "root runs no jobs".into(),
        });
    }

    /// A rule about jobs that may go to a queue, because of a word of its partition. False where
    /// there is no room for it, or rules cannot name the queue.
    pub(super) fn queue_rule(
        &mut self,
        queue: &str,
        word: &str,
        (when, require): (&str, String),
        refuse: String,
    ) -> bool {
        let named = !queue.contains(['"', '\'', '\\', '{', '}']);
        if !named || self.cluster.rules.len() >= MOST_RULES {
            return false;
        }
        let there = format!("(target_queue == \"{queue}\" or \"{queue}\" in queues)");
        self.rule(Rule {
            name: format!("partition {queue}: {word}"),
            comment: format!("In Slurm: {word} of partition {queue}."),
            when: match when {
                "" => there,
                when => format!("{when} and {there}"),
            },
            require,
            refuse,
        });
        true
    }

    /// Each name once.
    fn rule(&mut self, rule: Rule) {
        let rules = &mut self.cluster.rules;
        if !rules.iter().any(|known| known.name == rule.name) {
            rules.push(rule);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        let check = |text: &str, want: [bool; 5]| {
            let e = enforced(text);
            let got = [e.associations, e.limits, e.qos, e.safe, e.wckeys];
            assert_eq!(got, want, "{text}");
        };
        check("", [false; 5]);
        check("none", [false; 5]);
        check("nojobs,nosteps", [false; 5]);
        check("Associations", [true, false, false, false, false]);
        check("limits, qos", [true, true, true, false, false]);
        check("safe", [true, true, false, true, false]);
        check("wckeys", [true, false, false, false, true]);
        check("all", [true; 5]);
        check("wizards", [true; 5]);
    }
}
