//! A model's configuration as JSON, so that its hash is the same for every transport.

use prost_reflect::{DynamicMessage, SerializeOptions, Value};
use serde_json::Value as Json;
use serde_json::value::Serializer;

use crate::model::schema;

/// Longest configuration that is read: a message of two bytes takes dozens in memory.
const MAX_BYTES: usize = 1 << 20;

/// A configuration as JSON, without fields at their defaults; `None` if it is malformed, too long, or has fields that
/// this program does not know, because a hash without them would be that of another configuration.
pub fn read(bytes: &[u8]) -> Option<Json> {
    if bytes.len() > MAX_BYTES {
        return None;
    }
    let config = DynamicMessage::decode(schema::config(), bytes).ok()?;
    let options = SerializeOptions::new().use_proto_field_name(true).stringify_64_bit_integers(false);
    is_known(&config).then(|| config.serialize_with_options(Serializer, &options).ok())?
}

/// Whether a message and all in it have only fields that this program knows.
fn is_known(message: &DynamicMessage) -> bool {
    message.unknown_fields().next().is_none() && message.fields().all(|(_, value)| is_value_known(value))
}

fn is_value_known(value: &Value) -> bool {
    match value {
        Value::Message(message) => is_known(message),
        Value::List(list) => list.iter().all(is_value_known),
        Value::Map(map) => map.values().all(is_value_known),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kserve_grpc::proto::tests::{message, numbers};
    use crate::model::ConfigMark;

    #[test]
    fn a_message_and_the_json_of_the_same_configuration_have_one_hash() {
        let input = [
            message(&[(1, b"A")]),
            numbers(&[(2, 11)]),
            message(&[(4, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 16])]),
        ]
        .concat();
        let parameter = message(&[(1, b"k"), (2, &message(&[(1, b"v")]))]);
        let queue = [numbers(&[(1, 2)]), message(&[(2, &numbers(&[(1, 1)]))])].concat();
        let dynamic = [message(&[(1, &[4, 8])]), numbers(&[(2, 100)]), message(&[(7, &queue)])].concat();
        let bytes = [
            message(&[(1, b"m"), (17, b"python"), (5, &input), (14, &parameter), (11, &dynamic), (19, b"")]),
            numbers(&[(4, 8)]),
        ]
        .concat();
        let json = json!({
            "name": "m", "platform": "", "backend": "python", "max_batch_size": 8, "cc_model_filenames": {},
            "input": [{"name": "A", "data_type": "TYPE_FP32", "format": "FORMAT_NONE", "dims": [-1, 16], "optional": false}],
            "parameters": {"k": {"string_value": "v"}}, "model_transaction_policy": {"decoupled": false},
            "dynamic_batching": {"preferred_batch_size": [4, 8], "max_queue_delay_microseconds": "100", "preserve_ordering": false,
                "priority_queue_policy": {"2": {"timeout_action": "DELAY", "max_queue_size": 0}}},
        });
        assert_eq!(ConfigMark::new(&read(&bytes).unwrap()), ConfigMark::new(&json));
    }

    #[test]
    fn fields_of_newer_releases_are_read() {
        let buckets = message(&[(1, &100_f64.to_le_bytes())]);
        let control = [message(&[(1, &message(&[(1, b"nv_x")])), (2, &buckets)])].concat();
        let metrics = message(&[(26, &message(&[(1, &control)]))]);
        let histogram = json!({"metric_identifier": {"family": "nv_x"}, "histogram_options": {"buckets": [100.0]}});
        assert_eq!(read(&metrics), Some(json!({"model_metrics": {"metric_control": [histogram]}})));
        let ensemble = message(&[(15, &numbers(&[(2, 8)]))]);
        assert_eq!(read(&ensemble), Some(json!({"ensemble_scheduling": {"max_inflight_requests": 8}})));
    }

    #[test]
    fn what_is_unknown_or_malformed_has_no_hash() {
        assert_eq!(read(&message(&[(1, b"m")])), Some(json!({"name": "m"})));
        assert_eq!(read(&message(&[(99, b"newer")])), None);
        assert_eq!(read(&message(&[(5, &message(&[(77, b"newer")]))])), None);
        assert_eq!(read(&[0x0a, 0x05, b'm']), None);
        assert_eq!(read(&numbers(&[(1, 3)])), None, "a name is text");
        assert_eq!(read(&message(&[(5, b"")]).repeat(MAX_BYTES / 2 + 1)), None);
    }
}
