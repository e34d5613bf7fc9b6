//! TLS to a server whose certificate the site's authority has signed.

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::Socket;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::rustls;

/// Makes connections encrypted.
#[derive(Clone)]
pub struct Connector {
    config: Arc<rustls::ClientConfig>,
}

impl Connector {
    /// Trusts those whose certificates are in a file.
    ///
    /// # Errors
    /// In one line: what is wrong with the file.
    pub fn of(path: &Path) -> Result<Self, String> {
        let about = |e: &dyn std::fmt::Display| format!("certificates {}: {e}", path.display());
        let mut roots = rustls::RootCertStore::empty();
        let all = CertificateDer::pem_file_iter(path).map_err(|e| about(&e))?;
        for certificate in all {
            let certificate = certificate.map_err(|e| about(&e))?;
            roots.add(certificate).map_err(|e| about(&e))?;
        }
        if roots.is_empty() {
            return Err(about(&"there is none in it"));
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|e| about(&e))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self {
            config: Arc::new(config),
        })
    }
}

/// A connection to a host of that name.
pub struct ToHost {
    config: Arc<rustls::ClientConfig>,
    name: ServerName<'static>,
}

impl MakeTlsConnect<Socket> for Connector {
    type Stream = Encrypted;
    type TlsConnect = ToHost;
    type Error = rustls::pki_types::InvalidDnsNameError;

    fn make_tls_connect(&mut self, host: &str) -> Result<ToHost, Self::Error> {
        Ok(ToHost {
            config: self.config.clone(),
            name: ServerName::try_from(host.to_owned())?,
        })
    }
}

impl TlsConnect<Socket> for ToHost {
    type Stream = Encrypted;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Encrypted>> + Send>>;

    fn connect(self, socket: Socket) -> Self::Future {
        Box::pin(async move {
            let connector = tokio_rustls::TlsConnector::from(self.config);
            connector.connect(self.name, socket).await.map(Encrypted)
        })
    }
}

/// An encrypted connection.
pub struct Encrypted(tokio_rustls::client::TlsStream<Socket>);

impl TlsStream for Encrypted {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for Encrypted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Encrypted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
