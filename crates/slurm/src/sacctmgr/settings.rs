//! What `set` and `add` say: words read into changes of the policy, with the lines that
//! `sacctmgr` prints about them. Source: sacctmgr(1), "SPECIFICATIONS FOR ACCOUNTS", "USERS",
//! "QOS"; recordings of 22.05.8.

mod table;

pub use table::Target;

use super::values;
use super::view::PolicyView;
use super::words::{Sign, Word, lookup, names};
use crate::show::clean;
use crate::times;
use cosy_model::Span;
use cosy_model::policy::{
    AdminLevel, AssociationChange, LimitKey, LimitKind, LimitPlace, Measure, PreemptMode,
    QosChange, QosFlag, QosListChange, Shares,
};
use std::collections::BTreeSet;
use table::{Setting, find};

/// What is to be set.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Settings {
    /// Of associations.
    pub association: AssociationChange,
    /// Of a quality of service.
    pub qos: QosChange,
    /// Any text about an account.
    pub description: Option<String>,
    /// Any text about an account.
    pub organization: Option<String>,
    /// The account above.
    pub parent: Option<String>,
    /// Right of a user.
    pub admin_level: Option<AdminLevel>,
    /// Account of a user's jobs that name none.
    pub default_account: Option<String>,
    /// Key of a user's jobs that name none.
    pub default_wckey: Option<String>,
    /// Keys that come to a user.
    pub wckeys: BTreeSet<String>,
    /// Usage is forgotten (`RawUsage=0`).
    pub reset_usage: bool,
    /// Something was said at all.
    pub given: bool,
    /// Lines about associations, or about the quality of service, as `add` prints them.
    pub lines: Vec<String>,
}

impl Settings {
    /// Whether an association is to change.
    pub fn changes_association(&self) -> bool {
        self.association != AssociationChange::default()
    }
}

/// Reads the word of one limit, as `GrpTRES=cpu=4,mem=10G`.
///
/// # Errors
/// The lines about what is wrong.
pub fn limit(place: LimitPlace, word: &str) -> Result<Vec<(LimitKey, Option<u64>)>, Vec<String>> {
    let target = match place {
        LimitPlace::Association => Target::User,
        LimitPlace::Qos => Target::Qos,
    };
    let mut settings = Settings::default();
    settings.read(target, &PolicyView::default(), word)?;
    Ok(match place {
        LimitPlace::Association => settings.association.limits,
        LimitPlace::Qos => settings.qos.limits,
    })
}

impl Settings {
    /// Reads one word of `set`.
    ///
    /// # Errors
    /// The lines about what is wrong, as Slurm prints them.
    pub fn read(
        &mut self,
        target: Target,
        view: &PolicyView,
        text: &str,
    ) -> Result<(), Vec<String>> {
        let word = Word::of(text);
        let unknown = || vec![format!(" Unknown option: {}", clean(text)), where_hint()];
        let (sign, value) = word.value.ok_or_else(unknown)?;
        let setting = find(target, word.name).ok_or_else(unknown)?;
        self.given = true;
        let read = match target {
            Target::Qos => self.of_qos(view, setting, text, (sign, value)),
            Target::Account | Target::User => {
                self.of_association(view, setting, text, (sign, value))
            }
        };
        read.map_err(|why| match (target, setting) {
            (Target::Qos, _) | (_, Setting::NotHere | Setting::RawUsage) => vec![why],
            (Target::User, _) => vec![why, format!(" Unknown option: {}", clean(text))],
            (Target::Account, _) => {
                vec![
                    why,
                    format!(" Unknown option: {}", clean(text)),
                    where_hint(),
                ]
            }
        })
    }

