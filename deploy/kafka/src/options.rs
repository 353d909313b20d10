//! What cluster to bring up.

use std::path::PathBuf;

use crate::jars;

/// What cluster to bring up.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where it lives: properties, data, logs, and which processes it has.
    pub dir: PathBuf,
    /// One or three.
    pub nodes: u16,
    /// Which Apache Kafka.
    pub version: String,
    /// The first of three ports per node; free ones are taken when there is none.
    pub port_base: Option<u16>,
    /// Broker properties that win over ours. In a value, `{node}`, `{port}`, `{controller_port}` and
    /// `{secure_port}` stand for the node's own; the secure port is for a listener that a property adds.
    pub extra: Vec<(String, String)>,
    /// Where the jars are kept.
    pub jars: PathBuf,
    /// Is told what is going on.
    pub progress: fn(&str),
}

impl Options {
    /// One node of the default version on free ports, in silence.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            nodes: 1,
            version: jars::DEFAULT_VERSION.to_owned(),
            port_base: None,
            extra: Vec::new(),
            jars: jars::default_folder(),
            progress: |_| {},
        }
    }

    /// The same with this many nodes.
    #[must_use]
    pub fn nodes(mut self, nodes: u16) -> Self {
        self.nodes = nodes;
        self
    }

    /// The same with another Kafka.
    #[must_use]
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.version = version.into();
        self
    }

    /// The same with one more broker property.
    #[must_use]
    pub fn property(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.extra.push((name.into(), value.into()));
        self
    }
}
