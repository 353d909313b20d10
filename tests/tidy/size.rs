//! Files and functions stay small enough to be read in one go.

use std::collections::BTreeMap;

use crate::{scan::Source, tree};

const FILE_LINES_MAX: usize = 450;
const FUNCTION_LINES_MAX: usize = 70;

/// What is over, and how large it may be at most: bounds here only ever go down. A function is `file:name`.
const OVER: &[(&str, usize)] = &[];

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
    let small: Vec<_> = OVER.iter().filter(|(name, _)| !over.contains_key(*name)).collect();
    assert!(small.is_empty(), "these are no longer too large, so take them out of `OVER`: {small:#?}");
}
