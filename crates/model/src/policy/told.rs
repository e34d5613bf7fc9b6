//! Changes of the policy in words, for the history: what was set, in the words of `sacctmgr`.

use super::{AssociationChange, LimitKey, QosChange, QosListChange, Shares};
use crate::Span;

/// Longest text about one change, in characters.
const LONGEST: usize = 500;

/// Words of a change as they come, until there are too many.
#[derive(Debug, Default)]
struct Words(String);

impl Words {
    fn add(&mut self, name: &str, value: &str) {
        if self.0.chars().count() >= LONGEST {
            return;
        }
        if !self.0.is_empty() {
            self.0.push(' ');
        }
        self.0.push_str(name);
        self.0.push('=');
        self.0.push_str(value);
    }

    fn number(&mut self, name: &str, value: Option<impl ToString>) {
        let value = value.map(|value| value.to_string());
        self.add(name, value.as_deref().unwrap_or("-1"));
    }

    fn list(&mut self, name: &str, change: &QosListChange) {
        let (name, names) = match change {
            QosListChange::Exactly(names) => (name.to_owned(), names),
            QosListChange::Add(names) => (format!("{name}+"), names),
            QosListChange::Remove(names) => (format!("{name}-"), names),
            QosListChange::Inherit => return self.add(name, ""),
        };
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        self.add(&name, &names.join(","));
    }

    fn limits(&mut self, limits: &[(LimitKey, Option<u64>)]) {
        for (key, value) in limits {
            self.number(&key.to_string(), *value);
        }
    }

    fn text(self) -> String {
        match self.0.char_indices().nth(LONGEST) {
            Some((end, _)) => format!("{}...", self.0.get(..end).unwrap_or_default()),
            None => self.0,
        }
    }
}

impl AssociationChange {
    /// What it sets; nothing where it sets nothing. Some hundred characters at most.
    pub fn words(&self) -> String {
        let mut words = Words::default();
        match self.shares {
            Some(Shares::Count(count)) => words.number("Fairshare", Some(count)),
            Some(Shares::Parent) => words.add("Fairshare", "parent"),
            None => {}
        }
        if let Some(list) = &self.qos {
            words.list("QOS", list);
        }
        if let Some(default) = &self.default_qos {
            words.add("DefaultQOS", default.as_deref().unwrap_or("-1"));
        }
        if let Some(priority) = self.priority {
            words.number("Priority", priority);
        }
        if let Some(comment) = &self.comment {
            words.add("Comment", comment);
        }
        words.limits(&self.limits);
        words.text()
    }
}

impl QosChange {
    /// What it sets; nothing where it sets nothing. Some hundred characters at most.
    pub fn words(&self) -> String {
        let mut words = Words::default();
        if let Some(text) = &self.description {
            words.add("Description", text);
        }
        if let Some(priority) = self.priority {
            words.number("Priority", Some(priority));
        }
        if let Some(ppm) = self.usage_factor_ppm {
            words.add("UsageFactor", &format!("{}.{:06}", ppm / 1_000_000, ppm % 1_000_000));
        }
        let flags = [
            ("Flags", self.flags.as_ref()),
            ("Flags+", Some(&self.add_flags).filter(|f| !f.is_empty())),
            ("Flags-", Some(&self.remove_flags).filter(|f| !f.is_empty())),
        ];
        for (name, flags) in flags {
            if let Some(flags) = flags {
                let flags: Vec<&str> = flags.iter().map(|flag| flag.word()).collect();
                words.add(name, &flags.join(","));
            }
        }
        if let Some(list) = &self.preempt {
            words.list("Preempt", list);
        }
        if let Some(mode) = self.preempt_mode {
            let within = self.preempt_within.filter(|within| *within);
            let within = within.map(|_| "Within".to_owned());
            let mode = mode.map(|mode| format!("{mode:?}"));
            let both: Vec<String> = within.into_iter().chain(mode).collect();
            let cluster = both.is_empty().then_some("cluster");
            words.add("PreemptMode", cluster.unwrap_or(&both.join(",")));
        }
        if let Some(exempt) = self.preempt_exempt {
            words.number("PreemptExemptTime", exempt.map(Span::secs));
        }
        if let Some(grace) = self.grace {
            words.number("GraceTime", Some(grace.secs()));
        }
        words.limits(&self.limits);
        words.text()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set() {
        let key = |text: &str| text.parse::<LimitKey>().unwrap();
        let mut change = AssociationChange {
            shares: Some(Shares::Count(4)),
            qos: Some(QosListChange::Add(["high".to_owned()].into())),
            default_qos: Some(None),
            limits: vec![(key("GrpTRES=cpu"), Some(16)), (key("MaxJobs"), None)],
            ..AssociationChange::default()
        };
        let want = "Fairshare=4 QOS+=high DefaultQOS=-1 GrpTRES=cpu=16 MaxJobs=-1";
        assert_eq!(change.words(), want);
        assert_eq!(AssociationChange::default().words(), "");
        change.comment = Some("\u{fc}".repeat(10_000));
        assert_eq!(change.words().chars().count(), LONGEST + 3);
        let qos = QosChange {
            priority: Some(7),
            usage_factor_ppm: Some(500_000),
            grace: Some(Span::from_secs(60)),
            ..QosChange::default()
        };
        assert_eq!(qos.words(), "Priority=7 UsageFactor=0.500000 GraceTime=60");
    }
}
