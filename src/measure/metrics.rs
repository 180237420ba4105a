//! The server's metrics, summarised over the polls in the windows.

mod server;
mod server_load;

use crate::result::summary::{GpuMetrics, HostMetrics};
use crate::wire::prometheus::{MetricSample, name, sample};
use server::ServerFold;
use server_load::{LoadFold, LoadReading};

/// Larger than anything that is read here: bytes, watts, shares, requests. Sums of such values cannot overflow.
const LARGEST: f64 = 1e18;

/// Metrics of GPUs that reports show.
const OF_GPUS: [&str; 4] =
    ["nv_gpu_utilization", "nv_gpu_power_usage", "nv_gpu_memory_used_bytes", "nv_gpu_memory_total_bytes"];
/// Metrics of the machine that reports show.
const OF_HOST: [&str; 3] = ["nv_cpu_utilization", "nv_cpu_memory_used_bytes", "nv_cpu_memory_total_bytes"];
/// Requests of a model that wait.
const PENDING: &str = "nv_inference_pending_request_count";

/// How long the load of a model took (Triton 26.x).
const LOADED: &str = "nv_model_load_duration_secs";
/// Failed requests of a model, by reason.
const FAILED: &str = "nv_inference_request_failure";
/// A request to its first response, with `--metrics-config histogram_latencies=true`: sum, and number of requests.
const FIRST_RESPONSE: [&str; 2] =
    ["nv_inference_first_response_histogram_ms_sum", "nv_inference_first_response_histogram_ms_count"];
/// Metrics of a model that reports show, beside its requests that wait.
const OF_MODEL: [&str; 4] = [LOADED, FAILED, FIRST_RESPONSE[0], FIRST_RESPONSE[1]];

/// Polls of all servers over the windows of a level, folded as they come.
#[derive(Clone, Debug, Default)]
pub struct MetricsFold {
    /// Each server's.
    servers: Vec<ServerFold>,
    /// The queues of all servers together, in each reading.
    queues: QueueFold,
}

impl MetricsFold {
    /// One reading of each server, in their order; one that has not answered has none, and adds nothing to the sums.
    pub fn of(pages: Vec<Option<Page>>) -> Self {
        let mut queues = QueueReading::default();
        pages.iter().flatten().for_each(|page| queues.join(&page.queues));
        let servers = pages.into_iter().map(|page| page.map(Page::server_fold).unwrap_or_default());
        Self { servers: servers.collect(), queues: queues.fold() }
    }

    /// Takes in the readings of another window.
    pub fn absorb(&mut self, other: &Self) {
        let missing = other.servers.len().saturating_sub(self.servers.len());
        self.servers.extend(std::iter::repeat_n(ServerFold::default(), missing));
        self.servers.iter_mut().zip(&other.servers).for_each(|(ours, theirs)| ours.absorb(theirs));
        self.queues.absorb(&other.queues);
    }

    /// Per GPU, by server and UUID: mean utilisation and power, largest memory use, memory size.
    pub fn gpus(&self) -> Vec<GpuMetrics> {
        let number = |server| (self.servers.len() > 1).then_some(server);
        self.servers.iter().enumerate().flat_map(|(server, fold)| fold.gpus(number(server))).collect()
    }

    /// The machines' processors and memory, and what is the model's, of all servers together.
    pub fn host(&self) -> HostMetrics {
        together(&self.servers, &self.queues)
    }

    /// The same of each server, if there are several.
    pub fn hosts(&self) -> Vec<HostMetrics> {
        let each = self.servers.iter().filter(|_| self.servers.len() > 1);
        each.map(|server| together(std::slice::from_ref(server), &server.queues)).collect()
    }
}

