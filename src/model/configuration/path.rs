//! Settings of a configuration by their path: `max_batch_size`, `dynamic_batching.max_queue_delay_microseconds`,
//! `instance_group[].count`, `parameters.KEY`.

use std::fmt;

use prost_reflect::{FieldDescriptor, Kind};
use serde_json::{Map, Value, json};

use crate::schema;

/// The location of a setting in a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    text: String,
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Field(String),
    /// Every element of a list.
    Each,
    Element(usize),
}

/// What a path leads to: the type of its values, and how many of them there are.
struct Place {
    kind: Kind,
    shape: Shape,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    One,
    Many,
    Map,
}

impl Place {
    fn new(field: &FieldDescriptor) -> Self {
        let shape = match (field.is_map(), field.is_list()) {
            (true, _) => Shape::Map,
            (_, true) => Shape::Many,
            _ => Shape::One,
        };
        Self { kind: schema::value_kind(field), shape }
    }
}

/// Short names for the settings that are searched most.
const SHORT: [(&str, &str); 5] = [
    ("instances", "instance_group[].count"),
    ("instance_count", "instance_group[].count"),
    ("delay", "dynamic_batching.max_queue_delay_microseconds"),
    ("max_queue_delay_microseconds", "dynamic_batching.max_queue_delay_microseconds"),
    ("preferred_batch_size", "dynamic_batching.preferred_batch_size"),
];

/// Largest index of an element: no configuration has lists this long.
const MAX_INDEX: usize = 255;

impl Path {
    /// Reads a path. A list without an index means all its elements.
    ///
    /// # Errors
    /// The form that it must have.
    pub fn parse(text: &str) -> Result<Self, String> {
        let long = SHORT.iter().find(|(short, _)| *short == text).map_or(text, |(_, long)| long);
        let rule = || "it must be a path such as max_batch_size or instance_group[].count".to_owned();
        let mut steps = Vec::new();
        // A parameter's name may contain dots.
        let parts: Vec<&str> = match long.strip_prefix("parameters.") {
            Some(name) => vec!["parameters", name],
            None => long.split('.').collect(),
        };
        let last = parts.len() - 1;
        for (number, part) in parts.into_iter().enumerate() {
            let (name, index) = match part.split_once('[') {
                Some((name, index)) => (name, Some(index.strip_suffix(']').ok_or_else(rule)?)),
                None => (part, None),
            };
            let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c));
            if !is_name {
                return Err(rule());
            }
            steps.push(Step::Field(name.to_owned()));
            match index {
                Some("") => steps.push(Step::Each),
                Some(index) => steps.push(Step::Element(element(index).ok_or_else(rule)??)),
                // In a configuration this is a list, and a field of it one of each element.
                None if name == "instance_group" && number < last => steps.push(Step::Each),
                None => {}
            }
        }
        Ok(Self { text: long.to_owned(), steps })
    }

    /// The type of its values, by the schema of a model's configuration; `None` for messages, parameters, and fields
    /// that only a newer server may know.
    pub fn kind(&self) -> Option<Kind> {
        let place = self.position()?;
        (place.shape == Shape::One && !matches!(place.kind, Kind::Message(_))).then_some(place.kind)
    }

    /// Whether its value is a list, by that schema.
    pub fn is_list(&self) -> bool {
        self.position().is_some_and(|place| place.shape == Shape::Many)
    }

    /// What the schema says of its values; `None` for what it does not know.
    fn position(&self) -> Option<Place> {
        let mut place = Place { kind: Kind::Message(schema::config()), shape: Shape::One };
        for step in &self.steps {
            match (step, place.shape, &place.kind) {
                // The name is a key.
                (Step::Field(_), Shape::Map, _) | (Step::Each | Step::Element(_), Shape::Many, _) => {
                    place.shape = Shape::One;
                }
                (Step::Field(name), Shape::One, Kind::Message(message)) => {
                    place = Place::new(&message.get_field_by_name(name)?);
                }
                _ => return None,
            }
        }
        Some(place)
    }

    /// The value in force, if all places that the path covers agree.
    pub fn get(&self, configuration: &Value) -> Option<Value> {
        let mut found = Vec::new();
        collect(configuration, &self.steps, &mut found);
        let first = (*found.first()?).clone();
        let value = if self.is_parameter() { first["string_value"].clone() } else { first };
        found.iter().all(|other| **other == *found[0]).then_some(value)
    }

    /// Sets the value, creating the messages around it if necessary. `null` removes the setting.
    pub fn set(&self, configuration: &mut Value, value: &Value) {
        match value {
            Value::Null => take(configuration, &self.steps),
            Value::String(text) if self.is_parameter() => {
                put(configuration, &self.steps, &json!({ "string_value": text }));
            }
            value if self.is_parameter() => {
                put(configuration, &self.steps, &json!({ "string_value": value.to_string() }));
            }
            value => put(configuration, &self.steps, value),
        }
    }

    /// Whether it is a backend's parameter, whose values are texts.
    fn is_parameter(&self) -> bool {
        matches!(&self.steps[..], [Step::Field(first), Step::Field(_)] if first == "parameters")
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Whether two values mean the same: servers write some numbers as text.
pub fn equal(left: &Value, right: &Value) -> bool {
    if let (Some(left), Some(right)) = (left.as_array(), right.as_array()) {
        return left.len() == right.len() && left.iter().zip(right).all(|(left, right)| equal(left, right));
    }
    let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    left == right || plain(left) == plain(right)
}

/// The index of an element; `None` if it is not a number.
fn element(text: &str) -> Option<Result<usize, String>> {
    let is_number = !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    let index = text.parse().ok().filter(|index| *index <= MAX_INDEX);
    is_number.then(|| index.ok_or_else(|| format!("the index {text} must be at most {MAX_INDEX}")))
}

fn collect<'a>(value: &'a Value, steps: &[Step], found: &mut Vec<&'a Value>) {
    match steps {
        [] => found.push(value),
        [Step::Field(name), rest @ ..] => value.get(name).into_iter().for_each(|value| collect(value, rest, found)),
        [Step::Element(index), rest @ ..] => {
            value.get(*index).into_iter().for_each(|value| collect(value, rest, found));
        }
        [Step::Each, rest @ ..] => {
            value.as_array().into_iter().flatten().for_each(|value| collect(value, rest, found));
        }
    }
}

