//! What is shown of licences.

use crate::column::{Column, Details, Fields};
use crate::value::FieldValue;
use cosy_model::{License, LicenseUse};

/// `cadm license list`.
pub const LIST: &[Column<License>] = &[
    Column::left("LICENCE", |license| (&license.name).into()),
    Column::right("TOTAL", |license| license.total.into()),
    Column::right("USED", |license| license.used.into()),
    Column::right("OUTSIDE", |license| license.outside().into()),
    Column::right("FREE", |license| license.free().into()),
    Column::left("TOLD", |license| {
        FieldValue::time_or_dash(license.told.as_ref().map(|told| told.at))
    }),
    Column::left_cut("BY", 6, |license| license.told.as_ref().map_or("-", |told| &told.by).into()),
];

/// All fields of a licence.
pub fn fields(license: &License) -> Fields<'_> {
    let License {
        name,
        total,
        used,
        told,
    } = license;
    let told = told.as_ref();
    vec![
        ("name", name.into()),
        ("total", (*total).into()),
        ("used", (*used).into()),
        ("outside", license.outside().into()),
        ("free", license.free().into()),
        ("told_in_use", told.map(|told| told.in_use).into()),
        ("told_at", FieldValue::Time(told.map(|told| told.at))),
        ("told_by", told.map(|told| &told.by).into()),
    ]
}

/// One licence, line by line.
pub fn details(license: &License) -> Details<'_> {
    let mut lines: Details<'_> = vec![
        ("total", license.total.into()),
        ("used by jobs", license.used.into()),
        ("outside", license.outside().into()),
        ("free", license.free().into()),
    ];
    if let Some(LicenseUse { in_use, at, by, .. }) = &license.told {
        lines.push(("told in use", (*in_use).into()));
        lines.push(("told", (*at).into()));
        lines.push(("told by", by.into()));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::Time;

    #[test]
    fn what_is_free() {
        let check = |total, used, outside, free| {
            let told = LicenseUse {
                in_use: used + outside,
                outside,
                at: Time(1),
                by: "root".into(),
            };
            let license = License {
                name: "l".into(),
                total,
                used,
                told: Some(told),
            };
            assert_eq!(license.free(), free);
            assert!(fields(&license).contains(&("free", free.into())));
        };
        check(10, 4, 0, 6);
        check(10, 4, 3, 3);
        check(10, 4, 9, 0);
        check(10, 12, 0, 0);
    }
}
