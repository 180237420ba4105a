//! Section "OpenAI-compatible services".

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use crate::agents::agents;
use crate::lengths::{delay, length, prompt_length, turns};
use crate::media::media;
use crate::parsers::header;
use crate::plan::{MAX_CONCURRENCY, OpenAiPlan};
use crate::values::{boolean, integer, time, whole};
use ::data::{
    AgentSpec, ConversationSpec, ConversationTurns, Delay, MAX_TOKENS, MediaSpec, ModelName, PromptCount, PromptForm,
    PromptLength, PromptSpec, SessionTrace, SharedPrefix, TokenLength, TraceFormat, TraceOptions, TraceSource,
};

/// What is asked of services of the OpenAI kind.
#[derive(Args, Debug)]
#[command(next_help_heading = "OpenAI-compatible services (--service-kind openai)")]
pub struct OpenAiArgs {
    /// Path of the endpoint below the server's URL, such as `v1/chat/completions`, `v1/completions`, `v1/responses`,
    /// `v1/messages` (Anthropic's) or `v1/embeddings`; any other that takes JSON is as good, generated payloads go there
    /// as chats (to llama.cpp's `completion` as prompts). Default: none, but needed there
    #[arg(long, value_name = "PATH", value_parser = endpoint)]
    endpoint: Option<String>,

    /// Generates payloads instead of --input-data: prompts of this many tokens, made of words. Normally distributed, or
    /// as in `lognormal:MEAN:STDDEV[:MIN:MAX]` (also lognormal0, which is not shifted to MIN, normal, skew-normal with a
    /// third number, poisson:MEAN, uniform:MIN:MAX), or as recorded in `trace:FILE`, with its outputs, or the prompts of `dataset:FILE.json`, as
    /// long as its answers; `dataset:MIN:MAX:FILE.json` takes those of MIN to MAX tokens, a second pair bounds the answers. Default:
    /// off
    #[arg(long, value_name = "MEAN[:STDDEV]", value_parser = prompt_length)]
    prompt_tokens: Option<PromptLength>,

    /// Begins each generated prompt with one of --num-prefixes shared texts of this many tokens, before --prompt-tokens;
    /// takes the same distributions. Default: none
    #[arg(long, value_name = "MEAN[:STDDEV]", value_parser = length)]
    prefix_tokens: Option<TokenLength>,

    /// How many different prefixes there are, each of equally many prompts
    #[arg(long, value_name = "N", default_value = "1", value_parser = whole::<u32>(1, 10_000_000))]
    num_prefixes: u32,

    /// Maximum output tokens of generated payloads, their `max_tokens`, over v1/responses `max_output_tokens`; takes the
    /// same distributions as --prompt-tokens. Default: as recorded, or the server's default
    #[arg(long, value_name = "MEAN[:STDDEV]", value_parser = length)]
    output_tokens: Option<TokenLength>,

    /// A model's tokenizer.json, used to count the tokens of generated payloads, and of prompts and answers for which the server
    /// reports no usage. Default: none; each word of a payload, and each chunk of a stream, counts as one token
    #[arg(long, value_name = "FILE")]
    tokenizer: Option<PathBuf>,

    /// How many different payloads to generate (--request-count says how many requests are sent); `unique`: no request repeats
    /// what another of the run has sent, so that no cache of prefixes answers. Default: 100, or as many as are recorded
    #[arg(long, value_name = "N|unique", value_parser = prompt_count)]
    num_prompts: Option<PromptCount>,

    /// Attaches pictures, videos or sounds to generated prompts of chats: `image:`, `video:` or `audio:` and settings, such as
    /// `image:count=2,sizes=640x360,as=jpeg,at=0` or `video:sizes=1280x720x32,as=png`; repeat it for further ones.
    /// Without `at` (from 0, before the text, to 1) places are drawn. Videos are sent as `mp4`, or as frames. Default: none
    #[arg(long, value_name = "KIND:NAME=VALUE,...", value_parser = media)]
    media: Vec<MediaSpec>,

    /// The same for prefixes: what is attached is the same for all prompts that share one. Default: none
    #[arg(long, value_name = "KIND:NAME=VALUE,...", value_parser = media)]
    prefix_media: Vec<MediaSpec>,

