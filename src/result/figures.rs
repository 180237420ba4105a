//! The catalogue of figures: each has one key, unit, title and meaning, and every output takes it from here.
//!
//! To add a figure, record it and add a row to [`CATALOGUE`]: flags read its key, and result files, comparisons, pages
//! and the Python module show it. Its line of the console and its column of the CSV are written in `report`.

mod rows;

use schemars::JsonSchema;
use serde::Serialize;

use crate::Unit;
use crate::ratio::{Estimate, Figures};
use crate::statistic::{CONFIDENCE, percentiles};
use crate::stats::{
    ALIKE_IF_UNKNOWN, Bounds, Clustered, EffectiveSize, Interval, Proportion, percentile_bounds, share_interval,
    student_t_quantile,
};
use crate::summary::{Bursts, ClientSummary, Distribution, LevelSummary, StatisticEstimate};
use crate::terms::{FAR_TAIL, FigureName, MeasurementPlan, Point, Statistic};

pub use rows::CATALOGUE;

/// A figure of a level, or a distribution of one.
#[derive(Debug)]
pub struct Figure {
    /// Its name in flags, files and programs.
    pub key: &'static str,
    /// Other names that the field has for it; flags accept them.
    pub aliases: &'static [&'static str],
    /// The unit of its values.
    pub unit: Unit,
    /// Its name in reports.
    pub title: &'static str,
    /// Its name where there is little space.
    pub short: &'static str,
    /// What it is, in a sentence.
    pub meaning: &'static str,
    /// What it tells of.
    pub group: Group,
    /// Whether tables of levels have a column of it, where a level has it and it is not one of every level.
    pub in_tables: bool,
    /// Whether more of it is better; none where it is neither, or tells of the client and not of the server.
    pub more_is_better: Option<bool>,
    source: Source,
}

/// What figures tell of; reports show those of a group together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Every level.
    Level,
    /// The text that models generate, and what is good of requests.
    Generation,
    /// Several responses to a request.
    Responses,
    /// Sequences of requests.
    Sequences,
    /// Conversations.
    Sessions,
    /// The client itself.
    Client,
}

/// How it is recorded.
#[derive(Debug)]
enum Source {
    /// One value.
    Value(fn(&ClientSummary) -> Option<f64>),
    /// How many of so many.
    Share(fn(&ClientSummary) -> Option<(u64, u64)>),
    /// A distribution of times; figures are its mean and its percentiles.
    Times(fn(&ClientSummary) -> Option<&Distribution>),
}

/// A figure's value, and what is known of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Value {
    /// The value.
    pub value: f64,
    /// Its 95 % confidence interval; none if too little is known.
    pub interval: Option<Interval>,
    /// Its one-sided bounds.
    pub bounds: Bounds,
}

impl Value {
    /// One whose interval is known, or is not.
    pub fn by(value: f64, interval: Option<Interval>) -> Self {
        Self { value, interval, bounds: interval.into() }
    }

    /// As a side of a ratio.
    pub fn estimate(self) -> Estimate {
        Estimate { value: self.value, interval: self.interval }
    }
}

/// A figure, and which point of it if it is a distribution.
#[derive(Clone, Copy, Debug)]
pub struct FigureAt {
    /// The row of the catalogue.
    pub figure: &'static Figure,
    /// The point; none for a single value.
    pub point: Option<Point>,
}

impl PartialEq for FigureAt {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

/// A row of the catalogue in a file, for readers who do not know the figure.
#[derive(Serialize, JsonSchema)]
pub struct FigureFile {
    /// Its key in `figures` of the levels.
    key: String,
    /// The unit of its values.
    unit: Unit,
    /// Its name.
    title: String,
    /// What it is.
    meaning: String,
}

impl Figure {
    /// The row with that key or alias.
    fn named(key: &str) -> Option<&'static Self> {
        CATALOGUE.iter().find(|row| row.key == key || row.aliases.contains(&key))
    }

    /// Whether it is a distribution.
    pub fn has_points(&self) -> bool {
        matches!(self.source, Source::Times(_))
    }

    /// Whether it is a share of so many.
    pub fn is_share(&self) -> bool {
        matches!(self.source, Source::Share(_))
    }

