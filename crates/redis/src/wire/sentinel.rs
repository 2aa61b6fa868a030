//! Asks sentinels who the primary is.

use std::sync::atomic::{AtomicUsize, Ordering};

use redis::{Value, cmd};

use super::dial::{Dialer, Peer, within};
use super::info::refused;
use crate::error::ConnectError;
use crate::settings::Address;

/// The sentinels that look after one primary.
#[derive(Debug)]
pub(super) struct Sentinels {
    addresses: Vec<Address>,
    master: String,
    /// The one that answered last, and is asked first.
    first: AtomicUsize,
}

impl Sentinels {
    pub(super) fn new(addresses: Vec<Address>, master: String) -> Sentinels {
        Sentinels { addresses, master, first: AtomicUsize::new(0) }
    }

    /// The primary's address, as the first sentinel says that answers and knows it.
    pub(super) async fn primary(&self, dialer: &Dialer) -> Result<Address, ConnectError> {
        let first = self.first.load(Ordering::Relaxed);
        let mut failure = None;
        for step in 0..self.addresses.len() {
            let number = (first + step) % self.addresses.len();
            let sentinel = &self.addresses[number];
            match within(dialer.timeout(), sentinel, self.ask(dialer, sentinel)).await {
                Ok(Some(address)) => {
                    self.first.store(number, Ordering::Relaxed);
                    return Ok(address);
                }
                Ok(None) => failure = Some(self.unknown()),
                Err(error) => {
                    failure.get_or_insert(error);
                }
            }
        }
        Err(failure.unwrap_or_else(|| self.unknown()))
    }

    async fn ask(
        &self,
        dialer: &Dialer,
        sentinel: &Address,
    ) -> Result<Option<Address>, ConnectError> {
        let (mut connection, driver) = dialer.open(sentinel, Peer::Sentinel).await?;
        let _driver = super::link::Task::start(driver);
        let mut question = cmd("SENTINEL");
        question.arg("get-master-addr-by-name").arg(&self.master);
        let answer = connection.send_packed_command(&question).await;
        let answer = answer.map_err(|error| ConnectError::Unreachable {
            address: sentinel.to_string(),
            reason: error.to_string(),
        })?;
        if let Value::ServerError(error) = &answer {
            return Err(refused(error, sentinel));
        }
        let pair: Option<(String, u16)> = redis::from_redis_value(answer).map_err(|error| {
            ConnectError::Unexpected { address: sentinel.to_string(), reason: error.to_string() }
        })?;
        Ok(pair.map(|(host, port)| Address { host, port }))
    }

    fn unknown(&self) -> ConnectError {
        let list: Vec<_> = self.addresses.iter().map(ToString::to_string).collect();
        ConnectError::UnknownMaster { name: self.master.clone(), sentinels: list.join(",") }
    }
}
