//! The fields of a model's configuration, with the numbers and names of the protocol (Triton 24.10).

/// The fields of a message.
pub type Message = &'static [Field];

/// A field of a message.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its number on the wire.
    pub number: u32,
    /// Its name in JSON.
    pub name: &'static str,
    /// The type of its value, or of each element.
    pub kind: Kind,
    /// Whether it is repeated.
    pub shape: Shape,
}

/// The type of a value.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A signed integer.
    Signed,
    /// An unsigned integer.
    Unsigned,
    /// A 32-bit floating-point number.
    Real,
    /// A boolean.
    Flag,
    /// Text.
    Text,
    /// One of these words; the first is the default.
    Word(&'static [&'static str]),
    /// A message.
    Nested(Message),
}

/// Whether a field is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A single value.
    One,
    /// A list.
    Many,
    /// A map.
    Map(Key),
}

/// The type of a map's keys; in JSON both are text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// Text.
    Text,
    /// Integers.
    Number,
}

const fn one(number: u32, name: &'static str, kind: Kind) -> Field {
    Field { number, name, kind, shape: Shape::One }
}

const fn many(number: u32, name: &'static str, kind: Kind) -> Field {
    Field { number, name, kind, shape: Shape::Many }
}

const fn map(number: u32, name: &'static str, kind: Kind) -> Field {
    Field { number, name, kind, shape: Shape::Map(Key::Text) }
}

use Kind::{Flag, Nested, Real, Signed, Text, Unsigned, Word};

const DATATYPE: Kind = Word(&[
    "TYPE_INVALID",
    "TYPE_BOOL",
    "TYPE_UINT8",
    "TYPE_UINT16",
    "TYPE_UINT32",
    "TYPE_UINT64",
    "TYPE_INT8",
    "TYPE_INT16",
    "TYPE_INT32",
    "TYPE_INT64",
    "TYPE_FP16",
    "TYPE_FP32",
    "TYPE_FP64",
    "TYPE_STRING",
    "TYPE_BF16",
]);

/// A model's configuration.
pub const CONFIG: Message = &[
    one(1, "name", Text),
    one(2, "platform", Text),
    one(3, "version_policy", Nested(VERSIONS)),
    one(4, "max_batch_size", Signed),
    many(5, "input", Nested(INPUT)),
    many(6, "output", Nested(OUTPUT)),
    many(7, "instance_group", Nested(INSTANCES)),
    one(8, "default_model_filename", Text),
    map(9, "cc_model_filenames", Text),
    map(10, "metric_tags", Text),
    one(11, "dynamic_batching", Nested(DYNAMIC)),
    one(12, "optimization", Nested(OPTIMIZATION)),
    one(13, "sequence_batching", Nested(SEQUENCES)),
    map(14, "parameters", Nested(&[one(1, "string_value", Text)])),
    one(15, "ensemble_scheduling", Nested(&[many(1, "step", Nested(STEP))])),
    many(16, "model_warmup", Nested(WARMUP)),
    one(17, "backend", Text),
    one(18, "model_operations", Nested(&[many(1, "op_library_filename", Text)])),
    one(19, "model_transaction_policy", Nested(&[one(1, "decoupled", Flag)])),
    many(20, "batch_input", Nested(BATCH_INPUT)),
    many(21, "batch_output", Nested(BATCH_OUTPUT)),
    one(23, "model_repository_agents", Nested(&[many(1, "agents", Nested(NAMED))])),
    one(24, "response_cache", Nested(&[one(1, "enable", Flag)])),
    one(25, "runtime", Text),
];

/// A name with parameters.
const NAMED: Message = &[one(1, "name", Text), map(2, "parameters", Text)];

const VERSIONS: Message = &[
    one(1, "latest", Nested(&[one(1, "num_versions", Unsigned)])),
    one(2, "all", Nested(&[])),
    one(3, "specific", Nested(&[many(1, "versions", Signed)])),
];

const RESHAPE: Kind = Nested(&[many(1, "shape", Signed)]);

const INPUT: Message = &[
    one(1, "name", Text),
    one(2, "data_type", DATATYPE),
    one(3, "format", Word(&["FORMAT_NONE", "FORMAT_NHWC", "FORMAT_NCHW"])),
    many(4, "dims", Signed),
    one(5, "reshape", RESHAPE),
    one(6, "is_shape_tensor", Flag),
    one(7, "allow_ragged_batch", Flag),
    one(8, "optional", Flag),
    one(9, "is_non_linear_format_io", Flag),
];

const OUTPUT: Message = &[
    one(1, "name", Text),
    one(2, "data_type", DATATYPE),
    many(3, "dims", Signed),
    one(4, "label_filename", Text),
    one(5, "reshape", RESHAPE),
    one(6, "is_shape_tensor", Flag),
    one(7, "is_non_linear_format_io", Flag),
];

const BATCH_INPUT: Message = &[
    one(
        1,
        "kind",
        Word(&[
            "BATCH_ELEMENT_COUNT",
            "BATCH_ACCUMULATED_ELEMENT_COUNT",
            "BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO",
            "BATCH_MAX_ELEMENT_COUNT_AS_SHAPE",
            "BATCH_ITEM_SHAPE",
            "BATCH_ITEM_SHAPE_FLATTEN",
        ]),
    ),
    many(2, "target_name", Text),
    one(3, "data_type", DATATYPE),
    many(4, "source_input", Text),
];

const BATCH_OUTPUT: Message = &[
    many(1, "target_name", Text),
    one(2, "kind", Word(&["BATCH_SCATTER_WITH_INPUT_SHAPE"])),
    many(3, "source_input", Text),
];

