//! Where keys come from: variables that are read when a call is made and never kept in a specification.

use std::{collections::BTreeMap, fmt, sync::Arc};

/// Secrets shorter than this are not searched for in texts: blotting out every `1` would help nobody.
const REDACTED_BYTES_MIN: usize = 6;

/// The environment variables that agents may name.
#[derive(Clone)]
pub struct Environment(Source);

#[derive(Clone)]
enum Source {
    Process,
    Given(Arc<BTreeMap<String, String>>),
}

impl Environment {
    /// The variables of this process.
    #[must_use]
    pub fn of_process() -> Self {
        Self(Source::Process)
    }

    /// Exactly these variables.
    #[must_use]
    pub fn of(variables: &[(&str, &str)]) -> Self {
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Self(Source::Given(Arc::new(variables.collect())))
    }

    /// The variable without white space round it; `None` when it is not set, not UTF-8 or blank.
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        let value = match &self.0 {
            Source::Process => std::env::var(name).ok(),
            Source::Given(variables) => variables.get(name).cloned(),
        }?;
        Some(value.trim().to_owned()).filter(|value| !value.is_empty())
    }
}

impl fmt::Debug for Environment {
    /// Shows no value: they are secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Environment")
    }
}

/// The secrets that one call uses, so that no text which comes back shows them.
#[derive(Default)]
pub(crate) struct Secrets(Vec<String>);

impl Secrets {
    pub(crate) fn add(&mut self, secret: &str) {
        if secret.len() >= REDACTED_BYTES_MIN {
            self.0.push(secret.to_owned());
        }
    }

    /// `text` with every secret replaced by `[secret]`.
    pub(crate) fn redact(&self, text: String) -> String {
        self.0.iter().fold(text, |text, secret| {
            if text.contains(secret.as_str()) { text.replace(secret.as_str(), "[secret]") } else { text }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_shown_nowhere() {
        let environment = Environment::of(&[("KEY", " sk-very-secret\n")]);
        assert_eq!(environment.get("KEY").as_deref(), Some("sk-very-secret"));
        assert!(!format!("{environment:?}").contains("secret"));
        let mut secrets = Secrets::default();
        secrets.add("sk-very-secret");
        assert_eq!(secrets.redact("bad key sk-very-secret!".to_owned()), "bad key [secret]!");
    }
}
