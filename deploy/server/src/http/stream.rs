//! A run as server-sent events.

use std::{collections::VecDeque, convert::Infallible, sync::Arc, time::Duration};

use axum::response::{
    IntoResponse, Response,
    sse::{self, KeepAlive, Sse},
};
use reenact_events::{Command, CommandBody, CommandId, RunId, SessionId, UserId};
use reenact_projections::query::Scope;
use serde::Serialize;
use serde_json::json;
use utoipa::ToSchema;

use super::{
    feed::{Batch, Feed},
    frames::WireFrame,
    state::{App, Services},
};

/// A silent stream says something this often, so that no proxy takes it for dead.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// One frame as it is sent.
#[derive(Debug, Serialize, ToSchema)]
pub struct SentEvent {
    /// The `event_index`, which a reader that comes back may send as `Last-Event-ID`; none of what is sent again.
    #[schema(nullable = false)]
    pub id: Option<String>,
    /// What it tells of, as in `data`.
    pub event: String,
    /// The frame, as JSON.
    pub data: String,
}

/// Stops an inline run when the reader that it was started for leaves before its end.
pub struct CancelOnLeave {
    app: App,
    services: Arc<Services>,
    command: Option<Command>,
}

impl CancelOnLeave {
    /// A guard for `run_id`, armed.
    #[must_use]
    pub fn new(
        app: App,
        services: Arc<Services>,
        user_id: Option<UserId>,
        session_id: SessionId,
        run_id: RunId,
    ) -> Self {
        let id = CommandId::trusted(&format!("left:{run_id}"));
        let body = CommandBody::CancelRun {
            session_id: Some(session_id),
            run_id,
            reason: Some("the client left".into()),
            asked: 0,
        };
        Self { app, services, command: Some(Command::new(id, user_id, body)) }
    }

    /// Lets the run go on: it was not begun, has ended, or waits.
    pub fn disarm(&mut self) {
        self.command = None;
    }
}

impl Drop for CancelOnLeave {
    fn drop(&mut self) {
        let Some(command) = self.command.take() else { return };
        // A process that goes down breaks its own connections: the run goes on at the next start.
        if self.app.is_leaving() {
            return;
        }
        let services = self.services.clone();
        tokio::spawn(async move {
            if let Err(error) = services.submit(command).await {
                tracing::warn!(?error, "a run could not be cancelled after its reader left");
            }
        });
    }
}

struct Reader {
    app: App,
    services: Arc<Services>,
    scope: Scope,
    feed: Feed,
    guard: Option<CancelOnLeave>,
    ready: VecDeque<WireFrame>,
    over: bool,
    visible: bool,
}

/// Streams `first`, then what the feed brings until the run ends or pauses.
pub fn respond(
    app: App,
    services: Arc<Services>,
    scope: Scope,
    feed: Feed,
    guard: Option<CancelOnLeave>,
    first: Vec<WireFrame>,
) -> Response {
    let over = !feed.goes_on();
    let reader = Reader { app, services, scope, feed, guard, ready: first.into(), over, visible: false };
    let events = futures::stream::unfold(reader, |mut reader| async move {
        let event = reader.next().await?;
        Some((Ok::<_, Infallible>(event), reader))
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE).text("keepalive")).into_response()
}

impl Reader {
    async fn next(&mut self) -> Option<sse::Event> {
        loop {
            if self.over && !self.visible {
                self.become_visible().await;
            }
            if let Some(frame) = self.ready.pop_front() {
                return Some(self.filled(frame).await.into_sse());
            }
            if self.over {
                self.disarm();
                return None;
            }
            self.wait().await;
        }
    }

    /// The end is told when it can be read everywhere. When it cannot in time, it is told all the same.
    async fn become_visible(&mut self) {
        self.visible = true;
        if let Err(error) = self.feed.visible(&self.services, &self.scope).await {
            tracing::warn!(?error, "the end of a stream is shown before the views have it");
        }
    }

    async fn wait(&mut self) {
        let gone = self.app.gone();
        let batch = tokio::select! {
            biased;
            batch = self.feed.next() => batch,
            () = gone.cancelled() => {
                self.disarm();
                self.finish("stream_expired", "the server is shutting down; the run goes on after its restart");
                return;
            }
        };
        match batch {
            Batch::Frames(frames) => {
                self.ready.extend(frames);
                self.over = !self.feed.goes_on();
            }
            Batch::Cut => self.finish("stream_expired", "this reader was too slow, frames were dropped"),
            Batch::End if self.feed.goes_on() => {
                self.finish("stream_expired", "the live stream of this run is not kept any more");
            }
            Batch::End => self.over = true,
        }
        if self.over {
            self.disarm();
        }
    }

    fn finish(&mut self, name: &'static str, why: &str) {
        let message = format!("{why}: resume with `last_event_index`");
        let status = self.feed.status().as_str();
        self.ready.push_back(WireFrame::control(name, json!({"status": status, "message": message})));
        (self.over, self.visible) = (true, true);
    }

    fn disarm(&mut self) {
        if let Some(guard) = &mut self.guard {
            guard.disarm();
        }
    }

    /// The state of the session is not among the run's own events: the run's row has it as it was at the end. An end
    /// that the views do not have in time is told without.
    async fn with_session_state(&self, frame: WireFrame) -> WireFrame {
        match self.services.views.run(&self.scope, self.feed.run_id()).await {
            Ok(Some(mut row)) if row.run_data["session_state"].is_object() => {
                frame.with_session_state(row.run_data["session_state"].take())
            }
            Ok(_) => frame,
            Err(error) => {
                tracing::warn!(?error, "the end of a stream is shown without the session's state");
                frame
            }
        }
    }

    async fn filled(&mut self, mut frame: WireFrame) -> WireFrame {
        if frame.name == "RunCompleted" {
            frame = self.with_session_state(frame).await;
        }
        match frame.filled(&*self.services.blobs).await {
            Ok(frame) => frame,
            Err(error) => {
                tracing::error!(%error, "a text of a live stream cannot be read");
                WireFrame::control("error", json!({"error": format!("a stored text cannot be read: {error}")}))
            }
        }
    }
}
