//! A01: a process dies after it accepted a run, and nothing durable says that the run existed.

use std::{collections::BTreeSet, time::Duration};

use futures::{StreamExt, future::join_all, stream::FuturesUnordered};
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use reenact_tests::stub::ModelStub;

use crate::support::{Product, agent_with_model, dice};

const KILLS: usize = 200;
/// So many deployments side by side, as a process that starts waits for the disk most of the time.
const SIDE_BY_SIDE: usize = 4;
/// Requests on their way at once in each life: some get their 202 before the kill and some do not.
const REQUESTS: usize = 3;
const KILL_WITHIN_US: u64 = 50_000;

#[tokio::test]
async fn a01_whatever_got_its_202_exists_and_ends_after_kills_right_behind_it() {
    let model = ModelStub::start().await;
    let mut dice = dice("a01");
    let worlds: Vec<_> = (0..SIDE_BY_SIDE)
        .map(|_| {
            (Product::new().agent("a", &agent_with_model(&model.base_url())), rand::SeedableRng::from_rng(&mut dice))
        })
        .collect();
    let seen = join_all(worlds.into_iter().map(|(product, dice)| killed_again_and_again(product, dice))).await;
    let (accepted, unknown) = seen.iter().fold((0, 0), |sum, seen| (sum.0 + seen.0, sum.1 + seen.1));
    println!("{accepted} runs were accepted, of {unknown} requests the answer was lost");
    assert!(accepted >= KILLS, "every life accepted a run");
}

/// How many runs were accepted, and of how many requests the answer was lost.
async fn killed_again_and_again(mut product: Product, mut dice: ChaCha8Rng) -> (usize, usize) {
    let (mut accepted, mut lost) = (Vec::new(), 0);
    for life in 0..KILLS / SIDE_BY_SIDE {
        product.start().await;
        let kill_after = Duration::from_micros(dice.random_range(0..=KILL_WITHIN_US));
        lost += REQUESTS;
        let runs = one_life(&mut product, life, kill_after).await;
        lost -= runs.len();
        accepted.extend(runs);
    }
    product.start().await;
    for run in &accepted {
        assert_eq!(product.settled(run).await["status"], "COMPLETED", "run `{run}`");
        product.get(&format!("/agents/a/runs/{run}")).await.expect(200);
    }
    let listed = listed(&product).await;
    for run in &listed {
        assert_eq!(product.settled(run).await["status"], "COMPLETED", "run `{run}`");
    }
    assert_eq!(listed, logged(&product), "what is in the log is in the API, and the other way round");
    (accepted.len(), lost)
}

/// Sends requests at once and kills the process a moment after the first 202; the runs that got theirs.
async fn one_life(product: &mut Product, life: usize, kill_after: Duration) -> Vec<String> {
    let requests = (0..REQUESTS).map(|number| product.background("a", &format!("s{life}-{number}"), "hello"));
    let mut answers: FuturesUnordered<_> = requests.map(Product::try_ask).collect();
    let mut runs = Vec::new();
    let first = answers.next().await.expect("there are requests").expect("nothing was killed yet");
    let mut take = |answer: crate::support::Answer| {
        runs.push(answer.expect(202).json()["run_id"].as_str().expect("a ticket names its run").to_owned());
    };
    take(first);
    let moment = tokio::time::sleep(kill_after);
    tokio::pin!(moment);
    loop {
        tokio::select! {
            biased;
            () = &mut moment => break,
            Some(answer) = answers.next() => take(answer.expect("nothing was killed yet")),
        }
    }
    product.kill_hard();
    while let Some(answer) = answers.next().await {
        answer.into_iter().for_each(&mut take);
    }
    runs
}

async fn listed(product: &Product) -> BTreeSet<String> {
    let mut runs = BTreeSet::new();
    for page in 1.. {
        let answer = product.get(&format!("/runs?limit=100&page={page}")).await.expect(200).json();
        let items = answer["data"].as_array().expect("a page");
        runs.extend(items.iter().map(|run| run["run_id"].as_str().expect("an id").to_owned()));
        if items.is_empty() {
            break;
        }
    }
    runs
}

fn logged(product: &Product) -> BTreeSet<String> {
    let events = product.events().into_iter();
    let queued = events.filter(|event| event["type"].as_str().is_some_and(|kind| kind.contains("run.queued")));
    queued.map(|event| event["run"].as_str().expect("a run's event names it").to_owned()).collect()
}
