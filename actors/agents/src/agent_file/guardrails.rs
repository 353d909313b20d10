//! Reads `[[guardrails]]`.

use std::collections::BTreeMap;

use reenact_events::agent::{Guarded, GuardrailSpec};

use super::{model, section::Section, tools};
use crate::environment::Environment;

const KEYS: &[&str] = &["name", "on", "url", "headers", "timeout_s", "retries"];
const ON: &[&str] = &["input", "output"];
const TIMEOUT_S: u32 = 10;
const RETRIES: u32 = 2;

pub(super) fn read(root: &Section<'_>, environment: &Environment) -> Vec<GuardrailSpec> {
    let mut guardrails = Vec::new();
    let mut first_by_name = BTreeMap::new();
    for (index, table) in root.tables("guardrails").iter().enumerate() {
        let section = root.element("guardrails", index, table, KEYS);
        let Some(guardrail) = one(&section, environment) else { continue };
        if let Some(first) = first_by_name.insert(guardrail.name.clone(), index) {
            section.note("name", format!("the name `{}` is taken by `guardrails[{first}]` already", guardrail.name));
        }
        guardrails.push(guardrail);
    }
    guardrails
}

fn one(section: &Section<'_>, environment: &Environment) -> Option<GuardrailSpec> {
    let name = section.required_text("name", "what it is called in events");
    let on = match section.has("on") {
        true => section.word("on", ON),
        false => section.required_text("on", "`input` or `output`"),
    };
    let url = section.required_text("url", "where it is").filter(|url| model::is_url(section, "url", url));
    let headers = tools::headers(section, environment);
    let timeout_s = section.whole("timeout_s", 1..=600).unwrap_or(TIMEOUT_S);
    let retries = section.whole("retries", 0..=10).unwrap_or(RETRIES);
    let on = if on? == "input" { Guarded::Input } else { Guarded::Output };
    Some(GuardrailSpec { name: name?, on, url: url?, headers, timeout_s, retries })
}
