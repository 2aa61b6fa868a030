//! One question over a server's socket: one connection of HTTP/1.1, which ends with the answer.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use serde_json::Value;

/// Where a server's socket is.
pub(super) struct Socket<'p>(&'p Path);

/// A reload reads every file of a policy; longer than this, something is stuck.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// Far more than any answer of these has.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

impl Socket<'_> {
    pub(super) fn at(path: &Path) -> Socket<'_> {
        Socket(path)
    }

    /// What the server answers, if it did as it was asked.
    pub(super) fn ask(&self, method: &str, target: &str, body: Option<&Value>) -> Result<String> {
        let mut stream = self.connected()?;
        let body = body.map(ToString::to_string);
        let media_type = if body.is_some() { "content-type: application/json\r\n" } else { "" };
        let body = body.unwrap_or_default();
        let length = body.len();
        let request = format!(
            "{method} {target} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{media_type}\
             content-length: {length}\r\n\r\n{body}"
        );
        let mut said = Vec::new();
        stream
            .write_all(request.as_bytes())
            .and_then(|()| stream.take(ANSWER_BYTES_MAX).read_to_end(&mut said))
            .with_context(|| format!("the server at `{}` did not answer", self.0.display()))?;
        answered(&String::from_utf8_lossy(&said))
    }

    fn connected(&self) -> Result<UnixStream> {
        let path = self.0.display();
        let stream = UnixStream::connect(self.0).map_err(|error| match error.kind() {
            ErrorKind::NotFound => anyhow!(
                "there is no socket at `{path}`: start the server with `--admin {path}`, or say \
                 where its socket is with `--socket`"
            ),
            ErrorKind::PermissionDenied => {
                anyhow!("`{path}` can only be opened by the user who runs the server, and by root")
            }
            ErrorKind::ConnectionRefused => anyhow!("no server listens at `{path}` any more"),
            _ => anyhow!("cannot connect to `{path}`: {error}"),
        })?;
        stream.set_read_timeout(Some(ANSWER_WITHIN))?;
        stream.set_write_timeout(Some(ANSWER_WITHIN))?;
        Ok(stream)
    }
}

/// The body of an answer; an error, if it is a refusal.
fn answered(said: &str) -> Result<String> {
    let (head, body) = said.split_once("\r\n\r\n").context("the server's answer breaks off")?;
    let status = head.split(' ').nth(1).unwrap_or_default();
    if status == "200" {
        return Ok(body.to_owned());
    }
    let problem: Value = serde_json::from_str(body).unwrap_or_default();
    match problem["detail"].as_str() {
        Some(detail) => bail!("{detail}"),
        None => bail!("the server answered with status {status}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_an_error_in_the_servers_words() {
        let said = |status: &str, body: &str| answered(&format!("HTTP/1.1 {status}\r\n\r\n{body}"));
        assert_eq!(said("200 OK", "{}").unwrap(), "{}");
        let refused = said("409 Conflict", r#"{"detail":"start with `--policy FILE`"}"#);
        assert_eq!(refused.unwrap_err().to_string(), "start with `--policy FILE`");
        assert!(said("502 Bad", "<html>").unwrap_err().to_string().contains("status 502"));
        assert!(answered("HTTP/1.1 200").is_err());
    }
}
