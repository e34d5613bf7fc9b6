//! `scontrol token`: a token for programs that ask over REST, as `SLURM_JWT=...`.
//!
//! Source: scontrol(1), `token [lifespan=SECONDS|infinite] [username=USER]`.

use super::session::Session;
use crate::slurm::messages::say;
use crate::{exit, output, page};
use serde_json::json;

/// Seconds of a token that is to be good without end: the longest that there is.
const LONGEST: u64 = 366 * 86_400;

impl Session<'_> {
    /// Makes a token; `words` are those after `token`.
    pub(super) fn token(&self, words: &[String]) -> u8 {
        let mut ask = json!({});
        for word in words {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            match (key.to_ascii_lowercase().as_str(), value) {
                ("lifespan", "infinite" | "unlimited") => ask["seconds"] = LONGEST.into(),
                ("lifespan", value) => match value.parse::<u64>() {
                    Ok(seconds) => ask["seconds"] = seconds.into(),
                    Err(_) => {
                        say(&format!("lifespan is a number of seconds, not '{value}'"));
                        return exit::FAILED;
                    }
                },
                ("username", value) => ask["user"] = value.into(),
                _ => {
                    say(&format!("unknown word for token: {word}"));
                    return exit::FAILED;
                }
            }
        }
        match page::make_token(&ask) {
            Ok(told) => {
                let token = told["token"].as_str().unwrap_or_default();
                output::print(&format!("SLURM_JWT={token}\n"));
                exit::OK
            }
            Err(e) => {
                say(&format!("no token: {e:#}"));
                exit::FAILED
            }
        }
    }
}
