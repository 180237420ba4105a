//! JSON input files: `{"data": [...], "validation_data": [...]}`.
//!
//! `data` holds steps (objects from input names to tensors), which all files add to stream 0, or streams (arrays of
//! steps), which add up. A tensor is a flat array of one batch element's values, or an object with `content` (an array
//! or `{"b64": ...}`) or `b64`, and `shape`. `validation_data` has the same form with the outputs' names; where a model is
//! decoupled, a step may be an array of objects there, one for each response. Text goes straight into the memory that
//! batches of one element are sent from.

mod elements;
mod lexer;
mod tensor;
mod timestamps;

use std::path::{Path, PathBuf};

use self::lexer::{Fault, Kind, Lexer, Stray};
use self::tensor::read_tensor;
use super::OutputValues;
use super::steps::{Loaded, Step, Target, Value, in_file, location};
use crate::error::{Error, Result};
use crate::shm::{RegionBuilder, map_text};

pub(crate) use self::timestamps::timestamps;

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
    streams: Vec<Vec<Step>>,
    /// Unknown keys of the file that is being read.
    strays: Vec<Stray>,
    warnings: Vec<String>,
}

/// Reads JSON files.
///
/// # Errors
/// Names file, line, stream, step, tensor and the rule that is broken.
pub(crate) fn load(target: &Target<'_>, files: &[PathBuf]) -> Result<Loaded> {
    let mut reader = JsonReader::new(target)?;
    for path in files {
        let text = map_text(path)?;
        reader.read(path, &text, &|offset| text.release(offset))?;
    }
    Ok(Loaded { regions: vec![reader.memory.finish()], streams: reader.streams, warnings: reader.warnings })
}

impl<'a> JsonReader<'a> {
    pub(crate) fn new(target: &'a Target<'a>) -> Result<Self> {
        let (memory, scratch) = (RegionBuilder::new()?, RegionBuilder::new()?);
        Ok(Self {
            target,
            region: 0,
            memory,
            scratch,
            form: None,
            streams: Vec::new(),
            strays: Vec::new(),
            warnings: Vec::new(),
        })
    }

    /// Forgets what was read.
    #[cfg(fuzzing)]
    pub(crate) fn reset(&mut self) {
        self.memory.truncate(0);
        self.scratch.truncate(0);
        self.form = None;
        self.streams.clear();
        self.strays.clear();
        self.warnings.clear();
    }

    /// Reads the text of one file. `done` is told up to where the text is not needed any more.
    pub(crate) fn read(&mut self, path: &Path, text: &[u8], done: &dyn Fn(usize)) -> Result<()> {
        self.document(text, done).map_err(|fault| named(path, text, &fault))?;
        self.warn_of_strays(path, text);
        Ok(())
    }

    /// perf_analyzer ignores keys that it does not know, and its users' files may hold such; but a key may be misspelt.
    fn warn_of_strays(&mut self, path: &Path, text: &[u8]) {
        let named = self.strays.drain(..).map(|Stray { at, key, known }| {
            format!("{key:?} (line {}; known there: {known})", Lexer::position(text, at).0)
        });
        let named: Vec<_> = named.collect();
        if !named.is_empty() {
            self.warnings.push(format!("{}: unknown keys are ignored: {}", in_file(path), named.join(", ")));
        }
    }

