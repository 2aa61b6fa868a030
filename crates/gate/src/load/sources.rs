//! Who said what about load, and until when it counts. Bounded: the oldest make room.

use std::collections::HashMap;

use tidegate_core::Tick;
use tidegate_core::adapt::Fraction;

use super::{Load, LoadRefused};

#[derive(Debug, Default)]
pub(super) struct Sources {
    by_name: HashMap<Box<str>, Said>,
}

#[derive(Clone, Copy, Debug)]
struct Said {
    load: Fraction,
    at: Tick,
    until: Tick,
    /// Whether the controller has not been told yet.
    is_new: bool,
}

impl Sources {
    pub(super) fn hear(&mut self, load: &Load<'_>, now: Tick) -> Result<(), LoadRefused> {
        if load.source.is_empty() {
            return Err(LoadRefused::NoSource);
        }
        if Load::SOURCE_BYTES_MAX < load.source.len() {
            return Err(LoadRefused::SourceTooLong);
        }
        if load.ttl.get() == 0 || Load::TTL_MAX < load.ttl {
            return Err(LoadRefused::Ttl);
        }
        let said = Said { load: load.load, at: now, until: now.after(load.ttl), is_new: true };
        if let Some(known) = self.by_name.get_mut(load.source) {
            *known = said;
            return Ok(());
        }
        if self.by_name.len() == Load::SOURCES_MAX {
            self.make_room();
        }
        self.by_name.insert(load.source.into(), said);
        Ok(())
    }

    fn make_room(&mut self) {
        let oldest = self.by_name.iter().min_by_key(|(_, said)| said.at);
        if let Some(oldest) = oldest.map(|(name, _)| name.clone()) {
            self.by_name.remove(&oldest);
        }
    }

    /// Forgets who has not been heard of; whether there was anybody.
    pub(super) fn forget(&mut self, now: Tick) -> bool {
        let before = self.by_name.len();
        self.by_name.retain(|_, said| now < said.until);
        self.by_name.len() < before
    }

    /// The highest load that counts.
    pub(super) fn worst(&self) -> Option<Fraction> {
        self.by_name.values().map(|said| said.load).max()
    }

    /// The highest load that counts, if it is not reported yet. A source that is less loaded
    /// changes nothing, and waits.
    pub(super) fn news(&mut self) -> Option<Fraction> {
        let worst = self.by_name.values_mut().max_by_key(|said| said.load)?;
        std::mem::take(&mut worst.is_new).then_some(worst.load)
    }

    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::Span;

    use super::*;

    fn tick(seconds: u64) -> Tick {
        Tick::from_micros(seconds * 1_000_000)
    }

    fn say(sources: &mut Sources, source: &str, percent: u8, at: u64) {
        let load = Fraction::from_percent(percent);
        let load = Load { source, load, ttl: Span::from_secs(5) };
        sources.hear(&load, tick(at)).unwrap();
    }

    #[test]
    fn the_worst_of_those_who_are_alive_counts_and_each_word_is_news_once() {
        let mut sources = Sources::default();
        say(&mut sources, "a", 120, 0);
        say(&mut sources, "b", 90, 1);
        assert_eq!(sources.news(), Some(Fraction::from_percent(120)));
        assert_eq!(sources.news(), None);
        say(&mut sources, "b", 95, 2);
        assert_eq!(sources.news(), None);
        assert!(!sources.forget(tick(4)));
        assert!(sources.forget(tick(5)));
        assert_eq!(sources.news(), Some(Fraction::from_percent(95)));
        assert!(sources.forget(tick(7)));
        assert_eq!((sources.worst(), sources.news(), sources.len()), (None, None, 0));
    }

    #[test]
    fn the_oldest_make_room() {
        let mut sources = Sources::default();
        say(&mut sources, "first", 200, 0);
        for number in 0..Load::SOURCES_MAX {
            say(&mut sources, &number.to_string(), 50, 1);
        }
        assert_eq!(sources.len(), Load::SOURCES_MAX);
        assert_eq!(sources.worst(), Some(Fraction::from_percent(50)));
        // One that is known takes nobody's place.
        say(&mut sources, "0", 60, 2);
        assert_eq!(sources.len(), Load::SOURCES_MAX);
    }

    #[test]
    fn words_out_of_bounds_are_refused() {
        let mut sources = Sources::default();
        let mut hear = |source: &str, ttl| {
            sources.hear(&Load { source, load: Fraction::WHOLE, ttl }, tick(0)).err()
        };
        let second = Span::from_secs(1);
        assert_eq!(hear("", second), Some(LoadRefused::NoSource));
        assert_eq!(hear(&"x".repeat(257), second), Some(LoadRefused::SourceTooLong));
        assert_eq!(hear(&"x".repeat(256), second), None);
        assert_eq!(hear("a", Span::ZERO), Some(LoadRefused::Ttl));
        assert_eq!(hear("a", Span::from_micros(10_000_001)), Some(LoadRefused::Ttl));
        assert_eq!(hear("a", Load::TTL_MAX), None);
    }
}
