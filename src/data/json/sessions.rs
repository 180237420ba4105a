//! aiperf's `inputs.json`: entries of `data` are sessions, `{"session_id": ..., "payloads": [...]}`, with a payload for each turn. As
//! there, a payload is sent as it is: it holds whatever it says of its conversation so far.

use std::path::PathBuf;
use std::sync::Arc;

use crate::json::elements::read_document;
use crate::json::lexer::{Fault, Kind, Lexer};
use crate::json::{JsonReader, expect, located};
use crate::model::{DataType, TensorSpec};
use crate::steps::{Value, in_file};
use crate::strings;

/// The input that holds the body of a request to an endpoint.
const PAYLOAD: &str = "payload";
/// The member with a session's payloads.
const PAYLOADS: &str = "payloads";
/// The member with its name, and the input of payloads where sessions are played.
const SESSION: &str = "session_id";
/// The input with the turns that a turn follows.
const AFTER: &str = "after";
/// What stands there for none.
const NO_TURN: i32 = -1;

impl JsonReader<'_> {
    /// Whether the object that comes next is a session.
    pub(super) fn is_session(&self, lexer: &mut Lexer<'_>) -> bool {
        let inputs = &self.target.model.inputs;
        let takes_payloads = |input: &TensorSpec| input.name == PAYLOAD && input.datatype == DataType::Json;
        inputs.first().is_some_and(takes_payloads) && has_payloads(&mut lexer.clone()).unwrap_or(false)
    }

    /// Adds the payloads of a session as steps.
    pub(super) fn session(&mut self, lexer: &mut Lexer<'_>) -> Result<(), Fault> {
        let first_step = self.streams[0].len();
        let at = lexer.offset();
        lexer.enter();
        let (mut first, mut name, mut steps) = (true, None, Vec::new());
        while lexer.more(b'}', &mut first)? {
            let key = lexer.key()?;
            match key.as_ref() {
                PAYLOADS => {
                    let read = self.payloads(lexer, first_step + steps.len())?;
                    steps.extend(read);
                }
                SESSION if lexer.peek()? == Kind::Text => name = Some(lexer.string()?.into_owned()),
                other => lexer.pass_over(other, "session_id, payloads")?,
            }
        }
        if steps.is_empty() {
            return Err(lexer.breach("a session without payloads; give at least one"));
        }
        if let Some(input) = self.input_of(SESSION) {
            let name = name.ok_or_else(|| Fault::rule(at, "a session needs a session_id, which is a text"))?;
            if !self.sessions.insert(name.clone()) {
                let rule = format!("the session '{name}' is there twice: an entry has all payloads of its session");
                return Err(Fault::rule(at, rule));
            }
            self.turns(&mut steps, input, &name).map_err(|message| Fault::rule(at, message))?;
        }
        for step in steps {
            self.streams[0].push(step);
        }
        Ok(())
    }

    /// Whoever plays sessions may expect their turns to include the conversation so far.
    pub(super) fn warn_of_sessions(&mut self, files: &[PathBuf]) {
        if let (Some(file), false) = (files.first(), self.sessions.is_empty()) {
            let rule =
                "each payload of a session is sent as it is, as aiperf does, and answers are not added to the next";
            self.warnings.push(format!("{}: {rule}", in_file(file)));
        }
    }

    /// The payloads of a session, the first of which is step `number`.
    fn payloads(&mut self, lexer: &mut Lexer<'_>, number: usize) -> Result<Vec<Vec<Option<Value>>>, Fault> {
        expect(lexer, Kind::Array, "Input data file is malformed. \"payloads\" must be an array of objects")?;
        let (mut first, mut steps) = (true, Vec::new());
        while lexer.more(b']', &mut first)? {
            let payload = self.payload(lexer).map_err(|fault| located(fault, 0, number + steps.len()))?;
            let mut inputs = vec![None; self.target.model.inputs.len()];
            inputs[0] = Some(payload);
            steps.push(inputs);
        }
        Ok(steps)
    }

    fn payload(&mut self, lexer: &mut Lexer<'_>) -> Result<Value, Fault> {
        if lexer.peek()? != Kind::Object {
            let got = lexer.peek()?.name();
            return Err(lexer.breach(format!("a payload must be an object, got {got}")));
        }
        let at = lexer.offset();
        self.target.take_steps(1).map_err(|error| lexer.breach(error.to_string()))?;
        let offset = self.memory.align().map_err(|error| Fault::rule(at, error.to_string()))?;
        read_document(lexer, &mut self.memory)?;
        self.settled(0, offset, None).map_err(|message| Fault::rule(at, message))
    }

    /// Names the session of each step, and has it follow the one before it, which is why it is sent as it is.
    fn turns(&mut self, steps: &mut [Vec<Option<Value>>], session: usize, name: &str) -> Result<(), String> {
        let after = self.input_of(AFTER);
        for (number, step) in steps.iter_mut().enumerate() {
            let offset = self.memory.align().map_err(|error| error.to_string())?;
            strings::append(&mut self.memory, name.as_bytes()).map_err(|error| error.to_string())?;
            step[session] = Some(self.settled(session, offset, None)?);
            let Some(after) = after else { continue };
            let before = i32::try_from(number).unwrap_or(i32::MAX) + NO_TURN;
            let offset = self.memory.align().map_err(|error| error.to_string())?;
            self.memory.write(&before.to_le_bytes()).map_err(|error| error.to_string())?;
            step[after] = Some(self.settled(after, offset, Some(vec![1]))?);
        }
        Ok(())
    }

    /// The value of an input that was written from `offset` on.
    fn settled(&mut self, input: usize, offset: usize, shape: Option<Vec<i64>>) -> Result<Value, String> {
        let shape = shape.map(|shape| self.shared(shape));
        let shape: Arc<[i64]> = self.target.settle_input(input, shape, self.memory.since(offset))?;
        Ok(Value { region: self.region, offset, len: self.memory.len() - offset, shape })
    }

    fn input_of(&self, name: &str) -> Option<usize> {
        self.target.model.inputs.iter().position(|input| input.name == name)
    }
}

