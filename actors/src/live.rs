//! Live streams: the frames of a run as they happen, kept for a while so that a reader can come back.
//!
//! Every frame has a strictly increasing index, `(sequence of the latest durable event of the stream << 20) +
//! number of the delta after it`. It needs no counter that would have to survive, and only grows.
//!
//! Where several nodes share the work, each sends its frames to the others, so that any of them can be
//! watched. A frame that was lost on the way cuts the readers off; they come back with the last index they saw.

mod codec;
mod relay;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use reenact_events::{LiveBus, RunEvent, RunId, Timestamp};
use tokio::{sync::watch, time::Instant};
use uuid::Uuid;

use relay::Outlet;
pub(crate) use relay::relay;

/// Bits of a frame's index that number the deltas after an event.
pub const DELTA_BITS: u32 = 20;
/// Frames kept per run; the oldest deltas go first.
pub const FRAMES_MAX: usize = 20_000;

/// Frames kept of another node's run that nobody watches here.
const UNWATCHED_MAX: usize = 256;
/// Another node's run that nobody watches and that says nothing for so long is forgotten.
const SILENCE_MAX: Duration = Duration::from_secs(15 * 60);

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

    /// The run had ended, and goes on.
    fn is_requeue(&self) -> bool {
        matches!(self, Self::Event { event, .. } if matches!(**event, RunEvent::Requeued(_)))
    }
}

#[derive(Debug)]
struct Channel {
    frames: VecDeque<Frame>,
    last_index: u64,
    ended: bool,
    /// The last event came from another node: it owns the run.
    foreign: bool,
    /// Another node owned the run, or may have: what it showed last may not have come yet.
    unsure: bool,
    heard_at: Instant,
    /// Another life has other frames: whoever reads the one before is cut off.
    life: u64,
    changed: watch::Sender<()>,
}

/// All runs that are being watched or at work in this process, and those of the other nodes.
#[derive(Debug, Clone, Default)]
pub struct LiveHub {
    channels: Arc<Mutex<Channels>>,
    outlet: Option<Arc<Outlet>>,
}

#[derive(Debug, Default)]
struct Channels {
    by_run: BTreeMap<RunId, Channel>,
    ended: VecDeque<RunId>,
    lives: u64,
}

/// Ended runs whose frames are kept.
const ENDED_MAX: usize = 256;

impl Channels {
    fn channel(&mut self, run: &RunId) -> &mut Channel {
        let lives = &mut self.lives;
        self.by_run.entry(run.clone()).or_insert_with(|| {
            *lives += 1;
            Channel {
                frames: VecDeque::new(),
                last_index: 0,
                ended: false,
                foreign: false,
                unsure: false,
                heard_at: Instant::now(),
                life: *lives,
                changed: watch::Sender::new(()),
            }
        })
    }

    /// The run has ended: its frames are kept until enough others have.
    fn keep_ended(&mut self, run: RunId) {
        self.ended.push_back(run);
        if self.ended.len() > ENDED_MAX
            && let Some(oldest) = self.ended.pop_front()
        {
            self.by_run.remove(&oldest);
        }
    }
}

impl LiveHub {
    fn lock(&self) -> std::sync::MutexGuard<'_, Channels> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A hub that shares its frames with other nodes; `node` names this life of this node.
    #[must_use]
    pub fn shared(bus: Arc<dyn LiveBus>, node: Uuid) -> Self {
        Self { channels: Arc::default(), outlet: Some(Arc::new(Outlet { bus, node })) }
    }

    /// Shows a committed event.
    ///
    /// What the owner before has shown may still be on its way, and would come behind this. Only an event that follows
    /// directly on the last one that is here is known to leave nothing out; before any other the channel begins anew.
    pub fn event(&self, seq: u64, at: Timestamp, event: Arc<RunEvent>) {
        let run = event.run_id().clone();
        let is_first = matches!(*event, RunEvent::Queued(_));
        let frame = Frame { index: index_of(seq), body: FrameBody::Event { at, event } };
        let mut channels = self.lock();
        let channel = channels.channel(&run);
        let ends = !channel.ended && frame.body.is_end();
        let begins_anew = channel.ended && frame.body.is_requeue();
        if channel.may_lack_what_is_before(seq) {
            channels.by_run.remove(&run);
        }
        let channel = channels.channel(&run);
        let after = (is_first || channel.last_index > 0).then_some(channel.last_index);
        (channel.foreign, channel.unsure) = (false, false);
        channel.push(frame.clone());
        if begins_anew {
            channels.ended.retain(|ended| *ended != run);
        }
        if ends {
            channels.keep_ended(run.clone());
        }
        // Under the lock, so that frames leave in the order of their indexes; it never waits.
        if let Some(outlet) = &self.outlet {
            outlet.send(&run, after, frame);
        }
    }

