//! What an audit found, for people and for programs.

use reenact_projections::audit::{Difference, TableReport, Value as Column};
use serde::Serialize;
use serde_json::{Value, json};

use crate::cli::output::short;

/// Characters that are shown of a value.
const SHOWN: usize = 80;
/// Of them before the first that differs.
const SHOWN_BEFORE: usize = 20;

/// Something that is not as it must be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    /// `log`, `blobs`, `views` or `anchors`.
    #[serde(rename = "in")]
    pub(super) place: &'static str,
    /// What is wrong.
    pub(super) what: String,
    /// The table, where a row differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    table: Option<String>,
    /// Which row.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    /// In which column first.
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<String>,
    /// What is read, around the first character that differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    found: Option<String>,
    /// What the log gives.
    #[serde(skip_serializing_if = "Option::is_none")]
    expected: Option<String>,
}

impl Finding {
    pub(super) fn new(place: &'static str, what: impl ToString) -> Self {
        let what = what.to_string();
        Self { place, what, table: None, key: None, column: None, found: None, expected: None }
    }

    fn of_row(difference: &Difference) -> Self {
        let Difference { table, key, column, found, expected } = difference;
        let text = |value: &Option<Column>| value.as_ref().map(ToString::to_string);
        let (found, expected) = around(text(found), text(expected));
        let shown = |value: &Option<String>| value.clone().unwrap_or_else(|| "nothing".to_owned());
        let what = match column {
            Some(column) => format!(
                "table {table}, row {key}: column {column} is `{}`, and the log gives `{}`",
                shown(&found),
                shown(&expected)
            ),
            None if found.is_none() => format!("table {table}: the row {key} is missing"),
            None => format!("table {table}: the row {key} is there, and the log gives none"),
        };
        let (table, key, column) = (Some(table.clone()), Some(key.clone()), column.clone());
        Self { table, key, column, found, expected, ..Self::new("views", what) }
    }
}

/// The values around the first character in which they differ.
fn around(found: Option<String>, expected: Option<String>) -> (Option<String>, Option<String>) {
    let same = match (&found, &expected) {
        (Some(found), Some(expected)) => found.chars().zip(expected.chars()).take_while(|(a, b)| a == b).count(),
        _ => 0,
    };
    let skipped = same.saturating_sub(SHOWN_BEFORE);
    let cut = |text: String| {
        let rest: String = text.chars().skip(skipped).collect();
        format!("{}{}", if skipped > 0 { "…" } else { "" }, short(&rest, SHOWN))
    };
    (found.map(cut), expected.map(cut))
}

/// What was looked at, and what was found.
#[derive(Debug, Default)]
pub(super) struct Report {
    /// One line for each thing that was looked at.
    pub(super) looked: Vec<String>,
    /// The same for programs.
    pub(super) json: serde_json::Map<String, Value>,
    pub(super) findings: Vec<Finding>,
}

impl Report {
    /// Something is wrong.
    pub(super) fn found(&mut self, place: &'static str, what: impl ToString) {
        self.findings.push(Finding::new(place, what));
    }

    /// What was looked at in `place`, in words and for programs.
    pub(super) fn looked_at(&mut self, place: &str, words: &str, json: Value) {
        self.looked.push(format!("{place:<8} {words}"));
        self.json.insert(place.to_owned(), json);
    }

    /// How a table compares.
    pub(super) fn table(&mut self, report: &TableReport) -> Value {
        if let Some(first) = &report.first {
            self.findings.push(Finding::of_row(first));
        }
        json!({
            "table": report.table, "rows": report.rows, "expected_rows": report.expected_rows,
            "digest": report.digest, "differing_buckets": report.differing_buckets,
        })
    }

    pub(super) fn to_json(&self) -> Value {
        let mut json = self.json.clone();
        json.insert("same".to_owned(), json!(self.findings.is_empty()));
        json.insert("findings".to_owned(), json!(self.findings));
        Value::Object(json)
    }

    pub(super) fn lines(&self) -> Vec<String> {
        let findings = self.findings.iter().map(|finding| format!("DIFFERS  {}: {}", finding.place, finding.what));
        let end =
            if self.findings.is_empty() { "the same: nothing that was looked at differs" } else { "not the same" };
        self.looked.iter().cloned().chain(findings).chain([end.to_owned()]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_where_they_differ() {
        let text = |end: &str| Some(format!("{}{end}{}", "a".repeat(1000), "z".repeat(1000)));
        let (found, expected) = around(text("X"), text("Y"));
        let (found, expected) = (found.unwrap(), expected.unwrap());
        assert!(found.starts_with("…aaa") && found.contains("aXz") && found.ends_with('…'), "{found}");
        assert!(expected.contains("aYz") && expected.chars().count() < 100, "{expected}");
        assert_eq!(around(Some("1".into()), None), (Some("1".into()), None));
    }
}
