//! What the configuration says about a log on Kafka.

use std::{collections::BTreeMap, num::NonZero, path::PathBuf};

use super::{ConfigError, Layers, LogPlace, Source};

const SCHEME: &str = "kafka://";

/// A Kafka cluster, and how the log lies on it.
#[derive(Clone, PartialEq, Eq)]
pub struct Kafka {
    /// `HOST:PORT`, several with commas between.
    pub brokers: String,
    /// What the topics begin with.
    pub prefix: String,
    /// Partitions of a log that is created now.
    pub partitions: u32,
    /// Somebody asked for that number.
    pub partitions_asked: bool,
    /// Replicas of topics that are created now.
    pub replication: Option<u16>,
    /// librdkafka properties, secrets among them.
    pub properties: BTreeMap<String, String>,
}

impl std::fmt::Debug for Kafka {
    /// Values of properties may be secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kafka").field("brokers", &self.brokers).field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

/// Where the log is.
pub(super) fn log_place(layers: &Layers) -> Result<LogPlace, ConfigError> {
    // A wrong value is refused where it is not needed either: it would wait there for the day that it is.
    let partitions = layers.positive("kafka-partitions")?;
    let replication = match layers.text("kafka-replication").trim() {
        "" => None,
        _ => Some(layers.parse::<NonZero<u16>>("kafka-replication", "a number of brokers, or empty")?.get()),
    };
    let text = layers.text("log").trim();
    if text == "embedded" {
        return Ok(LogPlace::Embedded);
    }
    let brokers = text.strip_prefix(SCHEME).unwrap_or_default().trim_end_matches('/');
    if brokers.is_empty() || brokers.split(',').any(|broker| !is_address(broker)) {
        return Err(layers.refuse("log", "it must be `embedded` or `kafka://HOST:PORT[,HOST:PORT…]`".to_owned()));
    }
    Ok(LogPlace::Kafka(Kafka {
        brokers: brokers.to_owned(),
        prefix: layers.filled("topic-prefix")?.to_owned(),
        partitions: u32::try_from(partitions).unwrap_or(u32::MAX),
        partitions_asked: layers.value("kafka-partitions").source != Source::Default,
        replication,
        properties: properties(layers)?,
    }))
}

fn is_address(broker: &str) -> bool {
    // Who may use the brokers is said by their properties: an address with a name in it would be looked up as it is.
    let is_host = |host: &str| !host.is_empty() && !host.contains(['@', '/']);
    broker.rsplit_once(':').is_some_and(|(host, port)| is_host(host) && port.parse::<u16>().is_ok())
}

/// Reads the file of properties; secrets stand in it as references.
fn properties(layers: &Layers) -> Result<BTreeMap<String, String>, ConfigError> {
    let file = layers.text("kafka-properties").trim();
    if file.is_empty() {
        return Ok(BTreeMap::new());
    }
    let refuse = |reason: String| layers.refuse("kafka-properties", reason);
    let text = std::fs::read_to_string(file).map_err(|error| refuse(format!("it cannot be read: {error}")))?;
    let mut properties = BTreeMap::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (name, value) = line.split_once('=').ok_or_else(|| refuse(format!("line {number} is not `name=value`")))?;
        let value = resolved(value.trim()).map_err(|reason| refuse(format!("line {number}: {reason}")))?;
        properties.insert(name.trim().to_owned(), value);
    }
    Ok(properties)
}

/// A value as it stands, or from the environment (`env:NAME`), or from a file (`file:PATH`).
fn resolved(value: &str) -> Result<String, String> {
    if let Some(name) = value.strip_prefix("env:") {
        return std::env::var(name).map_err(|_| format!("the environment variable `{name}` is not set"));
    }
    if let Some(path) = value.strip_prefix("file:") {
        let text = std::fs::read_to_string(PathBuf::from(path));
        return text
            .map(|text| text.trim_end().to_owned())
            .map_err(|error| format!("`{path}` cannot be read: {error}"));
    }
    Ok(value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Flags};

    fn kafka(flags: &[(&'static str, &str)]) -> Result<Kafka, ConfigError> {
        let flags: Flags = flags.iter().map(|(key, value)| (*key, (*value).to_owned())).collect();
        match Config::from_layers(&Layers::resolve(&flags, &|_| None, None)?)?.log {
            LogPlace::Kafka(kafka) => Ok(kafka),
            LogPlace::Embedded => panic!("embedded"),
        }
    }

    #[test]
    fn several_brokers_are_named_with_commas() {
        let kafka = kafka(&[("log", "kafka://a:9092,b:9092"), ("topic-prefix", "team")]).unwrap();
        assert_eq!((kafka.brokers.as_str(), kafka.prefix.as_str()), ("a:9092,b:9092", "team"));
        assert_eq!((kafka.partitions, kafka.replication), (6, None));
    }

    #[test]
    fn properties_come_from_a_file_and_their_secrets_from_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        let (file, secret) = (folder.path().join("kafka.properties"), folder.path().join("secret"));
        std::fs::write(&secret, "hunter2\n").unwrap();
        let text = format!("# to the broker\nsasl.username=alice\nsasl.password=file:{}\n", secret.display());
        std::fs::write(&file, text).unwrap();
        let path = file.to_str().unwrap();
        let kafka = kafka(&[("log", "kafka://a:1"), ("kafka-properties", path)]).unwrap();
        assert_eq!(kafka.properties["sasl.password"], "hunter2");
        assert!(!format!("{kafka:?}").contains("hunter2"));
    }

    #[test]
    fn a_property_that_cannot_be_read_is_named_by_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("kafka.properties");
        for (text, told) in [("a=b\nnothing", "line 2"), ("a=env:REENACT_NOT_SET", "REENACT_NOT_SET")] {
            std::fs::write(&file, text).unwrap();
            let error = kafka(&[("log", "kafka://a:1"), ("kafka-properties", file.to_str().unwrap())]).unwrap_err();
            assert!(error.to_string().contains(told), "{error}");
        }
    }
}
