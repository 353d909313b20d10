//! Tokens, summed. What nobody counted is unknown, which is not zero.

use std::collections::BTreeMap;

use reenact_events::{
    agent::ModelSpec,
    event::{AskedModel, StepCall, StepResult, Usage},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::run::RunView;

/// Sums of tokens; `None` while no call has said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Tokens {
    /// Read.
    pub input_tokens: Option<u64>,
    /// Written.
    pub output_tokens: Option<u64>,
    /// Both.
    pub total_tokens: Option<u64>,
    /// Read from the provider's cache, part of those read.
    pub cache_read_tokens: Option<u64>,
    /// Written to the provider's cache.
    pub cache_write_tokens: Option<u64>,
    /// Spent on thinking, part of those written.
    pub reasoning_tokens: Option<u64>,
}

fn sum(left: Option<u64>, right: Option<u64>) -> Option<u64> {
    match (left, right) {
        (Some(left), Some(right)) => Some(left.saturating_add(right)),
        (known, None) | (None, known) => known,
    }
}

impl From<Usage> for Tokens {
    fn from(usage: Usage) -> Self {
        Self {
            input_tokens: Some(usage.input_tokens),
            output_tokens: Some(usage.output_tokens),
            total_tokens: Some(usage.input_tokens.saturating_add(usage.output_tokens)),
            cache_read_tokens: Some(usage.cache_read_tokens),
            cache_write_tokens: Some(usage.cache_write_tokens),
            reasoning_tokens: Some(usage.reasoning_tokens),
        }
    }
}

impl Tokens {
    /// Both together; the known stays known beside the unknown.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            input_tokens: sum(self.input_tokens, other.input_tokens),
            output_tokens: sum(self.output_tokens, other.output_tokens),
            total_tokens: sum(self.total_tokens, other.total_tokens),
            cache_read_tokens: sum(self.cache_read_tokens, other.cache_read_tokens),
            cache_write_tokens: sum(self.cache_write_tokens, other.cache_write_tokens),
            reasoning_tokens: sum(self.reasoning_tokens, other.reasoning_tokens),
        }
    }

    /// What these are more than `before`, which is part of them.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        let more = |all: Option<u64>, before: Option<u64>| all.map(|all| all.saturating_sub(before.unwrap_or(0)));
        Self {
            input_tokens: more(self.input_tokens, before.input_tokens),
            output_tokens: more(self.output_tokens, before.output_tokens),
            total_tokens: more(self.total_tokens, before.total_tokens),
            cache_read_tokens: more(self.cache_read_tokens, before.cache_read_tokens),
            cache_write_tokens: more(self.cache_write_tokens, before.cache_write_tokens),
            reasoning_tokens: more(self.reasoning_tokens, before.reasoning_tokens),
        }
    }

    /// As a JSON object; unknown sums are null.
    #[must_use]
    pub fn to_map(self) -> Map<String, Value> {
        let mut map = Map::new();
        for (name, value) in [
            ("input_tokens", self.input_tokens),
            ("output_tokens", self.output_tokens),
            ("total_tokens", self.total_tokens),
            ("cache_read_tokens", self.cache_read_tokens),
            ("cache_write_tokens", self.cache_write_tokens),
            ("reasoning_tokens", self.reasoning_tokens),
        ] {
            map.insert(name.to_owned(), json!(value));
        }
        map
    }
}

/// What a run's model calls cost, by model, first tries and repeated ones apart: a repeat is paid as well.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ModelUsage(BTreeMap<(u32, bool), ModelCalls>);

/// The calls of one model, either first tries or later ones.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct ModelCalls {
    model: Option<AskedModel>,
    calls: Calls,
}

/// Some model calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Calls {
    /// How many.
    pub count: u64,
    /// How many of them did not say what they cost.
    pub unmetered: u64,
    /// What the others cost.
    pub tokens: Tokens,
}

impl Calls {
    fn add(&mut self, usage: Option<Usage>) {
        self.count += 1;
        match usage {
            Some(usage) => self.tokens = self.tokens.plus(usage.into()),
            None => self.unmetered += 1,
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            count: self.count + other.count,
            unmetered: self.unmetered + other.unmetered,
            tokens: self.tokens.plus(other.tokens),
        }
    }

    fn since(self, before: Self) -> Self {
        Self {
            count: self.count.saturating_sub(before.count),
            unmetered: self.unmetered.saturating_sub(before.unmetered),
            tokens: self.tokens.since(before.tokens),
        }
    }

