//! Elements of an output in a reply's JSON, counted without being kept.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::json::is_number_word;
use crate::model::DataType;

/// The inline elements of an output, as far as a reader wants them.
pub(super) trait Inline {
    /// Whether they are of that type, and `expected` in number if that is known.
    ///
    /// # Errors
    /// Says what is wrong with them.
    fn check(&self, datatype: DataType, expected: Option<u64>) -> Result<(), String>;
}

impl Inline for IgnoredAny {
    fn check(&self, _: DataType, _: Option<u64>) -> Result<(), String> {
        Ok(())
    }
}

/// What the elements of an array are, however deep it is nested.
#[derive(Debug, Default)]
pub(super) struct Elements {
    count: u64,
    least: i64,
    most: u64,
    /// How many are not whole numbers, by kind.
    bools: u64,
    fractions: u64,
    /// Words for numbers that JSON does not have.
    words: u64,
    texts: u64,
    others: u64,
}

impl Inline for Elements {
    fn check(&self, datatype: DataType, expected: Option<u64>) -> Result<(), String> {
        if let Some(expected) = expected.filter(|&expected| expected != self.count) {
            return Err(format!("has {} elements instead of {expected}", self.count));
        }
        let Self { bools, fractions, words, texts, others, .. } = *self;
        let wrong = match datatype {
            DataType::Json => return Ok(()),
            DataType::Bytes => self.count - texts - words,
            DataType::Fp16 | DataType::Bf16 | DataType::Fp32 | DataType::Fp64 => bools + texts + others,
            DataType::Bool => fractions + words + texts + others,
            _ => bools + fractions + words + texts + others,
        };
        let (least, most) = bounds(datatype);
        if wrong == 0 && self.least >= least && self.most <= most {
            return Ok(());
        }
        Err(format!("has elements that are no {datatype}"))
    }
}

/// The smallest and the largest value of a type of whole numbers.
fn bounds(datatype: DataType) -> (i64, u64) {
    match datatype {
        DataType::Uint8 => (0, u8::MAX.into()),
        DataType::Uint16 => (0, u16::MAX.into()),
        DataType::Uint32 => (0, u32::MAX.into()),
        DataType::Uint64 | DataType::Bool => (0, u64::MAX),
        DataType::Int8 => (i8::MIN.into(), i8::MAX as u64),
        DataType::Int16 => (i16::MIN.into(), i16::MAX as u64),
        DataType::Int32 => (i32::MIN.into(), i32::MAX as u64),
        DataType::Int64 => (i64::MIN, i64::MAX as u64),
        _ => (i64::MIN, u64::MAX),
    }
}

impl<'de> Deserialize<'de> for Elements {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut elements = Self::default();
        deserializer.deserialize_any(Counter(&mut elements))?;
        Ok(elements)
    }
}

/// Adds one value, or every element of an array.
struct Counter<'a>(&'a mut Elements);

impl<'de> serde::de::DeserializeSeed<'de> for Counter<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Counter<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("elements of a tensor")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(Counter(&mut *self.0))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        self.visit_unit()
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.0.count += 1;
        self.0.others += 1;
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        self.0.count += 1;
        self.0.bools += 1;
        Ok(())
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.0.count += 1;
        self.0.most = self.0.most.max(value);
        Ok(())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.0.count += 1;
        self.0.least = self.0.least.min(value);
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        self.0.count += 1;
        self.0.fractions += 1;
        Ok(())
    }

    fn visit_str<E>(self, value: &str) -> Result<(), E> {
        self.0.count += 1;
        *(if is_number_word(value) { &mut self.0.words } else { &mut self.0.texts }) += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str, datatype: DataType, expected: Option<u64>) -> Result<(), String> {
        serde_json::from_str::<Elements>(json).unwrap().check(datatype, expected)
    }

    #[test]
    fn elements_have_a_number_and_a_type() {
        use DataType::{Bool, Bytes, Fp32, Int8, Uint64};
        for (json, datatype) in [
            ("[1,[-2.5,3]]", Fp32),
            (r#"["NaN","-Infinity",1e30]"#, Fp32),
            ("[-128,127,0]", Int8),
            ("[0,1,18446744073709551615]", Uint64),
            ("[true,false,1]", Bool),
            (r#"["a","NaN",""]"#, Bytes),
        ] {
            assert_eq!(check(json, datatype, Some(3)), Ok(()), "{json}");
            assert_eq!(check(json, datatype, Some(4)).unwrap_err(), "has 3 elements instead of 4");
        }
        for (json, datatype) in [
            (r#"["x"]"#, Fp32),
            ("[true]", Fp32),
            ("[null]", Fp32),
            ("[{}]", Fp32),
            ("[128]", Int8),
            ("[-129]", Int8),
            ("[1.5]", Int8),
            ("[-1]", Uint64),
            ("[1]", Bytes),
            (r#"["true"]"#, Bool),
        ] {
            assert!(check(json, datatype, Some(1)).unwrap_err().contains("elements that are no"), "{json}");
        }
        assert!(check("[]", Fp32, Some(16)).is_err() && check("[]", Bytes, None).is_ok());
    }
}
