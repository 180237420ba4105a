//! Model repositories on the native test backend, created for one test and removed after it.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use super::artifact;

/// A temporary model repository, with room for files that models write.
pub struct Repository {
    scratch: TempDir,
}

impl Repository {
    /// A repository that holds `models`.
    pub fn of(models: &[Model]) -> Self {
        let scratch = tempfile::tempdir().expect("a temporary folder can be made");
        let repository = Self { scratch };
        fs::create_dir(repository.path()).unwrap();
        models.iter().for_each(|model| repository.add(model));
        repository
    }

    /// Where the models' folders are.
    pub fn path(&self) -> PathBuf {
        self.scratch.path().join("models")
    }

    /// A file outside the repository that disappears with it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// Adds a model, whose library is a link to the test backend.
    pub fn add(&self, model: &Model) {
        let folder = self.path().join(&model.name);
        fs::create_dir(&folder).unwrap();
        for version in &model.versions {
            let version = folder.join(version.to_string());
            fs::create_dir_all(&version).unwrap();
            if model.backend == "bench" {
                symlink(artifact("libtriton_bench.so"), version.join("libtriton_bench.so")).unwrap();
            }
            if let Some(script) = &model.script {
                fs::write(version.join("model.py"), script).unwrap();
            }
        }
        if model.has_config {
            fs::write(folder.join("config.pbtxt"), model.config()).unwrap();
        }
    }

    /// What a model wrote to its `counter_file` when it was unloaded.
    pub fn counters(&self, model: &str) -> Counters {
        let path = self.file(&format!("{model}.counters"));
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Counters(serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}")))
    }

