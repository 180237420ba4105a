//! Credentials in flags: which values may be one, and how these are shown without it.

use std::ffi::{OsStr, OsString};

use clap::Command;

use crate::getopt::{self, CommandLine, shown};
use crate::plan::flags::{self, Secret};
use ::data::is_hidden;

/// What is shown instead of a credential.
const HIDDEN: &str = "…";

/// Where values of a flag, by its name in the help, may hold credentials.
fn form(flag: &str) -> Option<Secret> {
    flags::find(flag)?.secret
}

/// Whether a flag's value is not to be shown at all where it is refused.
pub fn is_secret(flag: &str, value: &str) -> bool {
    form(flag).is_some_and(|form| holds_secret(form, value))
}

fn holds_secret(form: Secret, value: &str) -> bool {
    match form {
        Secret::Whole | Secret::Named => true,
        Secret::Parameter => is_hidden(name_in(value)),
        Secret::Mix => mix_without_secrets(value) != value,
        Secret::Flags => names_secret(value),
    }
}

/// A flag's value without what may be a credential.
pub fn without_secret(command: &Command, flag: &str, value: &str) -> String {
    match (form(flag), value.split_once(':')) {
        (Some(Secret::Named), Some((name, _))) => format!("{name}:{HIDDEN}"),
        (Some(Secret::Whole | Secret::Named), _) => HIDDEN.to_owned(),
        (Some(Secret::Parameter), Some((name, _))) if is_hidden(name) => format!("{name}:{HIDDEN}"),
        (Some(Secret::Mix), _) => mix_without_secrets(value),
        (Some(Secret::Flags), Some((name, flags))) => format!("{name}:{}", flags_without_secrets(command, flags)),
        _ => value.to_owned(),
    }
}

fn name_in(value: &str) -> &str {
    value.split(':').next().unwrap_or(value)
}

/// Entries of a mix without the values of parameters that are not to be shown.
fn mix_without_secrets(value: &str) -> String {
    let parameter = |text: &str| match text.split_once('=') {
        Some((name, _)) if is_hidden(name) => format!("{name}={HIDDEN}"),
        _ => text.to_owned(),
    };
    let entry = |text: &str| match text.split_once('?') {
        Some((model, parameters)) => {
            // Behind the last parameter comes the entry's share.
            let (parameters, share) = parameters.split_at(parameters.rfind(':').unwrap_or(parameters.len()));
            format!("{model}?{}{share}", parameters.split('&').map(parameter).collect::<Vec<_>>().join("&"))
        }
        None => text.to_owned(),
    };
    value.split(',').map(entry).collect::<Vec<_>>().join(",")
}

/// A variant's flags as they were written; if one may hold a credential, word by word without it.
pub fn flags_without_secrets(command: &Command, flags: &str) -> String {
    let arguments = shlex::split(flags).map(|arguments| arguments.into_iter().map(OsString::from));
    match arguments.map(|arguments| getopt::read(command, arguments)) {
        Some(Ok(CommandLine::Run(arguments, _))) if may_hold_secret(&arguments) => {
            arguments.iter().map(|word| shown_word(command, word)).collect::<Vec<_>>().join(" ")
        }
        Some(Ok(_)) => flags.to_owned(),
        _ if names_secret(flags) => HIDDEN.to_owned(),
        _ => flags.to_owned(),
    }
}

/// Whether words in the form of [`getopt`] may hold a credential.
pub fn may_hold_secret(arguments: &[OsString]) -> bool {
    arguments.iter().map(|word| word.to_string_lossy()).any(|word| match word.split_once('=') {
        Some((name, value)) => {
            let flag = name.strip_prefix("--").and_then(flags::find_long);
            flag.and_then(|flag| flag.secret).is_some_and(|form| holds_secret(form, value))
        }
        None => false,
    })
}

/// Whether a text of flags, well-formed or not, may hold a credential. Names may be shortened.
pub fn names_secret(text: &str) -> bool {
    let names = |word: &str| begins(word, |form| matches!(form, Secret::Parameter | Secret::Mix));
    let words = || text.split(|c: char| c.is_whitespace() || "'\":\\=?&".contains(c));
    let has_parameters = words().any(|word| word.strip_prefix("--").is_some_and(|word| word.len() > 2 && names(word)));
    if has_parameters && words().any(is_hidden) {
        return true;
    }
    text.split(|c: char| c.is_whitespace() || "'\":\\".contains(c)).any(|word| match word.strip_prefix("--") {
        Some(long) => {
            let name = long.split('=').next().unwrap_or(long);
            !name.is_empty() && begins(name, |form| matches!(form, Secret::Whole | Secret::Named))
        }
        None => word.starts_with('-') && word.contains('H'),
    })
}

