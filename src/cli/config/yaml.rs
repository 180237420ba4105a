//! YAML as a tree whose nodes know their positions. The parser is a crate's; this limits how much of a file is
//! accepted.

use std::collections::{HashMap, HashSet};
use std::fmt;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Span};
use serde_json::{Number, Value as Json};

/// Limit on the nodes of a file, including those that aliases repeat.
const MAX_NODES: usize = 100_000;
/// Limit on the bytes of all values, texts that aliases repeat included.
const MAX_BYTES: usize = 4 << 20;
/// Limit on the nesting of lists and mappings.
const DEEPEST: usize = 32;

/// The key that merges another mapping's entries, as YAML 1.1 has it.
const MERGE: &str = "<<";

/// Line and column, both from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    line: usize,
    column: usize,
}

impl Place {
    /// The start of a file.
    pub const FIRST: Self = Self { line: 1, column: 1 };
}

impl Default for Place {
    fn default() -> Self {
        Self::FIRST
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// What is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where.
    pub at: Place,
    /// The rule that is broken, and perhaps the next step.
    pub rule: String,
}

impl Fault {
    /// A broken rule and its place.
    pub fn new(at: Place, rule: impl Into<String>) -> Self {
        Self { at, rule: rule.into() }
    }
}

/// A value and its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Where it begins.
    pub at: Place,
    /// What it is.
    pub value: Value,
}

/// What a node can be.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Nothing, or `null`.
    Null,
    /// `true` or `false`, not quoted.
    Bool(bool),
    /// Any other scalar, as it is written.
    Text(String),
    /// A sequence.
    List(Vec<Node>),
    /// A mapping.
    Map(Vec<(Key, Node)>),
}

/// A key of a mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// The key.
    pub name: String,
    /// Where it stands.
    pub at: Place,
}

impl Node {
    /// Its name in messages.
    pub fn kind(&self) -> &'static str {
        match self.value {
            Value::Null => "nothing",
            Value::Bool(_) => "a boolean",
            Value::Text(_) => "a value",
            Value::List(_) => "a list",
            Value::Map(_) => "a mapping",
        }
    }

    /// The entries of a mapping.
    ///
    /// # Errors
    /// If it is not one.
    pub fn map(&self) -> Result<&[(Key, Node)], Fault> {
        match &self.value {
            Value::Map(entries) => Ok(entries),
            _ => Err(Fault::new(self.at, format!("a mapping of keys to values is needed here, not {}", self.kind()))),
        }
    }
}

impl Node {
    /// The same as a JSON text, its entries in their order. Whether a scalar is quoted is not known, so what reads as a number is
    /// one.
    pub fn json(&self) -> String {
        match &self.value {
            Value::Null => "null".to_owned(),
            Value::Bool(on) => on.to_string(),
            Value::Text(text) if serde_json::from_str::<Number>(text).is_ok() => text.clone(),
            Value::Text(text) => Json::from(text.as_str()).to_string(),
            Value::List(list) => format!("[{}]", list.iter().map(Self::json).collect::<Vec<_>>().join(",")),
            Value::Map(entries) => {
                let entry = |(key, node): &(Key, Self)| format!("{}:{}", Json::from(key.name.as_str()), node.json());
                format!("{{{}}}", entries.iter().map(entry).collect::<Vec<_>>().join(","))
            }
        }
    }
}

/// Reads the only document of a text.
///
/// # Errors
/// What is no YAML, or more of it than anybody means.
pub fn read(text: &str) -> Result<Node, Fault> {
    let mut reader = Reader { parser: Parser::new_from_str(text), anchors: HashMap::new(), nodes: 0, bytes: 0 };
    let mut document = None;
    while let Some((event, span)) = reader.next()? {
        match event {
            Event::DocumentStart(_) if document.is_some() => {
                return Err(Fault::new(place(span.start), "a second document begins: a file holds one"));
            }
            Event::StreamStart | Event::DocumentStart(_) | Event::DocumentEnd | Event::Nothing => {}
            Event::StreamEnd => break,
            event => document = Some(reader.node(event, span, 0)?),
        }
    }
    Ok(document.unwrap_or(Node { at: Place::FIRST, value: Value::Null }))
}

fn place(marker: Marker) -> Place {
    Place { line: marker.line().max(1), column: marker.col() + 1 }
}

