//! The rig with real brokers. Needs Java and Maven: `cargo xtask verify kafka` sets them up.

use std::{fs, path::Path};

use reenact_kafka_rig::{Cluster, Health, OLDER_VERSION, Options, default_folder};

const TOPICS: &str = "org.apache.kafka.tools.TopicCommand";

fn health(cluster: &Cluster) -> Vec<Health> {
    cluster.status().iter().map(|node| node.health).collect()
}

fn topics(cluster: &Cluster, args: &[&str]) -> String {
    let bootstrap = cluster.bootstrap();
    let args = [&["--bootstrap-server", bootstrap.as_str()], args].concat();
    cluster.tool(TOPICS, &args).expect("the tool works")
}

fn is_running(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

#[test]
fn a_killed_broker_comes_back_with_its_data() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut cluster = Cluster::up(Options::new(dir.path()).version(OLDER_VERSION)).expect("a cluster");
    topics(&cluster, &["--create", "--topic", "kept", "--partitions", "1"]);
    cluster.kill(1).expect("killed");
    assert_eq!(health(&cluster), [Health::Down]);
    cluster.start(1).expect("started");
    assert_eq!(health(&cluster), [Health::Serving]);
    assert_eq!(topics(&cluster, &["--list"]).trim(), "kept");
}

#[test]
fn three_nodes_go_on_without_one_and_another_command_may_disturb_them() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut cluster = Cluster::up(Options::new(dir.path()).nodes(3)).expect("a cluster");
    let mut attached = Cluster::attach(dir.path(), &default_folder()).expect("attached");
    attached.pause(2).expect("paused");
    attached.kill(3).expect("killed");
    assert_eq!(health(&cluster), [Health::Serving, Health::Paused, Health::Down]);
    cluster.resume(2).expect("resumed");
    cluster.start(3).expect("started");
    assert_eq!(health(&attached), [Health::Serving; 3]);
    drop(attached);
    assert_eq!(health(&cluster), [Health::Serving; 3]);
    cluster.down().expect("down");
    assert_eq!(fs::read_dir(dir.path()).expect("listed").count(), 0, "the folder is empty again");
}

#[test]
fn a_cluster_dies_with_its_owner_and_is_no_other_cluster() {
    let dir = tempfile::tempdir().expect("a folder");
    let cluster = Cluster::up(Options::new(dir.path())).expect("a cluster");
    let error = Cluster::up(Options::new(dir.path()).nodes(3)).expect_err("it has one node");
    assert!(error.to_string().contains("holds another cluster (1 nodes of"), "{error}");
    let pid = cluster.status()[0].pid.expect("it runs");
    drop(cluster);
    assert!(!is_running(pid));
}
