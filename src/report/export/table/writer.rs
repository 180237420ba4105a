//! Writes the table in groups of rows.

use std::io;
use std::mem;
use std::path::Path;
use std::sync::Arc;

use parquet::errors::{ParquetError, Result as Written};
use parquet::file::metadata::KeyValue;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use serde_json::{Value, json};

use crate::SafeFile;
use crate::clock::Stamp;
use crate::error::{Error, Result};
use crate::export::table::columns::{COLUMNS, Row, TextPositions, Texts, properties, schema};
use crate::export::{ExperimentEnd, ExportSpec, Needs, RequestFile};
use crate::partial::unwritten;
use crate::record::RawRecord;
use crate::result::summary::{Headline, LevelLoad};

/// Rows of a group: what is kept in memory before it is written.
const GROUP: usize = 1 << 16;
/// The status of a request that succeeded.
const OK: &str = "OK";
/// The key under which the file's metadata say what the levels were.
const LEVELS: &str = "triton_bench.levels";

/// Writes the table of requests.
pub struct TableWriter {
    spec: ExportSpec,
    file: SerializedFileWriter<SafeFile>,
    rows: Vec<Row>,
    texts: Texts,
    /// The open level, if one is open.
    open: Option<LevelLoad>,
    /// What has been said of the levels that are over, and of the open one.
    levels: Vec<Value>,
    /// With which number each of them began.
    numbers: Vec<u64>,
    /// How many levels have begun.
    begun: u64,
    /// Rows of levels that are not taken back.
    kept: usize,
    /// Rows of the open level, or the last one.
    of_level: usize,
}

impl TableWriter {
    /// Opens a temporary file next to the table's path.
    ///
    /// # Errors
    /// If that file cannot be created.
    pub fn create(spec: ExportSpec) -> Result<Self> {
        let file = SafeFile::create(&spec.path, spec.interrupts).map_err(|error| failed(&spec.path, &error))?;
        let schema = parse_message_type(&schema()).map(Arc::new);
        let file = schema.and_then(|schema| SerializedFileWriter::new(file, schema, Arc::new(properties())));
        let file = file.map_err(|error| failed(&spec.path, &cause(error)))?;
        let (rows, texts) = (Vec::with_capacity(GROUP), Texts::default());
        let (levels, numbers) = (Vec::new(), Vec::new());
        Ok(Self { spec, file, rows, texts, open: None, levels, numbers, begun: 0, kept: 0, of_level: 0 })
    }

    fn row(&mut self, load: LevelLoad, record: &RawRecord) -> Row {
        let spec = &self.spec;
        let at = |stamp: Stamp| spec.anchor.epoch_ns(stamp).cast_signed();
        let entry = spec.payloads.get(record.payload.0 as usize).and_then(|payload| spec.entries.get(payload.model));
        let carrying = || record.responses().filter(|response| !response.empty);
        let first = carrying().next().map(|response| response.at);
        let latency = match spec.headline {
            Headline::ServiceTime => record.end.since(record.sent),
            Headline::ResponseTime => record.end.since(record.intended.unwrap_or(record.sent)),
            Headline::FirstResponse => first.unwrap_or(record.end).since(record.sent),
        };
        Row {
            level: self.levels.len() as i64,
            load: load.number(),
            payload: record.payload.0.into(),
            server: record.server as i64,
            sequence_id: Some(record.sequence_id.cast_signed()).filter(|id| *id != 0),
            intended: record.intended.map(at),
            sent: at(record.sent),
            first_response: first.map(at),
            end: at(record.end),
            responses: carrying().count() as i64,
            latency_ns: latency.cast_signed(),
            schedule_delay_ns: record.intended.map(|intended| record.sent.since(intended).cast_signed()),
            texts: TextPositions {
                load_kind: self.texts.position(load.kind()),
                model: entry.map(|name| self.texts.position(name)),
                status: self.texts.position(if record.failed() { &record.failure } else { OK }),
            },
        }
    }

