//! Answers of a gate that are there at once, or later where its store has to be waited for.

use tidegate_store::{Later, at_once};

use crate::gate::Home;

impl Home {
    /// The answer of `work` that asks the store.
    pub(crate) fn later<T>(&self, work: impl Future<Output = T> + Send + 'static) -> Later<T> {
        if self.store.answers_at_once() {
            Later::Ready(at_once(work))
        } else {
            Later::pending(work)
        }
    }
}

/// What each kind of answer is to those who wait for it.
macro_rules! later {
    ($(#[$docs:meta])* $name:ident -> $answer:ty $(, #[$expected:meta])?) => {
        $(#[$docs])*
        #[must_use = "the store is asked when this is awaited"]
        #[derive(Debug)]
        pub struct $name(pub(crate) tidegate_store::Later<$answer>);

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
