//! Answers that must be JSON of a given schema.
//!
//! A model whose answer does not fit is told what is wrong, once. The event of its answer holds only the reason; the
//! words round it stand here, since who builds the conversation and who shows it must say the same.

/// What a model is told whose answer does not fit.
#[must_use]
pub fn repair_request(unfit: &str) -> String {
    format!(
        "Your answer does not fit the JSON Schema that is asked for: {unfit}. Answer again with one JSON value that \
         fits it, and nothing else."
    )
}
