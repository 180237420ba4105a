//! The server's metrics: Prometheus' text format, and what polls of it over the windows come to.

use std::collections::BTreeMap;

use crate::measure::summary::{GpuMetrics, HostMetrics};

/// One sample of a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Name of the metric.
    pub name: String,
    /// Labels, by name.
    pub labels: BTreeMap<String, String>,
    /// The value; NaN and infinities as the format allows them.
    pub value: f64,
}

impl Sample {
    fn label(&self, name: &str) -> Option<&str> {
        self.labels.get(name).map(String::as_str)
    }
}

/// Every sample of a page in Prometheus' text format. Comments, empty lines and lines that are no samples are passed
/// over, so that one odd metric does not cost the others.
pub fn parse(page: &str) -> Vec<Sample> {
    page.lines().filter_map(sample).collect()
}

fn sample(line: &str) -> Option<Sample> {
    let line = line.trim();
    let end = line.find(|c: char| c == '{' || c.is_whitespace())?;
    let (name, rest) = line.split_at(end);
    let well_formed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    if name.is_empty() || !name.chars().all(well_formed) || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let rest = rest.trim_start();
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(inside) => labels(inside)?,
        None => (BTreeMap::new(), rest),
    };
    // A timestamp may follow the value.
    let value = rest.split_whitespace().next().and_then(number)?;
    Some(Sample { name: name.to_owned(), labels, value })
}

/// Labels up to the closing brace, and what follows it.
fn labels(mut rest: &str) -> Option<(BTreeMap<String, String>, &str)> {
    let mut labels = BTreeMap::new();
    loop {
        rest = rest.trim_start_matches(|c: char| c == ',' || c.is_whitespace());
        if let Some(after) = rest.strip_prefix('}') {
            return Some((labels, after));
        }
        let (name, after) = rest.split_once('=')?;
        let (value, after) = quoted(after.trim_start().strip_prefix('"')?)?;
        labels.insert(name.trim().to_owned(), value);
        rest = after;
    }
}

/// A value up to its closing quote, its escapes resolved, and what follows.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((index, character)) = characters.next() {
        match character {
            '"' => return Some((value, &text[index + 1..])),
            '\\' => match characters.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    None
}

fn number(text: &str) -> Option<f64> {
    let (sign, magnitude) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    match magnitude.to_ascii_lowercase().as_str() {
        "inf" | "infinity" => Some(sign * f64::INFINITY),
        "nan" => Some(f64::NAN),
        plain if plain.starts_with(|c: char| c.is_ascii_digit() || c == '.') => {
            plain.parse::<f64>().ok().map(|value| sign * value)
        }
        _ => None,
    }
}

/// Larger than anything that is read here: bytes, watts, shares, requests. Sums of such values cannot overflow.
const LARGEST: f64 = 1e18;

/// Whether a value is one that is read here, and larger than it can be.
pub fn is_out_of_range(sample: &Sample) -> bool {
    sample.value > LARGEST
        && (GPU_METRICS.contains(&sample.name.as_str()) || HOST_METRICS.contains(&sample.name.as_str()))
}

const GPU_METRICS: [&str; 4] =
    ["nv_gpu_utilization", "nv_gpu_power_usage", "nv_gpu_memory_used_bytes", "nv_gpu_memory_total_bytes"];
const HOST_METRICS: [&str; 4] = [
    "nv_cpu_utilization",
    "nv_cpu_memory_used_bytes",
    "nv_cpu_memory_total_bytes",
    "nv_inference_pending_request_count",
];

/// Polls over the windows of a level, folded as they come.
#[derive(Clone, Debug, Default)]
pub struct MetricsFold {
    model: String,
    gpus: BTreeMap<String, GpuFold>,
    cpu: Mean,
    cpu_used: Option<f64>,
    cpu_total: Option<f64>,
    pending: Mean,
}

#[derive(Clone, Debug, Default)]
struct GpuFold {
    utilization: Mean,
    power: Mean,
    used: Option<f64>,
    total: Option<f64>,
}

/// Mean and largest of some values.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    sum: f64,
    count: u64,
    max: f64,
}

impl Mean {
    fn add(&mut self, value: f64) {
        self.max = if self.count == 0 { value } else { self.max.max(value) };
        self.sum += value;
        self.count += 1;
    }

