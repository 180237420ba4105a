//! Entries for the fuzz targets under `fuzz/`: what a server reports about its models, and its answers.

use crate::backend::{Outputs, ReplyForm, ReplySource};
use crate::model::{DataType, ModelId, ModelSpec, TensorSpec};
use crate::tfserving::answer::Answer;
use crate::tfserving::proto;
use crate::tfserving::rest;
use crate::tfserving::signature::Wanted;

/// Most bytes of a tensor.
const MOST: u64 = 1 << 20;

/// Reads bytes as an answer over gRPC, whose outputs must be shown if it is one, and hold as many bytes as they say; and as one
/// over REST.
///
/// # Panics
/// If an invariant is broken.
pub fn answer(bytes: &[u8]) {
    for datatype in [DataType::Fp32, DataType::Int8, DataType::Bytes, DataType::Fp16] {
        for max_batch_size in [0, 2] {
            let output = |name: &str| TensorSpec::plain(name, datatype, vec![-1]);
            let plain = ModelSpec::plain(&ModelId::latest("m"), Vec::new(), vec![output("y"), output("z")]);
            let model = ModelSpec { max_batch_size, ..plain };
            let form = ReplyForm { model: &model, batch: max_batch_size.max(1), contents: true };
            if let Ok(answer) = Answer::read(bytes, &model, MOST, Vec::new()) {
                answer.visit(&mut |output| assert!(output.bytes.len() as u64 <= MOST.max(bytes.len() as u64)));
                let _ = form.check(ReplySource::default(), &answer);
            }
            rest::fuzzing::answer(bytes, form);
        }
    }
}

/// Reads bytes as metadata and as a state, over gRPC and REST, and makes models of them.
pub fn control(bytes: &[u8]) {
    let _ = proto::unavailable(bytes);
    for wanted in [Wanted::fuzzed(false), Wanted::fuzzed(true)] {
        if let Ok(metadata) = proto::metadata(bytes, wanted.signature()) {
            let _ = wanted.model(&ModelId::latest("m"), metadata);
        }
        rest::fuzzing::control(bytes, &wanted);
    }
}
