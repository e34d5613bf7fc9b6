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
    Column::right("RESERVED", |license| license.reserved.into()),
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
        reserved,
        reserved_in_use,
        told,
    } = license;
    let told = told.as_ref();
    vec![
        ("name", name.into()),
        ("total", (*total).into()),
        ("used", (*used).into()),
        ("outside", license.outside().into()),
        ("reserved", (*reserved).into()),
        ("reserved_in_use", (*reserved_in_use).into()),
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
        ("reserved", reserved(license).into()),
        ("free", license.free().into()),
    ];
    if let Some(LicenseUse { in_use, at, by, .. }) = &license.told {
        lines.push(("told in use", (*in_use).into()));
        lines.push(("told", (*at).into()));
        lines.push(("told by", by.into()));
    }
    lines
}

/// What reservations keep, and how much of that jobs inside have taken.
fn reserved(license: &License) -> String {
    match license.reserved {
        0 => "0".to_owned(),
        all => format!("{all}, of these {} used", license.reserved_in_use),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::Time;

    #[test]
    fn what_is_free() {
        let check = |total, used, (reserved, reserved_in_use), outside, free: u32| {
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
                reserved,
                reserved_in_use,
                told: Some(told),
            };
            assert_eq!(license.free(), free);
            assert!(fields(&license).contains(&("free", free.into())));
        };
        check(10, 4, (0, 0), 0, 6);
        check(10, 4, (0, 0), 3, 3);
        check(10, 4, (0, 0), 9, 0);
        check(10, 12, (0, 0), 0, 0);
        // What jobs inside have of a reservation is counted once.
        check(10, 4, (3, 0), 1, 2);
        check(10, 4, (3, 2), 1, 4);
        check(10, 4, (9, 0), 0, 0);
    }
}
