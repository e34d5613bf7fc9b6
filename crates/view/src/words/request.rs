//! What else is asked for of a job, as text that nobody reads again.

use cosy_model::job::{MailRequest, WarnSignal};
use cosy_model::{JobSpec, OsText, Program};

/// Resource limits, soft and hard: `NOFILE=1024:4096,CORE=0:unlimited`.
pub fn rlimits(spec: &JobSpec) -> String {
    let number = |n: u64| match n {
        u64::MAX => "unlimited".to_owned(),
        n => n.to_string(),
    };
    let one = |(name, soft, hard): &(String, u64, u64)| {
        format!("{name}={}:{}", number(*soft), number(*hard))
    };
    let all: Vec<String> = spec.rlimits.iter().map(one).collect();
    all.join(",")
}

/// Changes that mail is sent about: `begin,end,time_limit_80`.
pub fn mail_types(mail: &MailRequest) -> String {
    let types = [
        (mail.begin, "begin"),
        (mail.end, "end"),
        (mail.fail, "fail"),
        (mail.requeue, "requeue"),
    ];
    let wanted = types.into_iter().filter(|(wanted, _)| *wanted);
    let shares = mail.limit_shares.iter().map(|share| match share {
        100 => "time_limit".to_owned(),
        share => format!("time_limit_{share}"),
    });
    let words = wanted.map(|(_, word)| word.to_owned()).chain(shares);
    words.collect::<Vec<_>>().join(",")
}

/// A signal before the limit: `10@60`, with `B:` before it when only for the script.
pub fn warn(warn: &WarnSignal) -> String {
    let whom = if warn.script_only { "B:" } else { "" };
    format!("{whom}{}@{}", warn.signal, warn.before.secs())
}

/// The command line, its words separated by spaces.
pub fn command(program: &Program) -> String {
    let (first, rest): (String, &[OsText]) = match program {
        Program::Script { name, args } => (name.lossy(), args),
        Program::Command { argv } => match argv.split_first() {
            Some((first, rest)) => (first.lossy(), rest),
            None => (String::new(), &[]),
        },
        Program::Allocation => (String::new(), &[]),
    };
    let mut words = vec![first];
    words.extend(rest.iter().map(OsText::lossy));
    words.join(" ")
}
