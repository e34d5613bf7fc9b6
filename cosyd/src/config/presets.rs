//! Ready rules for reservations: those that are built in, and files.
//!
//! A policy file has one table, `[reservations]`, with the same keys as in `cosy.toml`;
//! what `cosy-sim calibrate` writes is one.

use super::reservations::Table;
use cosy_config::Check;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use toml::Spanned;

/// Name and text of each built-in policy.
pub(super) const BUILT_IN: [(&str, &str); 4] = [
    ("academic", include_str!("../../../etc/policies/academic.toml")),
    ("priced", include_str!("../../../etc/policies/priced.toml")),
    ("centre-96h", include_str!("../../../etc/policies/centre-96h.toml")),
    ("centre-72h", include_str!("../../../etc/policies/centre-72h.toml")),
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyFile {
    reservations: Table,
}

/// Reads the policy of that name and hands its table, with what checks its text, to
/// `take`. Its faults are told where the policy is named, each with its own file and line.
pub(super) fn read(
    check: &mut Check<'_>,
    name: &Spanned<String>,
    take: impl FnOnce(&mut Check<'_>, &Table),
) {
    let at = name.span().start;
    let (file, text) = match find(check.file(), name.get_ref()) {
        Ok(found) => found,
        Err(why) => return check.fault(at, why),
    };
    let mut inner = Check::new(&file, &text, &[]);
    if let Some(policy) = inner.deserialize::<PolicyFile>() {
        if let Some(other) = &policy.reservations.policy {
            let what = "a policy file cannot name another policy: copy its keys here";
            inner.fault(other.span().start, what);
        }
        take(&mut inner, &policy.reservations);
    }
    check.include(at, inner);
}

/// Where it is, for messages, and its text. Paths start where `cosy.toml` is.
fn find(config: &Path, name: &str) -> Result<(PathBuf, String), String> {
    if let Some((name, text)) = BUILT_IN.iter().find(|(known, _)| *known == name) {
        return Ok((PathBuf::from(format!("policy {name}")), (*text).to_owned()));
    }
    let path = config.parent().unwrap_or(Path::new("")).join(name);
    let text = std::fs::read_to_string(&path).map_err(|e| {
        let names = BUILT_IN.map(|(known, _)| known).join(", ");
        format!("there is no policy '{name}': use {names}, or a file ({}: {e})", path.display())
    })?;
    Ok((path, text))
}