    fn absorb(&mut self, other: Self) {
        if other.count > 0 {
            self.max = if self.count == 0 { other.max } else { self.max.max(other.max) };
            self.sum += other.sum;
            self.count += other.count;
        }
    }

    fn mean(self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }

    fn max(self) -> Option<f64> {
        (self.count > 0).then_some(self.max)
    }
}

impl MetricsFold {
    /// Nothing yet; queue figures will be those of `model`.
    pub fn new(model: impl Into<String>) -> Self {
        Self { model: model.into(), ..Self::default() }
    }

    /// Takes in one poll. Values that are negative, no number, or too large for anything are left out.
    pub fn add(&mut self, page: &[Sample]) {
        // Versions of one model queue apart; together they are one poll.
        let mut pending = None;
        for sample in page.iter().filter(|sample| (0.0..=LARGEST).contains(&sample.value)) {
            if let Some(uuid) = sample.label("gpu_uuid") {
                self.add_gpu(uuid.to_owned(), sample);
            } else if sample.name == "nv_inference_pending_request_count" {
                if sample.label("model") == Some(self.model.as_str()) {
                    *pending.get_or_insert(0.0) += sample.value;
                }
            } else {
                self.add_host(sample);
            }
        }
        if let Some(pending) = pending {
            self.pending.add(pending);
        }
    }

    /// Takes in the readings of another window.
    pub fn absorb(&mut self, other: &Self) {
        for (uuid, theirs) in &other.gpus {
            let ours = self.gpus.entry(uuid.clone()).or_default();
            ours.utilization.absorb(theirs.utilization);
            ours.power.absorb(theirs.power);
            ours.used = theirs.used.map_or(ours.used, |used| larger(ours.used, used));
            ours.total = ours.total.or(theirs.total);
        }
        self.cpu.absorb(other.cpu);
        self.cpu_used = other.cpu_used.map_or(self.cpu_used, |used| larger(self.cpu_used, used));
        self.cpu_total = self.cpu_total.or(other.cpu_total);
        self.pending.absorb(other.pending);
    }

    fn add_gpu(&mut self, uuid: String, sample: &Sample) {
        let value = sample.value;
        if !GPU_METRICS.contains(&sample.name.as_str()) {
            return;
        }
        let gpu = self.gpus.entry(uuid).or_default();
        match sample.name.as_str() {
            "nv_gpu_utilization" => gpu.utilization.add(value),
            "nv_gpu_power_usage" => gpu.power.add(value),
            "nv_gpu_memory_used_bytes" => gpu.used = larger(gpu.used, value),
            _ => gpu.total = gpu.total.or(Some(value)),
        }
    }

    fn add_host(&mut self, sample: &Sample) {
        match sample.name.as_str() {
            "nv_cpu_utilization" => self.cpu.add(sample.value),
            "nv_cpu_memory_used_bytes" => self.cpu_used = larger(self.cpu_used, sample.value),
            // Triton says 0 until it has looked for the first time.
            "nv_cpu_memory_total_bytes" if sample.value > 0.0 => self.cpu_total = Some(sample.value),
            _ => {}
        }
    }

    /// Per GPU, by UUID: mean utilisation and power, largest memory use, first memory size.
    pub fn gpus(&self) -> Vec<GpuMetrics> {
        let summary = |(uuid, gpu): (&String, &GpuFold)| GpuMetrics {
            uuid: uuid.clone(),
            utilization: gpu.utilization.mean(),
            power_watts: gpu.power.mean(),
            memory_used_bytes: gpu.used.map(bytes),
            memory_total_bytes: gpu.total.map(bytes),
        };
        self.gpus.iter().map(summary).collect()
    }

    /// The machine's processors and memory, and the model's queue.
    pub fn host(&self) -> HostMetrics {
        HostMetrics {
            cpu_utilization: self.cpu.mean(),
            cpu_memory_used_bytes: self.cpu_used.map(bytes),
            cpu_memory_total_bytes: self.cpu_total.map(bytes),
            pending_requests: self.pending.mean(),
            pending_requests_max: self.pending.max(),
        }
    }
}

fn larger(so_far: Option<f64>, value: f64) -> Option<f64> {
    Some(so_far.map_or(value, |before| before.max(value)))
}

