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
use crate::result::disturbance::{Cause, Disturbance};
use crate::result::timeline::{Slice, lower_edge_ns};
use crate::shortened;

/// Maximum number of blocks shown over time.
const MOST: usize = 240;
/// Number of recent blocks in the histogram.
const RECENT: usize = 32;
/// A terminal of fewer columns has no room for the histogram and processors.
const NARROW: u16 = 76;
/// One of fewer lines has none for the rate over time.
const LOW: u16 = 20;
/// What a plot has below it: the axis, and its labels.
const UNDER_A_PLOT: u16 = 2;
/// The name of what others take.
const DISTURBED: &str = "disturbed";
/// Columns of a curve's name at its end.
const NAME: u16 = 4;
/// Fewest letters of what is measured.
const LEAST_OF_A_NAME: usize = 10;

/// The percentiles over time: as many curves as can be told apart in a terminal, with colours or without.
pub const PERCENTILES: [(f64, Curve); 3] = [
    (50.0, Curve { name: "p50", colour: Color::Cyan, marker: Marker::Braille, kind: GraphType::Line }),
    (90.0, Curve { name: "p90", colour: Color::Yellow, marker: Marker::Dot, kind: GraphType::Scatter }),
    (99.0, Curve { name: "p99", colour: Color::Magenta, marker: Marker::HalfBlock, kind: GraphType::Scatter }),
];

/// How a curve looks, and what it is called at its end.
#[derive(Clone, Copy, Debug)]
pub struct Curve {
    name: &'static str,
    colour: Color,
    marker: Marker,
    kind: GraphType,
}

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
    /// What others took from the last window, where that counts.
    pub disturbance: Option<Disturbance>,
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
    title: Line<'a>,
    /// The lowest value of the vertical axis, and the highest.
    bounds: [f64; 2],
    /// The text of a value on that axis.
    label: fn(f64) -> String,
    /// Points of seconds and values.
    curves: &'a [(Curve, Vec<(f64, f64)>)],
}

impl Board {
    /// The board of a run on those models, still without figures.
    pub fn new(title: &str) -> Self {
        Self {
            title: title.to_owned(),
            standing: Standing::default(),
            outstanding: 0,
            usage: (None, None),
            disturbance: None,
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
        let (is_narrow, is_low) = (frame.area().width < NARROW, frame.area().height < LOW);
        let of_curves = Constraint::Percentage(if is_narrow { 100 } else { 64 });
        let [left, right] = Layout::horizontal([of_curves, Constraint::Fill(1)]).areas(body);
        let of_rate = Constraint::Percentage(if is_low { 0 } else { 45 });
        let [rate, latencies] = Layout::vertical([of_rate, Constraint::Fill(1)]).areas(left);
        self.draw_head(frame, head);
        frame.render_widget(Paragraph::new(self.figures(is_narrow)), figures);
        if !is_low {
            self.draw_rate(frame, rate);
        }
        self.draw_latencies(frame, latencies);
        if !is_narrow {
            let border = Border::bordered().title(" latency histogram ");
            let histogram = self.histogram(border.inner(right));
            frame.render_widget(Paragraph::new(histogram).block(border), right);
        }
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
        let parts = parts.join(", ");
        // A long name leaves room for where the run is.
        let room = usize::from(name.width).saturating_sub(4 + parts.chars().count()).max(LEAST_OF_A_NAME);
        let title = Span::from(shortened::beginning(&self.title, room)).bold();
        frame.render_widget(Line::from(vec![title, "  ".into(), parts.into()]), name);
        frame.render_widget(Line::from(time), times);
    }

    /// Three lines of figures in four columns, or three where that is too wide.
    fn figures(&self, is_narrow: bool) -> Vec<Line<'_>> {
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
            [("errors", standing.failed.to_string()), ("p99", percentile(2)), self.disturbed(), ("", String::new())],
        ];
        let warning = plain.fg(Color::Yellow);
        let widths = if is_narrow { [(9, 16), (4, 9), (12, 9), (0, 0)] } else { [(9, 18), (4, 10), (12, 9), (7, 0)] };
        let line = |cells: [(&'static str, String); 4]| {
            let shown = cells.into_iter().zip(widths).filter(|(_, (names, _))| *names > 0);
            let spans = shown.flat_map(|((name, value), (names, values))| {
                let style = match name {
                    "errors" => errors,
                    DISTURBED => warning,
                    _ => plain,
                };
                [Span::from(format!("{name:<names$}")).dim(), Span::styled(format!("{value:<values$}"), style)]
            });
            Line::from(spans.collect::<Vec<_>>())
        };
        rows.map(line).to_vec()
    }

