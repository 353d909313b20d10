//! Puts the parts together: the only place that picks implementations.

use std::sync::Arc;

use futures::future::BoxFuture;
use reenact_actors::{
    api::{Accepted, Readiness, SubmitError},
    live::LiveHub,
};
use reenact_events::Command;

/// What takes commands.
pub type Node = Arc<dyn Runtime>;

/// See `NodeHandle`.
pub trait Runtime: Send + Sync {
    /// See `NodeHandle`.
    fn submit(&self, command: Command) -> BoxFuture<'_, Result<Accepted, SubmitError>>;
    /// See `NodeHandle`.
    fn live(&self) -> &LiveHub;
    /// See `NodeHandle`.
    fn readiness(&self) -> Readiness;
}
