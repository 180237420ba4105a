//! A real `tritonserver` on free ports, with models of the native test backend.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::ports::free_ports;

/// A running server; killed when dropped.
pub struct Triton {
    process: Child,
    http: u16,
    metrics: u16,
    _repository: tempfile::TempDir,
}

/// Where Triton is installed, if the environment says so; tests that need it are skipped, aloud, where it does not.
pub fn directory() -> Option<PathBuf> {
    let directory = std::env::var_os("TRITON_SERVER_DIRECTORY").map(PathBuf::from);
    if directory.is_none() {
        eprintln!("skipped: TRITON_SERVER_DIRECTORY is not set; run scripts/test");
    }
    directory
}

/// The test backend, built beside this program.
fn backend_library() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let library = program.parent().and_then(Path::parent).unwrap().join("libtriton_bench.so");
    assert!(library.exists(), "{} is missing: cargo build --workspace --lib", library.display());
    library
}

impl Triton {
    /// Starts a server over models given by name and what their configuration says after tensors.
    pub fn start(directory: &Path, models: &[(&str, &str)]) -> Self {
        let repository = tempfile::tempdir().unwrap();
        for (name, settings) in models {
            let folder = repository.path().join(name);
            fs::create_dir_all(folder.join("1")).unwrap();
            symlink(backend_library(), folder.join("1/libtriton_bench.so")).unwrap();
            let config = format!(
                "backend: \"bench\"\nmax_batch_size: 8\ninstance_group [{{ kind: KIND_CPU }}]\n\
                 input [{{ name: \"INPUT0\" data_type: TYPE_FP32 dims: [-1] }}]\n\
                 output [{{ name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [-1] }}]\n{settings}\n"
            );
            fs::write(folder.join("config.pbtxt"), config).unwrap();
        }
        let [http, metrics] = free_ports();
        let process = Command::new(directory.join("bin/tritonserver"))
            .arg("--model-repository")
            .arg(repository.path())
            .arg("--backend-directory")
            .arg(directory.join("backends"))
            .args(["--http-address", "127.0.0.1", "--http-port", &http.to_string()])
            .args(["--metrics-address", "127.0.0.1", "--metrics-port", &metrics.to_string()])
            .args(["--allow-grpc", "false", "--log-info", "false", "--log-warning", "false"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self { process, http, metrics, _repository: repository }
    }

    /// `host:port` of HTTP.
    pub fn url(&self) -> String {
        format!("127.0.0.1:{}", self.http)
    }

    /// Where its metrics are.
    pub fn metrics_url(&self) -> String {
        format!("http://127.0.0.1:{}/metrics", self.metrics)
    }

    /// Ends it at once.
    pub fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Triton {
    fn drop(&mut self) {
        self.kill();
    }
}
