//! The content and layout of the `--live` dashboard.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::prelude::{Color, Frame, Line, Modifier, Span, Style, Stylize};
use ratatui::symbols::Marker;
use ratatui::widgets::{Axis, Block as Border, Chart, Dataset, GraphType, Paragraph};

use crate::clock::Stamp;
use crate::level_name;
use crate::machine::usage::Usage;
use crate::progress::{Standing, clock, digits, latency};
use crate::result::timeline::{Slice, lower_edge_ns};

/// Maximum number of blocks shown over time.
const MOST: usize = 240;
/// Number of recent blocks in the histogram.
const RECENT: usize = 32;
/// The percentiles over time, and their colours: as many lines as can be told apart in a terminal.
pub const PERCENTILES: [(f64, &str, Color); 3] =
    [(50.0, "p50", Color::Cyan), (90.0, "p90", Color::Yellow), (99.0, "p99", Color::Magenta)];

/// Everything that is shown.
#[derive(Clone, Debug)]
pub struct Board {
    title: String,
    /// The progress of the run.
    pub standing: Standing,
    /// Requests outstanding.
    pub outstanding: u64,
    /// Recent resource use of the client's and the server's processes.
    pub usage: (Option<Usage>, Option<Usage>),
    /// Processor time of processes when it was last read.
    pub busy: Option<(Stamp, HashMap<i32, Duration>)>,
    points: VecDeque<Point>,
    slices: VecDeque<Slice>,
    last_message: String,
}

/// The figures of a block.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// When it ended, in seconds since the run began.
    pub at: f64,
    /// Inferences a second.
    pub throughput: f64,
    /// In nanoseconds, one for each of [`PERCENTILES`]; `None` without requests.
    pub latencies: [Option<f64>; PERCENTILES.len()],
    /// How late the latest request was sent, in open loops.
    pub late_ns: Option<u64>,
}

/// A line chart over the time of the run.
struct Diagram<'a> {
    border: Border<'a>,
    /// The lowest value of the vertical axis, and the highest.
    bounds: [f64; 2],
    /// The text of a value on that axis.
    label: fn(f64) -> String,
    /// Points of seconds and values.
    lines: &'a [(Color, Vec<(f64, f64)>)],
}

impl Board {
    /// The board of a run on those models, still without figures.
    pub fn new(title: &str) -> Self {
        Self {
            title: title.to_owned(),
            standing: Standing::default(),
            outstanding: 0,
            usage: (None, None),
            busy: None,
            points: VecDeque::new(),
            slices: VecDeque::new(),
            last_message: String::new(),
        }
    }

    /// A block has ended.
    pub fn push(&mut self, point: Point, slice: Slice) {
        self.points.push_back(point);
        self.slices.push_back(slice);
        self.points.drain(..self.points.len().saturating_sub(MOST));
        self.slices.drain(..self.slices.len().saturating_sub(RECENT));
    }

    /// A message was printed.
    pub fn say(&mut self, text: &str) {
        if let Some(line) = text.lines().rfind(|line| !line.trim().is_empty()) {
            line.clone_into(&mut self.last_message);
        }
    }

    /// Draws it.
    pub fn draw(&self, frame: &mut Frame<'_>) {
        let lines = [Constraint::Length(1), Constraint::Length(3), Constraint::Min(6), Constraint::Length(2)];
        let [head, figures, body, foot] = Layout::vertical(lines).areas(frame.area());
        let [left, right] = Layout::horizontal([Constraint::Percentage(64), Constraint::Min(20)]).areas(body);
        let [rate, latencies] = Layout::vertical([Constraint::Percentage(45), Constraint::Min(3)]).areas(left);
        self.draw_head(frame, head);
        frame.render_widget(Paragraph::new(self.figures()), figures);
        self.draw_rate(frame, rate);
        self.draw_latencies(frame, latencies);
        let border = Border::bordered().title(" latency histogram ");
        let histogram = self.histogram(border.inner(right));
        frame.render_widget(Paragraph::new(histogram).block(border), right);
        let keys = Line::from("q: end and report (again: leave at once)").dim();
        frame.render_widget(Paragraph::new(vec![Line::from(self.last_message.as_str()).yellow(), keys]), foot);
    }

    fn draw_head(&self, frame: &mut Frame<'_>, area: Rect) {
        let standing = &self.standing;
        let name = standing.load.map(level_name);
        let window = standing.window.map(|(window, most)| format!("window {window}/{most}"));
        let position = Some(standing.position.clone()).filter(|position| !position.is_empty());
        let parts: Vec<String> = [position, name, window].into_iter().flatten().collect();
        let remaining = standing.rest.map_or_else(String::new, |remaining| format!(", {} left", clock(remaining)));
        let time = format!("{}{remaining}", clock(standing.elapsed));
        let width = u16::try_from(time.len()).unwrap_or(u16::MAX);
        let [name, times] = Layout::horizontal([Constraint::Min(10), Constraint::Length(width)]).areas(area);
        let title = Span::from(self.title.clone()).bold();
        frame.render_widget(Line::from(vec![title, "  ".into(), parts.join(", ").into()]), name);
        frame.render_widget(Line::from(time), times);
    }

