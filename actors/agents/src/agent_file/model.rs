//! Reads `[model]` and `[[model.fallbacks]]`.

use reenact_events::agent::ModelSpec;
use reqwest::Url;

use super::section::Section;
use crate::{
    environment::Environment,
    key_file,
    model::{self, PROVIDERS},
};

/// Seconds without a byte after which a call has failed, if the file does not say.
pub(super) const TIMEOUT_S: u32 = 120;
/// How often a failed call is made again, if the file does not say.
pub(super) const RETRIES: u32 = 2;

const KEYS: &[&str] =
    &["provider", "id", "base_url", "api_key_env", "api_key_file", "temperature", "max_tokens", "timeout_s", "retries"];
/// The key of the models that are asked after a model.
const FALLBACKS: &str = "fallbacks";
/// What makes no difference to the demo model.
const NOT_FOR_DEMO: &[&str] = &["base_url", "api_key_env", "api_key_file", "temperature", "max_tokens"];

/// Models beside the agent's own. Each has its retries, and an error names them all.
const FALLBACKS_MAX: usize = 8;

/// The agent's own model, and those that are asked after it.
pub(super) fn read(root: &Section<'_>, environment: &Environment) -> Option<(ModelSpec, Vec<ModelSpec>)> {
    if !root.has("model") {
        root.note("model", "missing; it says which model answers, for example [model] with provider = \"demo\"");
        return None;
    }
    let with_fallbacks: Vec<_> = KEYS.iter().copied().chain([FALLBACKS]).collect();
    let section = root.section("model", &with_fallbacks)?;
    let fallbacks = section.tables(FALLBACKS);
    if fallbacks.len() > FALLBACKS_MAX {
        section.note(FALLBACKS, format!("are {}; at most {FALLBACKS_MAX} are allowed", fallbacks.len()));
    }
    let fallbacks: Vec<_> = fallbacks
        .iter()
        .enumerate()
        .map(|(index, table)| one(&section.element(FALLBACKS, index, table, KEYS), environment))
        .collect();
    Some((one(&section, environment)?, fallbacks.into_iter().collect::<Option<_>>()?))
}

fn one(section: &Section<'_>, environment: &Environment) -> Option<ModelSpec> {
    let provider = provider(section);
    let id = match provider.as_deref() {
        Some("demo") => Some(section.text("id").unwrap_or_else(|| "demo".to_owned())),
        _ => section.required_text("id", "the model's id at its provider, for example \"gpt-5-mini\""),
    };
    let base_url = section.text("base_url").filter(|url| is_base_url(section, url));
    let api_key_env = section.text("api_key_env").filter(|name| is_variable(section, "api_key_env", name));
    let temperature = section.number("temperature", 0.0..=2.0);
    let model = ModelSpec {
        provider: provider?,
        id: id?,
        base_url,
        api_key_env,
        api_key_file: section.text("api_key_file"),
        temperature_milli: temperature.and_then(|temperature| format!("{:.0}", temperature * 1000.0).parse().ok()),
        max_tokens: section.whole("max_tokens", 1..=u32::MAX),
        timeout_s: section.whole("timeout_s", 1..=86_400).unwrap_or(TIMEOUT_S),
        retries: section.whole("retries", 0..=20).unwrap_or(RETRIES),
    };
    check_together(section, &model, environment);
    Some(model)
}

fn provider(section: &Section<'_>) -> Option<String> {
    let meaning = format!("who serves the model, one of {}", super::section::list(PROVIDERS));
    section.required_text("provider", &meaning)?;
    section.word("provider", PROVIDERS)
}

fn check_together(section: &Section<'_>, model: &ModelSpec, environment: &Environment) {
    let Some(provider) = model::provider(model) else {
        for key in NOT_FOR_DEMO.iter().filter(|key| section.has(key)) {
            section.note(key, "has no meaning for the built-in model `demo`; remove it");
        }
        return;
    };
    if let Some(file) = &model.api_key_file {
        check_key_file(section, file);
    }
    // A server of one's own may want no key: that is seen when it is asked.
    let wants_key = !section.has("base_url")
        && !section.has("api_key_file")
        && section.has("api_key_env") == model.api_key_env.is_some();
    if let Some(variable) = model::key_variable(&provider, model)
        && wants_key
        && environment.get(variable).is_none()
    {
        let message = format!(
            "the environment variable `{variable}` is not set; it must hold the key for {} \
             (set it, name another with `api_key_env` or a file with `api_key_file`, or name another server with `base_url`)",
            provider.company
        );
        section.note("api_key_env", message);
    }
}

/// A file that is named must hold a key: nobody names one for a server that wants none.
fn check_key_file(section: &Section<'_>, file: &str) {
    if section.has("api_key_env") {
        section.note("api_key_file", "must not stand beside `api_key_env`; the key is in one place");
    } else if let Err(problem) = key_file::key_in(std::fs::read(file), file) {
        section.note("api_key_file", problem);
    }
}

fn is_base_url(section: &Section<'_>, url: &str) -> bool {
    let legal = is_url(section, "base_url", url);
    if legal && url.contains(['?', '#']) {
        section.note("base_url", "must not hold a query or a fragment; paths are added to it");
        return false;
    }
    legal
}

/// Whether `url` is an address that a request can go to. Secrets in it would end up in error texts.
pub(super) fn is_url(section: &Section<'_>, key: &str, url: &str) -> bool {
    let problem = match Url::parse(url) {
        Err(error) => format!("is not a URL ({error}); write it like `http://127.0.0.1:8811/v1`"),
        Ok(url) if !matches!(url.scheme(), "http" | "https") => {
            format!("must begin with `http://` or `https://`, not `{}:`", url.scheme())
        }
        Ok(url) if !url.username().is_empty() || url.password().is_some() => {
            "must not hold a user or a password; send them in a header from an environment variable".to_owned()
        }
        Ok(_) => return true,
    };
    section.note(key, problem);
    false
}

/// Whether `name` can name an environment variable. It is not shown when it cannot: it may be the secret.
pub(super) fn is_variable(section: &Section<'_>, key: &str, name: &str) -> bool {
    let legal = !name.is_empty()
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !legal {
        section
            .note(key, "must be the name of an environment variable (letters, digits, `_`), never the secret itself");
    }
    legal
}
