//! Shared memory end to end: where tensors are while the program runs, and that nothing is left when it exits.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use triton_bench::shm::device_count;

use crate::support::{Finished, Model, Program, Repository, Running, Scripted, TritonServer, skip, triton};

fn int32(dims: &str) -> String {
    format!(
        "input [{{ name: \"IN\" data_type: TYPE_INT32 dims: [{dims}] }}]\n\
         output [{{ name: \"OUT\" data_type: TYPE_INT32 dims: [{dims}] }}]"
    )
}

fn repository() -> Repository {
    let slow = Model::sleeping("slow", 20).tensors(&int32("4")).instances(4);
    Repository::of(&[
        Model::identity("fixed").tensors(&int32("4")),
        Model::identity("open").tensors(&int32("-1")).batches(0),
        slow,
    ])
}

/// The files of a process in shared memory.
fn regions(id: u32) -> Vec<PathBuf> {
    let mine = format!("triton-bench-{id}-");
    let entries = fs::read_dir("/dev/shm").unwrap().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| path.file_name().unwrap().to_string_lossy().starts_with(&mine))
        .collect()
}

/// Whether a region holds the tensor: the input of a run, or an output that has been answered.
fn filled(path: &PathBuf) -> bool {
    fs::read(path).is_ok_and(|bytes| bytes.starts_with(&PATTERN))
}

