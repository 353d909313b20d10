//! Models and tools over real sockets, answering as oddly as servers in the field do.

mod anthropic;
mod demo;
mod gemini;
mod http_tool;
mod model_answers;
mod model_failures;
mod model_requests;
// Scripted servers on axum. No room may depend on the tests, so this one compiles their file.
#[path = "../../../../tests/src/stub/mod.rs"]
#[allow(
    dead_code,
    unused_imports,
    unreachable_pub,
    reason = "it is public in the product's tests, which use the rest of it"
)]
mod stub;
mod support;
