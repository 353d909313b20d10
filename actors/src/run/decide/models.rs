//! The part of a run's decisions that is about its models: which is asked, with how much, and what follows a failure.
//!
//! | A call failed | What follows |
//! |---|---|
//! | for a reason that may pass, and there are retries left | the same model after a pause |
//! | because the conversation is too long | the same model with less of it, at most twice in a run |
//! | else, in a way that another model may not | the next model, at once |
//! | else | the run ends |
//!
//! What a run gave up it does not try again: its later turns begin with the model and the trim that it had come to,
//! and so does an actor that comes to it after a crash. So no run meets the same failure at every turn, and the number
//! of calls is bounded by what the agent's file says of each model.

use std::sync::Arc;

use reenact_events::{
    StepToken, Timestamp,
    event::{AskedModel, Failure, StepCall, StepFailed},
};

use super::{BACKOFF_MS_MAX, Draft, RETRY_AFTER_MS_MAX};
use crate::{
    run::{
        state::{Asked, GivenUp, Step},
        trim::TRIMS_MAX,
    },
    step::StepError,
};

/// What a model that does not fit says.
const TOO_LONG: &str = "context_overflow";

/// Failures of one model or of its account, of which nothing follows for another. A request that was refused for what
/// it says, or for rules of conduct, is not passed on.
const OF_ONE_MODEL: &[&str] = &[
    TOO_LONG,
    "model_answer_too_large",
    "model_auth",
    "model_nonsense",
    "model_stream_cut",
    "model_timeout",
    "model_unavailable",
    "model_unreachable",
    "quota_exhausted",
    "rate_limited",
];

/// What follows a failed call.
enum Next {
    /// The same call, then.
    Later(Timestamp),
    /// Another call, at once.
    Now(Asked),
    /// Nothing.
    Never,
}

impl Draft<'_> {
    pub(super) fn request_model(&mut self) {
        let turn = self.run.progress.turns;
        let limit = self.context.agent.limits.turns;
        if turn - self.run.progress.old_turns >= limit {
            return self.fail(Failure {
                kind: "turn_limit".into(),
                message: format!(
                    "the run asked the model {limit} times without coming to an answer; raise `limits.turns` of \
                     agent `{}` if that is meant to be",
                    self.context.agent.id
                )
                .into(),
                status: None,
            });
        }
        let before = self.run.progress.last_turn.and_then(|step| Some((step, self.run.step(step)?.asked)));
        let asked = match before {
            // Models that were given up may be there again.
            Some((step, asked)) if self.is_old(step) => Asked { place: 0, ..asked },
            Some((_, asked)) => asked,
            None => Asked::default(),
        };
        self.request(self.run.progress.steps, 1, StepCall::Model { turn }, asked);
    }

    /// The model as its request names it.
    pub(super) fn named(&self, asked: Asked) -> Option<AskedModel> {
        let model = self.context.agent.model_at(asked.place)?;
        let (id, provider) = (model.id.as_str().into(), model.provider.as_str().into());
        Some(AskedModel { place: asked.place, id, provider, trims: asked.trims })
    }

    pub(super) fn model_failed(&mut self, step: u32, error: StepError, trim: Option<u32>) {
        let Some(known) = self.run.step(step).cloned() else { return };
        let next = self.next_call(step, &known, &error, trim);
        let retry_at = match &next {
            Next::Later(at) => Some(*at),
            Next::Now(_) => Some(self.context.now),
            Next::Never => None,
        };
        let StepError { failure, usage, .. } = error;
        let attempt = known.attempt;
        self.push(StepFailed { run_id: self.run_id(), step, attempt, error: failure, retry_at, usage });
        if let Next::Now(asked) = next {
            self.request(step, attempt + 1, known.call.clone(), asked);
        }
        self.advance();
    }

    fn next_call(&self, step: u32, known: &Step, error: &StepError, trim: Option<u32>) -> Next {
        let Asked { place, trims } = known.asked;
        if let Some(at) = self.retry_at(step, known, error) {
            return Next::Later(at);
        }
        let less = trim.filter(|less| *less > trims && *less <= TRIMS_MAX);
        if let Some(trims) = less.filter(|_| &*error.failure.kind == TOO_LONG) {
            return Next::Now(Asked { place, trims });
        }
        let another = self.context.agent.model_at(place + 1).is_some();
        match another && is_of_one_model(&error.failure) {
            true => Next::Now(Asked { place: place + 1, trims }),
            false => Next::Never,
        }
    }

    /// When the same call is due again: as the provider asks, else after a pause that doubles.
    fn retry_at(&self, step: u32, known: &Step, error: &StepError) -> Option<Timestamp> {
        let retries = self.context.agent.model_at(known.asked.place).map_or(0, |model| model.retries);
        if !error.retryable || known.failures >= retries {
            return None;
        }
        let wait_ms = match error.retry_after_ms {
            Some(asked) if asked > RETRY_AFTER_MS_MAX => return None,
            Some(asked) => i64::try_from(asked).unwrap_or(BACKOFF_MS_MAX),
            None => {
                let spread = i64::from(StepToken::of_step(self.run.id(), step).0.as_bytes()[0]);
                (500_i64 << known.failures.min(6)).saturating_add(spread).min(BACKOFF_MS_MAX)
            }
        };
        Some(self.context.now.plus_ms(wait_ms))
    }

    /// Why the run ends whose latest turn failed: with each model that was asked and its reason, when there are several.
    pub(super) fn out_of_models(&self, last: &Step, error: Failure) -> Failure {
        let given_up: Vec<_> = self.new_steps().flat_map(|step| &step.given_up).collect();
        let trimmed = last.asked.trims > 0 && &*error.kind == TOO_LONG;
        let error = if trimmed { also_trimmed(error) } else { error };
        if given_up.is_empty() {
            return error;
        }
        let last = GivenUp { place: last.asked.place, error };
        let reasons: Vec<_> = given_up.into_iter().chain([&last]).map(|model| self.reason(model)).collect();
        let message = format!("no model answered. {}", reasons.join(". ")).into();
        Failure { kind: "models_failed".into(), message, status: None }
    }

    /// The steps since the run was last queued.
    pub(super) fn new_steps(&self) -> impl Iterator<Item = &Arc<Step>> {
        self.run.steps.iter().skip(self.run.progress.old_steps as usize)
    }

    fn reason(&self, given_up: &GivenUp) -> String {
        let (kind, message) = (&given_up.error.kind, &given_up.error.message);
        match self.context.agent.model_at(given_up.place) {
            Some(model) => format!("`{}` of `{}` ({kind}): {message}", model.id, model.provider),
            None => format!("model {} ({kind}): {message}", given_up.place),
        }
    }
}

/// Whether another model may do better.
fn is_of_one_model(failure: &Failure) -> bool {
    let is_unknown = &*failure.kind == "model_refused" && failure.status == Some(404);
    is_unknown || OF_ONE_MODEL.contains(&&*failure.kind)
}

fn also_trimmed(error: Failure) -> Failure {
    let message: Arc<str> = format!("{} (less of it was sent too)", error.message).into();
    Failure { message, ..error }
}
