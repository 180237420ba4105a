//! The program's own debugging: what it does and decides, on standard error, for those who work on it.
//!
//! `TRITON_BENCH_LOG` says what is logged: `debug` for all of it, `triton_bench::measure=debug,triton_bench::engine=trace` for
//! parts. Nothing is logged on the way of a request, and unless the variable is set, each line costs a comparison.

use std::env::{self, VarError};

use env_filter::{Builder, Filter};
use log::{Log, Metadata, Record};

use crate::clock::Stamp;
use crate::error::{Error, Result};
use crate::stdio;

/// What to log.
pub const VARIABLE: &str = "TRITON_BENCH_LOG";

/// Logs what a layer does or decides, by the name of its module below `triton_bench`, whichever crate the layer is.
#[macro_export]
macro_rules! debug {
    ($($line:tt)+) => {
        $crate::log::debug!(target: concat!("triton_bench::", module_path!()), $($line)+)
    };
}

/// Logs from here on what the variable asks for.
///
/// # Errors
///
/// The variable cannot be read as a filter.
pub fn start() -> Result<()> {
    let wanted = match env::var(VARIABLE) {
        Ok(wanted) if !wanted.trim().is_empty() => wanted,
        Ok(_) | Err(VarError::NotPresent) => return Ok(()),
        Err(VarError::NotUnicode(_)) => return Err(misread("it is not UTF-8")),
    };
    let logger = Logger { filter: filter(&wanted)?, start: Stamp::now() };
    let level = logger.filter.filter();
    // A second one in the same process: whoever calls the library has set up its own.
    if log::set_boxed_logger(Box::new(logger)).is_ok() {
        log::set_max_level(level);
    }
    Ok(())
}

fn filter(wanted: &str) -> Result<Filter> {
    let mut builder = Builder::new();
    builder.try_parse(wanted).map_err(|error| misread(&error.to_string()))?;
    Ok(builder.build())
}

fn misread(why: &str) -> Error {
    let example = "debug, or for example triton_bench::measure=debug";
    Error::usage(format!("{VARIABLE} cannot be read: {why}; give error, warn, info, {example}"))
}

struct Logger {
    filter: Filter,
    start: Stamp,
}

impl Log for Logger {
    fn enabled(&self, metadata: &Metadata) -> bool {
        self.filter.enabled(metadata)
    }

    fn log(&self, record: &Record) {
        if self.filter.matches(record) {
            let seconds = (Stamp::now() - self.start).as_secs_f64();
            let (level, target) = (record.level(), record.target());
            stdio::say(format_args!("[{seconds:9.6} {level} {target}] {}\n", stdio::shown(&record.args().to_string())));
        }
    }

    fn flush(&self) {}
}

#[cfg(test)]
mod tests {
    use super::filter;

    #[test]
    fn parts_are_asked_for_by_their_module() {
        let asked = filter("warn,triton_bench::engine=trace").unwrap();
        let enabled =
            |target: &str, level| asked.enabled(&log::Metadata::builder().target(target).level(level).build());
        assert!(enabled("triton_bench::engine::connecting", log::Level::Trace));
        assert!(enabled("triton_bench::measure", log::Level::Warn));
        assert!(!enabled("triton_bench::measure", log::Level::Info));
    }

    #[test]
    fn what_is_no_filter_is_refused_with_an_example() {
        let error = filter("triton_bench=loud").err().unwrap().to_string();
        assert!(error.contains("TRITON_BENCH_LOG") && error.contains("triton_bench::measure=debug"), "{error}");
    }
}
