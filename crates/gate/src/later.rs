//! Answers that are there at once in this process, and later where Redis is asked.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

/// An answer, or the way to it.
pub(crate) enum Later<T> {
    Done,
    #[cfg(feature = "redis")]
    Asked(Pin<Box<dyn Future<Output = T> + Send>>),
    Here(T),
}

impl<T> Later<T> {
    /// The answer, if it is there.
    pub(crate) fn ready(self) -> Result<T, Later<T>> {
        match self {
            Later::Here(answer) => Ok(answer),
            #[cfg(feature = "redis")]
            Later::Asked(future) => Err(Later::Asked(future)),
            Later::Done => Err(Later::Done),
        }
    }
}

impl<T: Unpin> Future for Later<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let _ = &context;
        #[cfg(feature = "redis")]
        if let Later::Asked(future) = &mut *self {
            return future.as_mut().poll(context);
        }
        match std::mem::replace(&mut *self, Later::Done) {
            Later::Here(answer) => Poll::Ready(answer),
            #[cfg(feature = "redis")]
            Later::Asked(_) => unreachable!("polled above"),
            Later::Done => panic!("polled after it was done"),
        }
    }
}

impl<T> fmt::Debug for Later<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Later::Done => "done",
            #[cfg(feature = "redis")]
            Later::Asked(_) => "asking Redis",
            Later::Here(_) => "there",
        })
    }
}

/// What each kind of answer is to whoever waits for it.
macro_rules! later {
    ($(#[$docs:meta])* $name:ident -> $answer:ty $(, #[$expected:meta])?) => {
        $(#[$docs])*
        #[must_use = "Redis is asked when this is awaited"]
        #[derive(Debug)]
        pub struct $name(pub(crate) crate::later::Later<$answer>);

        impl $name {
            /// The answer, if it is there already: always so in this process.
            #[inline]
            $(#[$expected])?
            pub fn ready(self) -> Result<$answer, $name> {
                self.0.ready().map_err($name)
            }
        }

        impl Future for $name {
            type Output = $answer;

            fn poll(
                mut self: std::pin::Pin<&mut Self>,
                context: &mut std::task::Context<'_>,
            ) -> std::task::Poll<$answer> {
                std::pin::Pin::new(&mut self.0).poll(context)
            }
        }
    };
}

pub(crate) use later;
