//! Studies for tests.

use crate::result::bare::BareCopies;
use crate::result::rounds::{Figure, Round, Unit, Value};
use crate::result::summary::LevelLoad;
use crate::result::variants::{Cell, VariantIdentity, VariantsResult};
use crate::terms::{Order, Rounds, Statistic};

/// A study of transports with two ways, of which the second takes twice as long below 64 KiB and half as long above.
pub fn study(sizes: &[u64]) -> VariantsResult {
    let unit = |ns: f64| {
        let values = [(Statistic::Throughput, 1e9 / ns), (Statistic::MeanLatency, ns)];
        let values = values.map(|(statistic, value)| Value { figure: Figure::Client(statistic), value });
        Some(Unit { values: values.to_vec(), requests: 500, ..Unit::default() })
    };
    let round = |size: u64, number: usize| {
        let ns = (20_000.0 + size as f64 / 4.0) * (1.0 + 0.01 * (number % 3) as f64);
        let factor = if size < 64 << 10 { 2.0 } else { 0.5 };
        let order = if number.is_multiple_of(2) { vec![0, 1] } else { vec![1, 0] };
        Round { start: 1, number: number + 1, order, units: vec![unit(ns), unit(ns * factor)], set_aside: false }
    };
    let cell = |size: &u64| Cell {
        loads: vec![LevelLoad::Concurrency(1); 2],
        size: Some(*size),
        input_bytes: vec![Some(*size as f64); 2],
        output_bytes: vec![Some(*size as f64 / 2.0); 2],
        bare: Some(BareCopies { memcpy_ns: *size as f64 / 10.0, loopback_ns: None }),
        window_times: 1,
        measured_s: 0.0,
        rounds: (0..8).map(|number| round(*size, number)).collect(),
    };
    let way = |name: &str| VariantIdentity { name: name.to_owned(), flags: String::new(), problem: None };
    VariantsResult {
        matrix: Some("transports".to_owned()),
        variants: vec![way("C API"), way("C API + shared memory")],
        rounds: Rounds { count: 8, order: Order::Abba, margin: 0.05, until_decided: None },
        starts: 1,
        seed: 1,
        primary: Figure::Client(Statistic::MeanLatency),
        cells: sizes.iter().map(cell).collect(),
    }
}
