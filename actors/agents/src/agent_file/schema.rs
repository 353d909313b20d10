//! Reads the JSON Schema of a tool or of an answer, from TOML or from a file.

use std::{fs, path::Path};

use reenact_events::RawJson;
use serde_json::{Map, Number, Value as Json};
use toml_edit::{Item, TableLike, Value};

use crate::arguments;

/// The schema in a table, if it is one for an object.
pub(super) fn read(table: &dyn TableLike) -> Result<RawJson, String> {
    let schema = object(table)?;
    if schema.get("type").is_none_or(|kind| kind != "object") {
        return Err("must be a JSON Schema of an object: `type = \"object\"` is missing".to_owned());
    }
    usable(&schema)
}

/// The schema in a table.
pub(super) fn read_any(table: &dyn TableLike) -> Result<RawJson, String> {
    usable(&object(table)?)
}

/// The schema in a file.
pub(super) fn read_file(path: &Path) -> Result<RawJson, String> {
    let named = |problem: String| format!("the file `{}` {problem}", path.display());
    let text = fs::read_to_string(path).map_err(|error| named(format!("cannot be read: {error}")))?;
    let schema: Json = serde_json::from_str(&text).map_err(|error| named(format!("is not valid JSON: {error}")))?;
    if !schema.is_object() {
        return Err(named("holds no JSON Schema: it must be a JSON object".to_owned()));
    }
    usable(&schema).map_err(|problem| named(format!("holds no JSON Schema that can be used: {problem}")))
}

fn usable(schema: &Json) -> Result<RawJson, String> {
    arguments::compile(schema)?;
    RawJson::of(schema).map_err(|error| error.to_string())
}

/// The JSON object in a table.
pub(super) fn object(table: &dyn TableLike) -> Result<Json, String> {
    let entries = table.iter().map(|(key, item)| Ok((key.to_owned(), of_item(item)?)));
    entries.collect::<Result<Map<_, _>, String>>().map(Json::Object)
}

fn of_item(item: &Item) -> Result<Json, String> {
    match item {
        Item::None => Ok(Json::Null),
        Item::Value(value) => of_value(value),
        Item::Table(table) => object(table),
        Item::ArrayOfTables(tables) => {
            tables.iter().map(|table| object(table)).collect::<Result<_, _>>().map(Json::Array)
        }
    }
}

fn of_value(value: &Value) -> Result<Json, String> {
    match value {
        Value::String(text) => Ok(text.value().as_str().into()),
        Value::Integer(number) => Ok((*number.value()).into()),
        Value::Boolean(flag) => Ok((*flag.value()).into()),
        Value::Float(number) => Number::from_f64(*number.value())
            .map(Json::Number)
            .ok_or_else(|| "holds a number that JSON does not know (`inf` or `nan`)".to_owned()),
        Value::Datetime(moment) => Err(format!("holds the date {}, write it as a string", moment.value())),
        Value::Array(items) => items.iter().map(of_value).collect::<Result<_, _>>().map(Json::Array),
        Value::InlineTable(table) => object(table),
    }
}
