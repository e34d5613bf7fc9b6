//! TLS 1.3 with raw public keys (RFC 7250): each host has its own key, each peer pins
//! the other's. No certificates, no authorities, no names.

use crate::keys::{KeyPair, PublicKey};
use rustls::client::AlwaysResolvesClientRawPublicKeys;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer,
    UnixTime,
};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::CertifiedKey;
use rustls::{
    ClientConfig, DigitallySignedStruct, DistinguishedName, Error, ServerConfig, SignatureScheme,
};
use std::sync::Arc;

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn certified(key: &KeyPair, provider: &CryptoProvider) -> Result<Arc<CertifiedKey>, Error> {
    let der = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.pkcs8().to_vec()));
    let signing = provider.key_provider.load_private_key(der)?;
    let public = CertificateDer::from(key.public().to_spki());
    Ok(Arc::new(CertifiedKey::new(vec![public], signing)))
}

/// The controller's side: every key may connect; which one it was is asked afterwards
/// with [`peer_key`], because hosts that join are not known yet.
///
/// # Errors
/// A key that rustls does not take.
pub fn server_config(key: &KeyPair) -> Result<Arc<ServerConfig>, Error> {
    let provider = provider();
    let certified = certified(key, &provider)?;
    let verifier = Arc::new(AnyClient(provider.signature_verification_algorithms));
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(certified)));
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// A node's side: only the controller with that key is spoken to.
///
/// # Errors
/// A key that rustls does not take.
pub fn client_config(key: &KeyPair, controller: PublicKey) -> Result<Arc<ClientConfig>, Error> {
    let provider = provider();
    let certified = certified(key, &provider)?;
    let verifier = Arc::new(OneServer {
        key: controller,
        algorithms: provider.signature_verification_algorithms,
    });
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(certified)));
    config.resumption = rustls::client::Resumption::disabled();
    config.enable_sni = false;
    Ok(Arc::new(config))
}

/// The key that the peer has proved to hold.
pub fn peer_key(connection: &rustls::CommonState) -> Option<PublicKey> {
    connection
        .peer_certificates()
        .and_then(|chain| chain.first())
        .and_then(|spki| PublicKey::from_spki(spki))
}

/// A name for the peer, which raw keys do not need but the interface asks for.
pub fn server_name() -> ServerName<'static> {
    ServerName::try_from("cosy").expect("a plain host name")
}

fn raw_signature(
    message: &[u8],
    spki: &CertificateDer<'_>,
    dss: &DigitallySignedStruct,
    algorithms: &WebPkiSupportedAlgorithms,
) -> Result<HandshakeSignatureValid, Error> {
    let key = SubjectPublicKeyInfoDer::from(spki.as_ref());
    verify_tls13_signature_with_raw_key(message, &key, dss, algorithms)
}

fn no_tls12() -> Result<HandshakeSignatureValid, Error> {
    Err(Error::PeerIncompatible(rustls::PeerIncompatible::Tls12NotOffered))
}

/// Accepts the server with one key.
#[derive(Debug)]
struct OneServer {
    key: PublicKey,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for OneServer {
    fn verify_server_cert(
        &self,
        spki: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if PublicKey::from_spki(spki) == Some(self.key) {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(Error::InvalidCertificate(rustls::CertificateError::ApplicationVerificationFailure))
        }
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        no_tls12()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        spki: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        raw_signature(message, spki, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

/// Accepts every client that proves to hold its key.
#[derive(Debug)]
struct AnyClient(WebPkiSupportedAlgorithms);

impl ClientCertVerifier for AnyClient {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        spki: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        match PublicKey::from_spki(spki) {
            Some(_) => Ok(ClientCertVerified::assertion()),
            None => Err(Error::InvalidCertificate(rustls::CertificateError::BadEncoding)),
        }
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        no_tls12()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        spki: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        raw_signature(message, spki, dss, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::{ClientConnection, ServerConnection};

    fn shake(server_key: &KeyPair, client_key: &KeyPair, pinned: PublicKey) -> Option<PublicKey> {
        let server = server_config(server_key).unwrap();
        let client = client_config(client_key, pinned).unwrap();
        let mut s = ServerConnection::new(server).unwrap();
        let mut c = ClientConnection::new(client, server_name()).unwrap();
        for _ in 0..10 {
            let mut wire = Vec::new();
            while c.wants_write() {
                c.write_tls(&mut wire).unwrap();
            }
            s.read_tls(&mut wire.as_slice()).unwrap();
            s.process_new_packets().ok()?;
            wire.clear();
            while s.wants_write() {
                s.write_tls(&mut wire).unwrap();
            }
            c.read_tls(&mut wire.as_slice()).unwrap();
            c.process_new_packets().ok()?;
        }
        peer_key(&s)
    }

    #[test]
    fn pinned_keys_only() {
        let (server, client) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let other = KeyPair::generate().unwrap();
        assert_eq!(shake(&server, &client, server.public()), Some(client.public()));
        assert_eq!(shake(&server, &client, other.public()), None);
    }
}