    /// Writes the rows that are kept as a group.
    fn write_group(&mut self) -> Result<()> {
        let rows = mem::take(&mut self.rows);
        let written = if rows.is_empty() { Ok(()) } else { group(&mut self.file, &rows, &self.texts) };
        self.rows = rows;
        self.rows.clear();
        self.texts.clear();
        written.map_err(|error| failed(&self.spec.path, &cause(error)))
    }

    fn complete(mut self) -> Result<()> {
        self.write_group()?;
        let Self { spec, mut file, levels, .. } = self;
        let about = [
            (LEVELS, Value::from(levels).to_string()),
            ("triton_bench.latency", spec.headline.name().to_owned()),
            ("triton_bench.service_kind", spec.service_kind.to_lowercase()),
        ];
        for (key, value) in about {
            file.append_key_value_metadata(KeyValue::new(key.to_owned(), value));
        }
        let whole = file.into_inner().map_err(|error| failed(&spec.path, &cause(error)))?;
        whole.finish().map_err(|error| failed(&spec.path, &error))
    }
}

impl RequestFile for TableWriter {
    fn needs(&self) -> Needs {
        Needs { contents: false, failures: true }
    }

    fn begin_experiment(&mut self, load: LevelLoad) -> Result<()> {
        self.open = Some(load);
        self.kept += mem::take(&mut self.of_level);
        self.begun += 1;
        self.numbers.push(self.begun);
        self.levels.push(json!({ "level": self.levels.len() + 1, "load_kind": load.kind(), "load": load.number() }));
        Ok(())
    }

    fn record(&mut self, record: &RawRecord) -> Result<()> {
        let Some(load) = self.open else { return Ok(()) };
        let row = self.row(load, record);
        self.rows.push(row);
        self.of_level += 1;
        if self.rows.len() < GROUP { Ok(()) } else { self.write_group() }
    }

    fn end_experiment(&mut self, end: &ExperimentEnd) -> Result<()> {
        let (Some(_), Some(level)) = (self.open.take(), self.levels.last_mut()) else { return Ok(()) };
        let anchor = self.spec.anchor;
        let stamps = end.boundaries.iter().flatten().map(|stamp| anchor.epoch_ns(*stamp));
        level["window_boundaries_ns"] = stamps.collect::<Vec<_>>().into();
        level["missing_requests"] = end.missing.into();
        Ok(())
    }

    /// Rows that are written stay; the metadata say which level counts.
    fn replace_experiment(&mut self, earlier: u64) -> Result<()> {
        let by = self.levels.len();
        if let Some(index) = self.numbers.iter().position(|number| *number == earlier) {
            self.levels[index]["replaced_by"] = by.into();
        }
        Ok(())
    }

    /// Groups that are written stay, as requests outside of any window.
    fn discard_experiment(&mut self) -> Result<()> {
        if self.open.is_none() {
            return Ok(());
        }
        let is_written = self.of_level > self.rows.len();
        self.rows.truncate(self.rows.len().saturating_sub(mem::take(&mut self.of_level)));
        if is_written {
            return self.end_experiment(&ExperimentEnd::unknown());
        }
        self.open = None;
        self.levels.pop();
        self.numbers.pop();
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<()> {
        self.complete()
    }

    fn give_up(self: Box<Self>) -> Result<()> {
        if self.kept + self.of_level > 0 { self.complete() } else { Ok(()) }
    }

    /// Nothing: without its last bytes a Parquet file cannot be read, and there was no room for them.
    fn keep(self: Box<Self>, _: &Error) -> Option<u64> {
        None
    }
}

fn group(file: &mut SerializedFileWriter<SafeFile>, rows: &[Row], texts: &Texts) -> Written<()> {
    let mut group = file.next_row_group()?;
    for column in &COLUMNS {
        let mut writer = group.next_column()?.ok_or_else(|| ParquetError::General("a column is missing".to_owned()))?;
        column.write(&mut writer, rows, texts)?;
        writer.close()?;
    }
    group.close().map(drop)
}

/// What the system said, where that is why.
fn cause(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(other) => io::Error::other(other),
        },
        other => io::Error::other(other),
    }
}

fn failed(path: &Path, error: &io::Error) -> Error {
    unwritten(format_args!("--requests-file {}", path.display()), error)
}