    /// Generates this many conversations, whose turns are prompts of --prompt-tokens. Requests take turns in them: the next is the
    /// next conversation's, and waits for the turn before it; it includes all that was said. A finished conversation begins
    /// again. Default: off
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1, 10_000_000))]
    conversations: Option<u32>,

    /// How many turns each generated conversation has, or `endless`: as many as the load asks for, all alike; takes the same
    /// distributions as --prompt-tokens
    #[arg(long, value_name = "MEAN[:STDDEV]|endless", default_value = "10", value_parser = turns)]
    turns: ConversationTurns,

    /// Begins each generated conversation with a system prompt: that of --prefix-tokens, which it shares with others, and this
    /// many tokens of its own; takes the same distributions. Default: none of its own
    #[arg(long, value_name = "MEAN[:STDDEV]", value_parser = length)]
    system_tokens: Option<TokenLength>,

    /// Pauses a generated conversation after each answer for this many seconds, such as 0.15, as for a tool or a user who
    /// thinks; takes the same distributions, drawn in milliseconds, after `whole:` (and poisson) in whole seconds. Default: no pause
    #[arg(long, value_name = "MEAN[:STDDEV]", value_parser = delay)]
    turn_delay: Option<Delay>,

    /// Replays recorded sessions, in a file or a folder of JSON or JSON lines; repeat it for further ones. `otel:PATH` are
    /// OpenTelemetry spans of calls of language models: each call sends what the calls before it are answered now. `weka:PATH`
    /// are traces in Weka's format: prompts are rebuilt from the recorded numbers of their blocks, with the recorded beginnings
    /// in common. Each call follows those that it followed then. `agents:NAME=VALUE,...` are generated sessions of agents that
    /// call tools and give work to others, such as `agents:sessions=10,input=200,output=50` (docs/services.md). Needs --session-concurrency or --stage sessions:N:COUNT.
    /// Default: off
    #[arg(long, value_name = "FORMAT:PATH", value_parser = session_trace)]
    session_trace: Vec<Sessions>,

    /// How --session-trace is replayed: `max-wait=15s` bounds pauses, `default-tokens=1000` outputs of unknown length,
    /// `errors=true` keeps failed calls, `skip-invalid=false` refuses files and lines that cannot be used, `answers=live|recorded`
    /// (Weka's: recorded), `tools=forced` makes the model call the tools that were called (`free` leaves it to the model),
    /// `tool-tokens=more` gives such calls room for 4096 tokens (`recorded` does not), `below-tokens=N` only replays sessions
    /// whose longest call is shorter, `first=N` only the first N, `sessions=N` repeats sessions until there are N,
    /// `tags=repeated` begins those that are repeated with a text of their own, which no cache knows (`all` begins all so; Weka's
    /// have their own texts anyway), and `model.RECORDED=NAME` asks another model than that of the run. For Weka's: `idle-gap=60s` bounds the time between beginnings of calls (`none` keeps it), `think-time=false` takes pauses from the
    /// times of calls and not from their think_time, `block-tokens=64` are in a block that has no size. Default: these
    #[arg(long, value_name = "NAME=VALUE,...", default_value = "", hide_default_value = true,
        value_parser = trace_options)]
    session_trace_options: TraceOptions,

    /// Names the session of each turn in this header field. Default: none
    #[arg(long, value_name = "NAME", value_parser = field_name)]
    session_header: Option<String>,

    /// Holds answers to a form: the field `response_format` of every payload, a JSON object, such as
    /// `{"type":"json_object"}`. Default: none
    #[arg(long, value_name = "JSON", value_parser = object)]
    response_format: Option<String>,

    /// Plays this many conversations at a time, each once: payloads with the same `session_id` are its turns, each sent
    /// `delay` milliseconds after the previous answer. Each turn includes the conversation so far. Default: off
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1, u64::from(MAX_CONCURRENCY)))]
    session_concurrency: Option<u32>,
}

impl OpenAiArgs {
    /// Number of conversations at a time, if asked for.
    pub fn sessions(&self) -> Option<u32> {
        self.session_concurrency
    }

    /// Whether requests are turns of conversations.
    pub fn plays_turns(&self) -> bool {
        self.session_concurrency.is_some() || self.conversations.is_some() || !self.session_trace.is_empty()
    }

    /// Sessions to play: recorded ones and generated ones.
    pub fn session_trace(&self) -> Option<SessionTrace> {
        let recorded =
            |sessions: &Sessions| if let Sessions::Recorded(source) = sessions { Some(source.clone()) } else { None };
        let generated =
            |sessions: &Sessions| if let Sessions::Generated(spec) = sessions { Some(**spec) } else { None };
        let trace = SessionTrace {
            sources: self.session_trace.iter().filter_map(recorded).collect(),
            agents: self.session_trace.iter().filter_map(generated).collect(),
            options: self.session_trace_options.clone(),
            tokenizer: self.tokenizer.clone(),
        };
        (!self.session_trace.is_empty()).then_some(trace)
    }

