//! What readers see when frames come from several nodes.

use std::sync::Mutex;

use futures::{FutureExt, StreamExt, stream::BoxStream};
use reenact_events::{
    AgentId, SessionId,
    event::{RunCompleted, RunQueued, RunStarted},
};

use super::*;

/// Keeps what was sent; nobody follows it.
#[derive(Default)]
struct Post(Mutex<Vec<Vec<u8>>>);

impl LiveBus for Post {
    fn send(&self, _: &str, frame: Vec<u8>) {
        self.0.lock().expect("post").push(frame);
    }

    fn frames(&self) -> BoxStream<'static, (String, Vec<u8>)> {
        futures::stream::pending().boxed()
    }
}

struct Node {
    hub: LiveHub,
    post: Arc<Post>,
}

impl Node {
    fn new(number: u128) -> Self {
        let post = Arc::new(Post::default());
        Self { hub: LiveHub::shared(post.clone(), Uuid::from_u128(number)), post }
    }

    /// What it has sent since it was asked last.
    fn sent(&self) -> Vec<codec::Travelling> {
        let frames = std::mem::take(&mut *self.post.0.lock().expect("post"));
        frames.iter().map(|frame| codec::decode(frame).expect("a frame")).collect()
    }

    fn hears(&self, frames: &[codec::Travelling]) {
        for frame in frames {
            self.hub.foreign(&frame.run_id, frame.after, frame.frame.clone());
        }
    }
}

fn run() -> RunId {
    RunId::trusted("r")
}

fn queued() -> Arc<RunEvent> {
    let queued = RunQueued {
        fork: None,
        scheduled_by: None,
        run_id: run(),
        session_id: SessionId::trusted("s"),
        user_id: None,
        run_index: 0,
        agent_id: AgentId::trusted("a"),
        agent_version: "v".into(),
        input: "go".into(),
        media: Vec::new(),
        metadata: None,
        stream: true,
        background: false,
        output_schema: None,
        session_state: None,
    };
    Arc::new(queued.into())
}

fn started() -> Arc<RunEvent> {
    Arc::new(RunStarted { run_id: run() }.into())
}

fn indexes(subscription: &mut Subscription) -> Option<Vec<u64>> {
    let frames = subscription.next().now_or_never()?;
    Some(frames.iter().map(|frame| frame.index).collect())
}

#[tokio::test]
async fn a_run_is_watched_on_a_node_that_does_not_own_it() {
    let (owner, other) = (Node::new(1), Node::new(2));
    let mut reader = other.hub.subscribe(&run());
    owner.hub.event(1, Timestamp(1), queued());
    owner.hub.event(2, Timestamp(1), started());
    owner.hub.delta(&run(), 0, 1, false, "so ");
    other.hears(&owner.sent());
    assert_eq!(indexes(&mut reader), Some(vec![index_of(1), index_of(2), index_of(2) + 1]));
    assert_eq!(other.sent().len(), 0, "nobody passes on what came from elsewhere");
}

#[tokio::test]
async fn frames_of_a_replaced_owner_are_dropped_and_indexes_only_grow() {
    let (old, new, other) = (Node::new(1), Node::new(2), Node::new(3));
    old.hub.event(1, Timestamp(1), queued());
    old.hub.event(2, Timestamp(1), started());
    let first = old.sent();
    new.hears(&first);
    other.hears(&first);
    let mut reader = other.hub.subscribe(&run());
    new.hub.event(3, Timestamp(2), started());
    new.hub.delta(&run(), 0, 2, false, "be it");
    let takeover = new.sent();
    old.hub.delta(&run(), 0, 1, false, "late words");
    let late = old.sent();
    other.hears(&takeover);
    other.hears(&late);
    assert_eq!(indexes(&mut reader), Some(vec![index_of(1), index_of(2), index_of(3), index_of(3) + 1]));
    old.hears(&takeover);
    old.hub.delta(&run(), 0, 1, false, "later words");
    assert_eq!(old.sent().len(), 0, "it knows that it was replaced");
}

