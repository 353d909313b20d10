//! What a broker is told: the common file, then what depends on the node and on the size of the cluster.

use std::fmt::Write;

use crate::state::{Node, State};

/// The same for every node; `deploy/compose.yaml` mounts it too.
const COMMON: &str = include_str!("../broker.properties");

/// The properties of `node`. A property that is given twice has the value that comes last, so `extra` wins over all.
pub(crate) fn properties(state: &State, node: &Node, data: &str) -> String {
    let voters: Vec<_> =
        state.nodes.iter().map(|node| format!("{}@127.0.0.1:{}", node.id, node.controller_port())).collect();
    let replicas = state.nodes.len();
    let in_sync = if replicas == 1 { 1 } else { 2 };
    let own = [
        ("node.id", node.id.to_string()),
        ("listeners", "PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}".to_owned()),
        ("advertised.listeners", "PLAINTEXT://127.0.0.1:{port}".to_owned()),
        ("inter.broker.listener.name", "PLAINTEXT".to_owned()),
        (
            "listener.security.protocol.map",
            "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,SSL:SSL".to_owned(),
        ),
        ("controller.quorum.voters", voters.join(",")),
        ("log.dirs", data.to_owned()),
        ("default.replication.factor", replicas.to_string()),
        ("min.insync.replicas", in_sync.to_string()),
        ("offsets.topic.replication.factor", replicas.to_string()),
        ("transaction.state.log.replication.factor", replicas.to_string()),
        ("transaction.state.log.min.isr", in_sync.to_string()),
        ("share.coordinator.state.topic.replication.factor", replicas.to_string()),
        ("share.coordinator.state.topic.min.isr", in_sync.to_string()),
    ];
    let mut text = format!("{COMMON}\n# Node {} of {replicas}.\n", node.id);
    let extra = state.extra.iter().map(|(name, value)| (name.as_str(), value.clone()));
    for (name, value) in own.into_iter().chain(extra) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name}={}", filled(&value, node));
    }
    text
}

/// Puts the node's numbers into a value.
fn filled(value: &str, node: &Node) -> String {
    let numbers = [
        ("{node}", u32::from(node.id)),
        ("{port}", u32::from(node.port)),
        ("{controller_port}", u32::from(node.controller_port())),
        ("{secure_port}", u32::from(node.secure_port())),
    ];
    numbers.iter().fold(value.to_owned(), |text, (name, number)| text.replace(name, &number.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last<'a>(text: &'a str, name: &str) -> &'a str {
        let mut values = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        values.next_back().unwrap_or_else(|| panic!("{name} is set"))
    }

    #[test]
    fn three_nodes_keep_everything_three_times_and_need_two() {
        let text = properties(&State::new("4.3.1", 3, 19_092, &[]), &Node::at(2, 19_095), "d");
        assert_eq!(last(&text, "controller.quorum.voters"), "1@127.0.0.1:19093,2@127.0.0.1:19096,3@127.0.0.1:19099");
        assert_eq!(last(&text, "transaction.state.log.replication.factor"), "3");
        assert_eq!(last(&text, "transaction.state.log.min.isr"), "2");
        assert_eq!(last(&text, "advertised.listeners"), "PLAINTEXT://127.0.0.1:19095");
    }

    #[test]
    fn a_callers_property_wins_and_knows_the_nodes_ports() {
        let extra = [("listeners".to_owned(), "PLAINTEXT://127.0.0.1:{port},SSL://127.0.0.1:{secure_port}".to_owned())];
        let text = properties(&State::new("4.3.1", 1, 100, &extra), &Node::at(1, 100), "d");
        assert_eq!(last(&text, "listeners"), "PLAINTEXT://127.0.0.1:100,SSL://127.0.0.1:102");
    }
}
