//! The JSON of metadata, configurations and statistics, as Triton's C API and HTTP endpoint share it. What is not wanted
//! is passed over while it is read, so that a long answer takes little memory.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::model::DataType;

/// A whole number that JSON may carry as a number or, as protobuf's JSON does for 64 bits, as a string; nothing where it is
/// neither.
#[derive(Clone, Copy, Debug, Default)]
pub struct Number(Option<i128>);

impl Number {
    /// -1 where there is none.
    pub fn signed(self) -> i64 {
        self.0.and_then(|number| i64::try_from(number).ok()).unwrap_or(-1)
    }

    /// 0 where there is none.
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

/// A dimension: -1 where the request decides.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(from = "Number")]
pub struct Dimension(pub i64);

impl From<Number> for Dimension {
    fn from(number: Number) -> Self {
        Self(number.signed())
    }
}

/// Reads an absent or empty (`null`) member as its default.
pub fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(deserializer: D) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// An element type, or the word that is none.
#[derive(Clone, Debug)]
pub struct Kind(pub Result<DataType, Box<str>>);

impl<'de> Deserialize<'de> for Kind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = String::deserialize(deserializer)?;
        Ok(Self(DataType::parse(&word).ok_or_else(|| word.into())))
    }
}

/// A model's metadata (as of `/v2/models/M`).
#[derive(Clone, Debug, Default, Deserialize)]
pub struct MetadataJson {
    #[serde(default, deserialize_with = "or_default")]
    pub(super) versions: Vec<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) platform: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) inputs: Vec<TensorJson>,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) outputs: Vec<TensorJson>,
}

/// An input or output of the metadata.
#[derive(Clone, Debug, Deserialize)]
pub struct TensorJson {
    pub(super) name: String,
    pub(super) datatype: Kind,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) shape: Vec<Dimension>,
}

/// A model's configuration (as of `/v2/models/M/config`).
#[derive(Clone, Debug, Default, Deserialize)]
pub struct ConfigJson {
    #[serde(default)]
    pub(super) max_batch_size: Number,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) input: Vec<SettingsJson>,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) output: Vec<SettingsJson>,
    pub(super) sequence_batching: Option<IgnoredAny>,
    pub(super) dynamic_batching: Option<IgnoredAny>,
    pub(super) ensemble_scheduling: Option<EnsembleJson>,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) model_transaction_policy: PolicyJson,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) response_cache: CacheJson,
}

/// An input or output of the configuration.
#[derive(Clone, Debug, Deserialize)]
pub struct SettingsJson {
    pub(super) name: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) optional: bool,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) is_shape_tensor: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub struct EnsembleJson {
    #[serde(default, deserialize_with = "or_default")]
    pub(super) step: Vec<StepJson>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct StepJson {
    pub(super) model_name: String,
    #[serde(default)]
    pub(super) model_version: Number,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub struct PolicyJson {
    #[serde(default, deserialize_with = "or_default")]
    pub(super) decoupled: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub struct CacheJson {
    #[serde(default, deserialize_with = "or_default")]
    pub(super) enable: bool,
}
