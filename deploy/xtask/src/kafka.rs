//! `cargo xtask kafka`: a real Apache Kafka to work with, on this machine and without Docker.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use reenact_kafka_rig::{Cluster, DEFAULT_VERSION, OLDER_VERSION, Options, default_folder, fetch};

use crate::place::Place;

/// Which cluster is meant.
#[derive(Debug, Args)]
pub(crate) struct Kafka {
    /// The folder that it lives in, for more than one at a time.
    #[arg(long, global = true)]
    dir: Option<PathBuf>,
    #[command(subcommand)]
    order: Order,
}

#[derive(Debug, Subcommand)]
enum Order {
    /// Brings a cluster up, or completes the one that is there.
    Up {
        /// How many brokers: 1 or 3.
        #[arg(long, default_value_t = 1)]
        nodes: u16,
        /// Which Apache Kafka 4.
        #[arg(long, default_value = DEFAULT_VERSION)]
        kafka_version: String,
        /// The first port; each node takes three in a row.
        #[arg(long, default_value_t = 19_092)]
        port_base: u16,
        /// A broker property, as `name=value`; may be given many times.
        #[arg(long = "set", value_name = "NAME=VALUE", value_parser = property)]
        properties: Vec<(String, String)>,
    },
    /// Kills all brokers and removes their data.
    Down,
    /// How each broker is.
    Status {
        /// As one JSON value.
        #[arg(long)]
        json: bool,
    },
    /// Kills one broker as a power cut would (SIGKILL).
    Kill {
        /// Its number.
        node: u16,
    },
    /// Ends one broker in order (SIGTERM).
    Stop {
        /// Its number.
        node: u16,
    },
    /// Starts one broker again, with its data.
    Start {
        /// Its number.
        node: u16,
    },
    /// Freezes one broker (SIGSTOP).
    Pause {
        /// Its number.
        node: u16,
    },
    /// Lets a frozen broker go on (SIGCONT).
    Resume {
        /// Its number.
        node: u16,
    },
}

/// Carries out one order.
pub(crate) fn run(kafka: Kafka) -> anyhow::Result<()> {
    let dir = kafka.dir.unwrap_or_else(|| default_folder().join("cluster"));
    let attached = || Cluster::attach(&dir, &default_folder());
    match kafka.order {
        Order::Up { nodes, kafka_version, port_base, properties } => {
            let options = Options {
                port_base: Some(port_base),
                extra: properties,
                progress: |text| eprintln!("{text}"),
                ..Options::new(dir).nodes(nodes).version(kafka_version)
            };
            return up(options);
        }
        Order::Down => attached()?.down()?,
        Order::Status { json } => show(&attached()?, json),
        Order::Kill { node } => attached()?.kill(node)?,
        Order::Stop { node } => attached()?.stop(node)?,
        Order::Pause { node } => attached()?.pause(node)?,
        Order::Resume { node } => attached()?.resume(node)?,
        Order::Start { node } => {
            let mut cluster = attached()?;
            cluster.start(node)?;
            cluster.leave_running();
        }
    }
    Ok(())
}

/// Fetches what the tests run, so that no test waits for a download, and starts it once, so that later starts are short.
pub(crate) fn set_up(_: &Place) -> anyhow::Result<()> {
    for version in [DEFAULT_VERSION, OLDER_VERSION] {
        let lib = fetch(&default_folder(), version, |text| println!("{text}"))?;
        println!("Apache Kafka {version} is in `{}`", lib.display());
        Cluster::keep_classes(Options::new(lib.with_file_name("first-start")).version(version))?;
    }
    Ok(())
}

/// The address goes to standard output and nothing else does, so that a script can take it.
fn up(options: Options) -> anyhow::Result<()> {
    let cluster = Cluster::up(options)?;
    println!("{}", cluster.bootstrap());
    cluster.leave_running();
    Ok(())
}

fn show(cluster: &Cluster, json: bool) {
    if json {
        println!("{}", cluster.status_json());
        return;
    }
    println!("Apache Kafka {} at {}", cluster.version(), cluster.bootstrap());
    for node in cluster.status() {
        let pid = node.pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string());
        println!("node {}  {:<8}  port {}  process {pid}", node.id, node.health, node.port);
    }
}

fn property(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let (name, value) = parts.ok_or_else(|| format!("`{text}` is not of the form NAME=VALUE"))?;
    Ok((name.to_owned(), value.to_owned()))
}
