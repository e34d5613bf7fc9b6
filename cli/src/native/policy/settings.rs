//! `NAME=VALUE`: settings of accounts, users and qualities of service.

use cosy_model::policy::{
    AssociationChange, LimitKey, LimitKind, Measure, PreemptMode, QosChange, QosFlag,
    QosListChange, Shares, Tres,
};
use cosy_model::{MiB, Span, near};
use std::collections::BTreeSet;

/// What a setting without a value becomes.
const NONE: &str = "none";

/// Names of settings beside limits.
const OF_ASSOCIATIONS: &[&str] = &["shares", "qos", "default-qos", "priority", "comment"];
const OF_QOS: &[&str] = &[
    "priority",
    "description",
    "flags",
    "usage-factor",
    "preempt",
    "preempt-mode",
    "preempt-exempt",
    "grace",
];

/// A change of an association.
///
/// # Errors
/// Which setting is wrong, why, and what may have been meant.
pub fn association(all: &[String]) -> Result<AssociationChange, String> {
    let mut change = AssociationChange::default();
    for setting in all {
        let (name, value) = pair(setting)?;
        match name {
            "shares" => change.shares = Some(shares(value)?),
            "qos" => change.qos = Some(qos_list(value)),
            "default-qos" => change.default_qos = Some(optional(value).map(str::to_owned)),
            "priority" => change.priority = Some(optional(value).map(whole).transpose()?),
            "comment" => change.comment = Some(value.to_owned()),
            _ => {
                let found = limit(name, value, OF_ASSOCIATIONS, LimitKind::of_associations)?;
                change.limits.extend(found);
            }
        }
    }
    Ok(change)
}

/// A change of a quality of service.
///
/// # Errors
/// Which setting is wrong, why, and what may have been meant.
pub fn qos(all: &[String]) -> Result<QosChange, String> {
    let mut change = QosChange::default();
    for setting in all {
        let (name, value) = pair(setting)?;
        match name {
            "priority" => change.priority = Some(whole(value)?),
            "description" => change.description = Some(value.to_owned()),
            "flags" => flags(&mut change, value)?,
            "usage-factor" => change.usage_factor_ppm = Some(factor(value)?),
            "preempt" => change.preempt = Some(qos_list(value)),
            "preempt-mode" => {
                let (mode, within) = mode(value)?;
                change.preempt_mode = Some(mode);
                change.preempt_within = Some(within);
            }
            "preempt-exempt" => {
                change.preempt_exempt = Some(optional(value).map(span).transpose()?)
            }
            "grace" => change.grace = Some(span(value)?),
            _ => change
                .limits
                .extend(limit(name, value, OF_QOS, LimitKind::of_qos)?),
        }
    }
    Ok(change)
}

fn pair(setting: &str) -> Result<(&str, &str), String> {
    let (name, value) = setting
        .split_once('=')
        .ok_or_else(|| format!("'{setting}': write NAME=VALUE"))?;
    match name.is_empty() {
        true => Err(format!("'{setting}': write NAME=VALUE")),
        false => Ok((name, value)),
    }
}

fn optional(value: &str) -> Option<&str> {
    Some(value).filter(|value| !value.is_empty() && *value != NONE && *value != "-1")
}

fn whole(value: &str) -> Result<u32, String> {
    value
        .parse()
        .map_err(|_| format!("'{value}': a whole number from 0 to {} is needed", u32::MAX))
}

fn span(value: &str) -> Result<Span, String> {
    value.parse::<Span>().map_err(|e| e.to_string())
}

fn shares(value: &str) -> Result<Shares, String> {
    match value {
        "parent" => Ok(Shares::Parent),
        _ => whole(value)
            .map(Shares::Count)
            .map_err(|why| format!("{why}, or 'parent'")),
    }
}

/// `a,b`, `+a,b`, `-a,b`, or `none` for the list of the account above.
fn qos_list(value: &str) -> QosListChange {
    let (sign, names) = match value.split_at_checked(1) {
        Some((sign @ ("+" | "-"), names)) if value != "-1" => (sign, names),
        _ => ("", value),
    };
    if optional(value).is_none() {
        return QosListChange::Inherit;
    }
    let names = names.split(',').filter(|name| !name.is_empty());
    let names: BTreeSet<String> = names.map(str::to_owned).collect();
    match sign {
        "+" => QosListChange::Add(names),
        "-" => QosListChange::Remove(names),
        _ => QosListChange::Exactly(names),
    }
}

