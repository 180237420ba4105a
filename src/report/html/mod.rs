//! The report as one self-contained page: no host, no script. It contains the result as JSON.

mod captions;
mod embed;
mod environment;
mod facts;
mod headline;
mod levels;
mod parts;
mod periodic;
mod shares;
mod stages;
mod study;
mod style;
mod tiles;
mod tune;
mod variants;

use std::io::{self, Write as _};
use std::path::Path;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::error::{Error, Result};
use crate::html::captions::Signs;
use crate::html::parts::{change_class, whose};
use crate::partial::unwritten;
use crate::pictures::{Shown, draw, letter, no_failures};
use crate::result::RunResult;
use crate::stdio::{note, shown};
use crate::terms::{Picture, PictureFile};
use crate::{Interrupts, SafeFile, loads, raster};

pub use tune::page as tune_page;

/// What a page may load: nothing but itself.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";
const NO_ANSWER: &str = "Nothing to show: no request succeeded.";

/// The content of a page.
pub struct Page<'a> {
    /// Results; the others are compared with the first.
    pub results: &'a [Shown<'a>],
    /// The number of the one that the page is about.
    pub main: usize,
}

/// Writes the report to a file, which appears when it is complete.
///
/// # Errors
/// If it cannot be written; the message names `flag`.
pub fn write(flag: &str, path: &Path, interrupts: Interrupts, page: &Page<'_>) -> Result<()> {
    put(path, interrupts, page.text().as_bytes()).map_err(|error| refused(flag, path, &error))
}

/// Writes a single picture.
///
/// # Errors
/// If it cannot be written, or the results have nothing to show in it.
pub fn write_figure(file: &PictureFile, interrupts: Interrupts, page: &Page<'_>) -> Result<()> {
    let PictureFile { figure, path } = file;
    let flag = format!("--svg {}:", figure.name());
    let is_reported =
        page.results.get(page.main).is_some_and(|run| run.result.levels.iter().any(|level| !level.windows.is_empty()));
    let none = (*figure == Picture::Failures && is_reported).then(no_failures);
    let Some(drawn) = draw(*figure, page.results, page.main).or(none) else {
        let why = match figure {
            Picture::Comparison => "takes two results with a level in common that is valid in both, or one of variants",
            Picture::Sizes | Picture::Bandwidth => {
                "has nothing to show: it takes a result of --matrix with several --matrix-sizes"
            }
            Picture::Rounds => "has nothing to show: it takes a result of --variant or --matrix",
            _ => "has nothing to show: no level of the result has what it draws",
        };
        let error = Error::output(format!("{flag}{}: the figure {why}", path.display()));
        if page.results.get(page.main).is_some_and(|run| run.result.interrupted) {
            note!("{error}");
            return Ok(());
        }
        return Err(error);
    };
    let alone = style::alone(&drawn.into_string());
    let bytes = match raster::is_png(path) {
        true => raster::png(&alone)
            .map_err(|why| Error::output(format!("{flag}{}: cannot be drawn: {why}", path.display())))?,
        false => format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{alone}\n").into_bytes(),
    };
    put(path, interrupts, &bytes).map_err(|error| refused(&flag, path, &error))
}

/// Writes a file that appears when it is complete.
pub fn put(path: &Path, interrupts: Interrupts, bytes: &[u8]) -> io::Result<()> {
    let mut file = SafeFile::create(path, interrupts)?;
    file.write_all(bytes)?;
    file.finish()
}

/// The note on a result whose run the user ended.
pub const INTERRUPTED: &str = "Interrupted: what had not been measured by then is missing.";

/// The error of a file that cannot be written.
pub fn refused(flag: &str, path: &Path, error: &io::Error) -> Error {
    let space = if flag.ends_with(':') { "" } else { " " };
    unwritten(format_args!("{flag}{space}{}", path.display()), error)
}

/// What every page has beside its content.
struct Shell<'a> {
    title: &'a str,
    /// The commands that read the JSON in it.
    reads: &'a str,
    data: Markup,
}

impl Shell<'_> {
    fn text(&self, heading: &Markup, contents: &Markup, body: &Markup) -> String {
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    meta http-equiv="Content-Security-Policy" content=(POLICY);
                    link rel="icon" href="data:,";
                    title { (self.title) " – triton-bench" }
                    style { (PreEscaped(style::sheet())) }
                }
                body {
                    header { (heading) }
                    (contents)
                    main { (body) }
                    footer { "Written by triton-bench " (env!("CARGO_PKG_VERSION")) ". The results are in this file as JSON"
                        @if !self.reads.is_empty() { "; " code { (self.reads) } " read it" } "." }
                    (self.data)
                }
            }
        };
        page.into_string() + "\n"
    }
}