    /// What others take, as a name and a value.
    fn disturbed(&self) -> (&'static str, String) {
        let gravest = self.disturbance.and_then(|disturbance| disturbance.causes().next());
        let Some((cause, share)) = gravest else { return ("", String::new()) };
        let who = match cause {
            Cause::Steal => "hypervisor",
            Cause::Others | Cause::Waiting => "others",
            Cause::Throttled => "quota",
            Cause::Slowed => "slowed",
        };
        (DISTURBED, format!("{who} {:.0}%", share * 100.0))
    }

    fn draw_rate(&self, frame: &mut Frame<'_>, area: Rect) {
        let points: Vec<(f64, f64)> = self.points.iter().map(|point| (point.at, point.throughput)).collect();
        let most = points.iter().map(|point| point.1).fold(0.0, f64::max);
        let top = if most > 0.0 { most * 1.1 } else { 1.0 };
        let curves =
            [(Curve { name: "", colour: Color::Green, marker: Marker::Braille, kind: GraphType::Line }, points)];
        let title = Line::from(" infer/s ");
        self.draw_chart(frame, area, Diagram { title, bounds: [0.0, top], label: digits, curves: &curves });
    }

    fn draw_latencies(&self, frame: &mut Frame<'_>, area: Rect) {
        let curves: Vec<(Curve, Vec<(f64, f64)>)> = PERCENTILES
            .into_iter()
            .enumerate()
            .map(|(number, (_, curve))| {
                // The start of a load may be a thousand times slower than the rest.
                let points =
                    self.points.iter().filter_map(|point| Some((point.at, point.latencies[number]?.max(1.0).log10())));
                (curve, points.collect())
            })
            .collect();
        let all = || curves.iter().flat_map(|(_, points)| points).map(|point| point.1);
        let (least, most) = (all().fold(f64::INFINITY, f64::min), all().fold(0.0, f64::max));
        let bounds = if most > 0.0 { [least - 0.1, most + 0.1] } else { [3.0, 6.0] };
        let label = |power| latency(10_f64.powf(power));
        self.draw_chart(frame, area, Diagram { title: Line::from(" latency "), bounds, label, curves: &curves });
    }