    /// Notes on generated payloads.
    pub fn note(&self) -> impl Iterator<Item = String> {
        self.length_note().into_iter().chain(self.form_note())
    }

    /// Says that tokens are the server's, and words are generated.
    fn length_note(&self) -> Option<String> {
        let length = match self.prompt_tokens.as_ref()? {
            PromptLength::Drawn(length) => length.to_string(),
            PromptLength::Recorded(_) => "as many words as recorded tokens".to_owned(),
            PromptLength::Dataset(_) => "the words of the data set, whose answers have as many".to_owned(),
        };
        if self.tokenizer.is_some() {
            return None;
        }
        Some(format!(
            "--prompt-tokens: prompts have {length}; how many tokens that is depends on the server's tokenizer \
                (--tokenizer)"
        ))
    }

    /// Says that prompts are sent as chats where nobody knows whether the endpoint takes these.
    fn form_note(&self) -> Option<String> {
        let endpoint = self.endpoint.as_deref().filter(|_| self.prompt_tokens.is_some())?;
        (self.form() == PromptForm::Unknown).then(|| {
            format!(
                "--prompt-tokens: prompts are sent to '{endpoint}' as chats (`messages`), because its form is not known; \
                 --input-data takes whole payloads of another form"
            )
        })
    }

    /// The note if an address ends as the endpoint begins, as base URLs of OpenAI's clients do (`http://host/v1`): then requests
    /// name that part of the path twice.
    pub fn doubled(&self, url: &str) -> Option<String> {
        let endpoint = self.endpoint.as_deref()?;
        let address = url.split_once("://").map_or(url, |(_, address)| address);
        let (_, path) = address.split_once('/')?;
        let ends: Vec<&str> = path.trim_end_matches('/').split('/').collect();
        let begins: Vec<&str> = endpoint.split('?').next()?.split('/').collect();
        let is_shared = |count: &usize| ends.ends_with(&begins[..*count]);
        let count = (1..=begins.len()).rev().find(is_shared)?;
        let part = begins[..count].join("/");
        Some(format!(
            "-u ends with /{part}, and --endpoint begins with it, so requests go to /{part}/{endpoint} there: leave it out of -u, \
             unless the server has such a path"
        ))
    }

    /// Where in the payload prompts are.
    pub fn form(&self) -> PromptForm {
        PromptForm::of_endpoint(self.endpoint.as_deref().unwrap_or_default())
    }

    /// The payloads to generate, if any.
    pub fn prompts(&self) -> Option<PromptSpec> {
        let form = match self.form() {
            // A guess that a note tells; media are only possible in chats.
            PromptForm::Unknown => PromptForm::Messages,
            form => form,
        };
        self.prompt_tokens.clone().map(|prompt| PromptSpec {
            prompt,
            prefix: self.prefix_tokens.map(|length| SharedPrefix { length, count: self.num_prefixes }),
            output: self.output_tokens,
            count: self.num_prompts.unwrap_or_default(),
            form,
            tokenizer: self.tokenizer.clone(),
            media: self.media.clone(),
            prefix_media: self.prefix_media.clone(),
            conversations: self.conversations.map(|count| {
                let (system, delay) = (self.system_tokens, self.turn_delay);
                Box::new(ConversationSpec { count, turns: self.turns, own_system: system, delay })
            }),
        })
    }

    /// The settings of the service; with `streaming`, streams.
    pub fn plan(&self, streaming: bool) -> OpenAiPlan {
        let endpoint = self.endpoint.clone().unwrap_or_default();
        OpenAiPlan {
            endpoint,
            streaming,
            without_usage: false,
            tokenizer: self.tokenizer.clone(),
            response_format: self.response_format.clone(),
            sessions: self.plays_turns(),
            session_header: self.session_header.clone(),
        }
    }
}

/// How many payloads are generated.
fn prompt_count(text: &str) -> Result<PromptCount, String> {
    match text {
        "unique" => Ok(PromptCount::Unique),
        _ => match text.parse() {
            Ok(count @ 1..=10_000_000) => Ok(PromptCount::Exactly(count)),
            _ => Err("it must be a number from 1 to 10000000, or unique".to_owned()),
        },
    }
}

/// A path, without the leading slash.
fn endpoint(text: &str) -> Result<String, String> {
    let path = text.trim_start_matches('/');
    if path.is_empty() {
        return Err("it must be a path such as v1/chat/completions".to_owned());
    }
    if path.chars().any(|c| c.is_whitespace() || c.is_control() || c == '#') || !path.is_ascii() {
        return Err("a path holds no blanks, no # and nothing beyond ASCII: write these as %XX".to_owned());
    }
    if path.contains("://") {
        return Err("the server's address belongs to -u, only the path below it here".to_owned());
    }
    Ok(path.to_owned())
}

