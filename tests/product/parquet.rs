//! Rows as Parquet are the rows, for a reader that knows nothing of ours.

use std::{collections::BTreeMap, fs, path::PathBuf, process::Command};

use serde_json::Value;

use crate::support::{PATIENCE, Product};

/// Compares each file with its table, and tells what columns are declared as.
const READER: &str = r#"
import collections, duckdb, json, sqlite3, sys

rows, files = sqlite3.connect(sys.argv[1]), sys.argv[2]
names = [name for (name,) in rows.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")]
told = {}
for name in names:
    if name == "schema_versions":
        continue
    file = f"{files}/{name}.parquet"
    read = duckdb.sql(f"SELECT * FROM read_parquet('{file}')")
    columns = [column for (_, column, *_) in rows.execute(f"PRAGMA table_info({name})")]
    assert read.columns == columns, (name, read.columns, columns)
    ours, theirs = (collections.Counter(each) for each in (rows.execute(f"SELECT * FROM {name}"), read.fetchall()))
    assert ours == theirs, (name, ours - theirs, theirs - ours)
    schema = duckdb.sql(f"SELECT name, type, logical_type FROM parquet_schema('{file}') WHERE num_children IS NULL")
    told[name] = {"rows": sum(ours.values()), "columns": {column: [kind, logical] for column, kind, logical in schema.fetchall()}}
print(json.dumps(told))
"#;

/// What nobody expects in a text.
const AWKWARD: &str =
    "\u{0}\u{1a}\u{7f}\u{202e}\u{feff}\u{1f600}\u{10ffff} \"quoted\", \\n;\r\n\t'; DROP TABLE runs; --";

fn python() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows where it is");
    let tools = test.ancestors().nth(3).expect("tests are in a folder of cargo's").join("tools/python/bin/python");
    std::env::var_os("REENACT_PYTHON").map_or(tools, PathBuf::from)
}

/// What the reader says of the tables at a moment.
fn read(product: &Product, moment: &str, name: &str) -> BTreeMap<String, Value> {
    let folder = product.data().with_file_name(name);
    fs::create_dir(&folder).expect("writes");
    let path = |name: &str| folder.join(name).to_str().expect("UTF-8").to_owned();
    for (format, to) in [("sqlite", "rows.db"), ("parquet", "files")] {
        let done = product.run(&["audit", "as-of", moment, "--to", &path(to), "--format", format]);
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
    let reader = Command::new(python()).args(["-c", READER, &path("rows.db"), &path("files")]).output();
    let output = reader.expect("Python starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("is JSON")
}

#[tokio::test]
async fn rows_as_parquet_are_the_rows_with_their_types_and_nulls() {
    let mut product = Product::new().started().await;
    for message in [AWKWARD, "What is 6*7?"] {
        product.turn("demo", "s", message).await;
    }
    product.term();
    product.ended(PATIENCE).await;
    let last = product.events().last().expect("has events")["offset"].as_u64().expect("a number");
    let tables = read(&product, &format!("0={last}"), "now");
    assert_eq!((&tables["runs"]["rows"], &tables["schedules"]["rows"]), (&2.into(), &0.into()), "some are empty");
    let is = |table: &str, column: &str| tables[table]["columns"][column].to_string();
    assert_eq!(is("runs", "created_at"), r#"["INT64",null]"#);
    assert!(is("runs", "run_id").contains("String"), "{}", is("runs", "run_id"));
    assert!(is("runs", "run_data").to_lowercase().contains("json"), "{}", is("runs", "run_data"));
    assert_eq!(is("projection_position", "chain"), r#"["BYTE_ARRAY",null]"#);
}
