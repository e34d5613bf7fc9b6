//! Passes: by them node daemons serve programs that ask for users, such as that of the web page.

use crate::conversations::interactive::gone;
use crate::event::{Caller, ClientId, Effect};
use crate::jobs::Jobs;
use crate::turn::Turn;
use cosy_model::api::Reply;
use cosy_model::limits::PASS_GOOD_FOR;
use cosy_model::step::PassClaims;
use cosy_model::{JobId, Refusal, RefusalCode};

/// Gives the asking user a pass, answered when it is signed: for an own job that runs, or for files.
///
/// # Errors
/// Whoever the directory does not know gets none; there is no such job of the user's, or it does
/// not run.
pub(crate) fn pass(
    jobs: &Jobs,
    turn: &mut Turn,
    client: ClientId,
    caller: &Caller,
    job: Option<JobId>,
) -> Result<Option<Reply>, Refusal> {
    let user = &caller.user;
    if !caller.resolved {
        let text = format!("the directory does not tell the groups of uid {}: try again", user.uid);
        return Err(Refusal::new(RefusalCode::Unavailable, text));
    }
    if let Some(id) = job {
        let job = jobs
            .get(&id)
            .filter(|job| job.submitted().uid == user.uid)
            .ok_or_else(|| gone(id))?;
        if job.run().is_none_or(|run| run.is_over()) {
            let text =
                format!("job {id} is {}: nothing of it runs that could be reached", job.state());
            return Err(Refusal::new(RefusalCode::WrongState, text));
        }
    }
    let claims = PassClaims {
        uid: user.uid,
        gid: user.gid,
        groups: user.gids(),
        job,
        expiry: turn.now() + PASS_GOOD_FOR,
    };
    turn.effect(Effect::Pass {
        client,
        claims: Box::new(claims),
    });
    Ok(None)
}
