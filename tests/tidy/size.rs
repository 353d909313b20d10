//! Files and functions stay small enough to be read in one go.

use std::collections::BTreeMap;

use crate::{scan::Source, tree};

const FILE_LINES_MAX: usize = 450;
const FUNCTION_LINES_MAX: usize = 70;

/// What is over, and by how much it may be: this list may only shrink. A function is `file:name`.
const OVER: &[(&str, usize)] = &[("events/src/event.rs", 590)];

/// The size of everything that is over, by name.
fn oversize() -> BTreeMap<String, usize> {
    let mut over = BTreeMap::new();
    for (file, text) in tree::rust_files() {
        let source = Source::read(&text);
        let lines = source.product_lines().count();
        if lines > FILE_LINES_MAX {
            over.insert(file.clone(), lines);
        }
        let long = source.functions().into_iter().filter(|(_, lines)| *lines > FUNCTION_LINES_MAX);
        over.extend(long.map(|(name, lines)| (format!("{file}:{name}"), lines)));
    }
    over
}

#[test]
fn files_and_functions_are_short() {
    let known: BTreeMap<_, _> = OVER.iter().copied().collect();
    let over = oversize();
    let grown: Vec<_> =
        over.iter().filter(|(name, lines)| known.get(name.as_str()).is_none_or(|limit| *lines > limit)).collect();
    assert!(
        grown.is_empty(),
        "files have at most {FILE_LINES_MAX} lines without tests, functions {FUNCTION_LINES_MAX}: {grown:#?}"
    );
    let shrunk: Vec<_> = OVER.iter().filter(|(name, limit)| over.get(*name) != Some(limit)).collect();
    assert!(shrunk.is_empty(), "these have become smaller, so lower their entries in `OVER`: {shrunk:#?}");
}
