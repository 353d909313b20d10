//! Dependencies point one way, each engine has one room, and nothing is depended on for nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::Command,
};

use serde_json::Value;

use crate::{scan, tree};

/// What each room may use of the other rooms.
const ROOMS: &[(&str, &[&str])] = &[
    ("reenact-events", &[]),
    ("reenact-embedded", &["reenact-events"]),
    ("reenact-sealed", &["reenact-events"]),
    ("reenact-snapshots", &["reenact-events"]),
    ("reenact-actors", &["reenact-events", "reenact-snapshots"]),
    ("reenact-agents", &["reenact-events", "reenact-actors"]),
    ("reenact-projections", &["reenact-events", "reenact-snapshots", "reenact-postgres-rig"]),
    (
        "reenact-server",
        &[
            "reenact-events",
            "reenact-embedded",
            "reenact-kafka",
            "reenact-snapshots",
            "reenact-actors",
            "reenact-agents",
            "reenact-projections",
            "reenact-sealed",
        ],
    ),
    ("reenact-kafka", &["reenact-events", "reenact-kafka-rig"]),
    ("reenact-kafka-rig", &[]),
    ("reenact-postgres-rig", &[]),
    ("xtask", &["reenact-kafka-rig"]),
];

/// Who may name an engine at all, in tests too.
const ENGINES: &[(&str, &[&str])] = &[
    ("sled", &["reenact-snapshots"]),
    ("bincode", &["reenact-snapshots"]),
    ("rdkafka", &["reenact-kafka", "reenact-tests"]),
    ("rusqlite", &["reenact-embedded", "reenact-projections", "reenact-sealed", "reenact-tests"]),
    ("tokio-postgres", &["reenact-projections"]),
];

/// What a room must not be built on; its tests may use it.
const BANS: &[(&str, &[&str])] = &[
    ("reenact-events", &["tokio", "rusqlite", "reqwest", "axum"]),
    ("reenact-kafka", &["rusqlite", "reqwest", "axum"]),
    ("reenact-snapshots", &["tokio", "reqwest", "axum"]),
    ("reenact-actors", &["rdkafka", "sled", "rusqlite", "tokio-postgres", "axum", "reqwest"]),
    ("reenact-agents", &["axum"]),
    ("reenact-projections", &["rdkafka", "axum", "reqwest"]),
];

struct Package {
    name: String,
    folder: String,
    /// By name: whether anything but tests needs it.
    needs: BTreeMap<String, bool>,
}

/// The workspace as cargo reads it.
fn packages() -> Vec<Package> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let args = ["metadata", "--no-deps", "--offline", "--format-version", "1"];
    let output = Command::new(cargo).args(args).current_dir(tree::root()).output().expect("cargo starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    metadata["packages"].as_array().expect("packages").iter().map(package).collect()
}

fn package(json: &Value) -> Package {
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let manifest = text(&json["manifest_path"]);
    let top = tree::root().to_str().expect("UTF-8").to_owned() + "/";
    let folder = manifest.trim_start_matches(&top).trim_end_matches("Cargo.toml").to_owned();
    let mut needs = BTreeMap::new();
    for dependency in json["dependencies"].as_array().expect("dependencies") {
        let for_product = dependency["kind"] != "dev";
        *needs.entry(text(&dependency["name"])).or_default() |= for_product;
    }
    Package { name: text(&json["name"]), folder, needs }
}

#[test]
fn rooms_depend_one_way() {
    let rooms: BTreeMap<_, _> = ROOMS.iter().copied().collect();
    for package in packages().iter().filter(|package| package.name != "reenact-tests") {
        let name = package.name.as_str();
        let allowed = rooms.get(name).unwrap_or_else(|| panic!("`{name}` is new: say in this test what it may use"));
        let used = package.needs.keys().filter(|need| need.starts_with("reenact-") || *need == "xtask");
        let wrong: Vec<_> = used.filter(|need| !allowed.contains(&need.as_str())).collect();
        assert!(wrong.is_empty(), "`{name}` must not depend on {wrong:?}");
    }
}

#[test]
fn each_engine_has_its_room() {
    for package in packages() {
        for (engine, rooms) in ENGINES {
            let named = package.needs.contains_key(*engine);
            assert!(!named || rooms.contains(&package.name.as_str()), "`{}` must not name `{engine}`", package.name);
        }
        let banned = BANS.iter().find(|(name, _)| *name == package.name).map_or(&[][..], |(_, banned)| *banned);
        let wrong: Vec<_> = banned.iter().filter(|name| package.needs.get(**name) == Some(&true)).collect();
        assert!(wrong.is_empty(), "`{}` must not be built on {wrong:?}", package.name);
    }
}

#[test]
fn every_dependency_is_used() {
    let files = tree::rust_files();
    let packages = packages();
    let folders: Vec<_> = packages.iter().map(|package| package.folder.as_str()).collect();
    let owner =
        |file: &str| folders.iter().filter(|folder| file.starts_with(**folder)).max_by_key(|f| f.len()).copied();
    let mut unused = Vec::new();
    for package in &packages {
        let own = files.iter().filter(|(file, _)| owner(file) == Some(package.folder.as_str()));
        let words: BTreeSet<String> =
            own.flat_map(|(_, text)| scan::words(text).map(str::to_owned).collect::<Vec<_>>()).collect();
        let needs = package.needs.keys().filter(|need| !words.contains(&need.replace('-', "_")));
        unused.extend(needs.map(|need| format!("{}: {need}", package.name)));
    }
    assert!(unused.is_empty(), "named in a Cargo.toml and used nowhere: {unused:#?}");
}
