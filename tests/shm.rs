//! Regions: every kind of memory that this machine has, and plain words about those that it has not.

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
    let path = |number: u64| format!("/dev/shm/triton-bench-{}-{number}", std::process::id());
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

/// Exits that run no destructors: a panic that becomes an abort, and `process::exit` after `unlink_all`. Each in a child of
/// its own, which is this very test with a word in its environment.
#[test]
fn names_do_not_outlive_the_process() {
    const ROLE: &str = "TRITON_BENCH_TEST_EXIT";
    const TEST: &str = "names_do_not_outlive_the_process";
    if let Ok(role) = std::env::var(ROLE) {
        let region = Region::zeroed(Placement::System, 64).unwrap();
        assert!(exists(&region));
        eprintln!("name {}", region.key().unwrap());
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
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args([TEST, "--exact", "--nocapture"])
            .env(ROLE, role)
            .output()
            .unwrap();
        assert!(!child.status.success());
        let text = String::from_utf8_lossy(&child.stderr);
        let name = text.lines().find_map(|line| line.strip_prefix("name ")).unwrap_or_else(|| panic!("{text}"));
        assert!(!std::path::Path::new(&format!("/dev/shm{name}")).exists(), "{role}: {name} is left");
    }
}
