//! `noded join`: a new host makes its key, shows the one-time token to the controller
//! that the token pins, and writes its configuration.

use crate::config;
use crate::link::{LinkError, Peer};
use anyhow::{Context, bail};
use cosy_model::limits;
use cosy_proto::keys::{JoinToken, KeyPair};
use cosy_proto::link::{Hello, HelloReply};
use std::fs::{DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What the command line says.
#[derive(Debug)]
pub struct Join {
    /// Addresses of the controllers, `HOST:PORT`, at least one. The one that leads takes hosts on.
    pub controllers: Vec<String>,
    /// The token's whole text.
    pub token: String,
    /// Name of the node.
    pub name: String,
    /// Configuration file to write.
    pub config: PathBuf,
    /// Private key file to write, or to use when it is there.
    pub key: PathBuf,
    /// Goes into the configuration.
    pub spool_dir: PathBuf,
}

/// Joins a cluster; gives its name.
///
/// # Errors
/// In one line with its causes.
pub fn run(join: &Join) -> anyhow::Result<String> {
    let token: JoinToken = join
        .token
        .parse()
        .map_err(|why: String| anyhow::anyhow!(why))?;
    config::check_name(&join.name).map_err(anyhow::Error::msg)?;
    for address in &join.controllers {
        config::check_address("controller", address).map_err(anyhow::Error::msg)?;
    }
    if join.controllers.len() > limits::CONTROLLERS {
        bail!("a cluster has at most {} controllers", limits::CONTROLLERS);
    }
    if join.config.exists() {
        bail!(
            "{} is there already: remove it first if this host is to join anew",
            join.config.display()
        );
    }
    let key = own_key(&join.key)?;
    let cluster = ask(join, &token, &key)?;
    write_config(join, &token)?;
    Ok(cluster)
}

fn own_key(path: &Path) -> anyhow::Result<Arc<KeyPair>> {
    let about = || format!("private key {}", path.display());
    if path.exists() {
        return crate::link::read_key(path);
    }
    let key = KeyPair::generate()?;
    parent_of(path)?;
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut f| f.write_all(key.pkcs8()).and_then(|()| f.sync_all()))
        .with_context(about)?;
    Ok(Arc::new(key))
}

fn ask(join: &Join, token: &JoinToken, key: &KeyPair) -> anyhow::Result<String> {
    let hello = Hello::Join {
        version: cosy_proto::PROTOCOL,
        node: join.name.clone(),
        token: token.secret.clone(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut said = Vec::new();
    for address in &join.controllers {
        let peer = Peer::new(address.clone(), key, token.controller)?;
        let why = match runtime.block_on(peer.greet(&hello)) {
            Ok((_, HelloReply::Joined { cluster })) => return Ok(cluster),
            Ok((_, HelloReply::Refused { reason })) => bail!("the controller refuses: {reason}"),
            Ok((_, HelloReply::Standby { .. })) => "it stands by".to_owned(),
            Ok((_, HelloReply::Welcome { .. })) => LinkError::Unexpected.to_string(),
            Err(e) => e.to_string(),
        };
        said.push(format!("controller {address}: {why}"));
    }
    bail!("{}", said.join("; "))
}

fn write_config(join: &Join, token: &JoinToken) -> anyhow::Result<()> {
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let quoted = |text: String| toml::Value::String(text).to_string();
    let controllers = match join.controllers.as_slice() {
        [one] => format!("controller = {}", quoted(one.clone())),
        all => format!("controllers = {}", toml::Value::from(all.to_vec())),
    };
    let text = format!(
        "# Written by 'noded join'. All keys: noded(8).\n\
         name = {}\n{controllers}\ncontroller_key = {}\nkey = {}\nspool_dir = {}\n",
        quoted(join.name.clone()),
        quoted(token.controller.to_string()),
        quoted(absolute(&join.key).display().to_string()),
        quoted(absolute(&join.spool_dir).display().to_string()),
    );
    let about = || format!("configuration {}", join.config.display());
    parent_of(&join.config)?;
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o644)
        .open(&join.config)
        .and_then(|mut f| f.write_all(text.as_bytes()))
        .with_context(about)
}

fn parent_of(path: &Path) -> anyhow::Result<()> {
    let Some(parent) = path.parent().filter(|p| !p.as_os_str().is_empty()) else {
        return Ok(());
    };
    DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(parent)
        .with_context(|| format!("directory {}", parent.display()))
}
