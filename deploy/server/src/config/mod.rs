//! Configuration: flags win over the environment, the environment over `reenact.toml`, the file over the
//! defaults. Every value remembers where it came from, so that `reenact config` can tell.

mod content;
mod database;
mod file;
mod kafka;
mod keys;
mod layers;
mod prices;
mod queue;
mod retention;
mod snapshots;

use std::{net::SocketAddr, path::PathBuf, str::FromStr, time::Duration};

pub use content::Content;
pub use database::ViewsPlace;
pub use kafka::Kafka;
pub use keys::{KEYS, Key};
pub use layers::{Flags, Layers, Source, Value};
use reenact_actors::admission::Bounds;
use reenact_projections::prices::Prices;
pub use snapshots::{SnapshotPlace, Snapshots};

use crate::retention::Policy;

/// The file that is read when `--config` names none.
pub const DEFAULT_FILE: &str = "reenact.toml";

/// A value that cannot be used, with its place.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A value is not what its key takes.
    #[error("{origin}: `{key}` cannot be `{value}`: {reason}")]
    Value {
        /// The key.
        key: &'static str,
        /// What it was given; `***` for a secret.
        value: String,
        /// Where that stands.
        origin: Source,
        /// What is wrong, and what would be right.
        reason: String,
    },
    /// The value means something that this version cannot do.
    #[error("{origin}: `{key} = {value}` is not in this version; {remedy}")]
    NotHere {
        /// The key.
        key: &'static str,
        /// What it was given.
        value: String,
        /// Where that stands.
        origin: Source,
        /// What works instead.
        remedy: &'static str,
    },
    /// The file holds something that is no key.
    #[error("`{file}` line {line}: there is no key `{key}`; the keys are: {known}")]
    UnknownKey {
        /// Which file.
        file: PathBuf,
        /// Which line, from 1.
        line: usize,
        /// What stands there.
        key: String,
        /// What could stand there.
        known: String,
    },
    /// A key has a value of a type that no key takes.
    #[error("`{file}` line {line}: `{key}` must be a text, a number, a truth value or a list of texts")]
    Type {
        /// Which file.
        file: PathBuf,
        /// Which line, from 1.
        line: usize,
        /// Which key.
        key: String,
    },
    /// The file is no TOML.
    #[error("`{file}` is not valid TOML: {reason}")]
    Syntax {
        /// Which file.
        file: PathBuf,
        /// What the reader said, with line and column.
        reason: String,
    },
    /// The file cannot be read.
    #[error("cannot read the configuration file `{file}`: {source}")]
    Unreadable {
        /// Which file.
        file: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

impl ConfigError {
    /// 2 when the command line is at fault, else 1.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        if matches!(self, Self::Value { origin: Source::Flag, .. }) { 2 } else { 1 }
    }
}

/// Which agents are served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Agents {
    /// The files in this folder, which must exist.
    Folder(PathBuf),
    /// The files in `./agents` if there is such a folder, else the built-in `demo`.
    FolderOrDemo(PathBuf),
}

/// Where the log is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogPlace {
    /// In the data directory.
    Embedded,
    /// On a Kafka cluster.
    Kafka(Kafka),
}

/// How much an acknowledged commit survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Loss of power.
    Full,
    /// A crash of the process; loss of power may take the last moments.
    Relaxed,
}

impl Durability {
    /// As it is written in the configuration.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Relaxed => "relaxed",
        }
    }
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For programs, one object a line.
    Json,
}

/// What one request may bring, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyLimits {
    /// The whole body.
    pub body: usize,
    /// The message, and any other text field of a form.
    pub message: usize,
    /// Each uploaded file.
    pub file: usize,
}

