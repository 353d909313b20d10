//! What a server takes from the system's allocator.

use crate::support::Product;

#[tokio::test]
async fn a_server_has_few_arenas_and_is_still_the_process_that_was_started() {
    let server = Product::new().started().await;
    let environment = std::fs::read(format!("/proc/{}/environ", server.pid())).expect("it runs");
    let environment = String::from_utf8_lossy(&environment);
    assert!(environment.split('\0').any(|entry| entry == "MALLOC_ARENA_MAX=2"), "{environment}");
}
