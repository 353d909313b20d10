//! Reads `[[tools]]`.

use std::{collections::BTreeMap, ops::Range};

use reenact_events::{
    RawJson,
    agent::{Effect, ToolKind, ToolSpec},
};
use reqwest::header::{HeaderName, HeaderValue};
use toml_edit::TableLike;

use super::{
    any_object, hold, model, schema,
    section::{Section, list},
};
use crate::{
    environment::Environment,
    tool::{
        builtin::{self, BUILTINS, Builtin},
        http_request::{ENVIRONMENT_PREFIX, METHODS, OWN_HEADERS},
    },
};

const TIMEOUT_S: u32 = 30;
const TIMEOUT_S_MAX: u32 = 86_400;
const NAME_CHARS_MAX: usize = 64;
const TYPES: &[&str] = &["http", "builtin", "external_execution"];
const EFFECTS: &[&str] = &["read_only", "idempotent", "reconcile", "at_most_once"];
const HTTP_KEYS: &[&str] = &[
    "type",
    "name",
    "description",
    "method",
    "url",
    "effect",
    "timeout_s",
    "requires_confirmation",
    "requires_user_input",
    "user_input_fields",
    "expires_in_s",
    "on_expiry",
    "headers",
    "parameters",
];
const BUILTIN_KEYS: &[&str] = &[
    "type",
    "name",
    "description",
    "effect",
    "timeout_s",
    "requires_confirmation",
    "requires_user_input",
    "user_input_fields",
    "expires_in_s",
    "on_expiry",
];
const EXTERNAL_KEYS: &[&str] = &["type", "name", "description", "parameters", "expires_in_s", "on_expiry"];

pub(super) fn read(root: &Section<'_>, environment: &Environment) -> Vec<ToolSpec> {
    let mut tools = Vec::new();
    let mut first_by_name = BTreeMap::new();
    for (index, (table, span)) in root.tables("tools").into_iter().enumerate() {
        let path = format!("tools[{index}]");
        let Some(tool) = Tool { root, table, path, span }.read(environment) else { continue };
        if let Some(first) = first_by_name.insert(tool.spec.name.clone(), index) {
            tool.section.note("name", format!("the name `{}` is taken by `tools[{first}]` already", tool.spec.name));
        }
        tools.push(tool.spec);
    }
    tools
}

struct Tool<'r, 'a> {
    root: &'r Section<'a>,
    table: &'a dyn TableLike,
    path: String,
    span: Range<usize>,
}

struct Read<'a> {
    section: Section<'a>,
    spec: ToolSpec,
}

impl<'a> Tool<'_, 'a> {
    fn read(self, environment: &Environment) -> Option<Read<'a>> {
        match self.table.get("type").and_then(|item| item.as_str()) {
            Some("http") => self.http(environment),
            Some("builtin") => self.builtin(),
            Some("external_execution") => self.external(),
            other => {
                // Without a known type it cannot be said which keys are allowed.
                let section = self.open(&self.table.iter().map(|(key, _)| key).collect::<Vec<_>>());
                match other {
                    Some("mcp") => {
                        section.note("type", format!("`mcp` is not supported yet; supported are {}", list(TYPES)))
                    }
                    Some(_) => drop(section.word("type", TYPES)),
                    None => drop(section.required_text("type", &format!("one of {}", list(TYPES)))),
                }
                None
            }
        }
    }

    fn open(&self, allowed: &[&str]) -> Section<'a> {
        Section::open(self.root.problems(), self.table, &self.path, self.span.clone(), allowed)
    }

    fn http(self, environment: &Environment) -> Option<Read<'a>> {
        let section = self.open(HTTP_KEYS);
        let name =
            section.required_text("name", "what the model calls the tool").filter(|name| is_name(&section, name));
        let method = match section.has("method") {
            true => section.word("method", METHODS),
            false => section.required_text("method", &format!("one of {}", list(METHODS))),
        };
        let url = section.required_text("url", "where the tool is").filter(|url| model::is_url(&section, "url", url));
        let headers = headers(&section, environment);
        let parameters = parameters(&section);
        let hold = hold::read(&section, parameters.as_ref());
        let spec = ToolSpec {
            description: section.text("description").unwrap_or_default(),
            effect: effect(&section).unwrap_or(Effect::AtMostOnce),
            timeout_s: section.whole("timeout_s", 1..=TIMEOUT_S_MAX).unwrap_or(TIMEOUT_S),
            name: name?,
            parameters: parameters?,
            kind: ToolKind::Http { method: method?, url: url?, headers },
            hold,
        };
        Some(Read { section, spec })
    }

    fn builtin(self) -> Option<Read<'a>> {
        let section = self.open(BUILTIN_KEYS);
        let names: Vec<_> = BUILTINS.iter().map(|builtin| builtin.name).collect();
        section.required_text("name", &format!("one of {}", list(&names)))?;
        let builtin = builtin::builtin(&section.word("name", &names)?)?;
        let declared = of_builtin(builtin).map_err(|error| section.note("name", error.to_string())).ok()?;
        let spec = ToolSpec {
            description: section.text("description").unwrap_or(declared.description),
            effect: effect(&section).unwrap_or(declared.effect),
            timeout_s: section.whole("timeout_s", 1..=TIMEOUT_S_MAX).unwrap_or(declared.timeout_s),
            hold: hold::read(&section, Some(&declared.parameters)),
            ..declared
        };
        Some(Read { section, spec })
    }

    /// A tool that is not called from here: somebody makes the call and says what came of it.
    fn external(self) -> Option<Read<'a>> {
        let section = self.open(EXTERNAL_KEYS);
        let name =
            section.required_text("name", "what the model calls the tool").filter(|name| is_name(&section, name));
        let parameters = parameters(&section);
        let spec = ToolSpec {
            description: section.text("description").unwrap_or_default(),
            effect: Effect::AtMostOnce,
            timeout_s: TIMEOUT_S,
            hold: Some(hold::of_external(&section)),
            name: name?,
            parameters: parameters?,
            kind: ToolKind::External,
        };
        Some(Read { section, spec })
    }
}