fn put(target: &mut Value, steps: &[Step], value: &Value) {
    let Some((step, rest)) = steps.split_first() else {
        *target = value.clone();
        return;
    };
    if let Step::Field(name) = step {
        if !target.is_object() {
            *target = Value::Object(Map::new());
        }
        let Some(object) = target.as_object_mut() else { return };
        return put(object.entry(name.clone()).or_insert(Value::Null), rest, value);
    }
    if !target.is_array() {
        *target = Value::Array(Vec::new());
    }
    let Some(list) = target.as_array_mut() else { return };
    let wanted = if let Step::Element(index) = step { index + 1 } else { 1 };
    if list.len() < wanted {
        list.resize(wanted, Value::Null);
    }
    let chosen = |index: usize| !matches!(step, Step::Element(only) if *only != index);
    let elements = list.iter_mut().enumerate().filter(|(index, _)| chosen(*index));
    elements.for_each(|(_, element)| put(element, rest, value));
}

/// Removes a setting; the messages around it are not created for that.
fn take(target: &mut Value, steps: &[Step]) {
    match (steps, target) {
        ([Step::Field(name)], Value::Object(members)) => drop(members.remove(name)),
        ([Step::Field(name), rest @ ..], Value::Object(members)) => {
            members.get_mut(name).into_iter().for_each(|member| take(member, rest));
        }
        ([Step::Each], Value::Array(list)) => list.clear(),
        ([Step::Each, rest @ ..], Value::Array(list)) => list.iter_mut().for_each(|element| take(element, rest)),
        ([Step::Element(index)], Value::Array(list)) if *index < list.len() => drop(list.remove(*index)),
        ([Step::Element(index), rest @ ..], Value::Array(list)) => {
            list.get_mut(*index).into_iter().for_each(|element| take(element, rest));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Value {
        json!({"max_batch_size": 8, "instance_group": [{"name": "a", "count": 2}, {"name": "b", "count": 2}],
            "parameters": {"x.y": {"string_value": "5"}}})
    }

    fn changed(path: &str, value: Value) -> Value {
        let mut config = config();
        Path::parse(path).unwrap().set(&mut config, &value);
        config
    }

    #[test]
    fn settings_are_read() {
        let get = |path: &str| Path::parse(path).unwrap().get(&config());
        assert_eq!(get("max_batch_size"), Some(json!(8)));
        assert_eq!((get("instances"), get("instance_group[1].count")), (Some(json!(2)), Some(json!(2))));
        assert_eq!(get("instance_group.name"), None, "they differ");
        assert_eq!(get("parameters.x.y"), Some(json!("5")));
        assert_eq!(get("dynamic_batching.max_queue_delay_microseconds"), None);
    }

    #[test]
    fn settings_are_made_and_taken_away() {
        assert_eq!(changed("instances", json!(4))["instance_group"][1], json!({"name": "b", "count": 4}));
        assert_eq!(changed("instance_group[0].count", json!(4))["instance_group"][1]["count"], json!(2));
        assert_eq!(changed("delay", json!(100))["dynamic_batching"], json!({"max_queue_delay_microseconds": 100}));
        assert_eq!(changed("dynamic_batching", json!({}))["dynamic_batching"], json!({}));
        assert_eq!(changed("parameters.n", json!(3))["parameters"]["n"], json!({"string_value": "3"}));
        assert_eq!(changed("max_batch_size", Value::Null).get("max_batch_size"), None);
        assert_eq!(changed("model_warmup[0].count", json!(1))["model_warmup"], json!([{"count": 1}]));
        let mut bare = json!({});
        Path::parse("instances").unwrap().set(&mut bare, &json!(2));
        assert_eq!(bare, json!({"instance_group": [{"count": 2}]}));
    }

    #[test]
    fn what_is_not_there_is_not_made_to_be_taken_away() {
        for path in ["delay", "optimization.cuda.graphs", "model_warmup[2].count", "parameters.none", "response_cache"]
        {
            assert_eq!(changed(path, Value::Null), config(), "{path}");
        }
        assert_eq!(changed("instance_group[0]", Value::Null)["instance_group"], json!([{"name": "b", "count": 2}]));
        assert_eq!(
            changed("instance_group[].count", Value::Null)["instance_group"],
            json!([{"name": "a"}, {"name": "b"}])
        );
        assert_eq!(changed("parameters.x.y", Value::Null)["parameters"], json!({}));
    }

    #[test]
    fn numbers_may_be_text() {
        assert!(equal(&json!("100"), &json!(100)) && !equal(&json!(1), &json!(2)) && equal(&json!({}), &json!({})));
        assert!(equal(&json!(["4", 8]), &json!([4, 8])) && !equal(&json!([4]), &json!([4, 8])));
    }

    #[test]
    fn fields_are_known_by_the_form_of_a_configuration() {
        let kind = |path: &str| Path::parse(path).unwrap().kind();
        for path in ["max_batch_size", "instances", "instance_group[0].gpus[0]", "input[].dims[1]"] {
            assert!(matches!(kind(path), Some(Kind::Int32 | Kind::Int64)), "{path}");
        }
        assert!(matches!(kind("delay"), Some(Kind::Uint64)));
        assert!(matches!(kind("dynamic_batching.preserve_ordering"), Some(Kind::Bool)));
        for path in ["dynamic_batching", "parameters.any.name", "input", "dynamic_batching.preferred_batch_size"] {
            assert!(kind(path).is_none(), "{path}");
        }
        let is_list = |path: &str| Path::parse(path).unwrap().is_list();
        assert!(is_list("preferred_batch_size") && is_list("instance_group[].gpus") && is_list("instance_group"));
        assert!(!is_list("max_batch_size") && !is_list("instance_group[0].gpus[0]") && !is_list("parameters.any.name"));
        for path in ["nonsense", "dynamic_batching.delay", "max_batch_size.x", "input.dims", "max_batch_size[0]"] {
            assert!(kind(path).is_none(), "what is no field here is the server's to judge: {path}");
        }
    }

    #[test]
    fn others_are_refused() {
        for text in ["", ".", "a..b", "a[", "a[x]", "a b", "a[1", "a[-1]", "a[256]", "a[18446744073709551615]"] {
            assert!(Path::parse(text).is_err(), "{text}");
        }
    }
}
