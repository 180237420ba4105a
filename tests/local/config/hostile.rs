//! Malformed and hostile files.

use super::*;

/// A small generator, so that a failure can be had again.
struct Draws(u64);

impl Draws {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}

const GOOD: &[&str] = &[
    "model: m\nheader: ['A: b', &x 'C: d']\nruns:\n  a: {extends: .b, seed: 4}\n  .b:\n    stage:\n      - rate:5:1s\n    header: *x\n",
    "load:\n  type: constant\n  interval: 1.0\n  stages:\n    - rate: 1.0\n      duration: 30\n  sweep: null\n  lora_traffic_split:\n    \
     - {name: a, split: 0.5}\n    - {name: b, split: 0.5}\nserver: {type: vllm, base_url: 'http://h:1', model_name: m}\ndata:\n  type: mock\n",
];

#[test]
fn changed_files_are_read_or_refused() {
    let pieces = [
        "\n", "  ", ":", "-", "[", "}", "\u{0}", "&a", "*a", "'", "\"", "~", "true", "runs", "extends", "load",
        "1e999", "%", "|", "\t", "é",
    ];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.yaml");
    for text in GOOD {
        let file = Config::of(text);
        file.plan(if text.contains("runs") { &["-m", "m"] } else { &[] });
    }
    let (mut read, mut refused) = (0, 0);
    for number in 0..1_500 {
        let mut draws = Draws(number);
        let mut text: Vec<char> = GOOD[draws.below(GOOD.len())].chars().collect();
        for _ in 0..=draws.below(3) {
            let (from, length) = (draws.below(text.len()), draws.below(5));
            let to = (from + length).min(text.len());
            text.splice(from..to, pieces[draws.below(pieces.len())].chars());
        }
        let text: String = text.into_iter().collect();
        fs::write(&path, &text).unwrap();
        match parse([OsString::from("--config"), path.clone().into(), "-m".into(), "m".into()]) {
            Ok(_) => read += 1,
            Err(error) => {
                refused += 1;
                assert!(!error.to_string().contains('\n'), "{text}: {error}");
            }
        }
    }
    assert!(read > 10 && refused > 500, "{read} {refused}");
}

#[test]
fn what_grows_without_end_while_it_is_read_is_refused() {
    let long = format!("model: &x {}\nheader: [{}]\n", "y".repeat(900_000), vec!["*x"; 20_000].join(","));
    assert!(Config::of(&long).error(&[]).contains("with aliases expanded"), "{}", Config::of(&long).error(&[]));
    let run = |name: usize, extends: &str| format!("  r{name}: {{extends: [{extends}]}}\n");
    let chain: String = (1..900).map(|number| run(number, &format!("r{}", number - 1))).collect();
    let tree: String = (1..40).map(|number| run(number, &vec![format!("r{}", number - 1); 10].join(","))).collect();
    let many: String = (1..2_000).map(|number| run(number, "r0")).collect();
    for (runs, rule) in [
        (chain, "a run extends at most 100 others"),
        (tree, "a run extends at most 100 others"),
        (many, "FILE:1002:3: more than 1000 runs"),
    ] {
        let error = Config::of(&format!("runs:\n  r0: {{model: m}}\n{runs}")).error(&[]);
        assert!(error.starts_with("FILE:") && error.contains(rule), "{error}");
    }
    let values: Vec<String> = (0..5_000).map(|number| format!("a{number}:x")).collect();
    let lists = format!("model: m\nheader: [{}]\n", values.join(","));
    assert_eq!(Config::of(&lists).plan(&[]).target.connection.headers.len(), values.len());
    let wrong = lists.replace("a4000:x,", "a4000,");
    let column = wrong.lines().nth(1).unwrap().find("a4000").unwrap() + 1;
    let error = Config::of(&wrong).error(&[]);
    assert!(error.starts_with(&format!("FILE:2:{column}: -H: it must be Name:Value")), "{error}");
}

#[test]
fn what_is_no_text_or_too_much_is_refused() {
    let file = Config::of("");
    fs::write(file.path(), b"model: \xff\n").unwrap();
    assert!(file.error(&[]).starts_with("FILE:1:1: it is not UTF-8"));
    fs::write(file.path(), "a".repeat(2 << 20)).unwrap();
    assert!(file.error(&[]).starts_with("FILE:1:1: it is larger than 1 MiB"));
    fs::write(file.path(), "[".repeat(100_000)).unwrap();
    assert!(file.error(&[]).starts_with("FILE:1:"), "{}", file.error(&[]));
    let folder = file.path().parent().unwrap().display().to_string();
    let error = parse(split(&format!("--config {folder} -m m"))).unwrap_err().to_string();
    assert!(error.contains("that is a directory"), "{error}");
}
