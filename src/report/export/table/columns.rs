//! The columns of the table of requests. Times are stamps, whose unit is in their type; durations have it in their names.

use parquet::basic::Encoding;
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::Result;
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};
use parquet::file::writer::SerializedColumnWriter;
use parquet::schema::types::ColumnPath;

/// A request, with times in nanoseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default)]
pub struct Row {
    /// Number of the load that it belongs to, from 1.
    pub level: i64,
    /// The load's number: a concurrency, streams or a rate.
    pub load: f64,
    /// Its place among the payloads.
    pub payload: i64,
    /// Which server it went to.
    pub server: i64,
    /// Its sequence.
    pub sequence_id: Option<i64>,
    /// When it should have been sent, in open loops.
    pub intended: Option<i64>,
    /// When it was sent.
    pub sent: i64,
    /// When the first response that carried something came.
    pub first_response: Option<i64>,
    /// When it was over.
    pub end: i64,
    /// Responses, but for one that only ends the request.
    pub responses: i64,
    /// What the report calls its latency.
    pub latency_ns: i64,
    /// How much later than intended it was sent.
    pub schedule_delay_ns: Option<i64>,
    /// Positions of its texts in [`Texts`].
    pub texts: TextPositions,
}

/// Positions of a row's texts.
#[derive(Clone, Copy, Debug, Default)]
pub struct TextPositions {
    /// What kind of number the load's is.
    pub load_kind: usize,
    /// The entry of a mix, where there is one.
    pub model: Option<usize>,
    /// `OK`, or the code of its failure.
    pub status: usize,
}

/// Texts of the rows of a group, each once.
#[derive(Clone, Debug, Default)]
pub struct Texts(Vec<ByteArray>);

impl Texts {
    /// The place of a word.
    pub fn position(&mut self, word: &str) -> usize {
        let index = self.0.iter().position(|text| text.data() == word.as_bytes());
        index.unwrap_or_else(|| {
            self.0.push(word.into());
            self.0.len() - 1
        })
    }

    /// Forgets all of them.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

/// What a column shows of a row.
#[derive(Clone, Copy)]
enum Shows {
    Number(fn(&Row) -> i64),
    Maybe(fn(&Row) -> Option<i64>),
    Real(fn(&Row) -> f64),
    Word(fn(&Row) -> usize),
    MaybeWord(fn(&Row) -> Option<usize>),
}

/// A column.
pub struct Column {
    /// Its name.
    name: &'static str,
    /// What it means beside a number, in the schema's language.
    kind: &'static str,
    shows: Shows,
}

const STAMP: &str = "(TIMESTAMP(NANOS,true))";
const PLAIN: &str = "";
const TEXT: &str = "(STRING)";

/// All of them, in the file's order.
pub const COLUMNS: [Column; 15] = [
    Column { name: "level", kind: PLAIN, shows: Shows::Number(|row| row.level) },
    Column { name: "load_kind", kind: TEXT, shows: Shows::Word(|row| row.texts.load_kind) },
    Column { name: "load", kind: PLAIN, shows: Shows::Real(|row| row.load) },
    Column { name: "model", kind: TEXT, shows: Shows::MaybeWord(|row| row.texts.model) },
    Column { name: "payload", kind: PLAIN, shows: Shows::Number(|row| row.payload) },
    Column { name: "server", kind: PLAIN, shows: Shows::Number(|row| row.server) },
    Column { name: "sequence_id", kind: PLAIN, shows: Shows::Maybe(|row| row.sequence_id) },
    Column { name: "intended", kind: STAMP, shows: Shows::Maybe(|row| row.intended) },
    Column { name: "sent", kind: STAMP, shows: Shows::Number(|row| row.sent) },
    Column { name: "first_response", kind: STAMP, shows: Shows::Maybe(|row| row.first_response) },
    Column { name: "end", kind: STAMP, shows: Shows::Number(|row| row.end) },
    Column { name: "responses", kind: PLAIN, shows: Shows::Number(|row| row.responses) },
    Column { name: "latency_ns", kind: PLAIN, shows: Shows::Number(|row| row.latency_ns) },
    Column { name: "schedule_delay_ns", kind: PLAIN, shows: Shows::Maybe(|row| row.schedule_delay_ns) },
    Column { name: "status", kind: TEXT, shows: Shows::Word(|row| row.texts.status) },
];

/// The file's schema, in Parquet's language.
pub fn schema() -> String {
    let columns: String = COLUMNS.iter().map(|column| format!("{};\n", column.declared())).collect();
    format!("message requests {{\n{columns}}}")
}

/// How columns are written: whole numbers as differences from the one before, which makes stamps small without a codec.
pub fn properties() -> WriterProperties {
    let plain: WriterPropertiesBuilder = WriterProperties::builder().set_created_by(created_by());
    let numbers = COLUMNS.iter().filter(|column| matches!(column.shows, Shows::Number(_) | Shows::Maybe(_)));
    let packed = numbers.fold(plain, |properties, column| {
        let path = ColumnPath::from(column.name);
        properties
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED)
    });
    packed.build()
}

fn created_by() -> String {
    format!("triton-bench version {}", env!("CARGO_PKG_VERSION"))
}

impl Column {
    fn declared(&self) -> String {
        let Self { name, kind, shows } = self;
        let is = match shows {
            Shows::Number(_) => "required int64",
            Shows::Maybe(_) => "optional int64",
            Shows::Real(_) => "required double",
            Shows::Word(_) => "required binary",
            Shows::MaybeWord(_) => "optional binary",
        };
        format!("{is} {name} {kind}")
    }

    /// Writes what it shows of `rows`.
    pub fn write(&self, writer: &mut SerializedColumnWriter<'_>, rows: &[Row], Texts(texts): &Texts) -> Result<()> {
        let present = |there: &[bool]| there.iter().map(|there| i16::from(*there)).collect::<Vec<_>>();
        let written = match self.shows {
            Shows::Number(value) => {
                let values: Vec<i64> = rows.iter().map(value).collect();
                writer.typed::<Int64Type>().write_batch(&values, None, None)
            }
            Shows::Real(value) => {
                let values: Vec<f64> = rows.iter().map(value).collect();
                writer.typed::<DoubleType>().write_batch(&values, None, None)
            }
            Shows::Word(value) => {
                let values: Vec<ByteArray> = rows.iter().map(|row| texts[value(row)].clone()).collect();
                writer.typed::<ByteArrayType>().write_batch(&values, None, None)
            }
            Shows::Maybe(value) => {
                let values: Vec<i64> = rows.iter().filter_map(value).collect();
                let there: Vec<bool> = rows.iter().map(|row| value(row).is_some()).collect();
                writer.typed::<Int64Type>().write_batch(&values, Some(&present(&there)), None)
            }
            Shows::MaybeWord(value) => {
                let values: Vec<ByteArray> = rows.iter().filter_map(value).map(|index| texts[index].clone()).collect();
                let there: Vec<bool> = rows.iter().map(|row| value(row).is_some()).collect();
                writer.typed::<ByteArrayType>().write_batch(&values, Some(&present(&there)), None)
            }
        };
        written.map(drop)
    }
}