    /// What a model wrote to its `stamp_file`, one object per request.
    pub fn journal(&self, model: &str) -> Vec<Value> {
        let path = self.file(&format!("{model}.journal"));
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Bytes that a model has written to its `stamp_file`.
    pub fn journal_length(&self, model: &str) -> u64 {
        fs::metadata(self.file(&format!("{model}.journal"))).map_or(0, |metadata| metadata.len())
    }

    /// Waits until a model that writes a journal has executed requests beyond the journal's first `bytes` bytes.
    pub fn wait_for_requests(&self, model: &str, bytes: u64) {
        let started = Instant::now();
        while self.journal_length(model) <= bytes {
            assert!(started.elapsed() < Duration::from_secs(20), "no request has come to {model}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Whether the backend ever instantiated the model: it writes its counters when it is unloaded.
    pub fn was_loaded(&self, model: &str) -> bool {
        self.file(&format!("{model}.counters")).exists()
    }

    /// The parameter with which a model writes the counters that [`Repository::counters`] reads.
    pub fn counting(&self, model: Model) -> Model {
        let path = self.file(&format!("{}.counters", model.name));
        model.parameter("counter_file", path.to_str().unwrap())
    }

    /// The parameter with which a model writes the journal that [`Repository::journal`] reads.
    pub fn journaling(&self, model: Model) -> Model {
        let path = self.file(&format!("{}.journal", model.name));
        model.parameter("stamp_file", path.to_str().unwrap())
    }

    /// A repository with one model, which writes its counters.
    pub fn counted(model: Model) -> Self {
        let repository = Self::of(&[]);
        let model = repository.counting(model);
        repository.add(&model);
        repository
    }

    /// The names of all files and folders beside the repository.
    pub fn files(&self) -> Vec<String> {
        names(self.scratch.path())
    }
}

/// The names in a folder, sorted.
pub fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// The totals of a model, as the test backend counted them.
pub struct Counters(Value);

impl Counters {
    /// One of them.
    pub fn get(&self, name: &str) -> u64 {
        self.0[name].as_u64().unwrap_or_else(|| panic!("no counter {name} in {}", self.0))
    }
}

/// A model to be written into a repository.
#[derive(Clone)]
pub struct Model {
    name: String,
    versions: Vec<u32>,
    backend: String,
    max_batch_size: u32,
    tensors: String,
    parameters: Vec<(String, String)>,
    instances: u32,
    more: String,
    script: Option<String>,
    has_config: bool,
}

const FP32: &str = r#"
input [{ name: "INPUT0" data_type: TYPE_FP32 dims: [16] }]
output [{ name: "OUTPUT0" data_type: TYPE_FP32 dims: [16] }]"#;

impl Model {
    /// Answers an FP32 [16] with itself; one instance, batches of up to 8.
    pub fn identity(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            versions: vec![1],
            backend: "bench".to_owned(),
            max_batch_size: 8,
            tensors: FP32.to_owned(),
            parameters: Vec::new(),
            instances: 1,
            more: String::new(),
            script: None,
            has_config: true,
        }
    }

    /// As [`Model::identity`], and every execution takes so many milliseconds, asleep.
    pub fn sleeping(name: &str, milliseconds: u64) -> Self {
        let delay = Duration::from_millis(milliseconds).as_micros();
        Self::identity(name).parameter("delay_us", &delay.to_string())
    }

    /// A model of the python backend, from its source.
    pub fn python(name: &str, script: &str) -> Self {
        Self { backend: "python".to_owned(), script: Some(script.to_owned()), ..Self::identity(name) }
    }

    /// A decoupled model on INT32 [1], without batches.
    pub fn decoupled(name: &str, repeat: u32) -> Self {
        Self::identity(name)
            .int32()
            .with("model_transaction_policy { decoupled: true }")
            .parameter("repeat", &repeat.to_string())
    }

    /// Sums up each sequence and checks its flags.
    pub fn accumulator(name: &str) -> Self {
        Self::identity(name)
            .int32()
            .with("sequence_batching { max_sequence_idle_microseconds: 5000000 }")
            .parameter("accumulate", "true")
    }

    /// On INT32 [1], without batches.
    fn int32(self) -> Self {
        self.batches(0).tensors(
            r#"
input [{ name: "INPUT0" data_type: TYPE_INT32 dims: [1] }]
output [{ name: "OUTPUT0" data_type: TYPE_INT32 dims: [1] }]"#,
        )
    }

    /// With these versions.
    pub fn versions(self, versions: &[u32]) -> Self {
        Self { versions: versions.to_vec(), ..self }
    }

    /// With this `max_batch_size`.
    pub fn batches(self, max_batch_size: u32) -> Self {
        Self { max_batch_size, ..self }
    }

    /// With these inputs and outputs.
    pub fn tensors(self, tensors: &str) -> Self {
        Self { tensors: tensors.to_owned(), ..self }
    }

    /// With a parameter of the backend.
    pub fn parameter(mut self, key: &str, value: &str) -> Self {
        self.parameters.push((key.to_owned(), value.to_owned()));
        self
    }

    /// With so many instances; 0 leaves that to other lines.
    pub fn instances(self, instances: u32) -> Self {
        Self { instances, ..self }
    }

    /// With further lines in its configuration.
    pub fn with(mut self, more: &str) -> Self {
        self.more.push('\n');
        self.more.push_str(more);
        self
    }

    /// With another backend.
    pub fn backend(self, backend: &str) -> Self {
        Self { backend: backend.to_owned(), ..self }
    }

    /// Without a `config.pbtxt`.
    pub fn without_config(self) -> Self {
        Self { has_config: false, ..self }
    }

    fn config(&self) -> String {
        let kind = if self.backend.is_empty() { String::new() } else { format!("backend: \"{}\"\n", self.backend) };
        let mut text = format!("{kind}max_batch_size: {}\n{}\n", self.max_batch_size, self.tensors);
        if !self.backend.is_empty() && self.instances > 0 {
            let _ = writeln!(text, "instance_group [{{ kind: KIND_CPU count: {} }}]", self.instances);
        }
        for (key, value) in &self.parameters {
            let _ = writeln!(text, "parameters {{ key: \"{key}\" value {{ string_value: \"{value}\" }} }}");
        }
        text + &self.more
    }
}
