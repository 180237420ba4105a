//! What was measured, where and how.

use maud::{Markup, html};

use crate::backend::BackendIdentity;
use crate::html::parts::whose;
use crate::memory;
use crate::pictures::{Shown, level, short};
use crate::result::outcome::Outcome;
use crate::result::{RunResult, Setup};
use crate::stdio::shown;

/// The environment of each result.
pub fn environments(results: &[Shown<'_>]) -> Markup {
    html! {
        section id="environment" {
            h2 { "Environment" }
            @for (number, run) in results.iter().enumerate() { (whose(results, number)) (environment(run.result)) }
        }
    }
}

/// What was measured, where and how.
fn environment(result: &RunResult) -> Markup {
    let setup = &result.setup;
    let host = &setup.host;
    let facts = [
        ("program", format!("{} {}", setup.program.name, setup.program.version)),
        (
            "server",
            setup.server.as_ref().map(|server| format!("{} {}", server.name, server.version)).unwrap_or_default(),
        ),
        ("backends", backends(setup)),
        ("began", setup.began.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()),
        ("processor", host.processor.clone().unwrap_or_default()),
        (
            "processors",
            host.processors.to_string()
                + &host.quota.map(|quota| format!(", quota {}", short(quota))).unwrap_or_default(),
        ),
        ("governor", host.governor.clone().unwrap_or_default()),
        ("memory", host.memory_bytes.map(memory).unwrap_or_default()),
        ("kernel", host.kernel.clone().unwrap_or_default()),
        ("GPUs", host.gpus.join(", ")),
        ("seed", setup.seed.to_string()),
        ("threads", setup.max_threads.to_string()),
        ("batch size", setup.batch_size.to_string()),
        ("outcomes", outcomes(result)),
    ];
    html! {
            pre { "triton-bench" @for word in &setup.command_line { " " (quoted(word)) } }
            dl.facts { @for (name, value) in facts.iter().filter(|(_, value)| !value.is_empty()) { dt { (name) } dd { (shown(value)) } } }
            div.scroll tabindex="0" { table {
                thead { tr { th { "model" } th.left { "versions" } th.left { "platform" } th.left { "backend" } th { "largest batch" } th.left { "configuration (SHA-256)" } } }
                tbody { @for model in &setup.models { tr {
                    th { (shown(&model.name)) } td.left { (shown(&model.versions.join(", "))) } td.left { (shown(&model.platform)) }
                    td.left { (shown(&model.backend)) } td { (model.max_batch_size) }
                    td.left { @match &model.config_hash { Some(hash) => code title=(hash) { (hash.get(..16).unwrap_or(hash)) "…" }, None => "unknown" } }
                } } }
            } }
            details { summary { "Every setting" }
                div.scroll { table { tbody { @for flag in &setup.flags { tr {
                    th { (flag.name) } td.words { (shown(&flag.values.join(" "))) } td { @if flag.given { "given" } @else { "default" } }
                } } } } }
            }
    }
}

/// The loaded builds of backends, if known.
fn backends(setup: &Setup) -> String {
    let description = |backend: &BackendIdentity| {
        let hash = backend.sha256.as_deref().and_then(|hash| hash.get(..16)).map(|hash| format!(" {hash}…"));
        let versions = backend.versions.iter().map(|name| format!(", {name}"));
        format!("{}{}{}", backend.name, hash.unwrap_or_default(), versions.collect::<String>())
    };
    let all = setup.server.iter().flat_map(|server| &server.backends);
    all.map(description).collect::<Vec<_>>().join("; ")
}

fn outcomes(result: &RunResult) -> String {
    let words: Vec<String> =
        result.levels.iter().map(|summary| format!("{} {}", level(summary), Outcome::new(summary))).collect();
    words.join(", ")
}

/// Quoted for a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    let word = shown(word);
    if !word.is_empty() && word.chars().all(plain) {
        word.into_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}
