//! The form of a model's configuration: Triton's own `model_config.proto` (as of release 26.06). It is compiled already
//! (`model_config.bin`): a compiler in the build would be built for it, and at run time it would take 20 ms.

use std::sync::LazyLock;

use prost_reflect::{DescriptorPool, FieldDescriptor, Kind, MessageDescriptor};

const COMPILED: &[u8] = include_bytes!("model_config.bin");

static CONFIG: LazyLock<MessageDescriptor> = LazyLock::new(|| {
    let pool = DescriptorPool::decode(COMPILED).expect("a test compares it with the file that it is made of");
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::COMPILED;

    /// `UPDATE_SNAPSHOTS=1` compiles it.
    #[test]
    fn the_compiled_form_is_that_of_the_file() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut compiler = protox::Compiler::new([folder]).unwrap();
        compiler.open_file("model_config.proto").unwrap();
        let compiled = compiler.encode_file_descriptor_set();
        if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
            std::fs::write(folder.join("model_config.bin"), &compiled).unwrap();
        }
        assert!(
            compiled == COMPILED,
            "UPDATE_SNAPSHOTS=1 cargo test -p triton-bench-model --lib schema compiles it anew"
        );
    }
}
