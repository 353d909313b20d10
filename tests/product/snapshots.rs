//! A node without a state store starts from a snapshot and folds what came after it. One that is damaged costs a
//! warning and time.

use std::path::{Path, PathBuf};

use reenact_tests::stub::ModelStub;

use crate::{
    lost_stores::{Loss, everything, files},
    support::{Product, agent_with_model},
};

/// Runs before the hand-over: each has several events, and a tenth of a snapshot's are enough to make one then.
const RUNS: usize = 12;

fn snapshots(folder: &Path) -> Vec<PathBuf> {
    let mut found = files(folder);
    found.sort();
    found
}

/// What the last restore said of itself.
fn said_last(product: &Product, what: &str) -> String {
    let said = product.said();
    said.lines().rfind(|line| line.contains(what)).unwrap_or_else(|| panic!("no `{what}` in:\n{said}")).to_owned()
}

fn number(line: &str, field: &str) -> u64 {
    let rest = line.split_once(&format!("{field}=")).unwrap_or_else(|| panic!("no `{field}` in {line}")).1;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect("a number")
}

#[tokio::test]
async fn a_node_without_its_state_starts_from_the_newest_snapshot_that_is_whole() {
    let model = ModelStub::start().await;
    let shelf = tempfile::tempdir().expect("a folder");
    let product = Product::new().agent("a", &agent_with_model(&model.base_url()));
    let product = product
        .set("REENACT_SNAPSHOTS", format!("file://{}", shelf.path().display()))
        .set("REENACT_SNAPSHOT_EVENTS", 50);
    let mut product = product.started().await;
    for _ in 0..2 {
        for session in 0..RUNS {
            product.turn("a", &format!("s{session}"), "hello").await;
        }
        // At an orderly end one is made.
        product.term();
        product.ended(crate::support::PATIENCE).await;
        product.start().await;
    }
    let before = everything(&product).await;
    assert!(snapshots(shelf.path()).len() >= 2);

    product.kill_hard();
    Loss::State.happen(&product.data());
    product.start().await;
    let restored = said_last(&product, "a partition is restored");
    let offset = number(&said_last(&product, "restored from snapshot"), "offset");
    assert_eq!(number(&restored, "from"), offset);
    // Nothing but claims came after it.
    assert!(number(&restored, "folded") < 5, "{restored}");
    assert_eq!(everything(&product).await, before);

    product.kill_hard();
    Loss::State.happen(&product.data());
    let newest = snapshots(shelf.path()).pop().expect("there is one");
    let mut bytes = std::fs::read(&newest).expect("it can be read");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&newest, bytes).expect("it can be written");
    product.start().await;
    let warned = said_last(&product, "a snapshot is passed over");
    assert!(warned.contains(newest.file_name().and_then(|name| name.to_str()).expect("a name")), "{warned}");
    let older = number(&said_last(&product, "restored from snapshot"), "offset");
    assert!(older < offset, "an older one was used: {older}, {offset}");
    assert_eq!(everything(&product).await, before);

    product.kill_hard();
    Loss::State.happen(&product.data());
    snapshots(shelf.path()).iter().for_each(|file| std::fs::write(file, b"rubbish").expect("it can be written"));
    product.start().await;
    assert_eq!(number(&said_last(&product, "a partition is restored"), "from"), 0);
    assert_eq!(everything(&product).await, before);
}
