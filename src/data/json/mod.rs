//! JSON input files: `{"data": [...], "validation_data": [...]}`.
//!
//! `data` holds steps (objects from input names to tensors), which all files append to stream 0, or streams (arrays of
//! steps), which add up. A tensor is a flat array of one batch element's values, or an object with `content` (an array
//! or `{"b64": ...}`) or `b64`, and `shape`. `validation_data` has the same structure with the outputs' names; for a
//! decoupled model a step may be an array of objects there, one for each response. For a model that takes documents, `data` may also
//! hold sessions of these (`sessions`). Text is converted straight into the
//! memory that batches of one element are sent from.

mod document;
mod elements;
mod lexer;
mod sessions;
mod tensor;
mod timestamps;
mod validation;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::lexer::{Fault, Kind, Lexer, Stray};
use self::tensor::read_tensor;
use crate::error::{Error, Result};
use crate::model::DataType;
use crate::shm::{RegionBuilder, map_text};
use crate::steps::{Loaded, Stream, Target, Value, in_file, location};

pub use self::timestamps::timestamps;

/// What the entries of `data` are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Steps,
    Streams,
}

/// Reads files one after the other into one corpus.
pub(crate) struct JsonReader<'a> {
    target: &'a Target<'a>,
    region: usize,
    memory: RegionBuilder,
    scratch: RegionBuilder,
    form: Option<Form>,
    streams: Vec<Stream>,
    /// Shapes given by steps, each once.
    shapes: HashSet<Arc<[i64]>>,
    /// Names of sessions that are entries of their own.
    sessions: HashSet<String>,
    /// Unknown keys of the current file.
    strays: Vec<Stray>,
    warnings: Vec<String>,
}

const NO_DATA: &str = "The json file doesn't contain data field: it must be {\"data\": [...]}";

/// Reads JSON files.
///
/// # Errors
/// Names file, line, stream, step, tensor and the broken rule.
pub(crate) fn load(target: &Target<'_>, files: &[PathBuf]) -> Result<Loaded> {
    let mut reader = JsonReader::new(target)?;
    for path in files {
        let text = map_text(path)?;
        reader.read(path, &text, &|offset| text.release(offset))?;
    }
    reader.warn_of_sessions(files);
    Ok(Loaded { regions: vec![reader.memory.finish()], streams: reader.streams, warnings: reader.warnings })
}

impl<'a> JsonReader<'a> {
    pub(crate) fn new(target: &'a Target<'a>) -> Result<Self> {
        let memory = RegionBuilder::within(target.spec.memory)?;
        let scratch = RegionBuilder::within(target.spec.memory)?;
        Ok(Self {
            target,
            region: 0,
            memory,
            scratch,
            form: None,
            streams: Vec::new(),
            shapes: HashSet::new(),
            sessions: HashSet::new(),
            strays: Vec::new(),
            warnings: Vec::new(),
        })
    }

    /// Discards what was read.
    #[cfg(fuzzing)]
    pub(crate) fn reset(&mut self) {
        self.memory.truncate(0);
        self.scratch.truncate(0);
        self.form = None;
        self.streams.clear();
        self.shapes.clear();
        self.sessions.clear();
        self.strays.clear();
        self.warnings.clear();
    }

    /// Reads the text of one file. `done` is called with the offset up to which the text is no longer needed.
    pub(crate) fn read(&mut self, path: &Path, text: &[u8], done: &dyn Fn(usize)) -> Result<()> {
        self.document(text, done).map_err(|fault| named(path, text, &fault))?;
        self.warn_of_strays(path, text);
        Ok(())
    }

    /// perf_analyzer ignores unknown keys, and its users' files may contain some; but a key may be misspelt.
    fn warn_of_strays(&mut self, path: &Path, text: &[u8]) {
        let named = self.strays.drain(..).map(|Stray { at, key, expected }| {
            format!("{key:?} (line {}; known there: {expected})", Lexer::position(text, at).0)
        });
        let named: Vec<_> = named.collect();
        if !named.is_empty() {
            self.warnings.push(format!("{}: unknown keys are ignored: {}", in_file(path), named.join(", ")));
        }
    }

