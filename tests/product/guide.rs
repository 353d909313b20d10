//! The auditor's guide is true: its commands are run as they are printed, and its SQL is asked of the rows.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

use rusqlite::Connection;

use crate::support::{PATIENCE, Product};

/// A block of the guide, by what it is written in.
fn blocks<'a>(guide: &'a str, kind: &str) -> Vec<&'a str> {
    let fence = format!("```{kind}\n");
    let blocks = guide.split(fence.as_str()).skip(1);
    blocks.map(|block| block.split_once("```").expect("a block ends").0).collect()
}

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Where the guide's reader finds the programs that it names.
fn programs(product: &Product) -> PathBuf {
    let folder = product.data().with_file_name("bin");
    fs::create_dir(&folder).expect("writes");
    let reenact = PathBuf::from(product.command().get_program());
    symlink(reenact, folder.join("reenact")).expect("links");
    let test = std::env::current_exe().expect("a test knows where it is");
    let tools = test.ancestors().nth(3).expect("tests are in a folder of cargo's").join("tools/python/bin/python");
    let python = std::env::var_os("REENACT_PYTHON").map_or(tools, PathBuf::from);
    symlink(python, folder.join("python")).expect("links");
    folder
}

#[tokio::test]
async fn the_auditors_guide_is_true() {
    let guide = fs::read_to_string(top().join("deploy/server/AUDITING.md")).expect("is there");
    let mut product = Product::new().started().await;
    for session in ["s1", "s2"] {
        product.turn("demo", session, "What is 6*7?").await;
    }
    product.term();
    product.ended(PATIENCE).await;
    let folder = product.data().parent().expect("a folder").to_owned();
    fs::copy(top().join("deploy/examples/python/verify_export.py"), folder.join("verify_export.py")).expect("copies");
    let programs = programs(&product);
    for sql in blocks(&guide, "sql") {
        let rows = Connection::open(product.data().join("views.db")).expect("opens");
        rows.prepare(sql).and_then(|mut statement| statement.query([])?.next().map(drop)).expect(sql);
    }
    let commands: Vec<_> =
        blocks(&guide, "console").into_iter().flat_map(str::lines).filter_map(|line| line.strip_prefix("$ ")).collect();
    assert!(commands.len() > 10, "{commands:?}");
    for command in commands {
        let output = Command::new("sh")
            .args(["-c", command])
            .current_dir(&folder)
            .env_clear()
            .env("PATH", format!("{}:/usr/bin:/bin", programs.display()))
            .output()
            .expect("a shell is there");
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success(), "{command}\n{said}");
    }
}
