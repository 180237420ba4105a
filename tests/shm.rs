//! Regions: every kind of memory this machine has, and clear errors for the kinds it lacks.
//!
//! A separate test program, because it uses names that other tests' regions would get.

use triton_bench::shm::{Placement, Region, RegionBuilder, device_count, unlink_all};

fn exists(region: &Region) -> bool {
    std::path::Path::new(&format!("/dev/shm{}", region.key().unwrap())).exists()
}

#[test]
fn host_memory_is_written_and_read() {
    for placement in [Placement::Pageable, Placement::System] {
        let mut region = Region::zeroed(placement, 10_000).unwrap();
        assert_eq!(region.placement(), placement);
        assert_eq!(region.address() % 4096, 0);
        region.write(9_996, &[1, 2, 3, 4]).unwrap();
        let mut last = [9; 5];
        region.read(9_995, &mut last).unwrap();
        assert_eq!(last, [0, 1, 2, 3, 4]);
        for (offset, len) in [(9_997, 4), (usize::MAX, 1), (10_001, 0)] {
            let message = region.read(offset, &mut vec![0; len]).unwrap_err().to_string();
            assert!(message.contains("outside of a region of 10000 bytes"), "{message}");
        }
        let frozen = region.freeze();
        assert!(matches!(frozen.bytes(9_996, 4).unwrap(), std::borrow::Cow::Borrowed([1, 2, 3, 4])));
        assert_eq!(frozen.ipc_handle().unwrap(), None);
        assert!(Region::filled(placement, b"").unwrap().is_empty());
    }
}

#[test]
fn shared_memory_is_named_after_us_and_unlinked() {
    let region = Region::filled(Placement::System, b"hello").unwrap();
    let key = region.key().unwrap().to_owned();
    assert!(key.starts_with(&format!("/triton-bench-{}-", std::process::id())), "{key}");
    assert_eq!(std::fs::read(format!("/dev/shm{key}")).unwrap(), b"hello");
    drop(region);
    assert!(!std::path::Path::new(&format!("/dev/shm{key}")).exists());
}

#[test]
fn names_that_are_taken_are_passed_over() {
    let number = |region: &Region| region.key().unwrap().rsplit('-').next().unwrap().parse::<u64>().unwrap();
    let first = number(&Region::zeroed(Placement::System, 1).unwrap());
    // What a dead process with our number left behind.
    let before = Region::zeroed(Placement::System, 1).unwrap().key().unwrap().rsplit_once('-').unwrap().0.to_owned();
    let path = |number: u64| format!("/dev/shm{before}-{number}");
    let taken: Vec<u64> = (first + 50..first + 60).collect();
    taken.iter().for_each(|&number| std::fs::write(path(number), "theirs").unwrap());
    let made: Vec<Region> = (0..70).map(|_| Region::filled(Placement::System, b"ours").unwrap()).collect();
    assert!(made.iter().any(|region| number(region) > first + 60));
    for number in taken {
        assert_eq!(std::fs::read(path(number)).unwrap(), b"theirs");
        std::fs::remove_file(path(number)).unwrap();
    }
}

#[test]
fn a_full_file_system_is_an_error_and_not_a_signal() {
    let message = Region::zeroed(Placement::System, 1 << 46).unwrap_err().to_string();
    assert!(message.contains("cannot create 70368744177664 bytes of system shared memory in /dev/shm"), "{message}");
    let mine = format!("triton-bench-{}-", std::process::id());
    let left = std::fs::read_dir("/dev/shm").unwrap().flatten().filter(|entry| {
        entry.file_name().to_string_lossy().starts_with(&mine)
            && entry.metadata().is_ok_and(|data| data.len() >= 1 << 46)
    });
    assert_eq!(left.count(), 0);
}

