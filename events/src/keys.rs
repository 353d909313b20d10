//! The keys that users' content is sealed with, as they are kept: one table, apart from the log.
//!
//! A key that was destroyed leaves its name behind, so a table that was lost is told apart from a user that was
//! erased: what is sealed with a key that nobody knows is damage, and is never shown as `[erased]`.

use std::{collections::BTreeMap, sync::Arc};

use futures::future::BoxFuture;
use uuid::Uuid;

use crate::{NodeId, UserId};

/// A key as its table holds it.
#[derive(Clone, PartialEq, Eq)]
pub struct KeptKey {
    /// Names it; stands beside what is sealed with it.
    pub id: Uuid,
    /// Its bytes, or what they are wrapped in.
    pub secret: Arc<[u8]>,
}

impl std::fmt::Debug for KeptKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "key {}", self.id)
    }
}

/// What a table knows of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Known {
    /// It is here.
    Here(KeptKey),
    /// It was destroyed: what is sealed with it can never be read again.
    Destroyed,
    /// Nothing: the table is another one, or older than the key.
    Nothing,
}

/// Why keys could not be had.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the keys in {place} cannot be used: {reason}")]
pub struct KeyError {
    /// Where they are kept.
    pub place: Arc<str>,
    /// What is wrong, and what to do.
    pub reason: Arc<str>,
}

/// A report about an erasure, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptReport {
    /// What it says.
    pub text: String,
    /// Whether nothing is left to be done.
    pub is_finished: bool,
}

/// The right to work on erasures: its holder is the only one until it is dropped, or dies.
pub type Turn = Box<dyn Send + Sync>;

/// How far nodes are with what erasures ask of them: to leave nothing of what was removed from their states. It is
/// asked for in rounds, and who has done one has done all before it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scrubs {
    /// The latest round that was asked for; 0 when none was.
    pub asked: u64,
    /// The latest round that each node has done.
    pub done: BTreeMap<NodeId, u64>,
}

/// Where keys are kept, and what their destruction asks for. What it says is durable when a call returns.
pub trait KeyTable: Send + Sync {
    /// Where it is, for people.
    fn place(&self) -> Arc<str>;
    /// The key of a user. When there is none `offered` is it from now on; of two that offer one at once, both are given
    /// the same.
    fn of_user<'a>(&'a self, user: &'a UserId, offered: KeptKey) -> BoxFuture<'a, Result<KeptKey, KeyError>>;
    /// What is known of a key.
    fn find(&self, id: Uuid) -> BoxFuture<'_, Result<Known, KeyError>>;
    /// Destroys the keys of a user, so that their bytes are nowhere in the table; the names of all that ever were.
    fn destroy<'a>(&'a self, user: &'a UserId) -> BoxFuture<'a, Result<Vec<Uuid>, KeyError>>;
    /// The report about the latest erasure of a user, if there was one.
    fn report<'a>(&'a self, user: &'a UserId) -> BoxFuture<'a, Result<Option<String>, KeyError>>;
    /// Keeps a report about the erasure of a user in place of `before`; false when another stands there by now.
    fn keep_report<'a>(
        &'a self,
        user: &'a UserId,
        before: Option<&'a str>,
        report: &'a KeptReport,
    ) -> BoxFuture<'a, Result<bool, KeyError>>;
    /// The reports that are not finished, by user.
    fn unfinished(&self) -> BoxFuture<'_, Result<Vec<(UserId, String)>, KeyError>>;
    /// The right to work on erasures, if nobody has it.
    fn turn(&self) -> BoxFuture<'_, Result<Option<Turn>, KeyError>>;
    /// Asks all nodes to scrub once more; the number of this round.
    fn ask_scrub(&self) -> BoxFuture<'_, Result<u64, KeyError>>;
    /// What was asked for, and how far the nodes are.
    fn scrubs(&self) -> BoxFuture<'_, Result<Scrubs, KeyError>>;
    /// A node has done a round.
    fn scrubbed<'a>(&'a self, node: &'a NodeId, round: u64) -> BoxFuture<'a, Result<(), KeyError>>;
}