    /// Shows words of a model's unfinished answer.
    pub fn delta(&self, run: &RunId, step: u32, attempt: u32, reasoning: bool, text: &str) {
        let mut channels = self.lock();
        let channel = channels.channel(run);
        // The words of an owner that was replaced are void.
        if channel.ended || channel.foreign {
            return;
        }
        let after = channel.last_index;
        let frame = Frame { index: after + 1, body: FrameBody::Delta { step, attempt, reasoning, text: text.into() } };
        channel.push(frame.clone());
        if let Some(outlet) = &self.outlet {
            outlet.send(run, Some(after), frame);
        }
    }

    /// Shows a frame of another node. What is behind what was shown already is of an owner that was replaced.
    fn foreign(&self, run: &RunId, after: Option<u64>, frame: Frame) {
        let mut channels = self.lock();
        let channel = channels.channel(run);
        let begins_anew = channel.ended && frame.body.is_requeue();
        if channel.ended && !begins_anew || frame.index <= channel.last_index {
            return;
        }
        let lost = after.is_none_or(|after| after > channel.last_index);
        if lost {
            channels.by_run.remove(run);
        }
        let channel = channels.channel(run);
        channel.foreign |= matches!(frame.body, FrameBody::Event { .. });
        channel.unsure = true;
        let ends = frame.body.is_end();
        channel.push(frame);
        if channel.changed.receiver_count() == 0 {
            while channel.frames.len() > UNWATCHED_MAX {
                channel.frames.pop_front();
            }
        }
        if begins_anew {
            channels.ended.retain(|ended| ended != run);
        }
        if ends {
            channels.keep_ended(run.clone());
        }
    }

    /// Forgets other nodes' runs of which nothing was heard for long and that nobody watches.
    fn forget_silent(&self) {
        let keep = |channel: &Channel| {
            let needed = !channel.foreign || channel.ended || channel.changed.receiver_count() > 0;
            needed || channel.heard_at.elapsed() < SILENCE_MAX
        };
        self.lock().by_run.retain(|_, channel| keep(channel));
    }

    /// A partition has become ours: others may have owned it meanwhile, whose frames have not come yet.
    pub fn owner_is_new(&self) {
        self.lock().by_run.values_mut().for_each(|channel| channel.unsure = true);
    }

    /// Watches a run from its first kept frame on. A run that has not begun may be watched too.
    #[must_use]
    pub fn subscribe(&self, run: &RunId) -> Subscription {
        let mut channels = self.lock();
        let channel = channels.channel(run);
        let (changed, life) = (channel.changed.subscribe(), channel.life);
        Subscription { hub: self.clone(), run: run.clone(), life, changed, next: 0 }
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
    /// Whether an event of ours would leave out something that another owner has shown.
    fn may_lack_what_is_before(&self, seq: u64) -> bool {
        self.unsure && self.frames.back().is_some_and(|last| (last.index >> DELTA_BITS) + 1 < seq)
    }

    fn push(&mut self, frame: Frame) {
        self.last_index = self.last_index.max(frame.index);
        self.ended = frame.body.is_end() || self.ended && !frame.body.is_requeue();
        self.heard_at = Instant::now();
        self.frames.push_back(frame);
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
    life: u64,
    changed: watch::Receiver<()>,
    next: u64,
}

impl Subscription {
    /// Skips the frames up to and with `index`.
    pub fn skip_to(&mut self, index: u64) {
        self.next = self.next.max(index.saturating_add(1));
    }

    /// The frames that came since the last call; waits for at least one. Empty when the run has ended and
    /// all was read, its frames are not kept any more, or one of them was lost between the nodes. May be dropped at the await.
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
        let Some(channel) = channels.by_run.get(&self.run).filter(|channel| channel.life == self.life) else {
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