    /// Whether it is a value of which nothing tells how well it is known.
    pub fn is_a_value(&self) -> bool {
        matches!(self.source, Source::Value(_))
    }

    /// The figure at a point.
    pub fn at(&'static self, point: Option<Point>) -> FigureAt {
        FigureAt { figure: self, point }
    }

    /// Its times, if it is a distribution and there are any.
    pub fn times<'a>(&self, client: &'a ClientSummary) -> Option<&'a Distribution> {
        let Source::Times(read) = self.source else { return None };
        read(client).filter(|times| times.count() > 0)
    }

    /// Whether it is there.
    pub fn is_in(&self, client: &ClientSummary) -> bool {
        match self.source {
            Source::Value(read) => read(client).is_some(),
            Source::Share(read) => read(client).is_some(),
            Source::Times(_) => self.times(client).is_some(),
        }
    }
}

impl FigureAt {
    /// The figure of that name in a flag: the key of a value, or that of a distribution and its point, as in
    /// `ttft_p99`. Of a distribution alone the mean is meant; `avg` and `p99` are the latency's.
    pub fn named(text: &str) -> Option<Self> {
        if let Some(point) = point(text) {
            return Some(Figure::named("latency")?.at(Some(point)));
        }
        if let Some(figure) = Figure::named(text) {
            return Some(figure.at(figure.has_points().then_some(Point::Mean)));
        }
        let (key, at) = text.rsplit_once(['_', ' '])?;
        let (figure, point) = (Figure::named(key.trim())?, point(at)?);
        figure.has_points().then(|| figure.at(Some(point)))
    }

    /// The figure that a plan names.
    ///
    /// # Panics
    /// If no row has that key, which only the catalogue gives out.
    pub fn new(name: FigureName) -> Self {
        let figure = Figure::named(name.key).expect("names of figures come from the catalogue");
        figure.at(name.point)
    }

    /// The value over all starts of a level; `None` where there was only one, or not all of them have it.
    pub fn at_all_starts(self, level: &LevelSummary) -> Option<Value> {
        let figures = Figures::new(level);
        match self.statistic().and_then(|statistic| figures.over_starts(statistic)) {
            Some(across) => Some(Value::by(across.mean, across.interval)),
            None => figures.at_starts(&self.key()).map(|all| Value::by(all.value(), all.interval())),
        }
    }

    /// That of a statistic.
    pub fn of_statistic(statistic: Statistic) -> Self {
        let name = |key, point| Self::new(FigureName { key, point });
        match statistic {
            Statistic::Throughput => name("throughput", None),
            Statistic::MeanLatency => name("latency", Some(Point::Mean)),
            Statistic::Percentile(percentile) => name("latency", Some(Point::Percentile(percentile))),
        }
    }

    /// How a plan names it.
    pub fn name(self) -> FigureName {
        FigureName { key: self.figure.key, point: self.point }
    }

    /// The statistic that it is, if it is one of those that levels are measured by.
    pub fn statistic(self) -> Option<Statistic> {
        match (self.figure.key, self.point) {
            ("throughput", None) => Some(Statistic::Throughput),
            ("latency", Some(Point::Mean)) => Some(Statistic::MeanLatency),
            ("latency", Some(Point::Percentile(percentile))) => Some(Statistic::Percentile(percentile)),
            _ => None,
        }
    }

    /// Its key in files: `throughput`, `p99`, `ttft_p99`.
    pub fn key(self) -> String {
        self.with_point(self.figure.key, '_')
    }

    /// Its name where there is little space: `throughput`, `p99`, `TTFT p99`.
    pub fn short(self) -> String {
        self.with_point(self.figure.short, ' ')
    }

    /// The points of the latency have no name but their own.
    fn with_point(self, name: &str, separator: char) -> String {
        match self.point {
            None => name.to_owned(),
            Some(point) if self.statistic().is_some() => point.name(),
            Some(point) => format!("{name}{separator}{}", point.name()),
        }
    }

    /// Its value at a level; none if the level does not have it.
    pub fn value(self, level: &LevelSummary) -> Option<Value> {
        let found = self.value_with(&level.client, level.bursts)?;
        let Some(statistic) = self.statistic() else { return Some(found) };
        let (interval, bounds) = (
            StatisticEstimate::find(&level.intervals, statistic),
            StatisticEstimate::find_bounds(&level.intervals, statistic),
        );
        Some(Value { interval, bounds, ..found })
    }

