//! TLS as the settings say: which authority to trust, and who we are.
//!
//! The provider of the arithmetic is named here, and nothing is installed for the process.

use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;

use crate::error::ConnectError;
use crate::settings::{ClientCertificate, TlsSettings};

pub(super) fn connector(settings: &TlsSettings) -> Result<TlsConnector, ConnectError> {
    let roots = match &settings.authority {
        Some(pem) => authority(pem)?,
        None => system(),
    };
    let builder =
        ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| bad(format!("TLS cannot be set up: {error}")))?
            .with_root_certificates(roots);
    let config = match &settings.client {
        None => builder.with_no_client_auth(),
        Some(client) => {
            let (chain, key) = identity(client)?;
            builder
                .with_client_auth_cert(chain, key)
                .map_err(|error| bad(format!("certificate and key do not match: {error}")))?
        }
    };
    Ok(TlsConnector::from(Arc::new(config)))
}

fn authority(pem: &[u8]) -> Result<RootCertStore, ConnectError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem, "the authority's certificate")? {
        roots
            .add(certificate)
            .map_err(|error| bad(format!("the authority's certificate is no good: {error}")))?;
    }
    Ok(roots)
}

/// What the system trusts; what of it cannot be read is left out, as everybody does.
fn system() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

fn identity(
    client: &ClientCertificate,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), ConnectError> {
    let chain = certificates(&client.certificate, "the client's certificate")?;
    let key = PrivateKeyDer::from_pem_slice(&client.key)
        .map_err(|error| bad(format!("the client's key cannot be read: {error}")))?;
    Ok((chain, key))
}

fn certificates(pem: &[u8], what: &str) -> Result<Vec<CertificateDer<'static>>, ConnectError> {
    let list = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| bad(format!("{what} cannot be read: {error}")))?;
    if list.is_empty() {
        return Err(bad(format!("{what} is missing from what was given")));
    }
    Ok(list)
}

fn bad(reason: String) -> ConnectError {
    ConnectError::BadCertificate { reason }
}
