//! Rules of services of the OpenAI kind, in perf_analyzer's words where it has the rule, too.

use crate::data::{PromptLength, PromptSpec};
use crate::plan::validate::Rule;
use crate::plan::{DataSource, Draft, Protocol, ServiceKind};

/// Flags of payloads that are generated.
const GENERATED: &[&str] = &["--output-tokens", "--num-prompts", "--prefix-tokens", "--num-prefixes"];

fn is_openai(draft: &Draft) -> bool {
    draft.plan.target.service == ServiceKind::OpenAi
}

/// Rules of services of the OpenAI kind.
pub(super) const RULES: &[Rule] = &[
    Rule {
        broken: |draft| {
            let has_payloads =
                matches!(draft.plan.data.source, DataSource::Files(_) | DataSource::Lines(..) | DataSource::Prompts(_));
            is_openai(draft) && !has_payloads
        },
        message: |_| {
            "Must supply --input-data for OpenAI service kind. It names JSON files of payloads; --prompt-tokens \
                generates some"
                .into()
        },
    },
    Rule {
        broken: |draft| draft.given.has("--prompt-tokens") && !matches!(draft.plan.data.source, DataSource::Prompts(_)),
        message: |draft| {
            let flag = draft.given.show("--prompt-tokens");
            format!("{flag} generates payloads, but --input-data already has them: leave one out")
        },
    },
    Rule {
        broken: |draft| !draft.given.has("--prompt-tokens") && !draft.given.among(GENERATED).is_empty(),
        message: |draft| {
            let flags = draft.given.among(GENERATED).join(" and ");
            format!("{flags} is for payloads that are generated: add --prompt-tokens")
        },
    },
    Rule {
        broken: |draft| draft.given.has("--num-prefixes") && !draft.given.has("--prefix-tokens"),
        message: |draft| format!("{} needs --prefix-tokens", draft.given.show("--num-prefixes")),
    },
    Rule {
        broken: |draft| match &draft.plan.data.source {
            DataSource::Prompts(PromptSpec { prompt: PromptLength::Dataset(_), prefix, .. }) => prefix.is_some(),
            _ => false,
        },
        message: |draft| {
            format!(
                "{}: the prompts of a data set are sent as they are: leave it out",
                draft.given.show("--prefix-tokens")
            )
        },
    },
    Rule {
        broken: |draft| draft.given.has("--session-concurrency") && !is_openai(draft),
        message: |_| "Session concurrency mode is only supported with OpenAI service kind.".into(),
    },
    Rule {
        broken: |draft| {
            let others = ["--model-mix", "--prompt-tokens", "--sync"];
            draft.given.has("--session-concurrency") && !draft.given.among(&others).is_empty()
        },
        message: |draft| {
            let others = draft.given.among(&["--model-mix", "--prompt-tokens", "--sync"]).join(" and ");
            format!("--session-concurrency plays the conversations of --input-data as they are: leave out {others}")
        },
    },
    Rule {
        broken: |draft| is_openai(draft) && draft.plan.target.openai.endpoint.is_empty(),
        message: |_| "Must supply --endpoint for OpenAI service kind. For example, \"v1/chat/completions\".".into(),
    },
    Rule {
        broken: |draft| is_openai(draft) && draft.plan.data.batch_size != 1,
        message: |draft| {
            format!(
                "Batching is not currently supported with OpenAI service-kind: leave out {}",
                draft.given.show("-b")
            )
        },
    },
    Rule {
        broken: |draft| is_openai(draft) && matches!(draft.plan.target.connection.protocol, Protocol::Grpc { .. }),
        message: |draft| format!("{}: services of the OpenAI kind speak HTTP: leave it out", draft.given.show("-i")),
    },
    Rule {
        broken: |draft| is_openai(draft) && draft.plan.data.shared_memory,
        message: |draft| {
            let flag = draft.given.show("--shared-memory");
            format!("{flag}: services of the OpenAI kind have no shared memory: leave it out")
        },
    },
    Rule {
        broken: |draft| {
            let goodput = &draft.plan.measurement.goodput;
            let generates = is_openai(draft) || draft.plan.target.tokens_from.is_some();
            let of_tokens = [goodput.first_token, goodput.inter_token, goodput.normalized];
            !generates && of_tokens.iter().any(Option::is_some)
        },
        message: |draft| {
            let flag = draft.given.show("--goodput");
            format!(
                "{flag}: only language models (--service-kind openai, --tokens-from) have a ttft, an itl and an ntpot: name a latency"
            )
        },
    },
    Rule {
        broken: |draft| is_openai(draft) && draft.plan.target.metrics.is_some(),
        message: |_| "Server-side metric collection is only supported with Triton client backend.".into(),
    },
];
