//! The keys that users' content is sealed with, as they are kept: one table, apart from the log.
//!
//! A key that was destroyed leaves its name behind, so a table that was lost is told apart from a user that was
//! erased: what is sealed with a key that nobody knows is damage, and is never shown as `[erased]`.

use std::sync::Arc;

use futures::future::BoxFuture;
use uuid::Uuid;

use crate::UserId;

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

/// Where keys are kept. What it says is durable when a call returns.
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
    /// Keeps the report about the erasure of a user, in place of an earlier one.
    fn keep_report<'a>(&'a self, user: &'a UserId, report: &'a str) -> BoxFuture<'a, Result<(), KeyError>>;
    /// The reports about all erasures, by user.
    fn reports(&self) -> BoxFuture<'_, Result<Vec<(UserId, String)>, KeyError>>;
}
