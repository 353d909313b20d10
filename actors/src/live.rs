//! Live streams: the frames of a run as they happen, kept for a while so that a reader can come back.
//!
//! Every frame has a strictly increasing index, `(sequence of the latest durable event of the stream << 20) +
//! number of the delta after it`. It needs no counter that would have to survive, and only grows.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};

use reenact_events::{RunEvent, RunId, Timestamp};
use tokio::sync::watch;

/// Bits of a frame's index that number the deltas after an event.
pub const DELTA_BITS: u32 = 20;
/// Frames kept per run; the oldest deltas go first.
pub const FRAMES_MAX: usize = 20_000;

/// The index of the frame that shows the event at `seq`.
#[must_use]
pub fn index_of(seq: u64) -> u64 {
    seq << DELTA_BITS
}

/// Something that a watcher of a run sees.
#[derive(Debug, Clone)]
pub struct Frame {
    /// Grows strictly within the run.
    pub index: u64,
    /// What it shows.
    pub body: FrameBody,
}

/// See [`Frame`].
#[derive(Debug, Clone)]
pub enum FrameBody {
    /// A committed event.
    Event {
        /// When it was decided.
        at: Timestamp,
        /// What it says.
        event: Arc<RunEvent>,
    },
    /// Words of a model's unfinished answer.
    Delta {
        /// Which step.
        step: u32,
        /// Which attempt; words of a lower attempt are void.
        attempt: u32,
        /// It is thinking, not answer.
        reasoning: bool,
        /// The words.
        text: Arc<str>,
    },
}

impl FrameBody {
    fn is_end(&self) -> bool {
        matches!(self, Self::Event { event, .. } if event.is_end())
    }
}

#[derive(Debug)]
struct Channel {
    frames: VecDeque<Frame>,
    last_index: u64,
    ended: bool,
    changed: watch::Sender<()>,
}

/// All runs that are being watched or at work in this process.
#[derive(Debug, Clone, Default)]
pub struct LiveHub {
    channels: Arc<Mutex<Channels>>,
}

#[derive(Debug, Default)]
struct Channels {
    by_run: HashMap<RunId, Channel>,
    ended: VecDeque<RunId>,
}

/// Ended runs whose frames are kept.
const ENDED_MAX: usize = 256;

impl Channels {
    fn channel(&mut self, run: &RunId) -> &mut Channel {
        self.by_run.entry(run.clone()).or_insert_with(|| Channel {
            frames: VecDeque::new(),
            last_index: 0,
            ended: false,
            changed: watch::Sender::new(()),
        })
    }
}

impl LiveHub {
    fn lock(&self) -> std::sync::MutexGuard<'_, Channels> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows a committed event.
    pub fn event(&self, seq: u64, at: Timestamp, event: Arc<RunEvent>) {
        let run = event.run_id().clone();
        let mut channels = self.lock();
        let body = FrameBody::Event { at, event };
        let ended = body.is_end();
        channels.channel(&run).push(index_of(seq), body, ended);
        if ended {
            channels.ended.push_back(run);
            if channels.ended.len() > ENDED_MAX
                && let Some(oldest) = channels.ended.pop_front()
            {
                channels.by_run.remove(&oldest);
            }
        }
    }

    /// Shows words of a model's unfinished answer.
    pub fn delta(&self, run: &RunId, step: u32, attempt: u32, reasoning: bool, text: &str) {
        let mut channels = self.lock();
        let channel = channels.channel(run);
        if channel.ended {
            return;
        }
        let index = channel.last_index + 1;
        channel.push(index, FrameBody::Delta { step, attempt, reasoning, text: text.into() }, false);
    }

    /// Watches a run from its first kept frame on. A run that has not begun may be watched too.
    #[must_use]
    pub fn subscribe(&self, run: &RunId) -> Subscription {
        let mut channels = self.lock();
        let changed = channels.channel(run).changed.subscribe();
        Subscription { hub: self.clone(), run: run.clone(), changed, next: 0 }
    }

    /// Forgets a run that was watched and never began.
    pub fn forget(&self, run: &RunId) {
        let mut channels = self.lock();
        if channels.by_run.get(run).is_some_and(|channel| channel.frames.is_empty()) {
            channels.by_run.remove(run);
        }
    }
}

impl Channel {
    fn push(&mut self, index: u64, body: FrameBody, ended: bool) {
        self.last_index = self.last_index.max(index);
        self.ended |= ended;
        self.frames.push_back(Frame { index, body });
        if self.frames.len() > FRAMES_MAX {
            self.frames.pop_front();
        }
        self.changed.send_replace(());
    }
}

/// A reader of one run's frames. It pulls at its own pace: a slow reader costs nothing but what is kept anyway.
#[derive(Debug)]
pub struct Subscription {
    hub: LiveHub,
    run: RunId,
    changed: watch::Receiver<()>,
    next: u64,
}

impl Subscription {
    /// Skips the frames up to and with `index`.
    pub fn skip_to(&mut self, index: u64) {
        self.next = self.next.max(index.saturating_add(1));
    }

    /// The frames that came since the last call; waits for at least one. Empty when the run has ended and
    /// all was read, or its frames are not kept any more. May be dropped at the await.
    pub async fn next(&mut self) -> Vec<Frame> {
        loop {
            self.changed.mark_unchanged();
            let (frames, over) = self.ready();
            if !frames.is_empty() || over {
                return frames;
            }
            if self.changed.changed().await.is_err() {
                return self.ready().0;
            }
        }
    }

    fn ready(&mut self) -> (Vec<Frame>, bool) {
        let channels = self.hub.lock();
        let Some(channel) = channels.by_run.get(&self.run) else {
            return (Vec::new(), true);
        };
        let start = channel.frames.partition_point(|frame| frame.index < self.next);
        let frames: Vec<_> = channel.frames.range(start..).cloned().collect();
        if let Some(last) = frames.last() {
            self.next = last.index + 1;
        }
        (frames, channel.ended)
    }
}
