//! Rules of services of the OpenAI kind, in perf_analyzer's words where it has the rule, too.

use crate::exit::Codes;
use crate::terms::StageLoad;
use crate::validate::facts::named;
use crate::validate::{Rule, made, rule};
use crate::{DataSource, Draft, Protocol, ServiceKind};
use ::data::{PromptCount, PromptForm, PromptLength, PromptSpec};

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

/// Rules of services of the OpenAI kind.
pub(super) const RULES: &[Rule] = &[
    // Under our own name the server is asked which models it has.
    rule(
        |draft| is_openai(draft) && draft.codes == Codes::PerfAnalyzers && draft.plan.target.model.name.is_empty(),
        "-m is missing: name the model to measure",
    ),
    rule(
        |draft| {
            let has_payloads = matches!(
                draft.plan.data.source,
                DataSource::Files(_) | DataSource::Lines(..) | DataSource::Prompts(_) | DataSource::SessionTrace(_)
            );
            is_openai(draft) && !has_payloads
        },
        "Must supply --input-data for OpenAI service kind. It names JSON files of payloads; --prompt-tokens \
         generates some",
    ),
    rule(
        |draft| draft.given.has("--prompt-tokens") && !matches!(draft.plan.data.source, DataSource::Prompts(_)),
        "{--prompt-tokens} generates payloads, but --input-data already has them: leave one out",
    ),
    made(|draft| {
        let flags = named(draft.given.among(GENERATED))?;
        (!draft.given.has("--prompt-tokens"))
            .then(|| format!("{flags} is for payloads that are generated: add --prompt-tokens"))
    }),
    rule(
        |draft| draft.given.has("--num-prefixes") && !draft.given.has("--prefix-tokens"),
        "{--num-prefixes} needs --prefix-tokens",
    ),
    rule(
        |draft| match &draft.plan.data.source {
            DataSource::Prompts(PromptSpec { prompt: PromptLength::Dataset(_), prefix, .. }) => prefix.is_some(),
            _ => false,
        },
        "{--prefix-tokens}: the prompts of a data set are sent as they are: leave it out",
    ),
    rule(
        |draft| match &draft.plan.data.source {
            DataSource::Prompts(PromptSpec { media, prefix_media, form, conversations, prompt, .. }) => {
                let is_plain = *form == PromptForm::Messages && conversations.is_none();
                let has_text = !matches!(prompt, PromptLength::Dataset(_));
                !(media.is_empty() && prefix_media.is_empty() || is_plain && has_text)
            }
            _ => false,
        },
        "{--media|--prefix-media}: only generated messages of chats hold media: use --endpoint v1/chat/completions, \
         without --conversations and data sets",
    ),
    rule(
        |draft| draft.given.has("--session-concurrency") && !is_openai(draft),
        "Session concurrency mode is only supported with OpenAI service kind.",
    ),
    made(|draft| {
        let others = named(beside_sessions(draft))?;
        draft.given.has("--session-concurrency").then(|| {
            format!("--session-concurrency plays the conversations of --input-data as they are: leave out {others}")
        })
    }),
    rule(
        |draft| {
            let has_prompts = !matches!(draft.plan.data.source, DataSource::SessionTrace(_));
            draft.given.has("--session-trace") && has_prompts
        },
        "--session-trace has the payloads: leave out --input-data and --prompt-tokens",
    ),
    rule(
        |draft| draft.given.has("--session-trace") && !plays_sessions(draft),
        "--session-trace plays whole sessions: add --session-concurrency N, or --stage sessions:N:COUNT, and no \
         other load",
    ),
    rule(
        |draft| has_session_stages(draft) && !draft.plan.target.openai.sessions,
        "--stage sessions: it plays the conversations of --session-trace or --conversations: add one of them",
    ),
    made(|draft| {
        let flags = named(draft.given.among(OF_TALKS))?;
        (!draft.given.has("--conversations"))
            .then(|| format!("{flags} is for conversations that are generated: add --conversations"))
    }),
    made(|draft| {
        let others = named(draft.given.among(AGAINST_TALKS))?;
        draft.plan.data.source.conversations().is_some().then(|| {
            format!(
                "{} takes turns under a concurrency, a rate or stages of these, of one model: leave out {others}",
                draft.given.show("--conversations")
            )
        })
    }),
    rule(
        |draft| match &draft.plan.data.source {
            DataSource::Prompts(PromptSpec { conversations: Some(_), prompt, .. }) => {
                !matches!(prompt, PromptLength::Drawn(_))
            }
            _ => false,
        },
        "{--conversations} needs prompts of drawn lengths: {--prompt-tokens} has its own",
    ),
    rule(
        |draft| match &draft.plan.data.source {
            DataSource::Prompts(PromptSpec { count: PromptCount::Unique, prompt, .. }) => {
                !matches!(prompt, PromptLength::Drawn(_))
            }
            _ => false,
        },
        "{--num-prompts} unique needs prompts of drawn lengths: {--prompt-tokens} says how many there are",
    ),
    rule(
        |draft| is_openai(draft) && draft.plan.target.openai.endpoint.is_empty(),
        "Must supply --endpoint for OpenAI service kind. For example, \"v1/chat/completions\".",
    ),
    rule(
        |draft| is_openai(draft) && draft.plan.data.batch_size != 1,
        "Batching is not currently supported with OpenAI service-kind: leave out {-b}",
    ),
    rule(
        |draft| is_openai(draft) && matches!(draft.plan.target.connection.protocol, Protocol::Grpc { .. }),
        "{-i}: services of the OpenAI kind speak HTTP: leave it out",
    ),
    rule(
        |draft| is_openai(draft) && draft.plan.data.shared_memory,
        "{--shared-memory}: services of the OpenAI kind have no shared memory: leave it out",
    ),
    rule(
        |draft| {
            let goodput = &draft.plan.measurement.goodput;
            let generates = is_openai(draft) || draft.plan.target.tokens_from.is_some();
            let of_tokens = [goodput.first_token, goodput.inter_token, goodput.normalized];
            !generates && of_tokens.iter().any(Option::is_some)
        },
        "{--goodput}: only language models (--service-kind openai, --tokens-from) have a ttft, an itl and an ntpot: \
         name a latency",
    ),
];
