//! Members with more than one form: numbers as texts, empty ones as `null`.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// An integer that JSON may carry as a number or, as protobuf's JSON does for 64 bits, as a string; `None` if it is
/// neither.
#[derive(Clone, Copy, Debug, Default)]
pub struct Number(Option<i128>);

impl Number {
    /// -1 if there is none.
    pub fn signed(self) -> i64 {
        self.0.and_then(|number| i64::try_from(number).ok()).unwrap_or(-1)
    }

    /// 0 if there is none.
    pub fn unsigned(self) -> u64 {
        self.0.and_then(|number| u64::try_from(number).ok()).unwrap_or(0)
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self(None))
    }
}

impl<'de> Visitor<'de> for Number {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number")
    }

    fn visit_i64<E>(self, number: i64) -> Result<Self, E> {
        Ok(Self(Some(number.into())))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Self, E> {
        Ok(Self(Some(number.into())))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Self, E> {
        Ok(Self(Some(number as i128)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self, E> {
        Ok(Self(text.trim().parse().ok()))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self, A::Error> {
        while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(self)
    }
}

/// A dimension: -1 if the request decides.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(from = "Number")]
pub struct Dimension(pub i64);

impl From<Number> for Dimension {
    fn from(number: Number) -> Self {
        Self(number.signed())
    }
}

/// Parses an absent or empty (`null`) member as its default.
pub fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(deserializer: D) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}
