//! Section "Report": pictures and tables of the result for people; and the command line of `report`.

use std::path::PathBuf;

use clap::{ArgAction, Args, Parser};

use crate::Command;
use crate::error::{Error, Result};
use crate::plan::{Pages, ReportOf};
use crate::subcommand::{self, Arguments, Subcommand};
use crate::terms::{Picture, PictureFile};

/// The command `report`.
pub const SUBCOMMAND: Subcommand =
    Subcommand { name: "report", flags: subcommand::flags::<Report>, read: |_, arguments| read(arguments) };

const USAGE: &str = "triton-bench report RESULT.json... -o FILE.html [--svg FIGURE:FILE] [--markdown FILE]";

const AFTER: &str = "Results are files of --summary-file, or reports, which contain their results. Exit codes: 0 \
    written; 99 bad flags, files that are not results, or files that cannot be written.";

/// Makes a report of results: one self-contained HTML file, charts, tables.
#[derive(Parser, Debug)]
#[command(override_usage = USAGE, after_help = AFTER)]
struct Report {
    #[arg(hide = true)]
    results: Vec<PathBuf>,

    /// Writes the report. Several results are overlaid, and each is compared with the first
    #[arg(short, long, value_name = "FILE.html")]
    output: Option<PathBuf>,

    /// Writes a single chart, for a slide, as SVG, or as PNG where the file's name ends so: throughput, tokens,
    /// interactivity, spectrum, timeline, heatmap, waterfall, failures or comparison.
    /// Repeatable
    #[arg(long, value_name = "FIGURE:FILE", action = ArgAction::Append, value_parser = figure)]
    svg: Vec<PictureFile>,

    /// Writes tables for a pull request
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

/// Pictures and tables of the result.
#[derive(Args, Debug)]
#[command(next_help_heading = "Report")]
pub struct PageArgs {
    /// Writes a report with charts: one self-contained HTML file that includes the result. Default: off
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,

    /// Writes a single chart, for a slide, as SVG, or as PNG where the file's name ends so: throughput, tokens and
    /// interactivity (of language models), spectrum, timeline, heatmap, waterfall, failures, comparison (of variants, or with --baseline), rounds (of variants), or sizes and
    /// bandwidth (of --matrix-sizes). Repeatable. Default: none
    #[arg(long, value_name = "FIGURE:FILE", action = ArgAction::Append, value_parser = figure)]
    svg: Vec<PictureFile>,

    /// Writes the levels as a Markdown table, for a pull request. Default: off
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

impl PageArgs {
    /// What is written.
    pub fn plan(&self) -> Pages {
        Pages { html: self.report.clone(), figures: self.svg.clone(), markdown: self.markdown.clone() }
    }
}

/// `FIGURE:FILE`.
fn figure(text: &str) -> Result<PictureFile, String> {
    let names = Picture::ALL.map(Picture::name).join(", ");
    let rule = || format!("it must be FIGURE:FILE, where FIGURE is one of {names}");
    let (word, path) = text.split_once(':').filter(|(_, path)| !path.is_empty()).ok_or_else(rule)?;
    let figure = Picture::ALL.into_iter().find(|figure| figure.name() == word).ok_or_else(rule)?;
    if cfg!(not(feature = "png")) && path.to_ascii_lowercase().ends_with(".png") {
        return Err(
            "this program was built without PNG: `cargo build --release` makes one that has it; or name FILE.svg"
                .to_owned(),
        );
    }
    Ok(PictureFile { figure, path: path.into() })
}

/// Parses the arguments of `report`: flags, and results.
fn read(arguments: Arguments<'_>) -> Result<Command> {
    subcommand::read(SUBCOMMAND.name, arguments, |Report { results, output, svg, markdown }| {
        let pages = Pages { html: output, figures: svg, markdown };
        let refused = |rule| Err(Error::usage(format!("report {rule}; see triton-bench report --help")));
        if results.is_empty() {
            return refused("takes one or more files of --summary-file");
        }
        if pages == Pages::default() {
            return refused("has nothing to write: give -o FILE.html, --svg or --markdown");
        }
        Ok(Command::Report(ReportOf { results, pages }))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Command> {
        read(&mut line.split_whitespace().map(Into::into))
    }

    #[test]
    fn flags_are_read() {
        let Ok(Command::Report(wanted)) =
            parse("a.json b.json -o r.html --svg=heatmap:h.svg --svg spectrum:c:x.svg --markdown t.md")
        else {
            panic!("the line is good")
        };
        assert_eq!(wanted.results, [PathBuf::from("a.json"), "b.json".into()]);
        let figures = wanted.pages.figures.iter().map(|file| (file.figure, file.path.to_str().unwrap()));
        assert_eq!(figures.collect::<Vec<_>>(), [(Picture::Heatmap, "h.svg"), (Picture::Spectrum, "c:x.svg")]);
        assert_eq!((wanted.pages.html, wanted.pages.markdown), (Some("r.html".into()), Some("t.md".into())));
        assert!(matches!(parse("--help"), Ok(Command::Help(_))));
    }

    #[test]
    fn others_are_refused() {
        let refusal = |line| parse(line).unwrap_err().to_string();
        assert!(refusal("-o r.html").contains("takes one or more files"));
        assert!(refusal("a.json").contains("nothing to write"));
        assert!(refusal("a.json -o").contains("-o '': it must not be empty"));
        assert!(refusal("a.json --html x").contains("--html is not a flag of report"));
        let wrong = refusal("a.json --svg pie:x.svg");
        assert!(wrong.starts_with("--svg 'pie:x.svg': ") && wrong.contains("heatmap"), "{wrong}");
        assert!(refusal("a.json --svg heatmap:").contains("FIGURE:FILE"));
    }
}
