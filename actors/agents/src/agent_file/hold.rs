//! Reads what a tool says of people: that its calls wait for somebody, for what, and how long.

use reenact_events::{
    RawJson,
    hold::{HoldSpec, InputField, Needs, OnExpiry},
};
use serde_json::Value;
use toml_edit::Array;

use super::section::Section;

/// A year.
const EXPIRES_IN_S_MAX: u32 = 366 * 86_400;
const ON_EXPIRY: &[&str] = &["reject", "cancel"];

/// That calls of a tool with these parameters are held, if its section says so.
pub(super) fn read(section: &Section<'_>, parameters: Option<&RawJson>) -> Option<HoldSpec> {
    let confirmed = section.flag("requires_confirmation") == Some(true);
    let filled = section.flag("requires_user_input") == Some(true);
    let fields = fields(section, parameters);
    if confirmed && filled {
        section.note("requires_user_input", "cannot stand beside `requires_confirmation`: who fills in confirms too");
    }
    if section.has("user_input_fields") && !filled {
        section.note("user_input_fields", "has no meaning without `requires_user_input = true`");
    }
    let names_none = section.item("user_input_fields").is_none_or(|item| item.as_array().is_some_and(Array::is_empty));
    if filled && names_none {
        section.note("user_input_fields", "must name at least one of the `parameters`: those that a person fills in");
    }
    if confirmed || filled {
        let needs = if filled { Needs::Input { fields } } else { Needs::Confirmation };
        return Some(held(section, needs));
    }
    for key in ["expires_in_s", "on_expiry"] {
        if section.has(key) {
            section.note(key, "has no meaning for a tool whose calls wait for nobody");
        }
    }
    None
}

/// That calls are made elsewhere.
pub(super) fn of_external(section: &Section<'_>) -> HoldSpec {
    held(section, Needs::Execution)
}

fn held(section: &Section<'_>, needs: Needs) -> HoldSpec {
    let on_expiry = match section.word("on_expiry", ON_EXPIRY).as_deref() {
        Some("cancel") => OnExpiry::Cancel,
        _ => OnExpiry::Reject,
    };
    HoldSpec { needs, expires_in_s: section.whole("expires_in_s", 1..=EXPIRES_IN_S_MAX), on_expiry }
}

fn fields(section: &Section<'_>, parameters: Option<&RawJson>) -> Vec<InputField> {
    let properties = parameters.map(|parameters| parameters.value()["properties"].clone()).unwrap_or_default();
    let mut fields: Vec<InputField> = Vec::new();
    for name in section.texts("user_input_fields") {
        match properties.get(&name) {
            Some(_) if fields.iter().any(|field| field.name == name) => {
                section.note("user_input_fields", format!("names `{name}` twice"));
            }
            Some(property) => fields.push(field(name, property)),
            None if parameters.is_some() => {
                section.note("user_input_fields", format!("names `{name}`, which is none of `parameters.properties`"));
            }
            None => {}
        }
    }
    fields
}

/// The types as AgentOS calls them.
fn field(name: String, property: &Value) -> InputField {
    let field_type = match property["type"].as_str() {
        Some("integer") => "int",
        Some("number") => "float",
        Some("boolean") => "bool",
        Some("array") => "list",
        Some("object") => "dict",
        _ => "str",
    };
    let description = property["description"].as_str().map(str::to_owned);
    InputField { name, field_type: field_type.to_owned(), description }
}
