//! Every key once: its name, default, whether it is secret, and what it is for. Flags, environment, file,
//! help and `reenact config` all read this table.

/// A key of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// As it stands on the command line after `--`. In the file `_` may stand for `-`.
    pub name: &'static str,
    /// Its value when nobody says anything.
    pub default: &'static str,
    /// Its value is never shown.
    pub secret: bool,
}

impl Key {
    const fn new(name: &'static str, default: &'static str) -> Self {
        Self { name, default, secret: false }
    }

    const fn secret(name: &'static str) -> Self {
        Self { name, default: "", secret: true }
    }

    /// The environment variable that sets it.
    #[must_use]
    pub fn variable(&self) -> String {
        format!("REENACT_{}", self.name.replace('-', "_").to_uppercase())
    }
}

/// All keys, in the order in which they are shown.
pub const KEYS: &[Key] = &[
    Key::new("data", "./data"),
    Key::new("listen", "127.0.0.1:7777"),
    Key::new("agents", "./agents"),
    Key::new("log", "embedded"),
    Key::new("database", "sqlite"),
    Key::new("topic-prefix", "reenact"),
    Key::new("node", "local"),
    Key::new("max-concurrency", "32"),
    Key::new("max-queue-depth", "1000"),
    Key::new("drain-s", "30"),
    Key::new("durability", "full"),
    Key::new("auth", "none"),
    Key::new("allow-unauthenticated", "false"),
    Key::secret("security-key"),
    Key::secret("jwt-verification-keys"),
    Key::new("jwt-algorithm", "RS256"),
    Key::new("jwks", ""),
    Key::new("max-body-bytes", "67108864"),
    Key::new("max-message-bytes", "16777216"),
    Key::new("max-file-bytes", "33554432"),
    Key::new("cors-origins", ""),
    Key::new("log-level", "info"),
    Key::new("log-format", "text"),
];

/// The key of this name, `_` and `-` being the same.
pub(super) fn find(name: &str) -> Option<&'static Key> {
    let name = name.replace('_', "-");
    KEYS.iter().find(|key| key.name == name)
}
