//! `--mail-type`. Source: sbatch(1), captures.

use super::Fault;
use cosy_model::job::MailRequest;

/// Reads a list of events. Those that do not happen here (`STAGE_OUT`) are accepted and send
/// nothing, as words are that mean nothing beside others; `ALL` includes no shares of the time limit.
///
/// # Errors
/// `Invalid --mail-type specification`.
pub fn read(text: &str) -> Result<MailRequest, Fault> {
    let mut mail = MailRequest::default();
    let mut known = false;
    for word in text.split(',').filter(|w| !w.is_empty()) {
        match word.to_ascii_uppercase().as_str() {
            "NONE" => mail = MailRequest::default(),
            "BEGIN" => mail.begin = true,
            "END" => mail.end = true,
            "FAIL" | "INVALID_DEPEND" => mail.fail = true,
            "REQUEUE" => mail.requeue = true,
            "ALL" => (mail.begin, mail.end, mail.fail, mail.requeue) = (true, true, true, true),
            "TIME_LIMIT" => share(&mut mail, 100),
            "TIME_LIMIT_50" => share(&mut mail, 50),
            "TIME_LIMIT_80" => share(&mut mail, 80),
            "TIME_LIMIT_90" => share(&mut mail, 90),
            "STAGE_OUT" | "ARRAY_TASKS" => {}
            _ => continue,
        }
        known = true;
    }
    match known {
        true => Ok(mail),
        false => Err(Fault::specification("mail-type")),
    }
}

fn share(mail: &mut MailRequest, share: u8) {
    if !mail.limit_shares.contains(&share) {
        mail.limit_shares.push(share);
        mail.limit_shares.sort_unstable();
    }
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
        check("FOO,begin", Some([true, false, false, false]));
        check("", None);
        let shares = read("TIME_LIMIT_80,time_limit,TIME_LIMIT_50,TIME_LIMIT_80");
        assert_eq!(shares.unwrap().limit_shares, [50, 80, 100]);
    }
}
