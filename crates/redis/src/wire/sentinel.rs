//! Asks sentinels who the primary is.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::{Pipeline, Value};

use super::dial::{Dialer, Peer, within};
use super::info::{lost, refused};
use super::link::Task;
use super::pipe::Pipe;
use crate::error::ConnectError;
use crate::settings::Address;

/// The sentinels that look after one primary.
#[derive(Debug)]
pub(super) struct Sentinels {
    addresses: Vec<Address>,
    master: String,
    /// The connection on which one answered last; it is asked first.
    last: Mutex<Option<Sentinel>>,
}

/// How long one may take to answer: the next one may be faster.
const ANSWER: Duration = Duration::from_millis(500);

/// A connection to one of them.
#[derive(Clone, Debug)]
struct Sentinel {
    number: usize,
    pipe: Pipe,
    _drive: Arc<Task>,
}

impl Sentinels {
    pub(super) fn new(addresses: Vec<Address>, master: String) -> Sentinels {
        Sentinels { addresses, master, last: Mutex::new(None) }
    }

    /// The primary's address, as the first sentinel says that answers and knows it.
    pub(super) async fn primary(&self, dialer: &Dialer) -> Result<Address, ConnectError> {
        let last = self.last().take();
        let first = last.as_ref().map_or(0, |sentinel| sentinel.number);
        if let Some(sentinel) = last
            && let Ok(Some(address)) =
                self.ask_within(dialer, sentinel.number, Some(sentinel)).await
        {
            return Ok(address);
        }
        let mut failure = None;
        for step in 0..self.addresses.len() {
            let number = (first + step) % self.addresses.len();
            match self.ask_within(dialer, number, None).await {
                Ok(Some(address)) => return Ok(address),
                Ok(None) => failure = Some(self.unknown()),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        Err(failure.unwrap_or_else(|| self.unknown()))
    }

    async fn ask_within(
        &self,
        dialer: &Dialer,
        number: usize,
        open: Option<Sentinel>,
    ) -> Result<Option<Address>, ConnectError> {
        let address = &self.addresses[number];
        let bound = dialer.timeout().min(ANSWER);
        let answer = within(bound, address, async {
            let sentinel = match open {
                Some(sentinel) => sentinel,
                None => self.open(dialer, number).await?,
            };
            Ok((self.ask(&sentinel).await?, sentinel))
        });
        let (answer, sentinel) = answer.await?;
        if answer.is_some() {
            *self.last() = Some(sentinel);
        }
        Ok(answer)
    }

    async fn open(&self, dialer: &Dialer, number: usize) -> Result<Sentinel, ConnectError> {
        let (pipe, drive) = dialer.open(&self.addresses[number], Peer::Sentinel).await?;
        Ok(Sentinel { number, pipe, _drive: Arc::new(Task::start(drive)) })
    }

    async fn ask(&self, sentinel: &Sentinel) -> Result<Option<Address>, ConnectError> {
        let address = &self.addresses[sentinel.number];
        let mut question = Pipeline::with_capacity(1);
        question.cmd("SENTINEL").arg("get-master-addr-by-name").arg(&self.master);
        let answers = sentinel.pipe.ask(&question).await.map_err(|loss| lost(&loss, address))?;
        let answer = answers.into_iter().next().unwrap_or(Value::Nil);
        if let Value::ServerError(error) = &answer {
            return Err(refused(error, address));
        }
        let pair: Option<(String, u16)> = redis::from_redis_value(answer).map_err(|error| {
            ConnectError::Unexpected { address: address.to_string(), reason: error.to_string() }
        })?;
        Ok(pair.map(|(host, port)| Address { host, port }))
    }

    fn last(&self) -> MutexGuard<'_, Option<Sentinel>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unknown(&self) -> ConnectError {
        let list: Vec<_> = self.addresses.iter().map(ToString::to_string).collect();
        ConnectError::UnknownMaster { name: self.master.clone(), sentinels: list.join(",") }
    }
}
