//! Starts runs and waits for their ends, as the HTTP side does.

use std::{ops::Range, sync::Arc};

use futures::{StreamExt, stream};
use reenact_actors::{api::Accepted, live::FrameBody};
use reenact_events::{
    Command, CommandBody, CommandId, RunId, SessionId, Text, UserId,
    agent::AgentSpec,
    command::{AgentRef, StartRun},
};

use crate::{deployment::Deployment, steps};

/// A client of one deployment.
pub(crate) struct Client<'a> {
    deployment: &'a Deployment,
    agent: Arc<AgentSpec>,
}

impl<'a> Client<'a> {
    pub(crate) fn of(deployment: &'a Deployment) -> Self {
        Self { deployment, agent: steps::agent() }
    }

    /// Starts a session's run number `number` and returns when that is durable.
    pub(crate) async fn begin(&self, session: &str, number: usize, message: &str) -> Accepted {
        self.begin_for(None, session, number, message).await
    }

    /// The same for a user.
    pub(crate) async fn begin_for(
        &self,
        user: Option<UserId>,
        session: &str,
        number: usize,
        message: &str,
    ) -> Accepted {
        let start = StartRun {
            session_id: SessionId::trusted(session),
            agent: AgentRef::Pinned(self.agent.clone()),
            input: Text::inline(message),
            media: Vec::new(),
            metadata: None,
            session_state: None,
            stream: false,
            background: true,
            output_schema: None,
            scheduled_by: None,
        };
        let id = command_id(session, number);
        let command = Command::new(id, user, CommandBody::StartRun(Box::new(start)));
        self.deployment.node.submit(command).await.expect("the run is accepted")
    }

    /// Does a run from its start to its end.
    pub(crate) async fn run(&self, session: &str, number: usize, message: &str) {
        let run = RunId::of_command(&command_id(session, number), &SessionId::trusted(session));
        let mut frames = self.deployment.node.live().subscribe(&run);
        self.begin(session, number, message).await;
        loop {
            let frames = frames.next().await;
            let is_end = |body: &FrameBody| matches!(body, FrameBody::Event { event, .. } if event.is_end());
            // Without frames the run has ended, and so many others after it that its frames are gone.
            if frames.is_empty() || frames.iter().any(|frame| is_end(&frame.body)) {
                return;
            }
        }
    }

    /// Does one run in each of many new sessions, so many at a time.
    pub(crate) async fn run_in_each(&self, sessions: Range<usize>, at_a_time: usize, message: &str) {
        let names = sessions.map(session_name);
        stream::iter(names)
            .for_each_concurrent(at_a_time, |name| async move { self.run(&name, 0, message).await })
            .await;
    }
}

fn command_id(session: &str, number: usize) -> CommandId {
    CommandId::trusted(&format!("{session}/{number}"))
}

/// A name as clients choose them: as long as a UUID, in no order.
pub(crate) fn session_name(number: usize) -> String {
    reenact_events::ids::derived("bench-session", &[&number.to_string()]).to_string()
}
