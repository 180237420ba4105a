//! `server`: the service under test.

use crate::config::fields::{Fields, text};
use crate::config::flags::Flags;
use crate::config::inference_perf::service::Service;
use crate::config::yaml::{Fault, Node, Place, Value};

/// Whether there is no server at all.
pub fn is_mock(node: Option<&Node>) -> bool {
    let Some(Node { value: Value::Map(entries), .. }) = node else { return false };
    entries.iter().any(|(key, value)| key.name == "type" && text(value) == Some("mock"))
}

/// Reads the section for a service; `names_models` where the load says which models requests are for.
///
/// # Errors
/// What is not theirs, or has no counterpart.
pub fn server(node: Option<&Node>, names_models: bool, service: Service, flags: &mut Flags) -> Result<(), Fault> {
    let empty = Node { at: Place::FIRST, value: Value::Null };
    let mut server = Fields::new("server", node.unwrap_or(&empty))?;
    server.choice("type", &["vllm", "sglang", "tgi", "mock"])?;
    let (model, url) = (server.text("model_name")?, server.text("base_url")?);
    let ignores_eos = server.switch("ignore_eos")?.unwrap_or(true);
    let key = server.text("api_key")?;
    let (certificate, private) = (server.text("cert_path")?, server.text("key_path")?);
    let nameless = (service == Service::Mock).then_some("mock");
    if let Some(model) = model.or(nameless).filter(|_| !names_models) {
        flags.at_key(&server, "model_name").add("model", model);
    }
    let kind = match service {
        Service::Mock => Some("null"),
        Service::OpenAi => Some("openai"),
        // The command line names them.
        Service::Network | Service::InProcess => None,
    };
    kind.into_iter().for_each(|kind| flags.at_key(&server, "type").add("service-kind", kind));
    if !service.has_connections() {
        return server.finish();
    }
    let key = key.map(|key| format!("Authorization:Bearer {key}"));
    for (theirs, ours, value) in [
        ("base_url", "url", url),
        ("api_key", "header", key.as_deref()),
        ("cert_path", "ssl-https-client-certificate-file", certificate),
        ("key_path", "ssl-https-private-key-file", private),
    ] {
        value.into_iter().for_each(|value| flags.at_key(&server, theirs).add(ours, value));
    }
    if ignores_eos && service == Service::OpenAi {
        flags.at_key(&server, "ignore_eos").add("request-parameter", "ignore_eos:true:bool");
    }
    server.finish()
}
