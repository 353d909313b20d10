//! The part of a run's decisions that is about its answer: whether it is what was asked for.
//!
//! An answer that does not fit its schema is told to the model once, as a further turn; what comes then counts.

use std::sync::Arc;

use reenact_events::{
    Text,
    agent::Guarded,
    event::{Failure, RunCompleted},
};

use super::Draft;
use crate::run::state::Step;

/// How often a run tells its model that an answer does not fit.
const REPAIRS_MAX: usize = 1;

impl Draft<'_> {
    /// The model has answered without calling tools: the run ends, unless it is to answer once more.
    pub(super) fn answered(&mut self, last: &Step, at: u32, content: Text) {
        let Some(reason) = &last.unfit else {
            if !self.passes(Guarded::Output, at) {
                return;
            }
            let json = self.run.output_schema(&self.context.agent).is_some();
            return self.push(RunCompleted { run_id: self.run_id(), content, json });
        };
        let unfit = self.new_steps().filter(|step| step.unfit.is_some()).count();
        if unfit <= REPAIRS_MAX { self.request_model() } else { self.fail(misses_schema(reason)) }
    }
}

fn misses_schema(reason: &Arc<str>) -> Failure {
    let message = format!(
        "the model's answer does not fit the output schema, and did not either after it was told what is wrong: \
         {reason}. Look at its answers in the run's messages; a simpler schema or another model may help"
    );
    Failure { kind: "output_invalid".into(), message: message.into(), status: None }
}
