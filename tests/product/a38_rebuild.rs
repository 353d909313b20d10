//! A38: the tables that people read were rebuilt in place, so that readers met empty and half-filled ones, and how far
//! they were behind was nowhere to be seen. Here another generation is filled beside the live one and swapped to, under
//! full load.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use reqwest::Method;
use serde_json::Value;

use crate::{
    ground,
    support::{POLL, Product},
};

/// Rebuilds and swaps while runs are accepted and lists are read.
const ROUNDS: usize = 2;
/// Runs that are there before.
const RUNS: usize = 12;

/// The generations, each with how far it is behind.
pub(crate) async fn generations(product: &Product) -> Vec<Value> {
    let answer = product.get("/projections").await.expect(200).json();
    let generations = answer["generations"].as_array().expect("a list").clone();
    assert!(generations.iter().all(|one| one["lag"].is_u64()), "the lag of each is told: {answer:#}");
    assert_eq!(generations.iter().filter(|one| one["live"] == true).count(), 1, "one is live: {answer:#}");
    generations
}

pub(crate) async fn live(product: &Product) -> u64 {
    let generations = generations(product).await;
    let live = generations.iter().find(|one| one["live"] == true).expect("one is live");
    live["generation"].as_u64().expect("a number")
}

/// Waits until a rebuild has come to the log's end.
pub(crate) async fn following(product: &Product, number: u64) {
    loop {
        let generations = generations(product).await;
        let one = generations.iter().find(|one| one["generation"] == number);
        let stage = one.map(|one| one["rebuild"]["stage"].clone());
        if stage == Some(Value::from("following")) {
            return;
        }
        assert_ne!(stage, Some(Value::from("failed")), "{generations:?}");
        tokio::time::sleep(POLL).await;
    }
}

pub(crate) async fn swap(product: &Product, number: u64, status: u16) -> Value {
    product.post(&format!("/projections/{number}/swap?wait_s=60"), &[]).await.expect(status).json()
}

async fn runs(product: &Product) -> usize {
    let list = product.get("/runs?limit=1").await.expect(200).json();
    let count = list["meta"]["total_count"].as_u64().expect("a count");
    usize::try_from(count).expect("small")
}

#[tokio::test]
async fn a38_a_rebuild_under_load_is_read_old_or_new_and_never_less() {
    let product = ground::product().started().await;
    let (accepted, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    for number in 0..RUNS {
        product.begin("demo", &format!("s{}", number % 3), "What is 6*7?").await;
        accepted.fetch_add(1, Ordering::SeqCst);
    }
    let load = async {
        let mut begun = Vec::new();
        while !is_over.load(Ordering::SeqCst) {
            begun.push(product.begin("demo", &format!("s{}", begun.len() % 3), "What is 6*7?").await);
            accepted.fetch_add(1, Ordering::SeqCst);
        }
        begun
    };
    let reads = async {
        let mut least = 0;
        while !is_over.load(Ordering::SeqCst) {
            // What was acknowledged is read at once, on whichever generation.
            let wanted = accepted.load(Ordering::SeqCst);
            let found = runs(&product).await;
            assert!(found >= wanted.max(least), "{found} runs are read, and {wanted} and {least} were there before");
            least = found;
        }
    };
    let rebuilds = async {
        for _ in 0..ROUNDS {
            let old = live(&product).await;
            let begun = product.post("/projections/rebuild", &[]).await.expect(202).json();
            let number = begun["generation"].as_u64().expect("a number");
            let refused = product.post("/projections/rebuild", &[]).await.expect(409).json();
            assert_eq!(refused["error_id"], "rebuild_running", "{refused}");
            following(&product, number).await;
            swap(&product, number, 200).await;
            assert_eq!(live(&product).await, number);
            swap(&product, old, 200).await;
            swap(&product, number, 200).await;
            let refused = product.post(&format!("/projections/{number}/swap"), &[]).await.expect(409).json();
            assert_eq!(refused["error_id"], "generation_live", "{refused}");
            let drop = product.request(Method::DELETE, &format!("/projections/{old}"));
            Product::ask(drop).await.expect(204);
        }
        is_over.store(true, Ordering::SeqCst);
    };
    let (begun, (), ()) = tokio::join!(load, reads, rebuilds);
    for run in &begun {
        assert_eq!(product.settled(run).await["status"], "COMPLETED");
    }
    assert_eq!(runs(&product).await, accepted.load(Ordering::SeqCst));
    let verified = product.run(&["audit", "verify"]);
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
    // A stopped deployment has its rows folded and swapped from the command line.
    let mut product = product;
    product.kill_hard();
    let data = product.data();
    let data = data.to_str().expect("UTF-8");
    for arguments in [&["projections", "rebuild", "--data", data][..], &["projections", "list", "--data", data]] {
        let done = product.run(arguments);
        assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    }
    let (kept, next) = (ROUNDS + 1, (ROUNDS + 2).to_string());
    let swapped = product.run(&["projections", "swap", &next, "--data", data]);
    assert!(swapped.status.success(), "{}", String::from_utf8_lossy(&swapped.stderr));
    product.start().await;
    assert_eq!(live(&product).await.to_string(), next);
    assert_eq!(runs(&product).await, accepted.load(Ordering::SeqCst));
    let drop = product.request(Method::DELETE, &format!("/projections/{kept}"));
    Product::ask(drop).await.expect(204);
}
