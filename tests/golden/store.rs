//! The golden files and their index.

use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use reenact_events::BlobRef;
use serde_json::Value;

use crate::samples::Sample;

const READS: &str = ".reads.json";

/// A payload and what it was read as.
pub(crate) struct Golden {
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) input: String,
    pub(crate) reads: Value,
}

/// The folder.
pub(crate) struct Store(PathBuf);

impl Store {
    pub(crate) fn open() -> Self {
        Self(Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/data"))
    }

    /// Every golden file, in order.
    pub(crate) fn goldens(&self) -> Vec<Golden> {
        let inputs = self.files().into_iter().filter(|file| !file.ends_with(READS));
        inputs
            .map(|file| {
                let (kind, name) = file.split_once('/').expect("is in the folder of its type");
                let name = name.strip_suffix(".json").expect("is JSON").to_owned();
                let reads = self.read(&format!("{kind}/{name}{READS}"));
                let reads = serde_json::from_str(&reads).expect("is JSON");
                Golden { kind: kind.to_owned(), name, input: self.read(&file), reads }
            })
            .collect()
    }

    /// What the index and the folder do not agree on.
    pub(crate) fn differences(&self) -> Vec<String> {
        let index = self.index();
        let mut wrong: Vec<String> = self
            .files()
            .into_iter()
            .filter(|file| !index.contains_key(file))
            .map(|file| format!("{file}: not in the index"))
            .collect();
        for (file, hash) in index {
            match fs::read(self.0.join(&file)) {
                Err(error) => wrong.push(format!("{file}: {error}")),
                Ok(bytes) if *BlobRef::of(&bytes).sha256 != *hash => wrong.push(format!("{file}: changed")),
                Ok(_) => {}
            }
        }
        wrong
    }

    /// Writes the files of a sample and their lines in the index, unless it has some.
    pub(crate) fn add(&self, sample: &Sample, reads: &Value) {
        let base = format!("{}/{}", sample.kind, sample.name);
        if self.0.join(format!("{base}.json")).exists() {
            return;
        }
        fs::create_dir_all(self.0.join(&sample.kind)).expect("creates the folder");
        let reads = format!("{reads:#}\n");
        for (file, text) in [(format!("{base}.json"), &sample.input), (format!("{base}{READS}"), &reads)] {
            let line = format!("{}  {file}\n", BlobRef::of(text.as_bytes()).sha256);
            fs::File::create_new(self.0.join(&file))
                .and_then(|mut new| new.write_all(text.as_bytes()))
                .expect("writes");
            let index = fs::OpenOptions::new().create(true).append(true).open(self.0.join("index.txt"));
            index.and_then(|mut index| index.write_all(line.as_bytes())).expect("writes the index");
        }
    }

    /// The index: file and hash.
    fn index(&self) -> BTreeMap<String, String> {
        let text = self.read("index.txt");
        let entry = |line: &str| line.split_once("  ").map(|(hash, file)| (file.to_owned(), hash.to_owned()));
        text.lines().map(|line| entry(line).expect("a hash and a file")).collect()
    }

    /// Every file in the folders of types, as `TYPE/FILE`.
    fn files(&self) -> Vec<String> {
        let list = |folder: &Path| -> Vec<PathBuf> {
            let entries = fs::read_dir(folder).expect("lists the folder");
            entries.map(|entry| entry.expect("lists the folder").path()).collect()
        };
        let folders = list(&self.0).into_iter().filter(|path| path.is_dir());
        let mut files: Vec<String> = folders
            .flat_map(|folder| list(&folder))
            .map(|file| {
                let short = file.strip_prefix(&self.0).expect("is below");
                short.components().map(|part| part.as_os_str().to_string_lossy()).collect::<Vec<_>>().join("/")
            })
            .collect();
        files.sort();
        files
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.0.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
    }
}