/// A source of sessions.
#[derive(Clone, Debug, PartialEq)]
enum Sessions {
    /// Recorded ones.
    Recorded(TraceSource),
    /// Generated ones.
    Generated(Box<AgentSpec>),
}

/// A format and a path that exists, as in `otel:PATH`, or sessions of agents that are generated.
fn session_trace(text: &str) -> Result<Sessions, String> {
    if let Some(settings) = text.strip_prefix("agents:") {
        return agents(settings).map(|spec| Sessions::Generated(Box::new(spec)));
    }
    let parse = |format: TraceFormat| Some((format, text.strip_prefix(format.word())?.strip_prefix(':')?));
    let found = TraceFormat::ALL.into_iter().find_map(parse);
    let (format, path) = found.ok_or(
        "it must be otel: or weka: and the path of a file or folder, or agents: and settings (docs/config.md)",
    )?;
    match Path::new(path).exists() {
        true => Ok(Sessions::Recorded(TraceSource { format, path: path.into() })),
        false => Err(format!("there is no file or folder '{path}'")),
    }
}

/// Settings of a replay, separated by commas.
fn trace_options(text: &str) -> Result<TraceOptions, String> {
    let mut options = TraceOptions::default();
    for setting in text.split(',').filter(|setting| !setting.is_empty()) {
        let (name, value) = setting.split_once('=').ok_or_else(|| format!("'{setting}' is not NAME=VALUE"))?;
        match name {
            "max-wait" => options.max_wait_ms = milliseconds(value)?,
            "default-tokens" => options.default_tokens = integer(value, 1, u64::from(MAX_TOKENS))?,
            "errors" => options.errors = boolean(value)?,
            "skip-invalid" => options.skip_invalid = boolean(value)?,
            "answers" => options.live_answers = Some(either(value, "answers are", ["live", "recorded"])?),
            "tools" => options.forces_tools = either(value, "tools are", ["forced", "free"])?,
            "tool-tokens" => options.room_for_tools = either(value, "tool-tokens are", ["more", "recorded"])?,
            "below-tokens" => options.below_tokens = Some(integer(value, 1, u64::MAX)?),
            "first" => options.first = Some(integer(value, 1, u64::from(u32::MAX))?),
            "sessions" => options.sessions = Some(integer(value, 1, u64::from(u32::MAX))?),
            "tags" => options.tags_all = either(value, "tags are", ["all", "repeated"])?,
            "idle-gap" if value == "none" => options.idle_gap_ms = None,
            "idle-gap" => options.idle_gap_ms = Some(milliseconds(value)?),
            "think-time" => options.think_time = boolean(value)?,
            "block-tokens" => options.block_tokens = integer(value, 1, u64::from(MAX_TOKENS))?,
            name => options.models.push(model_name(name, value)?),
        }
    }
    Ok(options)
}

/// Whether it is the first of two words.
fn either(value: &str, subject: &str, [first, second]: [&str; 2]) -> Result<bool, String> {
    match value == first || value == second {
        true => Ok(value == first),
        false => Err(format!("{subject} {first} or {second}")),
    }
}

fn milliseconds(text: &str) -> Result<u64, String> {
    Ok(time(text, Duration::from_millis(1))?.as_millis() as u64)
}

/// `model.RECORDED=NAME`.
fn model_name(setting: &str, name: &str) -> Result<ModelName, String> {
    let recorded = setting.strip_prefix("model.").ok_or_else(|| {
        format!(
            "'{setting}' is none of max-wait, default-tokens, errors, skip-invalid, answers, tools, tool-tokens, below-tokens, first, \
             sessions, tags, model.RECORDED, idle-gap, think-time, block-tokens"
        )
    })?;
    match recorded.is_empty() || name.is_empty() {
        true => Err(format!("'{setting}={name}' lacks a name: write model.RECORDED=NAME")),
        false => Ok(ModelName { recorded: recorded.to_owned(), name: name.to_owned() }),
    }
}

/// The name of a header field.
fn field_name(text: &str) -> Result<String, String> {
    header(&format!("{text}:x")).map(|(name, _)| name).map_err(|_| "that is no name of a header field".to_owned())
}