    fn of_association(
        &mut self,
        view: &PolicyView,
        setting: Setting,
        word: &str,
        (sign, value): (Sign, &str),
    ) -> Result<(), String> {
        match setting {
            Setting::Shares => {
                let shares = shares(value)?;
                self.association.shares = Some(shares);
                let shown = match shares {
                    Shares::Parent => "parent".to_owned(),
                    Shares::Count(count) => count.to_string(),
                };
                self.lines.push(line("Fairshare", &shown));
            }
            Setting::Priority => {
                let priority = priority(value)?;
                self.association.priority = Some(priority);
                self.lines.push(line("Priority", &shown(priority)));
            }
            Setting::QosList => {
                let listed = qos_list(view, sign, value)?;
                self.lines.push(line("QOS", &shown_list(&listed)));
                self.association.qos = Some(listed);
            }
            Setting::DefaultQos => {
                let default = (value != "-1" && !value.is_empty()).then(|| value.to_owned());
                if let Some(name) = &default {
                    known_qos(view, name)?;
                }
                let shown = default.clone().unwrap_or_else(|| "NONE".to_owned());
                self.lines.push(line("DefQOS", &shown));
                self.association.default_qos = Some(default);
            }
            Setting::Description => self.description = Some(value.to_lowercase()),
            Setting::Organization => self.organization = Some(value.to_lowercase()),
            Setting::Parent => self.parent = Some(value.to_lowercase()),
            Setting::AdminLevel => self.admin_level = Some(admin_level(value)?),
            Setting::DefaultAccount => self.default_account = Some(value.to_lowercase()),
            Setting::DefaultWckey => self.default_wckey = Some(value.to_owned()),
            Setting::Wckeys => self.wckeys.extend(names(value)),
            Setting::RawUsage => self.reset_usage = reset(value)?,
            other => {
                let limits = limits(other, word, value)?;
                self.lines
                    .extend(limit_line(other, &limits, Target::Account));
                self.association.limits.extend(limits);
            }
        }
        Ok(())
    }

    fn of_qos(
        &mut self,
        view: &PolicyView,
        setting: Setting,
        word: &str,
        (sign, value): (Sign, &str),
    ) -> Result<(), String> {
        match setting {
            Setting::Description => self.qos.description = Some(value.to_owned()),
            Setting::Priority => {
                let priority = priority(value)?.unwrap_or(0);
                self.qos.priority = Some(priority);
                self.lines.push(wide("Priority", &priority.to_string()));
            }
            Setting::RawUsage => self.reset_usage = reset(value)?,
            Setting::Flags => self.flags(sign, value)?,
            Setting::Grace => {
                let grace = match value {
                    "-1" => Span::ZERO,
                    value => values::seconds(value).ok_or_else(|| bad("GraceTime", value))?,
                };
                self.qos.grace = Some(grace);
                self.lines
                    .push(wide("GraceTime", &grace.secs().to_string()));
            }
            Setting::Preempt => {
                let listed = match value {
                    "" | "-1" => QosListChange::Exactly(BTreeSet::new()),
                    value => qos_list(view, sign, value)?,
                };
                self.lines.push(wide("Preempt", &shown_list(&listed)));
                self.qos.preempt = Some(listed);
            }
            Setting::PreemptMode => {
                let (mode, within) = preempt_mode(value)
                    .ok_or_else(|| format!(" Bad Preempt Mode given: {}", clean(word)))?;
                self.qos.preempt_mode = Some(mode);
                self.qos.preempt_within = Some(within);
                self.lines.push(wide("PreemptMode", &value.to_uppercase()));
            }
            Setting::PreemptExempt => {
                let span = values::minutes("PreemptExemptTime", word, value)?;
                let span = span
                    .and_then(|m| i64::try_from(m).ok())
                    .map(Span::from_minutes);
                let shown = span.map_or_else(|| "NONE".to_owned(), times::duration);
                self.lines.push(wide("PreemptExemptTime", &shown));
                self.qos.preempt_exempt = Some(span);
            }
            Setting::UsageFactor => {
                let factor = match value {
                    "-1" => Some(1_000_000),
                    value => values::millionths(value),
                };
                let factor = factor.ok_or_else(|| bad("UsageFactor", value))?;
                self.qos.usage_factor_ppm = Some(factor);
                let shown = format!("{}.{:04}", factor / 1_000_000, factor % 1_000_000 / 100);
                self.lines.push(wide("UsageFactor", &shown));
            }
            Setting::NotHere if value == "-1" => {}
            other => {
                let limits = limits(other, word, value)?;
                self.lines.extend(limit_line(other, &limits, Target::Qos));
                self.qos.limits.extend(limits);
            }
        }
        Ok(())
    }

