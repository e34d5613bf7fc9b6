//! One question over the socket of `cosy-web`, as HTTP has it: as much of it as that needs.
//!
//! The answer is read to its end, for the question says that the connection is to be closed then.

use anyhow::{Context as _, bail};
use cosy_client::cluster;
use serde_json::Value as Json;
use std::io::{Read, Write};
use std::path::Path;
use std::time::Duration;

/// Bytes of an answer, at most.
const MOST: u64 = 1 << 20;
/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// The document that the program behind the socket answers.
///
/// # Errors
/// Nobody answers, it refuses, or what comes is no answer.
pub fn ask(socket: &Path, method: &str, path: &str, body: &Json) -> anyhow::Result<Json> {
    let text = body.to_string();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: cosy\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{text}",
        text.len()
    );
    let mut stream = cluster::connect(socket, PATIENCE).with_context(|| {
        format!("the web page does not run on this host (cosy-web, {})", socket.display())
    })?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(MOST).read_to_end(&mut answer)?;
    understand(&answer)
}

fn understand(answer: &[u8]) -> anyhow::Result<Json> {
    const END: &[u8] = b"\r\n\r\n";
    let end = answer.windows(END.len()).position(|four| four == END);
    let Some(end) = end else {
        bail!("cosy-web gave no answer");
    };
    let head = String::from_utf8_lossy(&answer[..end]);
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|word| word.parse::<u16>().ok());
    let body: Json = serde_json::from_slice(&answer[end + END.len()..]).unwrap_or(Json::Null);
    match (status, body["error"]["message"].as_str()) {
        (Some(200..=299), _) => Ok(body),
        (_, Some(message)) => bail!("{message}"),
        (Some(status), None) => bail!("cosy-web answers with status {status}"),
        (None, None) => bail!("cosy-web gave no understandable answer"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers() {
        let check = |text: &str, want: Result<&str, &str>| {
            let got = understand(text.as_bytes());
            let got = got.map(|json| json.to_string()).map_err(|e| e.to_string());
            assert_eq!(got.as_deref().map_err(String::as_str), want, "{text}");
        };
        check("HTTP/1.1 200 OK\r\nA: b\r\n\r\n{\"a\":1}", Ok("{\"a\":1}"));
        let refused =
            "HTTP/1.1 403 Forbidden\r\n\r\n{\"error\":{\"code\":\"x\",\"message\":\"no\"}}";
        check(refused, Err("no"));
        check("HTTP/1.1 500 X\r\n\r\n", Err("cosy-web answers with status 500"));
        check("", Err("cosy-web gave no answer"));
        check("x\r\n\r\n", Err("cosy-web gave no understandable answer"));
    }
}
