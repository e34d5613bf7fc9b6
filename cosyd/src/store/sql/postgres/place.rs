//! Where a server is, and as whom it is spoken to.

use super::super::value::{Error, Result};
use super::tls;
use std::future::poll_fn;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio_postgres::config::{SslMode, TargetSessionAttrs};
use tokio_postgres::{AsyncMessage, Client, Config, NoTls, Socket};

/// For reaching a server.
const CONNECT: Duration = Duration::from_secs(3);
/// A server that acknowledges nothing for so long is given up.
const SILENCE: Duration = Duration::from_secs(5);

/// What the configuration says of a server.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Settings {
    /// libpq's words or address: `host=a,b dbname=cosy user=cosy`, `postgresql://cosy@a,b/cosy`.
    pub connection: String,
    /// File with the password.
    pub password_file: Option<PathBuf>,
    /// File with the certificates of those who sign for servers; without, nothing is encrypted.
    pub ca: Option<PathBuf>,
}

/// How a server is connected to.
#[derive(Clone)]
pub struct Place {
    config: Arc<Config>,
    /// Read anew for each connection: it may be changed.
    password_file: Option<PathBuf>,
    /// Certificates of those who sign for servers; read anew, too.
    ca: Option<PathBuf>,
}

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        use tokio_postgres::config::Host;
        let hosts = self.config.get_hosts().iter().map(|host| match host {
            Host::Tcp(name) => name.clone(),
            Host::Unix(path) => path.display().to_string(),
        });
        let hosts: Vec<String> = hosts.collect();
        let name = self.config.get_dbname().unwrap_or("postgres");
        write!(f, "PostgreSQL {name} at {}", hosts.join(", "))
    }
}

impl Place {
    /// Reads what the configuration says.
    ///
    /// # Errors
    /// In one line: what is wrong with it.
    pub fn of(settings: &Settings) -> std::result::Result<Self, String> {
        let mut config: Config =
            settings
                .connection
                .parse()
                .map_err(|e: tokio_postgres::Error| {
                    let cause = std::error::Error::source(&e).map(|cause| format!(": {cause}"));
                    format!("{e}{}", cause.unwrap_or_default())
                })?;
        if config.get_hosts().is_empty() {
            return Err("it names no host".to_owned());
        }
        match (&settings.ca, config.get_ssl_mode()) {
            (None, SslMode::Require) => {
                return Err("it asks for encryption (sslmode=require): say with 'ca' whose certificates are trusted".to_owned());
            }
            (Some(_), _) => drop(config.ssl_mode(SslMode::Require)),
            (None, _) => drop(config.ssl_mode(SslMode::Disable)),
        }
        config
            .application_name("cosyd")
            .connect_timeout(CONNECT)
            .tcp_user_timeout(SILENCE)
            .keepalives(true)
            .keepalives_idle(SILENCE)
            .keepalives_interval(Duration::from_secs(1))
            .keepalives_retries(3);
        let config = Arc::new(config);
        let password_file = settings.password_file.clone();
        Ok(Self {
            config,
            password_file,
            ca: settings.ca.clone(),
        })
    }

    /// Connects, within the runtime at hand.
    ///
    /// # Errors
    /// Nobody is there, nobody is let in, or no server takes writes where `writes`.
    pub async fn connect(&self, writes: bool, warned: Arc<AtomicBool>) -> Result<Client> {
        let mut config = Config::clone(&self.config);
        if let Some(path) = &self.password_file {
            let text = std::fs::read_to_string(path)
                .map_err(|e| Error::Other(format!("password file {}: {e}", path.display())))?;
            config.password(text.trim_end_matches(['\n', '\r']));
        }
        if writes {
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        let tls = self.ca.as_deref().map(tls::Connector::of).transpose();
        let tls = tls.map_err(Error::Other)?;
        let connected = async {
            Ok::<_, tokio_postgres::Error>(match tls {
                Some(tls) => {
                    let (client, connection) = config.connect(tls).await?;
                    tokio::spawn(carry(connection, warned));
                    client
                }
                None => {
                    let (client, connection) = config.connect(NoTls).await?;
                    tokio::spawn(carry(connection, warned));
                    client
                }
            })
        };
        let client = connected.await?;
        // A server that waits for its standby must do so for us, whatever its default is.
        let session = "SET synchronous_commit = on; SET client_min_messages = warning;
            SET idle_in_transaction_session_timeout = '30s'; SET bytea_output = hex;
            SET standard_conforming_strings = on; SET TimeZone = 'UTC'";
        client.batch_execute(session).await.map_err(Error::from)?;
        Ok(client)
    }
}

/// Carries the connection, and notes what the server warns of.
async fn carry<S>(mut connection: tokio_postgres::Connection<Socket, S>, warned: Arc<AtomicBool>)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    loop {
        match poll_fn(|context| connection.poll_message(context)).await {
            Some(Ok(AsyncMessage::Notice(notice))) => {
                if notice.severity() == "WARNING" {
                    tracing::warn!("the database says: {}", notice.message());
                    warned.store(true, Ordering::Relaxed);
                }
            }
            Some(Ok(_)) => {}
            Some(Err(e)) => return tracing::debug!("the database's connection: {e}"),
            None => return,
        }
    }
}
