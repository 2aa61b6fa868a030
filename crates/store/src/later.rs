//! Answers that are there at once in this process, and later where another is asked.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// Work that is done later, wherever it is polled.
pub type Work<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// An answer, or the work that leads to it.
#[must_use = "work is not done unless it is awaited"]
pub enum Later<T> {
    /// It is there.
    Ready(T),
    /// Another process has to be asked.
    Pending(Work<T>),
    /// It was handed out.
    Done,
}

impl<T> Later<T> {
    /// An answer that `work` leads to.
    pub fn pending(work: impl Future<Output = T> + Send + 'static) -> Later<T> {
        Later::Pending(Box::pin(work))
    }

    /// The answer if it is there, otherwise the way to it.
    pub fn ready(self) -> Result<T, Later<T>> {
        match self {
            Later::Ready(answer) => Ok(answer),
            later => Err(later),
        }
    }

    /// Another answer, made of this one.
    pub fn map<U>(self, map: impl FnOnce(T) -> U + Send + 'static) -> Later<U>
    where
        T: Unpin + Send + 'static,
    {
        match self {
            Later::Ready(answer) => Later::Ready(map(answer)),
            Later::Pending(work) => Later::pending(async move { map(work.await) }),
            Later::Done => Later::Done,
        }
    }
}

impl<T: Unpin> Future for Later<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        if let Later::Pending(work) = &mut *self {
            return work.as_mut().poll(context);
        }
        match std::mem::replace(&mut *self, Later::Done) {
            Later::Ready(answer) => Poll::Ready(answer),
            Later::Pending(_) | Later::Done => panic!("polled after it was done"),
        }
    }
}

impl<T> fmt::Debug for Later<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Later::Ready(_) => "ready",
            Later::Pending(_) => "asking the store",
            Later::Done => "done",
        })
    }
}

/// The answer of work that never has to wait, because its store answers at once.
///
/// # Panics
///
/// If it has to wait after all.
#[inline]
pub fn at_once<T>(work: impl Future<Output = T>) -> T {
    match std::pin::pin!(work).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("a store that says that it answers at once has to be waited for"),
    }
}

/// All answers, in their order. They are waited for together.
pub async fn all<T: Unpin>(mut asked: Vec<Later<T>>) -> Vec<T> {
    let mut answers: Vec<Option<T>> = asked.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        for (asked, answer) in asked.iter_mut().zip(&mut answers).filter(|(_, it)| it.is_none()) {
            if let Poll::Ready(ready) = Pin::new(asked).poll(context) {
                *answer = Some(ready);
            }
        }
        if answers.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    answers.into_iter().flatten().collect()
}
