//! Everything that happens to one run, from its first event on, for one reader: what is stored, what the
//! live hub kept, then what comes.
//!
//! The hub has every frame since this process began, less the oldest of a long run; the views have every
//! event. A reader needs the views for what the hub does not have: the two overlap, and the fold drops what
//! it met before.

use std::{collections::VecDeque, time::Duration};

use futures::FutureExt;
use reenact_actors::live::{DELTA_BITS, FRAMES_MAX, Frame, FrameBody, Subscription};
use reenact_events::{RunEvent, RunId, event::RunStatus};
use reenact_projections::query::Scope;

use super::{
    error::ApiError,
    frames::{self, Frames, Identity, WireFrame},
    state::{READ_WAIT, Services},
};

/// How often the views are asked whether they have reached a frame of the hub.
const POLL: Duration = Duration::from_millis(5);

/// What [`Feed::next`] brings.
#[derive(Debug)]
pub enum Batch {
    /// Frames; possibly none that this reader is to see.
    Frames(Vec<WireFrame>),
    /// The reader was so slow that frames were dropped: it must come back with the last index it saw.
    Cut,
    /// The run has ended or waits, and everything was brought.
    End,
}

/// One reader's view of a run.
#[derive(Debug)]
pub struct Feed {
    fold: Frames,
    kept: VecDeque<Frame>,
    live: Subscription,
    complete: bool,
}

impl Feed {
    /// A feed for a run that is about to be started. It must exist before the command is submitted, so that
    /// nothing is missed.
    #[must_use]
    pub fn of_new_run(services: &Services, who: Identity) -> Self {
        let live = services.node.live().subscribe(&who.run_id);
        Self { fold: Frames::new(who, None), kept: VecDeque::new(), live, complete: true }
    }

    /// A feed for a run that exists, for a reader that has seen everything up to and with `floor`.
    ///
    /// # Errors
    /// When the views cannot be read or do not come as far as the hub in time.
    pub async fn of_run(
        services: &Services,
        scope: &Scope,
        who: Identity,
        floor: Option<u64>,
    ) -> Result<Self, ApiError> {
        let run = who.run_id.clone();
        let mut live = services.node.live().subscribe(&run);
        let kept: VecDeque<_> = live.next().now_or_never().unwrap_or_default().into();
        let from_the_start = kept.front().is_some_and(is_first);
        let mut all =
            if from_the_start { VecDeque::new() } else { stored(services, scope, &run, kept.front()).await? };
        if let Some(first) = kept.front() {
            let first = first.index;
            all.retain(|frame| frame.index < first);
        }
        all.extend(kept);
        let complete = !all.is_empty();
        Ok(Self { fold: Frames::new(who, floor), kept: all, live, complete })
    }

    /// The same reader's feed, taken up again behind what it has brought.
    ///
    /// # Errors
    /// As [`Feed::of_run`].
    pub async fn again(&self, services: &Services, scope: &Scope) -> Result<Self, ApiError> {
        let mut feed = Self::of_run(services, scope, self.fold.who().clone(), self.last_index()).await?;
        feed.backlog();
        Ok(feed)
    }

    /// Folds what is there already; the frames that the reader has not seen.
    pub fn backlog(&mut self) -> Vec<WireFrame> {
        let kept = std::mem::take(&mut self.kept);
        kept.iter().flat_map(|frame| self.fold.fold(frame)).collect()
    }

    /// Where the run is after what was brought.
    #[must_use]
    pub fn status(&self) -> RunStatus {
        self.fold.status()
    }

    /// The run.
    #[must_use]
    pub fn run_id(&self) -> &RunId {
        self.fold.run_id()
    }

    /// The index of the last thing that was brought.
    #[must_use]
    pub fn last_index(&self) -> Option<u64> {
        self.fold.last_index()
    }

    /// Whether anything is known of the run.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.complete
    }

    /// Whether the run goes on by itself.
    #[must_use]
    pub fn goes_on(&self) -> bool {
        matches!(self.status(), RunStatus::Pending | RunStatus::Running)
    }

    /// The feed of a paused run after a decision: what comes next is waited for although the pause is the
    /// last thing that was brought.
    #[must_use]
    pub fn going_on(mut self) -> Self {
        self.fold.go_on();
        self
    }

    /// Waits for what comes next. May be dropped at the await.
    pub async fn next(&mut self) -> Batch {
        if !self.goes_on() {
            return Batch::End;
        }
        let frames = self.live.next().await;
        if frames.is_empty() {
            return Batch::End;
        }
        // The hub drops the oldest frames of a full ring without a word; a full ring is taken for that.
        if frames.len() >= FRAMES_MAX {
            return Batch::Cut;
        }
        Batch::Frames(frames.iter().flat_map(|frame| self.fold.fold(frame)).collect())
    }

    /// Waits until reads see what was brought: nobody who was told of a run's end is to read that it goes on.
    /// A run that was deleted meanwhile is not waited for.
    ///
    /// # Errors
    /// When the views cannot be read or do not come that far in time.
    pub async fn visible(&self, services: &Services, scope: &Scope) -> Result<(), ApiError> {
        let (run, views) = (self.run_id(), &services.views);
        let Some(last) = self.last_index() else { return Ok(()) };
        // The acceptance is one of the things that are waited for: what is not there afterwards is gone.
        services.caught_up(None).await?;
        let before = (last >> DELTA_BITS).checked_sub(1);
        let deadline = tokio::time::Instant::now() + READ_WAIT;
        while views.run_events(scope, run, before).await?.is_empty() && views.run(scope, run).await?.is_some() {
            if tokio::time::Instant::now() >= deadline {
                return Err(ApiError::unavailable("the views are behind: read the run again", 1).named("views_lag"));
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }

    /// Waits until the run ends or pauses; its status then.
    pub async fn settled(&mut self) -> RunStatus {
        self.backlog();
        while !matches!(self.next().await, Batch::End) {}
        self.status()
    }
}

fn is_first(frame: &Frame) -> bool {
    matches!(&frame.body, FrameBody::Event { event, .. } if matches!(**event, RunEvent::Queued(_)))
}

/// The stored events, at least as far as the hub's first kept frame.
async fn stored(
    services: &Services,
    scope: &Scope,
    run: &RunId,
    kept: Option<&Frame>,
) -> Result<VecDeque<Frame>, ApiError> {
    let wanted_seq = kept.map(|frame| frame.index >> DELTA_BITS);
    let deadline = tokio::time::Instant::now() + READ_WAIT;
    loop {
        let rows = services.views.run_events(scope, run, None).await?;
        let reached = rows.last().map(|row| row.seq);
        if wanted_seq.is_none() || reached >= wanted_seq || tokio::time::Instant::now() >= deadline {
            if reached < wanted_seq {
                return Err(ApiError::unavailable("the views are behind the live stream", 1).named("views_lag"));
            }
            let frames = rows.iter().filter_map(|row| frames::of_row(row).transpose()).collect::<Result<_, _>>();
            return frames.map_err(|error| ApiError::internal("a stored event cannot be read", &error));
        }
        tokio::time::sleep(POLL).await;
    }
}