/// What servers say together, whose queues were together so long. Counters are theirs alone, because a reading may lack one.
fn together(servers: &[ServerFold], queues: &QueueFold) -> HostMetrics {
    let sum_of =
        |value: &dyn Fn(&ServerFold) -> Option<f64>| servers.iter().filter_map(value).reduce(|sum, value| sum + value);
    let [sum, count] = [0, 1].map(|part| sum_of(&|server| server.first_response[part].growth()));
    let ratio = |(sum, count): (f64, f64)| (count > 0.0).then(|| sum / count);
    HostMetrics {
        gpu_utilization: mean(servers.iter().flat_map(ServerFold::gpu_utilizations)),
        cpu_utilization: mean(servers.iter().filter_map(|server| server.cpu.mean())),
        cpu_memory_used_bytes: sum_of(&|server| server.cpu_used).map(bytes),
        cpu_memory_total_bytes: sum_of(&|server| server.cpu_total).map(bytes),
        pending_requests: queues.pending.mean(),
        pending_requests_max: queues.pending.max(),
        model_load_seconds: servers.iter().filter_map(|server| server.loaded).reduce(f64::max),
        first_response_ms: sum.zip(count).and_then(ratio),
        cancelled_requests: sum_of(&|server| server.cancelled.growth()).filter(|count| *count > 0.0),
        load: queues.load.summary(),
    }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut all = Mean::default();
    values.for_each(|value| all.add(value));
    all.mean()
}

/// The requests that wait or run, in one reading.
#[derive(Clone, Copy, Debug, Default)]
struct QueueReading {
    /// Those of the model that wait; versions add up.
    pending: Option<f64>,
    load: LoadReading,
}

impl QueueReading {
    /// Adds those of another server.
    fn join(&mut self, other: &Self) {
        self.pending = sum(self.pending, other.pending);
        self.load.join(&other.load);
    }

    fn fold(self) -> QueueFold {
        QueueFold { pending: Mean::of(self.pending), load: self.load.fold() }
    }
}

/// The same in many readings, folded as they come.
#[derive(Clone, Copy, Debug, Default)]
struct QueueFold {
    pending: Mean,
    load: LoadFold,
}

impl QueueFold {
    fn absorb(&mut self, other: &Self) {
        self.pending.absorb(other.pending);
        self.load.absorb(&other.load);
    }
}

/// A number that only grows.
#[derive(Clone, Copy, Debug, Default)]
struct Counter(Option<(f64, f64)>);

impl Counter {
    fn read(value: Option<f64>) -> Self {
        Self(value.map(|value| (value, value)))
    }

    fn absorb(&mut self, other: Self) {
        let joined = self.0.zip(other.0).map(|(ours, theirs)| (ours.0.min(theirs.0), ours.1.max(theirs.1)));
        self.0 = joined.or(self.0).or(other.0);
    }

    /// From the first reading to the last.
    fn growth(self) -> Option<f64> {
        self.0.map(|(first, last)| last - first)
    }
}

/// Mean and largest of some values.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    sum: f64,
    count: u64,
    max: f64,
}

impl Mean {
    /// Of one value, if there is one.
    fn of(value: Option<f64>) -> Self {
        value.map_or_else(Self::default, |value| Self { sum: value, count: 1, max: value })
    }

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

/// One reading, taken line by line.
#[derive(Debug)]
pub struct Page {
    model: String,
    fold: ServerFold,
    /// Versions of one model have figures of their own; together they are one reading.
    of_model: [Option<f64>; OF_MODEL.len()],
    queues: QueueReading,
    holds_samples: bool,
    holds_types: bool,
    odd: Option<(String, f64)>,
}

impl Page {
    /// Nothing yet; queue figures will be those of `model`.
    pub fn new(model: &str) -> Self {
        Self {
            model: model.to_owned(),
            fold: ServerFold::default(),
            of_model: [None; OF_MODEL.len()],
            queues: QueueReading::default(),
            holds_samples: false,
            holds_types: false,
            odd: None,
        }
    }

