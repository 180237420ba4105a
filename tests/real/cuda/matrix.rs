//! `--matrix memory` on a machine with every kind of memory.

use super::stand_in::StandIn;
use crate::support::{Model, Program, Repository};

#[test]
fn every_kind_of_memory_has_a_row_with_figures() {
    let (repository, stand_in) = (Repository::of(&[Model::identity("m")]), StandIn::new());
    let program = stand_in.under(Program::on(&repository, "m")).args("--matrix memory -p 100 -r 2");
    let finished = program.args("--async --concurrency-range 2:3").run();
    assert_eq!(finished.code(), 0, "{}{}", finished.stdout, finished.stderr);
    let lines: Vec<&str> = finished.stderr.lines().collect();
    let expected =
        ["2 cells, each of 5 variants", "cell 1/2 (concurrency 2) is done", "cell 2/2 (concurrency 3) is done"];
    assert!(lines.len() == 3 && lines.iter().zip(expected).all(|(line, part)| line.contains(part)), "{lines:?}");
    for row in ["pageable", "system shm", "pinned", "gpu:0", "gpu:1"] {
        let rows: Vec<&str> = finished.stdout.lines().filter(|line| line.starts_with(&format!("  {row} "))).collect();
        assert_eq!(rows.len(), 2, "{row}: {}", finished.stdout);
        for line in rows {
            let figure = line.trim().strip_prefix(row).unwrap().split_whitespace().next().unwrap();
            assert!(figure.parse::<f64>().is_ok_and(|rate| rate > 100.0), "{line}");
        }
    }
    let used = stand_in.clean("triton-bench");
    // Inputs once, and in each of two rounds the outputs of two slots, then of three.
    assert_eq!(used.allocations(), [1 + 2 * (2 + 3); 2]);
    assert!(used.registrations() > 0);
}