impl Page<'_> {
    /// The page.
    pub fn text(&self) -> String {
        let title = self.results.get(self.main).map(|run| models(run.result)).unwrap_or_default();
        let shell = Shell { title: &title, reads: "triton-bench report and compare", data: self.data() };
        let body = self.body();
        shell.text(&heading(self, &title), &contents(&body), &body)
    }

    fn body(&self) -> Markup {
        html! {
            (comparison(self.results))
            @for number in 0..self.results.len() { (variants::section(self.results, number)) }
            @for (number, run) in self.results.iter().enumerate() {
                @if run.result.periodic.is_some() { (whose(self.results, number)) (periodic::section(run.result)) }
            }
            @if has_levels(self.results) { (self.levels()) }
            @else { @for run in self.results { (facts::requirements(run.result)) } }
            (environment::environments(self.results))
        }
    }

    fn levels(&self) -> Markup {
        html! {
            section id="levels" {
                h2 { "Levels" }
                @for (number, run) in self.results.iter().enumerate() {
                    (whose(self.results, number))
                    (levels::table(run.result))
                    (levels::restarts(run.result))
                    (levels::server_figures(run.result))
                    (levels::servers(run.result))
                    (levels::verdicts(run.result))
                    (facts::requirements(run.result))
                }
            }
            (picture(self.results, Picture::Throughput, "Latency against throughput", captions::THROUGHPUT))
            @if draw(Picture::Tokens, self.results, 0).is_some() {
                (picture(self.results, Picture::Tokens, "Tokens over load", captions::TOKENS))
                (picture(self.results, Picture::Interactivity, "Throughput against interactivity", captions::INTERACTIVITY))
            }
            (picture(self.results, Picture::Spectrum, "Latency by percentile", captions::SPECTRUM))
            (over_time(self.results))
            (facts::sections(self.results))
        }
    }

    /// The results as JSON; the main one has its own element id.
    fn data(&self) -> Markup {
        html! {
            @for (number, run) in self.results.iter().enumerate() {
                @let json = PreEscaped(embed::json(run.result));
                @if number == self.main { script type="application/json" id="data" { (json) } }
                @else { script type="application/json" id={ "data-" (number + 1) } { (json) } }
            }
        }
    }
}

