//! A real `tritonserver` for one test, and our program run against it.

use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

/// The model that all tests use.
pub const MODEL: &str = "identity_fp32";

/// Where Triton is; without one there is nothing to test against (`scripts/test` sees to one).
pub fn directory() -> Option<PathBuf> {
    let directory = std::env::var_os("TRITON_SERVER_DIRECTORY").map(PathBuf::from);
    if directory.is_none() {
        eprintln!("skipped: TRITON_SERVER_DIRECTORY names no Triton");
    }
    directory
}

/// A model repository with the native identity model.
pub fn repository() -> TempDir {
    let repository = TempDir::new().unwrap();
    let version = repository.path().join(MODEL).join("1");
    fs::create_dir_all(&version).unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    fs::copy(root.join("examples/models").join(MODEL).join("config.pbtxt"), version.with_file_name("config.pbtxt"))
        .unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_triton-bench"));
    let library = program.with_file_name("libtriton_bench.so");
    fs::copy(&library, version.join("libtriton_bench.so"))
        .unwrap_or_else(|error| panic!("{}: {error}; build it with cargo build -p bench-backends", library.display()));
    repository
}

/// A server program on ports of its own; killed when dropped.
pub struct Server {
    child: Child,
    directory: PathBuf,
    repository: PathBuf,
    /// HTTP, gRPC, metrics.
    pub ports: [u16; 3],
}

impl Server {
    /// Starts it and waits until it answers.
    pub fn start(directory: &Path, repository: &Path) -> Self {
        let sockets = [(); 3].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
        let ports = [0, 1, 2].map(|number: usize| sockets[number].local_addr().unwrap().port());
        drop(sockets);
        let child = spawn(directory, repository, ports);
        let mut server = Self { child, directory: directory.to_owned(), repository: repository.to_owned(), ports };
        server.wait();
        server
    }

    /// Ends it without warning.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again on the same ports, without waiting.
    pub fn restart(&mut self) {
        self.child = spawn(&self.directory, &self.repository, self.ports);
    }

    fn wait(&mut self) {
        for _ in 0..600 {
            if self.ports.iter().all(|port| TcpStream::connect((Ipv4Addr::LOCALHOST, *port)).is_ok()) {
                return;
            }
            assert!(self.child.try_wait().unwrap().is_none(), "the server ended");
            thread::sleep(Duration::from_millis(100));
        }
        panic!("the server does not answer");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(directory: &Path, repository: &Path, [http, grpc, metrics]: [u16; 3]) -> Child {
    Command::new(directory.join("bin/tritonserver"))
        .arg(format!("--model-repository={}", repository.display()))
        .arg(format!("--backend-directory={}", directory.join("backends").display()))
        .args(["--model-control-mode=explicit", "--load-model=identity_fp32", "--log-info=false"])
        .args([format!("--http-port={http}"), format!("--grpc-port={grpc}"), format!("--metrics-port={metrics}")])
        .args(["http", "grpc", "metrics"].map(|service| format!("--{service}-address=127.0.0.1")))
        .args(["--metrics-interval-ms=100"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Our program with these flags, split at blanks.
pub fn bench(flags: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_triton-bench"));
    command.args(["-m", MODEL, "-s", "900"]).args(flags.split_whitespace());
    command
}

/// What it said, and its exit code.
pub struct Said {
    pub out: String,
    pub err: String,
    pub code: i32,
}

/// Runs it to its end.
pub fn run(flags: &str) -> Said {
    said(bench(flags).output().unwrap())
}

pub fn said(output: Output) -> Said {
    Said {
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
        code: output.status.code().unwrap_or(-1),
    }
}
