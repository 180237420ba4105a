//! `validation_data`: the expected outputs, in the structure of `data`.

use std::sync::Arc;

use crate::json::lexer::{Fault, Kind, Lexer};
use crate::json::tensor::read_tensor;
use crate::json::{Form, JsonReader, expect, located, unknown};
use crate::{OutputValues, Responses};

impl JsonReader<'_> {
    /// Reads `validation_data` for the streams (or the steps of stream 0) from `start` on.
    pub(super) fn validation(
        &mut self,
        lexer: &mut Lexer<'_>,
        start: usize,
        done: &dyn Fn(usize),
    ) -> Result<(), Fault> {
        if self.form == Some(Form::Steps) {
            return self.validate_stream(lexer, 0, start, done);
        }
        expect(lexer, Kind::Array, "\"validation_data\" must be an array, as \"data\" is")?;
        let (mut first, mut stream) = (true, start);
        while lexer.more(b']', &mut first)? {
            if stream == self.streams.len() {
                return Err(misaligned(lexer, &format!("\"data\" has only {} streams", stream - start)));
            }
            self.validate_stream(lexer, stream, 0, done)?;
            stream += 1;
        }
        match self.streams.len() - stream {
            0 => Ok(()),
            short => Err(misaligned(lexer, &format!("{short} streams are missing"))),
        }
    }

    fn validate_stream(
        &mut self,
        lexer: &mut Lexer<'_>,
        stream: usize,
        start: usize,
        done: &dyn Fn(usize),
    ) -> Result<(), Fault> {
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
            self.streams[stream].expect(step, expected);
            step += 1;
            done(lexer.offset());
        }
        match steps - step {
            0 => Ok(()),
            short => Err(misaligned(lexer, &format!("{short} steps are missing in stream {stream}"))),
        }
    }

    fn responses(&mut self, lexer: &mut Lexer<'_>) -> Result<Responses, Fault> {
        if lexer.peek()? == Kind::Object {
            return Ok([self.outputs(lexer)?].into());
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
        Ok(responses.into())
    }

    fn outputs(&mut self, lexer: &mut Lexer<'_>) -> Result<Vec<Arc<OutputValues>>, Fault> {
        expect(lexer, Kind::Object, "expected outputs must be an object of tensors")?;
        let specs = &self.target.model.outputs;
        let mut outputs: Vec<Option<Arc<OutputValues>>> = vec![None; specs.len()];
        let mut first = true;
        while lexer.more(b'}', &mut first)? {
            let at = lexer.offset();
            let key = lexer.key()?;
            match specs.iter().position(|spec| spec.name == key) {
                Some(index) if outputs[index].is_none() => outputs[index] = Some(Arc::new(self.output(lexer, index)?)),
                Some(_) => return Err(Fault::rule(at, format!("the tensor {key} is given twice"))),
                None if key == "model" => lexer.skip()?,
                None => {
                    let names: Vec<_> = self.target.output_names.iter().map(AsRef::as_ref).collect();
                    return Err(Fault::rule(at, unknown(&key, &names.join(", "))));
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
        let step_shape = read_tensor(lexer, &self.target.model.outputs[index], &mut self.scratch)?;
        let values = self.target.settle_output(index, step_shape.as_deref(), self.scratch.since(0).into());
        values.map_err(|message| Fault::rule(at, message))
    }
}

fn misaligned(lexer: &Lexer<'_>, detail: &str) -> Fault {
    lexer.breach(format!("The 'validation_data' field doesn't align with 'data' field in the json file: {detail}"))
}
