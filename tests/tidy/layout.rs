//! What lies at the top, and that the two commands of the front door are the ones that work.

use std::collections::BTreeSet;

use crate::tree;

const TOP: &[&str] = &[
    ".cargo",
    ".ci",
    ".gitignore",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "README.md",
    "actors",
    "clippy.toml",
    "deny.toml",
    "deploy",
    "events",
    "projections",
    "rustfmt.toml",
    "snapshots",
    "tests",
];

const START: &str = "cargo run --release -- serve";
const VERIFY: &str = "cargo xtask verify";

#[test]
fn the_top_holds_the_rooms_and_nothing_else() {
    let files = tree::files();
    let found: BTreeSet<_> = files.iter().filter_map(|file| file.split('/').next()).collect();
    let strangers: Vec<_> = found.iter().filter(|name| !TOP.contains(name)).collect();
    assert!(strangers.is_empty(), "not among the names that the top may hold: {strangers:?}");
    let missing: Vec<_> = TOP.iter().filter(|name| !found.contains(*name)).collect();
    assert!(missing.is_empty(), "missing at the top: {missing:?}");
}

#[test]
fn the_readme_names_both_commands() {
    let readme = tree::text("README.md").expect("text");
    for command in [START, VERIFY] {
        assert!(readme.contains(command), "README.md does not name `{command}`");
    }
}

#[test]
fn ci_runs_the_readmes_test_command_and_nothing_else() {
    let script = tree::text(".ci/run").expect("text");
    let is_set_up = |line: &str| line.is_empty() || ["#", "set ", "cd "].iter().any(|start| line.starts_with(start));
    let commands: Vec<_> = script.lines().map(str::trim).filter(|line| !is_set_up(line)).collect();
    assert_eq!(commands, [VERIFY]);
}