fn bytes(value: f64) -> u64 {
    value as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = r#"# HELP nv_gpu_utilization GPU utilization rate [0.0 - 1.0)
# TYPE nv_gpu_utilization gauge
nv_gpu_utilization{host="a,b}",gpu_uuid="GPU-1"} 2.5e-1 1700000000
nv_gpu_utilization{gpu_uuid="GPU-2",} +0.5
nv_gpu_power_usage { gpu_uuid = "GPU-1" } 41.5
nv_gpu_memory_used_bytes{gpu_uuid="GPU-1"} 1e9
nv_gpu_memory_total_bytes{gpu_uuid="GPU-1"} 80000000000
nv_gpu_energy_consumption{gpu_uuid="GPU-3"} 5
nv_inference_pending_request_count{model="m",version="1"} 3
nv_inference_pending_request_count{model="m",version="2"} 1
nv_inference_pending_request_count{model="n",version="1"} 99
nv_cpu_utilization 0.75
nv_cpu_memory_used_bytes -0
odd{label="esc\"aped\\ \n"} -Inf
not a sample
broken{x="1
nv_nothing{}
"#;

    #[test]
    fn labels_signs_and_exponents() {
        let samples = parse(PAGE);
        assert_eq!(samples.len(), 12);
        assert_eq!((samples[0].label("gpu_uuid"), samples[0].label("host")), (Some("GPU-1"), Some("a,b}")));
        assert_eq!((samples[0].value, samples[1].value), (0.25, 0.5));
        assert_eq!(samples[2].label("gpu_uuid"), Some("GPU-1"));
        assert_eq!(samples[11].label("label"), Some("esc\"aped\\ \n"));
        assert_eq!(samples[11].value, f64::NEG_INFINITY);
        assert_eq!(parse("a 1\r\n b{} 2\nc NaN\n7x 1\nd 0x10\ne infinite\n").len(), 3);
    }

    #[test]
    fn what_nothing_can_be_is_left_out_and_known() {
        let mut fold = MetricsFold::new("m");
        let page = parse(
            "nv_gpu_power_usage{gpu_uuid=\"G\"} 1e308\nnv_gpu_power_usage{gpu_uuid=\"G\"} 1e308\n\
             nv_gpu_utilization{gpu_uuid=\"G\"} 1e307\nnv_gpu_utilization{gpu_uuid=\"G\"} 0.5\nnv_cpu_utilization +Inf\n\
             nv_inference_pending_request_count{model=\"m\",version=\"1\"} 1e308\nnv_energy 1e308\nnv_cpu_utilization NaN\n",
        );
        fold.add(&page);
        let gpu = &fold.gpus()[0];
        assert_eq!((gpu.power_watts, gpu.utilization, fold.host()), (None, Some(0.5), HostMetrics::default()));
        assert_eq!(page.iter().filter(|sample| is_out_of_range(sample)).count(), 5);
    }

    #[test]
    fn polls_are_averaged_per_gpu_and_memory_peaks_are_kept() {
        let mut fold = MetricsFold::new("m");
        fold.add(&parse(PAGE));
        fold.add(&parse(
            "nv_gpu_utilization{gpu_uuid=\"GPU-1\"} 0.75\nnv_gpu_memory_used_bytes{gpu_uuid=\"GPU-1\"} 5e8\n\
             nv_gpu_memory_total_bytes{gpu_uuid=\"GPU-1\"} 1\nnv_cpu_utilization NaN\nnv_cpu_utilization -3\n\
             nv_inference_pending_request_count{model=\"m\",version=\"1\"} 1\n",
        ));
        let gpus = fold.gpus();
        assert_eq!(gpus.len(), 2, "a GPU of which nothing that we report is known is not listed");
        assert_eq!(gpus[0].utilization, Some(0.5));
        assert_eq!(gpus[0].power_watts, Some(41.5));
        assert_eq!(gpus[0].memory_used_bytes, Some(1_000_000_000));
        assert_eq!(gpus[0].memory_total_bytes, Some(80_000_000_000));
        assert_eq!((gpus[1].utilization, gpus[1].power_watts), (Some(0.5), None));
        let host = fold.host();
        assert_eq!(host.cpu_utilization, Some(0.75));
        assert_eq!((host.pending_requests, host.pending_requests_max), (Some(2.5), Some(4.0)));
        assert_eq!(host.cpu_memory_total_bytes, None);
    }
}