    /// The same of windows, or of a part of a mix, as far as these tell by themselves.
    pub fn value_in(self, client: &ClientSummary) -> Option<Value> {
        self.value_with(client, None)
    }

    /// The same where it may be known how many requests count as one in shares.
    pub fn value_with(self, client: &ClientSummary, bursts: Option<Bursts>) -> Option<Value> {
        match (&self.figure.source, self.point) {
            (Source::Value(read), _) => read(client).map(|value| Value::by(value, None)),
            (Source::Share(read), _) => {
                let (hits, all) = read(client)?;
                let share = self.in_clusters(Proportion { hits, all }, bursts);
                Some(Value::by(share.proportion.share(), share_interval(share, CONFIDENCE)))
            }
            (Source::Times(_), point) => Some(of_times(self.figure.times(client)?, point?)),
        }
    }

    /// How many requests it is the share of, if it is one.
    pub fn cases(self, client: &ClientSummary) -> Option<u64> {
        let Source::Share(read) = self.figure.source else { return None };
        read(client).map(|(_, all)| all)
    }

    fn in_clusters(self, proportion: Proportion, bursts: Option<Bursts>) -> Clustered {
        proportion.in_clusters(match (self.figure.key, bursts) {
            ("errors", Some(bursts)) => bursts.failed,
            ("goodput_share", Some(bursts)) => bursts.good,
            _ => ALIKE_IF_UNKNOWN,
        })
    }

    /// What it is, in a file.
    pub fn in_file(self) -> FigureFile {
        let figure = self.figure;
        let title = self
            .point
            .map_or_else(|| figure.title.to_owned(), |point| format!("{} of the {}", point.label(), figure.title));
        FigureFile { key: self.key(), unit: figure.unit, title, meaning: figure.meaning.to_owned() }
    }
}

/// That point of a distribution.
pub(super) fn value_at(point: Point, times: &Distribution) -> f64 {
    match point {
        Point::Mean => times.mean_ns(),
        Point::Percentile(percentile) => times.percentile_ns(percentile) as f64,
    }
}

/// `avg`, `p99.9`.
fn point(text: &str) -> Option<Point> {
    if text == "avg" {
        return Some(Point::Mean);
    }
    let percentile: f64 = text.strip_prefix('p')?.trim().parse().ok()?;
    (percentile > 0.0 && percentile < 100.0).then_some(Point::Percentile(percentile))
}

/// Fewest that an interval of a mean is known from.
const LEAST: f64 = 10.0;

/// A point of times that only their distribution is known of.
fn of_times(times: &Distribution, point: Point) -> Value {
    let (value, few) = (value_at(point, times), times.count() as f64 / ALIKE_IF_UNKNOWN);
    let percentile = match point {
        Point::Percentile(percentile) => percentile,
        Point::Mean => {
            let half = student_t_quantile(0.5 + CONFIDENCE / 2.0, (few - 1.0).max(1.0)) * times.std_ns() / few.sqrt();
            let interval = Interval { low: (value - half).max(0.0), high: value + half };
            return Value::by(value, (few >= LEAST).then_some(interval));
        }
    };
    let within = |confidence| percentile_bounds(&times.histogram, percentile, EffectiveSize::of_both(few), confidence);
    let two_sided = within(0.5 + CONFIDENCE / 2.0);
    let interval = two_sided.low.zip(two_sided.high).map(|(low, high)| Interval { low, high });
    Value { value, interval, bounds: within(CONFIDENCE) }
}

/// The rows of a group.
pub fn rows(group: Group) -> impl Iterator<Item = &'static Figure> {
    CATALOGUE.iter().filter(move |row| row.group == group)
}

/// What tables of these levels have beside throughput and latency: of distributions the percentile that the run is
/// judged by, the 99th if it is not judged by one.
pub fn further(levels: &[LevelSummary], plan: &MeasurementPlan) -> Vec<FigureAt> {
    let point = Point::Percentile(plan.tail());
    let is_there = |row: &&Figure| row.in_tables && levels.iter().any(|level| row.is_in(&level.client));
    let at = |row: &'static Figure| row.at(row.has_points().then_some(point));
    CATALOGUE.iter().filter(is_there).map(at).collect()
}

