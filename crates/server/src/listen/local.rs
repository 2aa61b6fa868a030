//! The administrators' socket: a file that only the user who runs the server can open, and `root`.
//!
//! A client that can open it administers. So it has its mode before anybody is listened to.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::{UnixListener, UnixSocket};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::accept::Counted;
use super::{Busy, Door};
use crate::auth::{Role, Visitor};
use crate::limits;
use crate::stop::Stop;

/// The socket. Its file goes with it.
#[derive(Debug)]
pub(crate) struct Local {
    listener: UnixListener,
    path: PathBuf,
    /// By which the file is known to be ours: device and number.
    file: (u64, u64),
}

/// Only its owner reads and writes.
const MODE: u32 = 0o600;

impl Local {
    /// Binds it. What a server left behind that is no more makes way.
    pub(crate) fn bind(path: &Path) -> io::Result<Local> {
        let bound = || {
            make_way(path)?;
            let socket = UnixSocket::new_stream()?;
            socket.bind(path)?;
            fs::set_permissions(path, Permissions::from_mode(MODE))?;
            let listener = socket.listen(limits::BACKLOG)?;
            Ok(Local { listener, path: path.to_owned(), file: known_by(path)? })
        };
        bound().map_err(|error: io::Error| {
            let path = path.display();
            let hint = "; give `--admin` another path, in a folder that this user may write to";
            io::Error::new(error.kind(), format!("cannot listen on `{path}`: {error}{hint}"))
        })
    }
}

impl Drop for Local {
    /// Unless somebody else has put another one there.
    fn drop(&mut self) {
        if known_by(&self.path).is_ok_and(|file| file == self.file) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Lets administrators in until it is time to stop, then lets them finish, for at most `drain`.
/// Whether all did.
pub(crate) async fn administer<D: Door>(
    local: Local,
    door: D,
    mut stop: Stop,
    drain: Duration,
) -> bool {
    let mut tasks = JoinSet::new();
    loop {
        let has_room = tasks.len() < limits::ADMIN_CONNECTIONS_MAX;
        tokio::select! {
            biased;
            () = stop.asked() => break,
            Some(_) = tasks.join_next(), if !tasks.is_empty() => {}
            accepted = local.listener.accept(), if has_room => match accepted {
                Ok((stream, _)) => {
                    let (door, stop) = (door.clone(), stop.clone());
                    tasks.spawn(async move {
                        let _seat = Counted::taken(&door);
                        door.serve(stream, ADMINISTRATOR, stop, &Busy::default()).await;
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "an administrator could not be let in");
                    sleep(limits::ACCEPT_PAUSE).await;
                }
            },
        }
    }
    drop(local);
    let all = async { while tasks.join_next().await.is_some() {} };
    let all_did = timeout(drain, all).await.is_ok();
    tasks.shutdown().await;
    all_did
}

/// The client at the other end: on this machine, and trusted with all.
const ADMINISTRATOR: Visitor = Visitor {
    peer: IpAddr::V4(Ipv4Addr::LOCALHOST),
    certified: Some(Role::Admin),
    certificate: None,
};

/// Removes a socket that nobody listens on, and nothing else.
fn make_way(path: &Path) -> io::Result<()> {
    let there = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        there => there?,
    };
    if !there.file_type().is_socket() {
        return Err(io::Error::new(ErrorKind::AlreadyExists, "there is a file that is no socket"));
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) => Err(error),
        Ok(_) => Err(io::Error::new(ErrorKind::AddrInUse, "another server listens there")),
    }
}

fn known_by(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|file| (file.dev(), file.ino()))
}
