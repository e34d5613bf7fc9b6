//! `[licenses]` of `cosy.toml`: names of licences and how many of each there are.

use cosy_config::Check;
use cosy_model::{CountedResources, limits};
use std::collections::BTreeMap;
use toml::Spanned;

/// Counts by name as the file has them, with their places in it.
pub type Table = BTreeMap<String, Spanned<u32>>;

/// Counts by name, with a fault for each name that cannot be one.
pub fn read(check: &mut Check<'_>, table: &Table) -> CountedResources {
    let mut all = CountedResources::default();
    for (name, count) in table.iter().take(limits::LICENSES) {
        let fine = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if name.is_empty() || name.len() > limits::LICENSE_NAME_BYTES || !name.chars().all(fine) {
            let why = "a licence has a name of up to 64 letters, digits, '-', '_' and '.'";
            check.fault(count.span().start, why);
        }
        all.set(name, *count.get_ref());
    }
    if let Some((_, count)) = table.iter().nth(limits::LICENSES) {
        check.fault(count.span().start, format!("more than {} licences", limits::LICENSES));
    }
    all
}