/// Every figure of a level in a file, at the percentiles of a distribution that is told in full and those that the plan asks for.
pub fn all(plan: &MeasurementPlan) -> Vec<FigureAt> {
    at_points(CATALOGUE, &percentiles([FAR_TAIL].into_iter().chain(plan.asked_percentiles())))
}

/// Rows, those of distributions at the mean and these percentiles.
pub fn at_points(rows: &'static [Figure], percentiles: &[f64]) -> Vec<FigureAt> {
    let points = || [Point::Mean].into_iter().chain(percentiles.iter().copied().map(Point::Percentile));
    let row_points = |row: &'static Figure| match row.has_points() {
        true => points().map(|point| row.at(Some(point))).collect(),
        false => vec![row.at(None)],
    };
    rows.iter().flat_map(row_points).collect()
}

/// What the figures are that some of the levels have.
pub fn reported(levels: &[LevelSummary], plan: &MeasurementPlan) -> Vec<FigureFile> {
    let is_there = |figure_at: &FigureAt| levels.iter().any(|level| figure_at.figure.is_in(&level.client));
    all(plan).into_iter().filter(is_there).map(FigureAt::in_file).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Generated;
    use crate::summary::{LevelLoad, sample};

    #[test]
    fn keys_are_read_as_they_are_written() {
        for figure_at in all(&sample::plan()) {
            assert_eq!(FigureAt::named(&figure_at.key()), Some(figure_at), "{}", figure_at.key());
            assert_eq!(FigureAt::new(figure_at.name()), figure_at);
        }
        for (text, key) in [("tpot_p99", "itl_p99"), ("TTFT p99", ""), ("ttft p99", "ttft_p99"), ("e2e", "avg")] {
            let found = FigureAt::named(text).map(FigureAt::key);
            assert_eq!(found.unwrap_or_default(), key, "{text}");
        }
        for text in ["", "p0", "p100", "ttft_p100", "throughput_p99", "pinf", "ttft_", "_p99", "x"] {
            assert_eq!(FigureAt::named(text), None, "{text}");
        }
    }

    #[test]
    fn no_two_rows_have_a_name_in_common() {
        let names = CATALOGUE.iter().flat_map(|row| [&[row.key], row.aliases].concat());
        let mut names: Vec<&str> = names.collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
        assert!(CATALOGUE.iter().all(|row| row.meaning.ends_with('.') && point(row.key).is_none()));
    }

    #[test]
    fn every_figure_is_in_the_documentation() {
        let page = include_str!("../../docs/results.md");
        for row in CATALOGUE {
            let words = row.meaning.trim_end_matches('.');
            assert!(page.contains(&format!("| `{}`", row.key)) && page.contains(words), "{} {words}", row.key);
        }
    }

    #[test]
    fn what_is_not_there_has_no_value_and_the_rest_has_bounds() {
        let mut level = sample::level(LevelLoad::Concurrency(1), 900, 1_000_000);
        let ttft = FigureAt::named("ttft_p99").unwrap();
        assert_eq!(ttft.value(&level), None);
        let mut generated = Generated::empty();
        for ms in 1..=900 {
            generated.first_token.histogram.record(ms * 1_000_000).unwrap();
            generated.first_token.sum_ns += u128::from(ms * 1_000_000);
        }
        level.client.generated = Some(Box::new(generated));
        let value = ttft.value(&level).unwrap();
        assert!((value.value / 1e6 - 891.0).abs() < 1.0, "{value:?}");
        let (low, high) = (value.bounds.low.unwrap() / 1e6, value.bounds.high.unwrap() / 1e6);
        assert!(low > 850.0 && low < 889.0 && high > 893.0 && high < 901.0, "{value:?}");
        let mean = FigureAt::named("ttft").unwrap().value(&level).unwrap().interval.unwrap();
        assert!(mean.low < 450e6 && mean.low > 410e6 && mean.high > 451e6 && mean.high < 490e6, "{mean:?}");
    }
}
