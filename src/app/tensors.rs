//! How many bytes the tensors of an inference have, as far as that is known before any answer.

use crate::app::session::Session;
use crate::data::Payload;
use crate::result::tensors::TensorBytes;

/// Those of a session: of its inputs as they are packed, of its outputs where the model fixes their shapes. Text for
/// language models is not counted, nor what several models of a mix have in common.
pub fn tensor_bytes(session: &Session) -> TensorBytes {
    let [model] = &*session.models else { return TensorBytes::default() };
    if session.backend.generates() {
        return TensorBytes::default();
    }
    let payloads = session.payloads();
    let bytes = |payload: &Payload| payload.inputs.iter().map(|input| input.len).sum::<usize>() as f64;
    let inferences: u64 = payloads.iter().map(|payload| payload.batch).sum();
    let input = (inferences > 0).then(|| payloads.iter().map(bytes).sum::<f64>() / inferences as f64);
    let output = model.outputs.iter().map(|output| output.fixed_bytes()).sum::<Option<u64>>();
    TensorBytes { input, output: output.filter(|bytes| *bytes > 0 && !model.decoupled).map(|bytes| bytes as f64) }
}
