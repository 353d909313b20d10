//! How the nodes of a cluster are.

use std::fmt;

/// How a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// It has no process.
    Down,
    /// Its process is stopped by a signal.
    Paused,
    /// It runs and does not answer.
    Starting,
    /// It answers.
    Serving,
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Down => "down",
            Self::Paused => "paused",
            Self::Starting => "starting",
            Self::Serving => "serving",
        })
    }
}

/// What is known about a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeStatus {
    /// Its number, from 1.
    pub id: u16,
    /// Where clients connect.
    pub port: u16,
    /// Its process, if it has one.
    pub pid: Option<u32>,
    /// How it is.
    pub health: Health,
}