const INSTANCES: Message = &[
    one(1, "name", Text),
    one(2, "count", Signed),
    many(3, "gpus", Signed),
    one(4, "kind", Word(&["KIND_AUTO", "KIND_GPU", "KIND_CPU", "KIND_MODEL"])),
    many(5, "profile", Text),
    one(
        6,
        "rate_limiter",
        Nested(&[
            many(1, "resources", Nested(&[one(1, "name", Text), one(2, "global", Flag), one(3, "count", Unsigned)])),
            one(2, "priority", Unsigned),
        ]),
    ),
    one(7, "passive", Flag),
    many(8, "secondary_devices", Nested(&[one(1, "kind", Word(&["KIND_NVDLA"])), one(2, "device_id", Signed)])),
    one(9, "host_policy", Text),
];

const QUEUE: Message = &[
    one(1, "timeout_action", Word(&["REJECT", "DELAY"])),
    one(2, "default_timeout_microseconds", Unsigned),
    one(3, "allow_timeout_override", Flag),
    one(4, "max_queue_size", Unsigned),
];

const DYNAMIC: Message = &[
    many(1, "preferred_batch_size", Signed),
    one(2, "max_queue_delay_microseconds", Unsigned),
    one(3, "preserve_ordering", Flag),
    one(4, "priority_levels", Unsigned),
    one(5, "default_priority_level", Unsigned),
    one(6, "default_queue_policy", Nested(QUEUE)),
    Field { number: 7, name: "priority_queue_policy", kind: Nested(QUEUE), shape: Shape::Map(Key::Number) },
];

const SEQUENCES: Message = &[
    one(1, "max_sequence_idle_microseconds", Unsigned),
    many(2, "control_input", Nested(&[one(1, "name", Text), many(2, "control", Nested(CONTROL))])),
    one(
        3,
        "direct",
        Nested(&[one(1, "max_queue_delay_microseconds", Unsigned), one(2, "minimum_slot_utilization", Real)]),
    ),
    one(
        4,
        "oldest",
        Nested(&[
            one(1, "max_candidate_sequences", Signed),
            many(2, "preferred_batch_size", Signed),
            one(3, "max_queue_delay_microseconds", Unsigned),
            one(4, "preserve_ordering", Flag),
        ]),
    ),
    many(5, "state", Nested(STATE)),
    one(6, "iterative_sequence", Flag),
];

const CONTROL: Message = &[
    one(
        1,
        "kind",
        Word(&["CONTROL_SEQUENCE_START", "CONTROL_SEQUENCE_READY", "CONTROL_SEQUENCE_END", "CONTROL_SEQUENCE_CORRID"]),
    ),
    many(2, "int32_false_true", Signed),
    many(3, "fp32_false_true", Real),
    one(4, "data_type", DATATYPE),
    many(5, "bool_false_true", Flag),
];

const STATE: Message = &[
    one(1, "input_name", Text),
    one(2, "output_name", Text),
    one(3, "data_type", DATATYPE),
    many(4, "dims", Signed),
    many(
        5,
        "initial_state",
        Nested(&[
            one(1, "data_type", DATATYPE),
            many(2, "dims", Signed),
            one(3, "zero_data", Flag),
            one(4, "data_file", Text),
            one(5, "name", Text),
        ]),
    ),
    one(6, "use_same_buffer_for_input_output", Flag),
    one(7, "use_growable_memory", Flag),
];

const STEP: Message = &[
    one(1, "model_name", Text),
    one(2, "model_version", Signed),
    map(3, "input_map", Text),
    map(4, "output_map", Text),
    one(5, "model_namespace", Text),
];

const WARMUP: Message = &[
    one(1, "name", Text),
    one(2, "batch_size", Unsigned),
    map(
        3,
        "inputs",
        Nested(&[
            one(1, "data_type", DATATYPE),
            many(2, "dims", Signed),
            one(3, "zero_data", Flag),
            one(4, "random_data", Flag),
            one(5, "input_data_file", Text),
        ]),
    ),
    one(4, "count", Unsigned),
];

const PINNED: Kind = Nested(&[one(1, "enable", Flag)]);
/// Shapes by the name of an input.
const SHAPES: Kind = Nested(&[many(1, "dim", Signed)]);

const OPTIMIZATION: Message = &[
    one(1, "graph", Nested(&[one(1, "level", Signed)])),
    one(2, "priority", Word(&["PRIORITY_DEFAULT", "PRIORITY_MAX", "PRIORITY_MIN"])),
    one(
        3,
        "cuda",
        Nested(&[
            one(1, "graphs", Flag),
            one(2, "busy_wait_events", Flag),
            many(
                3,
                "graph_spec",
                Nested(&[
                    one(1, "batch_size", Signed),
                    map(2, "input", SHAPES),
                    one(3, "graph_lower_bound", Nested(&[one(1, "batch_size", Signed), map(2, "input", SHAPES)])),
                ]),
            ),
            one(4, "output_copy_stream", Flag),
        ]),
    ),
    one(
        4,
        "execution_accelerators",
        Nested(&[
            many(1, "gpu_execution_accelerator", Nested(NAMED)),
            many(2, "cpu_execution_accelerator", Nested(NAMED)),
        ]),
    ),
    one(5, "input_pinned_memory", PINNED),
    one(6, "output_pinned_memory", PINNED),
    one(7, "gather_kernel_buffer_threshold", Unsigned),
    one(8, "eager_batching", Flag),
];
