//! The little of X11 that Cosy speaks: files with cookies ([`authority`]) and the first words of a
//! client ([`setup`]). Everything behind these passes through unread.
//!
//! Source: "X Window System Protocol", 8 (connection setup) and Appendix B; Xau(3).

pub mod authority;
pub mod setup;

/// The only kind of authorization that is understood.
pub const MAGIC_COOKIE: &[u8] = b"MIT-MAGIC-COOKIE-1";
/// TCP port of display 0; others follow.
pub const FIRST_PORT: u16 = 6000;

/// Whether a daemon has refused a step because it is of a release that forwards no displays: it
/// then does not know the word [`cosy_model::step::StepAsk::StartWithDisplay`].
pub fn is_unknown_word(refusal: &str) -> bool {
    refusal.contains("start_with_display")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame;
    use cosy_model::step::{StepAsk, StepCommand, StepSpec};

    /// What a daemon of an earlier release knows.
    #[derive(Debug, serde::Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Earlier {
        #[expect(dead_code, reason = "only read")]
        List { job: u64 },
    }

    #[test]
    fn what_an_earlier_release_refuses() {
        let command = StepCommand::Run {
            argv: vec!["xterm".into()],
            expand: false,
        };
        let ask = StepAsk::StartWithDisplay {
            job: cosy_model::JobId(1),
            spec: Box::new(StepSpec::plain("xterm", command)),
        };
        let bytes = frame::encode(&ask, 1 << 16).unwrap();
        let refusal = frame::decode::<Earlier>(&bytes[frame::HEADER..]).unwrap_err();
        assert!(is_unknown_word(&refusal.to_string()), "{refusal}");
        assert!(!is_unknown_word("job 1 is ending"));
    }
}
