//! TLS at every door, and certificates that are replaced while it runs.
//!
//! Files are looked at once a second. New ones are for new connections, if they can be used;
//! otherwise the old ones stay, and a log line says why.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;

use crate::auth::Role;
use crate::secret;

/// Where certificates are, and whose are believed.
#[derive(Clone, Debug, Default)]
pub struct TlsFiles {
    /// Our certificate and those above it, as PEM.
    pub certificate: PathBuf,
    /// Our key, as PEM.
    pub key: PathBuf,
    /// The authorities whose clients may come in, as PEM. With it, a client must have a certificate
    /// of one of them.
    pub client_authorities: Option<PathBuf>,
    /// The names in client certificates that make an administrator.
    pub admins: Vec<String>,
}

/// TLS as it is now.
#[derive(Debug)]
pub(crate) struct Tls {
    files: TlsFiles,
    present: ArcSwap<Present>,
}

/// What a set of files made.
#[derive(Debug)]
struct Present {
    seen: Seen,
    doors: [Arc<ServerConfig>; 3],
}

/// The contents of the files: so few bytes that they are simply read again.
#[derive(Eq, PartialEq)]
struct Seen {
    certificate: Vec<u8>,
    key: Vec<u8>,
    client_authorities: Option<Vec<u8>>,
}

/// Which protocols a door offers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Offer {
    Http,
    Http2,
    Nothing,
}

impl Tls {
    /// Reads the files.
    pub(crate) fn new(files: TlsFiles) -> Result<Tls, TlsError> {
        for name in &files.admins {
            ServerName::try_from(name.as_str()).map_err(|_| TlsError::Admin(name.clone()))?;
        }
        let present = Present::read(&files)?;
        Ok(Tls { files, present: ArcSwap::from_pointee(present) })
    }

    /// What a new connection is met with.
    pub(crate) fn config(&self, offer: Offer) -> Arc<ServerConfig> {
        Arc::clone(&self.present.load().doors[offer as usize])
    }

    /// Looks at the files again; whether others are in force now.
    pub(crate) fn look_again(&self) -> Result<bool, TlsError> {
        let seen = Seen::read(&self.files)?;
        if seen == self.present.load().seen {
            return Ok(false);
        }
        self.present.store(Arc::new(Present::of(seen, &self.files)?));
        Ok(true)
    }

    /// What a client certificate is good for, once it has been verified.
    pub(crate) fn role(&self, certificate: &CertificateDer<'_>) -> Role {
        let Ok(certificate) = webpki::EndEntityCert::try_from(certificate) else {
            return Role::Check;
        };
        let names = self.files.admins.iter().filter_map(|name| ServerName::try_from(&**name).ok());
        let is_admin = |name| certificate.verify_is_valid_for_subject_name(&name).is_ok();
        if names.into_iter().any(is_admin) { Role::Admin } else { Role::Check }
    }
}

impl Seen {
    fn read(files: &TlsFiles) -> Result<Seen, TlsError> {
        let read =
            |path: &Path| secret::read(path).map_err(|error| TlsError::File(error.to_string()));
        Ok(Seen {
            certificate: read(&files.certificate)?,
            key: read(&files.key)?,
            client_authorities: files.client_authorities.as_deref().map(read).transpose()?,
        })
    }
}

impl Present {
    fn read(files: &TlsFiles) -> Result<Present, TlsError> {
        Present::of(Seen::read(files)?, files)
    }

    fn of(seen: Seen, files: &TlsFiles) -> Result<Present, TlsError> {
        let offers: [&[&[u8]]; 3] = [&[b"h2", b"http/1.1"], &[b"h2"], &[]];
        let base = seen.config(files)?;
        let doors = offers.map(|offer| {
            let mut config = base.clone();
            config.alpn_protocols = offer.iter().map(|name| name.to_vec()).collect();
            Arc::new(config)
        });
        Ok(Present { seen, doors })
    }
}

impl Seen {
    fn config(&self, files: &TlsFiles) -> Result<ServerConfig, TlsError> {
        let wrong = |path: &Path, what: &str, error: &dyn fmt::Display| {
            TlsError::File(format!("`{}` holds no {what}: {error}", path.display()))
        };
        let chain = certificates(&self.certificate)
            .map_err(|error| wrong(&files.certificate, "certificate in PEM", &error))?;
        let key = PrivateKeyDer::from_pem_slice(&self.key)
            .map_err(|error| wrong(&files.key, "private key in PEM", &error))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Unusable)?;
        let config = match (&self.client_authorities, &files.client_authorities) {
            (Some(pem), Some(path)) => config.with_client_cert_verifier(
                verifier(pem).map_err(|error| wrong(path, "usable authority", &error))?,
            ),
            _ => config.with_no_client_auth(),
        };
        config.with_single_cert(chain, key).map_err(TlsError::Unusable)
    }
}

fn verifier(pem: &[u8]) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let mut roots = rustls::RootCertStore::empty();
    for authority in certificates(pem)? {
        roots.add(authority).map_err(|error| error.to_string())?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|error| error.to_string())
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let all = all.map_err(|error| error.to_string())?;
    if all.is_empty() { Err("there is none in it".to_owned()) } else { Ok(all) }
}

impl fmt::Debug for Seen {
    /// Leaves the contents out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seen").finish_non_exhaustive()
    }
}

/// Why TLS cannot be had.
#[derive(Debug)]
#[non_exhaustive]
pub enum TlsError {
    /// A name of an administrator is none that a certificate can have.
    Admin(String),
    /// A file cannot be read, or is not what it should be.
    File(String),
    /// Certificate and key cannot be used.
    Unusable(rustls::Error),
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TlsError::Admin(name) => write!(
                f,
                "`{name}` is no name that a certificate can have: give a DNS name or an address"
            ),
            TlsError::File(error) => f.write_str(error),
            TlsError::Unusable(error) => {
                write!(f, "certificate and key do not go together: {error}")
            }
        }
    }
}

impl std::error::Error for TlsError {}
