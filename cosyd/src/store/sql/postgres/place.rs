//! Where a server is, and as whom it is spoken to.

use super::super::value::{Error, Result};
use super::tls;
use std::future::poll_fn;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};
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
///
/// One of its hosts takes writes. The others may be away, which takes seconds to see: so the one that has
/// taken writes last is tried first. Clones know of each other which one that is.
#[derive(Clone)]
pub struct Place {
    /// Each with one host; at least one.
    hosts: Arc<Vec<Config>>,
    /// The number of the host that has taken writes last.
    last: Arc<AtomicUsize>,
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
        let hosts = self.hosts.iter().flat_map(Config::get_hosts);
        let hosts = hosts.map(|host| match host {
            Host::Tcp(name) => name.clone(),
            Host::Unix(path) => path.display().to_string(),
        });
        let hosts: Vec<String> = hosts.collect();
        let name = self.hosts.first().and_then(Config::get_dbname);
        let name = name.unwrap_or("postgres");
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
        let (hosts, ports) = (config.get_hosts().len(), config.get_ports().len());
        if ports > 1 && ports != hosts {
            return Err(format!("it names {hosts} hosts and {ports} ports"));
        }
        match (&settings.ca, config.get_ssl_mode()) {
            (None, SslMode::Require) => {
                return Err("it asks for encryption (sslmode=require): say with 'ca' whose certificates are trusted".to_owned());
            }
            (Some(_), _) => drop(config.ssl_mode(SslMode::Require)),
            (None, _) => drop(config.ssl_mode(SslMode::Disable)),
        }
        let password_file = settings.password_file.clone();
        Ok(Self {
            hosts: Arc::new((0..hosts).map(|at| only(&config, at)).collect()),
            last: Arc::default(),
            password_file,
            ca: settings.ca.clone(),
        })
    }

    /// Connects, within the runtime at hand.
    ///
    /// # Errors
    /// Nobody is there, nobody is let in, or no server takes writes where `writes`.
    pub async fn connect(&self, writes: bool, warned: Arc<AtomicBool>) -> Result<Client> {
        let first = self.last.load(Ordering::Relaxed);
        let mut why = Error::Other("no host is named".to_owned());
        for turn in 0..self.hosts.len() {
            let at = (first + turn) % self.hosts.len();
            let Some(host) = self.hosts.get(at) else {
                continue;
            };
            match self.connect_to(host, writes, warned.clone()).await {
                Ok(client) => {
                    if writes {
                        self.last.store(at, Ordering::Relaxed);
                    }
                    return Ok(client);
                }
                Err(e) => why = e,
            }
        }
        Err(why)
    }

    async fn connect_to(
        &self,
        host: &Config,
        writes: bool,
        warned: Arc<AtomicBool>,
    ) -> Result<Client> {
        let mut config = host.clone();
        if let Some(path) = &self.password_file {
            let text = std::fs::read_to_string(path)
                .map_err(|e| Error::Other(format!("password file {}: {e}", path.display())))?;
            config.password(text.trim_end_matches(['\n', '\r']));
        }
        if writes {
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        let tls = self.ca.as_deref().map(tls::Connector::of).transpose();
        let client = match tls.map_err(Error::Other)? {
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
        };
        // A server that waits for its standby must do so for us, whatever its default is.
        let session = "SET synchronous_commit = on; SET client_min_messages = warning;
            SET idle_in_transaction_session_timeout = '30s'; SET bytea_output = hex;
            SET standard_conforming_strings = on; SET TimeZone = 'UTC'";
        client.batch_execute(session).await.map_err(Error::from)?;
        Ok(client)
    }
}

/// The same with one of its hosts, and with our own limits of time.
fn only(all: &Config, at: usize) -> Config {
    let mut one = Config::new();
    match all.get_hosts().get(at) {
        Some(Host::Tcp(name)) => drop(one.host(name)),
        Some(Host::Unix(path)) => drop(one.host_path(path)),
        None => {}
    }
    if let Some(address) = all.get_hostaddrs().get(at) {
        one.hostaddr(*address);
    }
    if let Some(port) = all.get_ports().get(at).or(all.get_ports().first()) {
        one.port(*port);
    }
    if let Some(user) = all.get_user() {
        one.user(user);
    }
    if let Some(password) = all.get_password() {
        one.password(password);
    }
    if let Some(name) = all.get_dbname() {
        one.dbname(name);
    }
    if let Some(options) = all.get_options() {
        one.options(options);
    }
    one.ssl_mode(all.get_ssl_mode())
        .ssl_negotiation(all.get_ssl_negotiation())
        .target_session_attrs(all.get_target_session_attrs())
        .channel_binding(all.get_channel_binding())
        .application_name("cosyd")
        .connect_timeout(CONNECT)
        .tcp_user_timeout(SILENCE)
        .keepalives(true)
        .keepalives_idle(SILENCE)
        .keepalives_interval(Duration::from_secs(1))
        .keepalives_retries(3);
    one
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

#[cfg(test)]
mod tests {
    use super::*;

    fn place(connection: &str) -> std::result::Result<Place, String> {
        Place::of(&Settings {
            connection: connection.to_owned(),
            ..Settings::default()
        })
    }

    #[test]
    fn each_host_alone() {
        let check = |connection: &str, want: &[(&str, &[u16])]| {
            let place = place(connection).unwrap();
            let got: Vec<_> = place.hosts.iter().collect();
            assert_eq!(got.len(), want.len());
            for (got, (host, ports)) in got.iter().zip(want) {
                assert_eq!(got.get_hosts(), [Host::Tcp((*host).to_owned())]);
                assert_eq!(got.get_ports(), *ports);
                assert_eq!((got.get_user(), got.get_dbname()), (Some("u"), Some("d")));
            }
        };
        check("host=a user=u dbname=d", &[("a", &[])]);
        check("host=a,b port=7 user=u dbname=d", &[("a", &[7]), ("b", &[7])]);
        check("host=a,b port=7,8 user=u dbname=d", &[("a", &[7]), ("b", &[8])]);
        check("postgresql://u@a:7,b:8/d", &[("a", &[7]), ("b", &[8])]);
        let said = place("host=a,b port=1,2,3").unwrap_err();
        assert_eq!(said, "it names 2 hosts and 3 ports");
    }

    #[test]
    fn the_host_that_has_taken_writes_is_tried_first() {
        if !crate::store::server_tests::is_there() {
            return;
        }
        let connection = crate::store::server_tests::connection();
        let place = place(&connection.replace("host=", "host=/nowhere,/nor-here,")).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        for (writes, last) in [(false, 0), (true, 2), (false, 2), (true, 2)] {
            let client = runtime.block_on(place.clone().connect(writes, Arc::default()));
            assert!(client.is_ok());
            assert_eq!(place.last.load(Ordering::Relaxed), last);
        }
    }
}
