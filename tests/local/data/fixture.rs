//! Models and files for the tests of input data.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;
use triton_bench::data::{
    Corpus, CorpusSpec, DataSource, InputTensor, OptionalInputs, Packing, PayloadTable, RandomRange,
};
use triton_bench::error::Result;
use triton_bench::model::{DataType, ModelId, ModelSpec, TensorSpec};
use triton_bench::shm::{Allowance, Placement};

pub fn tensor(name: &str, datatype: DataType, shape: &[i64]) -> TensorSpec {
    TensorSpec { name: name.into(), datatype, shape: shape.into(), optional: false, shape_tensor: false }
}

pub fn model(inputs: Vec<TensorSpec>, outputs: Vec<TensorSpec>) -> ModelSpec {
    ModelSpec {
        versions: vec!["1".into()],
        max_batch_size: 8,
        ..ModelSpec::plain(&ModelId::latest("m"), inputs, outputs)
    }
}

/// What a corpus is asked for, owned.
pub struct Ask {
    pub source: DataSource,
    pub shapes: Vec<(String, Vec<i64>)>,
    pub string_data: Option<String>,
    pub random_ranges: Vec<RandomRange>,
    pub optional: OptionalInputs,
    pub seed: u64,
    pub memory: Arc<Allowance>,
}

impl Ask {
    pub fn new(source: DataSource) -> Self {
        Self {
            source,
            shapes: Vec::new(),
            string_data: None,
            random_ranges: Vec::new(),
            optional: OptionalInputs::None,
            seed: 1,
            memory: Allowance::unbounded(),
        }
    }

    pub fn shape(mut self, name: &str, shape: &[i64]) -> Self {
        self.shapes.push((name.into(), shape.into()));
        self
    }

    pub fn load(&self, model: &ModelSpec) -> Result<Corpus> {
        let spec = CorpusSpec {
            lengths: &[],
            blocks: None,
            optional: &self.optional,
            source: &self.source,
            shapes: &self.shapes,
            string_length: 16,
            string_data: self.string_data.as_deref(),
            random_ranges: &self.random_ranges,
            requests: None,
            stages: 1,
            seed: self.seed,
            memory: &self.memory,
        };
        Corpus::load(&spec, model)
    }

    /// The message that loading fails with.
    pub fn refusal(&self, model: &ModelSpec) -> String {
        match self.load(model) {
            Ok(corpus) => panic!("accepted: {:?}", corpus.stream_lengths()),
            Err(e) => e.to_string(),
        }
    }
}

/// A folder of input files.
pub struct Folder(TempDir);

impl Folder {
    pub fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn write(&self, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, contents).unwrap();
        path
    }

    pub fn ask(&self) -> Ask {
        Ask::new(DataSource::Directory(self.path().to_owned()))
    }
}

/// Loads one JSON text.
pub fn json(text: impl AsRef<[u8]>, model: &ModelSpec) -> Result<Corpus> {
    let folder = Folder::new();
    let path = folder.write("in.json", text);
    Ask::new(DataSource::Files(vec![path])).load(model)
}

pub fn packing(batch_size: u64) -> Packing {
    Packing { batch_size, placement: Placement::Pageable, sequences: false }
}

pub fn pack(corpus: &Corpus, batch_size: u64) -> PayloadTable {
    corpus.clone().pack(&packing(batch_size)).unwrap()
}

/// The bytes that would be sent for an input.
pub fn sent(input: &InputTensor) -> Vec<u8> {
    input.region.bytes(input.offset, input.len).unwrap().into_owned()
}

pub fn ints(values: &[i32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

pub fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}
