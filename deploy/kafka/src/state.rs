//! What a cluster is: one small file in its folder, which is written once. Which processes it has changes, and is
//! kept beside each node, so that two commands on one cluster see the same.

use std::{
    collections::hash_map::RandomState,
    fs,
    hash::{BuildHasher, Hasher},
    path::Path,
};

use anyhow::{Context, bail};
use serde_json::{Value, json};

const FILE: &str = "cluster.json";

/// A node has three ports in a row: clients, controllers, and one for a listener with security.
pub(crate) const PORTS_PER_NODE: u16 = 3;

/// A cluster as its folder remembers it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct State {
    pub(crate) version: String,
    pub(crate) cluster_id: String,
    pub(crate) extra: Vec<(String, String)>,
    pub(crate) nodes: Vec<Node>,
}

/// One broker.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) id: u16,
    pub(crate) port: u16,
}

impl Node {
    pub(crate) fn at(id: u16, port: u16) -> Self {
        Self { id, port }
    }

    pub(crate) fn controller_port(&self) -> u16 {
        self.port + 1
    }

    pub(crate) fn secure_port(&self) -> u16 {
        self.port + 2
    }
}

impl State {
    pub(crate) fn new(version: &str, nodes: u16, port_base: u16, extra: &[(String, String)]) -> Self {
        let nodes = (1..=nodes).map(|id| Node::at(id, port_base + (id - 1) * PORTS_PER_NODE)).collect();
        Self { version: version.to_owned(), cluster_id: random_id(), extra: extra.to_vec(), nodes }
    }

    /// What the folder remembers, `None` when there is no cluster in it.
    pub(crate) fn read(dir: &Path) -> anyhow::Result<Option<Self>> {
        let file = dir.join(FILE);
        if !file.exists() {
            return Ok(None);
        }
        let text = fs::read(&file).with_context(|| format!("`{}` cannot be read", file.display()))?;
        let read = || Self::from_json(&serde_json::from_slice(&text).ok()?);
        match read() {
            Some(state) => Ok(Some(state)),
            None => bail!("`{}` is damaged: end its brokers by hand and remove the folder", file.display()),
        }
    }

    /// Writes beside the file and renames, so that a reader never sees half of it.
    pub(crate) fn write(&self, dir: &Path) -> anyhow::Result<()> {
        let (file, partial) = (dir.join(FILE), dir.join("cluster.json.partial"));
        let written = fs::write(&partial, format!("{:#}\n", self.to_json()));
        written
            .and_then(|()| fs::rename(&partial, &file))
            .with_context(|| format!("`{}` cannot be written", file.display()))
    }

    /// Forgets the cluster.
    pub(crate) fn remove(dir: &Path) -> anyhow::Result<()> {
        let file = dir.join(FILE);
        fs::remove_file(&file).with_context(|| format!("`{}` cannot be removed", file.display()))
    }

    fn to_json(&self) -> Value {
        let node = |node: &Node| json!({ "id": node.id, "port": node.port });
        json!({
            "version": self.version,
            "cluster_id": self.cluster_id,
            "extra": self.extra,
            "nodes": self.nodes.iter().map(node).collect::<Vec<_>>(),
        })
    }

    fn from_json(json: &Value) -> Option<Self> {
        let number = |value: &Value| u16::try_from(value.as_u64()?).ok();
        let node = |value: &Value| Some(Node { id: number(&value["id"])?, port: number(&value["port"])? });
        let pair = |value: &Value| Some((value[0].as_str()?.to_owned(), value[1].as_str()?.to_owned()));
        Some(Self {
            version: json["version"].as_str()?.to_owned(),
            cluster_id: json["cluster_id"].as_str()?.to_owned(),
            extra: json["extra"].as_array()?.iter().map(pair).collect::<Option<_>>()?,
            nodes: json["nodes"].as_array()?.iter().map(node).collect::<Option<_>>()?,
        })
    }
}

/// Sixteen random bytes in Kafka's spelling, which is URL-safe base64 without padding. The standard library's only
/// source of randomness is the key of its hash maps.
fn random_id() -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let random = || u128::from(RandomState::new().build_hasher().finish());
    let bits = random() << 64 | random();
    // An id may not begin with a dash, because it is an argument of a command.
    let first = usize::try_from(bits >> 122).unwrap_or(0) % 62;
    let letter =
        |index: u32| if index == 0 { first } else { usize::try_from(bits >> (122 - 6 * index) & 63).unwrap_or(0) };
    // The last letter carries two bits only.
    let last = usize::try_from((bits & 3) << 4).unwrap_or(0);
    (0..21).map(letter).chain([last]).map(|index| char::from(LETTERS[index])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_is_remembered_as_it_was() {
        let dir = tempfile::tempdir().expect("a folder");
        assert_eq!(State::read(dir.path()).expect("read"), None);
        let state = State::new("4.3.1", 3, 19_092, &[("a.b".to_owned(), "c".to_owned())]);
        state.write(dir.path()).expect("written");
        assert_eq!(State::read(dir.path()).expect("read"), Some(state));
    }

    #[test]
    fn an_id_has_the_length_that_kafka_wants() {
        let id = random_id();
        assert_eq!(id.len(), 22);
        assert_ne!(id, random_id());
        assert!(id.ends_with(['A', 'Q', 'g', 'w']), "{id}");
    }
}
