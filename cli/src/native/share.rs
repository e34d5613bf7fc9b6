//! `cstat share`: where one stands in the order of queues that go by use, and how to read it.

use crate::native::arg::parse_limit;
use crate::{Context, times};
use cosy_model::Span;
use cosy_model::api::{Reply, Request};
use cosy_model::policy::{MoreUse, PolicyAnswer, PolicyQuery, Standing};
use cosy_view::standing::lines;
use serde_json::json;

/// `64x24:00:00`: cores and time of a job.
///
/// # Errors
/// What is wrong with it, and what would work.
pub fn parse_more(text: &str) -> Result<(u32, Span), String> {
    let both = text.split_once('x').and_then(|(cores, time)| {
        let cores = cores.parse().ok().filter(|cores| *cores > 0)?;
        let time = parse_limit(time).ok()?;
        (time > Span::ZERO && !time.is_unlimited()).then_some((cores, time))
    });
    both.ok_or_else(|| {
        "it is written as cores and time of a job: 64x24:00:00, 4x90 (minutes)".to_owned()
    })
}

/// What is told of the users; of the caller without one.
///
/// # Errors
/// A refusal, or no controller.
pub fn text(
    context: &Context,
    users: &[String],
    more: Option<&MoreUse>,
    as_json: bool,
) -> anyhow::Result<String> {
    let asked: Vec<Option<String>> = match users {
        [] => vec![None],
        named => named.iter().cloned().map(Some).collect(),
    };
    let mut all: Vec<Standing> = Vec::new();
    for user in asked {
        let more = more.cloned();
        match context.ask(Request::Policy(PolicyQuery::Standing { user, more }))? {
            Reply::Policy(PolicyAnswer::Standing(told)) => all.extend(told),
            _ => return Err(cosy_client::CallError::Unexpected.into()),
        }
    }
    if as_json {
        return Ok(format!("{:#}\n", json!({ "standing": all })));
    }
    if all.is_empty() {
        return Ok(
            "no place yet: who is in no account and has had no job here stands before all\n"
                .to_owned(),
        );
    }
    let now = times::time_of(&times::now());
    let lines = all.iter().flat_map(|standing| lines(standing, now));
    Ok(lines.map(|line| format!("{line}\n")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_more_job() {
        let check = |text: &str, want: Option<(u32, i64)>| {
            let want = want.map(|(cores, secs)| (cores, Span::from_secs(secs)));
            assert_eq!(parse_more(text).ok(), want, "{text}");
        };
        check("64x24:00:00", Some((64, 86_400)));
        check("4x90", Some((4, 5400)));
        check("0x90", None);
        check("4x0", None);
        check("4", None);
        check("x90", None);
        check("4xunlimited", None);
    }
}
