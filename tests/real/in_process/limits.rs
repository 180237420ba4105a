//! System limits: reaching one is an error that names it, never an abort.

use std::fs;

use crate::support::{Model, Program, Repository, TritonServer};

#[test]
fn more_threads_than_the_system_has_room_for_are_refused_with_their_number() {
    let repository = Repository::counted(Model::identity("m"));
    // Each thread has several mappings.
    let most = fs::read_to_string("/proc/sys/vm/max_map_count").unwrap().trim().parse::<u32>().unwrap();
    for load in [format!("--sync --concurrency-range {most}"), format!("--sync --stage concurrency:{most}:1s")] {
        let finished = Program::on(&repository, "m").args(&load).run();
        let line = finished.failure(&["and there is room for", "--async"]);
        assert!(line.contains(&format!("{most} more threads are wanted")), "{line}");
    }
}

#[test]
fn threads_that_the_address_space_does_not_hold_are_refused_with_their_number() {
    let repository = Repository::of(&[Model::identity("m")]);
    let server = TritonServer::start(&repository).expect("the directory of the server has tritonserver");
    let program = server.program("http", "m").args("--sync --concurrency-range 3000 -p 300");
    let finished = program.under("ulimit -v 1500000").run();
    assert_eq!(finished.code(), 99, "{}", finished.stderr);
    assert!(finished.stderr.contains("there is room for"), "{}", finished.stderr);
    assert!(finished.stderr.contains("(ulimit -v)"), "{}", finished.stderr);
}

#[test]
fn too_little_address_space_is_an_error_and_no_abort() {
    let repository = Repository::of(&[Model::identity("m")]);
    let server = TritonServer::start(&repository).expect("the directory of the server has tritonserver");
    let (mut failed, mut ran) = (0, 0);
    // The program with all that helps to debug it takes 78 MB itself.
    for (kibibytes, in_process) in [100, 120, 200, 600]
        .map(|size| (size, false))
        .into_iter()
        .chain([400, 500, 600, 800, 1200].map(|size| (size, true)))
    {
        let program = match in_process {
            true => Program::on(&repository, "m"),
            false => server.program("http", "m"),
        };
        let finished = program
            .args("--async --concurrency-range 4 --request-count 50")
            .under(&format!("ulimit -v {kibibytes}000"))
            .run();
        // A death by a signal has no code.
        match finished.code() {
            0 => ran += 1,
            99 => failed += 1,
            code => panic!("{kibibytes} MB, in process {in_process}: {code}\n{}", finished.stderr),
        }
        assert!(finished.stderr.contains("the address space is limited to"), "{}", finished.stderr);
    }
    assert!(failed > 0 && ran > 0, "{failed} failed, {ran} ran");
}