/// A JSON object, as it is written.
fn object(text: &str) -> Result<String, String> {
    match serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(format!("it must be a JSON object, such as {{\"type\":\"json_object\"}}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_paths() {
        assert_eq!(endpoint("/v1/completions?api-version=1").as_deref(), Ok("v1/completions?api-version=1"));
        assert!(["", "/", "a b", "a\r\nX: y", "http://h/v1", "é", "a#b"].iter().all(|text| endpoint(text).is_err()));
    }

    #[test]
    fn addresses_that_end_as_the_endpoint_begins_are_noted() {
        let chats = arguments("--endpoint v1/chat/completions?api-version=1");
        for (url, path) in [
            ("http://localhost:8000/v1", "/v1/v1/chat/completions?"),
            ("localhost:8000/v1/", "/v1/v1/chat/completions?"),
            ("https://h/openai/v1", "/v1/v1/chat/completions?"),
            ("h/v1/chat/completions", "/v1/chat/completions/v1/chat/completions?"),
        ] {
            let note = chats.doubled(url).unwrap_or_default();
            assert!(note.contains(path), "{url}: {note}");
        }
        for url in
            ["localhost:8000", "http://v1", "http://v1/", "http://h/v2", "http://h/v1/openai", "https://h/api-v1"]
        {
            assert_eq!(chats.doubled(url), None, "{url}");
        }
        assert_eq!(arguments("--endpoint chat/completions").doubled("http://h/v1"), None);
        assert_eq!(arguments("").doubled("http://h/v1"), None);
    }

    fn arguments(flags: &str) -> OpenAiArgs {
        #[derive(clap::Parser)]
        struct Program {
            #[command(flatten)]
            openai: OpenAiArgs,
        }
        let words = std::iter::once("p").chain(flags.split(' ').filter(|word| !word.is_empty()));
        <Program as clap::Parser>::try_parse_from(words).map(|program| program.openai).unwrap()
    }

    #[test]
    fn the_last_part_of_the_path_is_the_form() {
        for (endpoint, form) in [
            ("v1/chat/completions", PromptForm::Messages),
            ("openai/v1/completions?api-version=1", PromptForm::Prompt),
            ("completion", PromptForm::Prompt),
            ("v1/responses/", PromptForm::Responses),
            ("v1/messages", PromptForm::AnthropicMessages),
            ("v1/embeddings", PromptForm::Input),
            ("v1/rerank", PromptForm::Unknown),
            ("generate_stream", PromptForm::Unknown),
        ] {
            let plain = arguments(&format!("--endpoint {endpoint}"));
            assert_eq!(plain.form(), form, "{endpoint}");
            assert_eq!(plain.note().count(), 0, "no prompt is generated");
            let generated = arguments(&format!("--endpoint {endpoint} --prompt-tokens 5"));
            let has_note = generated.note().any(|note| note.contains(&format!("'{endpoint}' as chats")));
            assert_eq!(has_note, form == PromptForm::Unknown, "{endpoint}");
            let sent = if form == PromptForm::Unknown { PromptForm::Messages } else { form };
            assert_eq!(generated.prompts().map(|prompts| prompts.form), Some(sent));
        }
    }

    #[test]
    fn replays_are_set_by_name() {
        let options =
            trace_options("idle-gap=2s,think-time=true,block-tokens=16,first=3,model.opus-4=big,answers=live").unwrap();
        assert_eq!((options.idle_gap_ms, options.think_time, options.block_tokens), (Some(2000), true, 16));
        assert_eq!((options.first, options.live_answers, options.max_wait_ms), (Some(3), Some(true), 15_000));
        assert_eq!(options.models, [ModelName { recorded: "opus-4".to_owned(), name: "big".to_owned() }]);
        assert_eq!(trace_options("idle-gap=none").unwrap().idle_gap_ms, None);
        for (text, rule) in [("idle=1s", "'idle' is none of"), ("model.=x", "lacks a name"), ("block-tokens=0", "1")] {
            let message = trace_options(text).unwrap_err();
            assert!(message.contains(rule), "{message}");
        }
    }

    #[test]
    fn recordings_have_a_format_and_a_path() {
        for (text, format) in [("weka:/", TraceFormat::Weka), ("otel:/", TraceFormat::OpenTelemetry)] {
            let source = Sessions::Recorded(TraceSource { format, path: "/".into() });
            assert_eq!(session_trace(text).unwrap(), source);
        }
        assert!(matches!(session_trace("agents:sessions=1,input=2,output=3"), Ok(Sessions::Generated(_))));
        assert!(session_trace("/").unwrap_err().contains("otel: or weka:"));
        assert!(session_trace("weka:/nowhere/at/all").unwrap_err().contains("'/nowhere/at/all'"));
    }
}
