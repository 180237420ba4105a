//! The rows of the catalogue.
//!
// budget: one list of all figures.

use crate::Unit;
use crate::figures::{Figure, Group, Source};
use crate::record::{Generated, SequenceTimes, Sessions};
use crate::summary::{ClientSummary, DecoupledSummary, OpenLoopSummary};

/// Every figure, those of the server first.
pub const CATALOGUE: &[Figure] = &[
    Figure {
        key: "throughput",
        unit: Unit::PerSecond,
        title: "throughput",
        short: "throughput",
        meaning: "Inferences of successful requests, a second.",
        more_is_better: Some(true),
        source: Source::Value(|client| Some(client.throughput())),
        ..of(Group::Level)
    },
    Figure {
        key: "errors",
        unit: Unit::Share,
        title: "errors",
        short: "errors",
        meaning: "Share of requests that failed.",
        source: Source::Share(|client| Some((client.failed, client.requests + client.failed))),
        ..of(Group::Level)
    },
    Figure {
        key: "latency",
        aliases: &["e2e", "request_latency"],
        title: "latency",
        short: "latency",
        meaning: "From the send of a request, in open loops the intended one, to its last response.",
        source: Source::Times(|client| Some(&client.latency)),
        ..of(Group::Level)
    },
    Figure {
        key: "input_bandwidth",
        unit: Unit::BytesPerSecond,
        title: "input bandwidth",
        short: "in",
        meaning: "Bytes of the input tensors of successful requests, a second.",
        more_is_better: Some(true),
        source: Source::Value(|client| Some(client.throughput() * client.tensors.input?)),
        ..of(Group::Level)
    },
    Figure {
        key: "output_bandwidth",
        unit: Unit::BytesPerSecond,
        title: "output bandwidth",
        short: "out",
        meaning: "Bytes of the output tensors of successful requests, a second, where their shapes are known.",
        more_is_better: Some(true),
        source: Source::Value(|client| Some(client.throughput() * client.tensors.output?)),
        ..of(Group::Level)
    },
    Figure {
        key: "goodput",
        unit: Unit::RequestsPerSecond,
        title: "goodput",
        short: "goodput",
        meaning: "Requests that kept the limits of --goodput, a second.",
        in_tables: true,
        more_is_better: Some(true),
        source: Source::Value(|client| client.goodput().map(|(rate, _)| rate)),
        ..of(Group::Generation)
    },
    Figure {
        key: "goodput_share",
        aliases: &["good"],
        unit: Unit::Share,
        title: "share of good requests",
        short: "good",
        meaning: "Share of requests that kept the limits of --goodput.",
        in_tables: true,
        more_is_better: Some(true),
        source: Source::Share(|client| Some((client.good?, client.requests + client.failed))),
        ..of(Group::Generation)
    },
    Figure {
        key: "ttft",
        aliases: &["time_to_first_token"],
        title: "time to first token",
        short: "TTFT",
        meaning: "From the send of a request to its first content.",
        in_tables: true,
        source: Source::Times(|client| Some(&generated(client)?.first_token)),
        ..of(Group::Generation)
    },
    Figure {
        key: "ttst",
        aliases: &["time_to_second_token"],
        title: "time to second token",
        short: "TTST",
        meaning: "From the first content of a request to its second.",
        source: Source::Times(|client| Some(&generated(client)?.second_token)),
        ..of(Group::Generation)
    },
    Figure {
        key: "itl",
        aliases: &["tpot", "inter_token_latency", "time_per_output_token"],
        title: "inter token latency",
        short: "ITL",
        meaning: "Mean time between the tokens of a request after its first content.",
        in_tables: true,
        source: Source::Times(|client| Some(&generated(client)?.inter_token)),
        ..of(Group::Generation)
    },
    Figure {
        key: "icl",
        aliases: &["inter_chunk_latency"],
        title: "inter chunk latency",
        short: "ICL",
        meaning: "Between neighbouring content events of a request.",
        source: Source::Times(|client| Some(&generated(client)?.gap)),
        ..of(Group::Generation)
    },
    Figure {
        key: "normalized_latency",
        title: "normalized latency",
        short: "per token",
        meaning: "Latency of a request by its tokens.",
        source: Source::Times(|client| Some(&generated(client)?.normalised)),
        ..of(Group::Generation)
    },
    Figure {
        key: "output_token_throughput",
        aliases: &["tokens/s"],
        unit: Unit::TokensPerSecond,
        title: "output token throughput",
        short: "output",
        meaning: "Tokens of all outputs, a second.",
        in_tables: true,
        more_is_better: Some(true),
        source: Source::Value(|client| text(client).map(|_| client.token_throughput())),
        ..of(Group::Generation)
    },
    Figure {
        key: "output_token_throughput_per_user",
        aliases: &["tokens/s/user"],
        unit: Unit::TokensPerSecond,
        title: "output token throughput per user",
        short: "output per user",
        meaning: "Mean over requests of the tokens a second that each one's user sees after the first.",
        in_tables: true,
        more_is_better: Some(true),
        source: Source::Value(|client| generated(client)?.tokens_per_user()),
        ..of(Group::Generation)
    },
    Figure {
        key: "output_length",
        aliases: &["output_sequence_length"],
        unit: Unit::Tokens,
        title: "output length",
        short: "output length",
        meaning: "Mean tokens of an output.",
        more_is_better: None,
        source: Source::Value(|client| text(client).map(|text| text.tokens as f64 / text.with_tokens() as f64)),
        ..of(Group::Generation)
    },
    Figure {
        key: "input_token_throughput",
        unit: Unit::TokensPerSecond,
        title: "input token throughput",
        short: "input",
        meaning: "Tokens of all inputs, a second, as the server counts them.",
        more_is_better: Some(true),
        source: Source::Value(ClientSummary::input_throughput),
        ..of(Group::Generation)
    },
    Figure {
        key: "total_token_throughput",
        unit: Unit::TokensPerSecond,
        title: "total token throughput",
        short: "input and output",
        meaning: "Tokens of all inputs and outputs, a second.",
        more_is_better: Some(true),
        source: Source::Value(|client| Some(client.input_throughput()? + client.token_throughput())),
        ..of(Group::Generation)
    },
    Figure {
        key: "input_length",
        aliases: &["input_sequence_length"],
        unit: Unit::Tokens,
        title: "input length",
        short: "input length",
        meaning: "Mean tokens of an input, as the server counts them.",
        more_is_better: None,
        source: Source::Value(|client| {
            let text = generated(client).filter(|text| text.inputs > 0)?;
            Some(text.input_tokens as f64 / text.inputs as f64)
        }),
        ..of(Group::Generation)
    },
    Figure {
        key: "cache_hit_rate",
        unit: Unit::Share,
        title: "cache hit rate",
        short: "cached",
        meaning: "Share of the tokens of inputs that the server took from a cache.",
        in_tables: true,
        more_is_better: None,
        source: Source::Value(|client| {
            let text = generated(client).filter(|text| text.cacheable_tokens > 0)?;
            Some(text.cached_tokens as f64 / text.cacheable_tokens as f64)
        }),
        ..of(Group::Generation)
    },
    Figure {
        key: "response_throughput",
        unit: Unit::ResponsesPerSecond,
        title: "response throughput",
        short: "responses",
        meaning: "Responses with data of a decoupled model, a second.",
        in_tables: true,
        more_is_better: Some(true),
        source: Source::Value(|client| decoupled(client).map(|_| client.response_throughput())),
        ..of(Group::Responses)
    },
    Figure {
        key: "first_response",
        title: "time to first response",
        short: "first response",
        meaning: "From the send of a request to the first response of a decoupled model.",
        in_tables: true,
        source: Source::Times(|client| Some(&decoupled(client)?.first_response)),
        ..of(Group::Responses)
    },
    Figure {
        key: "response_gap",
        title: "time between responses",
        short: "between responses",
        meaning: "Between neighbouring responses to a request.",
        source: Source::Times(|client| Some(&decoupled(client)?.gap)),
        ..of(Group::Responses)
    },
    Figure {
        key: "last_response",
        title: "time to last response",
        short: "last response",
        meaning: "From the send of a request to the last response of a decoupled model.",
        source: Source::Times(|client| Some(&decoupled(client)?.last_response)),
        ..of(Group::Responses)
    },
    Figure {
        key: "sequence_duration",
        title: "sequence duration",
        short: "sequence",
        meaning: "From the send of a sequence's first request, in open loops the intended one, to its last answer.",
        source: Source::Times(|client| Some(&sequences(client)?.duration)),
        ..of(Group::Sequences)
    },
    Figure {
        key: "final_latency",
        aliases: &["finalization_latency"],
        title: "final latency",
        short: "final",
        meaning: "Latency of a sequence's last request: the final answer after the last chunk.",
        in_tables: true,
        source: Source::Times(|client| Some(&sequences(client)?.last)),
        ..of(Group::Sequences)
    },
    Figure {
        key: "sequences_in_time",
        unit: Unit::Share,
        title: "sequences in time",
        short: "in time",
        meaning: "Share of paced sequences whose last answer came before a further request would have been due.",
        in_tables: true,
        more_is_better: Some(true),
        source: Source::Share(|client| {
            let sequences = sequences(client).filter(|sequences| sequences.count() > 0)?;
            Some((sequences.in_time?, sequences.count()))
        }),
        ..of(Group::Sequences)
    },
    Figure {
        key: "session_duration",
        title: "session duration",
        short: "session",
        meaning: "From the first send of a conversation to its last answer, with its delays.",
        source: Source::Times(|client| Some(&sessions(client)?.duration)),
        ..of(Group::Sessions)
    },
    Figure {
        key: "session_latency",
        title: "session latency",
        short: "session latency",
        meaning: "Latencies of all turns of a conversation, summed.",
        in_tables: true,
        source: Source::Times(|client| Some(&sessions(client)?.waiting)),
        ..of(Group::Sessions)
    },
    Figure {
        key: "service_time",
        title: "service time",
        short: "service time",
        meaning: "In open loops, from the actual send of a request to its last response.",
        more_is_better: None,
        source: Source::Times(|client| Some(&open_loop(client)?.service_time)),
        ..of(Group::Client)
    },
    Figure {
        key: "schedule_delay",
        title: "schedule delay",
        short: "sent late",
        meaning: "In open loops, from the intended to the actual send.",
        more_is_better: None,
        source: Source::Times(|client| Some(&open_loop(client)?.schedule_delay)),
        ..of(Group::Client)
    },
    Figure {
        key: "wakeup",
        title: "wake-up time",
        short: "wake-up",
        meaning: "From the last response until the waiting thread of the client woke up.",
        more_is_better: None,
        source: Source::Times(|client| client.wakeup.as_ref()),
        ..of(Group::Client)
    },
    Figure {
        key: "client_overhead",
        unit: Unit::Share,
        title: "client overhead",
        short: "client overhead",
        meaning: "Share of the time in which the client's threads were busy with its own work.",
        more_is_better: None,
        source: Source::Value(|client| Some(client.overhead_share)),
        ..of(Group::Client)
    },
];

/// What most figures of a group are: times, of which less is better.
const fn of(group: Group) -> Figure {
    Figure {
        key: "",
        aliases: &[],
        unit: Unit::Nanoseconds,
        title: "",
        short: "",
        meaning: "",
        group,
        in_tables: false,
        more_is_better: Some(false),
        source: Source::Value(|_| None),
    }
}

fn generated(client: &ClientSummary) -> Option<&Generated> {
    client.generated.as_deref()
}

/// What was generated, if its tokens are known.
fn text(client: &ClientSummary) -> Option<&Generated> {
    generated(client).filter(|generated| generated.with_tokens() > 0)
}

fn decoupled(client: &ClientSummary) -> Option<&DecoupledSummary> {
    client.decoupled.as_ref()
}

fn sequences(client: &ClientSummary) -> Option<&SequenceTimes> {
    client.sequence_times.as_deref()
}

fn sessions(client: &ClientSummary) -> Option<&Sessions> {
    client.sessions.as_deref()
}

fn open_loop(client: &ClientSummary) -> Option<&OpenLoopSummary> {
    client.open_loop.as_ref()
}