    /// Takes in a line. Values that are negative, no number, or too large for anything are left out; so are lines that are no
    /// samples, so that one odd metric does not cost the others.
    pub fn line(&mut self, line: &str) {
        let Some((name, _)) = name(line) else { return };
        self.holds_types |= line.starts_with("# TYPE ");
        let of_load = server_load::figure(name);
        let of_model = name == PENDING || OF_MODEL.contains(&name);
        let shown = OF_GPUS.contains(&name) || OF_HOST.contains(&name) || of_model || of_load.is_some();
        if self.holds_samples && !shown {
            return;
        }
        let Some(sample) = sample(line) else { return };
        self.holds_samples = true;
        if shown && sample.value > LARGEST {
            self.odd.get_or_insert_with(|| (name.to_owned(), sample.value));
        }
        if !shown || !(0.0..=LARGEST).contains(&sample.value) {
            return;
        }
        if let Some(figure) = of_load {
            self.queues.load.add(figure, sample.value);
        } else if OF_HOST.contains(&name) {
            self.fold.add_host(&sample);
        } else if OF_GPUS.contains(&name) {
            if let Some(uuid) = sample.label("gpu_uuid") {
                self.fold.add_gpu(uuid, &sample);
            }
        } else if sample.label("model") == Some(self.model.as_str()) {
            self.add_of_model(&sample);
        }
    }

    fn add_of_model(&mut self, sample: &MetricSample<'_>) {
        if sample.name == PENDING {
            self.queues.pending = sum(self.queues.pending, Some(sample.value));
            return;
        }
        if sample.name == FAILED && sample.label("reason") != Some("CANCELED") {
            return;
        }
        let index = OF_MODEL.iter().position(|name| *name == sample.name);
        let Some(value) = index.map(|index| &mut self.of_model[index]) else { return };
        *value = Some(match sample.name {
            LOADED => value.unwrap_or(0.0).max(sample.value),
            _ => value.unwrap_or(0.0) + sample.value,
        });
    }

    /// Whether it is metrics at all. A server that has only just started lists its metrics without values.
    pub fn is_metrics(&self) -> bool {
        self.holds_samples || self.holds_types
    }

    /// Whether it has values, but none of a GPU.
    pub fn lacks_gpus(&self) -> bool {
        self.holds_samples && self.fold.lacks_gpus()
    }

    /// Whether it tells the load of a server of language models.
    pub fn reports_load(&self) -> bool {
        self.queues.load != LoadReading::default()
    }

    /// A metric that is shown, with a value that it cannot have.
    pub fn out_of_range(&self) -> Option<(&str, f64)> {
        self.odd.as_ref().map(|(name, value)| (name.as_str(), *value))
    }

    /// The counters read so far.
    fn server_fold(mut self) -> ServerFold {
        let [loaded, cancelled, sum, count] = self.of_model;
        self.fold.queues = self.queues.fold();
        self.fold.loaded = loaded;
        self.fold.cancelled = Counter::read(cancelled);
        self.fold.first_response = [sum, count].map(Counter::read);
        self.fold
    }
}

fn sum(left: Option<f64>, right: Option<f64>) -> Option<f64> {
    left.into_iter().chain(right).reduce(|sum, value| sum + value)
}

fn bytes(value: f64) -> u64 {
    value as u64
}

#[cfg(test)]
impl Page {
    /// The reading of the only server.
    fn fold(self) -> MetricsFold {
        MetricsFold::of(vec![Some(self)])
    }
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

    fn page(text: &str) -> Page {
        let mut page = Page::new("m");
        text.lines().for_each(|line| page.line(line));
        page
    }

    #[test]
    fn labels_signs_and_exponents() {
        let samples: Vec<_> = PAGE.lines().filter_map(sample).collect();
        assert_eq!(samples.len(), 12);
        assert_eq!((samples[0].label("gpu_uuid"), samples[0].label("host")), (Some("GPU-1"), Some("a,b}")));
        assert_eq!((samples[0].value, samples[1].value), (0.25, 0.5));
        assert_eq!(samples[2].label("gpu_uuid"), Some("GPU-1"));
        assert_eq!(samples[11].label("label"), Some("esc\"aped\\ \n"));
        assert_eq!(samples[11].value, f64::NEG_INFINITY);
        let odd = ["a 1\r", " b{} 2", "c NaN", "7x 1", "d 0x10", "e infinite"];
        assert_eq!(odd.into_iter().filter_map(sample).count(), 3);
    }