/// Whether an object has a list of payloads; a step, which has one payload, has none.
fn has_payloads(lexer: &mut Lexer<'_>) -> Result<bool, Fault> {
    lexer.enter();
    let mut first = true;
    while lexer.more(b'}', &mut first)? {
        let key = lexer.key()?;
        if key == PAYLOADS {
            return Ok(lexer.peek()? == Kind::Array);
        }
        if key == PAYLOAD {
            return Ok(false);
        }
        lexer.skip()?;
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use crate::error::Result;
    use crate::model::{DataType, ModelId, ModelSpec, TensorSpec};
    use crate::shm::Allowance;
    use crate::{Corpus, CorpusSpec, DataSource, OptionalInputs};

    /// What a file has, for an endpoint that plays sessions or does not.
    fn load(text: &str, plays: bool) -> Result<Corpus> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("inputs.json");
        std::fs::write(&path, text).unwrap();
        let optional =
            |name, datatype, dim| TensorSpec { optional: true, ..TensorSpec::plain(name, datatype, vec![dim]) };
        let mut inputs = vec![TensorSpec::plain("payload", DataType::Json, vec![1])];
        if plays {
            inputs.push(TensorSpec::plain("session_id", DataType::Bytes, vec![1]));
            inputs.push(optional("delay", DataType::Uint64, 1));
            inputs.push(optional("after", DataType::Int32, -1));
        }
        let spec = CorpusSpec {
            source: &DataSource::Files(vec![path]),
            shapes: &[],
            optional: &OptionalInputs::None,
            string_length: 0,
            string_data: None,
            random_ranges: &[],
            lengths: &[],
            blocks: None,
            requests: None,
            stages: 1,
            seed: 1,
            memory: &Allowance::unbounded(),
        };
        Corpus::load(&spec, &ModelSpec::plain(&ModelId::latest("m"), inputs, Vec::new()))
    }

    /// A step's document, its session and the turn that it follows.
    fn steps(corpus: &Corpus) -> Vec<(String, Option<String>, Option<i32>)> {
        let step = |number: usize| {
            let inputs = corpus.streams[0].inputs(number);
            let bytes = |index: usize| {
                let value = inputs.get(index)?.as_ref()?;
                Some(corpus.regions[value.region].bytes(value.offset, value.len).unwrap().into_owned())
            };
            // A text follows its length.
            let text = |index: usize| bytes(index).map(|bytes| String::from_utf8(bytes[4..].to_vec()).unwrap());
            let after = bytes(3).map(|bytes| i32::from_le_bytes(bytes.try_into().unwrap()));
            (text(0).unwrap(), text(1), after)
        };
        (0..corpus.stream_lengths()[0]).map(step).collect()
    }

    #[test]
    fn sessions_of_aiperf_are_turns_where_sessions_are_played() {
        let text = r#"{"data": [
            {"session_id": "a", "payloads": [{"messages": [1], "x": 0.50}, {"messages": [1, 2]}]},
            {"payloads": [{"prompt": "p"}], "session_id": "b"}]}"#;
        let documents = [r#"{"messages":[1],"x":0.5}"#, r#"{"messages":[1,2]}"#, r#"{"prompt":"p"}"#];
        let plain = load(text, false).unwrap();
        assert_eq!(steps(&plain), documents.map(|document| (document.to_owned(), None, None)));
        let played = load(text, true).unwrap();
        let turns = [("a", -1), ("a", 0), ("b", -1)].map(|(name, after)| (Some(name.to_owned()), Some(after)));
        let wanted = documents.into_iter().zip(turns);
        let wanted: Vec<_> = wanted.map(|(document, (name, after))| (document.to_owned(), name, after)).collect();
        assert_eq!(steps(&played), wanted);
        assert!(played.warnings()[0].contains("each payload of a session is sent as it is"), "{:?}", played.warnings());
    }

    #[test]
    fn what_is_wrong_in_a_session_is_said_of_it() {
        for (data, rule) in [
            (r#"{"session_id": "a", "payloads": []}"#, "a session without payloads"),
            (r#"{"session_id": "a", "payloads": [{}, 3]}"#, "a payload must be an object, got a number"),
            (r#"{"payloads": [{}]}"#, "a session needs a session_id"),
            (r#"{"session_id": "a", "payloads": [{}]}, {"session_id": "a", "payloads": [{}]}"#, "'a' is there twice"),
        ] {
            let error = load(&format!("{{\"data\": [{data}]}}"), true).err().unwrap().to_string();
            assert!(error.contains(rule) && error.contains("inputs.json', line 1"), "{error}");
        }
        let broken = load(r#"{"data": [{"payloads": [{}], "session_id": "a"}, {"payload": [{}]}]}"#, true);
        assert!(broken.err().unwrap().to_string().contains("missing tensor session_id"));
    }
}
