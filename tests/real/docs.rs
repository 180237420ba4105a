//! The commands of README.md and docs/your-model.md in a shell, as a newcomer types them, but with short windows.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::support::{Model, Repository, triton};

/// The blocks of code of a page, each without its first line, the language.
fn blocks(page: &str) -> Vec<String> {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(page)).unwrap();
    text.split("```").skip(1).step_by(2).filter_map(|block| Some(block.split_once('\n')?.1.to_owned())).collect()
}

/// A shell in `folder` in which the program and this Triton are found.
fn shell(repository: &Repository, line: &str) -> String {
    let programs = repository.file("bin");
    if !programs.exists() {
        fs::create_dir(&programs).unwrap();
        symlink(env!("CARGO_BIN_EXE_triton-bench"), programs.join("triton-bench")).unwrap();
    }
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let mut bash = Command::new("bash");
    bash.args(["-c", line]).current_dir(repository.path()).env("PATH", path);
    let ended = bash.env("TRITON_SERVER_DIRECTORY", triton()).output().unwrap();
    let output = String::from_utf8_lossy(&ended.stdout).into_owned() + &String::from_utf8_lossy(&ended.stderr);
    // What a gate decides, and whether a level settles, is the machine's affair here.
    assert!(matches!(ended.status.code(), Some(0 | 2 | 4 | 6 | 7)), "{line}: {:?}\n{output}", ended.status);
    output
}

#[test]
fn the_readmes_commands_run_as_printed() {
    let repository = Repository::of(&[Model::identity("mlp").batches(8)]);
    symlink(".", repository.path().join(".demo")).unwrap();
    let lines = blocks("README.md").join("\n");
    let on_demo: Vec<&str> =
        lines.lines().map(str::trim).filter(|line| line.contains("--model-repository .demo")).collect();
    assert!(on_demo.len() >= 4, "{on_demo:?}");
    for line in on_demo {
        let short = match line {
            _ if line.contains("-bench tune") => "--budget 4s",
            _ if line.contains("--require") => "-p 100 --max-level-time 1s --gate-time 1s",
            _ if line.contains("--variant") => "-p 100 --rounds 4",
            _ => "-p 100 --max-level-time 1s",
        };
        assert!(shell(&repository, &format!("{line} {short}")).contains("infer/s"), "{line}");
    }
    assert!(repository.path().join("today.html").exists());
}

#[test]
fn a_script_of_ones_own_is_measured_as_the_page_says() {
    let repository = Repository::of(&[]);
    let blocks = blocks("docs/your-model.md");
    let script = blocks.iter().find(|block| block.contains("class TritonPythonModel")).unwrap();
    fs::write(repository.path().join("double.py"), script).unwrap();
    let commands = blocks.iter().find(|block| block.contains("triton-bench init double.py")).unwrap();
    let lines: Vec<&str> = commands.lines().collect();
    let made = shell(&repository, lines[0]);
    assert!(made.contains("models/double/1/model.py"), "{made}");
    let measured = shell(&repository, &format!("{} -p 200", lines[1]));
    assert!(measured.contains("Concurrency: 4, throughput: "), "{measured}");
}
