//! The server program's command line.

use std::ffi::OsString;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::plan::{LogLevel, ServerPlan, Target};
use crate::signals;

/// Arguments that only some releases know, but that are needed there: by default these servers refuse what we compare.
const WHERE_KNOWN: [(&str, &str); 2] = [("allow-client-shm", "true"), ("http-max-input-size", "2147483647")];

/// The members of [`WHERE_KNOWN`] that the program lists in its help.
pub fn supported(program: &Path) -> Vec<OsString> {
    let help = signals::released(|| Command::new(program).arg("--help").stdin(Stdio::null()).output());
    let help = help.map(|output| [output.stdout, output.stderr].concat()).unwrap_or_default();
    let help = String::from_utf8_lossy(&help);
    let listed = WHERE_KNOWN.iter().filter(|(name, _)| help.contains(&format!("--{name} ")));
    listed.map(|(name, value)| format!("--{name}={value}").into()).collect()
}

/// The arguments that configure the program like the server in our process.
pub fn arguments(target: &Target, http: u16, grpc: u16) -> Vec<OsString> {
    let plan = &target.server;
    let mut arguments = Arguments(Vec::new());
    plan.repositories.iter().for_each(|path| arguments.add("model-repository", path));
    arguments.add("model-control-mode", "explicit");
    for model in target.bls_composing.iter().chain(target.models()) {
        arguments.add("load-model", &model.name);
    }
    for (service, port) in [("http", http), ("grpc", grpc)] {
        arguments.add(&format!("{service}-address"), Ipv4Addr::LOCALHOST.to_string());
        arguments.add(&format!("{service}-port"), port.to_string());
    }
    arguments.add("allow-metrics", "false");
    arguments.add("exit-timeout-secs", plan.exit_timeout_s.to_string());
    let log = |least| (plan.log.level >= least).to_string();
    arguments.add("log-error", "true");
    arguments.add("log-warning", log(LogLevel::Warning));
    arguments.add("log-info", log(LogLevel::Info));
    directories(plan, &mut arguments);
    settings(plan, &mut arguments);
    limits(plan, &mut arguments);
    arguments.0
}

/// Arguments of the form `--name=value`.
struct Arguments(Vec<OsString>);

impl Arguments {
    fn add(&mut self, name: &str, value: impl Into<OsString>) {
        let mut argument = OsString::from(format!("--{name}="));
        argument.push(value.into());
        self.0.push(argument);
    }

    fn add_given<T: ToString>(&mut self, name: &str, value: Option<T>) {
        if let Some(value) = value {
            self.add(name, value.to_string());
        }
    }
}

fn directories(plan: &ServerPlan, arguments: &mut Arguments) {
    let places = [
        ("backend-directory", &plan.backend_directory, "backends"),
        ("repoagent-directory", &plan.repo_agent_directory, "repoagents"),
        ("cache-directory", &plan.cache_directory, "caches"),
    ];
    for (name, directory, usual) in places {
        arguments.add(name, directory.clone().unwrap_or_else(|| plan.directory.join(usual)));
    }
}

fn settings(plan: &ServerPlan, arguments: &mut Arguments) {
    let lists = [
        ("backend-config", &plan.backend_config),
        ("cache-config", &plan.cache_config),
        ("host-policy", &plan.host_policies),
    ];
    for (name, entries) in lists {
        for (owner, setting, value) in entries {
            let owner = if owner.is_empty() { String::new() } else { format!("{owner},") };
            arguments.add(name, format!("{owner}{setting}={value}"));
        }
    }
    for (resource, count, device) in &plan.rate_limit_resources {
        let device = if *device < 0 { String::new() } else { format!(":{device}") };
        arguments.add("rate-limit-resource", format!("{resource}:{count}{device}"));
    }
    for (name, pools) in [
        ("cuda-memory-pool-byte-size", &plan.cuda_pool_bytes),
        ("cuda-virtual-address-size", &plan.cuda_virtual_address_bytes),
    ] {
        pools.iter().for_each(|(device, bytes)| arguments.add(name, format!("{device}:{bytes}")));
    }
}

fn limits(plan: &ServerPlan, arguments: &mut Arguments) {
    arguments.add_given("pinned-memory-pool-byte-size", plan.pinned_pool_bytes);
    arguments.add_given("min-supported-compute-capability", plan.min_compute_capability);
    arguments.add("rate-limit", if plan.rate_limit { "execution_count" } else { "off" });
    arguments.add_given("model-load-thread-count", plan.load_threads);
    arguments.add("model-load-retry-count", plan.load_retries.to_string());
    arguments.add_given("buffer-manager-thread-count", plan.buffer_threads);
    arguments.add("enable-peer-access", plan.peer_access.to_string());
    if plan.strict_config {
        arguments.add("strict-model-config", "true");
    }
    arguments.add_given("model-config-name", plan.config_name.as_ref());
    if plan.model_namespacing {
        arguments.add("model-namespacing", "true");
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn settings_are_written_as_the_program_reads_them() {
        let triple = |a: &str, b: &str, c: &str| (a.to_owned(), b.to_owned(), c.to_owned());
        let plan = ServerPlan {
            directory: "/triton".into(),
            backend_config: vec![triple("", "a", "1"), triple("python", "b", "2")],
            rate_limit_resources: vec![("r".to_owned(), 2, -1), ("s".to_owned(), 3, 1)],
            cuda_pool_bytes: vec![(0, 64)],
            ..ServerPlan::default()
        };
        let mut arguments = Arguments(Vec::new());
        directories(&plan, &mut arguments);
        settings(&plan, &mut arguments);
        for expected in [
            "--backend-directory=/triton/backends",
            "--backend-config=a=1",
            "--backend-config=python,b=2",
            "--rate-limit-resource=r:2",
            "--rate-limit-resource=s:3:1",
            "--cuda-memory-pool-byte-size=0:64",
        ] {
            assert!(arguments.0.iter().any(|argument| argument == expected), "{expected}: {:?}", arguments.0);
        }
    }

    #[test]
    fn what_a_release_lists_in_its_help_is_given_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let write = |help: &str| {
            let path = folder.path().join(help.len().to_string());
            std::fs::write(&path, format!("#!/bin/sh\necho '{help}' >&2\n")).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
            supported(&path)
        };
        assert_eq!(write("  --allow-http <boolean>"), Vec::<OsString>::new());
        assert_eq!(write("  --allow-client-shm <boolean>"), ["--allow-client-shm=true"]);
        assert_eq!(supported(Path::new("/nowhere")), Vec::<OsString>::new());
    }
}
