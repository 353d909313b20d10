//! How users' content is stored, from what is configured.

use super::{ConfigError, Layers, LogPlace, ViewsPlace};

/// How users' content is stored. A log is made with one of them and keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// As it is.
    Plain,
    /// Sealed with a key of its user's, which can be destroyed.
    PerUserKey,
}

impl Content {
    const ALL: [Self; 2] = [Self::Plain, Self::PerUserKey];

    /// As it is written in the configuration, and in a log.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::PerUserKey => "per_user_key",
        }
    }

    /// Reads what [`Content::as_str`] writes.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|content| content.as_str() == text)
    }
}

/// Nodes that share a log share its keys, and so have them in the database.
pub(super) fn content(layers: &Layers, log: &LogPlace, views: &ViewsPlace) -> Result<Content, ConfigError> {
    const KEY: &str = "content";
    let content = layers.one_of(KEY, &Content::ALL.map(|content| (content.as_str(), content)))?;
    match (content, log, views) {
        (Content::Plain, _, _) | (Content::PerUserKey, LogPlace::Embedded, _) => Ok(content),
        (Content::PerUserKey, LogPlace::Kafka(_), ViewsPlace::Sqlite) => Err(layers.refuse(
            KEY,
            "nodes that share a log on Kafka share its users' keys, which are in PostgreSQL then: name the database with \
             `--database postgres://USER:PASSWORD@HOST:PORT/DATABASE`"
                .to_owned(),
        )),
        (Content::PerUserKey, LogPlace::Kafka(_), ViewsPlace::Postgres(address)) => match address.of_keys() {
            Ok(_) => Ok(content),
            Err(reason) => Err(layers.refuse(KEY, format!("{reason}: choose a shorter `--database-schema`"))),
        },
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
    fn content_is_plain_unless_said_and_sealed_on_kafka_with_keys_in_the_database() {
        let (sealed, kafka) = (("content", "per_user_key"), ("log", "kafka://broker:9092"));
        assert_eq!(of(&[]).unwrap(), Content::Plain);
        assert_eq!(of(&[sealed]).unwrap(), Content::PerUserKey);
        let error = of(&[sealed, kafka]).unwrap_err().to_string();
        assert!(error.contains("`content`") && error.contains("`--database postgres://"), "{error}");
        let database = ("database", "postgres://app:hush@db/views");
        assert_eq!(of(&[sealed, kafka, database]).unwrap(), Content::PerUserKey);
        let long = "x".repeat(60);
        let error = of(&[sealed, kafka, database, ("database-schema", &long)]).unwrap_err().to_string();
        assert!(error.contains("`--database-schema`") && !error.contains("hush"), "{error}");
    }

    #[test]
    fn content_is_read_as_it_is_written() {
        assert!(Content::ALL.into_iter().all(|content| Content::parse(content.as_str()) == Some(content)));
        assert_eq!(Content::parse("sealed"), None);
    }
}
