//! One setting of a dump: whether it can be carried over as it is, in part, or not.

use crate::sacctmgr::settings::{Settings, Target};
use crate::sacctmgr::view::PolicyView;
use cosy_model::policy::Tres;

/// Resources that Slurm limits and nothing here has.
const UNKNOWN: &[&str] = &["bb", "energy", "fs", "ic", "pages", "vmem"];

/// What becomes of a setting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Judged {
    /// It is taken as it is.
    Taken(String),
    /// It has no counterpart.
    Lost(String),
}

/// Judges `NAME=VALUE` of a line, but lists of qualities of service.
///
/// # Errors
/// It is known, and its value is none.
pub(super) fn judged(target: Target, option: &str) -> Result<Judged, String> {
    let read = |text: &str| {
        let mut settings = Settings::default();
        settings.read(target, &PolicyView::default(), text)
    };
    let Err(lines) = read(option) else {
        return Ok(Judged::Taken(option.to_owned()));
    };
    let (name, value) = option.split_once('=').unwrap_or((option, ""));
    // '-1' stands for no value, so a word that does not take it is not known.
    if read(&format!("{name}=-1")).is_err() && read(&format!("{name}=cpu=-1")).is_err() {
        return Ok(Judged::Lost(option.to_owned()));
    }
    let has_none = |item: &str| {
        let tres = item.split('=').next().unwrap_or_default();
        let kind = tres.split('/').next().unwrap_or_default();
        tres.parse::<Tres>().is_err() && UNKNOWN.contains(&kind.to_ascii_lowercase().as_str())
    };
    if value.split(',').any(has_none) {
        return Ok(Judged::Lost(option.to_owned()));
    }
    let why = lines.first().map_or("", String::as_str);
    let why = why.trim().trim_start_matches("sacctmgr: error: ");
    Err(format!("{option}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings() {
        let check = |option: &str, want: Option<bool>| {
            let got = judged(Target::User, option);
            let taken = got.as_ref().ok().map(|j| matches!(j, Judged::Taken(_)));
            assert_eq!(taken, want, "{option}: {got:?}");
        };
        check("GrpTRES=cpu=4,gres/gpu:a100=2", Some(true));
        check("MaxWallDurationPerJob=1440", Some(true));
        check("Fairshare=parent", Some(true));
        check("AdminLevel='Operator'", Some(true));
        check("GrpTRES=cpu=4,energy=7", Some(false));
        check("GrpTRES=bb/datawarp=7", Some(false));
        check("MaxWizards=4", Some(false));
        check("Fairshare=-5", None);
        check("GrpTRES=cpu=x", None);
        check("GrpTRES=foo=3", None);
        check("MaxJobs=many", None);
    }
}
