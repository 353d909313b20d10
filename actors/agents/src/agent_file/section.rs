//! Reads the keys of one table. A wrong value is noted and stands as absent, so that reading goes on.

use std::ops::{Range, RangeInclusive};

use toml_edit::{Item, TableLike};

use super::problems::Problems;

/// One table of a file.
pub(super) struct Section<'a> {
    problems: &'a Problems,
    table: &'a dyn TableLike,
    path: String,
    span: Range<usize>,
}

impl<'a> Section<'a> {
    /// Opens a table and notes every key that is not among `allowed`.
    pub(super) fn open(
        problems: &'a Problems,
        table: &'a dyn TableLike,
        path: &str,
        span: Range<usize>,
        allowed: &[&str],
    ) -> Self {
        let section = Self { problems, table, path: path.to_owned(), span };
        for (name, _) in table.iter() {
            if !allowed.contains(&name) {
                section.note(name, format!("unknown key; allowed here are {}", list(allowed)));
            }
        }
        section
    }

    /// Notes a problem with the value of `key`, or with the whole section when it has no such key.
    pub(super) fn note(&self, key: &str, message: impl Into<String>) {
        self.problems.add(&self.key_path(key), self.span_of(key), message);
    }

    pub(super) fn problems(&self) -> &'a Problems {
        self.problems
    }

    /// The whole name of a key, for example `model.id`.
    pub(super) fn key_path(&self, key: &str) -> String {
        match (self.path.is_empty(), key.is_empty()) {
            (true, _) => key.to_owned(),
            (false, true) => self.path.clone(),
            (false, false) => format!("{}.{key}", self.path),
        }
    }

    pub(super) fn span_of(&self, key: &str) -> Range<usize> {
        let known = self.table.get_key_value(key);
        known.and_then(|(key, item)| key.span().or_else(|| item.span())).unwrap_or_else(|| self.span.clone())
    }

    pub(super) fn item(&self, key: &str) -> Option<&'a Item> {
        self.table.get(key)
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    fn typed<T>(&self, key: &str, wanted: &str, read: impl Fn(&'a Item) -> Option<T>) -> Option<T> {
        let item = self.table.get(key)?;
        let value = read(item);
        if value.is_none() {
            self.note(key, format!("must be {wanted}, but is {}", with_article(item.type_name())));
        }
        value
    }

    pub(super) fn text(&self, key: &str) -> Option<String> {
        self.typed(key, "a string", Item::as_str).map(str::to_owned)
    }

    /// A text that must be there and hold more than white space.
    pub(super) fn required_text(&self, key: &str, meaning: &str) -> Option<String> {
        if !self.has(key) {
            self.note(key, format!("missing; it is {meaning}"));
            return None;
        }
        let text = self.text(key)?;
        if text.trim().is_empty() {
            self.note(key, format!("must not be empty; it is {meaning}"));
            return None;
        }
        Some(text)
    }

    /// One of the words `allowed`.
    pub(super) fn word(&self, key: &str, allowed: &[&str]) -> Option<String> {
        let word = self.text(key)?;
        if !allowed.contains(&word.as_str()) {
            let shown = crate::text::preview(&word, 60);
            self.note(key, format!("`{shown}` is not known; allowed are {}", list(allowed)));
            return None;
        }
        Some(word)
    }

    /// A list of texts; empty when it is absent or something else.
    pub(super) fn texts(&self, key: &str) -> Vec<String> {
        let texts = |item: &Item| -> Option<Vec<String>> {
            item.as_array()?.iter().map(|value| value.as_str().map(str::to_owned)).collect()
        };
        self.typed(key, "a list of strings", texts).unwrap_or_default()
    }

    pub(super) fn flag(&self, key: &str) -> Option<bool> {
        self.typed(key, "`true` or `false`", Item::as_bool)
    }

    /// A whole number within `range`.
    pub(super) fn whole(&self, key: &str, range: RangeInclusive<u32>) -> Option<u32> {
        let wanted = format!("a whole number from {} to {}", range.start(), range.end());
        let number = self.typed(key, &wanted, Item::as_integer)?;
        let within = u32::try_from(number).ok().filter(|number| range.contains(number));
        if within.is_none() {
            self.note(key, format!("must be {wanted}, but is {number}"));
        }
        within
    }

    /// A number within `range`.
    pub(super) fn number(&self, key: &str, range: RangeInclusive<f64>) -> Option<f64> {
        let wanted = format!("a number from {} to {}", range.start(), range.end());
        let read = |item: &Item| item.as_float().or_else(|| item.as_integer().map(|whole| whole as f64));
        let number = self.typed(key, &wanted, read)?;
        if !range.contains(&number) {
            self.note(key, format!("must be {wanted}, but is {number}"));
            return None;
        }
        Some(number)
    }

    /// The table under `key`.
    pub(super) fn section(&self, key: &str, allowed: &[&str]) -> Option<Section<'a>> {
        let table = self.table(key)?;
        Some(Section::open(self.problems, table, &self.key_path(key), self.span_of(key), allowed))
    }

    /// The tables of `[[key]]`, or of `key = [{…}]`.
    pub(super) fn tables(&self, key: &str) -> Vec<(&'a dyn TableLike, Range<usize>)> {
        let Some(item) = self.item(key) else { return Vec::new() };
        if let Some(tables) = item.as_array_of_tables() {
            return tables.iter().map(|table| (table as &dyn TableLike, table.span().unwrap_or_default())).collect();
        }
        let inline = item.as_array().map(|array| array.iter().map(|value| value.as_inline_table()).collect::<Vec<_>>());
        match inline.and_then(|tables| tables.into_iter().collect::<Option<Vec<_>>>()) {
            Some(tables) => {
                tables.into_iter().map(|table| (table as &dyn TableLike, table.span().unwrap_or_default())).collect()
            }
            None => {
                let path = self.key_path(key);
                self.note(key, format!("must be a list of tables, each written as `[[{path}]]`"));
                Vec::new()
            }
        }
    }

    /// One of [`Section::tables`].
    pub(super) fn element(
        &self,
        key: &str,
        index: usize,
        (table, span): &(&'a dyn TableLike, Range<usize>),
        allowed: &[&str],
    ) -> Section<'a> {
        let path = format!("{}[{index}]", self.key_path(key));
        Section::open(self.problems, *table, &path, span.clone(), allowed)
    }

    pub(super) fn table(&self, key: &str) -> Option<&'a dyn TableLike> {
        self.typed(key, "a table", Item::as_table_like)
    }
}

/// The words in backticks.
pub(super) fn list(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

fn with_article(name: &str) -> String {
    let article = if name.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
    format!("{article} {name}")
}
