//! Fields of bodies in JSON: numbers however they are written, and what is there but not null.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::net::IpAddr;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

use crate::legible;

/// A whole number: `3`, and `3.0`, which is the same to clients with only one kind of number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Whole(pub(super) u64);

/// Up to here, numbers with a point are exact.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Whole, D::Error> {
        deserializer.deserialize_u64(WholeVisitor)
    }
}

struct WholeVisitor;

impl Visitor<'_> for WholeVisitor {
    type Value = Whole;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number, not below zero")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Whole, E> {
        Ok(Whole(number))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Whole, E> {
        let wrong = |_| E::invalid_value(Unexpected::Signed(number), &self);
        u64::try_from(number).map(Whole).map_err(wrong)
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is in range")]
    fn visit_f64<E: Error>(self, number: f64) -> Result<Whole, E> {
        if number.fract() == 0.0 && (0.0..=EXACT_MAX).contains(&number) {
            return Ok(Whole(number as u64));
        }
        Err(E::invalid_value(Unexpected::Float(number), &self))
    }
}

/// A text, borrowed where nothing in it is escaped.
#[derive(Deserialize)]
pub(super) struct Text<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

/// What is written as an object: lists would do as well otherwise, their fields by place.
#[derive(Debug)]
pub(super) struct Object<T>(pub(super) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Object<T>, D::Error> {
        deserializer.deserialize_map(ObjectVisitor(PhantomData))
    }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = Object<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Object)
    }
}

/// A list of objects that may be left out, as with [`said`].
pub(super) fn objects<'de, D, T>(deserializer: D) -> Result<Option<Vec<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let objects = Vec::<Object<T>>::deserialize(deserializer)?;
    Ok(Some(objects.into_iter().map(|Object(it)| it).collect()))
}

/// A cost; null is as good as nothing.
pub(super) fn cost<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    let Some(Whole(number)) = Option::deserialize(deserializer)? else { return Ok(None) };
    let wanted = "a whole number from 0 to 4294967295";
    let wrong = |_| D::Error::invalid_value(Unexpected::Unsigned(number), &wanted);
    u32::try_from(number).map(Some).map_err(wrong)
}

/// An address; null is as good as nothing.
pub(super) fn address<'de, D>(deserializer: D) -> Result<Option<IpAddr>, D::Error>
where
    D: Deserializer<'de>,
{
    let Some(Text(text)) = Option::deserialize(deserializer)? else { return Ok(None) };
    let wrong = || D::Error::invalid_value(Unexpected::Str(&text), &legible::ADDRESS);
    legible::address(&text).map(Some).ok_or_else(wrong)
}

/// A field that may be left out. It is not for every call, so that null is a mistake.
pub(super) fn said<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(text: &str) -> Result<u64, String> {
        let read = serde_json::from_str::<Whole>(text);
        read.map(|Whole(number)| number).map_err(|error| error.to_string())
    }

    #[test]
    fn a_whole_number_may_have_a_point() {
        for (text, number) in [("3", 3), ("3.0", 3), ("3e2", 300), ("0.0", 0), ("-0.0", 0)] {
            assert_eq!(whole(text), Ok(number), "{text}");
        }
        assert_eq!(whole("18446744073709551615"), Ok(u64::MAX));
        for wrong in ["-1", "3.5", "-1.0", "1e300", "18446744073709551616", "\"3\"", "null"] {
            assert!(whole(wrong).is_err(), "{wrong}");
        }
    }
}