    fn flags(&mut self, sign: Sign, value: &str) -> Result<(), String> {
        if value == "-1" || value.is_empty() {
            self.qos.flags = Some(BTreeSet::new());
            self.lines.push(wide("Flags", ""));
            return Ok(());
        }
        let mut flags = BTreeSet::new();
        for name in names(value) {
            let flag = QosFlag::of_word(&name).ok_or_else(|| {
                let all: Vec<&str> = QosFlag::ALL.iter().map(|f| f.word()).collect();
                format!(
                    " Unknown QOS flag used in:\n  '{}'\n Valid QOS flags are\n  '{}'",
                    clean(value),
                    all.join(",")
                )
            })?;
            flags.insert(flag);
        }
        let shown: Vec<&str> = flags.iter().map(|f| f.word()).collect();
        self.lines.push(wide("Flags", &shown.join(",")));
        match sign {
            Sign::Is => self.qos.flags = Some(flags),
            Sign::Plus => self.qos.add_flags.extend(flags),
            Sign::Minus => self.qos.remove_flags.extend(flags),
        }
        Ok(())
    }
}

/// What Slurm adds to a word that it does not know in `set`.
fn where_hint() -> String {
    " Use keyword 'where' to modify condition".to_owned()
}

fn bad(label: &str, value: &str) -> String {
    format!("sacctmgr: error: Invalid value for {label} ({})", clean(value))
}

fn shares(value: &str) -> Result<Shares, String> {
    if value.eq_ignore_ascii_case("parent") {
        return Ok(Shares::Parent);
    }
    match values::count("FairShare", value)? {
        None => Ok(Shares::default()),
        Some(count) => {
            let count = u32::try_from(count).ok().filter(|c| *c < 1 << 31);
            count
                .map(Shares::Count)
                .ok_or_else(|| bad("FairShare", value))
        }
    }
}

fn priority(value: &str) -> Result<Option<u32>, String> {
    match values::count("Priority", value)? {
        None => Ok(None),
        Some(n) => u32::try_from(n)
            .map(Some)
            .map_err(|_| bad("Priority", value)),
    }
}

fn reset(value: &str) -> Result<bool, String> {
    match value {
        "0" => Ok(true),
        value => Err(format!(
            "sacctmgr: error: RawUsage={}: usage can only be forgotten, with RawUsage=0",
            clean(value)
        )),
    }
}

fn admin_level(value: &str) -> Result<AdminLevel, String> {
    let levels = [
        ("None", AdminLevel::None),
        ("Operator", AdminLevel::Operator),
        ("Administrator", AdminLevel::Administrator),
        ("SuperUser", AdminLevel::Administrator),
    ];
    let found = lookup(&levels, value).map(|(_, level)| level);
    found.ok_or_else(|| {
        format!(
            "sacctmgr: error: Invalid value for AdminLevel ({}): None, Operator, Administrator",
            clean(value)
        )
    })
}

/// A mode, and whether jobs of the same quality of service preempt each other.
fn preempt_mode(value: &str) -> Option<(Option<PreemptMode>, bool)> {
    match value.to_ascii_lowercase().as_str() {
        "cluster" | "-1" => Some((None, false)),
        words => PreemptMode::of_words(words),
    }
}

fn known_qos(view: &PolicyView, name: &str) -> Result<(), String> {
    match view.qos(name) {
        Some(_) => Ok(()),
        None => Err(format!(
            "sacctmgr: error: You gave a bad qos '{}'. Valid QOS's are {}",
            clean(name),
            view.qos_names()
        )),
    }
}

fn qos_list(view: &PolicyView, sign: Sign, value: &str) -> Result<QosListChange, String> {
    // A sign may stand before the names too: `qos=+high`.
    let (sign, value) = match (sign, value.strip_prefix('+'), value.strip_prefix('-')) {
        (Sign::Is, Some(rest), _) => (Sign::Plus, rest),
        (Sign::Is, None, Some(rest)) if rest != "1" => (Sign::Minus, rest),
        _ => (sign, value),
    };
    if sign == Sign::Is && (value.is_empty() || value == "-1") {
        return Ok(QosListChange::Inherit);
    }
    let names: BTreeSet<String> = names(value).into_iter().map(|n| n.to_lowercase()).collect();
    for name in &names {
        known_qos(view, name)?;
    }
    Ok(match sign {
        Sign::Is => QosListChange::Exactly(names),
        Sign::Plus => QosListChange::Add(names),
        Sign::Minus => QosListChange::Remove(names),
    })
}

