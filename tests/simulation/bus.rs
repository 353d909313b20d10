//! The live bus of a world, and readers who check what they see.

use std::sync::{Arc, Mutex};

use futures::{
    StreamExt,
    stream::{self, BoxStream},
};
use reenact_actors::NodeHandle;
use reenact_events::LiveBus;
use tokio::{sync::broadcast, task::JoinHandle};

use crate::{client::Promises, faults::Dice};

/// Frames that a slow node may be behind before it loses some, as on a real bus.
const KEPT: usize = 256;

pub(crate) struct MemoryBus(Mutex<broadcast::Sender<(String, Vec<u8>)>>);

impl Default for MemoryBus {
    fn default() -> Self {
        Self(Mutex::new(broadcast::Sender::new(KEPT)))
    }
}

impl LiveBus for MemoryBus {
    fn send(&self, key: &str, frame: Vec<u8>) {
        // Nobody may be there yet.
        self.0.lock().expect("bus").send((key.to_owned(), frame)).ok();
    }

    fn frames(&self) -> BoxStream<'static, (String, Vec<u8>)> {
        let receiver = self.0.lock().expect("bus").subscribe();
        stream::unfold(receiver, |mut receiver| async move {
            loop {
                match receiver.recv().await {
                    Ok(frame) => return Some((frame, receiver)),
                    Err(broadcast::error::RecvError::Lagged(_)) => {}
                    Err(broadcast::error::RecvError::Closed) => return None,
                }
            }
        })
        .boxed()
    }
}

/// Watches some run on this node, wherever it is at work: what is seen only grows.
pub(crate) fn watch(node: &NodeHandle, promises: &Arc<Promises>, dice: Dice) -> Option<JoinHandle<()>> {
    let known: Vec<_> = promises.accepted.lock().expect("promises").keys().cloned().collect();
    let run = known.get(usize::try_from(dice.below(known.len() as u64 + 1)).expect("small"))?.clone();
    let mut live = node.live().subscribe(&run);
    Some(tokio::spawn(async move {
        let mut last = None;
        loop {
            let frames = live.next().await;
            if frames.is_empty() {
                return;
            }
            for frame in frames {
                assert!(last.is_none_or(|last| last < frame.index), "a frame of {run} came twice or too late");
                last = Some(frame.index);
            }
        }
    }))
}
