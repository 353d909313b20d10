//! `reenact config`.

use serde_json::{Map, Value, json};

use super::{options::Configured, output};
use crate::config::{Config, KEYS};

/// Shows every value with where it comes from, then says whether `serve` would take them.
pub(super) fn show(options: &Configured, as_json: bool) -> anyhow::Result<()> {
    let layers = options.layers()?;
    if as_json {
        let entries = KEYS.iter().map(|key| {
            let value = layers.value(key.name);
            (key.name.to_owned(), json!({"value": value.shown(), "source": value.source.to_string()}))
        });
        output::json(&Value::Object(entries.collect::<Map<_, _>>()))?;
    } else {
        let rows: Vec<_> = KEYS
            .iter()
            .map(|key| {
                let value = layers.value(key.name);
                vec![key.name.to_owned(), value.shown(), value.source.to_string()]
            })
            .collect();
        output::lines(output::table(&["KEY", "VALUE", "FROM"], &rows))?;
    }
    Config::from_layers(&layers)?;
    Ok(())
}
