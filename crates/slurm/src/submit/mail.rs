//! `--mail-type`. Source: sbatch(1), captures.

use super::Fault;
use cosy_model::job::MailRequest;

/// Reads a list of events. Those that do not happen here (`STAGE_OUT`, shares of the time
/// limit) are accepted and send nothing; an `ALL` includes none of them either.
///
/// # Errors
/// `Invalid --mail-type specification`.
pub fn read(text: &str) -> Result<MailRequest, Fault> {
    let mut mail = MailRequest::default();
    for word in text.split(',').filter(|w| !w.is_empty()) {
        match word.to_ascii_uppercase().as_str() {
            "NONE" => mail = MailRequest::default(),
            "BEGIN" => mail.begin = true,
            "END" => mail.end = true,
            "FAIL" | "INVALID_DEPEND" => mail.fail = true,
            "REQUEUE" => mail.requeue = true,
            "ALL" => (mail.begin, mail.end, mail.fail, mail.requeue) = (true, true, true, true),
            "STAGE_OUT" | "TIME_LIMIT" | "TIME_LIMIT_50" | "TIME_LIMIT_80" | "TIME_LIMIT_90"
            | "ARRAY_TASKS" => {}
            _ => return Err(Fault::specification("mail-type")),
        }
    }
    Ok(mail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events() {
        let check = |text: &str, want: Option<[bool; 4]>| {
            let got = read(text).ok();
            let got = got.map(|m| [m.begin, m.end, m.fail, m.requeue]);
            assert_eq!(got, want, "{text}");
        };
        check("BEGIN,end", Some([true, true, false, false]));
        check("ALL", Some([true; 4]));
        check("ALL,NONE", Some([false; 4]));
        check("TIME_LIMIT_80,FAIL", Some([false, false, true, false]));
        check("FOO", None);
    }
}
