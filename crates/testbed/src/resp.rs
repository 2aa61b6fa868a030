//! A blocking client for control commands: one connection, RESP2, a deadline on every read.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

/// What a server answers.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Reply {
    /// A short text, such as `OK`.
    Simple(String),
    /// A refusal, with its code in front.
    Error(String),
    /// A number.
    Int(i64),
    /// Bytes.
    Bulk(Vec<u8>),
    /// Nothing is there.
    Nil,
    /// Several replies.
    Array(Vec<Reply>),
}

impl Reply {
    /// A text, a number as text, or the message of an error; empty for the others.
    pub fn text(&self) -> String {
        match self {
            Reply::Simple(text) | Reply::Error(text) => text.clone(),
            Reply::Int(number) => number.to_string(),
            Reply::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Reply::Nil | Reply::Array(_) => String::new(),
        }
    }

    /// The replies in an array; none in the others.
    pub fn items(&self) -> &[Reply] {
        if let Reply::Array(items) = self { items } else { &[] }
    }

    /// The bytes of a text; none in the others.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Reply::Simple(text) | Reply::Error(text) => text.as_bytes(),
            Reply::Bulk(bytes) => bytes,
            Reply::Int(_) | Reply::Nil | Reply::Array(_) => &[],
        }
    }

    /// Whether the server refused.
    pub fn is_error(&self) -> bool {
        matches!(self, Reply::Error(_))
    }

    /// The value of `name` in a reply of lines such as `name:value`, as `INFO` gives them.
    pub fn field(&self, name: &str) -> Option<String> {
        let text = self.text();
        let mut values = text.lines().filter_map(|line| line.split_once(':'));
        values.find(|(key, _)| *key == name).map(|(_, value)| value.trim_end().to_owned())
    }
}

/// One connection, over TCP or whatever else carries bytes.
#[derive(Debug)]
pub struct Resp<S = TcpStream> {
    stream: BufReader<S>,
}

impl Resp {
    /// Connects to a port of this machine; gives up when nothing comes for that time.
    pub fn connect(port: u16, timeout: Duration) -> Result<Resp> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let stream = TcpStream::connect_timeout(&address, timeout)
            .with_context(|| format!("nothing answers on port `{port}`"))?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        stream.set_nodelay(true)?;
        Ok(Resp::over(stream))
    }
}

impl Resp {
    /// A command as it is sent.
    pub fn command<A: AsRef<[u8]>>(args: &[A]) -> Vec<u8> {
        let mut command = format!("*{}\r\n", args.len()).into_bytes();
        for arg in args {
            let arg = arg.as_ref();
            command.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
            command.extend_from_slice(arg);
            command.extend_from_slice(b"\r\n");
        }
        command
    }
}

impl<S: Read + Write> Resp<S> {
    /// Speaks over a stream that is connected already.
    pub fn over(stream: S) -> Resp<S> {
        Resp { stream: BufReader::new(stream) }
    }

    /// Sends a command and reads its reply.
    pub fn call<A: AsRef<[u8]>>(&mut self, args: &[A]) -> Result<Reply> {
        self.send(&Resp::command(args))?;
        self.reply().context("no whole reply came")
    }

    /// Sends bytes as they are.
    pub fn send(&mut self, bytes: &[u8]) -> Result<()> {
        let stream = self.stream.get_mut();
        stream.write_all(bytes).and_then(|()| stream.flush()).context("the command was not taken")
    }

    /// Reads the next reply.
    pub fn reply(&mut self) -> Result<Reply> {
        let line = self.line()?;
        let (kind, rest) = line.split_at_checked(1).context("an empty line for a reply")?;
        Ok(match kind {
            "+" => Reply::Simple(rest.to_owned()),
            "-" => Reply::Error(rest.to_owned()),
            ":" => Reply::Int(rest.parse()?),
            "$" | "*" if rest == "-1" => Reply::Nil,
            "$" => Reply::Bulk(self.bulk(rest.parse()?)?),
            "*" => {
                let count: usize = rest.parse()?;
                Reply::Array((0..count).map(|_| self.reply()).collect::<Result<_>>()?)
            }
            _ => bail!("this is not RESP2: `{line}`"),
        })
    }

    fn bulk(&mut self, length: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; length + 2];
        self.stream.read_exact(&mut bytes)?;
        bytes.truncate(length);
        Ok(bytes)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        match line.strip_suffix("\r\n") {
            Some(line) => Ok(line.to_owned()),
            None => bail!("the connection was closed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_among_lines() {
        let info = Reply::Bulk(b"# Cluster\r\ncluster_state:ok\r\nother:1\r\n".to_vec());
        assert_eq!(info.field("cluster_state").as_deref(), Some("ok"));
        assert_eq!(info.field("missing"), None);
    }
}
