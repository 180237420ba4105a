//! Stream assignment with `--streaming`: Triton answers the requests of one stream in their order of arrival.

use crate::support::{Model, Repository, TritonServer};

#[test]
fn sequences_that_wait_for_each_other_all_end() {
    let repository = Repository::of(&[]);
    // One instance that takes one sequence at a time: the second waits in the server until the first has ended.
    repository.add(&repository.counting(Model::accumulator("sums").batches(1)));
    let Some(server) = TritonServer::start(&repository) else { return };
    let loads = [
        "-a --concurrency-range 2 --request-count 60",
        "-a --concurrency-range 5 --request-count 60",
        "--request-rate-range 100 --num-of-sequences 4 --request-count 100",
    ];
    for load in loads {
        let program = server.program("grpc", "sums").args("--streaming --max-threads 1 --sequence-length 5").args(load);
        let report = program.run().report_even_if_late();
        assert!(report.level().client_number("Request count") >= 60.0, "{load}: {}", report.text);
        assert!(!report.text.contains("Failed"), "{load}: {}", report.text);
    }
    server.stop();
    let counters = repository.counters("sums");
    assert_eq!((counters.get("violations"), counters.get("sequences_open")), (0, 0));
    assert!(counters.get("sequences_ended") >= 30, "{}", counters.get("sequences_ended"));
}

#[test]
fn timed_answers_do_not_wait_for_those_of_other_slots() {
    let jittering = Model::sleeping("jittering", 1).parameter("jitter_us", "40000").batches(0).instances(8);
    let repository = Repository::of(&[jittering]);
    let Some(server) = TritonServer::start(&repository) else { return };
    let program = server.program("grpc", "jittering").args("--streaming --max-threads 1 -p 500 -s 1000000");
    let report = program.args("--concurrency-range 8").run().report();
    // 21 ms on average and 8 at once: 380 a second. In the order of sending each would wait for the slowest of 8 or so.
    let level = report.level();
    assert!(level.client_number("Throughput") > 320.0, "{}", report.text);
    assert!(!report.text.contains("Failed"), "{}", report.text);
}
