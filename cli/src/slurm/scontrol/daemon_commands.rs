//! Commands of `scontrol` that administrators of Slurm give to its daemons. Those that mean nothing
//! here are refused with a reason; other users get Slurm's refusal first, as there.

use super::session::{Session, too_few};
use crate::exit;
use crate::slurm::messages::{error, say};
use cosy_client::CallError;
use cosy_model::RefusalCode;
use cosy_model::api::Request;
use cosy_slurm::sentences;

/// A command that not even administrators can give here.
pub(super) struct UnsupportedCommand {
    /// Name of the function of Slurm's library, for the message.
    what: &'static str,
    /// Slurm's sentence for other users than administrators.
    denied: &'static str,
    /// The reason why it is refused, and what to do instead.
    why: &'static str,
}

const fn never(what: &'static str, why: &'static str) -> UnsupportedCommand {
    let denied = sentences::NO_PERMISSION;
    UnsupportedCommand { what, denied, why }
}

/// Why the log is not changed from here.
const LOG: &str = "the log is set in cosy.toml and by RUST_LOG";
/// Answer to `shutdown` and `abort`.
pub(super) const SHUTDOWN: UnsupportedCommand = UnsupportedCommand {
    what: "slurm_shutdown",
    denied: sentences::NOT_YOURS,
    why: "cosyd is stopped by the service manager of its host",
};
/// Answer to `setdebug`.
pub(super) const DEBUG: UnsupportedCommand = never("slurm_set_debug_level", LOG);
/// Answer to `setdebugflags`.
pub(super) const DEBUG_FLAGS: UnsupportedCommand = never("slurm_set_debug_flags", LOG);
/// Answer to `schedloglevel`.
pub(super) const SCHEDULER_LOG: UnsupportedCommand = never("slurm_set_schedlog_level", LOG);
/// Answer to `fsdampeningfactor`.
pub(super) const DAMPENING: UnsupportedCommand =
    never("slurm_set_fs_dampeningfactor", "there is no such factor here");

impl Session<'_> {
    pub(super) fn never(&self, never: &UnsupportedCommand) -> u8 {
        let admin = self.settings().is_some_and(|s| s.you_are_admin);
        let why = if admin { never.why } else { never.denied };
        say(&format!("{} error: {why}", never.what));
        exit::FAILED
    }

    pub(super) fn reboot(&self) -> u8 {
        error(self.context, "RebootProgram isn't defined");
        say(&format!("scontrol_reboot_nodes error: {}", sentences::UNSPECIFIED));
        exit::FAILED
    }

    pub(super) fn takeover(&self) -> u8 {
        let before = crate::controllers::all(self.context);
        if before.len() < 2 {
            sentences::NO_BACKUP.iter().for_each(|line| say(line));
            return exit::FAILED;
        }
        let why = match self.context.ask(Request::HandOver { to: None }) {
            Ok(_) if crate::controllers::until_another_leads(self.context, &before).is_some() => {
                return exit::OK;
            }
            Ok(_) => "no other controller has taken the lead".to_owned(),
            Err(e) => e.to_string(),
        };
        say(&format!("slurm_takeover error: {why}"));
        exit::FAILED
    }

    pub(super) fn number(&self, keyword: &str, rest: &[String]) -> u8 {
        match rest.first() {
            Some(number) => self.print(&format!("{}\n", sentences::of_number(number))),
            None => too_few(keyword),
        }
    }

    pub(super) fn reconfigure(&self) -> u8 {
        let why = match self.context.ask(Request::Reload) {
            Ok(_) => return exit::OK,
            Err(CallError::Refused(refusal)) if refusal.code == RefusalCode::Forbidden => {
                sentences::NOT_YOURS.to_owned()
            }
            Err(e) => e.to_string(),
        };
        say(&format!("slurm_reconfigure error: {why}"));
        exit::FAILED
    }
}
