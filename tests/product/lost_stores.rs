//! The state store and the views can be deleted, or damaged, at any moment: the log is the only truth, and
//! whatever could be read before reads the same afterwards.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use rand::Rng;
use rand_chacha::ChaCha8Rng;
use reenact_tests::stub::{ModelStub, Reply};
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    support::{Product, agent_with_model, dice},
    worker::{Decision, TOOLS, Worker, decide, moment},
};

/// Lives of the deployment that loses stores while it works.
const LIVES: usize = 12;
/// Larger than what stands in an event itself.
const LARGE_BYTES: usize = 100_000;

/// What happens to the data directory while nobody is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    State,
    Views,
    TheNameOfTheLiveViews,
    Both,
    ViewsWithoutTheirWriteAhead,
    WriteAheadWithoutItsViews,
    ViewsCutInHalf,
    StateOverwritten,
}

impl Loss {
    const ALL: [Self; 8] = [
        Self::State,
        Self::Views,
        Self::TheNameOfTheLiveViews,
        Self::Both,
        Self::ViewsWithoutTheirWriteAhead,
        Self::WriteAheadWithoutItsViews,
        Self::ViewsCutInHalf,
        Self::StateOverwritten,
    ];

    fn random(dice: &mut ChaCha8Rng) -> Self {
        Self::ALL[dice.random_range(0..Self::ALL.len())]
    }

    pub(crate) fn happen(self, data: &Path) {
        let pointer = data.join("views.db");
        let live = std::fs::read_link(&pointer).expect("it names the live views");
        let live = live.to_str().expect("a name");
        let views = || files(data).into_iter().filter(|file| name(file).starts_with(live));
        let remove = |file: PathBuf| std::fs::remove_file(file).expect("it can be deleted");
        match self {
            Self::State => std::fs::remove_dir_all(data.join("state")).expect("it can be deleted"),
            Self::Views => views().for_each(remove),
            Self::TheNameOfTheLiveViews => remove(pointer),
            Self::Both => {
                Self::State.happen(data);
                Self::Views.happen(data);
            }
            Self::ViewsWithoutTheirWriteAhead => views().filter(|file| name(file) != live).for_each(remove),
            Self::WriteAheadWithoutItsViews => remove(data.join(live)),
            Self::ViewsCutInHalf => cut(&data.join(live)),
            Self::StateOverwritten => files(&data.join("state")).iter().for_each(|file| overwrite(file)),
        }
    }
}

fn name(file: &Path) -> String {
    file.file_name().expect("a file has a name").to_string_lossy().into_owned()
}

/// All files below a folder.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("it is there") {
        let path = entry.expect("it can be listed").path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}

fn cut(file: &Path) {
    let file = std::fs::OpenOptions::new().write(true).open(file).expect("it is there");
    file.set_len(file.metadata().expect("it is there").len() / 2).expect("it can be cut");
}

/// Overwrites the second half of a file.
fn overwrite(file: &Path) {
    let mut bytes = std::fs::read(file).expect("it is there");
    let half = bytes.len() / 2;
    bytes[half..].fill(0xa5);
    std::fs::write(file, bytes).expect("it can be written");
}

/// Everything that can be read, by path.
pub(crate) async fn everything(product: &Product) -> BTreeMap<String, Value> {
    let mut read = BTreeMap::new();
    let mut paths = vec!["/sessions?limit=1000&sort_by=created_at".to_owned(), "/runs?limit=1000".to_owned()];
    while let Some(path) = paths.pop() {
        let mut answer = product.get(&path).await.expect(200).json();
        if let Some(meta) = answer.get_mut("meta").and_then(Value::as_object_mut) {
            meta.remove("search_time_ms");
        }
        for item in answer.get("data").and_then(Value::as_array).into_iter().flatten() {
            let (session, run) = (item["session_id"].as_str().expect("an id"), item["run_id"].as_str());
            let known = match run {
                None => vec![
                    format!("/sessions/{session}"),
                    format!("/sessions/{session}/runs"),
                    format!("/sessions/{session}/run-previews"),
                ],
                Some(run) => vec![format!("/runs/{run}"), format!("/sessions/{session}/runs/{run}")],
            };
            paths.extend(known);
            if let Some(run) = run {
                let agent = item["agent_id"].as_str().expect("an id");
                let path = format!("/agents/{agent}/runs/{run}/resume");
                read.insert(path.clone(), json!(product.post(&path, &[]).await.expect(200).text()));
            }
        }
        read.insert(path, answer);
    }
    read
}

/// Says what differs, and not all the rest.
fn same(before: &BTreeMap<String, Value>, after: &BTreeMap<String, Value>, why: Loss) {
    for (path, value) in before {
        assert_eq!(after.get(path), Some(value), "`{path}` after {why:?}");
    }
    assert_eq!(after.len(), before.len(), "after {why:?}");
}

