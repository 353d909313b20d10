//! A count that is reported several times.
//!
//! Providers report once at the end, or running totals in every chunk, or once at the start and once at the end.
//! A count only grows while an answer is made, so the largest number is the true one in every style; adding them
//! would be wrong in all but the first.

use serde_json::Value;

/// The largest number that was reported of one kind of token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Count(Option<u64>);

impl Count {
    /// Takes what stands in `report` at any of these places.
    pub(super) fn report(&mut self, report: &Value, pointers: &[&str]) {
        self.0 = pointers.iter().filter_map(|pointer| number(report.pointer(pointer)?)).chain(self.0).max();
    }

    /// What is known.
    pub(super) fn known(self) -> Option<u64> {
        self.0
    }

    /// What is known, and nothing where nothing was said.
    pub(super) fn or_none(self) -> u64 {
        self.0.unwrap_or(0)
    }
}

/// A count; some servers write `12.0`.
fn number(value: &Value) -> Option<u64> {
    let whole = || value.as_f64().filter(|count| count.fract() == 0.0 && (0.0..1e15).contains(count));
    value.as_u64().or_else(|| format!("{}", whole()?).parse().ok())
}