    #[test]
    fn polls_are_averaged_per_gpu_and_memory_peaks_are_kept() {
        let mut fold = page(PAGE).fold();
        fold.absorb(
            &page(
                "nv_gpu_utilization{gpu_uuid=\"GPU-1\"} 0.75\nnv_gpu_memory_used_bytes{gpu_uuid=\"GPU-1\"} 5e8\n\
             nv_gpu_memory_total_bytes{gpu_uuid=\"GPU-1\"} 1\nnv_cpu_utilization NaN\nnv_cpu_utilization -3\n\
             nv_inference_pending_request_count{model=\"m\",version=\"1\"} 1\n\
             nv_gpu_power_usage{gpu_uuid=\"GPU-1\"} 1e308\n",
            )
            .fold(),
        );
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

    #[test]
    fn loads_first_responses_and_cancelled_requests_are_the_models() {
        let text = |sum: f64, count: u64, cancelled: u64| {
            format!(
                "nv_model_load_duration_secs{{model=\"m\",version=\"1\"}} 1.5\n\
                 nv_model_load_duration_secs{{model=\"m\",version=\"2\"}} 2.5\n\
                 nv_model_load_duration_secs{{model=\"n\",version=\"1\"}} 90\n\
                 nv_inference_request_failure{{model=\"m\",reason=\"OTHER\"}} 7\n\
                 nv_inference_request_failure{{model=\"m\",reason=\"CANCELED\"}} {cancelled}\n\
                 nv_inference_first_response_histogram_ms_sum{{model=\"m\"}} {sum}\n\
                 nv_inference_first_response_histogram_ms_count{{model=\"m\"}} {count}\n\
                 nv_inference_first_response_histogram_ms_bucket{{model=\"m\",le=\"100\"}} 8\n"
            )
        };
        let mut fold = page(&text(100.0, 10, 3)).fold();
        assert_eq!(fold.host().first_response_ms, None, "one reading has no growth");
        fold.absorb(&page(&text(160.0, 30, 8)).fold());
        fold.absorb(&page("nv_cpu_utilization 1\n").fold());
        let host = fold.host();
        assert_eq!((host.model_load_seconds, host.first_response_ms), (Some(2.5), Some(3.0)));
        assert_eq!(host.cancelled_requests, Some(5.0));
        assert_eq!(page("nv_cpu_utilization 1\n").fold().host().cancelled_requests, None);
    }

    /// A server's page, with its counter of cancelled requests.
    fn of_server(gpu: f64, cpu: f64, pending: u64, cancelled: u64) -> Option<Page> {
        Some(page(&format!(
            "nv_gpu_utilization{{gpu_uuid=\"GPU-1\"}} {gpu}\nnv_gpu_power_usage{{gpu_uuid=\"GPU-1\"}} {}\nnv_cpu_utilization {cpu}\n\
             nv_cpu_memory_used_bytes 10\nnv_cpu_memory_total_bytes 100\n\
             nv_inference_pending_request_count{{model=\"m\",version=\"1\"}} {pending}\n\
             nv_inference_request_failure{{model=\"m\",reason=\"CANCELED\"}} {cancelled}\n",
            100.0 * gpu
        )))
    }

    #[test]
    fn several_servers_keep_their_figures_and_have_some_together() {
        let mut fold = MetricsFold::default();
        fold.absorb(&MetricsFold::of(vec![of_server(0.25, 0.5, 4, 1000), of_server(0.75, 0.1, 1, 5)]));
        // The second does not answer.
        fold.absorb(&MetricsFold::of(vec![of_server(0.25, 0.5, 2, 1001), None]));
        fold.absorb(&MetricsFold::of(vec![of_server(0.25, 0.5, 0, 1001), of_server(0.75, 0.1, 5, 9)]));
        let gpus = fold.gpus();
        let named: Vec<_> =
            gpus.iter().map(|gpu| (gpu.server, gpu.uuid.as_str(), gpu.utilization, gpu.power_watts)).collect();
        let expected = [(Some(0), "GPU-1", Some(0.25), Some(25.0)), (Some(1), "GPU-1", Some(0.75), Some(75.0))];
        assert_eq!(named, expected, "equal names on two machines are two GPUs");
        let host = fold.host();
        assert_eq!((host.gpu_utilization, host.cpu_utilization), (Some(0.5), Some(0.3)));
        assert_eq!((host.cpu_memory_used_bytes, host.cpu_memory_total_bytes), (Some(20), Some(200)));
        // 5, 2 and 5 at once; never 4 of the one and 5 of the other.
        assert_eq!((host.pending_requests, host.pending_requests_max), (Some(4.0), Some(5.0)));
        assert_eq!(host.cancelled_requests, Some(5.0), "a counter that was not read once is not one that fell");
        let hosts = fold.hosts();
        assert_eq!(hosts.len(), 2);
        assert_eq!((hosts[0].pending_requests, hosts[1].pending_requests), (Some(2.0), Some(3.0)));
        assert_eq!((hosts[0].cancelled_requests, hosts[1].cancelled_requests), (Some(1.0), Some(4.0)));
        assert_eq!((hosts[0].gpu_utilization, hosts[1].cpu_utilization), (Some(0.25), Some(0.1)));
    }

    #[test]
    fn one_server_is_not_numbered() {
        let fold = MetricsFold::of(vec![of_server(0.25, 0.5, 4, 0)]);
        assert_eq!((fold.gpus()[0].server, fold.hosts()), (None, Vec::new()));
        assert_eq!((fold.host().pending_requests, fold.host().gpu_utilization), (Some(4.0), Some(0.25)));
        assert!(MetricsFold::of(vec![None]).gpus().is_empty());
    }

    #[test]
    fn a_server_that_has_not_looked_yet_says_nothing_of_power_and_size() {
        let at_first = "nv_gpu_power_usage{gpu_uuid=\"G\"} 0\nnv_gpu_memory_total_bytes{gpu_uuid=\"G\"} 0\n";
        let then = "nv_gpu_power_usage{gpu_uuid=\"G\"} 120\nnv_gpu_memory_total_bytes{gpu_uuid=\"G\"} 85520809984\n";
        let mut fold = page(at_first).fold();
        fold.absorb(&page(then).fold());
        let gpu = &fold.gpus()[0];
        assert_eq!((gpu.power_watts, gpu.memory_total_bytes), (Some(120.0), Some(85_520_809_984)));
    }

    #[test]
    fn what_nothing_can_be_is_left_out_and_known() {
        let page = page(
            "nv_gpu_power_usage{gpu_uuid=\"G\"} 1e308\nnv_gpu_power_usage{gpu_uuid=\"G\"} 1e308\n\
             nv_gpu_utilization{gpu_uuid=\"G\"} 0.5\nnv_cpu_utilization +Inf\nnv_energy 1e308\nnv_cpu_utilization NaN\n",
        );
        assert_eq!(page.out_of_range(), Some(("nv_gpu_power_usage", 1e308)));
        let fold = page.fold();
        let gpu = &fold.gpus()[0];
        let host = HostMetrics { gpu_utilization: Some(0.5), ..HostMetrics::default() };
        assert_eq!((gpu.power_watts, gpu.utilization, fold.host()), (None, Some(0.5), host));
        assert_eq!(super::tests::page("nv_energy 1e308\nnv_cpu_utilization 1\n").out_of_range(), None);
    }

    #[test]
    fn metrics_are_told_from_other_texts_and_names_without_end_are_not_kept() {
        assert!(!page("<html>\n<p>not found</p>\n").is_metrics() && !page("").is_metrics());
        let listed = page("# TYPE nv_gpu_utilization gauge\n");
        assert!(listed.is_metrics() && !listed.lacks_gpus());
        assert!(page("other_metric 5\n").lacks_gpus() && !page(PAGE).lacks_gpus());
        let many: String = (0..5000).map(|gpu| format!("nv_gpu_power_usage{{gpu_uuid=\"G{gpu}\"}} 1\n")).collect();
        let mut fold = page(&many).fold();
        fold.absorb(&page("nv_gpu_power_usage{gpu_uuid=\"H\"} 1\nnv_gpu_power_usage{gpu_uuid=\"G1\"} 3\n").fold());
        assert_eq!(fold.gpus().len(), server::MAX_GPUS);
        assert_eq!(fold.gpus()[1].power_watts, Some(2.0), "those that are known go on");
    }
}
