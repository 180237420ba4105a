//! The form of a model's configuration: Triton's own `model_config.proto` (as of release 26.06), which `build.rs` compiles.

use std::sync::LazyLock;

use prost_reflect::{DescriptorPool, FieldDescriptor, Kind, MessageDescriptor};

static CONFIG: LazyLock<MessageDescriptor> = LazyLock::new(|| {
    let compiled: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/model_config.bin"));
    let pool = DescriptorPool::decode(compiled).expect("build.rs compiled it");
    pool.get_message_by_name("inference.ModelConfig").expect("it is what the file is about")
});

/// The message `ModelConfig`.
pub fn config() -> MessageDescriptor {
    CONFIG.clone()
}

/// The type of a field's values: of each element of a list, of what a map maps to.
pub fn value_kind(field: &FieldDescriptor) -> Kind {
    match field.kind() {
        Kind::Message(entry) if field.is_map() => entry.map_entry_value_field().kind(),
        kind => kind,
    }
}
