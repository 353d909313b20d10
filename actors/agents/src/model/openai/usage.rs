//! Adds up usage without counting anything twice.
//!
//! Providers report once at the end, or running totals in every chunk, or once at the start and once at
//! the end. A count only grows while an answer is made, so the largest number of each kind is the true one
//! in every style; adding them would be wrong in all but the first.

use reenact_events::event::Usage;
use serde_json::Value;

/// What has been reported so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct UsageSoFar {
    input: Option<u64>,
    output: Option<u64>,
    total: Option<u64>,
    cache_read: Option<u64>,
    cache_write: Option<u64>,
    reasoning: Option<u64>,
}

impl UsageSoFar {
    /// Takes another report.
    pub(super) fn report(&mut self, usage: &Value) {
        let take = |count: &mut Option<u64>, pointers: &[&str]| {
            *count = pointers.iter().filter_map(|pointer| number(usage.pointer(pointer)?)).chain(*count).max();
        };
        take(&mut self.input, &["/prompt_tokens", "/input_tokens"]);
        take(&mut self.output, &["/completion_tokens", "/output_tokens"]);
        take(&mut self.total, &["/total_tokens"]);
        take(&mut self.cache_read, &["/prompt_tokens_details/cached_tokens", "/prompt_cache_hit_tokens"]);
        take(
            &mut self.cache_write,
            &["/prompt_tokens_details/cache_write_tokens", "/prompt_tokens_details/cache_creation_tokens"],
        );
        take(&mut self.reasoning, &["/completion_tokens_details/reasoning_tokens"]);
    }

    /// The whole, `None` when the provider did not say. Zeros all over are a way of not saying.
    pub(super) fn total(&self) -> Option<Usage> {
        let missing = |known: Option<u64>| self.total?.checked_sub(known?);
        let input_tokens = self.input.or_else(|| missing(self.output))?;
        let output_tokens = self.output.or_else(|| missing(self.input))?;
        let said = input_tokens > 0 || output_tokens > 0;
        said.then(|| Usage {
            input_tokens,
            output_tokens,
            cache_read_tokens: self.cache_read.unwrap_or(0),
            cache_write_tokens: self.cache_write.unwrap_or(0),
            reasoning_tokens: self.reasoning.unwrap_or(0),
        })
    }
}

/// A count; some servers write `12.0`.
fn number(value: &Value) -> Option<u64> {
    let whole = || value.as_f64().filter(|count| count.fract() == 0.0 && (0.0..1e15).contains(count));
    value.as_u64().or_else(|| format!("{}", whole()?).parse().ok())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn total(reports: &[Value]) -> Option<(u64, u64)> {
        let mut usage = UsageSoFar::default();
        reports.iter().for_each(|report| usage.report(report));
        usage.total().map(|usage| (usage.input_tokens, usage.output_tokens))
    }

    #[test]
    fn a16_every_style_of_reporting_gives_the_true_number() {
        let last = json!({"prompt_tokens": 100, "completion_tokens": 30, "total_tokens": 130});
        let cumulative: Vec<_> =
            (1..=30).map(|count| json!({"prompt_tokens": 100, "completion_tokens": count})).collect();
        let both_ends = [json!({"prompt_tokens": 100, "completion_tokens": 1}), last.clone()];
        let split = [json!({"prompt_tokens": 100}), json!({"completion_tokens": 30})];
        let zeros_after = [last.clone(), json!({"prompt_tokens": 0, "completion_tokens": 0})];
        for reports in [&[last][..], &cumulative, &both_ends, &split, &zeros_after] {
            assert_eq!(total(reports), Some((100, 30)));
        }
    }

    #[test]
    fn a16_what_was_not_said_is_unknown() {
        for unsaid in [json!({}), json!({"prompt_tokens": 0, "completion_tokens": 0}), json!("many"), json!(null)] {
            assert_eq!(total(&[unsaid]), None);
        }
        assert_eq!(total(&[json!({"completion_tokens": 30})]), None);
        assert_eq!(total(&[json!({"completion_tokens": 30.0, "total_tokens": 130})]), Some((100, 30)));
        assert_eq!(total(&[json!({"prompt_tokens": -1, "completion_tokens": "x"})]), None);
    }
}
