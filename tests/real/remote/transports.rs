//! `--matrix transports` on models that some transports cannot serve.

use crate::support::{Model, Program, Repository};

#[test]
fn a_decoupled_model_goes_every_way_but_http() {
    let repository = Repository::of(&[Model::decoupled("stream", 3)]);
    let program = Program::on(&repository, "stream").args("--matrix transports --collect-metrics -p 150 -r 2");
    let finished = program.run();
    let row = |way: &str| {
        let found = finished.stdout.lines().find_map(|line| line.strip_prefix(&format!("  {way} ")));
        found.unwrap_or_else(|| panic!("no row '{way}': {}{}", finished.stdout, finished.stderr)).trim().to_owned()
    };
    for way in ["C API", "gRPC", "C API + shm", "gRPC + shm"] {
        let throughput = row(way).split(' ').next().unwrap().parse::<f64>();
        assert!(throughput.is_ok_and(|rate| rate > 50.0), "{way}: {}", finished.stdout);
    }
    for way in ["HTTP", "HTTP + shm"] {
        assert!(row(way).contains("not measured") && row(way).contains("--streaming"), "{}", finished.stdout);
    }
}
