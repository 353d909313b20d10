//! How words of unfinished answers reach the other nodes: beside the log, unordered with it, and lost without
//! harm, since the finished answer is an event.

use futures::stream::BoxStream;

/// Carries live frames between the nodes of a deployment. Frames of one key arrive in the order in which one
/// node sent them; a frame may be lost.
pub trait LiveBus: Send + Sync {
    /// Sends a frame of the stream that `key` names; never waits.
    fn send(&self, key: &str, frame: Vec<u8>);

    /// The frames of all nodes, this one's too, for ever: those that are still kept, then those that come.
    fn frames(&self) -> BoxStream<'static, (String, Vec<u8>)>;
}
