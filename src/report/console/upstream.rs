//! The report under perf_analyzer's name: scripts find its lines by words, so lines of our own have other words.

/// Beginnings of perf_analyzer's lines with these words, without their indent.
const LINES: [&str; 7] = [
    "Throughput: ",
    "Response Throughput: ",
    "Pass [",
    "Avg send request rate: ",
    "Inferences/Second vs. ",
    "Stabilizing using ",
    "Failed to obtain stable measurement",
];

/// The same text, in which only lines that perf_analyzer prints, too, have its percentiles, `throughput` and `infer/sec`.
pub fn as_upstream(text: &str) -> String {
    let line = |line: &str| if is_upstreams(line.trim_start()) { line.to_owned() } else { reworded(line) };
    text.split_inclusive('\n').map(line).collect()
}

/// The same where perf_analyzer prints nothing of the kind: scripts would take it for a result.
pub fn none_as_upstream(text: &str) -> String {
    text.split_inclusive('\n').map(reworded).collect()
}

fn is_upstreams(line: &str) -> bool {
    let is_percentile = line.strip_prefix('p').is_some_and(|tail| {
        let number = tail.split(' ').next().unwrap_or_default();
        number.parse::<f64>().is_ok() && tail[number.len()..].starts_with(" latency: ")
    });
    let is_level = line.contains(", throughput: ") && line.contains(" infer/sec, latency ");
    is_percentile || is_level || LINES.iter().any(|start| line.starts_with(start))
}

/// `P99` for `p99`, and other words for rates.
fn reworded(line: &str) -> String {
    let line = line.replace("infer/sec", "inferences/s").replace("throughput", "rate").replace("Throughput", "Rate");
    let mut out = String::with_capacity(line.len());
    let mut before = ' ';
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        let is_percentile =
            letter == 'p' && !before.is_alphanumeric() && letters.peek().is_some_and(char::is_ascii_digit);
        out.push(if is_percentile { 'P' } else { letter });
        before = letter;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_our_own_have_other_words() {
        let upstreams = "  Client: \n    Throughput: 5 infer/sec\n    p50 latency: 7 usec\n    p99.9 latency: 8 usec\n  \
                         Pass [1] throughput: 5 infer/sec. p95 latency: 7 usec\n\
                         Inferences/Second vs. Client p95 Batch Latency\n\
                         Concurrency: 1, throughput: 5 infer/sec, latency 7 usec [disturbed]\n";
        assert_eq!(as_upstream(upstreams), upstreams);
        let line = as_upstream("    95% confidence: throughput 1 to 2 infer/sec, p50 3 to 4 usec, p90 not known\n");
        assert_eq!(line, "    95% confidence: rate 1 to 2 inferences/s, P50 3 to 4 usec, P90 not known\n");
        assert_eq!(as_upstream("Wake-up time: avg 1 usec, p99.9 2"), "Wake-up time: avg 1 usec, P99.9 2");
        assert_eq!(
            none_as_upstream("  Client:\n    Throughput: 5 infer/sec\n"),
            "  Client:\n    Rate: 5 inferences/s\n"
        );
        assert_eq!(as_upstream("model 'mp50' step 50p5\n\n"), "model 'mp50' step 50p5\n\n");
    }
}