    fn document(&mut self, text: &[u8], done: &dyn Fn(usize)) -> Result<(), Fault> {
        if let Some((problem, remedy)) = other_format(text) {
            return Err(Fault::syntax(0, format!("{problem}: {remedy}")));
        }
        let mut lexer = Lexer::new(text);
        let (mut data, mut validation) = (None, None);
        let kind = lexer.peek()?;
        if kind != Kind::Object {
            return Err(lexer.breach(self.without_data(kind)));
        }
        lexer.enter();
        let mut first = true;
        while lexer.more(b'}', &mut first)? {
            let key = lexer.key()?;
            let at = lexer.offset();
            match key.as_ref() {
                "data" if data.is_none() => {
                    let start = self.data(&mut lexer, done)?;
                    data = Some(start);
                    if let Some(at) = validation {
                        let mut lexer = Lexer::resume(text, at);
                        self.validation(&mut lexer, start, done)?;
                        self.strays.append(&mut lexer.strays);
                    }
                }
                "validation_data" if validation.is_none() => {
                    validation = Some(at);
                    match data {
                        Some(start) => self.validation(&mut lexer, start, done)?,
                        None => skip_over(&mut lexer, done)?,
                    }
                }
                "data" | "validation_data" => return Err(lexer.breach(format!("the key \"{key}\" is given twice"))),
                other => lexer.pass_over(other, "data, validation_data")?,
            }
        }
        lexer.end()?;
        self.strays.append(&mut lexer.strays);
        match data {
            Some(_) => Ok(()),
            None => Err(lexer.breach(NO_DATA)),
        }
    }

    /// What is wrong with a document of another kind. Prompts for language models are often in lists.
    fn without_data(&self, kind: Kind) -> String {
        let takes_payloads = self.target.model.inputs.first().is_some_and(|input| input.datatype == DataType::Json);
        match kind {
            Kind::Array if takes_payloads => {
                format!("{NO_DATA}; a list of prompts or conversations is taken by --prompt-tokens dataset:FILE")
            }
            _ => NO_DATA.to_owned(),
        }
    }

    /// Reads `data`; returns the first stream (or step of stream 0) that it added.
    fn data(&mut self, lexer: &mut Lexer<'_>, done: &dyn Fn(usize)) -> Result<usize, Fault> {
        expect(lexer, Kind::Array, "Input data file is malformed. \"data\" must be an array of steps or of streams")?;
        let start = self.extent();
        let mut first = true;
        while lexer.more(b']', &mut first)? {
            match lexer.peek()? {
                Kind::Object => {
                    self.fix_form(lexer, Form::Steps)?;
                    if self.is_session(lexer) {
                        self.session(lexer)?;
                    } else {
                        let inputs = self.step(lexer, 0, self.streams[0].len())?;
                        self.streams[0].push(inputs);
                    }
                    done(lexer.offset());
                }
                Kind::Array => {
                    self.fix_form(lexer, Form::Streams)?;
                    let stream = self.stream(lexer, done)?;
                    self.streams.push(stream);
                }
                kind => {
                    return Err(lexer.breach(format!(
                        "Input data file is malformed. \"data\" holds objects (steps) or arrays (streams), got {}",
                        kind.name()
                    )));
                }
            }
        }
        if self.extent() == start {
            return Err(lexer.breach("\"data\" is empty; give at least one step"));
        }
        Ok(start)
    }

    /// Number of steps of stream 0, or of streams.
    fn extent(&self) -> usize {
        match self.form {
            Some(Form::Steps) => self.streams[0].len(),
            _ => self.streams.len(),
        }
    }

    fn fix_form(&mut self, lexer: &Lexer<'_>, form: Form) -> Result<(), Fault> {
        if *self.form.get_or_insert(form) != form {
            return Err(lexer.breach(
                "Inconsistency in input-data provided. Can not have a combination of objects and arrays inside of the \
                 Data array, nor in several files of one run",
            ));
        }
        if form == Form::Steps && self.streams.is_empty() {
            self.streams.push(Stream::default());
        }
        Ok(())
    }

    fn stream(&mut self, lexer: &mut Lexer<'_>, done: &dyn Fn(usize)) -> Result<Stream, Fault> {
        let index = self.streams.len();
        lexer.enter();
        let (mut first, mut steps) = (true, Stream::default());
        while lexer.more(b']', &mut first)? {
            steps.push(self.step(lexer, index, steps.len())?);
            done(lexer.offset());
        }
        if steps.len() == 0 {
            return Err(lexer.breach(format!("stream {index} is empty; give it at least one step")));
        }
        Ok(steps)
    }

    fn step(&mut self, lexer: &mut Lexer<'_>, stream: usize, step: usize) -> Result<Vec<Option<Value>>, Fault> {
        self.inputs(lexer).map_err(|fault| located(fault, stream, step))
    }

