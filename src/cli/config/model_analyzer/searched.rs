//! `model_config_parameters`: what is searched of a model's configuration.
//!
//! A list holds the values to try. Fields that are lists themselves take a list of lists; without the inner lists they
//! have one value, which is the list. Fields within a message vary independently of each other.

use serde_json::{Map, Value as Json};

use crate::config::fields::text;
use crate::config::flags::Flags;
use crate::config::yaml::{Fault, Key, Node, Value};
use ::model::configuration::Path;

/// The field that holds a backend's own parameters.
const PARAMETERS: &str = "parameters";
/// The text of such a parameter.
const STRING: &str = "string_value";
/// Limit on the values of a field, which grow with the product of what lies within it.
const MAX_VALUES: usize = 1_000;

/// The fields of one model's configuration.
pub struct Searched<'a> {
    /// The model that calls it is the one that is searched; none if it is itself.
    pub called: Option<&'a str>,
}

impl Searched<'_> {
    /// Adds the fields of the configuration, each with the values to try.
    ///
    /// # Errors
    /// What has no counterpart.
    pub fn parameters(&self, node: &Node, flags: &mut Flags) -> Result<(), Fault> {
        node.map()?.iter().try_for_each(|(key, node)| match key.name.as_str() {
            PARAMETERS => self.of_backend(node, flags),
            name => self.field(name, node, flags),
        })
    }

    fn add(&self, path: &str, node: &Node, values: &[Json], flags: &mut Flags) {
        let model = self.called.map_or_else(String::new, |model| format!("{model}:"));
        let values: Vec<String> = values.iter().map(written).collect();
        flags.at(node.at).add("search", format!("{model}{path}={}", values.join(",")));
    }

    fn field(&self, path: &str, node: &Node, flags: &mut Flags) -> Result<(), Fault> {
        match &node.value {
            Value::Map(entries) if !entries.is_empty() => {
                return entries
                    .iter()
                    .try_for_each(|(key, node)| self.field(&format!("{path}.{}", key.name), node, flags));
            }
            Value::List(list) => {
                if let ([element], true) = (&list[..], is_list(path))
                    && matches!(element.value, Value::Map(_))
                {
                    return self.field(&format!("{path}[]"), element, flags);
                }
            }
            _ => {}
        }
        let mut values = choices(path, node)?;
        values.dedup();
        self.add(path, node, &values, flags);
        Ok(())
    }

    /// Parameters of the backend: by their names, or as config.pbtxt has them, with `key` and `value`, once or in a
    /// list.
    fn of_backend(&self, node: &Node, flags: &mut Flags) -> Result<(), Fault> {
        let nodes = match &node.value {
            Value::List(list) => list.as_slice(),
            _ => std::slice::from_ref(node),
        };
        for node in nodes {
            let entries = node.map().map_err(|fault| form(&fault))?;
            let find = |name: &str| entries.iter().find(|(key, _)| key.name == name).map(|(_, node)| node);
            match (find("key"), find("value")) {
                (Some(key), Some(value)) if entries.len() == 2 && matches!(value.value, Value::Map(_)) => {
                    let name =
                        text(key).ok_or_else(|| Fault::new(key.at, format!("'{PARAMETERS}.key' takes a name")))?;
                    self.parameter(&Key { name: name.to_owned(), at: key.at }, value, flags)?;
                }
                _ => entries.iter().try_for_each(|(key, node)| self.parameter(key, node, flags))?,
            }
        }
        Ok(())
    }

    fn parameter(&self, key: &Key, node: &Node, flags: &mut Flags) -> Result<(), Fault> {
        let value = match &node.value {
            Value::Map(entries) => match &entries[..] {
                [(field, value)] if field.name == STRING => value,
                _ => return Err(form(&Fault::new(node.at, format!("'{PARAMETERS}.{}'", key.name)))),
            },
            _ => node,
        };
        let list = match &value.value {
            Value::List(list) => list.as_slice(),
            _ => std::slice::from_ref(value),
        };
        let texts = list.iter().map(|node| match &node.value {
            Value::Text(text) => Ok(Json::from(text.as_str())),
            Value::Bool(on) => Ok(Json::from(on.to_string())),
            Value::Null => Ok(Json::Null),
            _ => Err(form(&Fault::new(node.at, format!("'{PARAMETERS}.{}'", key.name)))),
        });
        let texts = texts.collect::<Result<Vec<Json>, Fault>>()?;
        self.add(&format!("{PARAMETERS}.{}", key.name), value, &texts, flags);
        Ok(())
    }
}