fn flags(change: &mut QosChange, value: &str) -> Result<(), String> {
    let (sign, words) = match value.split_at_checked(1) {
        Some((sign @ ("+" | "-"), words)) if value != "-1" => (sign, words),
        _ => ("", value),
    };
    let words = optional(words).unwrap_or("").split(',');
    let words = words.filter(|word| !word.is_empty());
    let found = words.map(|word| {
        QosFlag::of_word(word).ok_or_else(|| {
            let all: Vec<&str> = QosFlag::ALL.iter().map(|flag| flag.word()).collect();
            format!("'{word}' is no flag of a quality of service: there are {}", all.join(", "))
        })
    });
    let found = found.collect::<Result<BTreeSet<QosFlag>, String>>()?;
    match sign {
        "+" => change.add_flags = found,
        "-" => change.remove_flags = found,
        _ => change.flags = Some(found),
    }
    Ok(())
}

/// Millionths of a decimal number.
fn factor(value: &str) -> Result<u32, String> {
    let bad = || format!("'{value}': a number like 1, 0.5 or 2.25 is needed");
    let (whole, part) = value.split_once('.').unwrap_or((value, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if value.is_empty() || whole.len() > 4 || part.len() > 6 || !digits(whole) || !digits(part) {
        return Err(bad());
    }
    let whole: u32 = format!("0{whole}").parse().map_err(|_| bad())?;
    let part: u32 = format!("{part:0<6}").parse().map_err(|_| bad())?;
    whole
        .checked_mul(1_000_000)
        .and_then(|whole| whole.checked_add(part))
        .ok_or_else(bad)
}

fn mode(value: &str) -> Result<(Option<PreemptMode>, bool), String> {
    if optional(value).is_none() {
        return Ok((None, false));
    }
    PreemptMode::of_words(value).ok_or_else(|| {
        format!(
            "'{value}': jobs give way by 'cancel', 'requeue' or 'suspend'; 'off' keeps them, 'none' is as the cluster says; 'within' lets jobs of this one preempt each other, also as 'within,cancel'"
        )
    })
}

/// Limits that a setting names: several where it is a list of resources.
fn limit(
    name: &str,
    value: &str,
    others: &[&str],
    may_be_here: fn(LimitKind) -> bool,
) -> Result<Vec<(LimitKey, Option<u64>)>, String> {
    let kind = LimitKind::of_word(name).filter(|kind| may_be_here(*kind));
    let Some(kind) = kind else {
        let here = LimitKind::ALL.iter().filter(|kind| may_be_here(**kind));
        let words = here.map(|kind| kind.word()).chain(others.iter().copied());
        let words: Vec<&str> = words.collect();
        let hint = match near::nearest(name, words.iter().copied()) {
            Some(near) => format!("; did you mean {near}?"),
            None => format!(": there are {}", words.join(", ")),
        };
        return Err(format!("'{name}' cannot be set here{hint}"));
    };
    if !kind.measure().by_tres() {
        let key = LimitKey::plain(kind);
        let value = optional(value)
            .map(|value| plain(kind, value))
            .transpose()?;
        return Ok(vec![(key, value)]);
    }
    let example = || format!("{name}: write it for resources, as in {name}=cpu=100,gres/gpu=4");
    if value.is_empty() {
        return Err(example());
    }
    let one = |item: &str| {
        let (tres, value) = item.split_once('=').ok_or_else(example)?;
        let tres: Tres = tres.parse()?;
        let value = optional(value);
        let value = value.map(|value| amount(&tres, value)).transpose()?;
        Ok((LimitKey::of(kind, tres), value))
    };
    value.split(',').map(one).collect()
}

/// Numbers; times in whole minutes.
fn plain(kind: LimitKind, value: &str) -> Result<u64, String> {
    if kind.measure() == Measure::Wall {
        let minutes = span(value)?.0 / 60_000;
        return u64::try_from(minutes).map_err(|_| format!("'{value}' is no length of time"));
    }
    whole(value).map(u64::from)
}

/// An amount; of memory in MiB, with a unit.
fn amount(tres: &Tres, value: &str) -> Result<u64, String> {
    if *tres == Tres::Memory {
        return value
            .parse::<MiB>()
            .map(|size| size.0)
            .map_err(|e| e.to_string());
    }
    value
        .parse()
        .map_err(|_| format!("'{tres}={value}': a whole number is needed, or none"))
}

/// A limit's value as it is written: memory with its unit, wall times in days, hours, minutes.
pub fn written(key: &LimitKey, value: u64) -> String {
    if key.kind.measure() == Measure::Wall {
        let minutes = i64::try_from(value).unwrap_or(i64::MAX / 60_000);
        return Span::from_minutes(minutes).to_string();
    }
    match key.tres {
        Some(Tres::Memory) => MiB(value).to_string(),
        _ => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(all: &[(LimitKey, Option<u64>)]) -> String {
        let one = |(key, value): &(LimitKey, Option<u64>)| {
            let value = value.map_or_else(|| NONE.to_owned(), |value| written(key, value));
            format!("{key}={value}")
        };
        all.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn settings_of_associations() {
        let check = |text: &str, want: Result<&str, &str>| {
            let got = association(&[text.to_owned()]);
            match (got, want) {
                (Ok(change), Ok(want)) => assert_eq!(limits(&change.limits), want),
                (Err(why), Err(want)) => assert!(why.contains(want), "{text}: {why}"),
                (got, want) => panic!("{text}: {got:?}, not {want:?}"),
            }
        };
        check(
            "GrpTRES=cpu=100,mem=2G,gres/gpu:a100=4",
            Ok("GrpTRES=cpu=100 GrpTRES=mem=2G GrpTRES=gres/gpu:a100=4"),
        );
        check("grptres=cpu=-1", Ok("GrpTRES=cpu=none"));
        check("MaxJobs=4", Ok("MaxJobs=4"));
        check("MaxJobs=none", Ok("MaxJobs=none"));
        check("MaxWall=1d", Ok("MaxWall=1-00:00:00"));
        check("GrpTRES=4", Err("as in GrpTRES=cpu=100"));
        check("GrpTRES=", Err("as in GrpTRES=cpu=100"));
        check("GrpTRES=cores=4", Err("no resource that can be limited"));
        check("GrpTRES=cpu=many", Err("a whole number is needed"));
        check("MaxJobs=-3", Err("a whole number"));
        check("MaxJob=3", Err("did you mean MaxJobs?"));
        check("MaxJobsPerUser=3", Err("cannot be set here"));
        check("shares=-2", Err("or 'parent'"));
        check("shares", Err("NAME=VALUE"));
        check("=4", Err("NAME=VALUE"));
    }

    #[test]
    fn lists() {
        let names = |all: &[&str]| all.iter().map(|n| (*n).to_owned()).collect::<BTreeSet<_>>();
        assert_eq!(qos_list("a,b"), QosListChange::Exactly(names(&["a", "b"])));
        assert_eq!(qos_list("+a"), QosListChange::Add(names(&["a"])));
        assert_eq!(qos_list("-a"), QosListChange::Remove(names(&["a"])));
        assert_eq!(qos_list("none"), QosListChange::Inherit);
        assert_eq!(qos_list(""), QosListChange::Inherit);
        assert_eq!(qos_list("-1"), QosListChange::Inherit);
    }

    #[test]
    fn settings_of_qos() {
        let check = |text: &str, want: Result<u32, &str>| match (qos(&[text.to_owned()]), want) {
            (Ok(change), Ok(want)) => assert_eq!(change.usage_factor_ppm, Some(want)),
            (Err(why), Err(want)) => assert!(why.contains(want), "{text}: {why}"),
            (got, want) => panic!("{text}: {got:?}, not {want:?}"),
        };
        check("usage-factor=1", Ok(1_000_000));
        check("usage-factor=0.5", Ok(500_000));
        check("usage-factor=.25", Ok(250_000));
        check("usage-factor=2.000001", Ok(2_000_001));
        check("usage-factor=-1", Err("a number like"));
        check("usage-factor=1e9", Err("a number like"));
        check("usage-factor=", Err("a number like"));
        check("flags=Nothing", Err("DenyOnLimit"));
        check("preempt-mode=within,within", Err("'cancel', 'requeue' or 'suspend'"));
        check("preempt-mode=gang", Err("'cancel', 'requeue' or 'suspend'"));
        check("MaxJobs=3", Err("cannot be set here"));
    }
}