/// Waits until `test` holds of the regions.
fn wait_for(run: &Running, label: &str, test: impl Fn(&[PathBuf]) -> bool) -> Vec<PathBuf> {
    let started = Instant::now();
    loop {
        let found = regions(run.id());
        if test(&found) {
            return found;
        }
        assert!(started.elapsed() < Duration::from_secs(20), "{label}: {found:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn data(repository: &Repository) -> PathBuf {
    let path = repository.file("in.json");
    let values = json!([0x1111_1111, 0x2222_2222, 0x3333_3333, 0x4444_4444]);
    let text = json!({ "data": [{ "IN": values }], "validation_data": [{ "OUT": values }] });
    fs::write(&path, text.to_string()).unwrap();
    path
}

const PATTERN: [u8; 16] =
    [0x11, 0x11, 0x11, 0x11, 0x22, 0x22, 0x22, 0x22, 0x33, 0x33, 0x33, 0x33, 0x44, 0x44, 0x44, 0x44];

/// A run on `slow` that lasts until it is interrupted.
fn endless(repository: &Repository) -> Running {
    let program = Program::on(repository, "slow").args("--shared-memory system --async --concurrency-range 3");
    program.args("-p 20000 --input-data").arg(data(repository)).start()
}

/// Whether a run that was interrupted reports its requests, or says that none was over by then.
fn reports_requests(finished: &Finished) -> bool {
    finished.stdout.contains("Request count") || finished.stderr.contains("nothing was measured")
}

#[test]
fn inputs_and_every_slots_outputs_are_in_regions_of_their_own() {
    let repository = repository();
    let run = endless(&repository);
    let id = run.id();
    // One for all inputs, and one for the output of each of the three slots, all of which get their answers.
    wait_for(&run, "four regions with the tensor", |found| found.len() == 4 && found.iter().all(filled));
    run.signal(2);
    let finished = run.finish();
    assert!(reports_requests(&finished) && !finished.stdout.contains("Failed"), "{finished:#?}");
    assert_eq!(regions(id), Vec::<PathBuf>::new(), "after an interrupt");
}

#[test]
fn nothing_is_left_after_any_end() {
    let repository = repository();
    let program = |model: &str, flags: &str| {
        Program::on(&repository, model).args("--shared-memory system --request-count 8").args(flags)
    };
    let normal = program("fixed", "--concurrency-range 2").args("--input-data").arg(data(&repository)).start();
    let id = normal.id();
    assert_eq!(normal.finish().report().level().client_number("Request count"), 8.0);
    assert_eq!(regions(id), Vec::<PathBuf>::new(), "after a normal end");
    let failed = program("open", "--shape IN:64 --output-shared-memory-size 8").start();
    let id = failed.id();
    assert_eq!(failed.finish().code(), 3);
    assert_eq!(regions(id), Vec::<PathBuf>::new(), "after failures");
    // Regions exist when the export's file turns out to be impossible to write.
    let broken = program("fixed", "--profile-export-file /dev/full").start();
    let id = broken.id();
    assert_ne!(broken.finish().code(), 0);
    assert_eq!(regions(id), Vec::<PathBuf>::new(), "after an error");
    // A terminal that hangs up (1) is an interrupt; SIGQUIT (3) ends at once.
    for (signal, reports) in [(1, true), (3, false)] {
        let run = endless(&repository);
        let id = run.id();
        wait_for(&run, "four regions with the tensor", |found| found.len() == 4 && found.iter().all(filled));
        run.signal(signal);
        let finished = run.finish();
        assert_eq!(reports_requests(&finished), reports, "{finished:#?}");
        assert_eq!(regions(id), Vec::<PathBuf>::new(), "after signal {signal}");
    }
    let twice = endless(&repository);
    let id = twice.id();
    wait_for(&twice, "regions", |found| found.len() == 4);
    twice.signal(15);
    // Sooner, both would be taken for one.
    thread::sleep(Duration::from_millis(250));
    // The first interrupt may have ended it already.
    twice.try_signal(15);
    twice.finish();
    assert_eq!(regions(id), Vec::<PathBuf>::new(), "after two interrupts");
}

/// What the server never gives back cannot be freed, but its name goes.
#[test]
fn nothing_is_left_where_a_request_never_comes_back() {
    let scripted = Scripted::requests(json!([{}, {}, {}, {}, {}, {"never_complete": "all"}]));
    let run = scripted.program().quick().args("--shared-memory system").start();
    let id = run.id();
    let finished = run.finish();
    assert!(finished.stderr.contains("had no answer when the level ended"), "{}", finished.stderr);
    assert_eq!(regions(id), Vec::<PathBuf>::new());
}

#[test]
fn a_region_that_is_too_small_is_named() {
    let repository = repository();
    let program = || Program::on(&repository, "open").args("--shared-memory system --shape IN:64 --request-count 5");
    let report = program().args("--output-shared-memory-size 255").run().report_with(3);
    let message = "output 'OUT' needs 256 bytes and its region has 255; raise --output-shared-memory-size";
    assert_eq!(report.level().failures(message), 5, "{}", report.text);
    program().args("--output-shared-memory-size 256").run().report();
    // Ordinary memory grows.
    let pageable =
        Program::on(&repository, "open").args("--shape IN:64 --request-count 5 --output-shared-memory-size 8");
    pageable.run().report();
}

#[test]
fn batches_and_validation_work_in_shared_memory() {
    let repository = repository();
    for flags in ["-b 3", "-b 8 --async --concurrency-range 4", "--request-rate-range 100"] {
        let run = Program::on(&repository, "fixed").args("--shared-memory system --request-count 100").args(flags);
        let report = run.args("--input-data").arg(data(&repository)).run().report_even_if_late();
        assert_eq!(report.level().client_number("Request count"), 100.0, "{flags}: {}", report.text);
    }
    // Without data files, and over several levels, whose slots come and go.
    let levels =
        Program::on(&repository, "fixed").args("--shared-memory system --async --concurrency-range 1:4").quick();
    assert_eq!(levels.run().report().values(), [1.0, 2.0, 3.0, 4.0]);
}

#[test]
fn a_full_file_system_is_an_error_and_not_a_signal() {
    let repository = repository();
    let inside = |size: &str, flags: &str| {
        let script = format!(
            "mount -t tmpfs -o size={size} tmpfs /dev/shm || exit 77\n\
             '{}' --service-kind triton_c_api --triton-server-directory '{}' --model-repository '{}' -m open \
             --shared-memory system {flags}\ncode=$?\nls /dev/shm >&2\nexit $code",
            env!("CARGO_BIN_EXE_triton-bench"),
            triton().display(),
            repository.path().display(),
        );
        Command::new("unshare").args(["-m", "sh", "-c", &script]).output().ok()
    };
    for flags in ["--shape IN:100000", "--shape IN:16 --output-shared-memory-size 1000000"] {
        let Some(run) =
            inside("64k", flags).filter(|run| run.status.code() != Some(77) && !run.stderr.starts_with(b"unshare"))
        else {
            return skip("this user may not mount a file system of its own (unshare -m, mount)");
        };
        let stderr = String::from_utf8_lossy(&run.stderr);
        assert_eq!(run.status.code(), Some(99), "{stderr}");
        let [line] = stderr.lines().collect::<Vec<_>>()[..] else {
            panic!("more than one line, or a region is left: {stderr}")
        };
        assert!(
            line.contains("of system shared memory in /dev/shm, where") && line.contains("bytes are free"),
            "{line}"
        );
    }
    // Each cause has its own advice.
    for (mount, flags, advice) in [
        ("1m,ro", "--shape IN:16", "/dev/shm must be there and writable"),
        ("1m,nr_inodes=3", "--shape IN:16 --concurrency-range 8", "as many files as it may (nr_inodes)"),
    ] {
        let run = inside(mount, flags).unwrap();
        let stderr = String::from_utf8_lossy(&run.stderr);
        assert!(run.status.code() == Some(99) && stderr.contains(advice), "{stderr}");
    }
    // A file system mounted without a limit tells of no free bytes.
    for size in ["1m", "0"] {
        let enough = inside(size, "--shape IN:16 --output-shared-memory-size 4096 --request-count 3").unwrap();
        assert_eq!(enough.status.code(), Some(0), "{size}: {}", String::from_utf8_lossy(&enough.stderr));
    }
}

#[test]
fn without_a_driver_gpu_memory_is_refused_in_plain_words() {
    if device_count().is_ok() {
        eprintln!("there is a CUDA driver here: scripts/test-gpu covers it");
        return;
    }
    let repository = repository();
    for flags in [
        "--shared-memory cuda",
        "--shared-memory cuda --cuda-device 1,2",
        "--input-memory pinned",
        "--output-memory pinned",
        "--input-memory gpu:0",
        "--output-memory gpu:3",
    ] {
        Program::on(&repository, "fixed").args(flags).run().failure(&["no CUDA driver found (libcuda.so.1)"]);
    }
    Program::on(&repository, "fixed")
        .args("--input-memory pageable --output-memory pageable --request-count 3")
        .run()
        .report();
    for flags in [
        "--input-memory disk",
        "--shared-memory posix",
        "--shared-memory system --input-memory pinned",
        "--cuda-device 1",
    ] {
        Program::on(&repository, "fixed").args(flags).run().refusal(&[flags.split(' ').next().unwrap()]);
    }
}

#[test]
fn a_server_on_the_network_is_told_of_regions_and_forgets_them() {
    let repository = repository();
    let Some(server) = TritonServer::start(&repository) else { return };
    let status = || server.get("/v2/systemsharedmemory/status").unwrap();
    // Written once: a file must not change under a program that reads it.
    let file = data(&repository);
    for protocol in ["http", "grpc"] {
        let start = || {
            let program = server.program(protocol, "slow").args("--shared-memory system --async --concurrency-range 3");
            program.args("-p 20000 --input-data").arg(&file).start()
        };
        // Two at once: their names do not collide.
        let runs = [start(), start()];
        for run in &runs {
            let filled = |path: &PathBuf| fs::read(path).is_ok_and(|bytes| bytes.starts_with(&PATTERN));
            wait_for(run, "regions with the tensor", |found| found.len() == 4 && found.iter().all(filled));
            assert!(status().contains(&format!("triton_bench_{protocol}_{}_", run.id())), "{}", status());
        }
        for run in runs {
            let id = run.id();
            run.signal(2);
            let finished = run.finish();
            assert!(reports_requests(&finished) && !finished.stdout.contains("Failed"), "{finished:#?}");
            assert_eq!(regions(id), Vec::<PathBuf>::new(), "{protocol}");
            // A region that a request still holds goes when the server has let go of that request.
            let ours = format!("triton_bench_{protocol}_{id}_");
            let patience = Instant::now() + Duration::from_secs(5);
            while status().contains(&ours) && Instant::now() < patience {
                thread::sleep(Duration::from_millis(20));
            }
            assert!(!status().contains(&ours), "{protocol}: {}", status());
        }
        // Too small: the server itself refuses.
        let program = server.program(protocol, "open").args("--shared-memory system --shape IN:64 --request-count 5");
        let report = program.args("--output-shared-memory-size 8").run().report_with(3);
        assert!(report.level().client_number("Failed request count") >= 1.0, "{protocol}: {}", report.text);
        assert!(!status().contains("triton_bench_"), "{protocol}: {}", status());
    }
}
