//! Puts flags, environment, file and defaults on top of each other.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
};

use super::{ConfigError, KEYS, file, keys::Secret};

/// What the command line said, by key.
pub type Flags = BTreeMap<&'static str, String>;

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The command line.
    Flag,
    /// This environment variable.
    Environment(String),
    /// This line of this file.
    File(PathBuf, usize),
    /// Nobody said anything.
    Default,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag => f.write_str("command line"),
            Self::Environment(variable) => write!(f, "environment variable `{variable}`"),
            Self::File(file, line) => write!(f, "`{}` line {line}", file.display()),
            Self::Default => f.write_str("default"),
        }
    }
}

/// A value with where it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Value {
    /// As it was written.
    pub text: String,
    /// Where.
    pub source: Source,
    secret: Secret,
}

impl Value {
    /// The text as it may be shown to anybody.
    #[must_use]
    pub fn shown(&self) -> String {
        match self.secret {
            Secret::All if !self.text.is_empty() => "***".to_owned(),
            Secret::Password => without_password(&self.text),
            Secret::All | Secret::Nothing => self.text.clone(),
        }
    }
}

/// A URL whose password is `***`, also when it is none that anybody could read.
fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let hidden = match rest.rsplit_once('@') {
        Some((user, host)) => match user.split_once(':') {
            Some((user, _)) => format!("{user}:***@{host}"),
            None => rest.to_owned(),
        },
        None => rest.to_owned(),
    };
    // It may stand behind the question mark as well.
    match hidden.split_once("password=") {
        Some((before, _)) => format!("{scheme}://{before}password=***"),
        None => format!("{scheme}://{hidden}"),
    }
}

/// The value of every key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layers(BTreeMap<&'static str, Value>);

impl Layers {
    /// Resolves every key. Without `config_file`, `reenact.toml` is read if it exists.
    ///
    /// # Errors
    /// When the file cannot be read or holds what no key takes.
    pub fn resolve(
        flags: &Flags,
        environment: &dyn Fn(&str) -> Option<String>,
        config_file: Option<&Path>,
    ) -> Result<Self, ConfigError> {
        let file = file::read(config_file)?;
        let values = KEYS.iter().map(|key| {
            let from_flag = || flags.get(key.name).map(|text| (text.clone(), Source::Flag));
            let from_environment = || {
                let variable = key.variable();
                environment(&variable).map(|text| (text, Source::Environment(variable)))
            };
            let (text, source) = from_flag()
                .or_else(from_environment)
                .or_else(|| file.get(key.name).cloned())
                .unwrap_or_else(|| (key.default.to_owned(), Source::Default));
            (key.name, Value { text, source, secret: key.secret })
        });
        Ok(Self(values.collect()))
    }

    /// The value of a key.
    ///
    /// Asking for a name that is not in [`KEYS`] gets an empty default: a test asks for all that are used.
    #[must_use]
    pub fn value(&self, key: &str) -> Value {
        self.0.get(key).cloned().unwrap_or(Value {
            text: String::new(),
            source: Source::Default,
            secret: Secret::Nothing,
        })
    }

    /// The text of a key.
    #[must_use]
    pub fn text(&self, key: &str) -> &str {
        self.0.get(key).map_or("", |value| &value.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_win_over_environment_over_file_over_defaults() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("reenact.toml");
        std::fs::write(&path, "# ours\ndata = \"f\"\nmax_concurrency = 7\ndrain-s = 5\n").unwrap();
        let flags = Flags::from([("data", "c".to_owned())]);
        let environment = |name: &str| match name {
            "REENACT_DATA" => Some("e".to_owned()),
            "REENACT_MAX_CONCURRENCY" => Some("8".to_owned()),
            _ => None,
        };
        let layers = Layers::resolve(&flags, &environment, Some(&path)).unwrap();
        assert_eq!(layers.value("data").source, Source::Flag);
        assert_eq!(layers.text("max-concurrency"), "8");
        assert_eq!(layers.value("drain-s").source, Source::File(path, 4));
        assert_eq!(layers.value("listen").source, Source::Default);
    }

    #[test]
    fn a_secret_is_never_shown() {
        let flags = Flags::from([("security-key", "hush".to_owned())]);
        let layers = Layers::resolve(&flags, &|_| None, None).unwrap();
        assert_eq!(layers.value("security-key").shown(), "***");
        assert_eq!(layers.value("jwt-verification-keys").shown(), "");
        for (url, shown) in [
            ("sqlite", "sqlite"),
            ("postgres://app:hush@db:5432/views", "postgres://app:***@db:5432/views"),
            ("postgres://app:hu@sh@db/views", "postgres://app:***@db/views"),
            ("postgres://app@db/views?password=hush", "postgres://app@db/views?password=***"),
        ] {
            let flags = Flags::from([("database", url.to_owned())]);
            assert_eq!(Layers::resolve(&flags, &|_| None, None).unwrap().value("database").shown(), shown);
        }
    }

    #[test]
    fn mistakes_in_the_file_name_file_line_and_key() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.toml");
        for (text, wanted) in [
            ("data = \"x\"\n\nlissten = \"y\"\n", "line 3: there is no key `lissten`"),
            ("data = { a = 1 }\n", "line 1: `data` must be a text"),
            ("\ndata = \n", "not valid TOML"),
            ("[server]\nlisten = \"x\"\n", "line 1: there is no key `server`"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = Layers::resolve(&Flags::new(), &|_| None, Some(&path)).unwrap_err().to_string();
            assert!(error.contains(wanted) && error.contains("r.toml"), "{error}");
        }
    }

    #[test]
    fn a_file_that_was_asked_for_must_be_there() {
        let error = Layers::resolve(&Flags::new(), &|_| None, Some(Path::new("/nowhere/r.toml"))).unwrap_err();
        assert!(matches!(error, ConfigError::Unreadable { .. }));
        assert_eq!(error.exit_code(), 1);
    }
}