    fn document(&mut self, text: &[u8], done: &dyn Fn(usize)) -> Result<(), Fault> {
        if let Some((what, remedy)) = other_format(text) {
            return Err(Fault::syntax(0, format!("{what}: {remedy}")));
        }
        let mut lexer = Lexer::new(text);
        let (mut data, mut validation) = (None, None);
        if lexer.peek()? != Kind::Object {
            return Err(lexer.breach("The json file doesn't contain data field: it must be {\"data\": [...]}"));
        }
        lexer.enter();
        let mut first = true;
        while lexer.more(b'}', &mut first)? {
            let key = lexer.key()?;
            let at = lexer.offset();
            match key.as_ref() {
                "data" if data.is_none() => data = Some(self.data(&mut lexer, done)?),
                "validation_data" if validation.is_none() => {
                    validation = Some(at);
                    lexer.skip()?;
                }
                "data" | "validation_data" => return Err(lexer.breach(format!("the key \"{key}\" is there twice"))),
                other => lexer.pass_over(other, "data, validation_data")?,
            }
        }
        lexer.end()?;
        self.strays.append(&mut lexer.strays);
        let Some(start) = data else {
            return Err(lexer.breach("The json file doesn't contain data field: it must be {\"data\": [...]}"));
        };
        let Some(at) = validation else { return Ok(()) };
        let mut lexer = Lexer::resume(text, at);
        self.validation(&mut lexer, start)?;
        self.strays.append(&mut lexer.strays);
        Ok(())
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
                    let step = self.step(lexer, 0, self.streams[0].len())?;
                    self.streams[0].push(step);
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

    /// How many steps of stream 0, or streams, there are.
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
            self.streams.push(Vec::new());
        }
        Ok(())
    }

    fn stream(&mut self, lexer: &mut Lexer<'_>, done: &dyn Fn(usize)) -> Result<Vec<Step>, Fault> {
        let index = self.streams.len();
        lexer.enter();
        let (mut first, mut steps) = (true, Vec::new());
        while lexer.more(b']', &mut first)? {
            let step = self.step(lexer, index, steps.len())?;
            steps.push(step);
            done(lexer.offset());
        }
        if steps.is_empty() {
            return Err(lexer.breach(format!("stream {index} is empty; give it at least one step")));
        }
        Ok(steps)
    }

    fn step(&mut self, lexer: &mut Lexer<'_>, stream: usize, step: usize) -> Result<Step, Fault> {
        let inputs = self.inputs(lexer).map_err(|fault| located(fault, stream, step))?;
        Ok(Step { inputs, expected: None })
    }

    fn inputs(&mut self, lexer: &mut Lexer<'_>) -> Result<Vec<Option<Value>>, Fault> {
        expect(lexer, Kind::Object, "Input data file is malformed. A step must be an object of tensors")?;
        let specs = &self.target.model.inputs;
        let mut inputs = vec![None; specs.len()];
        let mut first = true;
        while lexer.more(b'}', &mut first)? {
            let at = lexer.offset();
            let key = lexer.key()?;
            match specs.iter().position(|spec| spec.name == key) {
                Some(index) if inputs[index].is_none() => inputs[index] = Some(self.input(lexer, index)?),
                Some(_) => return Err(Fault::rule(at, format!("the tensor {key} is there twice"))),
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
        let own = read_tensor(lexer, spec, &mut self.memory)?;
        let shape = self
            .target
            .settle_input(index, own.as_deref(), self.memory.since(offset))
            .map_err(|message| Fault::rule(at, message))?;
        Ok(Value { region: self.region, offset, len: self.memory.len() - offset, shape })
    }

    /// Reads `validation_data` for the streams (or the steps of stream 0) from `start` on.
    fn validation(&mut self, lexer: &mut Lexer<'_>, start: usize) -> Result<(), Fault> {
        if self.form == Some(Form::Steps) {
            return self.validate_stream(lexer, 0, start);
        }
        expect(lexer, Kind::Array, "\"validation_data\" must be an array, as \"data\" is")?;
        let (mut first, mut stream) = (true, start);
        while lexer.more(b']', &mut first)? {
            if stream == self.streams.len() {
                return Err(misaligned(lexer, &format!("\"data\" has only {} streams", stream - start)));
            }
            self.validate_stream(lexer, stream, 0)?;
            stream += 1;
        }
        match self.streams.len() - stream {
            0 => Ok(()),
            short => Err(misaligned(lexer, &format!("{short} streams are missing"))),
        }
    }

    fn validate_stream(&mut self, lexer: &mut Lexer<'_>, stream: usize, start: usize) -> Result<(), Fault> {
        expect(lexer, Kind::Array, "\"validation_data\" must be nested in arrays as \"data\" is")?;
        let (mut first, mut step) = (true, start);
        let steps = self.streams[stream].len();
        while lexer.more(b']', &mut first)? {
            if step == steps {
                return Err(misaligned(
                    lexer,
                    &format!("\"data\" has only {} steps in stream {stream}", steps - start),
                ));
            }
            let expected = self.responses(lexer).map_err(|fault| located(fault, stream, step))?;
            self.streams[stream][step].expected = Some(expected);
            step += 1;
        }
        match steps - step {
            0 => Ok(()),
            short => Err(misaligned(lexer, &format!("{short} steps are missing in stream {stream}"))),
        }
    }

    fn responses(&mut self, lexer: &mut Lexer<'_>) -> Result<Vec<Vec<OutputValues>>, Fault> {
        if lexer.peek()? == Kind::Object {
            return Ok(vec![self.outputs(lexer)?]);
        }
        expect(
            lexer,
            Kind::Array,
            "an entry of \"validation_data\" must be an object, or an array of one per response",
        )?;
        let (mut first, mut responses) = (true, Vec::new());
        while lexer.more(b']', &mut first)? {
            let outputs = self.outputs(lexer)?;
            responses.push(outputs);
        }
        if responses.len() != 1 && !self.target.model.decoupled {
            return Err(lexer.breach(format!(
                "{} responses are expected, but model '{}' is not decoupled: it sends one for each request",
                responses.len(),
                self.target.model.id
            )));
        }
        Ok(responses)
    }

    fn outputs(&mut self, lexer: &mut Lexer<'_>) -> Result<Vec<OutputValues>, Fault> {
        expect(lexer, Kind::Object, "expected outputs must be an object of tensors")?;
        let specs = &self.target.model.outputs;
        let mut outputs: Vec<Option<OutputValues>> = vec![None; specs.len()];
        let mut first = true;
        while lexer.more(b'}', &mut first)? {
            let at = lexer.offset();
            let key = lexer.key()?;
            match specs.iter().position(|spec| spec.name == key) {
                Some(index) if outputs[index].is_none() => outputs[index] = Some(self.output(lexer, index)?),
                Some(_) => return Err(Fault::rule(at, format!("the tensor {key} is there twice"))),
                None if key == "model" => lexer.skip()?,
                None => {
                    let known: Vec<_> = self.target.output_names.iter().map(AsRef::as_ref).collect();
                    return Err(Fault::rule(at, unknown(&key, &known.join(", "))));
                }
            }
        }
        for (spec, value) in specs.iter().zip(&outputs) {
            if value.is_none() && !spec.optional {
                return Err(lexer.breach(format!("\"validation_data\": missing tensor {}", spec.name)));
            }
        }
        Ok(outputs.into_iter().flatten().collect())
    }

    fn output(&mut self, lexer: &mut Lexer<'_>, index: usize) -> Result<OutputValues, Fault> {
        let at = lexer.offset();
        self.scratch.truncate(0);
        let own = read_tensor(lexer, &self.target.model.outputs[index], &mut self.scratch)?;
        let values = self.target.settle_output(index, own.as_deref(), self.scratch.since(0));
        values.map_err(|message| Fault::rule(at, message))
    }
}

/// A fault with its file, line and column.
fn named(path: &Path, text: &[u8], fault: &Fault) -> Error {
    let (line, column) = Lexer::position(text, fault.at);
    let parse = if fault.syntax { "failed to parse the specified json file for reading provided data: " } else { "" };
    Error::input(format!("{}, line {line}, column {column}: {parse}{}", in_file(path), fault.message))
}

/// What a file that is not meant to be JSON is, and what to do with it.
fn other_format(text: &[u8]) -> Option<(&'static str, &'static str)> {
    const FORMATS: [(&[u8], &str, &str); 5] = [
        (
            b"\x93NUMPY",
            "it is a NumPy array",
            "put it into a directory as INPUT.npy, or save a FILE.npz with numpy.savez",
        ),
        (b"PK\x03\x04", "it is a zip archive", "if numpy.savez made it, call it FILE.npz"),
        (b"\x1f\x8b", "it is compressed with gzip", "unpack it"),
        (b"\xff\xfe", "it is UTF-16", "save it as UTF-8"),
        (b"\xfe\xff", "it is UTF-16", "save it as UTF-8"),
    ];
    FORMATS.into_iter().find(|(magic, ..)| text.starts_with(magic)).map(|(_, what, remedy)| (what, remedy))
}

/// Takes the start of a value of the given kind.
fn expect(lexer: &mut Lexer<'_>, kind: Kind, rule: &str) -> Result<(), Fault> {
    match lexer.peek()? {
        got if got == kind => {
            lexer.enter();
            Ok(())
        }
        got => Err(lexer.breach(format!("{rule}, got {}", got.name()))),
    }
}

fn located(fault: Fault, stream: usize, step: usize) -> Fault {
    Fault { message: format!("{} {}", fault.message, location(stream, step)), ..fault }
}

fn misaligned(lexer: &Lexer<'_>, detail: &str) -> Fault {
    lexer.breach(format!("The 'validation_data' field doesn't align with 'data' field in the json file: {detail}"))
}

fn unknown(name: &str, known: &str) -> String {
    format!("The input or output '{name}' is not found in the model configuration; expected {known}")
}