/// Everything that `reenact serve` can be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Where log, state, views and blobs are kept.
    pub data: PathBuf,
    /// Where HTTP is served.
    pub listen: SocketAddr,
    /// Which agents are served.
    pub agents: Agents,
    /// Where the log is.
    pub log: LogPlace,
    /// Where the views are.
    pub views: ViewsPlace,
    /// Where large texts and files are.
    pub objects: PathBuf,
    /// How users' content is stored.
    pub content: Content,
    /// Where the key is that users' keys are wrapped in, if they are.
    pub master_key_file: Option<PathBuf>,
    /// Where and when snapshots of the state stores are made.
    pub snapshots: Snapshots,
    /// The name of this process among its peers.
    pub node: String,
    /// Where other nodes find this one's HTTP.
    pub advertise: String,
    /// How many runs may be at work at once, and how many may wait.
    pub bounds: Bounds,
    /// How long runs may go on after a request to stop.
    pub drain: Duration,
    /// How long sessions are kept,
    pub retention: Policy,
    /// and how often that is looked at.
    pub retention_period: Duration,
    /// How long stored bytes that nothing refers to are kept.
    pub blob_grace: Duration,
    /// Serving beyond this machine without asking who calls was asked for.
    pub allow_unauthenticated: bool,
    /// What an acknowledged commit survives.
    pub durability: Durability,
    /// What one request may bring.
    pub limits: BodyLimits,
    /// The origins whose pages may call; empty is any.
    pub cors_origins: Vec<String>,
    /// What models cost.
    pub prices: Prices,
    /// A filter as `tracing` takes it.
    pub log_level: String,
    /// How log lines look.
    pub log_format: LogFormat,
}

impl Config {
    /// Reads the layers into their types.
    ///
    /// # Errors
    /// With the first value that its key does not take.
    pub fn from_layers(layers: &Layers) -> Result<Self, ConfigError> {
        Self::refuse_what_is_not_here(layers)?;
        let agents = PathBuf::from(layers.text("agents"));
        let explicit = layers.value("agents").source != Source::Default;
        let listen: SocketAddr = layers.parse("listen", "an address and a port like `127.0.0.1:7777`")?;
        let log = kafka::log_place(layers)?;
        let views = database::views_place(layers, &log)?;
        let objects = match layers.text("objects").trim() {
            "" => PathBuf::from(layers.text("data")).join("blobs"),
            folder => folder.into(),
        };
        Ok(Self {
            data: layers.text("data").into(),
            listen,
            agents: if explicit { Agents::Folder(agents) } else { Agents::FolderOrDemo(agents) },
            content: content::content(layers, &log, &views)?,
            views,
            snapshots: snapshots::snapshots(layers, &log, &objects)?,
            objects,
            master_key_file: Some(layers.text("master-key-file").trim())
                .filter(|file| !file.is_empty())
                .map(Into::into),
            node: match (layers.text("node").trim(), &log) {
                ("", LogPlace::Embedded) => "local".to_owned(),
                ("", LogPlace::Kafka(_)) => format!("{}:{}", host_name(), listen.port()),
                (name, _) => name.to_owned(),
            },
            advertise: match layers.text("advertise").trim() {
                "" => format!("http://{listen}"),
                url => match reqwest::Url::parse(url) {
                    Ok(parsed) if matches!(parsed.scheme(), "http" | "https") => url.to_owned(),
                    _ => return Err(layers.refuse("advertise", "it must be `http://HOST:PORT`, or empty".to_owned())),
                },
            },
            log,
            bounds: queue::bounds(layers)?,
            drain: Duration::from_secs(layers.parse("drain-s", "a whole number of seconds")?),
            retention: retention::policy(layers)?,
            retention_period: Duration::from_secs(layers.positive("retention-period-s")? as u64),
            blob_grace: Duration::from_secs(layers.parse("blob-grace-s", "a whole number of seconds")?),
            allow_unauthenticated: layers.parse("allow-unauthenticated", "`true` or `false`")?,
            durability: layers.one_of("durability", &[("full", Durability::Full), ("relaxed", Durability::Relaxed)])?,
            limits: BodyLimits {
                body: layers.positive("max-body-bytes")?,
                message: layers.positive("max-message-bytes")?,
                file: layers.positive("max-file-bytes")?,
            },
            cors_origins: layers.list("cors-origins"),
            prices: prices::prices(layers)?,
            log_level: layers.filled("log-level")?.to_owned(),
            log_format: layers.one_of("log-format", &[("text", LogFormat::Text), ("json", LogFormat::Json)])?,
        })
    }

    /// The names are those of later versions; taking a value and ignoring it would be worse than saying no.
    fn refuse_what_is_not_here(layers: &Layers) -> Result<(), ConfigError> {
        let (key, works) = ("auth", "none");
        if layers.text(key) == works {
            return Ok(());
        }
        let Value { text: value, source: origin, .. } = layers.value(key);
        let remedy = "this version does not check who calls: use `--auth none`, listen on a loopback address and put a \
                      proxy that checks in front";
        Err(ConfigError::NotHere { key, value, origin, remedy })
    }
}

