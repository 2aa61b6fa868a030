//! The first words on a new connection: which protocol, who we are, and which database.

use redis::{Pipeline, ServerError, Value};

use super::info::{lost, refused};
use super::pipe::Pipe;
use crate::error::ConnectError;
use crate::settings::{Address, Credentials};

/// What is said first on a new connection.
#[derive(Clone, Copy)]
pub(super) struct Hello<'a> {
    /// Whether it is to speak the newer protocol.
    pub(super) is_newest: bool,
    pub(super) credentials: Option<&'a Credentials>,
    pub(super) database: i64,
}

/// What came of it.
enum Said {
    All,
    /// The server is from before there were users.
    NoUsers,
}

impl Hello<'_> {
    /// Says it, and hears what the server makes of it. The caller bounds the time.
    pub(super) async fn say(self, pipe: &Pipe, address: &Address) -> Result<(), ConnectError> {
        if let Said::NoUsers = self.say_as(true, pipe, address).await? {
            self.say_as(false, pipe, address).await?;
        }
        Ok(())
    }

    async fn say_as(
        self,
        by_name: bool,
        pipe: &Pipe,
        address: &Address,
    ) -> Result<Said, ConnectError> {
        let words = self.words(by_name);
        let answers = pipe.ask(&words).await.map_err(|loss| lost(&loss, address))?;
        let mut answers = answers.iter();
        if self.is_newest {
            self.check(answers.next(), address)?;
        } else if self.credentials.is_some()
            && let Some(Value::ServerError(error)) = answers.next()
        {
            if by_name && is_about_users(error) {
                return Ok(Said::NoUsers);
            }
            return Err(self.denied(error, address));
        }
        if self.database != 0 {
            self.check(answers.next(), address)?;
        }
        // A server that does not want to know what we are called need not.
        Ok(Said::All)
    }

    fn words(self, by_name: bool) -> Pipeline {
        let mut words = Pipeline::with_capacity(4);
        if self.is_newest {
            words.cmd("HELLO").arg(3);
            if let Some(Credentials { user, password }) = self.credentials {
                words.arg("AUTH").arg(user.as_deref().unwrap_or("default")).arg(&**password);
            }
        } else if let Some(Credentials { user, password }) = self.credentials {
            words.cmd("AUTH");
            if let Some(user) = user.as_deref().filter(|_| by_name) {
                words.arg(user);
            }
            words.arg(&**password);
        }
        if self.database != 0 {
            words.cmd("SELECT").arg(self.database);
        }
        words.cmd("CLIENT").arg("SETINFO").arg("LIB-NAME").arg("tidegate");
        words.cmd("CLIENT").arg("SETINFO").arg("LIB-VER").arg(env!("CARGO_PKG_VERSION"));
        words
    }

    fn check(self, answer: Option<&Value>, address: &Address) -> Result<(), ConnectError> {
        match answer {
            Some(Value::ServerError(error)) if self.gives_away(error) => {
                let (address, reason) = (address.to_string(), error.code().to_owned());
                Err(ConnectError::Unexpected { address, reason })
            }
            Some(Value::ServerError(error)) => Err(refused(error, address)),
            _ => Ok(()),
        }
    }

    /// Whatever is wrong with a password, it is the password.
    fn denied(self, error: &ServerError, address: &Address) -> ConnectError {
        let details = error.details().filter(|_| !self.gives_away(error)).unwrap_or_default();
        match refused(error, address) {
            loading @ ConnectError::Loading { .. } => loading,
            _ => ConnectError::Unauthorized {
                address: address.to_string(),
                reason: format!("{} {details}", error.code()).trim_end().to_owned(),
            },
        }
    }

    /// Whether a server says the password again: some do that with words they do not know.
    fn gives_away(self, error: &ServerError) -> bool {
        let password = self.credentials.map(|it| &*it.password);
        password.is_some_and(|it| error.details().is_some_and(|details| details.contains(it)))
    }
}

fn is_about_users(error: &ServerError) -> bool {
    error.details().is_some_and(|it| it.contains("wrong number of arguments for 'auth' command"))
}
