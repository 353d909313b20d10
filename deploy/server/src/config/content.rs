//! How users' content is stored, from what is configured.

use super::{ConfigError, Layers, LogPlace, Value};

/// How users' content is stored. A log is made with one of them and keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// As it is.
    Plain,
    /// Sealed with a key of its user's, which can be destroyed.
    PerUserKey,
}

pub(super) fn content(layers: &Layers, log: &LogPlace) -> Result<Content, ConfigError> {
    const KEY: &str = "content";
    let content = layers.one_of(KEY, &[("plain", Content::Plain), ("per_user_key", Content::PerUserKey)])?;
    match (content, log) {
        (Content::Plain, _) | (Content::PerUserKey, LogPlace::Embedded) => Ok(content),
        (Content::PerUserKey, LogPlace::Kafka(_)) => {
            let Value { text: value, source: origin, .. } = layers.value(KEY);
            let remedy = "the nodes of a log on Kafka would need one table of keys, and only that of one node is built \
                          (`keys.db`): use `--log embedded`, or `--content plain`";
            Err(ConfigError::NotHere { key: KEY, value, origin, remedy })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn of(flags: &[(&'static str, &str)]) -> Result<Content, ConfigError> {
        let flags = flags.iter().map(|(key, value)| (*key, (*value).to_owned())).collect();
        Config::from_layers(&Layers::resolve(&flags, &|_| None, None)?).map(|config| config.content)
    }

    #[test]
    fn content_is_plain_unless_said_and_is_not_sealed_on_kafka() {
        let sealed = ("content", "per_user_key");
        assert_eq!(of(&[]).unwrap(), Content::Plain);
        assert_eq!(of(&[sealed]).unwrap(), Content::PerUserKey);
        let error = of(&[sealed, ("log", "kafka://broker:9092")]).unwrap_err().to_string();
        assert!(error.contains("`keys.db`") && error.contains("not in this version"), "{error}");
    }
}
