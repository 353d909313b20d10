//! Tokens and times, of one model request and of the whole run.

use reenact_events::event::Usage;
use serde_json::{Map, Value, json};

use super::{frame::WireFrame, tools::seconds};

/// What a run has used so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Totals {
    usage: Usage,
    first_token_ms: Option<u64>,
}

impl Totals {
    pub(super) fn add(&mut self, usage: Option<&Usage>, first_token_ms: Option<u64>) {
        self.first_token_ms = self.first_token_ms.or(first_token_ms);
        if let Some(usage) = usage {
            self.usage.input_tokens += usage.input_tokens;
            self.usage.output_tokens += usage.output_tokens;
            self.usage.cache_read_tokens += usage.cache_read_tokens;
            self.usage.cache_write_tokens += usage.cache_write_tokens;
            self.usage.reasoning_tokens += usage.reasoning_tokens;
        }
    }

    /// AgentOS's `RunMetrics`; what is zero or unknown is left out.
    pub(super) fn metrics(&self, duration_ms: Option<i64>) -> Value {
        let mut metrics = counts(&self.usage);
        if let Some(ms) = self.first_token_ms {
            metrics.insert("time_to_first_token".to_owned(), json!(seconds(ms)));
        }
        if let Some(ms) = duration_ms {
            metrics.insert("duration".to_owned(), json!(seconds(ms.unsigned_abs())));
        }
        Value::Object(metrics)
    }
}

/// Puts what one request used into its frame.
pub(super) fn of_request(mut frame: WireFrame, usage: Option<&Usage>, first_token_ms: Option<u64>) -> WireFrame {
    for (name, value) in usage.map(counts).unwrap_or_default() {
        frame = frame.with(&name, value);
    }
    match first_token_ms {
        Some(ms) => frame.with("time_to_first_token", json!(seconds(ms))),
        None => frame,
    }
}

fn counts(usage: &Usage) -> Map<String, Value> {
    let counts = [
        ("input_tokens", usage.input_tokens),
        ("output_tokens", usage.output_tokens),
        ("total_tokens", usage.input_tokens + usage.output_tokens),
        ("cache_read_tokens", usage.cache_read_tokens),
        ("cache_write_tokens", usage.cache_write_tokens),
        ("reasoning_tokens", usage.reasoning_tokens),
    ];
    counts.into_iter().filter(|(_, count)| *count > 0).map(|(name, count)| (name.to_owned(), json!(count))).collect()
}