    fn draw_chart(&self, frame: &mut Frame<'_>, area: Rect, diagram: Diagram<'_>) {
        let Diagram { title, bounds: [bottom, top], label: name, curves } = diagram;
        let border = Border::bordered().title(title);
        let inner = border.inner(area);
        frame.render_widget(border, area);
        let of_names = if curves.iter().any(|(curve, _)| !curve.name.is_empty()) { NAME } else { 0 };
        let [plot, names] = Layout::horizontal([Constraint::Fill(1), Constraint::Length(of_names)]).areas(inner);
        let from = self.points.front().map_or(0.0, |point| point.at);
        let to = self.points.back().map_or(1.0, |point| point.at).max(from + 1.0);
        // The last one lies over the others: the lowest, which fewest hide.
        let datasets = curves.iter().rev().map(|(curve, points)| {
            let line = Dataset::default().marker(curve.marker).graph_type(curve.kind);
            line.style(Style::new().fg(curve.colour)).data(points)
        });
        let seconds = |at: f64| clock(Duration::try_from_secs_f64(at).unwrap_or_default());
        let x = Axis::default().bounds([from, to]).labels([seconds(from), seconds(to)]);
        let middle = (inner.height > UNDER_A_PLOT + 4).then(|| name((bottom + top) / 2.0));
        let labels = [Some(name(bottom)), middle, Some(name(top))].into_iter().flatten();
        let y = Axis::default().bounds([bottom, top]).labels(labels);
        frame.render_widget(Chart::new(datasets.collect()).x_axis(x).y_axis(y).legend_position(None), plot);
        let last = |(curve, points): &(Curve, Vec<(f64, f64)>)| points.last().map(|(_, value)| (*curve, *value));
        let ends: Vec<(Curve, f64)> = curves.iter().filter_map(last).collect();
        let lines = usize::from(inner.height.saturating_sub(UNDER_A_PLOT));
        let heights: Vec<f64> = ends.iter().map(|(_, value)| (value - bottom) / (top - bottom)).collect();
        for ((curve, _), line) in ends.iter().zip(lines_of(&heights, lines)) {
            let line_area = Rect { y: names.y + line, height: 1, ..names };
            frame.render_widget(Line::from(Span::from(format!(" {}", curve.name)).fg(curve.colour)), line_area);
        }
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

/// On which of so many lines, from the top, curves are named whose ends are at these heights, 0 to 1 and ascending: each
/// on one of its own. None if there are too few.
fn lines_of(heights: &[f64], lines: usize) -> Vec<u16> {
    if heights.len() > lines {
        return Vec::new();
    }
    let last = lines as f64 - 1.0;
    let mut taken: Vec<usize> = Vec::with_capacity(heights.len());
    for (number, height) in heights.iter().enumerate() {
        let wanted = ((1.0 - height.clamp(0.0, 1.0)) * last).round() as usize;
        // Those that follow lie above it.
        let highest = heights.len() - 1 - number;
        let lowest = taken.last().map_or(lines - 1, |below| below - 1);
        taken.push(wanted.clamp(highest, lowest));
    }
    taken.into_iter().filter_map(|line| u16::try_from(line).ok()).collect()
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;

    /// The lines of a screen with figures of ten blocks.
    fn screen(width: u16, height: u16, disturbance: Option<Disturbance>) -> Vec<String> {
        let mut board = Board { disturbance, ..Board::new("resnet50") };
        for second in 0..10 {
            let latencies = [2e6, 3e6, 9e6].map(|ns| Some(ns * (1.0 + f64::from(second) / 50.0)));
            let point = Point { at: f64::from(second), throughput: 2_000.0, latencies, late_ns: None };
            board.push(point, Slice::default());
        }
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| board.draw(frame)).unwrap();
        let cells = terminal.backend().buffer().content.chunks(usize::from(width));
        cells.map(|line| line.iter().map(|cell| cell.symbol()).collect()).collect()
    }

    #[test]
    fn a_small_terminal_has_the_figures_and_a_chart_whose_curves_are_named() {
        for (width, height) in [(60, 15), (80, 24), (200, 50)] {
            let lines = screen(width, height, Some(Disturbance::new(Cause::Others, 0.24)));
            let text = lines.join("\n");
            assert!(lines[3].contains("disturbed") && lines[3].contains("others 24%"), "{text}");
            assert!(lines[1].contains("2000 infer/s") && lines[2].contains("p90"), "{text}");
            let named = |name: &str| lines[4..].iter().filter(|line| line.contains(&format!(" {name}│"))).count();
            assert!(["p50", "p90", "p99"].iter().all(|name| named(name) == 1), "{text}");
            assert!(lines.last().unwrap().starts_with("q: "), "{text}");
            let (is_high, is_wide) = (height >= LOW, width >= NARROW);
            assert_eq!((text.contains(" infer/s ─"), text.contains("histogram")), (is_high, is_wide), "{text}");
        }
        assert!(!screen(80, 24, None).join("").contains(DISTURBED));
    }

    #[test]
    fn a_long_name_leaves_room_for_where_the_run_is() {
        let mut board = Board::new(&"a-long-name-".repeat(12));
        board.standing.position = "level 2/5".to_owned();
        board.standing.window = Some((3, 10));
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        terminal.draw(|frame| board.draw(frame)).unwrap();
        let first: String = terminal.backend().buffer().content[..80].iter().map(|cell| cell.symbol()).collect();
        assert!(first.starts_with("a-long-name-a-long-name-") && first.contains("…"), "{first}");
        assert!(first.contains("level 2/5, window 3/10") && first.ends_with("0:00"), "{first}");
    }

    #[test]
    fn names_of_curves_never_share_a_line() {
        assert_eq!(lines_of(&[0.0, 0.5, 1.0], 5), [4, 2, 0]);
        assert_eq!(lines_of(&[0.5, 0.5, 0.5], 5), [2, 1, 0]);
        assert_eq!(lines_of(&[0.9, 0.95, 1.0], 5), [2, 1, 0], "moved down by those above");
        assert_eq!(lines_of(&[0.0, 0.0, 0.1], 3), [2, 1, 0]);
        assert!(lines_of(&[0.0, 0.5, 1.0], 2).is_empty() && lines_of(&[], 0).is_empty());
    }
}