/// What this machine is called, for people to tell nodes apart.
fn host_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    if name.is_empty() { "local".to_owned() } else { name }
}

impl Layers {
    fn refuse(&self, key: &'static str, reason: String) -> ConfigError {
        let value = self.value(key);
        ConfigError::Value { key, value: value.shown(), origin: value.source.clone(), reason }
    }

    fn parse<T: FromStr>(&self, key: &'static str, wanted: &str) -> Result<T, ConfigError> {
        self.text(key).trim().parse().map_err(|_| self.refuse(key, format!("it must be {wanted}")))
    }

    fn positive(&self, key: &'static str) -> Result<usize, ConfigError> {
        match self.parse(key, "a whole number above 0")? {
            0 => Err(self.refuse(key, "it must be a whole number above 0".to_owned())),
            number => Ok(number),
        }
    }

    fn filled(&self, key: &'static str) -> Result<&str, ConfigError> {
        match self.text(key).trim() {
            "" => Err(self.refuse(key, "it must not be empty".to_owned())),
            text => Ok(text),
        }
    }

    fn one_of<T: Copy>(&self, key: &'static str, choices: &[(&str, T)]) -> Result<T, ConfigError> {
        let text = self.text(key).trim();
        choices.iter().find(|(name, _)| *name == text).map(|(_, choice)| *choice).ok_or_else(|| {
            let names: Vec<_> = choices.iter().map(|(name, _)| format!("`{name}`")).collect();
            self.refuse(key, format!("it must be {}", names.join(" or ")))
        })
    }

    fn list(&self, key: &'static str) -> Vec<String> {
        self.text(key).split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(flags: &[(&'static str, &str)]) -> Result<Config, ConfigError> {
        let flags = flags.iter().map(|(key, value)| (*key, (*value).to_owned())).collect();
        Config::from_layers(&Layers::resolve(&flags, &|_| None, None)?)
    }

    #[test]
    fn the_defaults_are_those_of_the_front_door() {
        let config = config(&[]).unwrap();
        assert_eq!(config.data, PathBuf::from("./data"));
        assert_eq!(config.listen.to_string(), "127.0.0.1:7777");
        assert_eq!(config.agents, Agents::FolderOrDemo("./agents".into()));
        assert_eq!(config.bounds, Bounds { node: 32, waiting: 1000, ..Bounds::default() });
        assert_eq!(config.drain, Duration::from_secs(30));
        assert_eq!(config.durability, Durability::Full);
    }

    #[test]
    fn what_this_version_cannot_do_is_refused_by_name() {
        let error = config(&[("auth", "jwt")]).unwrap_err();
        assert!(error.to_string().contains("not in this version"), "{error}");
        assert!(error.to_string().contains("jwt"), "{error}");
        assert_eq!(error.exit_code(), 1);
    }

    #[test]
    fn bad_values_name_key_and_remedy() {
        for (key, value) in [
            ("listen", "7777"),
            ("listen", "localhost:7777"),
            ("max-concurrency", "0"),
            ("max-concurrency", "-1"),
            ("max-user-concurrency", "some"),
            ("max-provider-concurrency", "openai"),
            ("max-provider-concurrency", "openai=0"),
            ("max-provider-concurrency", "openai=4,openai=5"),
            ("drain-s", "soon"),
            ("retention-days", "-1"),
            ("retention-sessions", "few"),
            ("retention-period-s", "0"),
            ("durability", "none"),
            ("log-format", "xml"),
            ("allow-unauthenticated", "perhaps"),
            ("log", "kafka://"),
            ("log", "redis://localhost"),
            ("log", "kafka://name:secret@broker:9092"),
            ("advertise", "foo bar"),
            ("advertise", "broker:7777"),
            ("kafka-partitions", "0"),
            ("kafka-replication", "many"),
            ("kafka-replication", "0"),
            ("snapshots", "here"),
            ("content", "secret"),
            ("snapshot-events", "0"),
            ("snapshot-period-s", "never"),
        ] {
            let error = config(&[(key, value)]).unwrap_err();
            assert_eq!(error.exit_code(), 2);
            assert!(error.to_string().contains(&format!("`{key}`")), "{error}");
        }
    }
}
