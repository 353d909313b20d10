//! The table of prices, a TOML file of its own: prices change without anything else.

use std::fs;

use reenact_projections::prices::{Price, Prices};
use serde::Deserialize;

use super::{ConfigError, Layers};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    prices: Vec<Price>,
}

/// The prices in the file that `prices` names; none when it names none.
pub(super) fn prices(layers: &Layers) -> Result<Prices, ConfigError> {
    let path = layers.text("prices").trim();
    if path.is_empty() {
        return Ok(Prices::default());
    }
    let refuse = |reason: String| layers.refuse("prices", reason);
    let text = fs::read_to_string(path).map_err(|error| refuse(format!("it cannot be read: {error}")))?;
    let file: File = toml::from_str(&text).map_err(|error| refuse(format!("it is no table of prices: {error}")))?;
    Prices::new(&file.prices).map_err(|error| refuse(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Flags;

    fn read(text: &str) -> Result<Prices, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("prices.toml");
        fs::write(&path, text).unwrap();
        let flags = Flags::from([("prices", path.display().to_string())]);
        let layers = Layers::resolve(&flags, &|_| None, None).unwrap();
        prices(&layers).map_err(|error| error.to_string())
    }

    #[test]
    fn a_table_of_prices_is_read() {
        let prices = read("[[prices]]\nprovider = \"openai\"\nmodel = \"m\"\ninput = 0.25\noutput = 2\n").unwrap();
        assert!(!prices.is_empty());
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        let misspelt =
            read("[[prices]]\nprovider = \"openai\"\nmodel = \"m\"\ninput = 1.0\noutputs = 2.0\n").unwrap_err();
        assert!(misspelt.contains("outputs") && misspelt.contains("line 5"), "{misspelt}");
        let negative =
            read("[[prices]]\nprovider = \"openai\"\nmodel = \"m\"\ninput = -1.0\noutput = 2.0\n").unwrap_err();
        assert!(negative.contains("`input` of `m`"), "{negative}");
    }
}
