//! What an embedded log was made with stays, and is found out before anything is done.

use std::fs;

use crate::{
    erasure::{MARKER, said, say},
    world::World,
};

#[tokio::test]
async fn a_log_keeps_the_content_that_it_was_made_with() {
    let mut plain = World::with("").await;
    say(&plain, "alice", "s", MARKER, &[]).await;
    let refused = plain.product.run(&["users", "erase", "alice", "--yes"]);
    assert_eq!(refused.status.code(), Some(1), "{}", said(&refused));
    assert!(said(&refused).contains("sessions purge"), "{}", said(&refused));
    plain.product.kill_hard();
    plain.product = plain.product.set("REENACT_CONTENT", "per_user_key");
    plain.product.spawn();
    assert!(!plain.product.ready_or_ended().await);
    assert!(plain.product.said().contains("made with `--content plain`"), "{}", plain.product.said());

    let mut sealed = World::set("", |product| product.set("REENACT_CONTENT", "per_user_key")).await;
    say(&sealed, "alice", "s", MARKER, &[]).await;
    sealed.product.kill_hard();
    sealed.product = sealed.product.set("REENACT_CONTENT", "plain");
    sealed.product.spawn();
    assert!(!sealed.product.ready_or_ended().await);
    assert!(sealed.product.said().contains("say `--content per_user_key`"), "{}", sealed.product.said());
    sealed.product.kill_hard();
    sealed.product = sealed.product.set("REENACT_CONTENT", "per_user_key");
    let keys = sealed.product.data().join("keys.db");
    for end in ["", "-wal", "-shm"] {
        let file = keys.with_file_name(format!("keys.db{end}"));
        if file.exists() {
            fs::rename(&file, file.with_extension(format!("away{end}"))).expect("moves");
        }
    }
    sealed.product.spawn();
    assert!(!sealed.product.ready_or_ended().await);
    assert!(sealed.product.said().contains("the keys are lost"), "{}", sealed.product.said());
}