fn shown_list(list: &QosListChange) -> String {
    let (sign, names) = match list {
        QosListChange::Exactly(names) => ("", names),
        QosListChange::Add(names) => ("+", names),
        QosListChange::Remove(names) => ("-", names),
        QosListChange::Inherit => return String::new(),
    };
    let names: Vec<String> = names.iter().map(|n| format!("{sign}{n}")).collect();
    names.join(",")
}

fn limits(
    setting: Setting,
    word: &str,
    value: &str,
) -> Result<Vec<(LimitKey, Option<u64>)>, String> {
    let kind = match setting {
        Setting::Limit(kind) => kind,
        Setting::OneResource(kind, resource) => {
            let value = values::count(kind.word(), value)?;
            return Ok(vec![(LimitKey::of(kind, resource.tres()), value)]);
        }
        _ => return Err(format!(" {}: this has no meaning here and cannot be set", clean(word))),
    };
    Ok(match kind.measure() {
        measure if measure.by_tres() => values::resources(value)?
            .into_iter()
            .map(|(tres, amount)| (LimitKey::of(kind, tres), amount))
            .collect(),
        Measure::Wall => {
            vec![(LimitKey::plain(kind), values::minutes(kind.word(), word, value)?)]
        }
        _ => vec![(LimitKey::plain(kind), values::count(kind.word(), value)?)],
    })
}

fn shown(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "NONE".to_owned(), |v| v.to_string())
}

/// A line about an association: `  GrpJobs       = 5`.
fn line(label: &str, value: &str) -> String {
    format!("  {label:<14}= {value}")
}

/// A line about a quality of service: `  GrpJobs                  = 5`.
fn wide(label: &str, value: &str) -> String {
    format!("  {label:<25}= {value}")
}

/// The line that `add` prints about limits, with the names that Slurm has for them there.
fn limit_line(
    setting: Setting,
    limits: &[(LimitKey, Option<u64>)],
    target: Target,
) -> Option<String> {
    let kind = match setting {
        Setting::Limit(kind) | Setting::OneResource(kind, _) => kind,
        _ => return None,
    };
    let value = match kind.measure() {
        measure if measure.by_tres() => {
            let items = limits.iter().filter_map(|(key, value)| {
                key.tres.as_ref().map(|tres| values::amount(tres, *value))
            });
            items.collect::<Vec<_>>().join(",")
        }
        Measure::Wall => {
            let minutes = limits.first().and_then(|(_, value)| *value);
            let minutes = minutes.and_then(|m| i64::try_from(m).ok());
            minutes.map_or_else(|| "NONE".to_owned(), |m| times::duration(Span::from_minutes(m)))
        }
        _ => shown(limits.first().and_then(|(_, value)| *value)),
    };
    let label = match (kind, target) {
        (LimitKind::MaxTresMinsPerJob, _) => "MaxTRESMins",
        (LimitKind::MaxTresPerJob, Target::Account | Target::User) => "MaxTRES",
        (LimitKind::MaxJobsAccrue, _) => "MaxJobsPrioAcc",
        (LimitKind::MinPrioThreshold, _) => "MinPrioThresh",
        (LimitKind::MaxTresRunMinsPerAccount, _) => "MaxTRESRUNMinsPerAccount",
        (LimitKind::MaxTresRunMinsPerUser, _) => "MaxTRESRUNMinsPerUser",
        _ => kind.word(),
    };
    Some(match (kind, target) {
        (LimitKind::MaxJobsPerUser, _) => format!("  {label:<15}= {value}"),
        (LimitKind::GrpJobsAccrue, _) | (_, Target::Qos) => wide(label, &value),
        (_, Target::Account | Target::User) => line(label, &value),
    })
}
