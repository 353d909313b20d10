//! A real Apache Kafka for tests and development, without Docker: the broker's own jars, started as processes.
//!
//! A [`Cluster`] is one or three brokers in KRaft mode that live in one folder and nowhere else. Any number of
//! clusters run side by side. Whoever has the folder can kill, freeze and start again single brokers, which is what
//! the chaos tests are made of. A cluster that was brought up here dies with its owner, however the owner ends,
//! unless it is told to stay ([`Cluster::leave_running`]).
//!
//! It is not a way to run Kafka in production: one machine, no security unless asked for, small heaps.
//!
//! Reading order: [`Cluster`], then `settings` (what a broker is told), `process` (how it is started, and how we
//! make sure to signal nothing else), `ready` (how we know that it serves), `jars` (where it comes from).

mod cluster;
mod health;
mod jars;
mod options;
mod ports;
mod process;
mod ready;
mod settings;
mod state;

pub use cluster::Cluster;
pub use health::{Health, NodeStatus};
pub use jars::{DEFAULT_VERSION, OLDER_VERSION, default_folder, fetch};
pub use options::Options;
