//! Being told to stop: doors finish what they have begun.

use tokio::sync::watch;

/// Tells doors to stop.
#[derive(Debug)]
pub(crate) struct Stopper(watch::Sender<bool>);

/// Says whether it is time to stop.
#[derive(Clone, Debug)]
pub(crate) struct Stop(watch::Receiver<bool>);

impl Stopper {
    pub(crate) fn new() -> (Stopper, Stop) {
        let (sender, receiver) = watch::channel(false);
        (Stopper(sender), Stop(receiver))
    }

    /// From now on, it is time to stop.
    pub(crate) fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Stop {
    /// Whether it is time to stop.
    pub(crate) fn is_asked(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until it is; for ever, if nobody is left to say so.
    pub(crate) async fn asked(&mut self) {
        if self.0.wait_for(|asked| *asked).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
