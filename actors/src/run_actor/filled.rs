//! Decisions that change what a held call is made with. The arguments are put together and checked against the tool
//! before anything is decided, so that what is recorded is what the call is made with.

use std::collections::BTreeMap;

use reenact_events::{RawJson, Text, command::Decision, event::StepCall, hold::Verdict};

use super::RunWork;
use crate::{
    api::{Refusal, SubmitError},
    run::{RunCommand, StepState},
};

impl RunWork {
    /// The command with each decision's arguments whole.
    pub(super) async fn with_arguments(&self, command: RunCommand) -> Result<RunCommand, SubmitError> {
        let RunCommand::Resolve { mut decisions, by, has_slot } = command else { return Ok(command) };
        for decision in &mut decisions {
            self.fill(decision).await?;
        }
        Ok(RunCommand::Resolve { decisions, by, has_slot })
    }

    async fn fill(&self, decision: &mut Decision) -> Result<(), SubmitError> {
        let Decision { tool_call_id, verdict: Verdict::Confirmed { arguments: given, input } } = decision else {
            return Ok(());
        };
        if given.is_none() && input.is_none() {
            return Ok(());
        }
        let held = self.run.open_steps().find_map(|(_, step)| match (&step.state, &step.call) {
            (StepState::Held(_), StepCall::Tool { call_id, name, arguments, .. }) if call_id == tool_call_id => {
                Some((name, arguments))
            }
            _ => None,
        });
        // What is not held cannot be filled in: the decision says so.
        let Some((name, asked)) = held else { return Ok(()) };
        let unfit = |why: &str| SubmitError::Refused(Refusal::unfit(self.run.id(), tool_call_id, why));
        let tool = self.agent.tool(name).ok_or_else(|| unfit(&format!("there is no tool `{name}`")))?;
        let blobs = &*self.partition.shared.tools.blobs;
        let store = |error: reenact_events::BlobError| SubmitError::Unavailable { reason: error.to_string().into() };
        let text = given.as_ref().unwrap_or(asked).load(blobs).await.map_err(store)?;
        let whole = match input {
            Some(input) => merged(&text, input).map_err(|error| unfit(&format!("{error}")))?,
            None => text.to_string(),
        };
        let checked = self.partition.shared.tools.steps.check_arguments(tool, &whole).map_err(|why| unfit(&why))?;
        *given = Some(Text::keep(&checked, self.run.origin.user_id.as_ref(), blobs).await.map_err(store)?);
        Ok(())
    }
}

/// One object of both, every value as it was written.
fn merged(arguments: &str, input: &RawJson) -> Result<String, serde_json::Error> {
    let mut whole: BTreeMap<String, RawJson> = serde_json::from_str(arguments)?;
    whole.extend(serde_json::from_str::<BTreeMap<String, RawJson>>(input.as_str())?);
    serde_json::to_string(&whole)
}