/// The forms that are understood.
fn form(fault: &Fault) -> Fault {
    let rule = "parameters are {NAME: {string_value: [VALUE, …]}}, or a list of {key: NAME, value: {string_value: [VALUE, …]}}";
    Fault::new(fault.at, format!("{}: {rule}", fault.rule))
}

/// Whether a field is a list in the configuration itself.
fn is_list(path: &str) -> bool {
    Path::parse(path).is_ok_and(|path| path.is_list())
}

/// All values that a field is to have.
fn choices(path: &str, node: &Node) -> Result<Vec<Json>, Fault> {
    let all = match &node.value {
        Value::List(list) if is_list(path) => {
            let is_swept = !list.is_empty() && list.iter().all(|node| matches!(node.value, Value::List(_)));
            let lists: Vec<&[Node]> = match is_swept {
                true => list.iter().filter_map(elements).collect(),
                false => vec![list],
            };
            let mut all = Vec::new();
            for list in lists {
                all.extend(lists_of(path, list)?);
            }
            all
        }
        Value::List(list) => list.iter().map(|node| choices(path, node)).collect::<Result<Vec<_>, _>>()?.concat(),
        Value::Map(entries) => messages_of(path, entries)?,
        Value::Bool(on) => vec![Json::from(*on)],
        Value::Null => vec![Json::Null],
        Value::Text(text) => vec![
            serde_json::from_str::<serde_json::Number>(text).map_or_else(|_| Json::from(text.as_str()), Json::Number),
        ],
    };
    match all.len() > MAX_VALUES {
        true => Err(Fault::new(node.at, format!("'{path}' has more than {MAX_VALUES} values: name fewer"))),
        false => Ok(all),
    }
}

fn elements(node: &Node) -> Option<&[Node]> {
    if let Value::List(list) = &node.value { Some(list) } else { None }
}

/// Every list with one of the values of each element.
fn lists_of(path: &str, list: &[Node]) -> Result<Vec<Json>, Fault> {
    let mut all = vec![Vec::new()];
    for node in list {
        let values = choices(&format!("{path}[0]"), node)?;
        all = product(&all, &values, |list: &mut Vec<Json>, value| list.push(value), path, node)?;
    }
    Ok(all.into_iter().map(Json::Array).collect())
}

/// Every message with one of the values of each field.
fn messages_of(path: &str, entries: &[(Key, Node)]) -> Result<Vec<Json>, Fault> {
    let mut all = vec![Map::new()];
    for (key, node) in entries {
        let values = choices(&format!("{path}.{}", key.name), node)?;
        let insert = |message: &mut Map<String, Json>, value| drop(message.insert(key.name.clone(), value));
        all = product(&all, &values, insert, path, node)?;
    }
    Ok(all.into_iter().map(Json::Object).collect())
}

/// Each of `all` with each of `values` added.
fn product<T: Clone>(
    all: &[T],
    values: &[Json],
    add: impl Fn(&mut T, Json),
    path: &str,
    node: &Node,
) -> Result<Vec<T>, Fault> {
    if all.len().saturating_mul(values.len()) > MAX_VALUES {
        return Err(Fault::new(node.at, format!("'{path}' has more than {MAX_VALUES} values: name fewer")));
    }
    let with = &|item: &T, value: &Json| {
        let mut item = item.clone();
        add(&mut item, value.clone());
        item
    };
    Ok(all.iter().flat_map(|item| values.iter().map(move |value| with(item, value))).collect())
}

/// A value as `--search` takes it.
fn written(value: &Json) -> String {
    match value {
        Json::Null => "off".to_owned(),
        value => value.to_string(),
    }
}
