//! The way from a command to the web page's program: its socket, one question and its answer.

pub mod http;

use cosy_client::cluster;
use cosy_model::variables;
use serde_json::Value as Json;
use std::path::PathBuf;

/// The socket of the page: `COSY_WEB_SOCKET`, that of the private cluster that the command belongs to,
/// or the system's.
pub fn socket() -> PathBuf {
    let named = std::env::var_os(variables::WEB_SOCKET).filter(|value| !value.is_empty());
    let dev = std::env::var_os(variables::DEV_DIR).filter(|value| !value.is_empty());
    match (named, dev) {
        (Some(path), _) => path.into(),
        (None, Some(dir)) => PathBuf::from(dir).join("run/web.sock"),
        (None, None) => cluster::WEB_SOCKET.into(),
    }
}

/// A new token, with what there is to say of it.
///
/// # Errors
/// There is no page, or it refuses.
pub fn make_token(ask: &Json) -> anyhow::Result<Json> {
    http::ask(&socket(), "POST", "/api/v1/tokens", ask)
}
