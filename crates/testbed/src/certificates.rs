//! Certificates for a server and a client, signed by an authority of their own.
//!
//! Made by the `openssl` command, in seconds, for a day or two: nothing secret is in the tree.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::folder::Folder;

/// An authority, a certificate for `localhost` and `127.0.0.1`, and one for a client.
#[derive(Debug)]
pub struct Certificates {
    folder: Folder,
}

impl Certificates {
    /// Makes all of them anew.
    pub fn new() -> Result<Certificates> {
        let folder = Folder::new("certificates")?;
        fs::write(folder.path().join("ca.cnf"), CA)?;
        fs::write(folder.path().join("server.cnf"), SERVER)?;
        fs::write(folder.path().join("client.cnf"), CLIENT)?;
        openssl(folder.path(), MAKE_CA)?;
        for name in ["server", "client"] {
            sign(folder.path(), name)?;
        }
        Ok(Certificates { folder })
    }

    /// Another certificate for a client, of this name, and its key.
    pub fn client_named(&self, name: &str) -> Result<(PathBuf, PathBuf)> {
        let config = format!("{CLIENT}subjectAltName = DNS:{name}\n");
        self.issue(name, &config)
    }

    /// Another certificate for the server, and its key, beside the first.
    pub fn another_server(&self, file: &str) -> Result<(PathBuf, PathBuf)> {
        self.issue(file, SERVER)
    }

    fn issue(&self, file: &str, config: &str) -> Result<(PathBuf, PathBuf)> {
        let folder = self.folder.path();
        fs::write(folder.join(format!("{file}.cnf")), config)?;
        sign(folder, file)?;
        Ok((folder.join(format!("{file}.crt")), folder.join(format!("{file}.key"))))
    }

    /// The authority's certificate, in PEM.
    pub fn ca(&self) -> PathBuf {
        self.folder.path().join("ca.crt")
    }

    /// The server's certificate, in PEM.
    pub fn server_certificate(&self) -> PathBuf {
        self.folder.path().join("server.crt")
    }

    /// The server's key, in PEM (PKCS #8).
    pub fn server_key(&self) -> PathBuf {
        self.folder.path().join("server.key")
    }

    /// The client's certificate, in PEM.
    pub fn client_certificate(&self) -> PathBuf {
        self.folder.path().join("client.crt")
    }

    /// The client's key, in PEM (PKCS #8).
    pub fn client_key(&self) -> PathBuf {
        self.folder.path().join("client.key")
    }
}

fn sign(folder: &Path, name: &str) -> Result<()> {
    openssl(folder, &REQUEST.replace("NAME", name))?;
    openssl(folder, &SIGN.replace("NAME", name))
}

fn openssl(folder: &Path, call: &str) -> Result<()> {
    let output = Command::new("openssl").current_dir(folder).args(call.split_whitespace()).output();
    let output = output.context("`openssl` does not start; install it: `cargo xtask servers`")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`openssl {call}` failed: {said}");
    Ok(())
}

const MAKE_CA: &str = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes \
     -sha256 -days 2 -config ca.cnf -keyout ca.key -out ca.crt";
const REQUEST: &str = "req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes \
     -sha256 -config NAME.cnf -keyout NAME.key -out NAME.csr";
const SIGN: &str = "x509 -req -sha256 -days 2 -in NAME.csr -CA ca.crt -CAkey ca.key \
     -CAcreateserial -extfile NAME.cnf -extensions ext -out NAME.crt";

const CA: &str = "[req]
prompt = no
distinguished_name = name
x509_extensions = ext
[name]
CN = Tidegate test authority
[ext]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
";

const SERVER: &str = "[req]
prompt = no
distinguished_name = name
[name]
CN = localhost
[ext]
basicConstraints = CA:FALSE
extendedKeyUsage = serverAuth
subjectAltName = DNS:localhost, IP:127.0.0.1
";

const CLIENT: &str = "[req]
prompt = no
distinguished_name = name
[name]
CN = tidegate
[ext]
basicConstraints = CA:FALSE
extendedKeyUsage = clientAuth
";
