//! What no file may say.

use crate::{
    scan::Source,
    tree::{self, is_test_file},
};

/// These files name what they look for, or what cargo writes.
const EXEMPT: &[&str] = &["tests/tidy/", "Cargo.lock"];

/// Lines of all text files that hold one of `needles`, as `file:line: needle`.
fn lines_with(needles: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    for file in tree::files().iter().filter(|file| !EXEMPT.iter().any(|exempt| file.starts_with(exempt))) {
        let Some(text) = tree::text(file) else { continue };
        for (number, line) in text.lines().enumerate() {
            let hits = needles.iter().filter(|needle| line.contains(needle.as_str()));
            found.extend(hits.map(|needle| format!("{file}:{}: {needle}", number + 1)));
        }
    }
    found
}

#[test]
fn nothing_is_left_to_be_done_later() {
    let found = lines_with(&["TODO", "FIXME", "XXX"].map(str::to_owned));
    assert!(found.is_empty(), "do it, or write an issue: {found:#?}");
}

#[test]
fn no_file_knows_the_machine_it_was_written_on() {
    let found = lines_with(&["/work/", "/home/", "/root/", "/Users/"].map(str::to_owned));
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn no_file_names_a_package_registrys_host() {
    let hosts = [
        ("crates", "io"),
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("npmjs", "org"),
        ("golang", "org"),
        ("maven", "org"),
        ("maven.apache", "org"),
        ("deb.debian", "org"),
    ];
    let found = lines_with(&hosts.map(|(name, end)| format!("{name}.{end}")));
    assert!(found.is_empty(), "say the package's name and let the client find it: {found:#?}");
}

#[test]
fn every_text_ends_with_one_line_break_and_no_line_with_a_space() {
    let mut found = Vec::new();
    // Golden files hold the bytes that were stored, whatever they are.
    for file in tree::files().into_iter().filter(|file| !file.starts_with("tests/golden/")) {
        let Some(text) = tree::text(&file) else { continue };
        if !text.is_empty() && (!text.ends_with('\n') || text.ends_with("\n\n")) {
            found.push(format!("{file}: its end"));
        }
        let spaced = text.lines().enumerate().filter(|(_, line)| line.ends_with([' ', '\t']));
        found.extend(spaced.map(|(number, _)| format!("{file}:{}", number + 1)));
    }
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn the_product_never_panics_on_purpose() {
    // A parser may have an `expect` of its own: the one meant takes a text.
    let calls = [".unwrap()", ".expect(\"", ".expect(&", "panic!(", "unreachable!(", "todo!(", "unimplemented!("];
    let mut found = Vec::new();
    for (file, text) in tree::rust_files().iter().filter(|(file, _)| !is_test_file(file)) {
        let source = Source::read(text);
        for (number, line) in source.product_lines() {
            let hits = calls.iter().filter(|call| line.contains(**call));
            found.extend(hits.map(|call| format!("{file}:{number}: {call}")));
        }
    }
    assert!(found.is_empty(), "make it an error or a state that cannot be written: {found:#?}");
}

#[test]
fn every_file_of_the_product_says_why_it_is_there() {
    let product = tree::rust_files().into_iter().filter(|(file, _)| !is_test_file(file));
    let silent: Vec<_> = product.filter(|(_, text)| !text.starts_with("//!")).map(|(file, _)| file).collect();
    assert!(silent.is_empty(), "begin with `//!`: {silent:#?}");
}