/// A deployment that has something of every kind, and nothing at work.
async fn furnished(model: &ModelStub, worker: &Worker) -> Product {
    model.rule(|request| {
        let asked = request.messages().last().and_then(|last| last["content"].as_str()).unwrap_or_default();
        match asked {
            "fail" => Some(Reply::json(400, &json!({"error": {"message": "no"}}))),
            "wait" => Some(Reply::text("never").hang()),
            "large" => Some(Reply::text(&"large ".repeat(LARGE_BYTES / 6))),
            _ => None,
        }
    });
    let product = Product::new().agent("worker", &worker.toml()).agent("a", &agent_with_model(&model.base_url()));
    let mut product = product.started().await;
    for message in ["hello", "large", "fail"] {
        product.turn("a", "talk", message).await;
    }
    let fields = [
        ("message", "mine"),
        ("session_id", "alice's"),
        ("user_id", "alice"),
        ("metadata", "{\"k\": [1, 2.5]}"),
        ("session_state", "{\"n\": 1}"),
        ("stream", "false"),
    ];
    product.post("/agents/a/runs", &fields).await.expect(200);
    let rename = product.request(Method::POST, "/sessions/alice's/rename").json(&json!({"session_name": "Alice"}));
    Product::ask(rename).await.expect(200);
    product.turn("a", "gone", "forget me").await;
    Product::ask(product.request(Method::DELETE, "/sessions/gone")).await.expect(204);
    let cancelled = product.begin("a", "talk", "wait").await;
    model.wait_for(6).await;
    product.post(&format!("/agents/a/runs/{cancelled}/cancel"), &[]).await.expect(200);
    product.settled(&cancelled).await;
    product.turn("worker", "work", "work").await;
    // Killed while a call is made that must not be repeated: it waits for a decision from then on.
    worker.ledger.rule(|call| (call.path == format!("/{}", TOOLS[2])).then(|| Reply::text("late").hang()));
    let paused = product.begin("worker", "work", "work").await;
    worker.ledger.wait_for(2 * TOOLS.len()).await;
    product.crash().await;
    assert_eq!(product.settled(&paused).await["status"], "PAUSED");
    product
}

#[tokio::test]
async fn whatever_is_lost_beside_the_log_reads_stay_as_they_were() {
    let (model, worker) = (ModelStub::start().await, Worker::start().await);
    let mut product = furnished(&model, &worker).await;
    let before = everything(&product).await;
    for status in ["COMPLETED", "ERROR", "CANCELLED", "PAUSED"] {
        assert!(before.values().any(|answer| answer["status"] == status), "there is a run that is {status}");
    }
    for loss in Loss::ALL {
        product.kill_hard();
        loss.happen(&product.data());
        product.start().await;
        same(&before, &everything(&product).await, loss);
    }
    // What follows does not depend on the stores that were lost either.
    let after = product.turn("a", "talk", "and now?").await;
    assert_eq!(after["status"], "COMPLETED");
    let said = model.requests().pop().expect("it was asked").messages().to_vec();
    assert!(said.iter().any(|message| message["content"] == "hello"), "the history is that of before: {said:?}");
}

#[tokio::test]
async fn stores_that_are_lost_in_the_middle_of_runs_change_nothing_about_how_they_end() {
    let mut dice = dice("lost_stores");
    let worker = Worker::start().await;
    let mut product = Product::new().agent("worker", &worker.toml()).started().await;
    let mut runs: BTreeMap<String, Vec<Decision>> = BTreeMap::new();
    for life in 0..LIVES {
        for session in 0..2 {
            runs.insert(product.begin("worker", &format!("s{session}"), &format!("work {life}")).await, Vec::new());
        }
        tokio::time::sleep(moment(&mut dice)).await;
        product.kill_hard();
        let loss = Loss::random(&mut dice);
        println!("life {life} ends with {loss:?}");
        loss.happen(&product.data());
        // Half of the starts do not come to their end either.
        if dice.random_bool(0.5) {
            product.spawn();
            tokio::time::sleep(moment(&mut dice)).await;
            product.kill_hard();
        }
        product.start().await;
    }
    for (run, decisions) in &mut runs {
        loop {
            let output = product.settled(run).await;
            if output["status"] != "PAUSED" {
                assert_eq!(output["status"], "COMPLETED", "{output:#}");
                break;
            }
            let decision = Decision::random(&mut dice);
            decisions.push(decision);
            Product::ask(decide(&product, &output, decision)).await.expect(202);
        }
        worker.check(run, decisions);
    }
    // Words are shown as they came as long as the process lives that heard them: only the log's are compared.
    product.crash().await;
    let before = everything(&product).await;
    assert_eq!(before["/runs?limit=1000"]["meta"]["total_count"], runs.len());
    product.kill_hard();
    Loss::Both.happen(&product.data());
    product.start().await;
    same(&before, &everything(&product).await, Loss::Both);
}

#[tokio::test]
async fn an_object_store_that_was_emptied_is_told_at_the_start() {
    let mut product = Product::new().started().await;
    product.turn("demo", "s", "hello").await;
    product.crash().await;
    assert!(!product.said().contains("THE OBJECT STORE IS EMPTY"), "it is not");
    product.kill_hard();
    std::fs::remove_dir_all(product.data().join("blobs")).expect("it can be deleted");
    product.start().await;
    assert!(product.said().contains("THE OBJECT STORE IS EMPTY"), "{}", product.said());
}
