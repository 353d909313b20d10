//! What goes to standard output: JSON for programs, plain columns for people.

use std::io::Write;

use serde_json::Value;

/// Writes one JSON value, or a list as one object a line.
pub(super) fn json(value: &Value) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match value {
        Value::Array(items) => {
            for item in items {
                writeln!(out, "{item}")?;
            }
        }
        one => writeln!(out, "{one}")?,
    }
    Ok(())
}

/// Writes lines.
pub(super) fn lines(lines: impl IntoIterator<Item = String>) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    for line in lines {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// Rows under heads, each column as wide as its widest cell; the last one is as long as it is.
pub(super) fn table(heads: &[&str], rows: &[Vec<String>]) -> Vec<String> {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain([heads[column].chars().count()]).max().unwrap_or_default()
    };
    let widths: Vec<_> = (0..heads.len()).map(width).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let padded = cells.zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let head = line(&mut heads.iter().copied());
    std::iter::once(head).chain(rows.iter().map(|row| line(&mut row.iter().map(String::as_str)))).collect()
}

/// What people need to read of an event's type.
pub(super) fn kind(name: &str) -> &str {
    name.strip_prefix("dev.reenact.").unwrap_or(name)
}

/// The text on one line, cut to `chars` characters.
pub(super) fn short(text: &str, chars: usize) -> String {
    let flat: String = text.chars().map(|character| if character.is_control() { ' ' } else { character }).collect();
    match flat.char_indices().nth(chars) {
        Some((at, _)) => format!("{}…", &flat[..at]),
        None => flat,
    }
}

/// A field as text, empty when it is not there.
pub(super) fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = vec![vec!["a".to_owned(), "long text".to_owned()], vec!["longer".to_owned(), "x".to_owned()]];
        assert_eq!(table(&["ID", "TEXT"], &rows), ["ID      TEXT", "a       long text", "longer  x"]);
    }

    #[test]
    fn a_cut_text_is_one_line_of_whole_characters() {
        assert_eq!(short("Zoë\n🙂🙂", 5), "Zoë 🙂…");
        assert_eq!(short("ab", 5), "ab");
    }
}
