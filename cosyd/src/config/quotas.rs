//! Quotas in `cosy.toml`: of everyone, and of single users and accounts.

use super::values::{self, Raw, switchable};
use cosy_config::Check;
use cosy_control::Quotas;
use cosy_model::Span;
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    open: Option<Raw>,
    share: Option<Raw>,
    license_share: Option<Raw>,
    longest: Option<Raw>,
    ahead: Option<Raw>,
    notice: Option<Raw>,
}

/// What a table says: nothing of a limit, that there is none, or what it is.
#[derive(Clone, Default)]
pub(super) struct Patch {
    open: Option<Option<u32>>,
    share_ppm: Option<Option<u32>>,
    license_share_ppm: Option<Option<u32>>,
    longest: Option<Option<Span>>,
    ahead: Option<Option<Span>>,
    notice: Option<Option<Span>>,
}

impl Patch {
    pub(super) fn read(check: &mut Check<'_>, table: &Table) -> Self {
        Self {
            open: switchable(check, table.open.as_ref(), values::count),
            share_ppm: switchable(check, table.share.as_ref(), values::share),
            license_share_ppm: switchable(check, table.license_share.as_ref(), values::share),
            longest: switchable(check, table.longest.as_ref(), values::some_time),
            ahead: switchable(check, table.ahead.as_ref(), values::some_time),
            notice: switchable(check, table.notice.as_ref(), values::length),
        }
    }

    /// Changes what is said.
    pub(super) fn onto(&self, quotas: &mut Quotas) {
        quotas.open = self.open.unwrap_or(quotas.open);
        quotas.share_ppm = self.share_ppm.unwrap_or(quotas.share_ppm);
        let licenses = self.license_share_ppm.unwrap_or(quotas.license_share_ppm);
        quotas.license_share_ppm = licenses;
        quotas.longest = self.longest.unwrap_or(quotas.longest);
        quotas.ahead = self.ahead.unwrap_or(quotas.ahead);
        quotas.notice = self.notice.unwrap_or(quotas.notice);
    }

    /// Lays another over it.
    pub(super) fn lay(&mut self, over: Self) {
        self.open = over.open.or(self.open);
        self.share_ppm = over.share_ppm.or(self.share_ppm);
        self.license_share_ppm = over.license_share_ppm.or(self.license_share_ppm);
        self.longest = over.longest.or(self.longest);
        self.ahead = over.ahead.or(self.ahead);
        self.notice = over.notice.or(self.notice);
    }
}

/// The quotas of each: those of all, changed by what is said of it.
pub(super) fn of_each(patches: BTreeMap<String, Patch>, all: &Quotas) -> BTreeMap<String, Quotas> {
    let whole = |(name, patch): (String, Patch)| {
        let mut quotas = all.clone();
        patch.onto(&mut quotas);
        (name, quotas)
    };
    patches.into_iter().map(whole).collect()
}