/// Whether there is more to show than variants and periodic loads, which have no levels.
fn has_levels(results: &[Shown<'_>]) -> bool {
    let has_other = |result: &RunResult| result.variants.is_some() || result.periodic.is_some();
    results.iter().any(|run| !run.result.levels.is_empty() || !has_other(run.result))
}

/// The requested models, as far as they fit into a heading.
fn models(result: &RunResult) -> String {
    let names: Vec<_> = result.setup.models.iter().take(3).map(|model| shown(&model.name).into_owned()).collect();
    let more = result.setup.models.len().saturating_sub(3);
    let suffix = if more > 0 { format!(" and {more} more") } else { String::new() };
    if names.is_empty() { "a run".to_owned() } else { names.join(", ") + &suffix }
}

fn heading(page: &Page<'_>, title: &str) -> Markup {
    html! {
        p.over { "Benchmark report" }
        h1 { (title) }
        @if let Some(run) = page.results.get(page.main) {
            @let setup = &run.result.setup;
            p.sub { (shown(setup.service())) " · " (loads::kind(&setup.mode)) " · "
                time datetime=(setup.began) { (setup.began.strftime("%Y-%m-%d %H:%M UTC")) } }
            @if page.results.len() > 1 { (compared(page.results)) }
            @if run.result.interrupted { p.sub { b { (INTERRUPTED) } } }
            @let answers = headline::answers(page);
            @for answer in &answers { (headline::sentence(answer)) }
            dl.tiles { (tiles::tiles(page, &answers)) }
        }
    }
}

/// Which results there are, by their letters in pictures.
fn compared(results: &[Shown<'_>]) -> Markup {
    html! {
        p.sub {
            @for (number, run) in results.iter().enumerate() {
                @if number > 0 { ", " }
                span.badge.letter { (letter(number)) } " " (run.name)
            }
            @match (crate::headline::comparisons(results).len(), results.len()) {
                (0, _) => {},
                (1, 2) => ". B is compared with A.",
                (compared, all) if compared + 1 == all => ". Each is compared with A.",
                _ => ". Those that have a level in common with A are compared with it.",
            }
        }
    }
}

/// Links to the sections of the page that are worth going to.
fn contents(body: &Markup) -> Markup {
    let all = [
        ("comparison", "Comparison"),
        ("variants", "Variants"),
        ("batches", "Batches"),
        ("levels", "Levels"),
        ("throughput", "Throughput"),
        ("tokens", "Tokens"),
        ("interactivity", "Interactivity"),
        ("spectrum", "Percentiles"),
        ("timeline", "Timeline"),
        ("waterfall", "Waterfall"),
        ("failures", "Failures"),
        ("instrument", "Instrument"),
        ("environment", "Environment"),
    ];
    let is_there = |id: &str| body.0.contains(&format!("<section id=\"{id}\""));
    let is_study = body.0.contains(&variants::heading(true).0);
    let title = |id: &str, name: &'static str| if id == "variants" && is_study { "Study" } else { name };
    html! {
        nav { @for (id, name) in all.into_iter().filter(|(id, _)| is_there(id)) {
            a href={ "#" (id) } { (title(id, name)) } } }
    }
}

/// A picture, and what its signs mean.
fn figure(drawn: &Markup, signs: Signs<'_>) -> Markup {
    let caption = captions::caption(drawn, signs);
    html! { figure { (drawn) @if !caption.is_empty() { figcaption { (caption) } } } }
}

fn picture(results: &[Shown<'_>], which: Picture, title: &str, signs: Signs<'_>) -> Markup {
    html! {
        section id=(which.name()) {
            h2 { (title) }
            @match draw(which, results, 0) {
                Some(drawn) => (figure(&drawn, signs)),
                None => p.none { (NO_ANSWER) },
            }
        }
    }
}

/// Whether loads were measured, but no request succeeded.
fn is_without_answers(result: &RunResult) -> bool {
    !result.levels.is_empty() && result.levels.iter().all(|level| level.client.latency.count() == 0)
}

/// Why nothing tells where the mean latency goes.
fn no_waterfall(result: &RunResult) -> &'static str {
    match &result.setup {
        _ if result.levels.iter().all(|level| level.server.is_none()) => {
            "This server does not report where a request's time goes."
        }
        setup if setup.entries.len() > 1 && !setup.has_turns() => {
            "Requests go to several models: the printed report has the server's times of each."
        }
        setup if setup.decoupled => "Of a decoupled model the server does not tell the times of a request as a whole.",
        _ => "This server does not report where a request's time goes.",
    }
}

/// What is specific to each result.
fn over_time(results: &[Shown<'_>]) -> Markup {
    let pictures = |which, signs: Signs<'_>, none: fn(&RunResult) -> &'static str| {
        html! {
            @for (number, run) in results.iter().enumerate() {
                (whose(results, number))
                @match draw(which, results, number) {
                    Some(drawn) => (figure(&drawn, signs)),
                    None if is_without_answers(run.result) => p.none { (NO_ANSWER) },
                    None => p.none { (none(run.result)) },
                }
            }
        }
    };
    html! {
        section id="timeline" {
            h2 { "Over time" }
            (pictures(Picture::Timeline, captions::TIMELINE, |_| "The result contains no windows."))
        }
        section id="heatmap" {
            h2 { "Latency over time" }
            (pictures(Picture::Heatmap, &[("", "How many requests took how long: modes and stalls that percentiles hide.")],
                |_| "The result contains no timeline."))
        }
        section id="waterfall" {
            h2 { "Where the time goes" }
            (pictures(Picture::Waterfall, &[("", "Means. Unexplained time is shown as its own part.")],
                no_waterfall))
            @for (number, run) in results.iter().enumerate() {
                (whose(results, number)) (facts::waterfall(run.result)) (stages::stages(run.result))
            }
        }
    }
}

fn comparison(results: &[Shown<'_>]) -> Markup {
    html! {
        @if results.len() > 1 {
            section id="comparison" {
                h2 { "Comparison" }
                (facts::differences(results))
                @match draw(Picture::Comparison, results, 0) {
                    Some(drawn) => (figure(&drawn, &[("", "Changes from the first result with 95 % intervals.")])),
                    None => p.none { "The results have no level in common that is valid in both." },
                }
                (facts::comparison(results))
            }
        }
    }
}

#[cfg(test)]
mod tests;
