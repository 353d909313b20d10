//! Frames between the nodes: this node's go out, those of the others come in.

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use reenact_events::{LiveBus, RunId};
use uuid::Uuid;

use super::{Frame, LiveHub, codec};

/// How often frames that nobody needs are looked for.
const SWEEP: Duration = Duration::from_secs(60);

/// Where this node's frames go.
pub(super) struct Outlet {
    pub(super) bus: Arc<dyn LiveBus>,
    /// Names this life of this node, so that it knows its own frames when they come back.
    pub(super) node: Uuid,
}

impl std::fmt::Debug for Outlet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outlet").field("node", &self.node).finish_non_exhaustive()
    }
}

impl Outlet {
    /// Sends a frame to the others. One that is lost is noticed by the next one's `after`.
    pub(super) fn send(&self, run: &RunId, after: Option<u64>, frame: Frame) {
        let travelling = codec::Travelling { run_id: run.clone(), node: self.node, after, frame };
        match codec::encode(&travelling) {
            Ok(bytes) => self.bus.send(run.as_str(), bytes),
            Err(error) => tracing::error!(%run, %error, "a live frame cannot be written as JSON"),
        }
    }
}

/// Feeds the frames of other nodes into the hub, for ever. Ends at once for a node that is alone.
pub(crate) async fn relay(hub: LiveHub) {
    let Some(outlet) = hub.outlet.clone() else { return };
    let mut frames = outlet.bus.frames();
    let mut sweep = tokio::time::interval(SWEEP);
    loop {
        tokio::select! {
            biased;
            _ = sweep.tick() => hub.forget_silent(),
            frame = frames.next() => match frame.map(|(_, bytes)| codec::decode(&bytes)) {
                Some(Ok(travelling)) if travelling.node == outlet.node => {}
                Some(Ok(travelling)) => hub.foreign(&travelling.run_id, travelling.after, travelling.frame),
                Some(Err(error)) => tracing::warn!(error, "a live frame is not understood, it is passed over"),
                None => return tracing::warn!("no more live frames of other nodes"),
            },
        }
    }
}