#[test]
fn builders_grow_into_regions() {
    let mut builder = RegionBuilder::new().unwrap();
    for value in 0..200_000_u32 {
        builder.write(&value.to_le_bytes()).unwrap();
    }
    assert_eq!(builder.len(), 800_000);
    builder.write(&[1]).unwrap();
    assert_eq!(builder.align().unwrap() % 64, 0);
    builder.truncate(8);
    assert_eq!(builder.extend(4).unwrap(), [0; 4]);
    let region = builder.finish();
    assert_eq!(region.bytes(0, 12).unwrap().as_ref(), [0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    assert!(RegionBuilder::new().unwrap().extend(usize::MAX / 2).is_err());
}

#[test]
fn without_a_driver_gpu_memory_is_refused_in_plain_words() {
    if device_count().is_ok() {
        eprintln!("there is a CUDA driver here: scripts/test-gpu covers it");
        return;
    }
    for placement in [Placement::Cuda(0), Placement::Pinned] {
        let message = Region::zeroed(placement, 64).unwrap_err().to_string();
        assert!(message.contains("no CUDA driver found (libcuda.so.1)"), "{message}");
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/test-gpu");
    let run = std::process::Command::new(script).output().unwrap();
    assert_eq!((run.status.code(), run.stdout.as_slice()), (Some(77), &b"no GPU\n"[..]));
}

/// What a child of this program, which is the test `test` again with `role` in its environment, leaves in /dev/shm: after its
/// end, and what it was told. The child must fail.
fn left_by_child(test: &str, role: &str) -> (Vec<std::path::PathBuf>, String) {
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env(ROLE, role)
        .stderr(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mine = format!("triton-bench-{}-", child.id());
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{role}: {text}");
    let entries = std::fs::read_dir("/dev/shm").unwrap().flatten().map(|entry| entry.path());
    (entries.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with(&mine)).collect(), text)
}

const ROLE: &str = "TRITON_BENCH_TEST_EXIT";

/// Exits that run no destructors: a panic that becomes an abort, and `process::exit` after `unlink_all`.
#[test]
fn names_do_not_outlive_the_process() {
    if let Ok(role) = std::env::var(ROLE) {
        let region = Region::zeroed(Placement::System, 64).unwrap();
        assert!(exists(&region));
        eprintln!("made");
        if role == "exit" {
            unlink_all();
            unlink_all();
            std::process::exit(7);
        }
        triton_bench::shm::unlink_on_panic();
        extern "C" fn border() {
            panic!("on the way to the server");
        }
        border();
    }
    for role in ["exit", "abort"] {
        let (left, output) = left_by_child("names_do_not_outlive_the_process", role);
        assert!(output.contains("made") && left.is_empty(), "{role}: {left:?}\n{output}");
    }
}

/// An immediate interrupt comes while other threads make and drop regions, and they go on until the process is gone.
#[test]
fn names_that_come_after_the_end_began_do_not_stay() {
    if std::env::var_os(ROLE).is_some() {
        for keep in [true, false] {
            std::thread::spawn(move || {
                let mut kept = Vec::new();
                loop {
                    // Memory without a name must work like any other.
                    let region = Region::filled(Placement::System, b"late").unwrap().freeze();
                    assert_eq!(region.bytes(0, 4).unwrap().as_ref(), b"late");
                    kept.extend(keep.then_some(region).filter(|_| kept.len() < 2000));
                }
            });
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
        unlink_all();
        std::thread::sleep(std::time::Duration::from_millis(10));
        std::process::exit(7);
    }
    for _ in 0..5 {
        let (left, output) = left_by_child("names_that_come_after_the_end_began_do_not_stay", "late");
        assert!(!output.contains("panicked") && left.is_empty(), "{} are left: {output}", left.len());
    }
}

/// Names that were tried and belong to somebody else are none of ours to unlink.
#[test]
fn names_of_others_are_left_alone() {
    if std::env::var_os(ROLE).is_some() {
        let first = Region::zeroed(Placement::System, 1).unwrap();
        let (before, number) = first.key().unwrap().rsplit_once('-').unwrap();
        let number: u64 = number.parse().unwrap();
        let taken = format!("/dev/shm{before}-{}", number + 1);
        std::fs::write(taken, "theirs").unwrap();
        let second = Region::zeroed(Placement::System, 1).unwrap();
        assert!(second.key().unwrap().ends_with(&format!("-{}", number + 2)));
        unlink_all();
        std::process::exit(7);
    }
    let (left, output) = left_by_child("names_of_others_are_left_alone", "taken");
    let [theirs] = &left[..] else { panic!("{left:?}\n{output}") };
    assert_eq!(std::fs::read(theirs).unwrap(), b"theirs");
    std::fs::remove_file(theirs).unwrap();
}
