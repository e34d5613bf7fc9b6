//! What rules give jobs that only administrators may give otherwise.
//!
//! What always holds: what a user has asked for and no rule has set is not given by rules, in no
//! part of the request, so that the controller judges it by the user's rights.

use cosy_control::AdminField;
use cosy_model::JobSpec;
use cosy_rules::Field;
use std::collections::BTreeSet;

/// What was set by rules, and what was only asked for.
#[derive(Debug, Default)]
pub(super) struct Given {
    set: BTreeSet<AdminField>,
    only_asked: BTreeSet<AdminField>,
}

impl Given {
    /// One more job has been judged: what was asked for it, and the fields that rules have set.
    pub fn learn(&mut self, asked: BTreeSet<AdminField>, set: impl Iterator<Item = Field>) {
        let set: BTreeSet<AdminField> = set.filter_map(of_administrators).collect();
        self.only_asked.extend(asked.difference(&set));
        self.set.extend(set);
    }

    /// What rules have given.
    pub fn all(&self) -> Vec<AdminField> {
        self.set.difference(&self.only_asked).copied().collect()
    }
}

/// What of a job, or of a change, was asked for that only administrators may give.
pub(super) fn asked_for(spec: &JobSpec, of_change: Option<&[Field]>) -> BTreeSet<AdminField> {
    if let Some(fields) = of_change {
        return fields
            .iter()
            .copied()
            .filter_map(of_administrators)
            .collect();
    }
    let all = [
        (AdminField::AdminComment, !spec.admin_comment.is_empty()),
        (AdminField::Nice, spec.nice < 0),
        (AdminField::Priority, spec.priority.is_some()),
        (AdminField::SiteFactor, spec.site_factor != 0),
    ];
    let asked = all.into_iter().filter(|(_, asked)| *asked);
    asked.map(|(field, _)| field).collect()
}

fn of_administrators(field: Field) -> Option<AdminField> {
    match field {
        Field::AdminComment => Some(AdminField::AdminComment),
        Field::Nice => Some(AdminField::Nice),
        Field::Priority => Some(AdminField::Priority),
        Field::SiteFactor => Some(AdminField::SiteFactor),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_for_and_not_set_is_not_given() {
        use AdminField as A;
        let check = |jobs: &[(&[A], &[Field])], want: &[A]| {
            let mut given = Given::default();
            for (asked, set) in jobs {
                given.learn(asked.iter().copied().collect(), set.iter().copied());
            }
            assert_eq!(given.all(), want, "{jobs:?}");
        };
        check(&[(&[], &[Field::SiteFactor, Field::Queue])], &[A::SiteFactor]);
        check(&[(&[A::SiteFactor], &[Field::SiteFactor])], &[A::SiteFactor]);
        check(&[(&[A::SiteFactor], &[Field::Queue])], &[]);
        check(&[(&[], &[Field::Nice]), (&[A::Nice], &[])], &[]);
        check(&[(&[A::Priority], &[Field::Nice])], &[A::Nice]);
        let mut spec = cosy_model::JobSpec::plain(
            "job",
            cosy_model::Program::Allocation,
            cosy_model::OsText::from("/"),
        );
        spec.nice = 5;
        assert!(asked_for(&spec, None).is_empty());
        (spec.nice, spec.site_factor) = (-5, 7);
        assert_eq!(asked_for(&spec, None), [A::Nice, A::SiteFactor].into());
        assert_eq!(asked_for(&spec, Some(&[Field::Priority])), [A::Priority].into());
    }
}