/// A built-in tool as it is when the file says only its name. It changes nothing: it is called again.
pub(super) fn of_builtin(builtin: &Builtin) -> Result<ToolSpec, serde_json::Error> {
    Ok(ToolSpec {
        name: builtin.name.to_owned(),
        description: builtin.description.to_owned(),
        parameters: RawJson::parse(builtin.parameters)?,
        effect: Effect::ReadOnly,
        timeout_s: builtin.timeout_s,
        kind: ToolKind::Builtin,
        hold: None,
    })
}

fn is_name(section: &Section<'_>, name: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let fits = name.len() <= NAME_CHARS_MAX && name.bytes().all(legal);
    if !fits {
        section.note(
            "name",
            format!("must be at most {NAME_CHARS_MAX} letters, digits, `_` and `-`: models take no other"),
        );
    }
    fits
}

fn effect(section: &Section<'_>) -> Option<Effect> {
    Some(match section.word("effect", EFFECTS)?.as_str() {
        "read_only" => Effect::ReadOnly,
        "idempotent" => Effect::Idempotent,
        "reconcile" => Effect::Reconcile,
        _ => Effect::AtMostOnce,
    })
}

fn parameters(section: &Section<'_>) -> Option<RawJson> {
    let schema = match section.table("parameters") {
        Some(table) => schema::read(table),
        None if section.has("parameters") => return None,
        None => any_object().map_err(|error| error.to_string()),
    };
    schema.map_err(|problem| section.note("parameters", problem)).ok()
}

pub(super) fn headers(section: &Section<'_>, environment: &Environment) -> Vec<(String, String)> {
    let Some(table) = section.table("headers") else { return Vec::new() };
    let names: Vec<_> = table.iter().map(|(name, _)| name).collect();
    let Some(headers) = section.section("headers", &names) else { return Vec::new() };
    let header = |name: &&str| Some(((*name).to_owned(), headers.text(name)?));
    let declared: Vec<_> = names.iter().filter_map(header).collect();
    for (name, value) in &declared {
        check_header(&headers, name, value, environment);
    }
    declared
}

fn check_header(headers: &Section<'_>, name: &str, value: &str, environment: &Environment) {
    if HeaderName::try_from(name).is_err() {
        headers.note(name, "is not a legal name of a header");
    }
    if OWN_HEADERS.contains(&name.to_ascii_lowercase().as_str()) {
        headers.note(
            name,
            format!("is set by reenact on every call; the headers {} cannot be declared", list(OWN_HEADERS)),
        );
    }
    match value.strip_prefix(ENVIRONMENT_PREFIX) {
        Some(variable) if !model::is_variable(headers, name, variable) => {}
        Some(variable) if environment.get(variable).is_none() => {
            let header = headers.key_path(name);
            tracing::warn!(%header, variable, "an environment variable that a tool needs is not set");
        }
        Some(_) => {}
        None if HeaderValue::from_str(value).is_err() => headers.note(name, "holds characters that no header may hold"),
        None => {}
    }
}
