//! What one node cannot show: that it makes no difference which one a reader comes back to.

use std::time::Duration;

use reenact_tests::stub::{ModelStub, Reply};

use crate::{
    ground,
    reader::{Reader, in_order, indexed, last_index, run_of, words},
    support::agent_with_model,
};

const TEXT: &str = "one two three four five six seven eight nine ten eleven twelve";

#[tokio::test]
async fn a07_whoever_comes_back_to_another_node_has_seen_what_the_others_have() {
    let model = ModelStub::start().await;
    model.otherwise(Reply::text(TEXT).pause(Duration::from_millis(50)));
    let (prefix, objects) = (ground::deployment(), tempfile::tempdir().expect("a folder"));
    let node = |name: &str| {
        let node = ground::node(name, &prefix).agent("a", &agent_with_model(&model.base_url()));
        node.set("REENACT_OBJECTS", objects.path().display())
    };
    let (a, b) = (node("a").started().await, node("b").started().await);
    let mut seen = Reader::begin(&a, "s", "count").await.until("RunContent", 3).await;
    let run = run_of(&seen);
    seen.extend(Reader::resume(&b, &run, last_index(&seen)).await.until("RunContent", 3).await);
    seen.extend(Reader::resume(&a, &run, last_index(&seen)).await.rest().await);
    in_order(&indexed(&seen));
    assert_eq!(words(&seen), TEXT);
    for node in [&a, &b] {
        let whole = Reader::resume(node, &run, None).await.rest().await;
        assert_eq!(indexed(&whole), indexed(&seen));
    }
    assert_eq!(model.requests().len(), 1);
}
