//! A11: a list of sessions or runs reads whole conversations, and gets slower with every turn that was ever taken.

use std::fmt::Write as _;

use reenact_tests::stub::{ModelStub, Reply};

use crate::{
    ground,
    support::{Product, agent_with_model},
};

const ANSWER_BYTES: usize = 50_000;
const SESSIONS: usize = 6;
const TURNS_SHORT: usize = 2;
const TURNS_LONG: usize = 20;
/// A list may be so much larger when the sessions are longer, in percent: numbers have more digits.
const GROWTH_MAX: usize = 110;

/// How large the answers of the lists are.
async fn sizes(product: &Product) -> Vec<(String, usize)> {
    let mut sizes = Vec::new();
    for path in ["/sessions?limit=6", "/sessions?limit=6&sort_by=updated_at", "/runs?limit=6", "/queue/jobs?limit=6"] {
        sizes.push((path.to_owned(), product.get(path).await.expect(200).text().len()));
    }
    sizes
}

async fn turns(product: &Product, from: usize, to: usize) {
    for number in from..to {
        let sessions = (0..SESSIONS).map(|session| async move {
            let (name, mut message) = (format!("session-{session}"), String::new());
            write!(message, "turn {number:03} {}", "q".repeat(2_000)).expect("texts grow");
            assert_eq!(product.turn("a", &name, &message).await["status"], "COMPLETED");
        });
        futures::future::join_all(sessions).await;
    }
}

#[tokio::test]
async fn a11_lists_of_long_sessions_answer_as_much_as_those_of_short_ones() {
    let model = ModelStub::start().await;
    model.otherwise(Reply::text(&"a".repeat(ANSWER_BYTES)));
    let product = ground::product().agent("a", &agent_with_model(&model.base_url())).started().await;
    turns(&product, 0, TURNS_SHORT).await;
    let short = sizes(&product).await;
    turns(&product, TURNS_SHORT, TURNS_LONG).await;
    for ((path, short), (_, long)) in short.into_iter().zip(sizes(&product).await) {
        assert!(long * 100 <= short * GROWTH_MAX, "{path}: {long} bytes, of short sessions {short}");
        assert!(short < SESSIONS * ANSWER_BYTES, "{path}: {short} bytes hold the conversations");
    }
}