    fn inputs(&mut self, lexer: &mut Lexer<'_>) -> Result<Vec<Option<Value>>, Fault> {
        expect(lexer, Kind::Object, "Input data file is malformed. A step must be an object of tensors")?;
        self.target.take_steps(1).map_err(|e| lexer.breach(e.to_string()))?;
        let specs = &self.target.model.inputs;
        let mut inputs = vec![None; specs.len()];
        let mut first = true;
        while lexer.more(b'}', &mut first)? {
            let at = lexer.offset();
            let key = lexer.key()?;
            match specs.iter().position(|spec| spec.name == key) {
                Some(index) if inputs[index].is_none() => inputs[index] = Some(self.input(lexer, index)?),
                Some(_) => return Err(Fault::rule(at, format!("the tensor {key} is given twice"))),
                None if key == "model" => lexer.skip()?,
                None => return Err(Fault::rule(at, unknown(&key, &self.target.input_names()))),
            }
        }
        for (spec, value) in specs.iter().zip(&inputs) {
            if value.is_none() && !spec.optional {
                return Err(lexer.breach(format!("missing tensor {}", spec.name)));
            }
        }
        Ok(inputs)
    }

    fn input(&mut self, lexer: &mut Lexer<'_>, index: usize) -> Result<Value, Fault> {
        let spec = &self.target.model.inputs[index];
        let at = lexer.offset();
        let offset = self.memory.align().map_err(|e| Fault::rule(at, e.to_string()))?;
        let step_shape = read_tensor(lexer, spec, &mut self.memory)?.map(|shape| self.shared(shape));
        let shape = self
            .target
            .settle_input(index, step_shape, self.memory.since(offset))
            .map_err(|message| Fault::rule(at, message))?;
        Ok(Value { region: self.region, offset, len: self.memory.len() - offset, shape })
    }

    fn shared(&mut self, shape: Vec<i64>) -> Arc<[i64]> {
        if let Some(existing) = self.shapes.get(shape.as_slice()) {
            return Arc::clone(existing);
        }
        let shape = Arc::<[i64]>::from(shape);
        self.shapes.insert(Arc::clone(&shape));
        shape
    }
}

/// A fault with its file, line and column.
fn named(path: &Path, text: &[u8], fault: &Fault) -> Error {
    let (line, column) = Lexer::position(text, fault.at);
    let parse = if fault.syntax { "failed to parse the specified json file for reading provided data: " } else { "" };
    Error::input(format!("{}, line {line}, column {column}: {parse}{}", in_file(path), fault.message))
}

/// The format of a file that is not meant to be JSON, and what to do with it.
fn other_format(bytes: &[u8]) -> Option<(&'static str, &'static str)> {
    const FORMATS: [(&[u8], &str, &str); 2] = [
        (
            b"\x93NUMPY",
            "it is a NumPy array",
            "put it into a directory as INPUT.npy, or save a FILE.npz with numpy.savez",
        ),
        (b"PK\x03\x04", "it is a zip archive", "if numpy.savez made it, call it FILE.npz"),
    ];
    let found = FORMATS.into_iter().find(|(magic, ..)| bytes.starts_with(magic));
    found.map(|(_, problem, remedy)| (problem, remedy)).or_else(|| crate::text::other_format(bytes))
}

/// Consumes the start of a value of the given kind.
fn expect(lexer: &mut Lexer<'_>, kind: Kind, rule: &str) -> Result<(), Fault> {
    match lexer.peek()? {
        got if got == kind => {
            lexer.enter();
            Ok(())
        }
        got => Err(lexer.breach(format!("{rule}, got {}", got.name()))),
    }
}

/// Skips a value that is read later.
fn skip_over(lexer: &mut Lexer<'_>, done: &dyn Fn(usize)) -> Result<(), Fault> {
    if lexer.peek()? != Kind::Array {
        return lexer.skip();
    }
    lexer.enter();
    let mut first = true;
    while lexer.more(b']', &mut first)? {
        lexer.skip()?;
        done(lexer.offset());
    }
    Ok(())
}

fn located(fault: Fault, stream: usize, step: usize) -> Fault {
    Fault { message: format!("{} {}", fault.message, location(stream, step)), ..fault }
}

fn unknown(name: &str, expected: &str) -> String {
    format!("The input or output '{name}' is not found in the model configuration; expected {expected}")
}
