//! A12: each turn re-writes the whole conversation, and reading its end gets slower with its length.

use reenact_tests::stub::{ModelStub, Reply};

use crate::support::{Product, agent_with_model};

const TURNS: usize = 300;
const TURN_BYTES: usize = 2_000;
/// A late turn may cost so much of an early one, in percent.
const GROWTH_MAX: u64 = 130;
/// Where early and late turns are, counted from 1.
const EARLY: std::ops::Range<usize> = 10..30;
const LATE: std::ops::Range<usize> = 280..300;
/// Long enough that each holds its share of what is done only now and then, such as checkpoints.
const FIRST_THIRD: std::ops::Range<usize> = 1..101;
const LAST_THIRD: std::ops::Range<usize> = 201..301;

#[tokio::test]
async fn a12_a_late_turn_writes_reads_and_asks_no_more_than_an_early_one() {
    let model = ModelStub::start().await;
    model.otherwise(Reply::text(&"a".repeat(TURN_BYTES)));
    let product = Product::new().agent("a", &agent_with_model(&model.base_url())).started().await;
    let mut written = vec![written_by(&product)];
    let mut early_reads = Vec::new();
    for turn in 1..=TURNS {
        let message = format!("turn {turn} {}", "q".repeat(TURN_BYTES));
        assert_eq!(product.turn("a", "long", &message).await["status"], "COMPLETED");
        written.push(written_by(&product));
        if turn == EARLY.end {
            early_reads = reads(&product).await;
        }
    }
    let turns: Vec<u64> = written.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let of = |range: &std::ops::Range<usize>| turns[range.start - 1..range.end - 1].to_vec();
    let (early, late) = (median(of(&EARLY)), median(of(&LATE)));
    let (first, last): (u64, u64) = (of(&FIRST_THIRD).iter().sum(), of(&LAST_THIRD).iter().sum());
    println!("bytes written: {early} for an early turn, {late} for a late one, {first} and {last} in all of a third");
    assert!(late * 100 <= early * GROWTH_MAX, "a late turn wrote {late} bytes, an early one {early}");
    assert!(last * 100 <= first * GROWTH_MAX, "the last third wrote {last} bytes, the first {first}");

    for (early, late) in early_reads.into_iter().zip(reads(&product).await) {
        assert!(late * 100 <= early * GROWTH_MAX, "reading the last ten turns takes {late} bytes, it took {early}");
    }
    let asked: Vec<_> = model.requests().iter().map(|request| request.messages().len()).collect();
    assert_eq!(asked[EARLY.start], asked[TURNS - 1], "the model is shown as much as the agent's history says");
}

/// All bytes that the process has handed to the system so far, whatever file they went to.
fn written_by(product: &Product) -> u64 {
    let told = std::fs::read_to_string(format!("/proc/{}/io", product.pid())).expect("Linux tells");
    let bytes = told.lines().find_map(|line| line.strip_prefix("wchar: ")).expect("it tells what was written");
    bytes.parse().expect("a number")
}

/// How large the newest ten runs are, as both lists show them.
async fn reads(product: &Product) -> Vec<u64> {
    let whole = product.get("/sessions/long/runs?limit=10").await.expect(200);
    let short = product.get("/runs?session_id=long&limit=10").await.expect(200);
    assert_eq!(whole.json().as_array().map(Vec::len), Some(10));
    assert_eq!(short.json()["data"].as_array().map(Vec::len), Some(10));
    [whole, short].iter().map(|answer| answer.body.len() as u64).collect()
}

fn median(mut numbers: Vec<u64>) -> u64 {
    numbers.sort_unstable();
    numbers[numbers.len() / 2]
}
