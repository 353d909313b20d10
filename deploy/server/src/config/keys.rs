//! Every key once: its name, default, whether it is secret, and what it is for. Flags, environment, file,
//! help and `reenact config` all read this table.

/// A key of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// As it stands on the command line after `--`. In the file `_` may stand for `-`.
    pub name: &'static str,
    /// Its value when nobody says anything.
    pub default: &'static str,
    /// What of its value is never shown.
    pub secret: Secret,
    /// What it is for.
    pub help: &'static str,
}

/// What of a value is never shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Secret {
    /// Nothing.
    Nothing,
    /// The password in a URL.
    Password,
    /// All of it.
    All,
}

impl Key {
    const fn new(name: &'static str, default: &'static str, help: &'static str) -> Self {
        Self { name, default, secret: Secret::Nothing, help }
    }

    const fn url(name: &'static str, default: &'static str, help: &'static str) -> Self {
        Self { name, default, secret: Secret::Password, help }
    }

    const fn secret(name: &'static str, help: &'static str) -> Self {
        Self { name, default: "", secret: Secret::All, help }
    }

    /// The environment variable that sets it.
    #[must_use]
    pub fn variable(&self) -> String {
        format!("REENACT_{}", self.name.replace('-', "_").to_uppercase())
    }
}

/// All keys, in the order in which they are shown.
pub const KEYS: &[Key] = &[
    Key::new("data", "./data", "Where log, state, views and blobs are kept"),
    Key::new("listen", "127.0.0.1:7777", "Where HTTP is served"),
    Key::new("agents", "./agents", "The folder of agent files; without it and without `./agents`, `demo` is served"),
    Key::new(
        "log",
        "embedded",
        "Where the log is: `embedded` (in the data directory) or `kafka://HOST:PORT[,HOST:PORT…]`",
    ),
    Key::url(
        "database",
        "sqlite",
        "Where the views are: `sqlite` (in the data directory) or `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, which \
         nodes share; `?sslmode=require` encrypts and checks the server's certificate",
    ),
    Key::new(
        "database-schema",
        "",
        "The schema of the views in `--database postgres://…`; empty is `reenact`, or `--topic-prefix` on Kafka",
    ),
    Key::new("topic-prefix", "reenact", "What the topics of `--log kafka://…` begin with; it names the deployment"),
    Key::new("kafka-partitions", "6", "Partitions of a log on Kafka that is created now; they stay for its whole life"),
    Key::new("kafka-replication", "", "Replicas of topics that are created now; empty is three, or as many as brokers"),
    Key::new(
        "kafka-properties",
        "",
        "A file of librdkafka properties (`name=value`; `env:NAME`, `file:PATH` as values)",
    ),
    Key::new(
        "objects",
        "",
        "The folder of large texts and files; nodes share it; empty is `blobs` in the data directory",
    ),
    Key::new(
        "content",
        "plain",
        "How users' content is stored in a log that is made now: `plain`, or `per_user_key`, sealed so that a user can be \
         erased (on Kafka with `--database postgres://…`); it stays for the log's whole life",
    ),
    Key::new(
        "master-key-file",
        "",
        "A file with 64 hexadecimal digits in which the users' keys are wrapped; empty is none: then `keys.db` in the \
         data directory, or on Kafka the database, is to be protected",
    ),
    Key::new(
        "snapshots",
        "",
        "Where snapshots of the states lie: `file:///FOLDER`, `s3://BUCKET/PREFIX`, `gs://…` or `none`; empty is \
         `none`, or `snapshots` in `--objects` on Kafka",
    ),
    Key::new("snapshot-events", "50000", "Events of a partition after which a snapshot of its states is made"),
    Key::new("snapshot-period-s", "600", "Seconds after which one is made if there were events at all"),
    Key::new(
        "node",
        "",
        "The name of this process among its peers; empty is `local`, or the machine's name and the port on Kafka",
    ),
    Key::new("advertise", "", "Where other nodes find this one's HTTP; empty is `http://` and `--listen`"),
    Key::new("max-concurrency", "32", "How many runs are at work at once"),
    Key::new("max-user-concurrency", "0", "How many runs of one user are at work at once; 0 is no bound"),
    Key::new(
        "max-provider-concurrency",
        "",
        "How many runs whose model is of a provider are at work at once, as `openai=8,demo=2`; others have no bound",
    ),
    Key::new("max-queue-depth", "1000", "How many runs may wait; 0 is no bound"),
    Key::new("drain-s", "30", "Seconds that runs may go on after a request to stop"),
    Key::new("retention-days", "0", "Days after which a session that nobody has used is deleted; 0 is never"),
    Key::new("retention-sessions", "0", "How many sessions of each owner are kept, those used last; 0 is all"),
    Key::new("retention-period-s", "3600", "Seconds between two looks at what is not to be kept"),
    Key::new("blob-grace-s", "3600", "Seconds after which stored bytes that nothing refers to any more are removed"),
    Key::new(
        "durability",
        "full",
        "What an acknowledged commit survives: `full` (loss of power) or `relaxed` (a crash)",
    ),
    Key::new("auth", "none", "How callers prove who they are: `none` in this version"),
    Key::new("allow-unauthenticated", "false", "Serve an address beyond this machine although nobody is asked"),
    Key::secret("security-key", "The shared secret of `--auth key`"),
    Key::secret("jwt-verification-keys", "The secrets or PEM files of `--auth jwt`"),
    Key::new("jwt-algorithm", "RS256", "The algorithm of `--auth jwt`"),
    Key::new("jwks", "", "The key set of `--auth jwt`"),
    Key::new("max-body-bytes", "67108864", "The most bytes that a request may have"),
    Key::new("max-message-bytes", "16777216", "The most bytes that a message, or another text field, may have"),
    Key::new("max-file-bytes", "33554432", "The most bytes that an uploaded file may have"),
    Key::new("cors-origins", "", "The origins whose pages may call; empty is any"),
    Key::new(
        "prices",
        "",
        "A TOML file of what models cost, `[[prices]]` for each; empty is no prices: costs are unknown",
    ),
    Key::new("log-level", "info", "What is logged, as a filter of `tracing`; `RUST_LOG` wins"),
    Key::new("log-format", "text", "How log lines look: `text` or `json`"),
];

/// The key of this name, `_` and `-` being the same.
pub(super) fn find(name: &str) -> Option<&'static Key> {
    let name = name.replace('_', "-");
    KEYS.iter().find(|key| key.name == name)
}
