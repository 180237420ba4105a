//! Rules of services of the OpenAI kind, in perf_analyzer's words where it has the rule, too.

use crate::terms::StageLoad;
use crate::validate::Rule;
use crate::{DataSource, Draft, Protocol, ServiceKind};
use ::data::{PromptForm, PromptLength, PromptSpec};

/// Flags of payloads that are generated.
const GENERATED: &[&str] = &[
    "--output-tokens",
    "--num-prompts",
    "--prefix-tokens",
    "--num-prefixes",
    "--conversations",
    "--media",
    "--prefix-media",
];
/// Flags of conversations that are generated.
const OF_TALKS: &[&str] = &["--turns", "--system-tokens", "--turn-delay"];

fn is_openai(draft: &Draft) -> bool {
    draft.plan.target.service == ServiceKind::OpenAi
}

/// What sessions that are played once do not go with.
fn beside_sessions(draft: &Draft) -> Vec<&'static str> {
    let others = ["--model-mix", "--prompt-tokens", "--sync"];
    let is_fit = |flag: &&str| *flag != "--prompt-tokens" || draft.plan.data.source.conversations().is_none();
    draft.given.among(&others).into_iter().filter(is_fit).collect()
}

/// What generated conversations do not go with.
const AGAINST_TALKS: &[&str] = &[
    "--model-mix",
    "--request-intervals",
    "--fixed-schedule",
    "--trace-replay",
    "--periodic-concurrency-range",
    "--sweep",
    "--sync",
    "--enable-mpi",
];

fn has_session_stages(draft: &Draft) -> bool {
    draft.plan.load.mode.stages().iter().any(|stage| matches!(stage.load, StageLoad::Sessions { .. }))
}

/// Whether every conversation is played once.
fn plays_sessions(draft: &Draft) -> bool {
    let stages = draft.plan.load.mode.stages();
    let are_sessions = stages.iter().all(|stage| matches!(stage.load, StageLoad::Sessions { .. }));
    draft.plan.load.mode.sessions().is_some() || (!stages.is_empty() && are_sessions)
}

/// Whether the load can be one of conversations that take turns.
fn takes_turns(draft: &Draft) -> bool {
    draft.given.among(AGAINST_TALKS).is_empty()
}

/// Rules of services of the OpenAI kind.
pub(super) const RULES: &[Rule] = &[
    Rule {
        broken: |draft| {
            let has_payloads = matches!(
                draft.plan.data.source,
                DataSource::Files(_) | DataSource::Lines(..) | DataSource::Prompts(_) | DataSource::SessionTrace(_)
            );
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
        broken: |draft| match &draft.plan.data.source {
            DataSource::Prompts(PromptSpec { media, prefix_media, form, conversations, prompt, .. }) => {
                let is_plain = *form == PromptForm::Messages && conversations.is_none();
                let has_text = !matches!(prompt, PromptLength::Dataset(_));
                !(media.is_empty() && prefix_media.is_empty() || is_plain && has_text)
            }
            _ => false,
        },
        message: |draft| {
            let flags = draft.given.among(&["--media", "--prefix-media"]).join(" and ");
            format!(
                "{flags}: only generated messages of chats hold media: use --endpoint v1/chat/completions, without \
                    --conversations and data sets"
            )
        },
    },
    Rule {
        broken: |draft| draft.given.has("--session-concurrency") && !is_openai(draft),
        message: |_| "Session concurrency mode is only supported with OpenAI service kind.".into(),
    },
    Rule {
        broken: |draft| draft.given.has("--session-concurrency") && !beside_sessions(draft).is_empty(),
        message: |draft| {
            let others = beside_sessions(draft).join(" and ");
            format!("--session-concurrency plays the conversations of --input-data as they are: leave out {others}")
        },
    },
    Rule {
        broken: |draft| {
            let has_prompts = !matches!(draft.plan.data.source, DataSource::SessionTrace(_));
            draft.given.has("--session-trace") && has_prompts
        },
        message: |_| "--session-trace has the payloads: leave out --input-data and --prompt-tokens".into(),
    },
    Rule {
        broken: |draft| draft.given.has("--session-trace") && !plays_sessions(draft),
        message: |_| {
            "--session-trace plays whole sessions: add --session-concurrency N, or --stage sessions:N:COUNT, and no other \
                load"
                .into()
        },
    },
    Rule {
        broken: |draft| has_session_stages(draft) && !draft.plan.target.openai.sessions,
        message: |_| {
            "--stage sessions: it plays the conversations of --session-trace or --conversations: add one of them".into()
        },
    },
    Rule {
        broken: |draft| !draft.given.has("--conversations") && !draft.given.among(OF_TALKS).is_empty(),
        message: |draft| {
            let flags = draft.given.among(OF_TALKS).join(" and ");
            format!("{flags} is for conversations that are generated: add --conversations")
        },
    },
    Rule {
        broken: |draft| draft.plan.data.source.conversations().is_some() && !takes_turns(draft),
        message: |draft| {
            format!(
                "{} takes turns under a concurrency, a rate or stages of these, of one model: leave out {}",
                draft.given.show("--conversations"),
                draft.given.among(AGAINST_TALKS).join(" and ")
            )
        },
    },
    Rule {
        broken: |draft| match &draft.plan.data.source {
            DataSource::Prompts(PromptSpec { conversations: Some(_), prompt, .. }) => {
                !matches!(prompt, PromptLength::Drawn(_))
            }
            _ => false,
        },
        message: |draft| {
            format!(
                "{} needs prompts of drawn lengths: {} has its own",
                draft.given.show("--conversations"),
                draft.given.show("--prompt-tokens")
            )
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
];