#[tokio::test]
async fn an_event_of_a_new_owner_that_may_leave_something_out_cuts_readers_off() {
    let (old, new) = (Node::new(1), Node::new(2));
    old.hub.event(1, Timestamp(1), queued());
    let heard = old.sent();
    old.hub.event(2, Timestamp(1), started());
    let late = old.sent();
    new.hears(&heard);
    let mut reader = new.hub.subscribe(&run());
    assert_eq!(indexes(&mut reader), Some(vec![index_of(1)]));
    new.hub.event(3, Timestamp(2), started());
    new.hears(&late);
    assert_eq!(indexes(&mut reader), Some(Vec::new()), "it is told to come back");
    let mut again = new.hub.subscribe(&run());
    assert_eq!(indexes(&mut again), Some(vec![index_of(3)]), "what was before is read from what is stored");
    assert_eq!(new.sent()[0].after, None, "the others learn that something may be left out");
}

#[tokio::test]
async fn a_node_that_owns_a_run_again_may_not_have_heard_all_of_what_was_shown_meanwhile() {
    let node = Node::new(1);
    node.hub.event(1, Timestamp(1), queued());
    let mut reader = node.hub.subscribe(&run());
    node.hub.event(3, Timestamp(1), started());
    assert_eq!(indexes(&mut reader), Some(vec![index_of(1), index_of(3)]), "other runs have events of the session too");
    node.hub.owner_is_new();
    node.hub.event(5, Timestamp(2), started());
    assert_eq!(indexes(&mut reader), Some(Vec::new()), "it is told to come back");
}

#[tokio::test]
async fn a_lost_frame_cuts_readers_off_and_nobody_reads_across_it() {
    let (owner, other) = (Node::new(1), Node::new(2));
    owner.hub.event(1, Timestamp(1), queued());
    other.hears(&owner.sent());
    let mut reader = other.hub.subscribe(&run());
    assert_eq!(indexes(&mut reader), Some(vec![index_of(1)]));
    owner.hub.event(2, Timestamp(1), started());
    owner.sent();
    owner.hub.delta(&run(), 0, 1, false, "so");
    other.hears(&owner.sent());
    assert_eq!(indexes(&mut reader), Some(Vec::new()), "it is told to come back");
    let mut again = other.hub.subscribe(&run());
    assert_eq!(indexes(&mut again), Some(vec![index_of(2) + 1]), "what was before is read from what is stored");
}

#[tokio::test]
async fn a_run_that_nobody_watches_keeps_a_bounded_ring() {
    let (owner, other) = (Node::new(1), Node::new(2));
    owner.hub.event(1, Timestamp(1), queued());
    for _ in 0..3 * UNWATCHED_MAX {
        owner.hub.delta(&run(), 0, 1, false, "w");
    }
    other.hears(&owner.sent());
    assert_eq!(other.hub.lock().by_run[&run()].frames.len(), UNWATCHED_MAX);
    owner.hub.event(2, Timestamp(1), started());
    let completed = RunCompleted { run_id: run(), content: "done".into(), json: false };
    owner.hub.event(3, Timestamp(1), Arc::new(completed.into()));
    other.hears(&owner.sent());
    let mut reader = other.hub.subscribe(&run());
    assert_eq!(indexes(&mut reader).and_then(|all| all.last().copied()), Some(index_of(3)));
    assert_eq!(indexes(&mut reader), Some(Vec::new()), "it has ended");
}

#[tokio::test(start_paused = true)]
async fn a_silent_run_of_another_node_is_forgotten_unless_somebody_watches() {
    let (owner, other) = (Node::new(1), Node::new(2));
    owner.hub.event(1, Timestamp(1), queued());
    other.hears(&owner.sent());
    let reader = other.hub.subscribe(&run());
    tokio::time::advance(SILENCE_MAX).await;
    other.hub.forget_silent();
    assert_eq!(other.hub.lock().by_run.len(), 1);
    drop(reader);
    other.hub.forget_silent();
    assert_eq!(other.hub.lock().by_run.len(), 0);
    owner.hub.forget_silent();
    assert_eq!(owner.hub.lock().by_run.len(), 1, "its owner keeps it");
}
