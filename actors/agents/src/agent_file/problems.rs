//! Collects what is wrong in a file, with the places.

use std::{
    cell::RefCell,
    fmt,
    ops::Range,
    path::{Path, PathBuf},
};

/// Something that is wrong in an agent file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct AgentFileError {
    /// In which file.
    pub file: PathBuf,
    /// In which line, from 1.
    pub line: usize,
    /// At which character of the line, from 1.
    pub column: usize,
    /// Which key, for example `tools[0].effect`; empty when it is about the whole file.
    pub key: String,
    /// What is wrong, and what is allowed.
    pub message: String,
}

impl AgentFileError {
    pub(super) fn of_file(file: &Path, message: &str) -> Self {
        Self { file: file.to_owned(), line: 1, column: 1, key: String::new(), message: message.to_owned() }
    }
}

impl fmt::Display for AgentFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: ", self.file.display(), self.line, self.column)?;
        if !self.key.is_empty() {
            write!(f, "`{}`: ", self.key)?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for AgentFileError {}

/// A file and what was found wrong in it so far.
///
/// The list is behind a cell because readers of nested sections hold the file at the same time.
pub(super) struct Problems {
    file: PathBuf,
    text: String,
    errors: RefCell<Vec<AgentFileError>>,
}

impl Problems {
    pub(super) fn of(file: &Path, text: String) -> Self {
        let text = text.strip_prefix('\u{FEFF}').map(str::to_owned).unwrap_or(text);
        Self { file: file.to_owned(), text, errors: RefCell::default() }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The file's name without its ending.
    pub(super) fn stem(&self) -> String {
        self.file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// A file that is named in this one: beside it, unless its name says where it is.
    pub(super) fn beside(&self, name: &str) -> PathBuf {
        self.file.parent().map_or_else(|| PathBuf::from(name), |folder| folder.join(name))
    }

    pub(super) fn add(&self, key: &str, span: Range<usize>, message: impl Into<String>) {
        let before = self.text.get(..span.start).unwrap_or(&self.text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        self.errors.borrow_mut().push(AgentFileError {
            file: self.file.clone(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            key: key.to_owned(),
            message: message.into(),
        });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.errors.borrow().is_empty()
    }

    /// What was found, in the file's order.
    pub(super) fn into_errors(self) -> Vec<AgentFileError> {
        let mut errors = self.errors.into_inner();
        errors.sort();
        errors
    }
}