struct Reader<'a> {
    parser: Parser<'a, saphyr_parser::StrInput<'a>>,
    anchors: HashMap<usize, Node>,
    nodes: usize,
    bytes: usize,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Result<Option<(Event<'a>, Span)>, Fault> {
        match self.parser.next_event() {
            None => Ok(None),
            Some(Ok(found)) => Ok(Some(found)),
            Some(Err(error)) => Err(Fault::new(place(*error.marker()), format!("not YAML: {}", error.info()))),
        }
    }

    /// The next event, which must exist.
    fn expect(&mut self, at: Place) -> Result<(Event<'a>, Span), Fault> {
        self.next()?.ok_or_else(|| Fault::new(at, "not YAML: it ends too early"))
    }

    fn node(&mut self, event: Event<'a>, span: Span, depth: usize) -> Result<Node, Fault> {
        let at = place(span.start);
        if depth > DEEPEST {
            return Err(Fault::new(at, format!("lists and mappings are nested more than {DEEPEST} deep")));
        }
        self.count(Size { nodes: 1, bytes: 0 }, at)?;
        let (value, anchor) = match event {
            Event::Alias(anchor) => {
                let node = self.anchors.get(&anchor);
                let node =
                    node.ok_or_else(|| Fault::new(at, "the alias refers to a value that is not complete yet"))?;
                let size = size(node);
                self.count(size, at)?;
                (self.anchors[&anchor].value.clone(), 0)
            }
            Event::Scalar(text, style, anchor, tag) => (scalar(&text, style, tag.is_some()), anchor),
            Event::SequenceStart(anchor, _) => (self.list(at, depth)?, anchor),
            Event::MappingStart(anchor, _) => (self.mapping(at, depth)?, anchor),
            _ => return Err(Fault::new(at, "not YAML: a value is missing")),
        };
        let node = Node { at, value };
        if anchor > 0 {
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn list(&mut self, at: Place, depth: usize) -> Result<Value, Fault> {
        let mut list = Vec::new();
        loop {
            match self.expect(at)? {
                (Event::SequenceEnd, _) => return Ok(Value::List(list)),
                (event, span) => list.push(self.node(event, span, depth + 1)?),
            }
        }
    }

    fn mapping(&mut self, at: Place, depth: usize) -> Result<Value, Fault> {
        let mut map: Vec<(Key, Node)> = Vec::new();
        let (mut names, mut merged) = (HashSet::new(), Vec::new());
        loop {
            let (event, span) = self.expect(at)?;
            if let Event::MappingEnd = event {
                // A mapping's own entries count more than merged ones, and of these the first.
                map.extend(merged.into_iter().filter(|(key, _): &(Key, Node)| names.insert(key.name.clone())));
                return Ok(Value::Map(map));
            }
            let at = place(span.start);
            let Event::Scalar(name, style, ..) = event else {
                return Err(Fault::new(at, "a key must be a plain word"));
            };
            let key = Key { name: name.into_owned(), at };
            if !names.insert(key.name.clone()) {
                return Err(Fault::new(at, format!("the key '{}' is given twice", key.name)));
            }
            let (event, span) = self.expect(at)?;
            let node = self.node(event, span, depth + 1)?;
            match key.name == MERGE && style == ScalarStyle::Plain {
                true => merged = entries_of(node)?,
                false => map.push((key, node)),
            }
        }
    }

    fn count(&mut self, size: Size, at: Place) -> Result<(), Fault> {
        (self.nodes, self.bytes) = (self.nodes + size.nodes, self.bytes + size.bytes);
        if self.nodes > MAX_NODES {
            return Err(Fault::new(at, format!("more than {MAX_NODES} values")));
        }
        let all = "with aliases expanded, its texts are longer than 4 MiB, the limit for a file of flags";
        if self.bytes > MAX_BYTES { Err(Fault::new(at, all)) } else { Ok(()) }
    }
}

/// What a merge key brings: the entries of a mapping, or of each mapping of a list.
fn entries_of(node: Node) -> Result<Vec<(Key, Node)>, Fault> {
    match node.value {
        Value::Map(entries) => Ok(entries),
        Value::List(list) => {
            let entries = |node: &Node| node.map().map(<[_]>::to_vec);
            Ok(list.iter().map(entries).collect::<Result<Vec<_>, _>>()?.concat())
        }
        _ => Err(Fault::new(node.at, format!("'{MERGE}' takes a mapping or a list of these, not {}", node.kind()))),
    }
}

/// How large a subtree is.
#[derive(Clone, Copy)]
struct Size {
    nodes: usize,
    /// Those of its texts.
    bytes: usize,
}

fn size(node: &Node) -> Size {
    let alone = |bytes: usize| Size { nodes: 1, bytes };
    let sum = |total: Size, more: Size| Size { nodes: total.nodes + more.nodes, bytes: total.bytes + more.bytes };
    match &node.value {
        Value::List(list) => list.iter().map(size).fold(alone(0), sum),
        Value::Map(map) => {
            map.iter().map(|(key, node)| sum(Size { nodes: 0, bytes: key.name.len() }, size(node))).fold(alone(0), sum)
        }
        Value::Text(text) => alone(text.len()),
        Value::Null | Value::Bool(_) => alone(0),
    }
}

/// The core words of YAML 1.2; a tag, such as `!!str`, makes any of them a text.
fn scalar(text: &str, style: ScalarStyle, is_tagged: bool) -> Value {
    match text {
        _ if style != ScalarStyle::Plain || is_tagged => Value::Text(text.to_owned()),
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ => Value::Text(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(text: &str) -> String {
        let Fault { at, rule } = read(text).expect_err(text);
        format!("{at} {rule}")
    }

    #[test]
    fn every_node_knows_its_place() {
        let root = read("a: 1:8\nb:\n  - x\n  - 'true'\n  - true\n  -\n").unwrap();
        let map = root.map().unwrap();
        assert_eq!((map[0].0.at.to_string(), map[0].1.at.to_string()), ("1:1".into(), "1:4".into()));
        assert_eq!(map[0].1.value, Value::Text("1:8".into()));
        let Value::List(list) = &map[1].1.value else { panic!("{map:?}") };
        let values: Vec<&Value> = list.iter().map(|node| &node.value).collect();
        let text = |text: &str| Value::Text(text.into());
        assert_eq!(values, [&text("x"), &text("true"), &Value::Bool(true), &Value::Null]);
        assert_eq!(list[1].at.to_string(), "4:5");
    }

    #[test]
    fn aliases_repeat_what_they_name() {
        let root = read("a: &x {b: [1, 2]}\nc: *x\n").unwrap();
        let map = root.map().unwrap();
        assert_eq!(map[0].1.value, map[1].1.value);
    }

    #[test]
    fn merge_keys_bring_what_a_mapping_lacks() {
        let text = "x: &x {a: 1, b: 2}\ny: &y {b: 3, c: 4}\none:\n  <<: *x\n  b: 5\nboth:\n  c: 6\n  <<: [*x, *y]\nkept: {'<<': 7}\n";
        let json = read(text).unwrap().json();
        let wanted = r#""one":{"b":5,"a":1},"both":{"c":6,"a":1,"b":2},"kept":{"<<":7}}"#;
        assert!(json.ends_with(wanted), "{json}");
        assert_eq!(fault("a:\n  <<: 5\n"), "2:7 '<<' takes a mapping or a list of these, not a value");
        assert!(fault("a:\n  <<: [{b: 1}, 5]\n").starts_with("2:16 a mapping of keys to values is needed here"));
    }

    #[test]
    fn an_empty_file_is_nothing() {
        for text in ["", "\n", "# only words\n", "---\n...\n"] {
            assert_eq!(read(text).unwrap().value, Value::Null, "{text:?}");
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        assert_eq!(fault("a: 1\na: 2\n"), "2:1 the key 'a' is given twice");
        assert_eq!(fault("a: 1\n---\nb: 2\n"), "2:1 a second document begins: a file holds one");
        assert_eq!(fault("? [a]\n: 1\n"), "1:3 a key must be a plain word");
        assert!(fault("a: [1, 2\nb: 3\n").starts_with("2:"), "{}", fault("a: [1, 2\nb: 3\n"));
        assert!(fault("a: &x [*x]\n").contains("alias"), "{}", fault("a: &x [*x]\n"));
    }

    #[test]
    fn bombs_are_defused() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(read(&nested(DEEPEST)).is_ok());
        assert!(fault(&nested(200)).contains("nested more than"));
        let mut laughs = "a0: &a0 [1,1,1,1,1,1,1,1,1,1]\n".to_owned();
        for level in 1..10 {
            let row = vec![format!("*a{}", level - 1); 10].join(",");
            laughs += &format!("a{level}: &a{level} [{row}]\n");
        }
        assert!(fault(&laughs).contains("more than 100000 values"));
        // Few values may be long ones.
        let long = |times: usize| format!("a: &x {}\nb: [{}]\n", "y".repeat(500_000), vec!["*x"; times].join(","));
        assert!(read(&long(8)).is_ok());
        assert!(fault(&long(9)).starts_with("2:29 with aliases expanded"), "{}", fault(&long(9)));
    }

    #[test]
    fn hostile_texts_never_panic() {
        let pieces = [
            "a",
            ":",
            " ",
            "\n",
            "- ",
            "[",
            "]",
            "{",
            "}",
            ",",
            "&x",
            "*x",
            "<<",
            "!!str",
            "'",
            "\"",
            "|",
            ">",
            "#",
            "%YAML 1.2",
            "---",
            "...",
            "\t",
            "?",
            "\u{feff}",
            "\u{0}",
            "\\",
            "é",
            "\u{202e}",
            "1:8",
            "~",
            "true",
            "\r",
            "@",
            "`",
        ];
        for number in 0..20_000_u64 {
            let draw = |at: u64| crate::seed::hash(number, at) as usize;
            let text: String = (0..draw(99) as u64 % 24).map(|at| pieces[draw(at) % pieces.len()]).collect();
            if let Err(fault) = read(&text) {
                assert!(!fault.rule.is_empty() && fault.at.line > 0 && fault.at.column > 0, "{text:?}");
            }
        }
    }
}
