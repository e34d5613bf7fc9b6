//! Administrators tell how many of a licence are in use, by the cluster and outside of it.

use crate::event::Caller;
use crate::jobs::licenses::procedures::no_license;
use crate::planning::pools::procedures::{licenses_at, tell_license_count};
use crate::queues::access::procedures::require_admin;
use crate::rooms::Rooms;
use crate::turn::Turn;
use cosy_model::api::Reply;
use cosy_model::{About, EventKind, EventObject, Refusal, RefusalCode};

/// New jobs find as many fewer as others have; who runs keeps what it holds. Told again without a
/// difference, only the date is another.
pub(crate) fn use_license(
    rooms: &mut Rooms,
    turn: &mut Turn,
    caller: &Caller,
    license: &str,
    in_use: u32,
) -> Result<Reply, Refusal> {
    require_admin(&rooms.config, caller, "tell how many licences are in use")?;
    if rooms.config.licenses.get(license) == 0 {
        let why = no_license(&rooms.config, license);
        return Err(Refusal::new(RefusalCode::NotFound, why).about(About::License));
    }
    let total = licenses_at(&rooms.config, turn.now(), license);
    let by = caller.user.name.as_str();
    let before = rooms.jobs.licenses().told(license).cloned();
    let told = rooms.jobs.license_is_told(turn, by, license, in_use);
    let figures = |told: &cosy_model::LicenseUse| (told.in_use, told.outside);
    if before.as_ref().map(figures) == Some(figures(&told)) {
        return Ok(done(0));
    }
    tell_license_count(&rooms.config, &rooms.jobs, &mut rooms.planning, turn.now(), license);
    let outside = told.outside;
    let detail = format!("{in_use} in use, {outside} of them outside of the cluster, of {total}");
    let (now, object) = (turn.now(), EventObject::License(license.to_owned()));
    turn.happened(now, EventKind::InUse, by, object, detail);
    Ok(done(1))
}

const fn done(changed: u64) -> Reply {
    Reply::Done {
        changed,
        refused: Vec::new(),
    }
}
