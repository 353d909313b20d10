//! Tokens as chat completions servers report them: each in its own place, and in four styles of when.

use reenact_events::event::Usage;
use serde_json::Value;

use crate::model::counts::Count;

/// What has been reported so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct UsageSoFar {
    input: Count,
    output: Count,
    total: Count,
    cache_read: Count,
    cache_write: Count,
    reasoning: Count,
}

impl UsageSoFar {
    /// Takes another report.
    pub(super) fn report(&mut self, usage: &Value) {
        self.input.report(usage, &["/prompt_tokens", "/input_tokens"]);
        self.output.report(usage, &["/completion_tokens", "/output_tokens"]);
        self.total.report(usage, &["/total_tokens"]);
        self.cache_read.report(usage, &["/prompt_tokens_details/cached_tokens", "/prompt_cache_hit_tokens"]);
        self.cache_write.report(
            usage,
            &["/prompt_tokens_details/cache_write_tokens", "/prompt_tokens_details/cache_creation_tokens"],
        );
        self.reasoning.report(usage, &["/completion_tokens_details/reasoning_tokens"]);
    }

    /// The whole, `None` when the provider did not say. Zeros all over are a way of not saying.
    pub(super) fn total(&self) -> Option<Usage> {
        let missing = |known: Count| self.total.known()?.checked_sub(known.known()?);
        let input_tokens = self.input.known().or_else(|| missing(self.output))?;
        let output_tokens = self.output.known().or_else(|| missing(self.input))?;
        let said = input_tokens > 0 || output_tokens > 0;
        said.then(|| Usage {
            input_tokens,
            output_tokens,
            cache_read_tokens: self.cache_read.or_none(),
            cache_write_tokens: self.cache_write.or_none(),
            reasoning_tokens: self.reasoning.or_none(),
        })
    }
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