/// Whether a word is the beginning of the long name of a flag with such values.
fn begins(word: &str, is_one: impl Fn(Secret) -> bool) -> bool {
    flags::FLAGS.iter().any(|flag| flag.secret.is_some_and(&is_one) && flag.long().starts_with(word))
}

/// `--name=value` as a flag in a shell, without what may be a credential.
fn shown_word(command: &Command, word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let (long, value) = word.split_once('=').map_or((&*word, None), |(long, value)| (long, Some(value)));
    let arg = command.get_arguments().find(|arg| arg.get_long() == long.strip_prefix("--"));
    let flag = arg.map_or_else(|| long.to_owned(), shown);
    let Some(value) = value.map(|value| without_secret(command, &flag, value)) else { return flag };
    shlex::try_quote(&value).map_or_else(|_| format!("{flag} {HIDDEN}"), |value| format!("{flag} {value}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_shown_without_credentials() {
        let shown = |flags| flags_without_secrets(&crate::command(), flags);
        for plain in ["", "-i grpc  -b 2", "--shape 'a:1,2'", "--nonsense", "-b '2"] {
            assert_eq!(shown(plain), plain);
        }
        for flags in [
            "-u h:1 -H 'Authorization: Bearer s3cret' -a",
            "-u h:1 -H Authorization:s3cret -a",
            "-u h:1 -HAuthorization:s3cret -a",
            "-u h:1 --head=Authorization:s3cret -a stray s3cret",
        ] {
            let text = shown(flags);
            assert!(text.contains("-u h:1") && text.contains("-H ") && text.contains("Authorization:…"), "{text}");
            assert!(text.contains("--async") && !text.contains("s3cret"), "{text}");
        }
        assert!(shown("--management-key s3cret -b 2").contains("-b 2"));
        assert!(!shown("--management-key s3cret -b 2").contains("s3cret"));
        for broken in ["-H 'Authorization: s3cret", "--nonsense -H a:s3cret", "--header a:s3cret --nonsense"] {
            assert_eq!(shown(broken), HIDDEN, "{broken}");
        }
    }

    #[test]
    fn parameters_are_shown_without_what_looks_like_a_credential() {
        let command = crate::command();
        let shown = |flag, value| without_secret(&command, flag, value);
        assert_eq!(shown("--request-parameter", "api_key:s3cret:string"), "api_key:…");
        assert_eq!(shown("--request-parameter", "max_tokens:5:int"), "max_tokens:5:int");
        assert_eq!(shown("--model-mix", "m?a=1&token=s3:cret&b=2:0.5,n:0.5"), "m?a=1&token=…&b=2:0.5,n:0.5");
        assert_eq!(shown("--model-mix", "m?token=s3cret:0.5,n:0.5"), "m?token=…:0.5,n:0.5");
        assert!(is_secret("--request-parameter", "password:x") && !is_secret("--request-parameter", "a:x"));
        let flags = flags_without_secrets(&command, "--request-parameter api_key:s3cret:string -b 2");
        assert!(!flags.contains("s3cret") && flags.contains("-b 2"), "{flags}");
        assert!(names_secret("a:--request-parameter token:x:string") && !names_secret("a:--request-parameter n:1:int"));
        assert!(!is_hidden("tenant_of_this_test"));
        ::data::hide_values(["Tenant_of_this_test".to_owned()].into_iter());
        assert_eq!(shown("--request-parameter", "tenant_of_this_test:s3cret:string"), "tenant_of_this_test:…");
    }

    #[test]
    fn what_may_hold_a_credential_is_known_in_every_form() {
        for text in ["a:-H x", "a -H x", "-vHx:y", "a:'--header' x", "--head=x:y", "x --management-key", "a:--man k"] {
            assert!(names_secret(text), "{text}");
        }
        for text in ["grpc:-i grpc", "a:--http-compression gzip", "plain:", "Hot:-b 2", "--help"] {
            assert!(!names_secret(text), "{text}");
        }
        let arguments = |word: &str| [OsString::from("--async"), word.into()];
        assert!(may_hold_secret(&arguments("--header=a:b")) && may_hold_secret(&arguments("--variant=a:-H b")));
        assert!(!may_hold_secret(&arguments("--variant=a:-b 2")) && !may_hold_secret(&arguments("--headers")));
    }
}