    /// Three lines of figures in four columns.
    fn figures(&self) -> Vec<Line<'_>> {
        let (standing, last) = (&self.standing, self.points.back());
        let rate = last.map_or_else(|| "-".to_owned(), |last| format!("{} infer/s", digits(last.throughput)));
        let late = last.and_then(|last| last.late_ns).map_or_else(|| "-".to_owned(), |late| latency(late as f64));
        let percentile = |number: usize| {
            let ns = last.and_then(|last| last.latencies[number]);
            ns.map_or_else(|| "-".to_owned(), latency)
        };
        let requests = match standing.total {
            Some(total) => format!("{} of {total}", standing.requests),
            None => standing.requests.to_string(),
        };
        let processors =
            |usage: Option<Usage>| usage.map_or_else(|| "-".to_owned(), |usage| format!("{:.2} CPU", usage.processors));
        let plain = Style::new().add_modifier(Modifier::BOLD);
        let errors = if standing.failed > 0 { plain.fg(Color::Red) } else { plain };
        let rows = [
            [
                ("rate", rate),
                ("p50", percentile(0)),
                ("outstanding", self.outstanding.to_string()),
                ("client", processors(self.usage.0)),
            ],
            [("requests", requests), ("p90", percentile(1)), ("late", late), ("server", processors(self.usage.1))],
            [("errors", standing.failed.to_string()), ("p99", percentile(2)), ("", String::new()), ("", String::new())],
        ];
        let line = |cells: [(&'static str, String); 4]| {
            let widths = [(9, 18), (4, 10), (12, 9), (7, 0)];
            let spans = cells.into_iter().zip(widths).flat_map(|((name, value), (names, values))| {
                let style = if name == "errors" { errors } else { plain };
                [Span::from(format!("{name:<names$}")).dim(), Span::styled(format!("{value:<values$}"), style)]
            });
            Line::from(spans.collect::<Vec<_>>())
        };
        rows.map(line).to_vec()
    }

    fn draw_rate(&self, frame: &mut Frame<'_>, area: Rect) {
        let points: Vec<(f64, f64)> = self.points.iter().map(|point| (point.at, point.throughput)).collect();
        let border = Border::bordered().title(" infer/s ");
        let most = points.iter().map(|point| point.1).fold(0.0, f64::max);
        let top = if most > 0.0 { most * 1.1 } else { 1.0 };
        let lines = [(Color::Green, points)];
        self.draw_chart(frame, area, Diagram { border, bounds: [0.0, top], label: digits, lines: &lines });
    }

    fn draw_latencies(&self, frame: &mut Frame<'_>, area: Rect) {
        let lines: Vec<(Color, Vec<(f64, f64)>)> = PERCENTILES
            .into_iter()
            .enumerate()
            .map(|(number, (_, _, colour))| {
                // The start of a load may be a thousand times slower than the rest.
                let points =
                    self.points.iter().filter_map(|point| Some((point.at, point.latencies[number]?.max(1.0).log10())));
                (colour, points.collect())
            })
            .collect();
        let names = PERCENTILES.into_iter().map(|(_, name, colour)| Span::from(format!("{name} ")).fg(colour));
        let title: Vec<Span<'_>> = std::iter::once(Span::from(" latency ")).chain(names).collect();
        let border = Border::bordered().title(Line::from(title));
        let all = || lines.iter().flat_map(|(_, points)| points).map(|point| point.1);
        let (least, most) = (all().fold(f64::INFINITY, f64::min), all().fold(0.0, f64::max));
        let bounds = if most > 0.0 { [least - 0.1, most + 0.1] } else { [3.0, 6.0] };
        let label = |power| latency(10_f64.powf(power));
        self.draw_chart(frame, area, Diagram { border, bounds, label, lines: &lines });
    }

    fn draw_chart(&self, frame: &mut Frame<'_>, area: Rect, diagram: Diagram<'_>) {
        let Diagram { border, bounds: [bottom, top], label: name, lines } = diagram;
        let from = self.points.front().map_or(0.0, |point| point.at);
        let to = self.points.back().map_or(1.0, |point| point.at).max(from + 1.0);
        let datasets = lines.iter().map(|(colour, points)| {
            let line = Dataset::default().marker(Marker::Braille).graph_type(GraphType::Line);
            line.style(Style::new().fg(*colour)).data(points)
        });
        let seconds = |at: f64| clock(Duration::try_from_secs_f64(at).unwrap_or_default());
        let x = Axis::default().bounds([from, to]).labels([seconds(from), seconds(to)]);
        let y = Axis::default().bounds([bottom, top]).labels([name(bottom), name((bottom + top) / 2.0), name(top)]);
        frame.render_widget(
            Chart::new(datasets.collect()).block(border).x_axis(x).y_axis(y).legend_position(None),
            area,
        );
    }

    /// A line for each class of latencies, the lowest first, as many as fit.
    fn histogram(&self, area: Rect) -> Vec<Line<'_>> {
        let mut all = Slice::default();
        self.slices.iter().filter(|slice| !slice.counts.is_empty()).for_each(|slice| all.absorb(slice));
        let (rows, requests) = (usize::from(area.height).max(1), all.requests().max(1));
        let step = all.counts.len().div_ceil(rows).max(1);
        let classes: Vec<u64> = all.counts.chunks(step).map(|chunk| chunk.iter().sum()).collect();
        let most = classes.iter().copied().max().unwrap_or(0).max(1);
        let capacity = usize::from(area.width).saturating_sub(15);
        let line = |(number, count): (usize, &u64)| {
            let edge = latency(lower_edge_ns(f64::from(all.first) + (number * step) as f64));
            let eighths = (*count as f64 / most as f64 * capacity as f64 * 8.0).round() as usize;
            let part = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8];
            let bar = format!("{}{part}", "█".repeat(eighths / 8));
            let share = *count as f64 / requests as f64 * 100.0;
            Line::from(vec![
                format!("{edge:>8} ").into(),
                Span::from(format!("{bar:<capacity$}")).fg(Color::Cyan),
                format!("{share:>5.1}%").dim(),
            ])
        };
        classes.iter().enumerate().map(line).collect()
    }
}
