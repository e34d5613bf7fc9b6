//! `[preemption]` of `cosy.toml`, and what queues say of the preemption of their jobs.

use super::values::{Raw, length, set};
use cosy_config::Check;
use cosy_control::{PreemptBy, PreemptionConfig, QueuePreemption};
use cosy_model::policy::PreemptMode;
use serde::Deserialize;
use toml::Spanned;

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    #[serde(default)]
    by: Vec<Spanned<String>>,
    mode: Option<Spanned<String>>,
    exempt: Option<Raw>,
    exempt_priority: Option<Spanned<u32>>,
    #[serde(default)]
    within: bool,
    #[serde(default)]
    own_signal: bool,
}

/// `[queue.preemption]`: what a queue says of its jobs where others may preempt them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OfQueue {
    mode: Option<Spanned<String>>,
    grace: Option<Raw>,
    #[serde(default)]
    interactive: bool,
}

fn mode(check: &mut Check<'_>, text: &Spanned<String>) -> Option<PreemptMode> {
    let found = PreemptMode::of_word(text.get_ref());
    if found.is_none() {
        let what = format!(
            "'{}' is no way to preempt: use cancel, requeue, suspend or off",
            text.get_ref()
        );
        check.fault(text.span().start, what);
    }
    found
}

fn by(check: &mut Check<'_>, text: &Spanned<String>) -> Option<PreemptBy> {
    match text.get_ref().as_str() {
        "qos" => Some(PreemptBy::Qos),
        "queue" => Some(PreemptBy::Queue),
        other => {
            let what = format!("'{other}' is nothing to preempt by: use \"qos\" or \"queue\"");
            check.fault(text.span().start, what);
            None
        }
    }
}

pub(super) fn read<'a>(
    check: &mut Check<'_>,
    table: &Table,
    queues: impl Iterator<Item = (&'a str, Option<&'a OfQueue>)>,
) -> PreemptionConfig {
    let mut config = PreemptionConfig {
        by: table.by.iter().filter_map(|text| by(check, text)).collect(),
        exempt_priority: table
            .exempt_priority
            .as_ref()
            .map(|p| i64::from(*p.get_ref())),
        within: table.within,
        own_signal: table.own_signal,
        ..PreemptionConfig::default()
    };
    if let Some(read) = table.mode.as_ref().and_then(|text| mode(check, text)) {
        config.mode = read;
    }
    set(check, table.exempt.as_ref(), &mut config.exempt, length);
    for (name, own) in queues {
        let Some(own) = own else { continue };
        let row = QueuePreemption {
            mode: own.mode.as_ref().and_then(|text| mode(check, text)),
            grace: own.grace.as_ref().and_then(|text| length(check, text)),
            interactive: own.interactive,
        };
        config.queues.insert(name.to_owned(), row);
    }
    config
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{self, DAY};
    use super::*;
    use cosy_model::Span;

    fn read(more: &str) -> Result<PreemptionConfig, String> {
        Ok(fixture::read(&format!("{DAY}{more}"))?.preemption)
    }

    #[test]
    fn without_a_word_nobody_is_preempted() {
        assert_eq!(read(""), Ok(PreemptionConfig::default()));
        assert!(!read("").unwrap().is_on());
    }

    #[test]
    fn all_is_read() {
        let text = r#"
[queue.preemption]
mode = "cancel"
grace = "2m"
interactive = true
[preemption]
by = ["queue", "qos"]
mode = "suspend"
exempt = "10m"
exempt_priority = 1000
within = true
own_signal = true
"#;
        let queue = QueuePreemption {
            mode: Some(PreemptMode::Cancel),
            grace: Some(Span::from_minutes(2)),
            interactive: true,
        };
        let want = PreemptionConfig {
            by: [PreemptBy::Qos, PreemptBy::Queue].into(),
            mode: PreemptMode::Suspend,
            exempt: Span::from_minutes(10),
            exempt_priority: Some(1000),
            within: true,
            own_signal: true,
            queues: [("day".to_owned(), queue)].into(),
        };
        assert_eq!(read(text), Ok(want));
    }

    #[test]
    fn what_does_not_fit_is_told() {
        let check = |more: &str, want: &str| {
            let told = read(more).unwrap_err();
            assert!(told.contains(want), "{more}: {told}");
        };
        check("[preemption]\nby = [\"user\"]", "use \"qos\" or \"queue\"");
        check("[preemption]\nmode = \"gang\"", "use cancel, requeue, suspend or off");
        check("[preemption]\nexempt = \"soon\"", "soon");
        check("[preemption]\nexempt_priority = -1", "-1");
        check("[preemption]\ngrace = \"5s\"", "grace");
        check("[queue.preemption]\nmode = \"kill\"", "no way to preempt");
        check("[queue.preemption]\ngrace = 5", "no length of time");
    }
}