    fn entry(self, id: Value, provider: Value, retried: bool) -> Value {
        let mut map = self.tokens.to_map();
        map.insert("id".to_owned(), id);
        map.insert("provider".to_owned(), provider);
        map.insert("calls".to_owned(), json!(self.count));
        map.insert("calls_without_usage".to_owned(), json!(self.unmetered));
        map.insert("retried".to_owned(), json!(retried));
        Value::Object(map)
    }
}

impl ModelUsage {
    /// Of a run.
    #[must_use]
    pub fn of(run: &RunView) -> Self {
        let mut usage = Self::default();
        for step in run.steps.values().filter(|step| matches!(step.call, StepCall::Model { .. })) {
            for (number, attempt) in &step.attempts {
                let place = attempt.model.as_ref().map_or(0, |model| model.place);
                let of_model = usage.0.entry((place, *number > 1)).or_default();
                of_model.model = of_model.model.take().or_else(|| attempt.model.clone());
                of_model.calls.add(attempt.usage);
            }
        }
        usage
    }

    /// What this is more than `before`, which is part of it.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let more = |(key, calls): (&(u32, bool), &ModelCalls)| {
            let calls = match before.0.get(key) {
                Some(before) => ModelCalls { model: calls.model.clone(), calls: calls.calls.since(before.calls) },
                None => calls.clone(),
            };
            (calls.calls.count > 0).then_some((*key, calls))
        };
        Self(self.0.iter().filter_map(more).collect())
    }

    /// The calls of each model, first tries and repeated ones together; `None` is the agent's own model, which calls do
    /// not name.
    pub fn by_model(&self) -> impl Iterator<Item = (Option<&AskedModel>, Calls)> {
        let mut models: BTreeMap<u32, (Option<&AskedModel>, Calls)> = BTreeMap::new();
        for ((place, _), of_model) in &self.0 {
            let (model, calls) = models.entry(*place).or_default();
            *model = model.or(of_model.model.as_ref());
            *calls = calls.plus(of_model.calls);
        }
        models.into_values()
    }

    /// All tokens.
    #[must_use]
    pub fn total(&self) -> Tokens {
        self.0.values().fold(Tokens::default(), |sum, of_model| sum.plus(of_model.calls.tokens))
    }

    /// `first` is the agent's own model: calls that do not say have asked it.
    fn details(&self, first: Option<&ModelSpec>) -> Value {
        let entry = |((_, retried), of_model): (&(u32, bool), &ModelCalls)| {
            let (id, provider) = match &of_model.model {
                Some(model) => (json!(model.id), json!(model.provider)),
                None => (json!(first.map(|model| &model.id)), json!(first.map(|model| &model.provider))),
            };
            of_model.calls.entry(id, provider, *retried)
        };
        json!({ "model": self.0.iter().map(entry).collect::<Vec<_>>() })
    }
}

/// A run's `metrics`; `first` is its agent's own model.
#[must_use]
pub fn run_metrics(run: &RunView, first: Option<&ModelSpec>) -> Value {
    let usage = ModelUsage::of(run);
    let mut map = usage.total().to_map();
    let duration = run.started.zip(run.ended).map(|(started, ended)| ended.ms_since(started));
    map.insert("time_to_first_token".to_owned(), json!(first_token_ms(run).map(seconds_u)));
    map.insert("duration".to_owned(), json!(duration.map(seconds)));
    map.insert("details".to_owned(), usage.details(first));
    Value::Object(map)
}

/// The `metrics` of one message.
#[must_use]
pub fn message_metrics(tokens: Option<Tokens>, duration_ms: Option<u64>, first_token_ms: Option<u64>) -> Value {
    let mut map = tokens.map(Tokens::to_map).unwrap_or_default();
    if let Some(first_token_ms) = first_token_ms {
        map.insert("time_to_first_token".to_owned(), json!(seconds_u(first_token_ms)));
    }
    map.insert("duration".to_owned(), json!(duration_ms.map(seconds_u)));
    Value::Object(map)
}

fn first_token_ms(run: &RunView) -> Option<u64> {
    let own = run.steps.values().filter(|step| !step.attempts.is_empty());
    own.into_iter().find_map(|step| match step.result {
        Some(StepResult::Model { first_token_ms, .. }) => first_token_ms,
        _ => None,
    })
}

fn seconds(ms: i64) -> f64 {
    seconds_u(ms.unsigned_abs())
}

/// Milliseconds as AgentOS's seconds. Exact for every span that fits 53 bits.
#[expect(clippy::cast_precision_loss, reason = "a span beyond 285,000 years may be rounded")]
fn seconds_u(ms: u64) -> f64 {
    ms as f64 / 1000.0
}
