//! The files of the repository, as git knows them: what is ignored or not yet added is nobody's business.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The repository's top folder.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("this crate is one folder below the top").to_owned()
}

/// All files that are in git and in the work tree, relative to the top, sorted.
pub(crate) fn files() -> Vec<String> {
    // A clone that belongs to another user, as in a container, is read like any other.
    let args = ["-c", "safe.directory=*", "ls-files", "-z"];
    let git = Command::new("git").args(args).current_dir(root()).output().expect("git is installed");
    assert!(git.status.success(), "this is a git work tree: {}", String::from_utf8_lossy(&git.stderr));
    let listed = String::from_utf8(git.stdout).expect("file names are UTF-8");
    let mut files: Vec<_> = listed.split_terminator('\0').map(str::to_owned).collect();
    files.retain(|file| root().join(file).is_file());
    files.sort();
    files
}

/// A file's text; `None` when it is not text.
pub(crate) fn text(file: &str) -> Option<String> {
    String::from_utf8(fs::read(root().join(file)).expect("a file of the work tree can be read")).ok()
}

/// Rust files with their text.
pub(crate) fn rust_files() -> Vec<(String, String)> {
    let rust = files().into_iter().filter(|file| file.ends_with(".rs"));
    rust.map(|file| (text(&file).expect("Rust is UTF-8"), file)).map(|(text, file)| (file, text)).collect()
}

/// Whether a file holds nothing but tests or what tests and benches are made of.
pub(crate) fn is_test_file(file: &str) -> bool {
    file.split('/').any(|part| part == "tests" || part == "benches") || file.ends_with("/tests.rs")
}
