//! What is written for SQLite, as PostgreSQL takes it. Only what our own statements hold is known here.

use crate::sql::migrations::JSON;

/// A statement: `?` and `?1` become `$1`, hints to SQLite's planner go, and `instr` is called `strpos`.
pub(super) fn statement(sql: &str) -> String {
    let mut out = String::with_capacity(sql.len() + 16);
    let mut rest = sql;
    let mut marks = 0;
    while let Some(at) = rest.find(['?', '+', '\'']) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let after = &from[1..];
        rest = match from.as_bytes()[0] {
            b'\'' => {
                let end = after.find('\'').map_or(from.len(), |end| end + 2);
                out.push_str(&from[..end]);
                &from[end..]
            }
            // A plus before a column keeps SQLite from an index; we add nothing anywhere.
            b'+' => after,
            _ => {
                let digits = after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
                marks += 1;
                let number = if digits == 0 { marks.to_string() } else { after[..digits].to_owned() };
                out.push('$');
                out.push_str(&number);
                &after[digits..]
            }
        };
    }
    out.push_str(rest);
    without_hints(&out.replace("instr(", "strpos("))
}

/// Where the values of an `INSERT` begin.
const VALUES: &str = "VALUES (";

/// Whether [`of_rows`] can put many rows into the statement.
pub(super) fn takes_many(sql: &str) -> bool {
    sql.contains(VALUES)
}

/// An `INSERT` of one row with so many values (`?1` to `?9`), as one of `rows`.
pub(super) fn of_rows(sql: &str, rows: usize, values: usize) -> String {
    let Some(begin) = sql.find(VALUES).filter(|_| rows > 1).map(|at| at + VALUES.len() - 1) else {
        return statement(sql);
    };
    let mut depth = 0_usize;
    let close = |(at, letter): (usize, char)| {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        (depth == 0).then_some(begin + at + 1)
    };
    let end = sql[begin..].char_indices().find_map(close).unwrap_or(sql.len());
    let row = &sql[begin..end];
    let rows: Vec<_> = (0..rows).map(|number| shifted(row, number * values)).collect();
    statement(&format!("{}{}{}", &sql[..begin], rows.join(", "), &sql[end..]))
}

/// The same row with its marks counted from further on.
fn shifted(row: &str, by: usize) -> String {
    let mut parts = row.split('?');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.len() - part.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let number: usize = part[..digits].parse().unwrap_or_default();
        out.push_str(&format!("?{}{}", number + by, &part[digits..]));
    }
    out
}

fn without_hints(sql: &str) -> String {
    const HINT: &str = " INDEXED BY ";
    let mut parts = sql.split(HINT);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let name = part.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(part.len());
        out.push_str(&part[name..]);
    }
    out
}

/// A step of the schema. Texts are compared byte by byte as SQLite does, whatever the database's language is.
pub(super) fn definition(sql: &str) -> String {
    let lines = sql.lines().filter(|line| !line.starts_with("/* sqlite */") && !line.starts_with("--"));
    let changed = lines.map(|line| {
        line.replace(&format!("TEXT {JSON}"), "JSON")
            .replace(" TEXT", " TEXT COLLATE \"C\"")
            .replace(" INTEGER", " BIGINT")
            .replace(" BLOB", " BYTEA")
            .replace(") STRICT;", ");")
    });
    changed.collect::<Vec<_>>().join("\n")
}

/// A name as it stands in a statement.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_say_the_same_in_the_other_language() {
        let sql = "SELECT a FROM t INDEXED BY t_by_a WHERE +a IN (?, '') AND b = '?+' AND instr(c, ?) > 0 LIMIT ?";
        let wanted = "SELECT a FROM t WHERE a IN ($1, '') AND b = '?+' AND strpos(c, $2) > 0 LIMIT $3";
        assert_eq!(statement(sql), wanted);
        assert_eq!(statement("VALUES (?1, ?2, coalesce(?2, ''), ?10)"), "VALUES ($1, $2, coalesce($2, ''), $10)");
    }

    #[test]
    fn many_rows_go_into_one_statement() {
        let sql = "INSERT INTO t (a, b) VALUES (?1, coalesce(?2, '')) ON CONFLICT (a) DO UPDATE SET b = excluded.b";
        let wanted = "INSERT INTO t (a, b) VALUES ($1, coalesce($2, '')), ($3, coalesce($4, '')) \
                      ON CONFLICT (a) DO UPDATE SET b = excluded.b";
        assert_eq!(of_rows(sql, 2, 2), wanted);
        assert_eq!(of_rows(sql, 1, 2), statement(sql));
        assert!(takes_many(sql) && !takes_many("UPDATE t SET b = ?2 WHERE a = ?1"));
    }

    #[test]
    fn definitions_keep_json_and_the_order_of_texts() {
        let sql = "-- why\nCREATE TABLE t (\n    a TEXT NOT NULL,\n    b TEXT /* json */,\n    c BLOB\n) STRICT;\n\
                   /* sqlite */ CREATE INDEX i ON t (a);";
        let wanted = "CREATE TABLE t (\n    a TEXT COLLATE \"C\" NOT NULL,\n    b JSON,\n    c BYTEA\n);";
        assert_eq!(definition(sql), wanted);
    }
}
