//! Reads `reenact.toml`: flat, the keys of the command line, each with its line for messages.

use std::{
    collections::BTreeMap,
    io::ErrorKind,
    path::{Path, PathBuf},
};

use toml_edit::{Document, Item, Value};

use super::{ConfigError, DEFAULT_FILE, KEYS, Source, keys};

/// What the file says, by key.
pub(super) type FileValues = BTreeMap<&'static str, (String, Source)>;

/// Reads `wanted`, or the default file if it exists.
pub(super) fn read(wanted: Option<&Path>) -> Result<FileValues, ConfigError> {
    let path = wanted.unwrap_or(Path::new(DEFAULT_FILE));
    match std::fs::read_to_string(path) {
        Ok(text) => parse(path, text),
        Err(error) if error.kind() == ErrorKind::NotFound && wanted.is_none() => Ok(FileValues::new()),
        Err(source) => Err(ConfigError::Unreadable { file: path.to_owned(), source }),
    }
}

fn parse(path: &Path, text: String) -> Result<FileValues, ConfigError> {
    let file = path.to_owned();
    let document = Document::parse(text.clone())
        .map_err(|error| ConfigError::Syntax { file: file.clone(), reason: error.to_string() })?;
    let table = document.as_table();
    let mut values = FileValues::new();
    for (name, item) in table {
        let at = table.key(name).and_then(toml_edit::Key::span).or_else(|| item.span()).map_or(0, |span| span.start);
        let line = line_of(&text, at);
        let Some(key) = keys::find(name) else {
            return Err(unknown(file, line, name));
        };
        let Some(value) = as_text(item) else {
            return Err(ConfigError::Type { file, line, key: name.to_owned() });
        };
        values.insert(key.name, (value, Source::File(file.clone(), line)));
    }
    Ok(values)
}

fn unknown(file: PathBuf, line: usize, name: &str) -> ConfigError {
    let known: Vec<_> = KEYS.iter().map(|key| key.name).collect();
    ConfigError::UnknownKey { file, line, key: name.to_owned(), known: known.join(", ") }
}

fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1
}

fn as_text(item: &Item) -> Option<String> {
    let value = item.as_value()?;
    if let Value::Array(list) = value {
        let parts: Option<Vec<_>> = list.iter().map(scalar).collect();
        return parts.map(|parts| parts.join(","));
    }
    scalar(value)
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.value().clone()),
        Value::Integer(number) => Some(number.value().to_string()),
        Value::Float(number) => Some(number.value().to_string()),
        Value::Boolean(truth) => Some(truth.value().to_string()),
        Value::Datetime(_) | Value::Array(_) | Value::InlineTable(_) => None,
    }
}
